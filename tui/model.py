"""What the faces know, as plain values: events go in, views come out. No Textual and no numpy.

`Model.apply` costs a constant per event and per sample, and memory is bounded however long a run is: an arm
keeps at most `MAX_POINTS` points for drawing (the lowest and the highest of each group of samples, so that
a spike is never thinned away) beside exact counts; a run keeps `MAX_OUTPUT_LINES` lines; the newest
`WHOLE_RUNS` runs keep their points, older ones only their results, and the store has the rest.

Times: `_ns` is CLOCK_MONOTONIC, `_s` seconds on the run's own axis (0 is when its measuring began) unless a
name says otherwise, `_ms` milliseconds. None and NaN are "unknown" and are drawn as a dash or a gap.
"""

from __future__ import annotations

import math
import time
from array import array
from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from aisp.engine import following
from aisp.engine.protocol import events
from aisp.store.outcomes import TWIN_SUFFIX, State
from aisp.store.record import Ceiling, Peak, Quarantine, Run, unplanned
from aisp.store.results import standing
from aisp.store.results.fuzz import FuzzState
from aisp.store.results.reading import Bar, Reading, of_quarantine
from aisp.store.text import clean_line
from aisp.tui.fuzzes import FuzzView

if TYPE_CHECKING:
    from aisp.store.samples import Samples, Telemetry

RunEvent: TypeAlias = (
    events.RunPlanned | events.RunState | events.Step | events.ArmUpdate | events.ComparisonUpdate | events.RunFinished
)
FuzzEvent: TypeAlias = events.FuzzPlanned | events.FuzzCase | events.FuzzFailure | events.FuzzFinished

MAX_POINTS = 2048
MAX_USUAL = 1024
MAX_READINGS = 4096
MAX_OUTPUT_LINES = 5000
MAX_ENGINE_LINES = 5000
MAX_RUNS = 1000
WHOLE_RUNS = 40
MAX_EDITS = 2000
STRIP_PERIOD_NS = 1_000_000_000  # between readings that the header shows
MAX_CEILINGS = 500
MAX_FUZZES = 40
MAX_REPLAYS = 500
# The columns of telemetry, live and stored, as `TelemetryLog.add` takes them.
READINGS = ("at_ns", "sm_clock_mhz", "memory_clock_mhz", "temperature_c", "power_w", "throttle")

BASELINE = "baseline"
NO_GPU = "CPU only"  # what a machine without one is called
AA_ARM = BASELINE + TWIN_SUFFIX

# NVML's clocks-event-reasons bits, in words. Bits 0, 1 and 8 are how a GPU idles or was set, not a slow-down.
THROTTLE_WORDS: Mapping[int, str] = {
    0x1: "idle",
    0x2: "application clocks",
    0x4: "power cap",
    0x8: "hardware slowdown",
    0x10: "sync boost",
    0x20: "thermal slowdown (software)",
    0x40: "thermal slowdown (hardware)",
    0x80: "power brake",
    0x100: "display clocks",
}
SLOWING_BITS = 0x4 | 0x8 | 0x10 | 0x20 | 0x40 | 0x80


def throttle_words(bits: int) -> list[str]:
    """What slows the clocks down, in words; empty where nothing does or the driver did not answer."""
    if bits < 0:
        return []
    words = [word for bit, word in THROTTLE_WORDS.items() if bits & bit & SLOWING_BITS]
    known = sum(THROTTLE_WORDS)
    if bits & ~known:
        words.append(f"reason 0x{bits & ~known:x}")
    return words


def thin(x: Sequence[float], y: Sequence[float], columns: int) -> tuple[array[float], array[float]]:
    """The lowest and highest point of each of `columns` equal slices of x, in order: what a plot of that many
    dots can show. `x` ascends. Short input comes back as it is."""
    out_x, out_y = array("d"), array("d")
    count = len(x)
    if columns < 1 or count <= 2 * columns:
        out_x.extend(x)
        out_y.extend(y)
        return out_x, out_y
    first, span = x[0], (x[-1] - x[0]) or 1.0
    start = 0
    for column in range(1, columns + 1):
        end = count if column == columns else bisect_left(x, first + span * column / columns, start, count)
        if end == start:
            continue
        part = y[start:end]
        low = start + part.index(min(part))
        high = start + part.index(max(part))
        for at in (low, high) if low < high else (high, low) if high < low else (low,):
            out_x.append(x[at])
            out_y.append(y[at])
        start = end
    return out_x, out_y


