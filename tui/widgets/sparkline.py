"""A target's times over its runs in one row of cells, one a run, the newest at the right end: the taller, the slower.

The scale is the row's own: from the least to the greatest median, and never so short that noise looks like a cliff. A
cell whose interval is longer than a step of the scale has a band behind it. A run that cannot be compared with the
newest has no height, since its time belongs on no common scale: a dot in its place.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from rich.style import Style
from rich.text import Text

from aisp.tui.widgets.strips import LEVELS, LEVELS_ASCII

LEAST_SPAN = 0.04
"""How much longer the scale's end is than its beginning, at least."""
SPANS_OF_NOISE = 3.0
"""As how many intervals of the usual length the scale is long, at least."""
UPRIGHT = Style(reverse=False)
"""Laid over a height: drawn in reverse, as a table's highlighted row is, a low cell would look like a tall one."""
APART, APART_ASCII = "·", "_"  # not comparable with the newest
NONE = "!"  # no time that may be shown


@dataclass(frozen=True, slots=True)
class Spot:
    """A run: its median time with its interval, None where it has none that may be shown; `apart`: it cannot be
    compared with the newest."""

    median_ms: float | None
    low_ms: float | None
    high_ms: float | None
    apart: bool = False


@dataclass(frozen=True, slots=True)
class Scale:
    """Times from `low_ms` to `high_ms`, on a log axis, in as many steps as there are heights of a cell."""

    low_ms: float
    high_ms: float

    @property
    def step(self) -> float:
        return math.log(self.high_ms / self.low_ms) / len(LEVELS)

    def level(self, time_ms: float) -> int:
        """The height of a time, from 0; what lies outside is at the nearer end."""
        return max(0, min(len(LEVELS) - 1, math.floor(math.log(time_ms / self.low_ms) / self.step)))


def scale_of(spots: Sequence[Spot]) -> Scale | None:
    """The scale of those that are comparable; None where there is none."""
    drawn = [spot for spot in spots if not spot.apart and spot.median_ms]
    medians = [spot.median_ms for spot in drawn if spot.median_ms]
    if not medians:
        return None
    lengths = [found for spot in drawn if (found := _length(spot)) is not None]
    noise = SPANS_OF_NOISE * statistics.median(lengths) if lengths else 0.0
    least = max(math.log1p(LEAST_SPAN), noise)
    low, high = math.log(min(medians)), math.log(max(medians))
    spare = max(0.0, least - (high - low)) / 2
    return Scale(math.exp(low - spare), math.exp(high + spare))


def sparkline(spots: Sequence[Spot], width: int, *, style: Style, newest: Style, band: Style, ascii: bool) -> Text:
    """The row, at most `width` cells long: the newest runs where there are more.

    Args:
        spots: oldest first.
        style: of a cell.
        newest: of the last one.
        band: laid under a cell whose interval is longer than a step.
    """
    shown = spots[-width:] if width > 0 else []
    levels = LEVELS_ASCII if ascii else LEVELS
    scale = scale_of(shown)
    text = Text(end="", no_wrap=True)
    for number, spot in enumerate(shown):
        own = newest if number == len(shown) - 1 else style
        if spot.apart:
            text.append(APART_ASCII if ascii else APART, Style(dim=True))
        elif not spot.median_ms or scale is None:
            text.append(NONE, Style(dim=True))
        else:
            length = _length(spot)
            unsure = length is None or length > scale.step
            text.append(levels[scale.level(spot.median_ms)], (own + band if unsure else own) + UPRIGHT)
    return text


def _length(spot: Spot) -> float | None:
    """The length of the interval, as a difference of logarithms; None where it is not known."""
    return math.log(spot.high_ms / spot.low_ms) if spot.low_ms and spot.high_ms else None
