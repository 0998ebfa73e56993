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
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeVar

from aisp.engine import telling
from aisp.engine.clean import clean, clean_line
from aisp.engine.protocol import events
from aisp.store.outcomes import Correctness, FindingStatus, State, Timing, Validity, Verdict
from aisp.store.results import standing
from aisp.tui.fuzzes import FuzzState, FuzzView, ReplayView
from aisp.tui.results import CHEAT, MISTAKE, mistaken

if TYPE_CHECKING:
    from aisp.store.records import FindingRecord, Peak, Quarantine, RunRecord, Samples, Telemetry

MAX_POINTS = 2048
MAX_READINGS = 4096
MAX_OUTPUT_LINES = 5000
MAX_ENGINE_LINES = 5000
MAX_RUNS = 1000
WHOLE_RUNS = 40
MAX_EDITS = 2000
MAX_CEILINGS = 500
MAX_FUZZES = 40
MAX_REPLAYS = 500

BASELINE = "baseline"
NO_GPU = "CPU only"  # what a machine without one is called
AA_SUFFIX = standing.TWIN_SUFFIX
AA_ARM = BASELINE + AA_SUFFIX

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
    kept as their lowest and highest; the group doubles whenever the log is full.
    """

    __slots__ = ("_high", "_low", "_pending", "count", "group", "limit", "x", "y")

    def __init__(self, limit: int = MAX_POINTS) -> None:
        self.limit = limit
        self.x: array[float] = array("d")
        self.y: array[float] = array("d")
        self.count = 0
        self.group = 1
        self._pending = 0
        self._low = self._high = (0.0, 0.0)

    def add(self, x: float, y: float) -> None:
        """Take one point."""
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
        """All points kept, the unfinished last group among them."""
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

    def reasons_seen(self) -> int:
        """All throttle bits that were ever set, -1 where the driver never answered."""
        bits, answered = 0, False
        for value in self.throttle:
            if value >= 0:
                bits |= value
                answered = True
        return bits if answered else -1

    def __len__(self) -> int:
        return self.count


@dataclass(slots=True)
class StepView:
    """A step of a run; duration_ms is None while it is under way."""

    name: str
    arm: str
    start_ns: int
    duration_ms: float | None = None
    detail: str = ""


@dataclass(slots=True)
class ComparisonView:
    """A rung against a baseline; preliminary until the run has ended."""

    rung: str
    baseline: str
    verdict: Verdict
    speedup: float | None = None
    low: float | None = None
    high: float | None = None
    floor: float | None = None
    cycles: float | None = None  # the same ratio in SM cycles
    cycles_low: float | None = None
    cycles_high: float | None = None
    p_value: float | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class FindingView:
    """What one check said of one arm, or of the whole run where `arm` is ""."""

    check: str
    arm: str
    status: FindingStatus
    evidence: str


@dataclass(frozen=True, slots=True)
class QuarantineView:
    """store.records.Quarantine, its texts cleaned; `folder` is the target's as text."""

    target: str
    folder: str
    rung: str
    code: str
    run_id: str
    check: str
    evidence: str
    wall: str

    @property
    def mistake(self) -> bool:
        """Whether it is there for plain wrong values, which a screen does not call cheating."""
        return self.check == MISTAKE and not self.rung.startswith(CHEAT)

    @staticmethod
    def of(found: Quarantine) -> QuarantineView:
        """As the store has it."""
        return QuarantineView(
            clean_line(found.target),
            clean_line(found.folder),
            clean_line(found.rung),
            found.code,
            clean_line(found.run_id, limit=64),
            clean_line(found.check),
            clean_line(found.evidence, limit=4000),
            clean_line(found.wall),
        )


@dataclass(frozen=True, slots=True)
class Bar:
    """Why no figure of a rung may be shown as a speed-up.

    Attributes:
        word: "caught" in this run, or "quarantined" by an earlier one; of plain wrong values "wrong" and "was wrong".
        rung: whose fault it is: the rung's own, the baseline's that it is compared with, or "" the whole run's.
        mistake: it has plain wrong values, and nothing else is held against it.
    """

    word: str
    rung: str
    check: str
    evidence: str
    mistake: bool = False


