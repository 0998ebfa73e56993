"""A table for thousands of rows that change while they are looked at.

Nothing is built for rows out of sight, and `show` repaints only the cells that differ from what is on the
screen: one changed number in a row of 200 costs some hundred bytes, where Textual's DataTable sends 17 kB.
Where the columns do not fit, those with a `ratio` shrink, then disappear from the right; the first column
always stays, and a cell of it that is too long flows over empty cells right of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from rich.cells import cell_len
from rich.segment import Segment
from rich.text import Text
from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.strip import Strip

from aisp.tui.widgets.lines import Cell, LineView, cell_segments, plain

__all__ = ["Cell", "Column", "LiveTable", "fit"]

GAP = 2  # cells between two columns
MIN_WIDTH = 6  # a column with a ratio disappears before it is narrower


@dataclass(frozen=True)
class Column:
    """A column.

    Attributes:
        key: for whoever fills the table; unique.
        title: in the first line.
        width: in terminal cells; None takes that of the widest cell, or with a `ratio` what is left over.
        align: "left" or "right".
        ratio: share of the width that is left over when all others have theirs; 0 takes no part.
    """

    key: str
    title: str
    width: int | None = None
    align: str = "left"
    ratio: int = 0


def fit(columns: Sequence[Column], natural: Sequence[int], width: int) -> list[int]:
    """Return a width in cells per column, 0 for those that do not fit into `width`.

    The right-most column with a ratio goes first, then the right-most of all; the first stays, cut if need
    be.

    Args:
        columns: in order.
        natural: width of each column's widest cell, title included.
    """
    shown = list(range(len(columns)))
    while shown:
        least = {
            index: MIN_WIDTH if columns[index].ratio else (columns[index].width or natural[index]) for index in shown
        }
        needed = sum(least.values()) + GAP * (len(shown) - 1)
        if needed <= width or len(shown) == 1:
            break
        flexible = [index for index in shown[1:] if columns[index].ratio]
        shown.remove(flexible[-1] if flexible else shown[-1])
    widths = [0] * len(columns)
    if not shown:
        return widths
    for index in shown:
        widths[index] = min(least[index], width)
    spare = width - needed
    shares = sum(columns[index].ratio for index in shown)
    for index in shown:
        if spare > 0 and columns[index].ratio:
            extra = spare * columns[index].ratio // shares
            widths[index] += extra
            spare -= extra
            shares -= columns[index].ratio
    return widths


def giving_way(columns: Iterable[tuple[int, Column]], width: int, enough: int) -> tuple[list[Column], int]:
    """The columns that leave `enough` cells of these for another one, and how many they leave. Those with a rank give
    way, the highest rank first."""
    ranked = list(columns)
    for least in range(max(rank for rank, _ in ranked), -1, -1):
        found = [column for rank, column in ranked if rank <= least]
        left = width - sum((column.width or 0) + GAP for column in found)
        if left >= enough:
            break
    return found, left


class _OfRow(Message):
    """What became of a row."""

    def __init__(self, table: LiveTable, key: str) -> None:
        super().__init__()
        self.table = table
        self.key = key


class LiveTable(LineView, can_focus=True):
    """Rows with keys, a cursor and a fixed title line.

    The cursor stays on its key while rows come, go and move; when its row disappears it takes the row that
    came into that place.
    """

    DEFAULT_CSS = """
    LiveTable { min-height: 2; }
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "cursor(-1)", "Up", show=False),
        Binding("down,j", "cursor(1)", "Down", show=False),
        Binding("pageup,ctrl+b", "page(-1)", "Page up", show=False),
        Binding("pagedown,ctrl+f", "page(1)", "Page down", show=False),
        Binding("home,g", "end(-1)", "First", show=False),
        Binding("end,G", "end(1)", "Last", show=False),
        Binding("enter", "choose", "Open", show=False),
    ]

    class Highlighted(_OfRow):
        """The cursor came to another row."""

    class Chosen(_OfRow):
        """Enter was pressed on a row, or the row under the cursor was clicked."""

    def __init__(self, columns: Sequence[Column] = (), *, empty: str = "nothing here yet", **kwargs: Any) -> None:
        """Make one that shows the sentence `empty` while there is no row."""
        super().__init__(**kwargs)
        self._columns = list(columns)
        self._empty = empty
        self._rows: list[tuple[str, list[Cell]]] = []
        self._index: dict[str, int] = {}
        self._cursor = 0
        self._natural: list[int] = []
        self._widths: list[int] = []
        self._fitted_for = -1
        self._forget_widths()

    # -- what it holds ---------------------------------------------------------------------------------------

    @property
    def columns(self) -> list[Column]:
        return list(self._columns)

    @columns.setter
    def columns(self, columns: Sequence[Column]) -> None:
        if columns == self._columns:
            return
        same = [column.key for column in columns] == [column.key for column in self._columns]
        self._columns = list(columns)
        self._forget_widths()
        if same:  # else the rows are those of other columns, and new ones follow
            self._measure(self._rows)
        self._fit()
        self.refresh()

    @property
    def empty(self) -> str:
        """The sentence shown while there is no row."""
        return self._empty

    @empty.setter
    def empty(self, text: str) -> None:
        if text != self._empty:
            self._empty = text
            if not self._rows:
                self.refresh()

    @property
    def cursor_key(self) -> str | None:
        """The key of the row under the cursor; None without rows."""
        return self._rows[self._cursor][0] if self._rows else None

    @property
    def keys(self) -> list[str]:
        return [key for key, _ in self._rows]

    def rows_in_sight(self) -> list[tuple[int, str]]:
        """The rows on the screen: how far below the widget's top each is drawn, and its key."""
        shown = self._rows[self.top : self.top + self._body_height]
        return [(number, key) for number, (key, _) in enumerate(shown, 1)]

    def row(self, key: str) -> list[Cell] | None:
        index = self._index.get(key)
        return None if index is None else list(self._rows[index][1])

    def show(self, rows: Sequence[tuple[str, list[Cell]]]) -> None:
        """Show `rows` (key, cells in the order of the columns) in place of what is shown.

        Keys are unique; of two rows with one key the cursor finds the later. Missing cells are drawn empty.
        """
        old, new = self._rows, list(rows)
        key_before = self.cursor_key
        self._rows = new
        if len(old) != len(new) or any(a[0] != b[0] for a, b in zip(old, new, strict=True)):
            self._index = {row[0]: index for index, row in enumerate(new)}
        cursor_before, top_before = self._cursor, self.top
        in_sight = top_before <= cursor_before < top_before + self._body_height
        moved_to = None if key_before is None else self._index.get(key_before)
        self._cursor = max(0, min(self._cursor if moved_to is None else moved_to, len(new) - 1))
        self.set_line_count(len(new) + 1)
        fresh = new
        if len(old) == len(new):
            fresh = [now for was, now in zip(old, new, strict=True) if was is not now]
        if self._measure(fresh):
            self._fit()
            self.refresh()
        elif not old or not new or self.top != top_before:
            self.refresh()
        else:
            self._refresh_changed(old, new, cursor_before)
        if in_sight and self._cursor != cursor_before:
            self._keep_in_sight()
        if self.cursor_key is not None and self.cursor_key != key_before:
            self.post_message(self.Highlighted(self, self.cursor_key))

    def move_to(self, key: str) -> bool:
        """Put the cursor on the row `key`; False where there is none."""
        index = self._index.get(key)
        if index is None:
            return False
        self._move(index)
        return True

    # -- keys and mouse --------------------------------------------------------------------------------------

    def action_cursor(self, rows: int) -> None:
        self._move(self._cursor + rows)

    def action_page(self, pages: int) -> None:
        """Move by whole pages, with one row in common."""
        self._move(self._cursor + pages * max(1, self._body_height - 1))

    def action_end(self, side: int) -> None:
        """Move to the first (-1) or the last (1) row."""
        self._move(0 if side < 0 else len(self._rows) - 1)

    def action_choose(self) -> None:
        key = self.cursor_key
        if key is not None:
            self.post_message(self.Chosen(self, key))

    def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset(self)
        if offset is None or offset.y < 1:
            return
        index = self.top + offset.y - 1
        if index >= len(self._rows):
            return
        event.stop()
        if index == self._cursor:
            self.action_choose()
        else:
            self._move(index)

    def on_focus(self) -> None:
        self._refresh_row(self._cursor)

    def on_blur(self) -> None:
        self._refresh_row(self._cursor)

    def on_resize(self, _event: events.Resize) -> None:
        self._fit()
        self._keep_in_sight()
        self.refresh()

    # -- inside ----------------------------------------------------------------------------------------------

    @property
    def _body_height(self) -> int:
        return max(0, self.size.height - 1)

    def _move(self, index: int) -> None:
        if not self._rows:
            return
        index = max(0, min(index, len(self._rows) - 1))
        before, self._cursor = self._cursor, index
        self._keep_in_sight()
        if index != before:
            self._refresh_row(before)
            self._refresh_row(index)
            self.post_message(self.Highlighted(self, self._rows[index][0]))

    def _keep_in_sight(self) -> None:
        if self._cursor < self.top:
            self.go_to(self._cursor)
        elif self._body_height and self._cursor >= self.top + self._body_height:
            self.go_to(self._cursor - self._body_height + 1)

    def _refresh_row(self, index: int) -> None:
        self.refresh_span(index - self.top + 1, 0, self.size.width)

    def _refresh_changed(
        self, old: list[tuple[str, list[Cell]]], new: list[tuple[str, list[Cell]]], cursor_before: int
    ) -> None:
        """Repaint what differs among the rows in sight."""
        cursors = {cursor_before, self._cursor} if cursor_before != self._cursor else set()
        for index in range(self.top, self.top + self._body_height):
            was = old[index][1] if index < len(old) else None
            now = new[index][1] if index < len(new) else None
            if was is now and index not in cursors:
                continue
            flows = was is not None and now is not None and (self._flow(was)[1] or self._flow(now)[1])
            if was is None or now is None or index in cursors or (flows and was != now):
                self._refresh_row(index)
                continue
            x = 0
            for number, width in enumerate(self._widths):
                if not width:
                    continue
                if _cell(was, number) != _cell(now, number):
                    self.refresh_span(index - self.top + 1, x, width)
                x += width + GAP

    def _forget_widths(self) -> None:
        self._natural = [cell_len(column.title) for column in self._columns]
        self._widths = []

    def _measure(self, rows: Sequence[tuple[str, list[Cell]]]) -> bool:
        """Learn the widest cells of columns that are as wide as those; whether one grew."""
        grew = not self._widths and bool(self._columns)
        for number, column in enumerate(self._columns):
            if column.width is not None or column.ratio:
                continue
            widest = max((cell_len(plain(_cell(cells, number))) for _, cells in rows), default=0)
            if widest > self._natural[number]:
                self._natural[number] = widest
                grew = True
        return grew

    def _fit(self) -> None:
        self._fitted_for = self.inner_width
        self._widths = fit(self._columns, self._natural, self._fitted_for)

    def _flow(self, cells: Sequence[Cell]) -> tuple[int, int]:
        """A first cell that is too long flows over the empty cells right of it: its width, and the last it covers."""
        width = self._widths[0] if self._widths else 0
        covered = 0
        needed = cell_len(plain(_cell(cells, 0)))
        for number in range(1, len(self._widths)):
            if needed <= width or plain(_cell(cells, number)):
                break
            width += GAP + self._widths[number] if self._widths[number] else 0
            covered = number
        return width, covered

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        if self.inner_width != self._fitted_for:
            self._fit()
        if not self._rows and y == (1 if self.size.height > 1 else 0):
            return self.sentence(self._empty)
        if y == 0:
            return self._line([Text(column.title) for column in self._columns], "bold", " ")
        index = self.top + y - 1
        if index >= len(self._rows):
            return Strip.blank(width, self.rich_style)
        style = ""
        if index == self._cursor:
            # Reverse is seen on every terminal; without focus the row is only underlined.
            style = "reverse" if self.has_focus else "underline"
        return self._line(self._rows[index][1], style, " ")

    def _line(self, cells: Sequence[Cell], style: str, gap: str) -> Strip:
        base = self.style(style)
        segments: list[Segment] = []
        used = 0
        first_width, covered = self._flow(cells)
        for number, (column, width) in enumerate(zip(self._columns, self._widths, strict=False)):
            if not width or 0 < number <= covered:
                continue
            if used:
                segments.append(Segment(gap * GAP, base))
                used += GAP
            if number == 0:
                width = first_width
            segments += cell_segments(_cell(cells, number), width, base, align=column.align, ellipsis=self.cut)
            used += width
        if used < self.size.width:
            segments.append(Segment(" " * (self.size.width - used), base))
        return Strip(segments, max(used, self.size.width))


def _cell(cells: Sequence[Cell], number: int) -> Cell:
    return cells[number] if number < len(cells) else ""
