"""The best of many is luck in part: what is left of each lead once that is taken off.

Each of n is drawn to the mean of all by the share of their spread that their own errors explain (an empirical Bayes
estimate), and of the drawn ones the best is the best. Whoever reports the winner of many tries takes its lead for
that, or measures the winner once more with values and processes that had no part in choosing it.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Best:
    """The best of several leads.

    Attributes:
        index: which it is.
        lead: what its lead is taken for, as a logarithm.
        error: one standard error of that, likewise; None where its own is not known.
        luck: the share by which it is taken for less than it showed.
    """

    index: int
    lead: float
    error: float | None
    luck: float


def best_of(leads: Sequence[float], errors: Sequence[float | None]) -> Best:
    """The best of several, taken for what is left of it.

    Args:
        leads: logarithms of ratios; greater is better. At least one.
        errors: one standard error of each, likewise; None where it is not known, which counts as none.
    """
    noise = [(error or 0.0) ** 2 for error in errors]
    if len(leads) == 1:
        return Best(0, leads[0], errors[0], 0.0)
    mean = statistics.fmean(leads)
    real = max(0.0, statistics.variance(leads) - statistics.fmean(noise))
    shares = [real / (real + own) if real + own > 0 else 1.0 for own in noise]
    taken = [mean + share * (lead - mean) for share, lead in zip(shares, leads, strict=True)]
    at = max(range(len(leads)), key=lambda index: (taken[index], leads[index]))
    left = math.sqrt(shares[at] * noise[at] + (1 - shares[at]) ** 2 * statistics.fmean(noise) / len(leads))
    return Best(at, taken[at], None if errors[at] is None else left, -math.expm1(taken[at] - leads[at]))