@dataclass(slots=True)
class ArmView:
    """One rung's part in a run."""

    rung: str
    state: State = State.PLANNED
    correctness: Correctness = Correctness.UNKNOWN
    timing: Timing = Timing.NONE
    median_ms: float | None = None
    low_ms: float | None = None
    high_ms: float | None = None
    sample_count: int = 0  # as the engine counts them; `points.count` is what this face received
    calls: int | None = None  # in one sample
    sm_clock_mhz: float | None = None  # median over the samples, from the GPU's own counters
    sol: float | None = None
    light: events.ArmLight | None = None
    quality: events.ArmQuality | None = None
    naive: events.ArmNaive | None = None  # what a careless evaluator says; None where it was not asked
    max_error: float | None = None
    peak_bytes: int | None = None
    reason: str = ""
    detail: str = ""
    points: PointLog = field(default_factory=PointLog)
    discarded_points: dict[int, PointLog] = field(default_factory=dict)  # by code of store.records.DISCARDED
    clocks: PointLog = field(default_factory=PointLog)  # SM clock in MHz during each sample that has one
    discarded: Counter[int] = field(default_factory=Counter)  # by the same code

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
class RunView:
    """A run as far as it is known: from events, or from the store (`stored`)."""

    id: str
    target: str
    title: str = ""
    folder: str = ""
    device: str = ""
    case: str = ""
    quick: bool = False
    trigger: str = ""
    snapshot: str = ""
    wall: str = ""
    epoch: str = ""
    state: State = State.PLANNED
    correctness: Correctness = Correctness.UNKNOWN
    validity: Validity = Validity.UNKNOWN
    verdict: Verdict = Verdict.NONE
    duration_ms: float | None = None
    reason: str = ""
    flags: tuple[str, ...] = ()
    steps: list[StepView] = field(default_factory=list)
    arms: dict[str, ArmView] = field(default_factory=dict)
    comparisons: dict[tuple[str, str], ComparisonView] = field(default_factory=dict)  # by rung and baseline
    telemetry: TelemetryLog = field(default_factory=TelemetryLog)
    output: deque[tuple[str, str]] = field(default_factory=lambda: deque(maxlen=MAX_OUTPUT_LINES))  # arm, line
    output_count: int = 0  # lines that ever came, so that a pane can fetch the new ones only
    output_dropped: int = 0  # lines that the engine thinned away
    gaps: list[tuple[int, int]] = field(default_factory=list)
    findings: tuple[FindingView, ...] | None = None  # None: the checks have not been asked yet
    code: str = ""  # digest of the target's code as it ran; "" where the store does not say
    without: tuple[str, ...] = ()  # checks that were left out on request, as far as the store says
    quarantined: dict[str, QuarantineView] = field(default_factory=dict)  # by rung; see Model.mark
    start_ns: int | None = None  # when it left the queue
    origin_ns: int | None = None  # when its measuring began: 0 on the time axis
    whole: bool = True  # False: points, telemetry and output were let go; the store has them
    stored: bool = False

    @property
    def rungs(self) -> list[str]:
        """Names of the arms in order, the baseline first."""
        return list(self.arms)

    def arm(self, rung: str) -> ArmView:
        """The arm of that name, made if it was not planned."""
        found = self.arms.get(rung)
        if found is None:
            found = self.arms[rung] = ArmView(rung)
        return found

    def comparison(self, rung: str) -> ComparisonView | None:
        """The rung's comparison with the first baseline, else with another one."""
        return standing.against(rung, self.arms.values(), self.comparisons.values())

    def bar(self, rung: str) -> Bar | None:
        """Why this rung's figures are no result: it was caught in this run, or it is in quarantine."""
        rung = rung.removesuffix(AA_SUFFIX)
        for found in self.findings or ():
            if found.status is FindingStatus.CAUGHT and found.arm.removesuffix(AA_SUFFIX) in (rung, ""):
                if rung in mistaken(self):
                    return Bar("wrong", rung, found.check, found.evidence, mistake=True)
                return Bar("caught", rung if found.arm else "", found.check, found.evidence)
        held = self.quarantined.get(rung)
        if held is None:
            return None
        return Bar("was wrong" if held.mistake else "quarantined", rung, held.check, held.evidence, held.mistake)

    def barred(self, item: ComparisonView) -> Bar | None:
        """Why a comparison's figures are no result: the rung's fault, or the baseline's."""
        return self.bar(item.rung) or self.bar(item.baseline)

    def missed(self, rung: str) -> bool:
        """Whether a cheat came through with a time that no check took for one."""
        arm = self.arms.get(rung)
        ended = arm is not None and self.state.final and arm.median_ms is not None
        return ended and rung.startswith(CHEAT) and self.bar(rung) is None

    def unjudged(self, rung: str) -> bool:
        """Whether this is a cheat of which the checks have not spoken yet: what it came to is nobody's speed-up."""
        return rung.startswith(CHEAT) and not self.state.final and self.findings is None

    @property
    def bars(self) -> list[Bar]:
        """Of every rung that has one, in the run's order; one that bars the whole run stands alone."""
        found = [bar for rung in self.arms if rung != AA_ARM and (bar := self.bar(rung)) is not None]
        return [bar for bar in found if not bar.rung][:1] or found

    @property
    def running_step(self) -> StepView | None:
        """The newest step that has not ended."""
        for step in reversed(self.steps):
            if step.duration_ms is None:
                return step
        return None

    @property
    def hidden(self) -> frozenset[str]:
        """Rungs whose figures are no result."""
        return frozenset(rung for rung in self.arms if self.bar(rung) is not None)

    @property
    def lead(self) -> ArmView | None:
        """The arm that the run is about."""
        return standing.lead(self.arms.values(), self.comparisons.values(), self.hidden)

    @property
    def headline(self) -> ComparisonView | None:
        """The comparison that the run is told by."""
        return standing.headline(self.arms.values(), self.comparisons.values(), self.hidden)

    def elapsed_s(self, now_ns: int) -> float | None:
        """Seconds since it left the queue, or its duration once it has ended; None before."""
        if self.duration_ms is not None:
            return self.duration_ms / 1e3
        if self.start_ns is None or self.state.final:
            return None
        return max(0.0, (now_ns - self.start_ns) / 1e9)


