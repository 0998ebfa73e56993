"""A speed-up as a bar in one row of cells, on a log axis: from 1x to the figure, its interval as whiskers, and behind
it the range that was predicted. All bars on one `Axis` stand below each other, and below its scale.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from rich.style import Style
from rich.text import Text

# By whether only characters of 7 bits may be used: predicted, 1x, bar, whisker, its ends, figure, beyond the axis.
_SIGNS = {False: ("░", "│", "━", "─", "├", "┤", "●", "◀", "▶"), True: (".", "|", "=", "-", "[", "]", "o", "<", ">")}


@dataclass(frozen=True, slots=True)
class Axis:
    """Speed-ups from `low` to `high`, above zero, over `width` cells."""

    low: float
    high: float
    width: int

    def cell(self, value: float) -> int:
        """The cell that a speed-up falls into; below 0 or at least `width` where it lies beyond the axis."""
        if value <= 0:
            return -1
        share = math.log(value / self.low) / math.log(self.high / self.low)
        # Not over the cell's edge by the last bit of a logarithm: 2x and its tick are in one cell.
        return math.floor(share * (self.width - 1) + 0.5)

    def scale(self, ticks: tuple[float, ...]) -> str:
        """The axis' labels in a row as wide as the axis; a label that would touch another is left out, 1x never."""
        cells = [" "] * self.width
        for tick in sorted(ticks, key=lambda tick: tick != 1):
            text = factor_text(tick)
            start = min(max(0, self.cell(tick) - (len(text) - 1) // 2), self.width - len(text))
            around = range(max(0, start - 1), min(self.width, start + len(text) + 1))
            if start >= 0 and all(cells[at] == " " for at in around):
                cells[start : start + len(text)] = text
        return "".join(cells)


def factor_text(factor: float) -> str:
    """A power of two as a label: "4x", "1/4x"."""
    return f"{factor:g}x" if factor >= 1 else f"1/{1 / factor:g}x"


def ratio_bar(
    axis: Axis,
    figure: tuple[float, float | None, float | None] | None,
    predicted: tuple[float, float] | None,
    *,
    style: Style,
    behind: Style,
    ascii: bool,
) -> Text:
    """One row.

    Args:
        figure: a speed-up with its interval; None draws none.
        predicted: a range of speed-ups; None draws none.
        style: of bar and whiskers.
        behind: of the predicted range, and below a bar that covers it.
    """
    band_sign, one_sign, bar_sign, whisker, left_end, right_end, point, less, more = _SIGNS[ascii]
    width = axis.width
    signs = [" "] * width
    styles: list[Style | None] = [None] * width

    def put(at: int, sign: str, of: Style) -> None:
        if 0 <= at < width:
            before = styles[at]
            signs[at] = sign
            # Of what was predicted the background stays to be seen below a bar.
            styles[at] = of if before is None or before.bgcolor is None else of + Style(bgcolor=before.bgcolor)

    if predicted is not None:
        first, last = axis.cell(predicted[0]), axis.cell(predicted[1])
        for at in range(max(0, first), min(width - 1, last) + 1):
            put(at, band_sign, behind)
    one = axis.cell(1.0)
    put(one, one_sign, Style(dim=True))
    if figure is not None:
        value, low, high = figure
        at = axis.cell(value)
        for cell in range(max(0, min(one, at)), min(width - 1, max(one, at)) + 1):
            put(cell, bar_sign, style)
        if low is not None and high is not None:
            ends = axis.cell(low), axis.cell(high)
            for cell in range(max(0, ends[0]), min(width - 1, ends[1]) + 1):
                put(cell, whisker, style)
            if ends[0] < at:
                put(ends[0], left_end, style)
            if ends[1] > at:
                put(ends[1], right_end, style)
        put(max(0, min(width - 1, at)), point if 0 <= at < width else less if at < 0 else more, style)
    text = Text(end="", no_wrap=True)
    start = 0
    for at in range(1, width + 1):
        if at == width or styles[at] != styles[start]:
            text.append("".join(signs[start:at]), styles[start])
            start = at
    return text
