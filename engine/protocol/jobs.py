"""What the engine asks of a worker or verifier process, one at a time; each is answered by one report or more.

Bulk data never travels in a message: tensors lie in shared memory files (`Blob`), which the engine makes and owns
(engine.arena). A job that names one brings its descriptor along, for as long as the job lasts.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec

from aisp.kernels.catalog.contracts import Cache


class Job(msgspec.Struct, tag_field="type", frozen=True, kw_only=True):
    """Base of all jobs."""


class Slot(msgspec.Struct, frozen=True, kw_only=True):
    """One tensor inside a blob: contiguous, raw bytes."""

    name: str
    dtype: str  # a torch dtype's name
    shape: list[int]
    offset: int
    nbytes: int


class Blob(msgspec.Struct, frozen=True, kw_only=True):
    """Tensors in one shared memory file, called by the engine's name for it."""

    name: str
    slots: list[Slot] = []
    mutable: list[str] = []  # inputs that a call may overwrite, since the problem's own reference was seen to


def files(message: msgspec.Struct) -> list[str]:
    """Names of the shared files in a job or a report, each once and in order."""
    names: dict[str, None] = {}
    for field in message.__struct_fields__:
        value = getattr(message, field)
        for each in value if isinstance(value, list) else (value,):
            if not isinstance(each, Blob):
                break
            names[each.name] = None
    return list(names)


class Load(Job, tag="load", frozen=True, kw_only=True):
    """Take a role: read the target at `folder` (a materialised snapshot) and import one of its modules.

    Attributes:
        folder: where the snapshot's files lie, as the bytes of a path.
        target_id, chapter, root: the target's identity, as the catalogue gave it.
        module: "reference" in a verifier, else the rung's name.
        device: "cuda" or "cpu".
        without: ids of checks (checks.registry) whose sensors and defences are left out on request.
        rank, ranks: this process among those of the arm (engine.ranks).
        rendezvous: a path that no file has yet, where they find one another; its folder is theirs to write to.
        meeting: an empty shared file where the kernels of several ranks meet; None where they need not.
        caches: for every rank the path of the folder where compilers keep what they make, none for the process's own.
    """

    folder: bytes
    root: bytes
    chapter: str
    target_id: str
    module: str
    device: str
    without: list[str] = []
    rank: int = 0
    ranks: int = 1
    rendezvous: str = ""
    meeting: Blob | None = None
    caches: list[bytes] = []


class Build(Job, tag="build", frozen=True, kw_only=True):
    """Import a module of a rung for what it compiles at its import (engine.ahead), at the lowest priority; no role.

    Attributes:
        folder: where the snapshot's files lie, as the bytes of a path.
        module: the rung's name.
        caches: the path of the folder where compilers keep what they make.
        environment: variables that compilers read.
    """

    folder: bytes
    module: str
    caches: bytes
    environment: dict[str, str]


class Pose(Job, tag="pose", frozen=True, kw_only=True):
    """Verifier: make a case's inputs, and put them where arms can read them; then compute its truth.

    A lesson's case has sets. Static inputs are written with set 0 alone. Of a set with other kinds of values only what
    is not as in set 0 is written (see Execute).

    Attributes:
        case: checks.oracle.schema.Case.plain().
        seed: the master seed, of a run or a fuzz.
        changed: pose a drawn case as its relation changes it; the case itself was posed before.
        later: the truth comes when it is asked for (Expect): whoever waits for the inputs waits for nothing else.
        blob: for the inputs, and the output gradients behind them where gradients are judged.
    """

    case: dict[str, Any]
    seed: int
    blob: Blob
    changed: bool = False
    later: bool = False


class Expect(Job, tag="expect", frozen=True, kw_only=True):
    """Verifier: compute the truth of a set that was posed for later."""

    case: dict[str, Any]


class Probe(Job, tag="probe", frozen=True, kw_only=True):
    """Verifier: say which axes must keep their values for the reference to take these drawn cases. It runs on the CPU,
    whatever the device: a refusal there costs no context.
    """

    cases: list[dict[str, Any]]
    seed: int


