"""What a worker or verifier process answers. Nothing in here is believed for being said: the engine checks counts,
clocks and hashes, and the verifier judges the outputs.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec

from aisp.engine.protocol.jobs import Blob
from aisp.store.outcomes import Held, TolerancePolicy


class Report(msgspec.Struct, tag_field="type", frozen=True, kw_only=True):
    """Base of all reports."""


class Ready(Report, tag="ready", frozen=True, kw_only=True):
    """The process stands ready: torch imported, context made where there is a GPU, no lesson loaded."""

    pid: int
    torch: str
    cuda: str  # CUDA version torch was built for, "" for a CPU build
    gpu_name: str = ""
    gpu_uuid: str = ""
    sm: int | None = None
    memory_bytes: int | None = None
    l2_bytes: int | None = None
    cores: list[int] = []  # that the process may run on
    note: str = ""  # why CUDA cannot be used here
    versions: dict[str, str] = {}
    confined: int = 0  # the version of Landlock that keeps it from writing elsewhere; 0: nothing does
    held: list[Held] = []  # what it is held from in a role of one rank


class Loaded(Report, tag="loaded", frozen=True, kw_only=True):
    """The module was imported."""

    import_ms: float


class ImportsTold(Report, tag="imports_told", frozen=True, kw_only=True):
    """What a process that has seen no lesson runs: file names as the file system gives them.

    Attributes:
        path: its import path.
        files: sources, extensions and compiled files of its modules, and whatever else it has mapped.
    """

    path: list[bytes]
    files: list[bytes]


class Expected(Report, tag="expected", frozen=True, kw_only=True):
    """The reference was computed."""

    nbytes: int


class Taken(Report, tag="taken", frozen=True, kw_only=True):
    """Inputs are on the device."""

    nbytes: int


class Prepared(Report, tag="prepared", frozen=True, kw_only=True):
    """What is timed was called once. `for_buffers`: it came from prepare(), which saw the buffers; else it is run()."""

    prepare_ms: float
    for_buffers: bool


class Executed(Report, tag="executed", frozen=True, kw_only=True):
    """Outputs lie in the blob. `fingerprint` holds a few random projections of them per output."""

    outputs: Blob
    fingerprint: list[float]
    peak_bytes: int | None = None


class WarmedUp(Report, tag="warmed_up", frozen=True, kw_only=True):
    """Time per call, wall clock per sample (refill, flush and fingerprint included), and how samples will be
    taken (store.outcomes.Timing).

    Attributes:
        reference_mhz: highest SM clock under light load; NaN where unknown.
        resolution_ms, overhead_ms: see store.record.Quality.
        probe_step_ms, probe_overhead_ms: see checks.registry.ArmFacts.
    """

    per_call_ms: float
    per_sample_ms: float
    calls: int
    timing: str
    reference_mhz: float
    resolution_ms: float | None
    overhead_ms: float | None
    probe_step_ms: float | None = None
    probe_overhead_ms: float | None = None


class PairsRead(Report, tag="pairs_read", frozen=True, kw_only=True):
    """What an event pair reads beyond the kernel between its events; None where that cannot be said, and why."""

    pair_ms: float | None
    note: str = ""


class Grouped(Report, tag="grouped", frozen=True, kw_only=True):
    """How samples will be taken from now on.

    Attributes:
        kind: "graph", "batch" or "single": less than was asked for where that is impossible.
        note: why it is less, "" where it is not.
        overhead_ms: as in WarmedUp, of these samples.
    """

    kind: str
    calls: int
    per_sample_ms: float
    timing: str
    overhead_ms: float | None = None
    note: str = ""


class Samples(Report, tag="samples", frozen=True, kw_only=True):
    """Some samples of a turn, as parallel lists, times per call.

    Attributes:
        calls: in each sample.
        sets: of every call in order, `calls` entries a sample.
        sm_clock_mhz, probe_ms, cycles: see store.samples.Samples; NaN where unknown.
        fingerprints: flat, `width` numbers for every call.
        last: whether this ends the turn.
        start_ns: when the calls began, on a clock that the ranks share; set by ranks, as the first of them began.
        rank_ms, rank_late_us, rank_clock_mhz: see store.samples.Samples, a list for each sample; the engine sets them
            side by side, and no process may set them.
    """

    round: int
    calls: int
    sets: list[int]
    device_ms: list[float]
    host_ms: list[float]
    end_ns: list[int]
    discarded: list[int]
    sm_clock_mhz: list[float]
    probe_ms: list[float]
    cycles: list[float]
    fingerprints: list[float]
    width: int
    last: bool
    start_ns: list[int] = []
    rank_ms: list[list[float]] = []
    rank_late_us: list[list[float]] = []
    rank_clock_mhz: list[list[float]] = []


class Sustained(Report, tag="sustained", frozen=True, kw_only=True):
    """The calls were made and the device is idle."""

    calls: int


class BatchesServed(Report, tag="batches_served", frozen=True, kw_only=True):
    """The judge has had enough."""


class Traced(Report, tag="traced", frozen=True, kw_only=True):
    """Calls were recorded; `Inspected` has what sensors noted."""


class BatchesTimed(Report, tag="batches_timed", frozen=True, kw_only=True):
    """What the judge saw of a worker's batches.

    Attributes:
        slopes_ms: time per call, from each pair of batches; what copies took is taken off.
        copies_ms: how much that was.
        calls: N.
        held, clones: see engine.protocol.jobs.TimeBatches.
        sets: sets of inputs that there was memory for, where more calls would have been in a batch else; 0 where that
            made no difference.
        read: outputs that were read and compared.
        judged: what is wrong with them; where all are right, of the last one. None where none was read.
        inside: why there is nothing of this ("its inputs lie in host memory"); "" where there is.
        task: that is so of the task, whatever a rung does.
        gone: why the worker did not come to the end; "" where it did.
    """

    slopes_ms: list[float] = []
    copies_ms: float = 0.0
    calls: int = 0
    held: bool = True
    clones: bool = False
    sets: int = 0
    read: int = 0
    judged: Judged | None = None
    inside: str = ""
    task: bool = False
    gone: str = ""


class Sensed(msgspec.Struct, frozen=True, kw_only=True):
    """What the sensors of one process noted, by sensor's name; see checks.registry.Sensed.

    Attributes:
        facts: each as it was encoded: checks.registry.received decodes it as the struct of its sensor.
        failed: why a sensor could not note.
    """

    facts: dict[str, msgspec.Raw] = {}
    failed: dict[str, str] = {}


class Inspected(Report, tag="inspected", frozen=True, kw_only=True):
    """What sensors noted.

    Attributes:
        sensed: of each rank.
        cost_us: mean time that a sensor took around one sample.
    """

    sensed: list[Sensed]
    cost_us: dict[str, float] = {}


class TaskInspected(Report, tag="task_inspected", frozen=True, kw_only=True):
    """What the task itself is like: checks.registry.TaskFacts, as it was encoded."""

    facts: msgspec.Raw


class NaiveMeasured(Report, tag="naive_measured", frozen=True, kw_only=True):
    """See store.record.Naive."""

    base_ms: float | None
    time_ms: float | None
    accepts: bool | None
    note: str = ""


class LastOutputs(Report, tag="last_outputs", frozen=True, kw_only=True):
    """The last timed call's outputs, and the set it ran on (-1: nothing was timed)."""

    outputs: Blob
    set_index: int


