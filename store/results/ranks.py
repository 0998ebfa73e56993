"""Which of several ranks holds the others up."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aisp.store.record import Ranks

STRAGGLES = 0.75
"""Share of the samples in which a rank must be the slowest to be called a straggler."""


def slowest(ranks: Ranks) -> int:
    """The rank with the longest time."""
    return max(range(len(ranks.each)), key=lambda number: ranks.each[number].median_ms)


def over_fastest(ranks: Ranks) -> float:
    """By how much the slowest takes longer than the fastest, as a ratio - 1."""
    return ranks.each[slowest(ranks)].median_ms / _fastest_ms(ranks) - 1


def straggler(ranks: Ranks) -> int | None:
    """The slowest, where it is that in nearly all samples, and longer than the fastest by more than the skew; None
    where none stands out."""
    number = slowest(ranks)
    found = ranks.each[number]
    stands_out = found.slowest_share >= STRAGGLES and (found.median_ms - _fastest_ms(ranks)) * 1e3 > ranks.skew_us
    return number if stands_out else None


def _fastest_ms(ranks: Ranks) -> float:
    return min(rank.median_ms for rank in ranks.each)