class PointLog:
    """Points (x in s, y in ms) of one arm for drawing, thinned evenly; counts are exact.

    While fewer than `limit` points came, each is kept. Beyond that, groups of `group` consecutive samples are
    kept as their lowest and highest; the group doubles whenever the log is full. Extremes do not tell what is usual:
    `usual` is every `_every`-th y, at most MAX_USUAL of them.
    """

    __slots__ = ("_every", "_high", "_low", "_pending", "count", "group", "limit", "usual", "x", "y")

    def __init__(self, limit: int = MAX_POINTS) -> None:
        self.limit = limit
        self.x: array[float] = array("d")
        self.y: array[float] = array("d")
        self.usual: array[float] = array("d")
        self.count = 0
        self.group = 1
        self._every = 1
        self._pending = 0
        self._low = self._high = (0.0, 0.0)

    def add(self, x: float, y: float) -> None:
        if self.count % self._every == 0:
            if len(self.usual) == MAX_USUAL:
                self.usual, self._every = self.usual[::2], 2 * self._every
            self.usual.append(y)
        self.count += 1
        if self.group == 1:
            self.x.append(x)
            self.y.append(y)
        else:
            if not self._pending:
                self._low = self._high = (x, y)
            elif y < self._low[1]:
                self._low = (x, y)
            elif y > self._high[1]:
                self._high = (x, y)
            self._pending += 1
            if self._pending < self.group:
                return
            self._pending = 0
            self._keep(self._low, self._high)
        if len(self.x) >= self.limit:
            self._halve()

    def _keep(self, low: tuple[float, float], high: tuple[float, float]) -> None:
        for x, y in (low, high) if low[0] <= high[0] else (high, low):
            self.x.append(x)
            self.y.append(y)

    def _halve(self) -> None:
        old_x, old_y = self.x, self.y
        self.x, self.y = array("d"), array("d")
        for start in range(0, len(old_x), 4):
            part = old_y[start : start + 4]
            low = start + part.index(min(part))
            high = start + part.index(max(part))
            self._keep((old_x[low], old_y[low]), (old_x[high], old_y[high]))
        self.group = 4 if self.group == 1 else self.group * 2

    def points(self) -> tuple[array[float], array[float]]:
        if not self._pending:
            return self.x, self.y
        x, y = self.x[:], self.y[:]
        for point in (self._low, self._high) if self._low[0] <= self._high[0] else (self._high, self._low):
            x.append(point[0])
            y.append(point[1])
        return x, y

    def __len__(self) -> int:
        return self.count


class TelemetryLog:
    """GPU readings of one run: at_s (CLOCK_MONOTONIC), clocks in MHz, temperature in C, power in W, throttle
    bits (-1 unknown). Beyond `limit` readings each kept one stands for several, with their bits joined."""

    __slots__ = (
        "_skip",
        "at_s",
        "count",
        "group",
        "limit",
        "memory_clock_mhz",
        "power_w",
        "sm_clock_mhz",
        "temperature_c",
        "throttle",
    )

    def __init__(self, limit: int = MAX_READINGS) -> None:
        self.limit = limit
        self.group = 1
        self.count = 0
        self._skip = 0
        self.at_s: array[float] = array("d")
        self.sm_clock_mhz: array[float] = array("d")
        self.memory_clock_mhz: array[float] = array("d")
        self.temperature_c: array[float] = array("d")
        self.power_w: array[float] = array("d")
        self.throttle: array[int] = array("q")

    def add(self, at_ns: int, sm: float, memory: float, temperature: float, power: float, bits: int) -> None:
        """Take one reading."""
        self.count += 1
        if self._skip and self.at_s:
            self._skip -= 1
            kept = self.throttle[-1]
            self.throttle[-1] = bits if kept < 0 else kept if bits < 0 else kept | bits
            return
        self._skip = self.group - 1
        self.at_s.append(at_ns / 1e9)
        self.sm_clock_mhz.append(sm)
        self.memory_clock_mhz.append(memory)
        self.temperature_c.append(temperature)
        self.power_w.append(power)
        self.throttle.append(bits)
        if len(self.at_s) >= self.limit:
            self._halve()

    def _halve(self) -> None:
        joined: array[int] = array("q")
        for start in range(0, len(self.throttle), 2):
            known = [bits for bits in self.throttle[start : start + 2] if bits >= 0]
            joined.append(-1 if not known else known[0] | known[-1])
        self.throttle = joined
        for name in ("at_s", "sm_clock_mhz", "memory_clock_mhz", "temperature_c", "power_w"):
            setattr(self, name, getattr(self, name)[::2])
        self.group *= 2
        self._skip = self.group - 1

    def latest(self, metric: str) -> float | None:
        """Newest answer of a metric (an attribute's name), None where there was none."""
        values: array[float] = getattr(self, metric)
        if not values or math.isnan(values[-1]):
            return None
        return values[-1]

    def __len__(self) -> int:
        return self.count


