"""What the judge's clock says of two arms: their ratio, from its own process, with its interval."""

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


def how_judged(arm: Arm) -> str:
    """Of an arm: "judged outside", "judged inside (why)", or "" where nothing is known."""
    quality = arm.quality
    if quality is None:
        return ""
    if quality.inside is not None:
        return f"judged inside ({quality.inside})"
    return "judged outside" if quality.outside_ms else ""
