"""What the engine tells its faces: one ordered stream, the same for all of them, each with its `seq`.

All texts are cleaned (no control or escape characters) before they are put into an event. `Reply`, `Welcome`, `Pulse`,
`Status`, `EngineLog` and `Gap` belong to one connection and carry seq 0; all others are broadcast, kept in a
journal on disk and replayed to a face that subscribes late.

Times ending in `_ns` are CLOCK_MONOTONIC, comparable on this host within one boot; NaN and -1 in telemetry mean
"no answer", and are drawn as gaps.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec


class Event(msgspec.Struct, tag_field="type", kw_only=True):
    """Base of all events. `seq` counts up by one within an epoch."""

    seq: int = 0


# -- of one connection -----------------------------------------------------------------------------------------


class Welcome(Event, tag="welcome", kw_only=True):
    """Answer to Hello.

    Attributes:
        folder: identity of the state directory (engine.paths), which its path is not.
        starting: as in Pulse.
    """

    protocol: int
    build: str
    pid: int
    epoch: str
    next_seq: int
    compatible: bool
    state_dir: str
    folder: str = ""
    starting: str = ""


class Pulse(Event, tag="pulse", kw_only=True):
    """Sent where nothing else was for a while: the engine is there.

    Attributes:
        starting: what it does before it can carry out requests ("examining the store, 3.30 GiB"); "" once it can.
    """

    starting: str = ""


class Reply(Event, tag="reply", kw_only=True):
    """Answer to the request `to`. `error` is empty on success, else what was wrong and the next move.

    `refused` are targets that cannot run on this machine, each with the reason: of several to run, where the others are
    planned, and of one to watch, whose saves are looked at all the same.
    """

    to: int
    error: str = ""
    run_ids: list[str] = []
    detail: str = ""
    refused: dict[str, str] = {}


class Device(msgspec.Struct, frozen=True, kw_only=True):
    """A GPU, or the CPU, that runs can be placed on."""

    index: int  # -1 for the CPU
    name: str
    uuid: str = ""
    sm: int | None = None
    memory_bytes: int | None = None
    driver: str = ""
    note: str = ""  # why it cannot be used, or "contended by pid 123"


class QueueItem(msgspec.Struct, frozen=True, kw_only=True):
    """A run that is planned or under way."""

    run_id: str
    target: str
    title: str
    state: str
    quick: bool
    trigger: str
    device: str


class WatchItem(msgspec.Struct, frozen=True, kw_only=True):
    """A target under watch."""

    target: str
    folder: str
    edits: int
    polling: bool = False  # inotify could not be had; saves are found by looking now and then


class Status(Event, tag="status", kw_only=True):
    """Answer to GetStatus `to`: the engine as it is."""

    to: int
    pid: int
    uptime_s: float
    rss_bytes: int
    devices: list[Device]
    gpu_note: str  # "" with a GPU; else why there is none, as the driver said it
    queue: list[QueueItem]
    watches: list[WatchItem]
    warm_workers: int
    viewers: int
    runs_done: int
    starting: str = ""  # as in Pulse
    store_note: str = ""  # "" for a store that keeps a write-ahead log; else what it keeps, and why


class EngineLog(Event, tag="engine_log", kw_only=True):
    """Answer to GetLog `to`: newest lines of the engine's own log, oldest first."""

    to: int
    lines: list[str]


class Gap(Event, tag="gap", kw_only=True):
    """Events first..last are not coming: this face was too slow, or they are no longer kept."""

    first: int
    last: int


# -- broadcast -------------------------------------------------------------------------------------------------


class RunPlanned(Event, tag="run_planned", kw_only=True):
    """A run was journalled; it will start when its device is free."""

    run_id: str
    target: str
    title: str
    folder: str
    device: str
    case: str
    quick: bool
    trigger: str
    rungs: list[str]  # arms in order, the baseline first, "baseline (A/A)" last
    snapshot: str
    wall: str
    epoch: str = ""
    code: str = ""  # digest of the target's code: a quarantine is about one


class RunState(Event, tag="run_state", kw_only=True):
    """A run moved on. Final states are followed by RunFinished."""

    run_id: str
    state: str
    at_ns: int


class Step(Event, tag="step", kw_only=True):
    """A step of a run began (duration_ms is None) or ended."""

    run_id: str
    name: str
    arm: str  # "" for the whole run
    start_ns: int
    duration_ms: float | None = None
    detail: str = ""