@dataclass(slots=True)
class Drawn:
    """An arm's samples as they are drawn; counts are exact.

    Attributes:
        points: samples that count.
        clocks: SM clock in MHz during each sample that has one.
        discarded, discarded_points: what was set aside, by code of store.record.DISCARDED.
    """

    points: PointLog = field(default_factory=PointLog)
    clocks: PointLog = field(default_factory=PointLog)
    discarded: Counter[int] = field(default_factory=Counter)
    discarded_points: dict[int, PointLog] = field(default_factory=dict)

    def take(self, end_ns: int, device_ms: float, code: int, origin_ns: int, clock_mhz: float = math.nan) -> None:
        """Take one sample; `code` is 0 for one that counts, else why it was set aside; a clock of NaN is unknown."""
        at_s = (end_ns - origin_ns) / 1e9
        if code:
            self.discarded[code] += 1
            self.discarded_points.setdefault(code, PointLog()).add(at_s, device_ms)
        else:
            self.points.add(at_s, device_ms)
        if clock_mhz == clock_mhz:
            self.clocks.add(at_s, clock_mhz)


@dataclass(slots=True)
class RunView(Reading):
    """A run with what is drawn of it: from events, or from the store (`stored`).

    Attributes:
        drawn: samples, by rung; see `samples`.
        output: arm and line; `output_count` lines ever came, `output_dropped` the engine thinned away.
        origin_ns: when its measuring began: 0 on the time axis.
        placed: the device that the engine gave it ("cuda:1" where there are several GPUs); "" before.
        whole: False: points, telemetry and output were let go; the store has them.
        foreign: the machine that it was imported from; "" for one of this machine.
        confined: what its processes were held from, once the store was asked; "" where that is not known.
    """

    drawn: dict[str, Drawn] = field(default_factory=dict)
    telemetry: TelemetryLog = field(default_factory=TelemetryLog)
    output: deque[tuple[str, str]] = field(default_factory=lambda: deque(maxlen=MAX_OUTPUT_LINES))
    output_count: int = 0
    output_dropped: int = 0
    gaps: list[tuple[int, int]] = field(default_factory=list)
    origin_ns: int | None = None
    placed: str = ""
    whole: bool = True
    stored: bool = False
    foreign: str = ""
    confined: str = ""

    @property
    def device(self) -> str:
        """Where it runs, as far as the engine has said ("cuda:1")."""
        return self.placed or self.record.device

    def samples(self, rung: str) -> Drawn:
        return self.drawn.get(rung) or Drawn()

    def take_samples(self, rung: str) -> Drawn:
        return self.drawn.setdefault(rung, Drawn())


@dataclass(slots=True)
class WatchView:
    """A target under watch, and its edits in order."""

    target: str
    folder: str = ""
    active: bool = True
    polling: bool = False
    edits: list[events.WatchEdit] = field(default_factory=list)

    @property
    def saves(self) -> int:
        """How often a file was saved: edit 0 is the state when the watch began."""
        return sum(1 for edit in self.edits if edit.number)

    def take(self, edit: events.WatchEdit) -> None:
        """Take an edit in the place of the one with its number."""
        others = [one for one in self.edits if one.number != edit.number]
        self.edits = sorted([*others, edit], key=lambda one: one.number)[-MAX_EDITS:]


@dataclass(slots=True)
class PeakView:
    """One measurement of a GPU's ceilings as far as it came. `wall` is "" for one that is under way or just ended."""

    id: str
    gpu: str = ""
    wall: str = ""
    count: int = 0  # how many there will be; 0 unknown
    ceilings: list[Ceiling] = field(default_factory=list)
    finished: bool = False
    reason: str = ""  # why it was not stored