@dataclass(slots=True)
class EditView:
    """One save under watch. `error` is the syntax error, "" where the sources compile."""

    number: int
    snapshot: str
    files: tuple[str, ...]
    run_id: str
    error: str = ""
    wall: str = ""
    save_ns: int = 0


@dataclass(slots=True)
class WatchView:
    """A target under watch, and its edits in order."""

    target: str
    folder: str = ""
    active: bool = True
    polling: bool = False
    edits: list[EditView] = field(default_factory=list)


@dataclass(slots=True)
class BannerView:
    """Something that the person must know."""

    key: str
    text: str
    severity: str = "warning"


@dataclass(slots=True)
class PeakView:
    """One measurement of a GPU's ceilings as far as it came. `wall` is "" for one that is under way or just ended."""

    id: str
    gpu: str = ""
    wall: str = ""
    count: int = 0  # how many there will be; 0 unknown
    ceilings: list[events.PeakCeiling] = field(default_factory=list)
    finished: bool = False
    reason: str = ""  # why it was not stored

    def take(self, event: events.PeakCeiling) -> None:
        """One more ceiling, its texts cleaned."""
        event.name, event.unit, event.note = (clean_line(text) for text in (event.name, event.unit, event.note))
        self.ceilings.append(event)


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


def caught_in(run: RunView | RunRecord) -> dict[str, str]:
    """Rungs that were caught in a run, each with the first check that did it and its evidence; "" is the whole run."""
    told: Sequence[FindingView | FindingRecord] = run.findings or ()
    caught: dict[str, str] = {}
    for found in told:
        if found.status is FindingStatus.CAUGHT:
            rung = clean_line(found.arm).removesuffix(AA_SUFFIX)
            caught.setdefault(rung, clean_line(f"{found.check}: {found.evidence}", limit=4000))
    return caught


def stored_peak(peak: Peak) -> PeakView:
    """A measurement of the store in the shape of a live one."""
    count = len(peak.ceilings)
    view = PeakView(peak.id, clean_line(peak.gpu), clean_line(peak.wall), count, finished=True)
    for position, ceiling in enumerate(peak.ceilings, 1):
        view.take(telling.ceiling_event(peak.id, view.gpu, position, count, ceiling))
    return view


