"""What the engine tells its clients: one ordered stream, the same for all of them, each with its `seq`.

An event's texts are clean (`store.text`) however it was made: nobody cleans one again. `Reply`, `Welcome`,
`Pulse`, `Status`, `EngineLog` and `Gap` belong to one connection and carry seq 0; all others are broadcast, kept in a
journal on disk and replayed to a client that subscribes late.

Times ending in `_ns` are CLOCK_MONOTONIC, comparable on this host within one boot; NaN and -1 in telemetry mean
"no answer", and are drawn as gaps.
"""

from __future__ import annotations

from functools import cache
from typing import Any, ClassVar, TypeAlias

import msgspec

from aisp.store import record
from aisp.store.outcomes import CaseVerdict, State, Timing
from aisp.store.record import Arm, Ceiling, Comparison, Failure, Fuzz, Run
from aisp.store.record.run import REASON_CHARS
from aisp.store.text import clean, clean_line


@cache
def _texts(kind: type[msgspec.Struct]) -> tuple[tuple[str, bool], ...]:
    """The fields that hold text, each with whether that may have several lines."""
    kinds, several = (str, list[str], dict[str, str]), getattr(kind, "LINES", ())
    return tuple((field.name, field.name in several) for field in msgspec.structs.fields(kind) if field.type in kinds)


def _clean(text: str, several: bool) -> str:
    return clean(text) if several else clean_line(text, limit=REASON_CHARS)


def _clean_own(message: msgspec.Struct) -> None:
    """Make a new message's own texts clean, each on one line but for those in its LINES; its records are by now."""
    for name, several in _texts(type(message)):
        value: Any = getattr(message, name)
        if isinstance(value, str):
            if value.isascii() and value.isprintable() and len(value) <= REASON_CHARS:
                continue  # nearly always, and a sample's way to the screen goes through here
            cleaned: Any = _clean(value, several)
        elif isinstance(value, dict):
            cleaned = {clean_line(key): _clean(text, several) for key, text in value.items()}
        else:
            cleaned = [_clean(text, several) for text in value]
        if cleaned != value:
            msgspec.structs.force_setattr(message, name, cleaned)


class _Item(msgspec.Struct, frozen=True, kw_only=True):
    """Base of what an event lists."""

    def __post_init__(self) -> None:
        _clean_own(self)


class GpuUse(_Item, frozen=True, kw_only=True):
    """A GPU at one moment; None where the driver does not say.

    Attributes:
        index: in Status.devices.
        others: how many processes that are not the engine's have a context on it.
        others_bytes: its memory that is theirs.
    """

    index: int
    others: int | None = None
    others_bytes: int | None = None
    sm_clock_mhz: float | None = None
    power_w: float | None = None


class Event(msgspec.Struct, tag_field="type", kw_only=True):
    """Base of all events. `seq` counts up by one within an epoch; LINES names texts of several lines."""

    LINES: ClassVar[tuple[str, ...]] = ()
    seq: int = 0

    def __post_init__(self) -> None:
        _clean_own(self)


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
        gpus: as they were some seconds ago, while nothing was measured; empty where nobody looked.
    """

    starting: str = ""
    gpus: list[GpuUse] = []


class Reply(Event, tag="reply", kw_only=True):
    """Answer to the request `to`. `error` is empty on success, else what was wrong and the next move.

    `refused` names targets that cannot run on this machine, each with the reason. Other targets of the request are
    planned. A target to watch is watched all the same.

    `joined` holds those of `run_ids` that were waiting or under way already: they are what was asked for, so it was not
    queued once more.
    """

    LINES: ClassVar[tuple[str, ...]] = ("detail",)
    to: int
    error: str = ""
    run_ids: list[str] = []
    detail: str = ""
    refused: dict[str, str] = {}
    joined: list[str] = []


class Device(_Item, frozen=True, kw_only=True):
    """A GPU, or the CPU, that runs can be placed on."""

    index: int  # -1 for the CPU
    name: str
    uuid: str = ""
    sm: int | None = None
    memory_bytes: int | None = None
    driver: str = ""
    note: str = ""  # why it cannot be used, or "contended by pid 123"


class QueueItem(_Item, frozen=True, kw_only=True):
    """A job that is planned or under way; the queue is in the order in which jobs will be carried out.

    Attributes:
        run_id: of the run, fuzz or measurement of ceilings.
        kind: "run", "fuzz", "lint", "replay" or "peak".
        trigger: who asked: "cli", "tui", "watch"; "" where nobody in particular did.
        device: "cuda" or "cpu"; of one that has its place on a machine with several GPUs which one: "cuda:1". That is
            the index in Status.devices and in TelemetryBatch; "cuda:0,1" is a set of them, "cuda" all of them then.
        began_ns: CLOCK_MONOTONIC when it began; None while it waits.
        expected_s: how long the target's last good run like it took; None where there was none.
        starts_ns: CLOCK_MONOTONIC when it may be expected to begin; None where it has begun, and where it is not known
            how long something before it takes.
    """

    run_id: str
    kind: str = "run"
    target: str
    title: str
    state: str
    quick: bool
    trigger: str
    device: str
    began_ns: int | None = None
    expected_s: float | None = None
    starts_ns: int | None = None


class WatchItem(_Item, frozen=True, kw_only=True):
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
    clients: int
    runs_done: int
    starting: str = ""  # as in Pulse
    not_forked: str = ""  # why workers are started, which takes seconds; "" where a nursery forks them
    store_note: str = ""  # "" for a store that keeps a write-ahead log; else what it keeps, and why


class EngineLog(Event, tag="engine_log", kw_only=True):
    """Answer to GetLog `to`: newest lines of the engine's own log, oldest first."""

    LINES: ClassVar[tuple[str, ...]] = ("lines",)
    to: int
    lines: list[str]