@dataclass(slots=True)
class ConnectionView:
    """How things stand with the engine.

    Attributes:
        state: connecting, connected, lost or mismatch.
        silent_since: wall clock of the last that was heard of a connected engine that does not answer; else "".
        heard_ns: the same as CLOCK_MONOTONIC.
    """

    state: str = "connecting"
    why: str = ""
    pid: int | None = None
    epoch: str = ""
    build: str = ""
    state_dir: str = ""
    last_seq: int = 0
    silent_since: str = ""
    heard_ns: int = 0

    def __str__(self) -> str:
        if self.silent_since:
            return f"{self.state}: not answering since {self.silent_since}"
        return f"{self.state}: {self.why}" if self.why else self.state


def stored_peak(peak: Peak) -> PeakView:
    return PeakView(peak.id, peak.gpu, peak.wall, len(peak.ceilings), list(peak.ceilings), finished=True)


def stored_run(record: Run, samples: Mapping[str, Samples], telemetry: Telemetry | None = None) -> RunView:
    """A run of the store in the shape of a live one, with its samples and readings thinned for drawing."""
    run = RunView(record, stored=True)
    begins = [step.start_ns for step in record.steps if step.name == "measure"]
    begins += [int(taken.end_ns[0] - taken.device_ms[0] * 1e6) for taken in samples.values() if len(taken)]
    run.origin_ns = min(begins, default=None)
    for arm in record.arms:
        taken = samples.get(arm.rung)
        if taken is None:
            continue
        drawn = run.take_samples(arm.rung)
        columns = (taken.end_ns, taken.device_ms, taken.discarded, taken.sm_clock_mhz)
        for end_ns, device_ms, code, clock_mhz in zip(*(column.tolist() for column in columns), strict=True):
            drawn.take(end_ns, device_ms, code, run.origin_ns or 0, clock_mhz)
    if telemetry is not None:
        for reading in zip(*(getattr(telemetry, name).tolist() for name in READINGS), strict=True):
            run.telemetry.add(*reading)
    return run


def _line(text: str) -> str:
    return text.replace("\n", " ").expandtabs(8)


def _has_gpu(device: str, gpu: int) -> bool:
    """Whether a GPU is among those that a job is on: "cuda:1", "cuda:0,1", or "cuda" for all that there are."""
    which = device.partition(":")[2]
    return not which or str(gpu) in which.split(",")


