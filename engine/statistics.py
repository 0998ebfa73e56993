"""What the samples say: medians with intervals, the speed-up with its interval, the noise floor, the verdict.

Time per call is summed up by the median, never the mean. A comparison is made of ratios within a round, since what
drifts drifts for both arms; the speed-up is exp of the median over replicas of the median log ratio over rounds. Its
95 % interval is a hierarchical bootstrap of that: replicas, the rounds within each, the samples within each arm's turn
(Efron & Tibshirani, An Introduction to the Bootstrap, 1993), stretched for how few replicas there are.

Samples are not resampled one by one. The median of a resampled turn is one of the turn's own sorted times, number
ceil(n U) of n, where U is the middle one of n uniform numbers and so Beta distributed (Efron, Bootstrap methods:
another look at the jackknife, 1979; David & Nagaraja, Order Statistics, 2003): one draw of a rank takes the place of n.

A run may look at its replicas before it has all of them, and end where every comparison is decided. Its 5 % of error
are spent over the looks by alpha t^2, t being the share of the replicas taken (Kim & DeMets, Design and analysis of
group sequential tests based on the type I error spending rate function, 1987). Each look is an interval of its own at
what it spends: by the union bound all of them hold together 95 % of the time, however the looks depend on each other.

A comparison of 5 replicas of 20 rounds of 128 samples costs some 30 ms.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from aisp.store.outcomes import Verdict
from aisp.store.record import Quality
from aisp.store.results.comparison import EQUIVALENCE
from aisp.store.results.outside import outside_ratio
from aisp.store.samples import Samples

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

RESAMPLES = 2000
LIVE_RESAMPLES = 400  # while a run goes on its figures are told often, and are preliminary anyway
LEAST_FLOOR = 0.005  # half a per cent: below it no claim is made, whatever the samples say
QUICK_FLOOR = 0.01  # two processes show little of how processes differ
LEAST_REPLICAS = 2  # of a verdict
LEAST_ROUNDS = 3  # of one replica; fewer say nothing of their own spread

STRETCH = (math.inf, 12.7, 4.3, 1.65, 1.15, 1.1, 1.65, 1.15, 1.5, 1.25)
STRETCH_BEYOND = 1.2
"""By how much the bootstrap interval of the median of 1, 2, 3 ... normally distributed replicas is too narrow.