class Posed(Report, tag="posed", frozen=True, kw_only=True):
    """A case's inputs lie in the blob.

    Attributes:
        hashes: of a drawn case, sha256 of every input's values, contiguous, little-endian, by name.
        possible: "" or why there is no such case (a relation that this case does not have).
        note: how the reference was computed where that was not the usual way (in blocks, on the CPU).
    """

    blob: Blob
    hashes: dict[str, str] = {}
    possible: str = ""
    note: str = ""


class Probed(Report, tag="probed", frozen=True, kw_only=True):
    """Axes that keep to some values: checks.oracle.fixed.Held.plain() of each."""

    held: list[dict[str, Any]]


class JudgedOutput(msgspec.Struct, frozen=True, kw_only=True):
    """One output, or one input's gradient, of one try: checks.oracle.comparator.ComparisonResult.plain()."""

    name: str
    finding: str
    detail: str
    sha256: str
    statistics: dict[str, float]
    histogram: list[int]
    region: list[str]


class Tried(Report, tag="tried", frozen=True, kw_only=True):
    """A call's outputs lie in the blob."""

    outputs: Blob
    took_ms: float


class Ruled(msgspec.Struct, frozen=True, kw_only=True):
    """What the problem's own rule says of a call (checks.oracle.ruling.Ruling)."""

    right: bool | None
    detail: str = ""