class SampleBatch(Event, tag="samples", kw_only=True):
    """Newly taken samples of one arm: parallel lists. Every iteration is in exactly one batch."""

    run_id: str
    arm: str
    replica: int
    round: int
    timing: str  # store.outcomes.Timing
    device_ms: list[float]
    end_ns: list[int]
    discarded: list[int]  # 0 kept, else a code of store.records.DISCARDED
    sm_clock_mhz: list[float]  # NaN unknown


class TelemetryBatch(Event, tag="telemetry", kw_only=True):
    """GPU state at 20 Hz while something runs: parallel lists."""

    gpu: int
    at_ns: list[int]
    sm_clock_mhz: list[float]
    memory_clock_mhz: list[float]
    temperature_c: list[float]
    power_w: list[float]
    throttle: list[int]  # NVML clocks-event-reasons bits, -1 unknown


class ArmQuality(msgspec.Struct, frozen=True, kw_only=True):
    """store.records.Quality, which explains each."""

    drift: float | None = None
    autocorrelation: float | None = None
    low_mode_ms: float | None = None
    high_mode_ms: float | None = None
    high_share: float | None = None
    throttled_share: float | None = None
    resolution_ms: float | None = None
    overhead_ms: float | None = None
    watch_us: float | None = None


class ArmLight(msgspec.Struct, frozen=True, kw_only=True):
    """store.records.Light, which explains each; `limiter` is "" where it is not known."""

    spec_ms: float | None = None
    clock_ms: float | None = None
    measured_ms: float | None = None
    limiter: str = ""
    score: float | None = None
    launch_eager_ms: float | None = None


class ArmNaive(msgspec.Struct, frozen=True, kw_only=True):
    """store.records.Naive, which explains each; `speedup` is its base_ms / time_ms."""

    base_ms: float | None = None
    time_ms: float | None = None
    accepts: bool | None = None
    speedup: float | None = None
    note: str = ""


class FindingItem(msgspec.Struct, frozen=True, kw_only=True):
    """store.records.FindingRecord."""

    check: str
    arm: str
    status: str
    evidence: str


class Findings(Event, tag="findings", kw_only=True):
    """What every check said of a run, before its RunFinished."""

    run_id: str
    items: list[FindingItem]


class ArmUpdate(Event, tag="arm", kw_only=True):
    """What is known of an arm so far: sent when something changes, and once more at its end."""

    run_id: str
    arm: str
    state: str
    correctness: str
    timing: str = "none"
    median_ms: float | None = None
    low_ms: float | None = None
    high_ms: float | None = None
    samples: int = 0
    calls: int | None = None
    sm_clock_mhz: float | None = None
    sol: float | None = None
    light: ArmLight | None = None
    quality: ArmQuality | None = None
    naive: ArmNaive | None = None
    max_error: float | None = None
    peak_bytes: int | None = None
    reason: str = ""
    detail: str = ""


class ComparisonUpdate(Event, tag="comparison", kw_only=True):
    """A rung against a baseline, preliminary until the run has ended."""

    run_id: str
    rung: str
    baseline: str
    verdict: str
    speedup: float | None = None
    low: float | None = None
    high: float | None = None
    floor: float | None = None
    cycles: float | None = None
    cycles_low: float | None = None
    cycles_high: float | None = None
    p_value: float | None = None
    note: str = ""


class PeakCeiling(Event, tag="peak_ceiling", kw_only=True):
    """One ceiling of a GPU was measured (store.records.Ceiling); `position` counts from 1 of `count`."""

    peak_id: str
    gpu: str
    position: int
    count: int
    name: str
    value: float | None
    unit: str
    sm_clock_mhz: float | None = None
    memory_clock_mhz: float | None = None
    footprint_bytes: int | None = None
    note: str = ""


class PeakFinished(Event, tag="peak_finished", kw_only=True):
    """The ceilings were committed to the store, or `reason` says why not."""

    peak_id: str
    gpu: str
    reason: str = ""


class FuzzPlanned(Event, tag="fuzz_planned", kw_only=True):
    """A fuzz was asked for; it starts when its device is free. `what` is "fuzz", "lint" or "replay"."""

    fuzz_id: str
    what: str
    target: str
    title: str
    folder: str
    device: str
    rungs: list[str]
    cases: int
    seed: int
    strategies: list[str]
    wall: str
    trigger: str = "cli"