With few replicas the interval cannot reach beyond the extremes of what was seen: those of two hold the true median half
of the time. Each factor makes that 95 % of the time; found by simulation, which a test repeats. They do not fall
steadily because the interval ends at one of the replicas, and which one that is changes in steps."""

LEVEL = 0.05  # of error, over all looks of a run
SPENDING = 2  # the exponent of the share of the replicas


@dataclass(frozen=True, slots=True)
class Look:
    """After so many replicas the comparisons are looked at, with an interval at 1 - `level`.

    `stretch` is the factor of `STRETCH` for that many replicas at that level, found in the same way.
    """

    replicas: int
    level: float
    stretch: float


LOOKS = (Look(2, 0.008, 79.6), Look(3, 0.01, 20.4), Look(5, 0.032, 1.355))
"""Of a full run that is not told how many replicas to take."""

OUTSIDE_ERROR = 0.005  # of the judge's clock at best, relative
MAD_TO_DEVIATION = 1.4826  # of a normal distribution

WIDEST = 1e11
TABLE = 4096  # ranks of a resampled median that are kept per count of samples


@dataclass(frozen=True, slots=True)
class Summary:
    """Median and its 95 % interval, in ms."""

    median_ms: float
    low_ms: float
    high_ms: float


@dataclass(frozen=True, slots=True)
class Ratio:
    """Speed-up (baseline time / rung time), its 95 % interval, the noise floor, and what follows.

    `p_value` is two-sided, of a ratio within the floor; at least 2 / (RESAMPLES + 1).
    """

    speedup: float
    low: float
    high: float
    floor: float
    verdict: Verdict
    p_value: float
    note: str


@dataclass(frozen=True, slots=True)
class ByRound:
    """What one arm measured, turn by turn: one row per round of a replica, sorted by replica and round.

    Attributes:
        replica, round: int64 [turns].
        count: int64 [turns], samples in the turn, at least 1.
        ordered: float64 [turns, most samples in a turn], the values in rising order, then NaN.
        median: float64 [turns], of the values.
    """

    replica: Ints
    round: Ints
    count: Ints
    ordered: Floats
    median: Floats

    def __len__(self) -> int:
        return len(self.count)

    def of(self, chosen: npt.NDArray[np.bool_] | Ints) -> ByRound:
        """Some of the turns."""
        return ByRound(
            self.replica[chosen], self.round[chosen], self.count[chosen], self.ordered[chosen], self.median[chosen]
        )


@dataclass(frozen=True, slots=True)
class Draws:
    """The bootstrap distribution of a log ratio (or of a log time).

    Attributes:
        centre: what the samples themselves give.
        drawn: float64 [resamples], what resampled ones give, in rising order.
        replicas: how many.
        rounds: of the replica that has fewest.
    """

    centre: float
    drawn: Floats
    replicas: int
    rounds: int

    def shifted(self, by: float) -> Draws:
        """What the same samples give when one arm's times are multiplied by exp(by): medians move along."""
        return Draws(self.centre + by, self.drawn + by, self.replicas, self.rounds)

    @property
    def stretch(self) -> float:
        """The factor for few replicas; with one replica, for few rounds."""
        if self.replicas > 1:
            return stretch(self.replicas)
        return stretch(self.rounds) if self.rounds >= LEAST_ROUNDS else math.inf

    def interval(self, look: Look | None = None) -> tuple[float, float]:
        """The 95 % interval, or the look's, as logs; infinite where nothing is known of the spread."""
        factor = self.stretch if look is None else look.stretch
        if math.isinf(factor):
            return -math.inf, math.inf
        low, high = (value - self.centre for value in self.unstretched(LEVEL if look is None else look.level))
        return self.centre + factor * min(low, 0.0), self.centre + factor * max(high, 0.0)

    def unstretched(self, level: float = LEVEL) -> tuple[float, float]:
        """The quantiles level / 2 and 1 - level / 2 of the draws, between neighbours where they fall between."""
        last = len(self.drawn) - 1
        found = []
        for position in (level / 2 * last, (1 - level / 2) * last):
            below = int(position)
            step = float(self.drawn[min(below + 1, last)] - self.drawn[below])
            found.append(float(self.drawn[below]) + (position - below) * step)
        return found[0], found[1]

    def p_value(self, floor: float, look: Look | None = None) -> float:
        """Two-sided: how often a draw falls back within the floor, or beyond it on the other side.

        At a look it is raised by as much as the look spends less than all: what is claimed there stays below LEVEL.
        """
        factor = self.stretch if look is None else look.stretch
        if math.isinf(factor):
            return 1.0
        drawn = self.centre + factor * (self.drawn - self.centre)
        edge = math.log1p(floor)
        inside = int((drawn <= edge).sum() if self.centre > 0 else (drawn >= -edge).sum())
        return min(1.0, 2.0 * (1 + inside) / (len(drawn) + 1) * (1.0 if look is None else LEVEL / look.level))


def look_at(replicas: int, looks: Sequence[Look]) -> Look | None:
    """The look that so many replicas are judged by, as long as there are no more the next one; None without looks."""
    if replicas < 2 or not looks:
        return None
    return next((look for look in looks if look.replicas >= replicas), looks[-1])


def stretch(count: int) -> float:
    """The factor of `STRETCH` for a median of so many."""
    return STRETCH[count - 1] if count <= len(STRETCH) else STRETCH_BEYOND


# -- from samples to turns ---------------------------------------------------------------------------------------------