def stored_run(record: RunRecord, samples: Mapping[str, Samples], telemetry: Telemetry | None = None) -> RunView:
    """A run of the store in the shape of a live one, with its samples and readings thinned for drawing."""
    run = RunView(
        record.id,
        clean_line(record.target),
        clean_line(record.title),
        clean_line(record.folder),
        clean_line(record.device),
        clean_line(record.case),
        record.quick,
        record.trigger,
        record.snapshot,
        clean_line(record.wall),
        record.epoch,
        record.state,
        record.correctness,
        record.validity,
        record.verdict,
        record.duration_ms,
        clean_line(record.reason),
        tuple(clean_line(flag) for flag in record.flags),
        findings=tuple(
            FindingView(
                clean_line(item.check), clean_line(item.arm), item.status, clean_line(item.evidence, limit=4000)
            )
            for item in record.findings
        ),
        code=_text(record.manifest.get("code")),
        without=_texts(record.manifest.get("without")),
        start_ns=record.start_ns,
        stored=True,
    )
    for step in record.steps:
        run.steps.append(StepView(clean_line(step.name), clean_line(step.arm), step.start_ns, step.duration_ms))
    begins = [step.start_ns for step in record.steps if step.name == "measure"]
    begins += [int(taken.end_ns[0] - taken.device_ms[0] * 1e6) for taken in samples.values() if len(taken)]
    run.origin_ns = min(begins, default=None)
    for found in record.arms:
        arm = run.arms[clean_line(found.rung)] = ArmView(
            clean_line(found.rung),
            found.state,
            found.correctness,
            found.timing,
            found.median_ms,
            found.low_ms,
            found.high_ms,
            found.sample_count,
            found.calls,
            found.sm_clock_mhz,
            found.sol,
            telling.light_event(found.light),
            telling.quality_event(found.quality),
            telling.naive_event(found.naive),
            found.max_error,
            found.peak_bytes,
            clean_line(found.reason),
            clean(found.detail),
        )
        taken = samples.get(found.rung)
        if taken is None:
            continue
        columns = (taken.end_ns, taken.device_ms, taken.discarded, taken.sm_clock_mhz)
        for end_ns, device_ms, code, clock_mhz in zip(*(column.tolist() for column in columns), strict=True):
            arm.take(end_ns, device_ms, code, run.origin_ns or 0, clock_mhz)
    for item in record.comparisons:
        rung, baseline = clean_line(item.rung), clean_line(item.baseline)
        run.comparisons[rung, baseline] = ComparisonView(
            rung,
            baseline,
            item.verdict,
            item.speedup,
            item.low,
            item.high,
            item.floor,
            item.cycles,
            item.cycles_low,
            item.cycles_high,
            item.p_value,
            clean_line(item.note),
        )
    if telemetry is not None:
        readings = (
            telemetry.at_ns,
            telemetry.sm_clock_mhz,
            telemetry.memory_clock_mhz,
            telemetry.temperature_c,
            telemetry.power_w,
            telemetry.throttle,
        )
        for reading in zip(*(column.tolist() for column in readings), strict=True):
            run.telemetry.add(*reading)
    return run


Outcome = TypeVar("Outcome", bound=StrEnum)


def outcome(kind: type[Outcome], value: str, unknown: Outcome) -> Outcome:
    """`value` as a member of `kind`; `unknown` for a word that this version does not have."""
    try:
        return kind(value)
    except ValueError:
        return unknown


def _text(value: object) -> str:
    return clean_line(value) if isinstance(value, str) else ""


def _texts(value: object) -> tuple[str, ...]:
    return tuple(_text(item) for item in value) if isinstance(value, (list, tuple)) else ()


def _line(text: str) -> str:
    """One line of output, cleaned, with its indentation kept."""
    return clean(text, limit=2000).replace("\n", " ").expandtabs(8)


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


