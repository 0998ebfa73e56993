"""What the samples say: medians with intervals, the speed-up with its interval, the noise floor, the verdict.

Time per call is summed up by the median, never the mean. A comparison is made of ratios within a round, since what
drifts drifts for both arms. A replica's log ratio is the trimmed mean over its rounds, the speed-up exp of the mean
over replicas. Its error has two parts, each treated as what it is:

    within    how rounds differ, by the winsorized variance of each replica's rounds (Yuen, The two-sample trimmed t for
              unequal population variances, 1974)
    between   how processes of the same code differ, of which one comparison of two replicas knows next to nothing. It
              is pooled over the baseline, its A/A arm and the arm itself, after what a replica did to all of them was
              taken off, and moderated by what was known before: a scaled inverse chi-square prior (Smyth, Linear models
              and empirical Bayes methods for assessing differential expression, 2004)

The other rungs of a run have no say in that. Whoever writes one would say by it how well those of others are known, and
by times that he bends to one constant, that they are known better than they are: nine such rungs took the coverage of
their siblings' intervals from 95 to 79 %. No F test can tell, since of two processes one in five differs by a quarter
of what is usual. For the same reason the prior of later runs is fitted to what A/A arms show (`Estimate.apart`).

The interval is Student's, with the degrees of freedom of both parts (Satterthwaite, 1946). An arm that differs between
processes far beyond the baseline and its A/A arm (F test at `APART`) is judged by its own spread, and an A/A arm that
differs out of all measure (`OUTLYING`) is not what a rung is judged by (after Phipson et al., Robust hyperparameter
estimation protects against hypervariable genes, 2016): it raises the floor.

The interval that is reported is that of 95 %. A verdict takes more, since nobody asks again: of identical arms at most
`CLAIM` are called different. A run may look at its replicas before it has all of them, and end where every comparison
is decided: that error is spent over the looks by alpha t^3, t being the share of the replicas taken (Kim & DeMets,
Design and analysis of group sequential tests based on the type I error spending rate function, 1987). Each look claims
at what it spends: by the union bound all of them together err no more often, however they depend on each other.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from aisp.engine.distributions import TINY, digamma, fisher_tail, student, student_tails, trigamma, trigamma_inverse
from aisp.store.outcomes import Timing, Verdict
from aisp.store.results.comparison import EQUIVALENCE
from aisp.store.results.outside import COVER, JudgedTime, outside_ratio

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

LEAST_FLOOR = 0.005  # half a per cent: below it no claim is made, whatever the samples say
QUICK_FLOOR = 0.01  # two processes show little of how processes differ
LEAST_REPLICAS = 2  # of a verdict
LEAST_ROUNDS = 3  # of one replica; fewer say nothing of their own spread
TRIMMED = 0.2  # of a replica's rounds, on each side
ALIKE = 4.0  # arms are alike whose rounds leave at most that many times the variance, beside what processes do
APART = 0.05  # chance that an arm like the baseline's own is judged by its own spread
OUTLYING = 0.001  # chance that an A/A arm like a rung is left out of what that one is judged by
FEWEST_RUNS = 10  # from which on earlier runs say more than what is shipped
MOST_FREEDOM = 6.0  # that earlier runs are worth: this one may be another kernel
LEAST_DEVIATION = 1e-5  # no clock tells processes apart that differ by less
WIDEST = 10.0  # an interval that reaches beyond that many times its middle says only that there are too few processes

LEVEL = 0.05  # of error, of the interval that is reported
CLAIM = 0.01  # of error, of a verdict, over all looks of a run
QUICK_CLAIM = 0.02  # the same of a quick run
FEW = 30  # replicas, below which the shape of Student's distribution matters
MANY = 1e6  # degrees of freedom: a normal distribution
SPENDING = 3  # the exponent of the share of the replicas


@dataclass(frozen=True, slots=True)
class Look:
    """After so many replicas the comparisons are looked at, and what holds at 1 - `level` is claimed.

    No difference below `margin` is claimed there: where one process in five is 10 % slower for all of its life, both of
    an arm's are in one run of twenty-five, and no statistics can see it.
    """

    replicas: int
    level: float
    margin: float = 0.0


LOOKS = (Look(2, 0.00064, margin=0.15), Look(3, 0.00152, margin=0.1), Look(5, 0.00784))
"""Looks of a full run for which nobody set the number of replicas."""


@dataclass(frozen=True, slots=True)
class Prior:
    """What is known of how processes of the same code differ, before any of a run's have begun.

    Attributes:
        deviation: of the log time between processes.
        freedom: how many degrees of freedom that is worth.
        source: where it is from.
    """

    deviation: float
    freedom: float
    source: str

    def manifest(self) -> dict[str, object]:
        """Plain data for a run's manifest."""
        return {"deviation": self.deviation, "freedom": self.freedom, "source": self.source}