def by_round(values: Floats, replica: Ints, rounds: Ints) -> ByRound:
    """Samples in whatever order as turns.

    Args:
        values: float64 [samples], finite and > 0: times in ms, or cycles. Only samples that count.
        replica, rounds: int64 [samples].
    """
    if not len(values):
        none = np.empty(0, np.int64)
        return ByRound(none, none, none, np.empty((0, 0)), np.empty(0))
    keys = replica.astype(np.int64) * (1 << 32) + rounds
    order = np.lexsort((values, keys))
    unique, starts, count = np.unique(keys[order], return_index=True, return_counts=True)
    ordered = np.full((len(unique), int(count.max())), np.nan)
    row = np.repeat(np.arange(len(unique)), count)
    ordered[row, np.arange(len(order)) - starts[row]] = values[order]
    own = np.arange(len(unique))
    median = (ordered[own, (count - 1) // 2] + ordered[own, count // 2]) / 2
    return ByRound(unique >> 32, unique & 0xFFFFFFFF, count.astype(np.int64), ordered, median)


def cells(values: Floats, replica: Ints, rounds: Ints) -> dict[int, dict[int, float]]:
    """Median of each round of each replica: {replica: {round: value}}."""
    found: dict[int, dict[int, float]] = {}
    made = by_round(values, replica, rounds)
    for owner, number, median in zip(made.replica, made.round, made.median, strict=True):
        found.setdefault(int(owner), {})[int(number)] = float(median)
    return found


def log_ratios(base: ByRound, rung: ByRound) -> list[Floats]:
    """Per replica the log of baseline over rung, for every round that has both."""
    base, rung = _shared(base, rung)
    ratios = np.log(base.median / rung.median)
    return [ratios[base.replica == replica] for replica in np.unique(base.replica)]


def half_width(log_ratios_of_one_replica: Floats) -> float:
    """Half the 95 % interval of the median ratio of one replica, relative; infinite with fewer than three rounds.

    From order statistics of the rounds, without a bootstrap: the stop rule asks after every round.
    """
    ordered = np.sort(log_ratios_of_one_replica)
    count = len(ordered)
    if count < LEAST_ROUNDS:
        return math.inf
    # The greatest k for which fewer than k of `count` fair coins fall heads at most 2.5 % of the time.
    tails = np.cumsum([math.comb(count, k) for k in range(count)]) / 2.0**count
    outside = int((tails <= 0.025).sum())
    if outside:
        return float(np.expm1((ordered[-outside] - ordered[outside - 1]) / 2))
    return float(np.expm1(stretch(count) * (ordered[-1] - ordered[0]) / 2))


def bounded(log: float) -> float:
    """The end of an interval whose logarithm this is, at most `WIDEST` and at least one part of it: two processes that
    had little in common give an interval that no store can hold, and beyond that it says nothing more."""
    return math.exp(min(max(log, -math.log(WIDEST)), math.log(WIDEST)))


# -- figures -----------------------------------------------------------------------------------------------------------


def summarise(times_ms: Floats, replica: Ints, rounds: Ints, seed: int = 0, draws: int = RESAMPLES) -> Summary:
    """Median over all samples; its interval from resampling replicas, their rounds, and the samples of these."""
    median = float(np.median(times_ms))
    found = bootstrap([by_round(times_ms, replica, rounds)], seed, draws)
    assert found is not None
    if math.isinf(found.stretch):  # one round, or two: the samples are all there is
        low, high = (bounded(value) for value in found.unstretched())
    else:
        low, high = (bounded(value) for value in found.interval())
    return Summary(median, min(low, median), max(high, median))


def noise_floor(twins: Draws | None, *, quick: bool) -> float:
    """The ratio that identical kernels reached here: 95 % quantile of the A/A arm's |log ratio|, at least 0.5 %.

    Args:
        twins: the baseline against itself; None where there was no A/A arm.
        quick: two processes only: at least 1 %.
    """
    least = QUICK_FLOOR if quick else LEAST_FLOOR
    if twins is None:
        return least
    reached = max(float(np.quantile(np.abs(twins.drawn), 0.95)), abs(twins.centre))
    return max(least, math.expm1(reached))


def compare(
    base: ByRound,
    rung: ByRound,
    floor: float,
    *,
    quick: bool,
    paired: bool = True,
    looks: Sequence[Look] = (),
    seed: int = 0,
    draws: int = RESAMPLES,
) -> Ratio | None:
    """The verdict on a rung against a baseline; None where they share no round (`paired`), or no replica."""
    found = ratio_draws(base, rung, paired=paired, seed=seed, draws=draws)
    return None if found is None else decide(found, floor, quick=quick, looks=looks)


def ratio_draws(
    base: ByRound, rung: ByRound, *, paired: bool = True, seed: int = 0, draws: int = RESAMPLES
) -> Draws | None:
    """The bootstrap of the log of baseline over rung; None where they share no round, or no replica.

    Args:
        base, rung: what the arms measured.
        paired: the arms took turns within each round, and a round is drawn for both at once. Else the ratio is that of
            the replicas' medians, and rounds are drawn for each arm by itself.
        seed: of the generator: the same samples give the same draws.
        draws: how many.
    """
    if paired:
        base, rung = _shared(base, rung)
    else:
        both = np.intersect1d(base.replica, rung.replica)
        base, rung = base.of(np.isin(base.replica, both)), rung.of(np.isin(rung.replica, both))
    return bootstrap([base, rung], seed, draws, paired=paired)


def decide(found: Draws, floor: float, *, quick: bool, looks: Sequence[Look] = ()) -> Ratio:
    """What a bootstrapped log ratio says beside a noise floor (a ratio - 1), at the look that it has come to.

    One replica decides nothing: it cannot show how processes differ.
    """
    look = look_at(found.replicas, looks)
    low_log, high_log = found.interval(look)
    p_value = found.p_value(floor, look)
    speedup = math.exp(found.centre)
    if math.isinf(high_log):
        low_log, high_log = found.unstretched()
        low, high = min(bounded(low_log), speedup), max(bounded(high_log), speedup)
        rounds = "one round says" if found.rounds == 1 else "two rounds say"
        note = f"{rounds} nothing of how rounds differ; {LEAST_ROUNDS} are the least"
        return Ratio(speedup, low, high, floor, Verdict.UNDECIDED, p_value, note)
    low, high = bounded(low_log), bounded(high_log)
    note = ""
    if found.replicas < LEAST_REPLICAS:
        verdict, note = Verdict.UNDECIDED, "one replica cannot show how processes differ; two can"
    elif low > 1 + floor:
        verdict = Verdict.FASTER
    elif high < 1 / (1 + floor):
        verdict = Verdict.SLOWER
    elif floor <= EQUIVALENCE and low > 1 / (1 + EQUIVALENCE) and high < 1 + EQUIVALENCE:
        verdict = Verdict.SAME
    else:
        verdict = Verdict.UNDECIDED
        note = _what_would_decide(found, floor, quick)
    return Ratio(speedup, low, high, floor, verdict, p_value, note)


def confirmed(time: Ratio, cycles: Ratio | None) -> Ratio:
    """The verdict on a ratio of times, where FASTER and SLOWER hold in SM cycles too; else UNDECIDED.

    Time alone decides where no cycles are known. A claim's p-value is the greater of the two.
    """
    if cycles is None or time.verdict not in (Verdict.FASTER, Verdict.SLOWER):
        return time
    same_side = (cycles.speedup > 1) == (time.speedup > 1)
    p_value = max(time.p_value, cycles.p_value) if same_side else 1.0
    if cycles.verdict is time.verdict:
        return replace(time, p_value=p_value)
    note = (
        f"{time.verdict} in time, but not in SM cycles ({cycles.low:.3f} to {cycles.high:.3f}, "
        f"floor {cycles.floor:.1%}): the clock may have done it"
    )
    return replace(time, verdict=Verdict.UNDECIDED, p_value=p_value, note=note)


def outside(slopes: Sequence[tuple[int, float]]) -> tuple[float, float] | None:
    """Time per call in ms by the judge's clock, and its relative standard error; None where it is not above zero.

    The time is the median over replicas of the medians of their slopes. The error is the larger one of what the slopes
    and what the replicas differ by, each by the median absolute deviation, and at least OUTSIDE_ERROR.

    Args:
        slopes: replica and time per call of each pair of batches.
    """
    if not slopes:
        return None
    replicas = np.array([replica for replica, _ in slopes])
    times = np.array([ms for _, ms in slopes])
    medians = np.array([np.median(times[replicas == replica]) for replica in np.unique(replicas)])
    time_ms = float(np.median(medians))
    if not math.isfinite(time_ms) or time_ms <= 0:
        return None
    errors = [
        MAD_TO_DEVIATION * float(np.median(np.abs(values - np.median(values)))) / math.sqrt(len(values))
        for values in (times, medians)
        if len(values) > 1
    ]
    return time_ms, max([OUTSIDE_ERROR, *(error / time_ms for error in errors)])


def confirmed_outside(time: Ratio, base: tuple[float, float] | None, rung: tuple[float, float] | None) -> Ratio:
    """FASTER where the judge's clock says so too: else it is open, also where that clock has nothing of either arm."""
    if time.verdict is not Verdict.FASTER:
        return time
    if base is None or rung is None:
        whose = "the rung" if rung is None else "the baseline"
        return replace(
            time, verdict=Verdict.UNDECIDED, note=f"faster by its own clock; the judge's has no time of {whose}"
        )
    found = outside_ratio(rung, base)
    if found.low > 1.0:
        return time
    note = f"faster by its own clock, but not on the judge's ({found.low:.3g} to {found.high:.3g})"
    return replace(time, verdict=Verdict.UNDECIDED, note=note)


def _what_would_decide(found: Draws, floor: float, quick: bool) -> str:
    """How many replicas, asked for at once, would bring the interval clear of the floor, as a sentence."""
    distance = abs(found.centre) - math.log1p(floor)
    if quick:
        return f"a full run would tell more: this was a quick one of {found.replicas} replicas"
    if distance <= 0:
        return f"the difference is inside the noise floor of {floor:.1%}"
    # The interval narrows with the root of the replicas, and by what few replicas were stretched.
    low, high = found.unstretched()
    narrow = (max(high, found.centre) - min(low, found.centre)) / 2 * math.sqrt(found.replicas)
    needed = math.ceil((narrow * STRETCH_BEYOND / distance) ** 2)
    for count in range(max(2, found.replicas + 1), len(STRETCH) + 1):
        if narrow * stretch(count) / math.sqrt(count) < distance:
            needed = count
            break
    needed = max(needed, found.replicas + 1)
    return f"about {needed} replicas would decide it; this run had {found.replicas}"


# -- the bootstrap -----------------------------------------------------------------------------------------------------


def bootstrap(arms: list[ByRound], seed: int, draws: int = RESAMPLES, *, paired: bool = True) -> Draws | None:
    """Draws of the median over replicas of the median over rounds: of one arm's log time, or of two arms' difference.

    Args:
        arms: one or two; two have the same rounds where `paired`, and the same replicas in any case.
        seed: of the generator.
        draws: how many.
        paired: one drawn round serves both arms.

    Returns:
        None where there are no turns.
    """
    if not all(len(arm) for arm in arms):
        return None
    generator = np.random.default_rng(seed)
    replicas = np.unique(arms[0].replica)
    centres = np.empty(len(replicas))
    medians = np.empty((len(replicas), draws))
    rounds = []
    for index, replica in enumerate(replicas):
        own = [arm.of(arm.replica == replica) for arm in arms]
        rounds.append(min(len(arm) for arm in own))
        if paired:
            shape = (draws, len(own[0]))
            picks = generator.integers(0, shape[1], shape)
            centres[index] = np.median(np.log(own[0].median / (1.0 if len(own) == 1 else own[1].median)))
            drawn = _resampled(own[0], picks, generator)
            if len(own) == 2:
                drawn -= _resampled(own[1], picks, generator)
            medians[index] = _middle(drawn)
            continue
        centres[index] = math.log(np.median(own[0].median) / np.median(own[1].median))
        first, second = (
            _middle(_resampled(arm, generator.integers(0, len(arm), (draws, len(arm))), generator)) for arm in own
        )
        medians[index] = first - second
    count = len(replicas)
    drawn = medians[0]
    if count > 1:
        # A replica that is drawn twice brings rounds and samples that are drawn anew each time.
        chosen = generator.integers(0, count, (draws, count))
        drawn = _middle(medians[chosen, generator.integers(0, draws, (draws, count))])
    return Draws(float(np.median(centres)), np.sort(drawn), count, min(rounds))


def _resampled(arm: ByRound, picks: Ints, generator: np.random.Generator) -> Floats:
    """The log median of each picked turn, its samples resampled. picks: int64 [draws, turns] into the turns."""
    logs = np.log(arm.ordered)
    if logs.shape[1] == 1:
        return np.asarray(logs[picks, 0], np.float64)
    uniform = generator.integers(0, TABLE, picks.shape, np.uint16)
    if (arm.count == arm.count[0]).all():
        return np.asarray(logs[picks, _median_ranks(int(arm.count[0]))[uniform]], np.float64)
    kinds, kind = np.unique(arm.count, return_inverse=True)
    tables = np.stack([_median_ranks(int(count)) for count in kinds])
    return np.asarray(logs[picks, tables[kind[picks], uniform]], np.float64)


@functools.lru_cache(maxsize=1024)
def _median_ranks(count: int) -> Ints:
    """Ranks from 0 that the median of `count` resampled values has: int64 [TABLE], each equally likely.

    The middle one of n uniform numbers is Beta(h, n + 1 - h) distributed with h = (n + 1) / 2. For even n one of the
    two middle ones is taken, each half of the time. The lower half of the table mirrors the upper, so that no side is
    favoured.
    """
    generator = np.random.default_rng(count)
    half = (count + 1) // 2
    uniform = generator.beta(half, count + 1 - half, TABLE // 2)
    below = np.clip(np.ceil(count * uniform).astype(np.int64) - 1, 0, count - 1)
    return np.concatenate([below, count - 1 - below])


def _middle(values: Floats) -> Floats:
    """Median of each row; np.median does the same in three times the time, looking for NaN."""
    values.sort(axis=1)
    count = values.shape[1]
    return np.asarray((values[:, (count - 1) // 2] + values[:, count // 2]) / 2, np.float64)


def _shared(first: ByRound, second: ByRound) -> tuple[ByRound, ByRound]:
    """The turns of the rounds that both have, in the same order."""
    one, other = (arm.replica * (1 << 32) + arm.round for arm in (first, second))
    _, left, right = np.intersect1d(one, other, assume_unique=True, return_indices=True)
    return first.of(left), second.of(right)


# -- what the samples say of themselves --------------------------------------------------------------------------------

FEWEST_TO_TELL = 20  # samples, or pairs of them, below which neither modes nor autocorrelation are told
MODE_SHARE = 0.08  # of the samples, in the smaller of two modes; fewer are outliers
FEWEST_IN_MODE = 8  # samples
MODE_GAP = 0.02  # relative distance of two modes; nearer ones move no verdict
MODE_STEPS = 2.5  # steps of the clock between two modes; nearer ones are the clock's own steps
MODE_EXPLAINED = 0.88  # share of the variance between the modes: 0.64 for a normal, 0.75 for a uniform distribution
MODE_VALLEY = 0.2  # samples in the middle third between the modes, in units of the smaller mode
MODE_SPREAD = 0.2  # range of the medians of processes in one mode, in units of the distance of the modes


def quality(samples: Samples, *, resolution_ms: float | None, overhead_ms: float | None) -> Quality:
    """Drift, autocorrelation, modes and the share set aside. Each is None where too little was measured to tell.

    Args:
        samples: of one arm, as they were taken.
        resolution_ms: smallest step of the clock that took them.
        overhead_ms: reading of an empty event pair that was taken off.
    """
    kept = samples.discarded == 0
    modes = _modes(samples.device_ms[kept], samples.replica[kept], resolution_ms or 0.0)
    return Quality(
        drift=_drift(by_round(samples.device_ms[kept], samples.replica[kept], samples.round[kept])),
        autocorrelation=_autocorrelation(samples),
        low_mode_ms=modes[0] if modes else None,
        high_mode_ms=modes[1] if modes else None,
        high_share=modes[2] if modes else None,
        throttled_share=float((samples.discarded == 1).mean()) if len(samples) else None,
        resolution_ms=resolution_ms,
        overhead_ms=overhead_ms,
    )


def _drift(arm: ByRound) -> float | None:
    """Median over replicas of the change from the first to the last third of the rounds."""
    found = []
    for replica in np.unique(arm.replica):
        medians = np.log(arm.median[arm.replica == replica])
        third = len(medians) // 3
        if third:
            found.append(float(np.median(medians[-third:]) - np.median(medians[:third])))
    return math.expm1(float(np.median(found))) if found else None


def _autocorrelation(samples: Samples) -> float | None:
    """Lag one, of the log times within turns, pooled over turns.

    Deviations are from the turn's own mean, which alone gives successive samples of a turn of n a correlation of -1/n;
    that is added back.
    """
    kept = samples.discarded == 0
    if kept.sum() < FEWEST_TO_TELL:
        return None
    _, turn = np.unique(samples.replica * (1 << 32) + samples.round, return_inverse=True)
    order = np.argsort(turn, kind="stable")
    turn, kept, logs = turn[order], kept[order], np.log(samples.device_ms[order])
    # One interrupt in a turn is not a pattern: what lies far out is drawn in to three times the middle half's width.
    middle = np.median(logs[kept])
    reach = 3 * float(np.subtract(*np.quantile(logs[kept], (0.75, 0.25))))
    logs = np.clip(logs, middle - reach, middle + reach) if reach > 0 else logs
    count = np.bincount(turn, weights=kept)
    mean = np.bincount(turn, weights=np.where(kept, logs, 0.0)) / np.maximum(count, 1)
    deviation = np.where(kept, logs - mean[turn], 0.0)
    freedom = float(np.maximum(count - 1, 0).sum())
    variance = float((deviation**2).sum()) / freedom if freedom else 0.0
    pairs = (turn[1:] == turn[:-1]) & kept[1:] & kept[:-1]
    if pairs.sum() < FEWEST_TO_TELL or variance < 1e-18:
        return None
    ratio = float((deviation[1:] * deviation[:-1])[pairs].mean()) / variance
    ratio += float((1 / count[turn[1:]][pairs]).mean())
    return float(np.clip(ratio, -1.0, 1.0))


def _modes(times_ms: Floats, replica: Ints, resolution_ms: float) -> tuple[float, float, float] | None:
    """Low mode and high mode in ms and the share of samples in the high one, where the samples fall into two.

    The split of the sorted logs, without the outermost per cent on each side, that leaves least variance within its
    two parts. Two parts are two modes when they explain nearly all variance, are far enough apart, hold enough samples
    each, and when there is a valley between: a drift has none. Processes of which each keeps to one of the parts must
    agree there: five processes at five speeds fall into two parts as well.
    """
    if len(times_ms) < FEWEST_TO_TELL:
        return None
    logs = np.log(np.sort(times_ms))
    trim = len(logs) // 100
    logs = logs[trim : len(logs) - trim]
    count = len(logs)
    centred = logs - logs.mean()
    total = float((centred**2).sum())
    if total <= 0:
        return None
    low_count = np.arange(1, count)
    # Between-group sum of squares of a split after the k-th value, from the running sum of the centred logs.
    between = np.cumsum(centred)[:-1] ** 2 * (1 / low_count + 1 / (count - low_count))
    split = int(np.argmax(between)) + 1
    low, high = float(np.median(logs[:split])), float(np.median(logs[split:]))
    smaller = min(split, count - split)
    third = (high - low) / 3
    valley = int(((logs > low + third) & (logs < high - third)).sum())
    if (
        between[split - 1] < MODE_EXPLAINED * total
        or smaller < max(MODE_SHARE * count, FEWEST_IN_MODE)
        or math.expm1(high - low) < MODE_GAP
        or math.exp(high) - math.exp(low) < MODE_STEPS * resolution_ms
        or valley > MODE_VALLEY * smaller
        or _spread_in_modes(np.log(times_ms), replica, low, high) > MODE_SPREAD * (high - low)
    ):
        return None
    return math.exp(low), math.exp(high), (count - split) / count


def _spread_in_modes(logs: Floats, replica: Ints, low: float, high: float) -> float:
    """The widest range of the medians of those replicas that keep to the same mode."""
    slow = logs > (low + high) / 2
    medians: dict[bool, list[float]] = {False: [], True: []}
    for number in np.unique(replica):
        share = float(slow[replica == number].mean())
        if not 0.1 < share < 0.9:
            medians[share > 0.5].append(float(np.median(logs[replica == number])))
    return max((max(found) - min(found) for found in medians.values() if found), default=0.0)
