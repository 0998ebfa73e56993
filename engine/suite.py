"""Many targets at once: the geometric mean of their speed-ups, and which verdicts stay when so many are asked for.

Standard library only: frontends import this.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

LEVEL = 0.05
NORMAL_95 = 1.959963984540054
CALLED = ("faster", "slower")  # verdicts that claim a difference; store.outcomes.Verdict by value


@dataclass(frozen=True, slots=True)
class Entry:
    """One comparison of a suite; a Comparison's figures with its target. None where there is no figure.

    speedup, low and high are baseline time over rung time and its 95 % interval; p_value is that of a difference beyond
    the noise floor.
    """

    target: str
    rung: str
    verdict: str
    speedup: float | None
    low: float | None
    high: float | None
    p_value: float | None


@dataclass(frozen=True, slots=True)
class Score:
    """A suite in one number, with the verdicts that stay.

    Attributes:
        count: comparisons in the mean.
        geometric_mean, low, high: of the speed-ups, with its 95 % interval; None where count is 0.
        left_out: (target, reason) of those that have no speed-up to bring in.
        confirmed, not_confirmed: targets called FASTER or SLOWER that stay so, or do not, at `level`.
        level: expected share of wrong ones among the confirmed, at most.
    """

    count: int
    geometric_mean: float | None
    low: float | None
    high: float | None
    left_out: tuple[tuple[str, str], ...]
    confirmed: tuple[str, ...]
    not_confirmed: tuple[str, ...]
    level: float


def score(entries: Sequence[Entry]) -> Score:
    """The geometric mean with its interval, and the verdicts that stay.

    The mean of n speed-ups s_i is exp(m), m = sum(log s_i) / n. Each s_i counts as log-normal with the standard error
    e_i = log(high_i / low_i) / (2 * 1.96); the interval is exp(m -+ 1.96 e), e = sqrt(sum(e_i^2)) / n. It says how well
    the mean over these targets is known, not how other targets would fare. SAME and UNDECIDED count like the rest: a
    suite of winners is not a suite.

    Benjamini & Hochberg (Controlling the false discovery rate, 1995) is asked over every comparison that was made, also
    those that claim nothing: were it asked over the claims alone, each of which has a small p-value already, it would
    confirm them all. A claim without a p-value counts as 1.
    """
    logs: list[float] = []
    errors: list[float] = []
    left_out: list[tuple[str, str]] = []
    asked: list[tuple[Entry, float]] = []
    for entry in entries:
        reason = _why_left_out(entry)
        if reason:
            left_out.append((entry.target, reason))
            continue
        assert entry.speedup is not None
        assert entry.low is not None
        assert entry.high is not None
        logs.append(math.log(entry.speedup))
        errors.append(math.log(entry.high / entry.low) / (2 * NORMAL_95))
        asked.append((entry, 1.0 if entry.p_value is None else entry.p_value))
    threshold = benjamini_hochberg([p_value for _, p_value in asked], LEVEL)
    called = [(entry.target, p_value <= threshold) for entry, p_value in asked if entry.verdict in CALLED]
    confirmed = tuple(target for target, stays in called if stays)
    not_confirmed = tuple(target for target, stays in called if not stays)
    if not logs:
        return Score(0, None, None, None, tuple(left_out), confirmed, not_confirmed, LEVEL)
    mean = math.fsum(logs) / len(logs)
    margin = NORMAL_95 * math.sqrt(math.fsum(error**2 for error in errors)) / len(logs)
    figures = (math.exp(mean), math.exp(mean - margin), math.exp(mean + margin))
    return Score(len(logs), *figures, tuple(left_out), confirmed, not_confirmed, LEVEL)


def _why_left_out(entry: Entry) -> str:
    """Why a comparison cannot count; "" where it does."""
    figures = (entry.speedup, entry.low, entry.high)
    if entry.verdict == "none" or entry.speedup is None:
        return "no speed-up"
    if any(figure is None or not math.isfinite(figure) or figure <= 0 for figure in figures):
        return "no interval"
    return ""


def benjamini_hochberg(p_values: Sequence[float], level: float) -> float:
    """The greatest p-value that is still a discovery; below 0, which no p-value is, where none is.

    The k-th smallest of n is the last one that is at most level * k / n.
    """
    ordered = sorted(p_values)
    passing = [p for rank, p in enumerate(ordered, start=1) if p <= level * rank / len(ordered)]
    return passing[-1] if passing else -1.0


def score_of_light(time: float, bound: float, base: float) -> float | None:
    """How near a time has come to its bound: 1 / (1 + (t - b) / (t0 - b)): 0.5 for the baseline's, 1 at the bound.

    As published the formula has a pole, and exceeds 1 below the bound. There a time is a finding, not a score.

    Args:
        time, bound, base: t, b and t0, in one unit, > 0.

    Returns:
        None where time < bound, and where base <= bound: such a baseline leaves nothing to gain.
    """
    if not (time >= bound and base > bound > 0):
        return None
    return 1.0 / (1.0 + (time - bound) / (base - bound))