class FuzzCase(Event, tag="fuzz_case", kw_only=True):
    """One case of one rung was judged.

    Attributes:
        verdict: store.outcomes.CaseVerdict.
        case: checks.oracle.schema.Case.text.
        finding: checks.compare.Finding, "" where the verdict is right or unsupported.
        max_error: worst error in units of what is allowed; None where it has none.
        histogram: elements by error in units of what is allowed: store.records.ERROR_BINS.
    """

    fuzz_id: str
    number: int
    rung: str
    strategy: str
    stage: str
    case: str
    verdict: str
    finding: str = ""
    detail: str = ""
    max_error: float | None = None
    histogram: list[int] = []
    took_ms: float = 0.0


class FuzzFailure(Event, tag="fuzz_failure", kw_only=True):
    """A failing case was kept: the drawn one at once (`shrunk` false), the smallest one found later under the same id.

    `failure` is store.records.FailureRecord as plain data (its `plain()`).
    """

    fuzz_id: str
    failure: dict[str, Any]
    shrunk: bool = False


class FuzzFinished(Event, tag="fuzz_finished", kw_only=True):
    """A fuzz's end, after it was committed. `record` is store.records.FuzzRecord.plain()."""

    fuzz_id: str
    record: dict[str, Any]


class LintFinished(Event, tag="lint_finished", kw_only=True):
    """What the task linter found. `items` are checks.oracle.lint.Item.plain(); `reason` says why there are none."""

    fuzz_id: str
    target: str
    device: str
    items: list[dict[str, Any]]
    reason: str = ""


class ReplayFinished(Event, tag="replay_finished", kw_only=True):
    """What became of a stored failure.

    Attributes:
        outcome: "reproduced" (same inputs, same wrong output, byte for byte), "fails_otherwise" (same inputs, still
            wrong, other bytes), "passes", "other_inputs" (the inputs' bytes differ) or "impossible".
        differs: what is not as it was: "torch 2.13.0, was 2.11.0".
    """

    fuzz_id: str
    failure: str
    outcome: str
    differs: list[str] = []
    detail: str = ""


class RunFinished(Event, tag="run_finished", kw_only=True):
    """A run's end, after it was committed to the store."""

    run_id: str
    target: str
    state: str
    correctness: str
    validity: str
    verdict: str
    duration_ms: float | None
    reason: str = ""
    flags: list[str] = []


class Output(Event, tag="output", kw_only=True):
    """Lines that a kernel printed, cleaned; floods are thinned and say by how much."""

    run_id: str
    arm: str
    stream: str  # "stdout" or "stderr"
    lines: list[str]
    dropped: int = 0


class WatchChanged(Event, tag="watch_changed", kw_only=True):
    """A watch began or ended."""

    target: str
    folder: str
    active: bool
    polling: bool = False


class WatchEdit(Event, tag="watch_edit", kw_only=True):
    """A save was seen and settled; `run_id` is the run it started, "" where it could start none.

    `error` says why, a syntax error with file and line for example; the watch goes on in any case.
    """

    target: str
    number: int  # 1 is the first edit of this watch; 0 the state when the watch began
    snapshot: str
    files: list[str]  # names that changed against the previous edit
    run_id: str
    error: str = ""
    wall: str = ""
    save_ns: int = 0  # CLOCK_MONOTONIC when the save was noticed


class Banner(Event, tag="banner", kw_only=True):
    """Something that the person must know: a full disk, a locked database, a lost GPU. "" clears it."""

    key: str
    text: str
    severity: str = "warning"  # "information", "warning" or "error"


class LogLine(Event, tag="log_line", kw_only=True):
    """A line of the engine's own log."""

    level: str
    text: str


AnyEvent: TypeAlias = (
    Welcome
    | Pulse
    | Reply
    | Status
    | EngineLog
    | Gap
    | RunPlanned
    | RunState
    | Step
    | SampleBatch
    | TelemetryBatch
    | ArmUpdate
    | ComparisonUpdate
    | Findings
    | PeakCeiling
    | PeakFinished
    | FuzzPlanned
    | FuzzCase
    | FuzzFailure
    | FuzzFinished
    | LintFinished
    | ReplayFinished
    | RunFinished
    | Output
    | WatchChanged
    | WatchEdit
    | Banner
    | LogLine
)
