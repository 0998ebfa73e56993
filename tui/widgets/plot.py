"""A plot that is redrawn many times a second and sends the terminal only what changed.

Braille dots (2 x 4 per cell), block quadrants (2 x 2) or ASCII marks; dots or lines; axes with round ticks. `draw`
makes a frame from numbers and needs no screen; `LivePlot` compares it with the frame before and refreshes, row by row,
the columns that differ. Axes grow in steps, so a point that arrives mostly changes one cell.

Some samples are always hundreds of times slower than the rest (a page fault, a neighbour). They must not
flatten the rest and must not vanish: an axis ends where what lies far beyond the middle nine tenths begins,
points outside are drawn on the edge as ▲ or ▼, and the legend counts them. On a logarithmic axis times that differ
by much share the room evenly.

Below the plot there can be lanes: low plots of other quantities on exactly the same x axis, column for column, so
that what happened at one moment stands in one column. As many are drawn as there is room for, the first ones first.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from rich.cells import cell_len, set_cell_size

from aisp.store.text import clean_line
from aisp.tui.widgets.axes import Span, finite, log_tick_labels, robust_span, settled, tick_labels, union
from aisp.tui.widgets.canvas import (
    AXIS,
    CLIPPED,
    LABEL,
    SIGNS,
    SIGNS_ASCII,
    Canvas,
    Row,
    message_rows,
    text_row,
    with_gutter,
)
from aisp.tui.widgets.frames import Frame, FrameView
from aisp.tui.widgets.glyphs import GraphStyle


@dataclass(frozen=True)
class Series:
    """One set of points. NaN and infinities are gaps.

    Attributes:
        name: for the legend.
        x: ascending; in the unit of the plot's `x_label`.
        y: as long as x; in the unit of `y_label`.
        style: a Rich style or a theme variable ("$series-2"); "" takes the next colour of the theme.
        mark: "dots"; "line" between neighbours; "signs" for the legend's sign at every point; in a lane also "flags":
            a row of signs of its own wherever y is above zero, until the next x.
        usual: a fair sample of the values of which `y` are the extremes; () where `y` are all. The axis is of these.
        stretches: whether the axis is made to show it; else of the others alone, as far as there are any.
    """

    name: str
    x: Sequence[float]
    y: Sequence[float]
    style: str = ""
    mark: str = "dots"
    usual: Sequence[float] = ()
    stretches: bool = True

    def logarithmic(self) -> Series:
        """The same with the logarithms of its values; what has none is a gap."""
        return replace(self, y=[_log10(value) for value in self.y], usual=finite([_log10(v) for v in self.usual]))


@dataclass(frozen=True)
class Lane:
    """A low plot below the main one, on its x axis.

    Attributes:
        title: what it shows, with its unit: "SM clock MHz".
        series: in the order of its legend.
    """

    title: str
    series: Sequence[Series]

    @property
    def flag_rows(self) -> int:
        """Rows that its flags take; more than two kinds share the second."""
        return min(2, sum(item.mark == "flags" for item in self.series))


# A lane has a title's row and at least LEAST_LANE_ROWS for its values; the main plot keeps LEAST_MAIN_ROWS.
LEAST_LANE_ROWS, MOST_LANE_ROWS, LEAST_MAIN_ROWS = 2, 5, 5


def draw(
    series: Sequence[Series],
    width: int,
    height: int,
    style: GraphStyle,
    *,
    x_label: str = "s",
    y_label: str = "ms",
    log: bool = False,
    mono: bool = False,
    empty: str = "no data yet",
    before: Frame | None = None,
    lanes: Sequence[Lane] = (),
) -> Frame:
    """Draw `series` into `width` x `height` cells.

    Each series ends in its sign from the legend. Without colour (`mono`) the dots of all series but the
    first are signs too, and their lines carry one every few columns, because nothing else tells them apart.

    Args:
        log: whether the axis of values is logarithmic, which the legend says too.
        before: the previous frame, whose ranges are kept while they fit.
        lanes: low plots below, the most wanted first; owners of their cells count on after `series`.
        empty: what stands in the middle while there is no point.
    """
    ascii_only = style is GraphStyle.ASCII
    signs = SIGNS_ASCII if ascii_only else SIGNS
    names = tuple(item.name for item in (*series, *(own for lane in lanes for own in lane.series)))
    if width < 1 or height < 1:
        return Frame([])
    if log:
        series = [item.logarithmic() for item in series]
        y_label = f"{y_label}, log"
    values = [finite(item.y[: len(item.x)]) for item in series]
    if not any(values):
        return Frame(message_rows(empty, width, height), names=names)
    if before is not None and (before.names != names or before.log != log):
        before = None

    legend_rows = 1 if height >= 4 else 0
    axis_rows = 2 if height >= 6 else 1 if height >= 3 else 0
    plot_rows, lane_rows, lane_count = _share_rows(height - legend_rows - axis_rows, lanes)
    lanes = lanes[:lane_count]
    y_steps, x_steps = max(2, min(8, plot_rows // 3)), max(2, width // 14)

    stretching = [(v, item) for v, item in zip(values, series, strict=True) if v and item.stretches]
    own = [robust_span(v, item.usual) for v, item in stretching or zip(values, series, strict=True)]
    y_span = settled(union(own), None if before is None else before.left, 10, log=log)
    shown = (*series, *(item for lane in lanes for item in lane.series))
    x_span = settled(_x_range(shown), None if before is None else before.x, 8)
    if x_span is None:
        return Frame(message_rows(empty, width, height), names=names)

    labels = (log_tick_labels if log else tick_labels)(y_span, y_steps) if y_span else []
    # A gutter is only worth its columns where the plot stays at least twice as wide.
    lane_spans = [
        settled(_lane_range(lane), before.lanes[at] if before is not None and at < len(before.lanes) else None, 4)
        for at, lane in enumerate(lanes)
    ]
    ends_of = [(span.high, span.low) if span is not None else () for span in lane_spans]
    lane_labels = [tuple(f"{round(value, 6):g}" for value in ends) for ends in ends_of]
    texts = [text for _, text in labels] + [text for ends in lane_labels for text in ends]
    left = max((len(text) for text in texts), default=0) + 1
    if width < 3 * left:
        left = 0
    columns = width - left
    canvas = Canvas(columns, plot_rows, style)
    clipped = _plot(canvas, list(enumerate(series)), x_span, y_span, signs, mono)

    rows: list[Row] = []
    if legend_rows:
        rows.append(_legend(series, signs, width, y_label, clipped, ascii_only))
    marked: dict[int, str] = {}
    if y_span is not None:
        per_dot = (canvas.height - 1) / y_span.length
        marked = {round((y_span.high - value) * per_dot) // canvas.down: text for value, text in labels}
    rows += [
        with_gutter(marked.get(number, ""), left, canvas.row(number, signs), ascii_only) for number in range(plot_rows)
    ]
    first = len(series)
    for lane, span, ends in zip(lanes, lane_spans, lane_labels, strict=True):
        rows += _lane(lane, span, ends, x_span, first, lane_rows, (left, columns), style, mono)
        first += len(lane.series)
    if axis_rows:
        rows += _x_axis(x_span, x_steps, left, columns, x_label, axis_rows == 2, ascii_only)
    return Frame(rows, x_span, y_span, tuple(lane_spans), sum(clipped), log, names)


def _share_rows(rows: int, lanes: Sequence[Lane]) -> tuple[int, int, int]:
    """Rows of the main plot, rows of each lane's values, and how many lanes are drawn at all."""
    count = len(lanes)

    def left_over(count: int, each: int) -> int:
        return rows - sum(1 + each + lane.flag_rows for lane in lanes[:count])

    while count and left_over(count, LEAST_LANE_ROWS) < LEAST_MAIN_ROWS:
        count -= 1
    each = LEAST_LANE_ROWS
    while count and each < MOST_LANE_ROWS and left_over(count, each + 1) >= max(LEAST_MAIN_ROWS, rows * 0.45):
        each += 1
    return left_over(count, each), each, count


