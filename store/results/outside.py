"""What the judge's clock says of two arms: their ratio, from its own process, with its interval. And the words for
where arms were judged, which every frontend uses.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aisp.store.record import Arm

COVER = 2.0  # standard errors on either side, for some 95 %


@dataclass(frozen=True, slots=True)
class OutsideRatio:
    """Baseline time over rung time by the judge's clock, and its interval."""

    ratio: float
    low: float
    high: float


def outside_ratio(rung: tuple[float, float], baseline: tuple[float, float]) -> OutsideRatio:
    """From time per call and its relative standard error of each."""
    ratio, error = baseline[0] / rung[0], math.hypot(rung[1], baseline[1])
    return OutsideRatio(ratio, ratio * math.exp(-COVER * error), ratio * math.exp(COVER * error))


def outside_of(rung: Arm, baseline: Arm) -> OutsideRatio | None:
    """Of two arms of a record; None where either was judged inside."""
    found = [arm.quality for arm in (rung, baseline) if arm.quality is not None and arm.quality.outside_ms]
    if len(found) < 2:
        return None
    mine, theirs = ((each.outside_ms or 0.0, each.outside_error or 0.0) for each in found)
    return outside_ratio(mine, theirs)


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