class Gap(Event, tag="gap", kw_only=True):
    """Events first..last are not coming: this client was too slow, or they are no longer kept."""

    first: int
    last: int


# -- broadcast -------------------------------------------------------------------------------------------------


class QueueChanged(Event, tag="queue_changed", kw_only=True):
    """A job came, began, was moved or ended: every job, as in Status.queue. What happens within some hundredths of a
    second is one event."""

    jobs: list[QueueItem]


class RunPlanned(Event, tag="run_planned", kw_only=True):
    """A run was journalled; it will start when its device is free.

    `run` has its arms in order, the baseline first. It has neither its seed nor the numbers of its held-out sets:
    nobody may know these before its end.

    Attributes:
        expected_s: how long the target's last good run like it took; None where there was none.
        expected_processes: fresh processes per arm that one took; 0 where that is not known.
    """

    run: Run
    expected_s: float | None = None
    expected_processes: int = 0

    @property
    def run_id(self) -> str:
        """Id of the run."""
        return self.run.id


class RunState(Event, tag="run_state", kw_only=True):
    """A run moved on. RunFinished alone reports its end.

    Attributes:
        device: where it is, as in QueueItem.
        process: the fresh process of each arm that begins now, counted from 1; 0 where none does.
    """

    run_id: str
    state: State
    at_ns: int
    device: str = ""
    process: int = 0


class Step(Event, tag="step", kw_only=True):
    """A step of a run began (its duration_ms is None) or ended."""

    run_id: str
    step: record.Step


class SampleBatch(Event, tag="samples", kw_only=True):
    """Newly taken samples of one arm: parallel lists. Every iteration is in exactly one batch."""

    run_id: str
    arm: str
    replica: int
    round: int
    timing: Timing
    device_ms: list[float]
    end_ns: list[int]
    discarded: list[int]  # 0 kept, else a code of store.record.DISCARDED
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


class ArmUpdate(Event, tag="arm", kw_only=True):
    """What is known of an arm so far: sent when something changes, and once more at its end."""

    run_id: str
    arm: Arm


class ComparisonUpdate(Event, tag="comparison", kw_only=True):
    """A rung against a baseline, preliminary until the run has ended."""

    run_id: str
    comparison: Comparison


class PeakCeiling(Event, tag="peak_ceiling", kw_only=True):
    """One ceiling of a GPU was measured; `position` counts from 1 of `count`."""

    peak_id: str
    gpu: str
    position: int
    count: int
    ceiling: Ceiling


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
    seed: int | None  # None where the engine drew it, until the end
    strategies: list[str]
    wall: str
    trigger: str = "cli"


class FuzzCase(Event, tag="fuzz_case", kw_only=True):
    """One case of one rung was judged.

    Attributes:
        case: checks.oracle.schema.Case.text.
        finding: checks.oracle.comparator.Mismatch, "" where the verdict is right or unsupported.
        max_error: worst error in units of what is allowed; None where it has none.
        histogram: elements by error in units of what is allowed: store.record.ERROR_BINS.
    """

    fuzz_id: str
    number: int
    rung: str
    strategy: str
    stage: str
    case: str
    verdict: CaseVerdict
    finding: str = ""
    detail: str = ""
    max_error: float | None = None
    histogram: list[int] = []
    took_ms: float = 0.0


class FuzzFailure(Event, tag="fuzz_failure", kw_only=True):
    """A failing case was kept: the drawn one at once (`shrunk` false), the smallest found later under the same id.

    Where the engine drew the seed it has neither that nor its script before the end, and comes once more with both just
    before FuzzFinished.
    """

    fuzz_id: str
    failure: Failure
    shrunk: bool = False


class FuzzFinished(Event, tag="fuzz_finished", kw_only=True):
    """A fuzz's end, after it was committed."""

    fuzz: Fuzz

    @property
    def fuzz_id(self) -> str:
        """Id of the fuzz."""
        return self.fuzz.id


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
        differs: versions that changed since: "torch 2.13.0, was 2.11.0".
    """

    fuzz_id: str
    failure: str
    outcome: str
    differs: list[str] = []
    detail: str = ""


class RunFinished(Event, tag="run_finished", kw_only=True):
    """A run's end, with the record that was committed to the store."""

    run: Run

    @property
    def run_id(self) -> str:
        """Id of the run."""
        return self.run.id


class Output(Event, tag="output", kw_only=True):
    """Lines that a kernel printed, cleaned; floods are thinned and say by how much."""

    LINES: ClassVar[tuple[str, ...]] = ("lines",)
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

    LINES: ClassVar[tuple[str, ...]] = ("error",)
    target: str
    number: int  # 0 is the state when the target was watched first; they go on over watches and engines
    snapshot: str
    files: list[str]  # names that changed against the previous edit
    run_id: str
    error: str = ""
    wall: str = ""
    save_ns: int = 0  # CLOCK_MONOTONIC when the save was noticed


class Banner(Event, tag="banner", kw_only=True):
    """Something that the person must know: a full disk, a locked database, a lost GPU. An empty text clears it."""

    key: str
    text: str
    severity: str = "warning"  # "information", "warning" or "error"


class LogLine(Event, tag="log_line", kw_only=True):
    """A line of the engine's own log."""

    LINES: ClassVar[tuple[str, ...]] = ("text",)
    level: str
    text: str


AnyEvent: TypeAlias = (
    Welcome
    | Pulse
    | Reply
    | Status
    | EngineLog
    | Gap
    | QueueChanged
    | RunPlanned
    | RunState
    | Step
    | SampleBatch
    | TelemetryBatch
    | ArmUpdate
    | ComparisonUpdate
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