class Judge(Job, tag="judge", frozen=True, kw_only=True):
    """Verifier: compare what a rung made of a case that was posed with the truth.

    Attributes:
        rung: whose relation may be asked about; "" for none.
        changed: these are the outputs of the changed case; judged against the same rung's outputs of the case itself.
        naive: also say what a naive harness would.
    """

    case: dict[str, Any]
    seed: int
    outputs: Blob
    rung: str = ""
    changed: bool = False
    naive: bool = False


class TakeInputs(Job, tag="take_inputs", frozen=True, kw_only=True):
    """Worker: make the device buffers of a case and hold these sets' values for refilling them.

    Attributes:
        made_seed: checks.oracle.values.made_seed of the case. No job to a rung's process carries the master seed, nor
            anything that it follows from.
    """

    case: str
    made_seed: int
    sets: list[Blob]


class Prepare(Job, tag="prepare", frozen=True, kw_only=True):
    """Worker: call prepare() on the case's buffers, filled with set 0, or bind run(); compile whatever it compiles."""

    case: str


class Execute(Job, tag="execute", frozen=True, kw_only=True):
    """Worker: refill from a set, call once, write the outputs into the blob.

    Attributes:
        moved: call with other buffers, which hold the same values.
        values: what set 0 has otherwise in this call alone, in the place of set_index: of an input the changed
            stretches [K, L], and as `places_of` its name where each begins in the flat tensor, int64 [K]; or all of it.
    """

    case: str
    set_index: int
    outputs: Blob
    moved: bool = False
    values: Blob | None = None


class WarmUp(Job, tag="warm_up", frozen=True, kw_only=True):
    """Worker: call until the time per call is steady or the budget is spent; tell the time per call.

    Attributes:
        cache: what the L2 holds before a sample.
        pair_ms: what an event pair reads beyond the kernels between its events, by the verifier; None where it is not
            known.
    """

    case: str
    budget_ms: float
    cache: Cache = Cache.COLD
    pair_ms: float | None = None


class Group(Job, tag="group", frozen=True, kw_only=True):
    """Worker: from now on let one sample time several calls, each on buffers of its own; after WarmUp.

    Attributes:
        kind: "graph", "batch", or "single" to go back to one call.
    """

    case: str
    kind: str
    calls: int


class Measure(Job, tag="measure", frozen=True, kw_only=True):
    """Worker: take samples; stop early, but not before one, after `budget_ms` or a sample below `least_mhz`.

    Attributes:
        sets: the input set of every call, in order: for a sample of n calls n entries.
        least_mhz: samples during which the SM clock was lower are set aside and end the turn; 0 for none.
    """

    case: str
    round: int
    sets: list[int]
    budget_ms: float
    least_mhz: float = 0.0


class Sustain(Job, tag="sustain", frozen=True, kw_only=True):
    """Worker: call `calls` times one after the other, nothing held and nothing flushed, wait for the device, answer.

    The engine's own clock runs from the job to the answer.
    """

    case: str
    calls: int


class ServeBatches(Job, tag="serve_batches", frozen=True, kw_only=True):
    """Worker: make the calls that the judge asks for on `line`, until it has had enough (engine.worker.batches)."""

    case: str
    line: Blob


class TimeBatches(Job, tag="time_batches", frozen=True, kw_only=True):
    """Verifier: time batches of a worker's calls from outside, on inputs made for them, and judge one of each.

    Attributes:
        case: a timed case's set 0, which was posed.
        line: the other end of the worker's.
        reader: to the engine, which reads what lies in the worker's memory on a CPU.
        pid: of the worker.
        pairs: how many pairs of batches, of N and of 3N calls.
        per_call_ms: by the worker, from which N is chosen.
        calls: N of an earlier pair; 0 where there was none.
        round: of the run. Each has some sets that are the same for all arms, whose truth is computed once: the larger
            batch of an arm has them, in places of its own, and outputs of these calls are read.
        both: outputs of the smaller batch are read as well: there may be no second pair.
        held: whether calls may be launched behind a hold; not where an earlier pair found that they cannot.
        clones: an earlier pair found that calls share their outputs; see engine.protocol.batches.Run.
        patience_s: how long the worker may give no sign.
    """

    case: dict[str, Any]
    line: Blob
    reader: Blob
    pid: int
    pairs: int
    per_call_ms: float
    calls: int
    round: int
    both: bool
    held: bool
    clones: bool
    patience_s: float


