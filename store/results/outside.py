"""What the judge's clock says of two arms: their ratio, from its own process, with its interval. And the words for
where arms were judged, which every frontend uses.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from aisp.store.record import Arm, Quality

COVER = 2.0  # errors on either side, for 95 %


class JudgedTime(NamedTuple):
    """Time per call of an arm by the judge's clock.

    Attributes:
        ms: without the copies that its batches contain.
        error: relative; COVER of it on either side are the 95 % interval.
        copies_ms: of a call, as the judge makes them.
    """

    ms: float
    error: float
    copies_ms: float = 0.0


@dataclass(frozen=True, slots=True)
class OutsideRatio:
    """Baseline time over rung time by the judge's clock, and its interval."""

    ratio: float
    low: float
    high: float


def outside_ratio(rung: JudgedTime, baseline: JudgedTime) -> OutsideRatio:
    """From the times of both. A rung may have left its copies out, in its own process: at worst none of its time is
    theirs."""
    ratio, error = baseline.ms / rung.ms, math.hypot(rung.error, baseline.error)
    least = baseline.ms / (rung.ms + rung.copies_ms)
    return OutsideRatio(ratio, least * math.exp(-COVER * error), ratio * math.exp(COVER * error))


def outside_of(rung: Arm, baseline: Arm) -> OutsideRatio | None:
    """Of two arms of a record; None where either was judged inside."""
    mine, theirs = judged_time(rung.quality), judged_time(baseline.quality)
    return None if mine is None or theirs is None else outside_ratio(mine, theirs)


def judged_time(quality: Quality | None) -> JudgedTime | None:
    """Of an arm of a record; None where it was judged inside."""
    if quality is None or not quality.outside_ms:
        return None
    return JudgedTime(quality.outside_ms, quality.outside_error or 0.0, quality.outside_copies_ms or 0.0)


def by_the_judge(arm: Arm) -> bool:
    """Whether an arm was judged outside."""
    return arm.quality is not None and bool(arm.quality.outside_ms)


def judged(*arms: Arm) -> str:
    """Where arms were judged: "judged outside", "judged inside (why)", "optimized judged inside (why)" of one among
    several; and that memory had room for small batches alone. "" where it is not known of each.
    """
    inside: dict[str, list[str]] = {}
    for arm in arms:
        if arm.quality is not None and arm.quality.inside is not None:
            inside.setdefault(arm.quality.inside, []).append(arm.rung)
    if not inside:
        few = min((q.outside_sets for arm in arms if (q := arm.quality) and q.outside_sets), default=None)
        cut = f" (in batches of {few} calls at most: memory had no room for more inputs)" if few else ""
        return f"judged outside{cut}" if arms and all(map(by_the_judge, arms)) else ""
    told = [
        f"{'' if len(rungs) == len(arms) else ', '.join(rungs) + ' '}judged inside ({why})"
        for why, rungs in inside.items()
    ]
    return "; ".join(told)
