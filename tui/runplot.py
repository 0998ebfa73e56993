"""What the pictures of a run show: its samples over time, the GPU's readings below them, and how each arm's times are
distributed against the baseline's. No Textual.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from aisp.tui.model import AA_ARM, SLOWING_BITS, THROTTLE_WORDS, RunView, thin
from aisp.tui.widgets.plot import Lane, Series
from aisp.tui.widgets.strips import Distribution

DISCARDED_WORDS = {1: "clock too low", 2: "host time leaked in"}


@dataclass(frozen=True, slots=True)
class Metric:
    """A GPU reading that the right axis can show."""

    key: str  # attribute of TelemetryLog
    name: str
    unit: str


METRICS = (
    Metric("sm_clock_mhz", "SM clock", "MHz"),
    Metric("memory_clock_mhz", "memory clock", "MHz"),
    Metric("temperature_c", "temperature", "C"),
    Metric("power_w", "power", "W"),
)


@dataclass(frozen=True, slots=True)
class Unit:
    """What a run's times are shown in."""

    name: str
    per_ms: float


def time_unit(run: RunView, ascii: bool) -> Unit:
    times = [arm.median_ms for arm in run.record.arms if arm.median_ms is not None]
    return unit_for(times or [drawn.points.y[0] for drawn in run.drawn.values() if len(drawn.points.y)], ascii)


def unit_for(times_ms: Sequence[float], ascii: bool) -> Unit:
    """Milliseconds, or microseconds where one of these times is below 0.1 ms."""
    return Unit("us" if ascii else "\u00b5s", 1e3) if min(times_ms, default=1.0) < 0.1 else Unit("ms", 1.0)


PAUSE_S = 1.0  # without a sample: longer pauses are folded
FOLDED_SHARE = 0.02  # of the time with samples, that a folded pause keeps


class Folding:
    """The seconds of a run with the pauses between its samples shortened: fresh processes take ten times as long to
    start as they measure. All that is plotted over time goes through the same folding.
    """

    def __init__(self, times_s: Sequence[float] = ()) -> None:
        """Fold the pauses between these moments.

        Args:
            times_s: of all samples, in any order.
        """
        ordered = sorted(times_s)
        pauses = [(a, b) for a, b in pairwise(ordered) if b - a > PAUSE_S]
        measured_s = (ordered[-1] - ordered[0] if ordered else 0.0) - sum(b - a for a, b in pauses)
        kept_s = max(FOLDED_SHARE * measured_s, 1e-3)
        # Pieces of straight line: where each begins, before and after folding, and its slope.
        self._begins, self._folded, self._slopes = [0.0], [0.0], [1.0]
        for a, b in pauses:
            for begin, slope in ((a, min(1.0, kept_s / (b - a))), (b, 1.0)):
                self._folded.append(self._folded[-1] + (begin - self._begins[-1]) * self._slopes[-1])
                self._begins.append(begin)
                self._slopes.append(slope)

    @staticmethod
    def of(run: RunView) -> Folding:
        """That of a run's samples, kept or set aside, and of the time since the last where it goes on."""
        logs = [log for drawn in run.drawn.values() for log in (drawn.points, *drawn.discarded_points.values())]
        times_s = [x for log in logs for x in log.points()[0]]
        if times_s and run.origin_ns is not None and not run.record.state.final and len(run.telemetry):
            times_s.append(run.telemetry.at_s[-1] - run.origin_ns / 1e9)  # the pause that lasts
        return Folding(times_s)

    @property
    def x_label(self) -> str:
        return "s" if len(self._begins) == 1 else "s, pauses folded"

    def __call__(self, times_s: Iterable[float]) -> list[float]:
        found = []
        for at_s in times_s:
            piece = max(0, bisect_right(self._begins, at_s) - 1)
            found.append(self._folded[piece] + (at_s - self._begins[piece]) * self._slopes[piece])
        return found


UNFOLDED = Folding()


def run_series(run: RunView, columns: int, unit: Unit, fold: Folding = UNFOLDED) -> list[Series]:
    """What the live plot shows above: each arm's samples, and those that were set aside, with a sign each.

    Args:
        columns: dots across; no series has more than two points per dot.
        fold: of the time axis.
    """
    series: list[Series] = []
    for rung in run.rungs:
        drawn = run.samples(rung)
        if drawn.points.count:
            taken_s, taken_ms = drawn.points.points()
            x, y = thin(fold(taken_s), taken_ms, columns)
            usual = [value * unit.per_ms for value in drawn.points.usual]
            series.append(Series(arm_name(rung), x, [value * unit.per_ms for value in y], usual=usual))
    for code in sorted({code for drawn in run.drawn.values() for code in drawn.discarded_points}):
        logs = [drawn.discarded_points[code] for drawn in run.drawn.values() if code in drawn.discarded_points]
        points = sorted(point for log in logs for point in zip(*log.points(), strict=True))
        x, y = thin(fold(point[0] for point in points), [point[1] for point in points], columns)
        name = "set aside: " + DISCARDED_WORDS.get(code, f"reason {code}")
        values = [value * unit.per_ms for value in y]
        series.append(Series(name, x, values, "bold $warning", "signs", stretches=False))
    return series


