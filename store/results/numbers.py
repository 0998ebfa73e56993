"""How a figure is written, wherever it is told: digits that count, percent, a dash for what is not known.

Every function takes None for "could not be measured" and returns `DASH` for it; NaN counts as None.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime

from aisp.store.outcomes import Verdict

DASH = "-"
"""What stands for an unknown value. ASCII, so that it can be drawn and searched for everywhere."""
UNDECIDED_SIGN = "?"
"""What stands before a ratio that may be chance."""


def known(value: float | None) -> bool:
    """Whether `value` is a number at all."""
    return value is not None and not math.isnan(value)


def number(value: float | None, digits: int = 4) -> str:
    """`value` with at least `digits` digits that count, no exponent from 1e-6 to 1e15: "0.4123", "12.35",
    "12345"."""
    if value is None or math.isnan(value):
        return DASH
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    if value == 0:
        return "0"
    exponent = math.floor(math.log10(abs(value)))
    if not -6 <= exponent < 15:
        return f"{value:.{digits - 1}e}"
    # Rounding may carry into one digit more (9.9996 -> 10.000), so the exponent is taken after rounding.
    exponent = math.floor(math.log10(abs(round(value, digits - 1 - exponent))))
    return f"{value:.{max(0, digits - 1 - exponent)}f}"


def percent(share: float | None, digits: int = 0) -> str:
    """A share of one as a percentage: 0.631 -> "63 %"."""
    if share is None or math.isnan(share):
        return DASH
    return f"{round(share * 100, digits) + 0.0:.{digits}f} %"  # a rounded -0.0 is 0


def bounds(low: float | None, high: float | None, digits: int = 0) -> str:
    """An interval behind its figure: " [2.20..2.40]"; "" where neither end is known. Without `digits` it is that of a
    ratio, whose end is not written out where it says no more than "anything": " [0.20..>999]"."""
    ends = (number(value, digits) if digits else beyond(value) or number(value, 3) for value in (low, high))
    return f" [{'..'.join(ends)}]" if known(low) or known(high) else ""


def beyond(ratio: float | None) -> str:
    """What stands for the end of a ratio's interval that is no figure any more: ">999", "<0.001"; "" for any other."""
    if ratio is None or 0.001 <= ratio <= 999 or math.isnan(ratio):
        return ""
    return ">999" if ratio > 999 else "<0.001"


def milliseconds(median_ms: float | None, low_ms: float | None = None, high_ms: float | None = None) -> str:
    """A median with its interval, without the unit, which stands in the column's head: "0.412
    [0.410..0.415]"."""
    if not known(median_ms):
        return DASH
    return number(median_ms) + bounds(low_ms, high_ms, 4)


def speedup(
    value: float | None, low: float | None = None, high: float | None = None, *, verdict: str = Verdict.NONE
) -> str:
    """A ratio with its interval: "2.31x [2.20..2.40]", and "? 2.31x [0.90..5.93]" where the verdict is undecided.

    The verdict is left out where it stands in the same row, and where the ratio is no comparison of a run.
    """
    if value is None or math.isnan(value):
        return DASH
    sign = f"{UNDECIDED_SIGN} " if verdict == Verdict.UNDECIDED else ""
    return f"{sign}{number(value, 3)}x" + bounds(low, high)


def saved(factor: float | None) -> str:
    """How much less is needed, of memory for instance: 3.7 -> "3.70x less", 0.25 -> "4.00x more", 1 -> "the same"."""
    if factor is None or math.isnan(factor) or factor <= 0:
        return DASH
    if abs(factor - 1) < 0.005:
        return "the same"
    return f"{number(factor, 3)}x less" if factor > 1 else f"{number(1 / factor, 3)}x more"


def counted(number: int, what: str) -> str:
    """A number of things: "1 run", "2 runs"."""
    return f"{number:,} {what}" + ("" if number == 1 else "s")


def count(value: int | None) -> str:
    """A whole number with thousands separated: "12,345"."""
    return DASH if value is None else f"{value:,}"


def local_time(wall: str) -> str:
    """An ISO 8601 time in UTC as local time to the minute; the text itself where it is not one; a dash for
    ""."""
    if not wall:
        return DASH
    try:
        at = datetime.fromisoformat(wall)
    except ValueError:
        return wall
    if at.tzinfo is None:
        at = at.replace(tzinfo=UTC)
    return f"{at.astimezone():%Y-%m-%d %H:%M}"


def factors(limits: tuple[float, float]) -> str:
    """A range of factors: "1.5x..3x"."""
    return f"{number(limits[0], 3)}x..{number(limits[1], 3)}x"
