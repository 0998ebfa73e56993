"""What the samples say: medians with intervals, the speed-up with its interval, the noise floor, the verdict.

Time per call is summed up by the median. A comparison is made of ratios within a round, since what drifts drifts
for both arms; the speed-up is exp of the median over replicas of the median log ratio over rounds, with a
hierarchical bootstrap over replicas and rounds (Efron & Tibshirani, An Introduction to the Bootstrap, 1993).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from store.outcomes import Verdict

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

RESAMPLES = 2000
LEAST_FLOOR = 0.005  # half a per cent: below it no claim is made, whatever the samples say
QUICK_FLOOR = 0.01  # one process cannot show how processes differ
EQUIVALENCE = 0.02  # SAME: the whole interval lies within this of 1, and the noise floor is no higher


@dataclass(frozen=True, slots=True)
class Summary:
    """Median and its 95 % interval, in ms."""

    median_ms: float
    low_ms: float
    high_ms: float


@dataclass(frozen=True, slots=True)
class Ratio:
    """Speed-up (baseline time / rung time), its 95 % interval, the noise floor, and what follows."""

    speedup: float
    low: float
    high: float
    floor: float
    verdict: Verdict
    note: str


def cells(times_ms: Floats, replica: Ints, rounds: Ints) -> dict[int, dict[int, float]]:
    """Median of each round of each replica: {replica: {round: ms}}."""
    found: dict[int, dict[int, float]] = {}
    if not len(times_ms):
        return found
    keys = replica.astype(np.int64) * (1 << 32) + rounds
    order = np.argsort(keys, kind="stable")
    unique, starts = np.unique(keys[order], return_index=True)
    for key, part in zip(unique, np.split(times_ms[order], starts[1:]), strict=True):
        found.setdefault(int(key >> 32), {})[int(key & 0xFFFFFFFF)] = float(np.median(part))
    return found


def summarise(times_ms: Floats, replica: Ints, rounds: Ints, seed: int = 0) -> Summary:
    """Median over all samples; its interval from resampling replicas and the rounds within them."""
    by_replica = [np.array(list(part.values())) for part in cells(times_ms, replica, rounds).values()]
    median = float(np.median(times_ms))
    drawn = _resample(by_replica, seed)
    low, high = np.quantile(drawn, (0.025, 0.975))
    return Summary(median, min(float(low), median), max(float(high), median))


def log_ratios(base: dict[int, dict[int, float]], rung: dict[int, dict[int, float]]) -> list[Floats]:
    """Per replica the log of baseline over rung, for every round that has both."""
    found: list[Floats] = []
    for replica, rounds in base.items():
        other = rung.get(replica, {})
        both = [np.log(ms / other[number]) for number, ms in rounds.items() if number in other]
        if both:
            found.append(np.array(both))
    return found


def noise_floor(twins: list[Floats], *, quick: bool) -> float:
    """The ratio that identical kernels reached here: 95 % quantile of the A/A arm's |log ratio|, at least 0.5 %.

    Args:
        twins: log ratios of the baseline against itself, per replica; empty where there was no A/A arm.
        quick: one process only: at least 1 %.
    """
    least = QUICK_FLOOR if quick else LEAST_FLOOR
    if not twins:
        return least
    medians = np.array([np.median(part) for part in twins])
    spread = np.abs(_resample(twins, 1))
    return float(max(least, np.expm1(np.quantile(spread, 0.95)), np.expm1(np.abs(np.median(medians)))))


def compare(ratios: list[Floats], floor: float, *, quick: bool, seed: int = 0) -> Ratio | None:
    """The verdict on log ratios per replica; None where there are none."""
    if not ratios:
        return None
    centre = float(np.median([np.median(part) for part in ratios]))
    drawn = _resample(ratios, seed)
    low_log, high_log = (float(value) for value in np.quantile(drawn, (0.025, 0.975)))
    low_log, high_log = min(low_log, centre), max(high_log, centre)
    speedup, low, high = (float(np.exp(value)) for value in (centre, low_log, high_log))
    note = "quick: one replica" if quick else ""
    if low > 1 + floor:
        verdict = Verdict.FASTER
    elif high < 1 / (1 + floor):
        verdict = Verdict.SLOWER
    elif floor <= EQUIVALENCE and low > 1 / (1 + EQUIVALENCE) and high < 1 + EQUIVALENCE:
        verdict = Verdict.SAME
    else:
        verdict = Verdict.UNDECIDED
        note = _what_would_decide(centre, high_log - low_log, len(ratios), floor, quick)
    return Ratio(speedup, low, high, floor, verdict, note)


def _what_would_decide(centre: float, width: float, replicas: int, floor: float, quick: bool) -> str:
    """How many replicas would bring the interval clear of the floor, as a sentence."""
    distance = abs(centre) - np.log1p(floor)
    if quick:
        return "a full run would tell more: this was one replica"
    if distance <= 0:
        return f"the difference is inside the noise floor of {floor:.1%}"
    needed = int(np.ceil(replicas * (width / 2 / distance) ** 2))
    return f"about {max(needed, replicas + 1)} replicas would decide it; this run had {replicas}"


def _resample(groups: list[Floats], seed: int) -> Floats:
    """Bootstrap distribution of the median of group medians: resample groups, then members of each."""
    generator = np.random.default_rng(seed)
    count = len(groups)
    medians = np.empty((count, RESAMPLES))
    for index, group in enumerate(groups):
        picks = generator.integers(0, len(group), (RESAMPLES, len(group)))
        medians[index] = np.median(group[picks], axis=1)
    if count == 1:
        return np.asarray(medians[0], np.float64)
    chosen = generator.integers(0, count, (count, RESAMPLES))
    columns = np.broadcast_to(np.arange(RESAMPLES), (count, RESAMPLES))
    return np.asarray(np.median(medians[chosen, columns], axis=0), np.float64)