def run_lanes(run: RunView, metric: int, columns: int, fold: Folding = UNFOLDED) -> list[Lane]:
    """The GPU's readings as lanes below the samples, on the same seconds, that of METRICS[metric] first.

    The first lane also has the marks for what slowed the clocks down. A reading that the driver never gave has no
    lane; one that it did not give at a moment is a gap.
    """
    log = run.telemetry
    times: list[float] = []
    start = stop = 0
    if run.origin_ns is not None and len(log):
        origin_s = run.origin_ns / 1e9
        start, stop = bisect_left(log.at_s, origin_s), len(log.at_s)
        latest_s = max((drawn.points.x[-1] for drawn in run.drawn.values() if len(drawn.points.x)), default=0.0)
        if run.record.state.final and latest_s > 0:
            # Processes take seconds to leave; a clock that goes on without samples would squeeze them.
            stop = bisect_right(log.at_s, origin_s + latest_s + 0.05 * fold([latest_s])[0])
        times = fold(at_s - origin_s for at_s in log.at_s[start:stop])
    lanes: list[Lane] = []
    for number in range(len(METRICS)):
        item = METRICS[(metric + number) % len(METRICS)]
        series: list[Series] = []
        values = getattr(log, item.key)[start:stop]
        answered = sum(value == value for value in values)
        if answered:
            # A gap must stay one, so what has gaps is drawn whole; the log itself is bounded.
            x, y = thin(times, values, columns) if answered == len(values) else (times, values)
            series.append(Series("driver, 20 Hz", x, y, "$series-6", "line"))
        if item.key == "sm_clock_mhz":
            points = sorted(point for drawn in run.drawn.values() for point in zip(*drawn.clocks.points(), strict=True))
            if points:
                x, y = thin(fold(point[0] for point in points), [point[1] for point in points], columns)
                series.append(Series("GPU's counters, each sample", x, y, "$series-3"))
        if series:
            lanes.append(Lane(f"{item.name} {item.unit}", series))
    flags = _throttle_flags(log.throttle[start:stop], times)
    if lanes and flags:
        lanes[0] = Lane(lanes[0].title, [*lanes[0].series, *flags])
    return lanes


def _throttle_flags(bits: Sequence[int], times: Sequence[float]) -> list[Series]:
    """One series of flags per reason that was ever given; NaN where the driver did not answer."""
    seen = 0
    for value in bits:
        seen |= max(0, value)
    return [
        Series(word, times, [math.nan if value < 0 else float(bool(value & bit)) for value in bits], "bold $warning",
               "flags")
        for bit, word in THROTTLE_WORDS.items()
        if seen & bit & SLOWING_BITS
    ]  # fmt: skip


LOG_FROM = 3.0  # arms whose middle times differ by more than this factor are drawn on a logarithmic axis
FEWEST = 5  # times of an arm whose distribution is worth a row


def wants_log(run: RunView) -> bool:
    """Whether the arms' times differ so much that a linear axis would lay the faster ones on its edge."""
    middles = [median(drawn.points.usual) for drawn in run.drawn.values() if drawn.points.usual]
    lowest = min(middles, default=0.0)
    return lowest > 0 and max(middles) > LOG_FROM * lowest


def distributions(run: RunView) -> tuple[list[Distribution], float | None]:
    """Each arm's times as ratios to the middle one of the baseline, and the noise floor of the comparisons.

    Arms whose figures may not be compared are left out: those that were caught, and cheats that nobody judged yet.
    Empty where there is no baseline to compare with.
    """
    base = run.samples(run.baseline).points.usual
    if len(base) < FEWEST or run.bar(run.baseline) is not None:
        return [], None
    middle_ms = median(base)
    if middle_ms <= 0:
        return [], None
    found = []
    for number, rung in enumerate(rung for rung in run.rungs if run.samples(rung).points.count):
        usual = run.samples(rung).points.usual
        if len(usual) >= FEWEST and run.bar(rung) is None and not run.unjudged(rung):
            found.append(Distribution(arm_name(rung), number, [ms / middle_ms for ms in usual]))
    floors = [item.floor for item in run.comparisons if item.floor is not None]
    return found, max(floors, default=None)


def arm_name(rung: str) -> str:
    return "A/A" if rung == AA_ARM else rung.removeprefix("optimized_")