HELD, HOST = "held", "host"  # whether host time is in the samples: processes differ more where it is

_WITHOUT = Prior(0.005, 1.0, "shipped: processes of eight lessons on an H100 differed by 0.02 to 1.5 %")
_WITH = Prior(0.02, 1.0, "shipped: processes with host time in theirs differed by 2 to 6 %, and by 17 % once")
PRIORS: dict[str, dict[str, Prior]] = {"cuda": {HELD: _WITHOUT, HOST: _WITH}, "cpu": {HOST: _WITH}}
"""By device and class of timing. Wide on purpose: worth one degree of freedom. `docs/measurement/spread_cuda_*.json`
has the processes."""


def class_of(timing: Timing) -> str:
    """Which prior is about samples that were taken so."""
    return HELD if timing.held else HOST


OUTSIDE_ERROR = 0.005  # of the judge's clock at best, relative
LONE_ERROR = 0.10  # of one pair of batches, which shows no spread: a neighbour may have met it
MAD_TO_DEVIATION = 1.4826  # of a normal distribution


@dataclass(frozen=True, slots=True)
class Summary:
    """Median and its 95 % interval, in ms."""

    median_ms: float
    low_ms: float
    high_ms: float


@dataclass(frozen=True, slots=True)
class Ratio:
    """Speed-up (baseline time / rung time), its 95 % interval, the noise floor, and what follows.

    `p_value` is two-sided, of a ratio within the floor.
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
        median: float64 [turns], of the turn's values.
    """

    replica: Ints
    round: Ints
    median: Floats

    def __len__(self) -> int:
        return len(self.median)

    def of(self, chosen: npt.NDArray[np.bool_] | Ints) -> ByRound:
        """Some of the turns."""
        return ByRound(self.replica[chosen], self.round[chosen], self.median[chosen])


@dataclass(frozen=True, slots=True)
class Estimate:
    """A log ratio, or a log time, and how well it is known.

    Attributes:
        centre: what the replicas say.
        error: its standard error; infinite where nothing is known of it.
        freedom: of that error.
        apart: the variance between processes of the same code that these replicas alone show, of a process's log time.
        by_replica: what each of them says, in rising order.
        rounds: of the replica that has fewest.
    """

    centre: float
    error: float
    freedom: float
    apart: float
    by_replica: tuple[float, ...]
    rounds: int

    @property
    def replicas(self) -> int:
        """How many there are."""
        return len(self.by_replica)

    def shifted(self, by: float) -> Estimate:
        """What the same samples give when one arm's times are multiplied by exp(by)."""
        return replace(self, centre=self.centre + by, by_replica=tuple(value + by for value in self.by_replica))

    def interval(self, level: float = LEVEL) -> tuple[float, float]:
        """At 1 - level, as logs."""
        reach = student(level, self.freedom) * self.error
        return self.centre - reach, self.centre + reach

    def p_value(self, floor: float, look: Look | None = None) -> float:
        """Two-sided: how often an estimate whose truth lies at the floor's edge would be as far beyond it.

        At a look it is raised by as much as the look spends less than all: what is claimed there stays below CLAIM.
        """
        if math.isinf(self.error):
            return 1.0
        beyond = abs(self.centre) - math.log1p(floor)
        if beyond <= 0:
            return 1.0
        chance = student_tails(beyond / max(self.error, TINY), self.freedom)
        return min(1.0, chance * (1.0 if look is None else CLAIM / look.level))


