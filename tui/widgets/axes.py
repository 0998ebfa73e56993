"""The numbers of an axis: which range shows the values, how it is rounded, and where its ticks stand.

A logarithmic axis is a linear one over the logarithms to the base of ten: its `Span` holds those, and its ticks stand
at 1, 2 and 5 times a power of ten. No screen.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

_UNITS = ((1e9, 1e9, "G"), (1e6, 1e6, "M"), (1e4, 1e3, "k"))

# Fewer values than this say nothing about which of them are outliers.
_OUTLIERS_FROM = 10
_MORE_STEPS = 4
# A logarithmic axis that covers less than this many powers of ten has its ticks at round differences.
_FEW_DECADES = 0.7


@dataclass(frozen=True)
class Span:
    """A closed range on an axis."""

    low: float
    high: float

    def holds(self, other: Span) -> bool:
        return self.low <= other.low and other.high <= self.high

    @property
    def length(self) -> float:
        return self.high - self.low


def nice_step(length: float, steps: int) -> float:
    """The smallest of 1, 2, 2.5, 5 times a power of ten that covers `length` in at most `steps` steps."""
    if not (length > 0 and math.isfinite(length)):
        return 1.0
    wanted = length / max(1, steps)
    power = 10.0 ** math.floor(math.log10(wanted))
    for factor in (1.0, 2.0, 2.5, 5.0):
        if factor * power >= wanted * (1 - 1e-9):
            return factor * power
    return 10.0 * power


def _ticks(span: Span, steps: int) -> tuple[float, list[float]]:
    """Round numbers inside `span`, in order, and how far they lie apart: about `steps` times, oftener where there would
    be one alone, which tells no scale.
    """
    found: list[float] = []
    for count in range(steps, steps + _MORE_STEPS):
        step = nice_step(span.length, count)
        first, last = math.ceil(span.low / step - 1e-9), math.floor(span.high / step + 1e-9)
        found = [number * step for number in range(first, last + 1)]
        if len(found) > 1:
            break
    return step, found


def tick_labels(span: Span, steps: int) -> list[tuple[float, str]]:
    """Round numbers inside `span`, about `steps` intervals apart, with the decimals that their step needs.

    From 10,000 on in thousands (k), then M and G.
    """
    step, places = _ticks(span, steps)
    largest = max(abs(span.low), abs(span.high))
    unit, letter = next(
        ((unit, letter) for least, unit, letter in _UNITS if largest >= least),
        (1.0, ""),
    )
    labels = []
    for value in places:
        if step < 1e-5:
            text = f"{value:.2g}"
        else:
            text = trimmed(value / unit, step / unit) + letter
        labels.append((value, "0" if abs(value) < step * 1e-6 else text))
    return labels


def trimmed(value: float, step: float) -> str:
    places = 0
    while places < 6 and abs(step * 10**places - round(step * 10**places)) > 1e-6 * step * 10**places:
        places += 1
    return f"{value:.{places}f}"


def finite(values: Sequence[float]) -> list[float]:
    return [value for value in values if value - value == 0.0]


def robust_span(values: Sequence[float], usual: Sequence[float] = ()) -> Span | None:
    """The range that shows `values`, those far beyond the middle nine tenths left out.

    What is within one length of the middle nine tenths is kept: clipping is for what would flatten the rest. It is
    never more than a twentieth on either side, so a second level with few samples stays in sight.

    Args:
        usual: a fair sample of them, where `values` are the extremes of many (a thinned curve).
    """
    if not values:
        return None
    low, high = min(values), max(values)
    some = usual or values
    if len(some) < _OUTLIERS_FROM or low == high:
        return Span(low, high)
    # Of many values every k-th tells the percentiles well enough, and sorting is what costs here.
    ordered = sorted(some if len(some) <= 2000 else some[:: len(some) // 1000])
    count = len(ordered) - 1
    low_usual, high_usual = ordered[math.floor(count * 0.05)], ordered[math.ceil(count * 0.95)]
    reach = max(high_usual - low_usual, 0.01 * abs(high_usual))
    return Span(
        min(value for value in values if value >= low_usual - reach),
        max(value for value in values if value <= high_usual + reach),
    )


def log_tick_labels(span: Span, steps: int) -> list[tuple[float, str]]:
    """The same for a logarithmic axis, places being logarithms: at 1, 2, 5 times a power of ten, at the powers alone
    where those are too many, and at round differences where there would be hardly any."""
    if span.length < _FEW_DECADES:
        labels = tick_labels(Span(10**span.low, 10**span.high), steps)
        return [(math.log10(value), text) for value, text in labels if value > 0]
    first, last = math.floor(span.low), math.ceil(span.high)
    every = max(1, math.ceil((last - first) / max(1, steps)))
    factors = (1, 2, 5) if 3 * span.length <= 2 * steps else (1,)
    places = [(power, factor) for power in range(first, last + 1, every) for factor in factors]
    found = [(power + math.log10(factor), factor * 10.0**power) for power, factor in places]
    return [(place, _short(value)) for place, value in found if span.low - 1e-9 <= place <= span.high + 1e-9]


def _short(value: float) -> str:
    unit, letter = next(((unit, letter) for least, unit, letter in _UNITS if value >= least), (1.0, ""))
    return f"{value / unit:g}{letter}"


def _rounded(span: Span, steps: int) -> Span:
    """`span`, widened to multiples of a round step; never empty."""
    low, high = span.low, span.high
    if high - low <= 1e-9 * max(abs(low), abs(high)):
        half = 0.05 * abs(low) or 0.5
        low, high = low - half, high + half
    # Close to zero, zero belongs into the picture: proportions can then be read off.
    if 0 < low < 0.35 * high:
        low = 0.0
    step = nice_step(high - low, steps)
    return Span(math.floor(low / step + 1e-9) * step, math.ceil(high / step - 1e-9) * step)


def _rounded_log(span: Span) -> Span:
    """A range of logarithms, widened to 1, 2 or 5 times a power of ten."""

    def below(value: float) -> float:
        power = math.floor(value + 1e-9)
        return power + max(step for step in (0.0, math.log10(2), math.log10(5)) if power + step <= value + 1e-9)

    low, high = min(span.low, below(span.low)), max(span.high, -below(-span.high))
    # 1/2 and 1/5 of a power of ten are 5 and 2 of the one below: what is below the negative is above the value.
    return Span(low, high) if high > low else Span(low, low + math.log10(2))


def settled(needed: Span | None, before: Span | None, steps: int, *, log: bool = False) -> Span | None:
    """The range to draw with: that of the frame before while it fits, so that the axis does not flicker."""
    if needed is None:
        return None
    if before is not None and before.holds(needed) and needed.length >= 0.6 * before.length:
        return before
    return _rounded_log(needed) if log else _rounded(needed, steps)


def union(spans: Iterable[Span | None]) -> Span | None:
    known = [span for span in spans if span is not None]
    return Span(min(s.low for s in known), max(s.high for s in known)) if known else None