def _lane(
    lane: Lane,
    span: Span | None,
    ends: tuple[str, ...],
    x_span: Span,
    first: int,
    value_rows: int,
    gutters: tuple[int, int],
    style: GraphStyle,
    mono: bool,
) -> list[Row]:
    """A lane's title row and its plot. `first` is the owner of its first series, `gutters` the columns left of the
    plot, and of the plot."""
    left, columns = gutters
    ascii_only = style is GraphStyle.ASCII
    signs = SIGNS_ASCII if ascii_only else SIGNS
    flat, corner = ("-", "+") if ascii_only else ("─", "├")
    parts: list[tuple[str, int]] = [
        (" " * (left - 1), LABEL),
        (corner if left else "", AXIS),
        (f"{flat} ", AXIS),
        (f"{clean_line(lane.title)} {' ' * (len(lane.series) > 1)}", LABEL),
    ]
    # A single series is what the title names.
    for number, item in enumerate(lane.series if len(lane.series) > 1 else ()):
        parts += [(signs[number % len(signs)], first + number), (f" {clean_line(item.name)}  ", LABEL)]
    used = sum(cell_len(text) for text, _ in parts)
    room = left + columns - used
    if room > 0:
        parts.append((flat * room, AXIS))
    rows = [text_row(parts, left + columns)]

    flag_rows = lane.flag_rows
    canvas = Canvas(columns, value_rows + flag_rows, style)
    values = [(number, item) for number, item in enumerate(lane.series) if item.mark != "flags"]
    flags = [(number, item) for number, item in enumerate(lane.series) if item.mark == "flags"]
    _plot(canvas, values, x_span, span, signs, mono, first=first, rows=value_rows)
    for at, (number, item) in enumerate(flags):
        row = (value_rows + min(at, flag_rows - 1)) * canvas.down
        for x in _flagged(item, x_span, columns):
            canvas.mark(x * canvas.across, row, signs[number % len(signs)], first + number)
    last = value_rows - 1
    for number in range(value_rows + flag_rows):
        label = (ends[0] if number == 0 else ends[1]) if ends and number in (0, last) else ""
        rows.append(with_gutter(label, left, canvas.row(number, signs), ascii_only, tick=False))
    return rows


