"""A roofline: how fast work can go by how much of it there is per byte, both axes logarithmic.

A roof rises with the bandwidth until it meets the rate of the arithmetic, and is flat from there. Measured roofs are
solid lines, those of the datasheet dashed: the two can be told apart without colour. Points carry letters, for a
legend beside the plot. `draw_roofs` makes a frame from numbers and needs no screen. Work without arithmetic has no
place on such a plot: `bar_rows` draws its bandwidths as bars.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rich.style import Style
from rich.text import Text

from aisp.store.results.roofline import Roof
from aisp.tui import plain
from aisp.tui.widgets.axes import Span, log_tick_labels
from aisp.tui.widgets.canvas import AXIS, BLANK, LABEL, Canvas, Row, message_rows, text_row, with_gutter
from aisp.tui.widgets.frames import Frame, FrameView
from aisp.tui.widgets.glyphs import GraphStyle

MEASURED, DATASHEET = 0, 1  # owners of the cells of the two roofs; points count on from 2
_DASH_DOTS = 3  # dots of a dash, and of the gap behind it


@dataclass(frozen=True, slots=True)
class RoofPoint:
    """A rung: its letter, its work per byte in flop/byte, its flop/s."""

    letter: str
    intensity: float
    flops_per_s: float


def prefixed(value: float) -> str:
    """A round number with its prefix: 2e12 -> "2 T", 0.25 -> "0.25"."""
    scale, prefix = next(((scale, prefix) for scale, prefix in plain.PREFIXES if value >= scale * 0.999), (1.0, ""))
    return f"{value / scale:.3g}{' ' + prefix if prefix else ''}"


def _spans(roofs: Sequence[Roof], points: Sequence[RoofPoint], intensity: float | None) -> tuple[Span, Span] | None:
    """Decimal logarithms of what the two axes show; None where there is no roof."""
    places = [p.intensity for p in points] + [r.ridge for r in roofs if r.ridge] + ([intensity] if intensity else [])
    known = [value for value in places if value and value > 0]
    if not known:
        return None
    x = Span(math.log10(min(known)) - 0.7, math.log10(max(known)) + 0.7)
    heights = [p.flops_per_s for p in points if p.flops_per_s > 0]
    tops = [h for roof in roofs if (h := roof.height(10**x.high))]
    feet = [h for roof in roofs if (h := roof.height(10**x.low))]
    if not tops:
        return None
    low = min([*heights, *feet])
    # A foot far below everything that is to be seen only makes the rest small.
    if heights:
        low = max(low, min(min(heights), max(tops)) * 1e-2)
    return x, Span(math.log10(low) - 0.25, math.log10(max([*tops, *heights])) + 0.25)


def draw_roofs(
    roofs: Sequence[Roof],
    points: Sequence[RoofPoint],
    width: int,
    height: int,
    style: GraphStyle,
    *,
    intensity: float | None = None,
    empty: str = "no roofs are known",
) -> Frame:
    """Draw roofs and points into `width` x `height` cells.

    Args:
        intensity: where the case stands, in flop/byte: a dotted line upright, also without a point; None for none.
    """
    if width < 1 or height < 1:
        return Frame([])
    spans = _spans(roofs, points, intensity)
    if spans is None or height < 5 or width < 30:
        return Frame(message_rows(empty if spans is None else "too small to draw", width, height))
    x_span, y_span = spans
    ascii_only = style is GraphStyle.ASCII
    plot_rows = height - 3  # legend, line, numbers
    y_ticks = [10.0**place for place, _ in log_tick_labels(y_span, max(2, plot_rows // 2))]
    left = max((len(prefixed(value)) for value in y_ticks), default=0) + 1
    columns = width - left
    canvas = Canvas(columns, plot_rows, style)

    def at(value: float, span: Span, cells: int, dots: int) -> int:
        """The cell that holds the dot of a value: of the same dots that the roofs are drawn with."""
        return round((math.log10(value) - span.low) / span.length * (dots - 1)) * cells // dots

    def column_of(value: float) -> int:
        return at(value, x_span, columns, canvas.width)

    def row_of(value: float) -> int:
        return plot_rows - 1 - at(value, y_span, plot_rows, canvas.height)

    for roof in sorted(roofs, key=lambda roof: roof.measured):
        _draw_roof(canvas, roof, x_span, y_span)
    rows = [canvas.row(number, "#-") for number in range(plot_rows)]
    upright = intensity if intensity else points[0].intensity if points else None
    if upright is not None:
        column = column_of(upright)
        tops = [h for roof in roofs if (h := roof.height(upright))]
        top = row_of(max(tops)) if tops else 0
        for number in range(max(0, top), plot_rows):
            characters, owners = rows[number]
            if characters[column] == " ":
                characters[column], owners[column] = (":" if ascii_only else "┊"), AXIS
    taken: set[tuple[int, int]] = set()
    for number, point in enumerate(points):
        column = max(0, min(columns - 1, column_of(point.intensity)))
        row = max(0, min(plot_rows - 1, row_of(point.flops_per_s)))
        while (row, column) in taken and column < columns - 1:
            column += 1  # two rungs alike stand beside each other
        taken.add((row, column))
        characters, owners = rows[row]
        characters[column], owners[column] = point.letter, number + 2

    labels = {row_of(value): prefixed(value) for value in y_ticks}
    out = [_legend(roofs, bool(points), width, ascii_only)]
    out += [with_gutter(labels.get(number, ""), left, cells, ascii_only) for number, cells in enumerate(rows)]
    out += _x_axis(x_span, left, columns, column_of, ascii_only)
    return Frame(out)


def _draw_roof(canvas: Canvas, roof: Roof, x_span: Span, y_span: Span) -> None:
    """One roof's line, dot by dot; what lies below the plot is left out."""
    owner = MEASURED if roof.measured else DATASHEET
    last = canvas.height - 1
    before: tuple[int, int] | None = None
    for x in range(canvas.width):
        value = roof.height(10 ** (x_span.low + x_span.length * x / max(1, canvas.width - 1)))
        if value is None:
            return
        y = round((y_span.high - math.log10(value)) / y_span.length * last)
        if y > last:
            before = None
            continue
        # Characters in place of dots are wider, and so are their dashes.
        shown = roof.measured or (x // _DASH_DOTS) % 2 == 0
        if shown:
            canvas.line(before or (x, y), (x, y), owner)
        before = (x, y) if shown else None


def _legend(roofs: Sequence[Roof], points: bool, width: int, ascii_only: bool) -> Row:
    solid, dashed = ("##", "- -") if ascii_only else ("━━", "╍╍")
    parts: list[tuple[str, int]] = [("FLOP/s  ", LABEL)]
    if any(roof.measured for roof in roofs):
        parts += [(solid, MEASURED), (" measured  ", LABEL)]
    if any(not roof.measured for roof in roofs):
        parts += [(dashed, DATASHEET), (" datasheet  ", LABEL)]
    if points:
        parts.append(("letters: the rungs below", LABEL))
    return text_row(parts, width)


def _x_axis(span: Span, left: int, columns: int, column_of: Callable[[float], int], ascii_only: bool) -> list[Row]:
    flat, tick, corner = ("-", "+", "+") if ascii_only else ("─", "┬", "└")
    unit = "FLOP/byte"
    line, numbers = [flat] * columns, [" "] * (left + columns)
    room = len(numbers) - len(unit) - 1
    end = 0
    for place, _ in log_tick_labels(span, max(2, columns // 9)):
        value = 10.0**place
        column = column_of(value)
        line[column] = tick
        text = prefixed(value)
        start = left + column - (len(text) - 1) // 2
        if start < end or start + len(text) > room:
            continue
        numbers[start : start + len(text)] = text
        end = start + len(text) + 1
    numbers[len(numbers) - len(unit) :] = unit
    return [
        Row([" "] * (left - 1) + [corner, *line], [BLANK] * (left - 1) + [AXIS] * (columns + 1)),
        Row(numbers, [LABEL] * len(numbers)),
    ]


class RoofPlot(FrameView, can_focus=True):
    """The plot as a pane."""

    DEFAULT_CSS = "RoofPlot { min-height: 5; }"

    def show(self, roofs: Sequence[Roof], points: Sequence[RoofPoint], *, intensity: float | None = None) -> None:
        def picture(width: int, height: int, style: GraphStyle, _: Frame) -> Frame:
            return draw_roofs(roofs, points, width, height, style, intensity=intensity, empty=self.empty)

        styles = [f"bold $series-{number % 6 + 1}" for number in range(len(points))]
        self.draw(picture, ["bold $foreground", "$foreground", *styles])


def bar_rows(
    roofs: Sequence[Roof],
    bars: Sequence[tuple[str, str, float]],
    width: int,
    *,
    ascii_only: bool,
    styles: Sequence[Style | str] = (),
) -> list[Text]:
    """Bandwidths as bars, those of the roofs below: measured solid, datasheet dashed.

    Args:
        bars: letter, rung and bytes/s.
        styles: of the bars; none where there are fewer.
    """
    full, eighths = ("#", "") if ascii_only else ("█", "▏▎▍▌▋▊▉")
    known = [(roof, roof.bandwidth_bytes_per_s) for roof in roofs if roof.bandwidth_bytes_per_s]
    top = max([rate for _, _, rate in bars] + [bandwidth for _, bandwidth in known], default=0.0)
    if top <= 0:
        return []
    # Below 100 columns the rung's name stands in the table only.
    named = max((plain.cells(name) + 2 for _, name, _ in bars), default=0) if width >= 100 else 0
    named = max(named, len("datasheet"))
    room = max(8, width - named - 2 - 13)
    rows = []
    for number, (letter, name, rate) in enumerate(bars):
        cells = rate / top * room
        bar = full * int(cells)
        if eighths and (part := int(cells % 1 * 8)) > 0:
            bar += eighths[part - 1]
        shown = f"{letter} {name}" if width >= 100 else letter
        row = Text(plain.fit(shown, named).ljust(named) + "  ")
        row.append(bar.ljust(room), style=styles[number] if number < len(styles) else "")
        row.append(plain.quantity(rate, "bytes/s").rjust(12), style="bold")
        rows.append(row)
    for roof, bandwidth in sorted(known, key=lambda pair: not pair[0].measured):
        sign = ("=" if roof.measured else "- ") if ascii_only else ("━" if roof.measured else "╍")
        cells = int(bandwidth / top * room)
        row = Text(roof.name.ljust(named) + "  ")
        row.append((sign * room)[:cells].ljust(room))
        row.append(plain.quantity(bandwidth, "bytes/s").rjust(12))
        rows.append(row)
    return rows