class Judged(Report, tag="judged", frozen=True, kw_only=True):
    """Judgement over all outputs of a call; the first that is not right decides.

    Attributes:
        policy: whose allowance it was compared by.
        finding: checks.oracle.comparator.Mismatch.
        max_error: worst error in units of what is allowed; None where infinite or not comparable.
        outputs: each one's, where a drawn case is judged.
        relative_error: worst error relative to max(RMS of the truth, |truth|), the way tolerances are stated, by dtype.
        naive: "allclose" and "assert_close": whether a naive harness would have accepted. {} unless asked.
        figures: of the outputs, for checks (ArmFacts.compared).
        rule: what the problem's own rule says of the same call; None where it has none, or was not asked.
        ours: what comparing with the reference would say is wrong, where that rule decided.
    """

    policy: TolerancePolicy
    right: bool
    finding: str
    detail: str
    max_error: float | None
    outputs: list[JudgedOutput] = []
    relative_error: dict[str, float] = {}
    naive: dict[str, bool] = {}
    figures: dict[str, float] = {}
    rule: Ruled | None = None
    ours: str = ""


class Linted(Report, tag="linted", frozen=True, kw_only=True):
    """checks.oracle.lint.facts: plain data."""

    facts: dict[str, Any]


class PeakItem(msgspec.Struct, frozen=True, kw_only=True):
    """One ceiling to measure. `note` says why it cannot be measured here, and there is no job for it."""

    name: str  # store.results.speed_of_light.CEILINGS
    footprint_bytes: int | None = None
    note: str = ""


class PeakPlan(Report, tag="peak_plan", frozen=True, kw_only=True):
    """The ceilings of this GPU, in the order in which they are best measured."""

    items: list[PeakItem]


class CeilingMeasured(Report, tag="ceiling_measured", frozen=True, kw_only=True):
    """One ceiling: `value` in the ceiling's unit (store.results.speed_of_light.CEILINGS).

    Attributes:
        sm_clock_mhz: while it was measured, by the GPU's own counters; None where unknown.
        footprint_bytes: what was touched, which may be less than was asked for.
        note: which of several ways was the best.
    """

    name: str
    value: float
    sm_clock_mhz: float | None = None
    footprint_bytes: int | None = None
    note: str = ""


class Failed(Report, tag="failed", frozen=True, kw_only=True):
    """The job ended in an exception. The process stays alive unless the device is poisoned.

    Attributes:
        kind: "user" (the target's own doing), "memory" (out of device memory), "poisoned" (sticky CUDA error),
            "unsupported" (the module says it cannot run here), "form" (outputs of the wrong number, type, shape or
            dtype), or "ours".
        summary: exception type and message, one line.
        traceback: cut to the frames of the target's own files.
    """

    job: str
    kind: str
    summary: str
    traceback: str


class Done(Report, tag="done", frozen=True, kw_only=True):
    """Last frame of a process that ends well: what it sent, for comparison with what arrived."""

    samples: int
    sha256: str  # over the float64 device_ms of all samples, in order


AnyReport: TypeAlias = (
    Ready
    | Loaded
    | Expected
    | Taken
    | Prepared
    | Executed
    | WarmedUp
    | PairsRead
    | Grouped
    | Samples
    | Sustained
    | BatchesServed
    | Traced
    | BatchesTimed
    | Inspected
    | TaskInspected
    | NaiveMeasured
    | LastOutputs
    | Posed
    | Probed
    | Tried
    | Judged
    | Linted
    | PeakPlan
    | CeilingMeasured
    | ImportsTold
    | Failed
    | Done
)