class ReadPairs(Job, tag="read_pairs", frozen=True, kw_only=True):
    """Verifier, on a GPU: say what an event pair reads there beyond the kernel between its events.

    Attributes:
        cache: what the L2 holds before a sample.
    """

    cache: Cache


class Trace(Job, tag="trace", frozen=True, kw_only=True):
    """Worker, on a GPU: have sensors record what calls do there, while no other process of the run works on it."""


class Inspect(Job, tag="inspect", frozen=True, kw_only=True):
    """Say what the sensors noted (worker), or what the task itself is like (verifier)."""


class Naive(Job, tag="naive", frozen=True, kw_only=True):
    """A process of its own: evaluate a rung as a naive harness would (store.record.Naive).

    Attributes:
        made_seed: as for TakeInputs.
        sets: one set of the case's inputs, likewise.
        baseline, rung: modules; both are imported into this one process.
        rank, ranks, rendezvous, caches: as for Load.
    """

    folder: bytes
    root: bytes
    chapter: str
    device: str
    case: str
    made_seed: int
    sets: list[Blob]
    baseline: str
    rung: str
    rank: int = 0
    ranks: int = 1
    rendezvous: str = ""
    caches: list[bytes] = []


class FetchLast(Job, tag="fetch_last", frozen=True, kw_only=True):
    """Worker: write the outputs of the last timed call, as they are now, into the blob."""

    outputs: Blob


class Try(Job, tag="try", frozen=True, kw_only=True):
    """Worker: make buffers of the posed inputs in the case's layouts, prepare, call once, hand the outputs over.

    Where gradients are judged the blob holds them too: the outputs' gradients go in after the inputs, the inputs'
    come out after the outputs, as "d_<input>".

    Attributes:
        made_seed: as for TakeInputs.
        others: by input, the key of the values that prepare() sees and the call does not; two words each.
    """

    case: dict[str, Any]
    made_seed: int
    others: dict[str, list[int]]
    inputs: Blob
    outputs: Blob


def places_of(name: str) -> str:
    """Name of the slot that says where the changed stretches of an input begin."""
    return f"{name}@"


class LintTask(Job, tag="lint_task", frozen=True, kw_only=True):
    """Verifier: say whether careless answers would pass on the inputs of a posed case, and which inputs matter."""

    case: dict[str, Any]
    seed: int


class PlanPeak(Job, tag="plan_peak", frozen=True, kw_only=True):
    """Measure ceilings from now on, with no lesson loaded: say which there are to measure on this GPU."""


class MeasureCeiling(Job, tag="measure_ceiling", frozen=True, kw_only=True):
    """Measure one ceiling; fields as in the plan's item."""

    name: str
    footprint_bytes: int | None = None


class TellImports(Job, tag="tell_imports", frozen=True, kw_only=True):
    """Before Load: say what this process imports from, has imported and has mapped."""


class Finish(Job, tag="finish", frozen=True, kw_only=True):
    """No more jobs: send Done and leave with status 0."""


AnyJob: TypeAlias = (
    Load
    | Build
    | Pose
    | Expect
    | Probe
    | Judge
    | TakeInputs
    | Prepare
    | Execute
    | WarmUp
    | Group
    | Measure
    | Sustain
    | ServeBatches
    | Trace
    | TimeBatches
    | ReadPairs
    | Inspect
    | Naive
    | FetchLast
    | Try
    | LintTask
    | PlanPeak
    | MeasureCeiling
    | TellImports
    | Finish
)