def _flagged(item: Series, x_span: Span, columns: int) -> set[int]:
    """The columns in which a flag was set: each answer holds until the next; NaN is no answer."""
    scale = (columns - 1) / x_span.length
    found: set[int] = set()
    for at, (x, y) in enumerate(zip(item.x, item.y, strict=False)):
        if y > 0 and x_span.low <= x <= x_span.high:
            begin = int((x - x_span.low) * scale + 0.5)
            until = item.x[at + 1] if at + 1 < len(item.x) else x
            found.update(range(begin, max(begin + 1, min(columns, int((until - x_span.low) * scale + 0.5)))))
    return found


def _lane_range(lane: Lane) -> Span | None:
    values = [v for item in lane.series if item.mark != "flags" for v in finite(item.y[: len(item.x)])]
    return Span(min(values), max(values)) if values else None


def _log10(value: float) -> float:
    return math.log10(value) if value > 0 else math.nan


def _x_range(series: Sequence[Series]) -> Span | None:
    lows, highs = [], []
    for item in series:
        count = min(len(item.x), len(item.y))
        known = finite(item.x[:count])
        if known:
            lows.append(min(known))
            highs.append(max(known))
    return Span(min(lows), max(highs)) if lows else None


def _plot(
    canvas: Canvas,
    series: Sequence[tuple[int, Series]],
    x_span: Span,
    span: Span | None,
    signs: str,
    mono: bool,
    *,
    first: int = 0,
    rows: int = 0,
) -> tuple[int, int]:
    """Put all points on the canvas; return how many lie above and below what is shown.

    Args:
        series: each with its place in the legend.
        first: owner of the series whose place is 0.
        rows: rows of the canvas to use, from the top; 0 for all.
    """
    above = below = 0
    ends: list[tuple[int, int, str, int]] = []
    edges: list[tuple[int, int, str]] = []
    up, down = ("^", "v") if canvas.style is GraphStyle.ASCII else ("▲", "▼")
    last_row = (rows * canvas.down or canvas.height) - 1
    for place, item in series if span is not None else ():
        assert span is not None
        low, high, x_low = span.low, span.high, x_span.low
        x_scale, y_scale = (canvas.width - 1) / x_span.length, last_row / span.length
        sign, number = signs[place % len(signs)], first + place
        runs: list[list[tuple[int, int]]] = [[]]
        gap = False
        for x, y in zip(item.x, item.y, strict=False):
            if not (y - y == 0.0 and x - x == 0.0):
                gap = True
                continue
            if gap and runs[-1]:
                runs.append([])
            gap = False
            column = int((x - x_low) * x_scale + 0.5)
            if y > high:
                above += 1
                row = 0
                edges.append((column, 0, up))
            elif y < low:
                below += 1
                row = last_row
                edges.append((column, last_row, down))
            else:
                row = int((high - y) * y_scale + 0.5)
            runs[-1].append((column, row))
        if not runs[0]:
            continue
        as_line = item.mark == "line"
        as_signs = item.mark == "signs" or (mono and place > 0 and not as_line)
        if as_signs:
            for run in runs:
                for column, row in run:
                    canvas.mark(column, row, sign, number)
        for run in runs:
            if as_line:
                canvas.dots(run[:1], number)
                for start, end in itertools.pairwise(run):
                    if start != end:
                        canvas.line(start, end, number)
            elif not as_signs:
                canvas.dots(run, number)
            if mono and place and as_line:
                for column, row in run:
                    if (column // canvas.across + 3 * place) % 8 == 0:
                        canvas.mark(column, row, sign, number)
        ends.append((*runs[-1][-1], sign, number))
    # Signs lie above dots, and what was clipped above signs: it is the rarest and must be seen.
    for column, row, sign, number in ends:
        canvas.mark(column, row, sign, number)
    for column, row, sign in edges:
        canvas.mark(column, row, sign, CLIPPED)
    return above, below


_WORD = re.compile(r"[^_ ]*[_ ]|[^_ ]+")


def _apart(names: Sequence[str], cut: str) -> list[str]:
    """Names without the beginning that they share with another one, where a cut would leave nothing else of them.

    `optimized_swizzled` beside `optimized_triton` becomes `…swizzled`; what begins unlike all others stays.
    """
    shorter = []
    for name in names:
        # With a line after `other`, so that a name which another one continues counts as its beginning.
        heads = [_shared_words(name, f"{other}_") for other in names if other != name]
        head = max(heads, key=len, default="")
        rest = name[len(head) :]
        shorter.append(f"{cut}{rest}" if len(head) > 3 and rest else name)
    return shorter


def _shared_words(name: str, other: str) -> str:
    """The whole words, each with the sign behind it, with which both begin."""
    pairs = zip(_WORD.findall(name), _WORD.findall(other), strict=False)
    return "".join(word for word, _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))