class Model:
    """Everything that the screens draw. `apply` is the only way in for what the engine says."""

    def __init__(self, clock_ns: Callable[[], int] = time.monotonic_ns) -> None:
        self.clock_ns = clock_ns
        self.runs: dict[str, RunView] = {}  # newest last
        self.watches: dict[str, WatchView] = {}
        self.banners: dict[str, BannerView] = {}
        self.engine_lines: deque[tuple[str, str]] = deque(maxlen=MAX_ENGINE_LINES)  # level, text
        self.engine_line_count = 0  # lines that ever came, so that a pane can fetch the new ones only
        self.connection = ConnectionView()
        self.status: events.Status | None = None
        self.gaps: list[tuple[int, int]] = []
        self.samples_applied = 0
        self.peak: PeakView | None = None  # the newest measurement of ceilings that was heard of
        self.fuzzes: dict[str, FuzzView] = {}  # newest last; lints and replays too, see FuzzView.what
        self.replays: dict[str, ReplayView] = {}  # by failure: what became of it the last time
        self.quarantines: dict[tuple[str, str], QuarantineView] = {}  # by folder and rung, as the store last said
        self._handlers: dict[type[events.Event], Callable[[Any, set[str]], None]] = {
            events.Welcome: self._on_welcome,
            events.Status: self._on_status,
            events.EngineLog: self._on_engine_log,
            events.LogLine: self._on_log_line,
            events.Gap: self._on_gap,
            events.Banner: self._on_banner,
            events.RunPlanned: self._on_run_planned,
            events.RunState: self._on_run_state,
            events.Step: self._on_step,
            events.SampleBatch: self._on_samples,
            events.TelemetryBatch: self._on_telemetry,
            events.ArmUpdate: self._on_arm,
            events.ComparisonUpdate: self._on_comparison,
            events.Findings: self._on_findings,
            events.PeakCeiling: self._on_peak_ceiling,
            events.PeakFinished: self._on_peak_finished,
            events.FuzzPlanned: self._on_fuzz_planned,
            events.FuzzCase: self._on_fuzz_case,
            events.FuzzFailure: self._on_fuzz_failure,
            events.FuzzFinished: self._on_fuzz_finished,
            events.LintFinished: self._on_lint_finished,
            events.ReplayFinished: self._on_replay_finished,
            events.RunFinished: self._on_finished,
            events.Output: self._on_output,
            events.WatchChanged: self._on_watch_changed,
            events.WatchEdit: self._on_watch_edit,
        }

    # -- in ---------------------------------------------------------------------------------------------

    def apply(self, arrived: Iterable[events.Event]) -> set[str]:
        """Take events in order; return the names of what changed.

        Names: "runs" (any run's headline), "run:ID", "samples:ID", "output:ID", "telemetry", "watches",
        "watch:TARGET", "peak", "fuzzes" (any fuzz's state or failures), "fuzz:ID" (its cases), "replays", "banners",
        "log", "status", "connection", "gaps". An event that was seen before (a replay after a reconnect) changes
        nothing.
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
        if state == "lost":
            self.banners["engine"] = BannerView("engine", f"engine lost: {self.connection.why}", "error")
        elif state == "mismatch":
            self.banners["engine"] = BannerView("engine", f"engine mismatch: {self.connection.why}", "error")
        elif why:
            self.banners["engine"] = BannerView("engine", self.connection.why, "warning")
        return {"connection", "banners"}

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
            self.banners["engine"] = BannerView("engine", text, "error")
        return {"connection", "banners", "runs", *(f"run:{run.id}" for run in self.active_runs())}

    def set_quarantines(self, found: Iterable[QuarantineView]) -> set[str]:
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
            if folder == run.folder and rung in run.arms and (not run.state.final or run.code in ("", held.code))
        }

    def held(self, folder: str) -> dict[str, QuarantineView]:
        """Rungs of the target in this folder that are in quarantine."""
        return {rung: held for (where, rung), held in self.quarantines.items() if where == folder}

    def now_ns(self) -> int:
        """CLOCK_MONOTONIC now; of an engine that does not answer, the last moment of which anything is known."""
        return self.connection.heard_ns if self.connection.silent_since else self.clock_ns()

    # -- handlers, one per kind of event ----------------------------------------------------------------

    def _on_welcome(self, event: events.Welcome, names: set[str]) -> None:
        connection = self.connection
        if event.epoch != connection.epoch:
            self._end_epoch(names)
            connection.last_seq = 0
        connection.pid, connection.epoch, connection.build = event.pid, event.epoch, clean_line(event.build)
        connection.state_dir = clean_line(event.state_dir)
        names.add("connection")

    def _end_epoch(self, names: set[str]) -> None:
        """Another engine answers: what the old one had under way is lost."""
        for run in self.runs.values():
            if not run.state.final:
                run.state = State.ENGINE_LOST
                run.reason = "the engine ended while this was under way; R runs it again"
                for arm in run.arms.values():
                    if not arm.state.final:
                        arm.state = State.ENGINE_LOST
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

    def _on_status(self, event: events.Status, names: set[str]) -> None:
        self.status = event
        names.add("status")

    def _on_engine_log(self, event: events.EngineLog, names: set[str]) -> None:
        self.engine_lines.clear()
        self.engine_lines.extend(("", _line(text)) for text in event.lines)
        self.engine_line_count += len(event.lines)
        names.update(("log", "log:whole"))

    def _on_log_line(self, event: events.LogLine, names: set[str]) -> None:
        self.engine_lines.append((clean_line(event.level, limit=12), _line(event.text)))
        self.engine_line_count += 1
        names.add("log")

    def _on_gap(self, event: events.Gap, names: set[str]) -> None:
        self.gaps.append((event.first, event.last))
        for run in self.runs.values():
            if not run.state.final:
                run.gaps.append((event.first, event.last))
                names.add(f"run:{run.id}")
        for fuzz in self.active_fuzzes():
            fuzz.gaps.append((event.first, event.last))
            names.add(f"fuzz:{fuzz.id}")
        names.add("gaps")

    def _on_banner(self, event: events.Banner, names: set[str]) -> None:
        key = clean_line(event.key, limit=64)
        if event.text:
            self.banners[key] = BannerView(key, clean_line(event.text), clean_line(event.severity, limit=16))
        else:
            self.banners.pop(key, None)
        names.add("banners")

    def _run(self, run_id: str, names: set[str]) -> RunView:
        """The run of that id, made if its plan was missed (a gap, or a subscription from the middle)."""
        run = self.runs.get(run_id)
        if run is None:
            run_id = clean_line(run_id, limit=64)
            run = self.runs.setdefault(run_id, RunView(run_id, ""))
            names.add("runs")
            self._forget()
        return run

    def _forget(self) -> None:
        """Let go of what is old: points beyond the newest WHOLE_RUNS, whole views beyond MAX_RUNS."""
        if len(self.runs) > MAX_RUNS:
            oldest = next((key for key, run in self.runs.items() if run.state.final), None)
            if oldest is not None:
                del self.runs[oldest]
        ids = list(self.runs)
        for run_id in ids[max(0, len(ids) - WHOLE_RUNS - 8) : max(0, len(ids) - WHOLE_RUNS)]:
            run = self.runs[run_id]
            if run.whole and run.state.final:
                run.whole = False
                run.telemetry = TelemetryLog()
                run.output.clear()
                for arm in run.arms.values():
                    arm.points, arm.clocks, arm.discarded_points = PointLog(), PointLog(), {}

    def _on_run_planned(self, event: events.RunPlanned, names: set[str]) -> None:
        run = self._run(event.run_id, names)
        run.target, run.title = clean_line(event.target), clean_line(event.title)
        run.folder, run.device = clean_line(event.folder), clean_line(event.device)
        run.case, run.quick, run.trigger = clean_line(event.case), event.quick, clean_line(event.trigger)
        run.snapshot, run.wall, run.epoch = clean_line(event.snapshot), clean_line(event.wall), event.epoch
        run.code = clean_line(event.code)
        for rung in event.rungs:
            run.arm(clean_line(rung))
        self.mark(run)
        names.update(("runs", f"run:{run.id}"))

    def _on_run_state(self, event: events.RunState, names: set[str]) -> None:
        run = self._run(event.run_id, names)
        run.state = outcome(State, event.state, State.INFRA_ERROR)
        if run.start_ns is None and run.state is not State.PLANNED:
            run.start_ns = event.at_ns
        names.update(("runs", f"run:{run.id}"))

    def _on_step(self, event: events.Step, names: set[str]) -> None:
        run = self._run(event.run_id, names)
        name, arm = clean_line(event.name), clean_line(event.arm)
        if run.start_ns is None:
            run.start_ns = event.start_ns
        if name == "measure" and run.origin_ns is None:
            run.origin_ns = event.start_ns
        for step in reversed(run.steps):
            if (step.name, step.arm, step.start_ns) == (name, arm, event.start_ns):
                break
        else:
            step = StepView(name, arm, event.start_ns)
            run.steps.append(step)
        step.duration_ms, step.detail = _finite(event.duration_ms), clean_line(event.detail)
        names.add(f"run:{run.id}")

    def _on_samples(self, event: events.SampleBatch, names: set[str]) -> None:
        run = self._run(event.run_id, names)
        if not event.end_ns:
            return
        arm = run.arm(clean_line(event.arm))
        arm.timing = outcome(Timing, event.timing, arm.timing)
        if run.origin_ns is None:
            run.origin_ns = event.end_ns[0] - int(event.device_ms[0] * 1e6)
        origin_ns = run.origin_ns
        columns = (event.end_ns, event.device_ms, event.discarded, event.sm_clock_mhz)
        for end_ns, device_ms, code, clock_mhz in zip(*columns, strict=False):
            arm.take(end_ns, device_ms, code, origin_ns, clock_mhz)
        self.samples_applied += len(event.end_ns)
        names.add(f"samples:{run.id}")

    def _on_telemetry(self, event: events.TelemetryBatch, names: set[str]) -> None:
        live = [
            run
            for run in self.runs.values()
            if run.state in (State.STARTING, State.RUNNING) and not run.device.startswith("cpu")
        ]
        for run in live:
            add = run.telemetry.add
            for reading in zip(
                event.at_ns,
                event.sm_clock_mhz,
                event.memory_clock_mhz,
                event.temperature_c,
                event.power_w,
                event.throttle,
                strict=False,
            ):
                add(*reading)
        if live:
            names.add("telemetry")

    def _on_arm(self, event: events.ArmUpdate, names: set[str]) -> None:
        run = self._run(event.run_id, names)
        arm = run.arm(clean_line(event.arm))
        arm.state = outcome(State, event.state, State.INFRA_ERROR)
        arm.correctness = outcome(Correctness, event.correctness, Correctness.UNKNOWN)
        arm.timing = outcome(Timing, event.timing, Timing.NONE)
        arm.median_ms, arm.low_ms = _finite(event.median_ms), _finite(event.low_ms)
        arm.high_ms, arm.sample_count = _finite(event.high_ms), event.samples
        arm.calls, arm.sm_clock_mhz = event.calls, _finite(event.sm_clock_mhz)
        arm.light, arm.quality, arm.naive = event.light, event.quality, event.naive
        arm.sol, arm.max_error, arm.peak_bytes = event.sol, event.max_error, event.peak_bytes
        arm.reason, arm.detail = clean_line(event.reason), clean(event.detail)
        names.update(("runs", f"run:{run.id}"))

    def _on_comparison(self, event: events.ComparisonUpdate, names: set[str]) -> None:
        run = self._run(event.run_id, names)
        rung, baseline = clean_line(event.rung), clean_line(event.baseline)
        run.comparisons[rung, baseline] = ComparisonView(
            rung,
            baseline,
            outcome(Verdict, event.verdict, Verdict.NONE),
            _finite(event.speedup),
            _finite(event.low),
            _finite(event.high),
            _finite(event.floor),
            _finite(event.cycles),
            _finite(event.cycles_low),
            _finite(event.cycles_high),
            _finite(event.p_value),
            clean_line(event.note),
        )
        names.update(("runs", f"run:{run.id}"))

    def _on_findings(self, event: events.Findings, names: set[str]) -> None:
        run = self._run(event.run_id, names)
        run.findings = tuple(
            FindingView(
                clean_line(item.check),
                clean_line(item.arm),
                outcome(FindingStatus, item.status, FindingStatus.UNAVAILABLE),
                clean_line(item.evidence, limit=4000),
            )
            for item in event.items
        )
        names.update(("runs", f"run:{run.id}"))

    def _peak(self, peak_id: str, gpu: str) -> PeakView:
        """The measurement of that id; a new one takes the place of the one before."""
        peak_id = clean_line(peak_id, limit=64)
        if self.peak is None or self.peak.id != peak_id:
            self.peak = PeakView(peak_id)
        self.peak.gpu = clean_line(gpu) or self.peak.gpu
        return self.peak

    def _on_peak_ceiling(self, event: events.PeakCeiling, names: set[str]) -> None:
        peak = self._peak(event.peak_id, event.gpu)
        peak.count = event.count
        if len(peak.ceilings) < MAX_CEILINGS:
            peak.take(event)
        names.add("peak")

    def _on_peak_finished(self, event: events.PeakFinished, names: set[str]) -> None:
        peak = self._peak(event.peak_id, event.gpu)
        peak.finished, peak.reason = True, clean_line(event.reason)
        names.add("peak")

    def _fuzz(self, fuzz_id: str, names: set[str]) -> FuzzView:
        """The fuzz of that id, made if its plan was missed; beyond MAX_FUZZES the oldest that has ended is let go."""
        fuzz_id = clean_line(fuzz_id, limit=64)
        fuzz = self.fuzzes.get(fuzz_id)
        if fuzz is None:
            fuzz = self.fuzzes[fuzz_id] = FuzzView(fuzz_id)
            names.add("fuzzes")
            ended = next((key for key, found in self.fuzzes.items() if found.state.final), None)
            if len(self.fuzzes) > MAX_FUZZES and ended is not None:
                del self.fuzzes[ended]
        return fuzz

    def _on_fuzz_planned(self, event: events.FuzzPlanned, names: set[str]) -> None:
        fuzz = self._fuzz(event.fuzz_id, names)
        fuzz.take_plan(event)
        names.update(("fuzzes", f"fuzz:{fuzz.id}"))

    def _on_fuzz_case(self, event: events.FuzzCase, names: set[str]) -> None:
        fuzz = self._fuzz(event.fuzz_id, names)
        fuzz.take_case(event, self.now_ns())
        names.add(f"fuzz:{fuzz.id}")

    def _on_fuzz_failure(self, event: events.FuzzFailure, names: set[str]) -> None:
        fuzz = self._fuzz(event.fuzz_id, names)
        fuzz.take_failure(event.failure, shrunk=event.shrunk)
        names.update(("fuzzes", f"fuzz:{fuzz.id}"))

    def _on_fuzz_finished(self, event: events.FuzzFinished, names: set[str]) -> None:
        fuzz = self._fuzz(event.fuzz_id, names)
        fuzz.take_record(event.record)
        names.update(("fuzzes", f"fuzz:{fuzz.id}"))

    def _on_lint_finished(self, event: events.LintFinished, names: set[str]) -> None:
        fuzz = self._fuzz(event.fuzz_id, names)
        fuzz.what, fuzz.reason = "lint", clean_line(event.reason)
        fuzz.state = FuzzState.FAILED if event.reason else FuzzState.DONE
        names.add("fuzzes")

    def _on_replay_finished(self, event: events.ReplayFinished, names: set[str]) -> None:
        fuzz = self._fuzz(event.fuzz_id, names)
        fuzz.what, fuzz.state = "replay", FuzzState.DONE
        failure = clean_line(event.failure, limit=64)
        self.replays.pop(failure, None)
        self.replays[failure] = ReplayView(
            fuzz.id,
            clean_line(event.outcome),
            tuple(clean_line(text) for text in event.differs),
            clean_line(event.detail, limit=4000),
        )
        if len(self.replays) > MAX_REPLAYS:
            del self.replays[next(iter(self.replays))]
        names.update(("fuzzes", "replays"))

    def _on_finished(self, event: events.RunFinished, names: set[str]) -> None:
        run = self._run(event.run_id, names)
        run.target = run.target or clean_line(event.target)
        run.state = outcome(State, event.state, State.INFRA_ERROR)
        run.correctness = outcome(Correctness, event.correctness, Correctness.UNKNOWN)
        run.validity = outcome(Validity, event.validity, Validity.UNKNOWN)
        run.verdict = outcome(Verdict, event.verdict, Verdict.NONE)
        run.duration_ms = _finite(event.duration_ms)
        run.reason, run.flags = clean_line(event.reason), tuple(clean_line(flag) for flag in event.flags)
        self.mark(run)
        names.update(("runs", f"run:{run.id}"))
        names.update(f"watch:{watch.target}" for watch in self.watches.values() if watch.target == run.target)

    def _on_output(self, event: events.Output, names: set[str]) -> None:
        run = self._run(event.run_id, names)
        arm = clean_line(event.arm)
        run.output.extend((arm, _line(line)) for line in event.lines)
        run.output_count += len(event.lines)
        run.output_dropped += event.dropped
        names.add(f"output:{run.id}")

    def _on_watch_changed(self, event: events.WatchChanged, names: set[str]) -> None:
        target = clean_line(event.target)
        watch = self.watches.get(target)
        if watch is None or (event.active and not watch.active):
            watch = self.watches[target] = WatchView(target)
        watch.folder, watch.active, watch.polling = clean_line(event.folder), event.active, event.polling
        names.update(("watches", f"watch:{target}"))

    def _on_watch_edit(self, event: events.WatchEdit, names: set[str]) -> None:
        target = clean_line(event.target)
        watch = self.watches.setdefault(target, WatchView(target))
        edit = EditView(
            event.number,
            clean_line(event.snapshot),
            tuple(clean_line(name) for name in event.files),
            clean_line(event.run_id, limit=64),
            clean(event.error, limit=4000),
            clean_line(event.wall),
            event.save_ns,
        )
        for index, known in enumerate(watch.edits):
            if known.number == edit.number:
                watch.edits[index] = edit
                break
        else:
            watch.edits.append(edit)
            del watch.edits[:-MAX_EDITS]
        names.update(("watches", f"watch:{target}"))

    # -- out --------------------------------------------------------------------------------------------

    def newest_run(self, target: str) -> RunView | None:
        """The newest run of a target that goes on or says something of it."""
        runs = (run for run in reversed(self.runs.values()) if run.target == target)
        return next((run for run in runs if not run.state.final or standing.is_result(run)), None)

    def active_runs(self) -> list[RunView]:
        """Runs that have not ended, in the order they will run."""
        return [run for run in self.runs.values() if not run.state.final]

    def fuzzes_of(self, target: str) -> list[FuzzView]:
        """Fuzzes of a target, newest first; neither lints nor replays."""
        return [fuzz for fuzz in reversed(self.fuzzes.values()) if fuzz.target == target and fuzz.what == "fuzz"]

    def active_fuzzes(self) -> list[FuzzView]:
        """Fuzzes, lints and replays that have not ended, oldest first."""
        return [fuzz for fuzz in self.fuzzes.values() if not fuzz.state.final]