class Model:
    """Everything that the screens draw. `apply` is the only way in for what the engine says."""

    def __init__(self, clock_ns: Callable[[], int] = time.monotonic_ns) -> None:
        self.clock_ns = clock_ns
        self.runs: dict[str, RunView] = {}  # newest last
        self.watches: dict[str, WatchView] = {}
        self.watched: dict[str, RunView] = {}  # runs of watches that only the store knows
        self.banners: dict[str, events.Banner] = {}  # what the person must know, by what it is about
        self.engine_lines: deque[tuple[str, str]] = deque(maxlen=MAX_ENGINE_LINES)  # level, text
        self.engine_line_count = 0  # lines that ever came, so that a pane can fetch the new ones only
        self.connection = ConnectionView()
        self.status: events.Status | None = None
        self.queue: list[events.QueueItem] = []  # every job of the engine, those under way first, in its order
        self.gpus: dict[int, events.GpuUse] = {}  # by index, as they were heard of last
        self._read_ns: dict[int, int] = {}  # CLOCK_MONOTONIC of the reading that each says
        self.gaps: list[tuple[int, int]] = []
        self.samples_applied = 0
        self.peak: PeakView | None = None  # the newest measurement of ceilings that was heard of
        self.fuzzes: dict[str, FuzzView] = {}  # newest last; lints and replays too, see FuzzView.what
        self.replays: dict[str, events.ReplayFinished] = {}  # by failure: what became of it the last time
        self.quarantines: dict[tuple[bytes, str], Quarantine] = {}  # by folder and rung, as the store last said
        self._handlers: dict[type[events.Event], Callable[[Any, set[str]], None]] = {
            events.Welcome: self._on_welcome,
            events.Status: self._on_status,
            events.QueueChanged: self._on_queue_changed,
            events.EngineLog: self._on_engine_log,
            events.LogLine: self._on_log_line,
            events.Gap: self._on_gap,
            events.Banner: self._on_banner,
            events.RunPlanned: self._on_run,
            events.RunState: self._on_run,
            events.Step: self._on_run,
            events.SampleBatch: self._on_samples,
            events.TelemetryBatch: self._on_telemetry,
            events.ArmUpdate: self._on_run,
            events.ComparisonUpdate: self._on_run,
            events.PeakCeiling: self._on_peak_ceiling,
            events.PeakFinished: self._on_peak_finished,
            events.FuzzPlanned: self._on_fuzz,
            events.FuzzCase: self._on_fuzz,
            events.FuzzFailure: self._on_fuzz,
            events.FuzzFinished: self._on_fuzz,
            events.LintFinished: self._on_lint_finished,
            events.ReplayFinished: self._on_replay_finished,
            events.RunFinished: self._on_run,
            events.Output: self._on_output,
            events.WatchChanged: self._on_watch_changed,
            events.WatchEdit: self._on_watch_edit,
        }

    # -- in ---------------------------------------------------------------------------------------------

    def apply(self, arrived: Iterable[events.Event]) -> set[str]:
        """Take events in order; return the names of what changed.

        Names: "runs" (any run's headline), "run:ID", "samples:ID", "output:ID", "telemetry", "watches",
        "watch:TARGET", "peak", "fuzzes" (any fuzz's state or failures), "fuzz:ID" (its cases), "replays", "banners",
        "log", "status", "queue", "connection", "gaps". An event that was seen before (a replay after a reconnect)
        changes nothing.
        """
        names: set[str] = set()
        connection = self.connection
        for event in arrived:
            if event.seq:
                if event.seq <= connection.last_seq:
                    continue
                connection.last_seq = event.seq
            handler = self._handlers.get(type(event))
            if handler is not None:
                handler(event, names)
        return names

    def set_connection(self, state: str, why: str = "") -> set[str]:
        """Note how things stand with the engine; `lost`, `mismatch` and what is waited for raise a banner until
        `connected`."""
        self.connection.state, self.connection.why = state, clean_line(why)
        self.connection.silent_since = ""
        self.banners.pop("engine", None)
        if state in ("lost", "mismatch"):
            self._say_of_engine(f"engine {state}: {why}", "error")
        elif why:
            self._say_of_engine(why, "warning")
        return {"connection", "banners"}

    def _say_of_engine(self, text: str, severity: str) -> None:
        self.banners["engine"] = events.Banner(key="engine", text=text, severity=severity)

    def set_silent(self, since: str, heard_ns: int) -> set[str]:
        """Note since when a connected engine has not answered ("": it does): what it does now, nobody knows.

        Args:
            since: wall clock.
            heard_ns: the same as CLOCK_MONOTONIC.
        """
        connection = self.connection
        if since == connection.silent_since:
            return set()
        connection.silent_since, connection.heard_ns = since, heard_ns
        self.banners.pop("engine", None)
        if since:
            text = f"the engine (pid {connection.pid}) has not answered since {since}; nothing ends by itself"
            self._say_of_engine(text, "error")
        return {"connection", "banners", "runs", *(f"run:{run.id}" for run in self.active_runs())}

    def set_quarantines(self, found: Iterable[Quarantine]) -> set[str]:
        """Take what the store says is in quarantine; returns {"quarantines"} where that changed."""
        fresh = {(item.folder, item.rung): item for item in found}
        if fresh == self.quarantines:
            return set()
        self.quarantines = fresh
        for run in self.runs.values():
            self.mark(run)
        return {"quarantines"}

    def mark(self, run: RunView) -> None:
        """Note in a run which of its rungs are in quarantine: one that ran as the code that was caught, and one that
        runs as other code, until that run has ended."""
        run.quarantined = {
            rung: held
            for (folder, rung), held in self.quarantines.items()
            if folder == run.record.folder
            and rung in run.rungs
            and (not run.record.state.final or run.record.code in ("", held.code))
        }

    def held(self, folder: bytes) -> dict[str, Bar]:
        return {rung: of_quarantine(held) for (where, rung), held in self.quarantines.items() if where == folder}

    def set_gpus(self, gpus: Sequence[events.GpuUse]) -> set[str]:
        found = {one.index: one for one in gpus}
        if not found or found == self.gpus:
            return set()
        self.gpus = found
        return {"gpus"}

    def now_ns(self) -> int:
        """CLOCK_MONOTONIC now; of an engine that does not answer, the last moment of which anything is known."""
        return self.connection.heard_ns if self.connection.silent_since else self.clock_ns()

    # -- handlers, one per kind of event ----------------------------------------------------------------

    def _on_welcome(self, event: events.Welcome, names: set[str]) -> None:
        connection = self.connection
        if event.epoch != connection.epoch:
            self._end_epoch(names)
            connection.last_seq = 0
        connection.pid, connection.epoch, connection.build = event.pid, event.epoch, event.build
        connection.state_dir = event.state_dir
        names.add("connection")

    def _end_epoch(self, names: set[str]) -> None:
        """Another engine answers: what the old one had under way is lost."""
        for run in self.runs.values():
            if not run.record.state.final:
                run.record = run.record.lost("the engine ended while this was under way; R runs it again")
                names.update(("runs", f"run:{run.id}"))
        for watch in self.watches.values():
            if watch.active:
                watch.active = False
                names.update(("watches", f"watch:{watch.target}"))
        if self.peak is not None and not self.peak.finished:
            self.peak.finished, self.peak.reason = True, "the engine ended while this was under way"
            names.add("peak")
        for fuzz in self.active_fuzzes():
            fuzz.lose()
            names.update(("fuzzes", f"fuzz:{fuzz.id}"))
        for key in [key for key in self.banners if key != "engine"]:
            del self.banners[key]
            names.add("banners")
        self.status = None
        self.queue = []
        names.add("queue")

    def _on_status(self, event: events.Status, names: set[str]) -> None:
        self.status, self.queue = event, event.queue
        names.update(("status", "queue"))

    def _on_queue_changed(self, event: events.QueueChanged, names: set[str]) -> None:
        self.queue = event.jobs
        names.add("queue")

    def _on_engine_log(self, event: events.EngineLog, names: set[str]) -> None:
        self.engine_lines.clear()
        self.engine_lines.extend(("", _line(text)) for text in event.lines)
        self.engine_line_count += len(event.lines)
        names.update(("log", "log:whole"))

    def _on_log_line(self, event: events.LogLine, names: set[str]) -> None:
        self.engine_lines.append((event.level, _line(event.text)))
        self.engine_line_count += 1
        names.add("log")

    def _on_gap(self, event: events.Gap, names: set[str]) -> None:
        self.gaps.append((event.first, event.last))
        for run in self.runs.values():
            if not run.record.state.final:
                run.gaps.append((event.first, event.last))
                names.add(f"run:{run.id}")
        for fuzz in self.active_fuzzes():
            fuzz.gaps.append((event.first, event.last))
            names.add(f"fuzz:{fuzz.id}")
        names.add("gaps")

    def _on_banner(self, event: events.Banner, names: set[str]) -> None:
        if event.text:
            self.banners[event.key] = event
        else:
            self.banners.pop(event.key, None)
        names.add("banners")

    def _run(self, run_id: str, names: set[str]) -> RunView:
        """The run of that id, made if its plan was missed (a gap, or a subscription from the middle)."""
        run = self.runs.get(run_id)
        if run is None:
            run = self.runs[run_id] = RunView(unplanned(run_id))
            names.add("runs")
            self._forget()
        return run

    def _forget(self) -> None:
        """Let go of what is old: points beyond the newest WHOLE_RUNS, whole views beyond MAX_RUNS."""
        if len(self.runs) > MAX_RUNS:
            oldest = next((key for key, run in self.runs.items() if run.record.state.final), None)
            if oldest is not None:
                del self.runs[oldest]
        ids = list(self.runs)
        for run_id in ids[max(0, len(ids) - WHOLE_RUNS - 8) : max(0, len(ids) - WHOLE_RUNS)]:
            run = self.runs[run_id]
            if run.whole and run.record.state.final:
                run.whole = False
                run.telemetry = TelemetryLog()
                run.output.clear()
                for drawn in run.drawn.values():
                    drawn.points, drawn.clocks, drawn.discarded_points = PointLog(), PointLog(), {}

    def _on_run(self, event: RunEvent, names: set[str]) -> None:
        run = self._run(event.run_id, names)
        run.record = following.after(run.record, event)
        following.pace(run.pace, event)
        if isinstance(event, events.RunState):
            run.placed = event.device
            # The engine tells the queue when a job comes, moves or ends, and not when one moves on.
            for place, job in enumerate(self.queue):
                if job.run_id == event.run_id and job.state != event.state:
                    self.queue[place] = msgspec.structs.replace(job, state=event.state.value)
                    names.add("queue")
        if isinstance(event, events.Step) and event.step.name == "measure" and run.origin_ns is None:
            run.origin_ns = event.step.start_ns
        if isinstance(event, (events.RunPlanned, events.RunFinished)):
            self.mark(run)
        if isinstance(event, events.RunFinished) and run.record.target in self.watches:
            names.add(f"watch:{run.record.target}")
        names.add(f"run:{run.id}")
        if not isinstance(event, events.Step):  # of which lists of runs say nothing
            names.add("runs")

    def _on_samples(self, event: events.SampleBatch, names: set[str]) -> None:
        run = self._run(event.run_id, names)
        if not event.end_ns:
            return
        drawn = run.take_samples(event.arm)
        if run.origin_ns is None:
            run.origin_ns = event.end_ns[0] - int(event.device_ms[0] * 1e6)
        origin_ns = run.origin_ns
        columns = (event.end_ns, event.device_ms, event.discarded, event.sm_clock_mhz)
        for end_ns, device_ms, code, clock_mhz in zip(*columns, strict=False):
            drawn.take(end_ns, device_ms, code, origin_ns, clock_mhz)
        self.samples_applied += len(event.end_ns)
        names.add(f"samples:{run.id}")

    def _on_telemetry(self, event: events.TelemetryBatch, names: set[str]) -> None:
        live = [
            run
            for run in self.runs.values()
            if not run.record.state.final
            and run.record.state is not State.PLANNED
            and not run.device.startswith("cpu")
            and _has_gpu(run.device, event.gpu)
        ]
        for run in live:
            add = run.telemetry.add
            for reading in zip(*(getattr(event, name) for name in READINGS), strict=False):
                add(*reading)
        if live:
            names.add("telemetry")
        if event.at_ns and event.at_ns[-1] - self._read_ns.get(event.gpu, 0) > STRIP_PERIOD_NS:
            self._read_ns[event.gpu] = event.at_ns[-1]
            clock, power = (None if math.isnan(one[-1]) else one[-1] for one in (event.sm_clock_mhz, event.power_w))
            now = self.gpus.get(event.gpu, events.GpuUse(index=event.gpu))
            self.gpus[event.gpu] = msgspec.structs.replace(now, sm_clock_mhz=clock, power_w=power)
            names.add("gpus")

    def _peak(self, peak_id: str, gpu: str) -> PeakView:
        """The measurement of that id; a new one takes the place of one that has ended, and is not shown before that:
        other GPUs are measured side by side.
        """
        peak = self.peak
        if peak is None or peak.id != peak_id:
            peak, ended = PeakView(peak_id), peak is None or peak.finished
            self.peak = peak if ended else self.peak
        peak.gpu = gpu or peak.gpu
        return peak

    def _on_peak_ceiling(self, event: events.PeakCeiling, names: set[str]) -> None:
        peak = self._peak(event.peak_id, event.gpu)
        peak.count = event.count
        if len(peak.ceilings) < MAX_CEILINGS:
            peak.ceilings.append(event.ceiling)
        names.add("peak")

    def _on_peak_finished(self, event: events.PeakFinished, names: set[str]) -> None:
        if not event.reason and self.peak is not None and self.peak.id != event.peak_id:
            return  # of another GPU: the store has it
        peak = self._peak(event.peak_id, event.gpu)
        peak.finished, peak.reason = True, event.reason
        names.add("peak")

    def _fuzz(self, fuzz_id: str, names: set[str]) -> FuzzView:
        """The fuzz of that id, made if its plan was missed; beyond MAX_FUZZES the oldest that has ended is let go."""
        fuzz = self.fuzzes.get(fuzz_id)
        if fuzz is None:
            fuzz = self.fuzzes[fuzz_id] = FuzzView(fuzz_id)
            names.add("fuzzes")
            ended = next((key for key, found in self.fuzzes.items() if found.state.final), None)
            if len(self.fuzzes) > MAX_FUZZES and ended is not None:
                del self.fuzzes[ended]
        return fuzz

    def _on_fuzz(self, event: FuzzEvent, names: set[str]) -> None:
        fuzz = self._fuzz(event.fuzz_id, names)
        match event:
            case events.FuzzPlanned():
                fuzz.take_plan(event)
            case events.FuzzCase():
                fuzz.take_case(event, self.now_ns())
            case events.FuzzFailure():
                fuzz.take_failure(event.failure, shrunk=event.shrunk)
            case events.FuzzFinished():
                fuzz.ended(event.fuzz)
        names.add(f"fuzz:{fuzz.id}")
        if not isinstance(event, events.FuzzCase):  # of which lists of fuzzes say nothing
            names.add("fuzzes")

    def _on_lint_finished(self, event: events.LintFinished, names: set[str]) -> None:
        fuzz = self._fuzz(event.fuzz_id, names)
        fuzz.what, fuzz.reason = "lint", event.reason
        fuzz.state = FuzzState.FAILED if event.reason else FuzzState.DONE
        names.add("fuzzes")

    def _on_replay_finished(self, event: events.ReplayFinished, names: set[str]) -> None:
        fuzz = self._fuzz(event.fuzz_id, names)
        fuzz.what, fuzz.state = "replay", FuzzState.DONE
        self.replays.pop(event.failure, None)
        self.replays[event.failure] = event
        if len(self.replays) > MAX_REPLAYS:
            del self.replays[next(iter(self.replays))]
        names.update(("fuzzes", "replays"))

    def _on_output(self, event: events.Output, names: set[str]) -> None:
        run = self._run(event.run_id, names)
        run.output.extend((event.arm, _line(line)) for line in event.lines)
        run.output_count += len(event.lines)
        run.output_dropped += event.dropped
        names.add(f"output:{run.id}")

    def _on_watch_changed(self, event: events.WatchChanged, names: set[str]) -> None:
        watch = self.watches.get(event.target)
        moved = watch is not None and watch.folder not in ("", event.folder)
        if watch is None or (event.active and moved):  # another folder's edits are another watch's
            watch = self.watches[event.target] = WatchView(event.target)
        watch.folder, watch.active, watch.polling = event.folder, event.active, event.polling
        names.update(("watches", f"watch:{event.target}"))

    def _on_watch_edit(self, event: events.WatchEdit, names: set[str]) -> None:
        self.watches.setdefault(event.target, WatchView(event.target)).take(event)
        names.update(("watches", f"watch:{event.target}"))

    def take_watched(self, runs: Iterable[Run]) -> None:
        """Take runs of a watch from the store: the edits of engines before this one, which tell nothing of them."""
        for record in runs:
            if record.edit is None or record.id in self.runs:
                continue
            number, files = record.edit
            watch = self.watches.setdefault(record.target, WatchView(record.target, active=False))
            told = {edit.run_id: edit.number for edit in watch.edits}
            if number in told.values() and record.id not in told:
                continue  # an edit that did not compile had this number first
            run = self.watched[record.id] = stored_run(record, {})
            run.whole = False
            self.mark(run)
            watch.take(
                events.WatchEdit(
                    target=record.target,
                    number=number,
                    snapshot=record.snapshot,
                    files=files,
                    run_id=record.id,
                    wall=record.wall,
                )
            )

    # -- out --------------------------------------------------------------------------------------------

    def newest_run(self, target: str) -> RunView | None:
        """The newest run of a target that goes on or says something of it."""
        runs = (run for run in reversed(self.runs.values()) if run.record.target == target)
        return next((run for run in runs if not run.record.state.final or standing.is_result(run.record)), None)

    def active_runs(self) -> list[RunView]:
        """Runs that have not ended, in the order they will run."""
        return [run for run in self.runs.values() if not run.record.state.final]

    def active_run(self, target: str) -> RunView | None:
        """The target's run that is under way, else the first one that waits."""
        runs = [run for run in self.active_runs() if run.record.target == target]
        return min(runs, key=lambda run: run.record.start_ns is None, default=None)

    def active_watches(self) -> list[WatchView]:
        return [watch for watch in self.watches.values() if watch.active]

    def fuzzes_of(self, target: str) -> list[FuzzView]:
        """Fuzzes of a target, newest first; neither lints nor replays."""
        return [fuzz for fuzz in reversed(self.fuzzes.values()) if fuzz.target == target and fuzz.what == "fuzz"]

    def active_fuzzes(self) -> list[FuzzView]:
        """Fuzzes, lints and replays that have not ended, oldest first."""
        return [fuzz for fuzz in self.fuzzes.values() if not fuzz.state.final]