def _legend(
    series: Sequence[Series],
    signs: str,
    width: int,
    y_label: str,
    clipped: tuple[int, int],
    ascii_only: bool,
) -> Row:
    up, down = ("^", "v") if ascii_only else ("▲", "▼")
    cut = "~" if ascii_only else "…"
    tail = " ".join(f"{sign}{count}" for sign, count in ((up, clipped[0]), (down, clipped[1])) if count)
    if tail and width >= 60:
        tail += " off scale"
    fixed = cell_len(y_label) + 2 + (len(tail) + 2 if tail else 0)
    names = [clean_line(item.name) for item in series]
    if fixed + sum(cell_len(n) + 4 for n in names) > width:
        names = _apart(names, cut)
    longest = max(map(cell_len, names))
    # Long names are cut alike until all of them fit.
    while longest > 3 and fixed + sum(min(cell_len(n), longest) + 4 for n in names) > width:
        longest -= 1
    parts: list[tuple[str, int]] = [(f"{y_label}  ", LABEL)]
    for number, name in enumerate(names):
        if cell_len(name) > longest:
            name = set_cell_size(name, longest - 1) + cut
        parts += [(signs[number % len(signs)], number), (f" {name}  ", LABEL)]
    return text_row([*parts, (tail, CLIPPED)], width)


def _x_axis(
    span: Span, steps: int, left: int, columns: int, label: str, with_line: bool, ascii_only: bool
) -> list[Row]:
    flat, tick, corner = ("-", "+", "+") if ascii_only else ("─", "┬", "└")
    line = [flat] * columns
    numbers = [" "] * (left + columns)
    labels = [
        (round((value - span.low) / span.length * (columns - 1)), text) for value, text in tick_labels(span, steps)
    ]
    for column, _ in labels:
        line[column] = tick
    # The unit stands at the last number beside which there is room for it; what would come after is left out.
    while True:
        places: list[tuple[int, str]] = []
        end = 0
        for column, text in labels:
            start = left + column - (len(text) - 1) // 2
            if column == labels[-1][0] and label:
                text = f"{text} {label}"
            start = max(0, min(start, len(numbers) - cell_len(text)))
            if start < end or start + cell_len(text) > len(numbers):
                continue
            places.append((start, text))
            end = start + len(text) + 1
        if not label or len(labels) < 2 or (places and places[-1][1].endswith(label)):
            break
        labels.pop()
    for start, text in places:
        numbers[start : start + len(text)] = text
    rows = []
    if with_line:
        edge = [" "] * (left - 1) + [corner] if left else []
        rows.append(Row(edge + line, [AXIS] * (left + columns)))
    rows.append(text_row([("".join(numbers), LABEL)], left + columns))
    return rows


class LivePlot(FrameView, can_focus=True):
    """A plot for live data. `show` may be called ten times a second; it sends only the cells that changed."""

    def show(
        self,
        series: Sequence[Series],
        *,
        x_label: str = "s",
        y_label: str = "ms",
        lanes: Sequence[Lane] = (),
        log: bool = False,
    ) -> None:
        """Draw `series`, the last on top; see `draw`. They are read again on a resize, and may have grown by then."""
        series, lanes = list(series), list(lanes)

        def picture(width: int, height: int, style: GraphStyle, before: Frame) -> Frame:
            labels = {"x_label": x_label, "y_label": y_label, "empty": self.empty}
            mono = self.app.no_color
            return draw(series, width, height, style, log=log, mono=mono, before=before, lanes=lanes, **labels)

        self.draw(picture, [item.style for item in (*series, *(own for lane in lanes for own in lane.series))])
