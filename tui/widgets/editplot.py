"""Edits, or runs, as points with error bars, one column of cells and one tick for each: nothing stands between two.
What two processes made of one are two points beside its median, and no interval.

An edit without a time has a sign at the foot of the plot instead. Times far beyond the others must not flatten them:
they are drawn on the upper edge as ▲, and the legend counts them. Where there are more edits than columns the newest
are drawn, or those around the chosen one.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, ClassVar, NamedTuple

from rich.cells import cell_len
from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message

from aisp.tui.widgets.axes import Span, nice_step, tick_labels
from aisp.tui.widgets.canvas import AXIS, BLANK, CLIPPED, LABEL, Row, message_rows, text_row, with_gutter
from aisp.tui.widgets.frames import Frame, FrameView
from aisp.tui.widgets.glyphs import GraphStyle

MOST_STEP = 10  # cells from one edit to the next
FAR = 4.0  # times the middle one: what is beyond is drawn on the edge


class Mark(IntEnum):
    """What became of an edit; also the owner of its cells."""

    EDIT = 0
    BEST = 1
    FAILED = 2
    NO_TIME = 3
    RUNNING = 4


CHOSEN = len(Mark)  # owner of the chosen edit's number, which stands in brackets
STYLES = ["$series-1", "bold $verdict-faster", "bold $error", "dim", "bold $warning", "bold $accent"]
NAMES = {
    Mark.EDIT: "edit",
    Mark.BEST: "best",
    Mark.FAILED: "failed",
    Mark.NO_TIME: "no time",
    Mark.RUNNING: "under way",
}
SIGNS = dict(zip(Mark, "●★×·◌", strict=True))
SIGNS_ASCII = dict(zip(Mark, "o*x.?", strict=True))


@dataclass(frozen=True, slots=True)
class EditPoint:
    """An edit as it is drawn: its number, its time with the 95 % interval in the plot's unit, and what became of it;
    `both` are the times of its two processes, which are drawn in the place of the interval."""

    number: int
    y: float | None
    low: float | None
    high: float | None
    mark: Mark = Mark.EDIT
    both: tuple[float, float] | None = None


def window(points: Sequence[EditPoint], columns: int, chosen: int | None) -> tuple[list[EditPoint], int]:
    """The points that there is room for, the newest or those around the chosen one, and cells from one to the next."""
    if not points or columns < 1:
        return [], 1
    step = max(2, min(MOST_STEP, columns // len(points)))
    most = max(1, columns // step)
    last = len(points)
    at = next((n for n, point in enumerate(points) if point.number == chosen), last - 1)
    last = min(last, max(at + 1 + most // 2, most)) if at < last - most else last
    return list(points[max(0, last - most) : last]), step


def y_range(points: Sequence[EditPoint]) -> Span | None:
    """Round bounds around the times that are not far beyond the middle one, with their intervals as far as those do
    not flatten the times; None without a time."""
    times = [point.y for point in points if point.y is not None]
    if not times:
        return None
    middle = statistics.median_low(times)
    near = [point for point in points if point.y is not None and point.y <= FAR * middle]
    low, high = min(point.y or 0.0 for point in near), max(point.y or 0.0 for point in near)
    reach = max(high - low, 0.1 * high)
    ends = [point.both or (point.low, point.high) for point in near]
    low = max(low - reach, min([low, *(end for end, _ in ends if end is not None)]))
    high = min(high + reach, max([high, *(end for _, end in ends if end is not None)]))
    if high - low < 1e-9 * abs(high):
        low, high = low - (0.05 * abs(low) or 0.5), high + (0.05 * abs(high) or 0.5)
    step = nice_step(high - low, 8)
    return Span(math.floor(low / step + 1e-9) * step, math.ceil(high / step - 1e-9) * step)


class Layout(NamedTuple):
    """Where things stand in a plot of a certain size."""

    span: Span | None
    labels: list[tuple[float, str]]
    left: int  # cells of the gutter
    rows: int  # for points
    legend: bool
    line: bool
    shown: list[EditPoint]
    step: int


def lay_out(points: Sequence[EditPoint], width: int, height: int, chosen: int | None) -> Layout:
    legend, line = height >= 5, height >= 6
    count = height - legend - line - 1
    span = y_range(points)
    labels = tick_labels(span, max(2, count // 3)) if span is not None else []
    left = max((len(text) for _, text in labels), default=0) + 1
    return Layout(span, labels, left, count, legend, line, *window(points, width - left, chosen))


def draw_edits(
    points: Sequence[EditPoint],
    width: int,
    height: int,
    style: GraphStyle,
    *,
    y_label: str = "ms",
    chosen: int | None = None,
    empty: str = "no edit yet",
    names: Mapping[Mark, str] = NAMES,
) -> Frame:
    """Draw edits into `width` x `height` cells.

    Args:
        points: oldest first.
        chosen: number of the edit under the cursor, whose number is always written.
        names: what the marks are called in the legend, the first also below the plot.
    """
    if width < 1 or height < 1:
        return Frame([])
    if not points or width < 16 or height < 3:
        return Frame(message_rows(empty if not points else "", width, height))
    plain = style is GraphStyle.ASCII
    signs = SIGNS_ASCII if plain else SIGNS
    span, labels, left, count, legend, line, shown, step = lay_out(points, width, height, chosen)

    # The last row is for edits without a time, so that no such sign is taken for a time.
    times_rows = max(1, count - 1) if any(point.y is None for point in shown) and count > 1 else count
    grid = [[" "] * (width - left) for _ in range(count)]
    owners = [[BLANK] * (width - left) for _ in range(count)]

    def row_of(value: float) -> int:
        assert span is not None
        return round((span.high - value) / span.length * (times_rows - 1))

    def put(row: int, column: int, sign: str, owner: int) -> None:
        grid[row][column], owners[row][column] = sign, owner

    above = 0
    top, bar, foot, one = ("|", "|", "|", ":") if plain else ("┬", "│", "┴", "•")
    for place, point in enumerate(shown):
        column = step * place + step // 2
        if point.y is None or span is None:
            put(count - 1, column, signs[point.mark], point.mark)
            continue
        if point.y > span.high:
            above += 1
            put(0, column, "^" if plain else "▲", CLIPPED)
            continue
        row = max(0, min(times_rows - 1, row_of(point.y)))
        first = row if point.high is None else max(0, row_of(point.high))
        last = row if point.low is None else min(times_rows - 1, row_of(point.low))
        if point.both is not None:
            for value in point.both:
                put(max(0, min(times_rows - 1, row_of(value))), column, one, point.mark)
        else:
            for number in range(first, last + 1):
                put(number, column, top if number == first else foot if number == last else bar, point.mark)
        put(row, column, signs[point.mark], point.mark)

    ticks = {max(0, min(times_rows - 1, row_of(value))): text for value, text in labels}
    out = [_legend(points, shown, signs, width, y_label, above, names, plain)] if legend else []
    cells = enumerate(zip(grid, owners, strict=True))
    out += [with_gutter(ticks.get(number, ""), left, row, plain) for number, row in cells]
    out += _x_axis(shown, step, left, width, chosen, names[Mark.EDIT], with_line=line, plain=plain)
    return Frame(out, left=span, clipped=above)


def _legend(
    points: Sequence[EditPoint],
    shown: Sequence[EditPoint],
    signs: dict[Mark, str],
    width: int,
    y_label: str,
    above: int,
    names: Mapping[Mark, str],
    plain: bool,
) -> Row:
    parts: list[tuple[str, int]] = [(f"{y_label}  ", LABEL)]
    for mark in Mark:
        if any(point.mark is mark for point in shown):
            parts += [(signs[mark], mark), (f" {names[mark]}  ", LABEL)]
    if any(point.both is not None for point in shown):
        parts += [(":" if plain else "•", Mark.EDIT), (" each process  ", LABEL)]
    if above:
        parts.append((f"{'^' if plain else '▲'}{above} slower, off the scale  ", CLIPPED))
    if len(shown) < len(points):
        parts.append((f"{len(shown)} of {len(points)}", LABEL))
    if sum(cell_len(text) for text, _ in parts) > width:
        parts = [parts[0], *((text if owner != LABEL else " ", owner) for text, owner in parts[1:])]
    return text_row(parts, width)


def _x_axis(
    shown: Sequence[EditPoint],
    step: int,
    left: int,
    width: int,
    chosen: int | None,
    name: str,
    *,
    with_line: bool,
    plain: bool,
) -> list[Row]:
    flat, tick, corner = ("-", "+", "+") if plain else ("─", "┬", "└")
    line = [flat] * (width - left)
    numbers, owners = [" "] * width, [BLANK] * width
    at = {point.number: left + step * place + step // 2 for place, point in enumerate(shown)}
    for column in at.values():
        line[column - left] = tick
    wanted = ([chosen] if chosen in at else []) + [number for number in reversed(at) if number != chosen]
    for number in wanted:
        text = f"[{number}]" if number == chosen else str(number)
        start = max(left, min(at[number] - (len(text) - 1) // 2, width - len(text)))
        if any(numbers[n] != " " for n in range(max(0, start - 1), min(width, start + len(text) + 1))):
            continue
        numbers[start : start + len(text)] = text
        owners[start : start + len(text)] = [CHOSEN if number == chosen else LABEL] * len(text)
    head = name[: max(0, left - 1)] if left > 4 else ""
    numbers[: len(head)], owners[: len(head)] = head, [LABEL] * len(head)
    rows = [Row(numbers, owners)]
    if with_line:
        rows.insert(0, Row([" "] * (left - 1) + [corner, *line], [BLANK] * (left - 1) + [AXIS] * (width - left + 1)))
    return rows


class EditPlot(FrameView, can_focus=True):
    """The plot as a pane. A click, or h and l, pick an edit. `names`: see `draw_edits`."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left,h", "step(-1)", "Earlier", show=False, tooltip="Pick the edit, or the run, before."),
        Binding("right,l", "step(1)", "Later", show=False, tooltip="Pick the edit, or the run, after."),
    ]

    class Picked(Message):
        """An edit was picked in the plot, by its number."""

        def __init__(self, number: int) -> None:
            super().__init__()
            self.number = number

    def __init__(self, names: Mapping[Mark, str] = NAMES, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._names = names
        self._points: list[EditPoint] = []
        self._chosen: int | None = None
        self._styles = list(STYLES)

    def show(self, points: Sequence[EditPoint], *, y_label: str = "ms", chosen: int | None = None) -> None:
        self._points, self._chosen = list(points), chosen
        options = {"y_label": y_label, "empty": self.empty}

        def picture(width: int, height: int, style: GraphStyle, _: Frame) -> Frame:
            return draw_edits(self._points, width, height, style, chosen=chosen, names=self._names, **options)

        self.draw(picture)

    def action_step(self, by: int) -> None:
        numbers = [point.number for point in self._points]
        if self._chosen in numbers:
            at = max(0, min(len(numbers) - 1, numbers.index(self._chosen) + by))
            self.post_message(self.Picked(numbers[at]))

    def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset(self)
        if offset is None or not self._points:
            return
        layout = lay_out(self._points, *self.size, self._chosen)
        place = (offset.x - layout.left) // layout.step
        if 0 <= place < len(layout.shown):
            self.post_message(self.Picked(layout.shown[place].number))