def look_at(replicas: int, looks: Sequence[Look]) -> Look | None:
    """The look that so many replicas are judged by, as long as there are no more the next one; None without looks."""
    if replicas < 2 or not looks:
        return None
    return next((look for look in looks if look.replicas >= replicas), looks[-1])


# -- from samples to turns ---------------------------------------------------------------------------------------------


def by_round(values: Floats, replica: Ints, rounds: Ints) -> ByRound:
    """Samples in whatever order as turns.

    Args:
        values: float64 [samples], finite and > 0: times in ms, or cycles. Only samples that count.
        replica, rounds: int64 [samples].
    """
    if not len(values):
        none = np.empty(0, np.int64)
        return ByRound(none, none, np.empty(0))
    keys = replica.astype(np.int64) * (1 << 32) + rounds
    order = np.lexsort((values, keys))
    ordered = values[order]
    unique, starts, count = np.unique(keys[order], return_index=True, return_counts=True)
    median = (ordered[starts + (count - 1) // 2] + ordered[starts + count // 2]) / 2
    return ByRound(unique >> 32, unique & 0xFFFFFFFF, median)


def log_ratios(base: ByRound, rung: ByRound) -> list[Floats]:
    """Per replica the log of baseline over rung, for every round that has both."""
    base, rung = _shared(base, rung)
    ratios = np.log(base.median / rung.median)
    return [ratios[base.replica == replica] for replica in np.unique(base.replica)]


def half_width(log_ratios_of_one_replica: Floats, clear: float = 0.0) -> float:
    """Half the 95 % interval of the ratio of one replica, relative; infinite with fewer than three rounds.

    Args:
        clear: a half-width that is at most that share of the log ratio counts as 0: rounds decide nothing there.
    """
    if len(log_ratios_of_one_replica) < LEAST_ROUNDS:
        return math.inf
    location = _located(log_ratios_of_one_replica)
    half = student(LEVEL, location.freedom) * math.sqrt(location.variance)
    return 0.0 if half <= clear * abs(location.centre) else math.expm1(half)


# -- figures -----------------------------------------------------------------------------------------------------------


def summarise(times_ms: Floats, replica: Ints, rounds: Ints, prior: Prior) -> Summary:
    """Median over all samples; its interval from how rounds and processes differ."""
    median = float(np.median(times_ms))
    turns = by_round(times_ms, replica, rounds)
    alone = _Contrast.of(np.log(turns.median), turns.replica)
    between, freedom = prior.deviation**2, prior.freedom
    if len(alone.replicas) > 1:
        between, freedom = _moderated(alone.apart, len(alone.replicas) - 1, prior)
    low, high = (math.exp(log) for log in _bounded(alone.estimate(between, freedom))[:2])
    return Summary(median, min(low, median), max(high, median))


def noise_floor(twins: Estimate | None, *, quick: bool) -> float:
    """The ratio that identical kernels reached here: that of the A/A arm, at least 0.5 %. How far it might have been
    is in every interval already.

    Args:
        twins: the baseline against itself; None where there was no A/A arm.
        quick: two processes only: at least 1 %.
    """
    least = QUICK_FLOOR if quick else LEAST_FLOOR
    return least if twins is None else max(least, math.expm1(abs(twins.centre)))


def estimates(
    base: ByRound, arms: Mapping[str, ByRound], prior: Prior, *, same: Collection[str], paired: bool = True
) -> dict[str, Estimate | None]:
    """The log of baseline over arm, of each arm; None where it shares no round (`paired`), or no replica, with it.

    Args:
        base, arms: what they measured.
        prior: of how processes of the same code differ.
        same: those of the arms that no rung has written, the A/A arm: they say how processes differ in this run.
        paired: the arms took turns within each round. Else the ratio is that of the replicas' own middles.
    """
    made = {name: _contrast(base, arm, paired=paired) for name, arm in arms.items()}
    own_code = {name: estimate for name in same if (estimate := made.get(name)) is not None}
    return {
        name: None if one is None else one.estimate(*_between(one, [own_code[o] for o in own_code if o != name], prior))
        for name, one in made.items()
    }


def fitted(seen: Sequence[tuple[float, float]], shipped: Prior, where: str) -> Prior:
    """What earlier runs say of how processes differ; what is shipped where they are fewer than `FEWEST_RUNS`.

    By the moments of the log variances, whose spread beyond what their own degrees of freedom explain is that of the
    prior (Smyth, 2004, section 6.2). A variance below a hundredth of the median one counts as that: it says nothing
    more, and its logarithm would.

    Args:
        seen: deviation between processes and degrees of freedom of each run, as its A/A arm showed them.
        shipped: the prior of the device and class.
        where: of which machine, in words.
    """
    if len(seen) < FEWEST_RUNS:
        return shipped
    variance = np.array([deviation for deviation, _ in seen]) ** 2
    half = np.array([freedom for _, freedom in seen]) / 2
    variance = np.maximum(variance, max(float(np.median(variance)) / 100, LEAST_DEVIATION**2))
    logs = np.log(variance) - np.array([digamma(value) - math.log(value) for value in half])
    beyond = float(logs.var(ddof=1)) - float(np.mean([trigamma(value) for value in half]))
    freedom = min(2 * trigamma_inverse(beyond), MOST_FREEDOM) if beyond > 0 else MOST_FREEDOM
    logged = float(logs.mean()) + digamma(freedom / 2) - math.log(freedom / 2)
    return Prior(math.exp(logged / 2), freedom, f"{len(seen)} runs {where}")


def decide(estimate: Estimate, floor: float, *, quick: bool, looks: Sequence[Look] = ()) -> Ratio:
    """What a log ratio says beside a noise floor (a ratio - 1), at the look that it has come to.

    One replica decides nothing: it cannot show how processes differ.
    """
    look = look_at(estimate.replicas, looks)
    level, margin = (QUICK_CLAIM if quick else CLAIM, 0.0) if look is None else (look.level, look.margin)
    p_value = estimate.p_value(floor, look)
    speedup = math.exp(estimate.centre)
    low_log, high_log, note = _bounded(estimate)
    low, high = math.exp(low_log), math.exp(high_log)
    if note:
        return Ratio(speedup, low, high, floor, Verdict.UNDECIDED, p_value, note)
    nearest = max(floor, margin)
    least, most = (math.exp(log) for log in estimate.interval(level))
    if estimate.replicas < LEAST_REPLICAS:
        verdict, note = Verdict.UNDECIDED, "one replica cannot show how processes differ; two can"
    elif least > 1 + nearest:
        verdict = Verdict.FASTER
    elif most < 1 / (1 + nearest):
        verdict = Verdict.SLOWER
    elif nearest <= EQUIVALENCE and low > 1 / (1 + EQUIVALENCE) and high < 1 + EQUIVALENCE:
        verdict = Verdict.SAME
    else:
        verdict = Verdict.UNDECIDED
        note = _what_would_decide(estimate, nearest, level, quick)
    return Ratio(speedup, low, high, floor, verdict, p_value, note)


def _bounded(estimate: Estimate) -> tuple[float, float, str]:
    """The 95 % interval, and ""; where nothing can be said of it, from the least to the greatest replica, and why."""
    low, high = estimate.interval() if math.isfinite(estimate.error) else (-math.inf, math.inf)
    if high - low <= 2 * math.log(WIDEST):
        return low, high, ""
    ends = min(*estimate.by_replica, estimate.centre), max(*estimate.by_replica, estimate.centre)
    if math.isinf(estimate.error):
        rounds = "one round says" if estimate.rounds == 1 else f"{estimate.rounds} rounds say"
        return *ends, f"{rounds} nothing of how rounds differ; {LEAST_ROUNDS} are the least"
    apart = math.exp(ends[1] - ends[0])
    return *ends, f"too few processes for an interval: {estimate.replicas} of them were up to {apart:.3g}x apart"


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
    """Time per call in ms by the judge's clock, and its relative error, of which COVER on either side are the 95 %
    interval; None where it is not above zero.

    The time is the median over replicas of the medians of their slopes. The error is the larger one of what the slopes
    and what the replicas differ by, each by the median absolute deviation and the wider the fewer they are (Student's t
    of two arms with as many), and at least OUTSIDE_ERROR; LONE_ERROR of one pair.

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
    if len(times) == 1:
        return time_ms, LONE_ERROR
    errors = [
        MAD_TO_DEVIATION
        * float(np.median(np.abs(values - np.median(values))))
        / math.sqrt(len(values))
        * (student(LEVEL, 2.0 * (len(values) - 1)) / COVER)
        for values in (times, medians)
        if len(values) > 1
    ]
    return time_ms, max([OUTSIDE_ERROR, *(error / time_ms for error in errors)])


def confirmed_outside(time: Ratio, base: JudgedTime | None, rung: JudgedTime | None) -> Ratio:
    """FASTER where the judge's clock says so too: else it is open, also where that clock has nothing of either arm."""
    if time.verdict is not Verdict.FASTER:
        return time
    if base is None or rung is None:
        whose = "the rung" if rung is None else "the baseline"
        return replace(
            time, verdict=Verdict.UNDECIDED, note=f"faster by its own clock; the judge's has no time of {whose}"
        )
    ratio = outside_ratio(rung, base)
    if ratio.low > 1.0:
        return time
    note = f"faster by its own clock, but not on the judge's ({ratio.low:.3g} to {ratio.high:.3g})"
    if outside_ratio(rung._replace(copies_ms=0.0), base).low > 1.0:
        note += "; copies of its inputs or outputs in a batch count as its own: it could leave them out"
    return replace(time, verdict=Verdict.UNDECIDED, note=note)


def _what_would_decide(estimate: Estimate, floor: float, level: float, quick: bool) -> str:
    """How many replicas, asked for at once, would bring the interval clear of the floor, as a sentence."""
    distance = abs(estimate.centre) - math.log1p(floor)
    if quick:
        return f"a full run would tell more: this was a quick one of {estimate.replicas} replicas"
    if distance <= 0:
        return f"the difference is inside the noise floor of {floor:.1%}"
    # The interval narrows with the root of the replicas, and by what more degrees of freedom take off.
    spread = estimate.error * math.sqrt(estimate.replicas)
    needed = max(estimate.replicas + 1, math.ceil((student(level, MANY) * spread / distance) ** 2))
    for count in range(estimate.replicas + 1, FEW):
        if student(level, estimate.freedom * count / estimate.replicas) * spread / math.sqrt(count) < distance:
            needed = count
            break
    return f"about {needed} replicas would decide it; this run had {estimate.replicas}"


# -- two parts of an error ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Located:
    """The trimmed mean of some rounds, the variance of that mean, its degrees of freedom, and how many rounds."""

    centre: float
    variance: float
    freedom: int
    rounds: int


def _located(values: Floats) -> _Located:
    count = len(values)
    cut = int(TRIMMED * count)
    ordered = np.sort(values)
    kept = ordered[cut : count - cut]
    centre = float(kept.mean())
    if count < 2:
        return _Located(centre, 0.0, 0, count)
    spread = float(np.clip(ordered, kept[0], kept[-1]).var(ddof=1))
    return _Located(centre, spread * (count - 1) / (len(kept) * (len(kept) - 1)), len(kept) - 1, count)


@dataclass(frozen=True, slots=True)
class _Contrast:
    """What each replica says of a log ratio or a log time.

    Attributes:
        replicas: int64 [replicas], which ones, in rising order.
        centres: float64 [replicas].
        within: variance of a centre as its rounds show it, the mean over replicas.
        freedom: of that, 0 where no replica has two rounds.
        rounds: of the replica that has fewest.
    """

    replicas: Ints
    centres: Floats
    within: float
    freedom: int
    rounds: int

    @staticmethod
    def of(values: Floats, replica: Ints) -> _Contrast:
        """From a value for each round of each replica, at least one."""
        numbers = np.unique(replica)
        located = [_located(values[replica == number]) for number in numbers]
        return _Contrast(
            numbers,
            np.array([one.centre for one in located]),
            math.fsum(one.variance for one in located) / len(located),
            sum(one.freedom for one in located),
            min(one.rounds for one in located),
        )

    @property
    def apart(self) -> float:
        """The variance between replicas, less what rounds explain; 0 of one replica."""
        return max(0.0, float(self.centres.var(ddof=1)) - self.within) if len(self.centres) > 1 else 0.0

    def less(self, other: _Contrast) -> _Contrast:
        """The difference of two arms that have nothing but their replicas in common."""
        return _Contrast(
            self.replicas,
            self.centres - other.centres,
            self.within + other.within,
            min(self.freedom, other.freedom),
            min(self.rounds, other.rounds),
        )

    def estimate(self, between: float, freedom: float) -> Estimate:
        """With the variance between processes and its degrees of freedom."""
        count = len(self.replicas)
        variance = between + self.within
        degrees = between**2 / freedom + (self.within**2 / self.freedom if self.freedom else 0.0)
        has_error = count > 1 or self.rounds >= LEAST_ROUNDS
        return Estimate(
            float(self.centres.mean()),
            math.sqrt(variance / count) if has_error else math.inf,
            variance**2 / degrees if degrees else freedom,
            self.apart / 2,
            tuple(sorted(self.centres.tolist())),
            self.rounds,
        )


def _contrast(base: ByRound, arm: ByRound, *, paired: bool) -> _Contrast | None:
    """The log of baseline over arm, replica by replica."""
    if paired:
        base, arm = _shared(base, arm)
        return _Contrast.of(np.log(base.median / arm.median), base.replica) if len(base) else None
    both = np.intersect1d(base.replica, arm.replica)
    if not len(both):
        return None
    first, second = (side.of(np.isin(side.replica, both)) for side in (base, arm))
    return _Contrast.of(np.log(first.median), first.replica).less(_Contrast.of(np.log(second.median), second.replica))


def _between(own: _Contrast, same: Sequence[_Contrast], prior: Prior) -> tuple[float, float]:
    """The variance between processes of an arm's contrast, that of two processes, and its degrees of freedom."""
    count = len(own.replicas)
    if count < 2:
        return 2 * prior.deviation**2, prior.freedom
    # What varies far more from round to round says nothing of how the processes of this one differ.
    most = ALIKE * own.within + 2 * prior.deviation**2
    fit = [one for one in same if one.within <= most and np.isin(own.replicas, one.replicas).all()]
    like = [one for one in fit if _tail(one, [own], own.replicas, prior) >= OUTLYING]
    variance, freedom = _moderated(*_pooled([own, *like], own.replicas), prior)
    if fit and own.apart / 2 > variance:
        variance = own.apart / 2
        if _tail(own, fit, own.replicas, prior) < APART:
            freedom = count - 1 + prior.freedom
    return 2 * variance, freedom


def _tail(one: _Contrast, others: Sequence[_Contrast], replicas: Ints, prior: Prior) -> float:
    """The chance that an arm's processes differ so much if they are like those of the others."""
    variance, freedom = _moderated(*_pooled(others, replicas), prior)
    own = float(one.centres[np.isin(one.replicas, replicas)].var(ddof=1))
    return fisher_tail(own / max(2 * variance + one.within, TINY), len(replicas) - 1, freedom)


def _pooled(made: Sequence[_Contrast], replicas: Ints) -> tuple[float, int]:
    """The variance between processes of one arm, over the baseline (whose contrast with itself is 0) and these arms:
    what is left of them where each arm's mean and each replica's are taken off, less what rounds explain.
    """
    rows = np.array([np.zeros(len(replicas)), *(one.centres[np.isin(one.replicas, replicas)] for one in made)])
    freedom = (len(rows) - 1) * (len(replicas) - 1)
    left = rows - rows.mean(axis=0) - rows.mean(axis=1, keepdims=True) + rows.mean()
    within = math.fsum(one.within for one in made) / len(made) / 2
    return max(0.0, float((left**2).sum()) / freedom - within), freedom


def _moderated(variance: float, freedom: float, prior: Prior) -> tuple[float, float]:
    """A variance with what was known before, each by its degrees of freedom."""
    whole = freedom + prior.freedom
    return (freedom * variance + prior.freedom * prior.deviation**2) / whole, whole


def _shared(first: ByRound, second: ByRound) -> tuple[ByRound, ByRound]:
    """The turns of the rounds that both have, in the same order."""
    one, other = (arm.replica * (1 << 32) + arm.round for arm in (first, second))
    _, left, right = np.intersect1d(one, other, assume_unique=True, return_indices=True)
    return first.of(left), second.of(right)
