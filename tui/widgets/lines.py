"""What our line-API widgets share: scrolling without a layout, safe text, cells cut and filled exactly.

Textual lays the whole screen out anew when a widget's virtual size changes, which a log would ask for ten
times a second. `LineView` does so only where a scrollbar comes or goes.
"""

from __future__ import annotations

from typing import TypeAlias

from rich.cells import cell_len, set_cell_size
from rich.errors import StyleSyntaxError
from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual import events
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.theme import Theme
from textual.widget import Widget

from aisp.store.text import clean_line
from aisp.tui.themes import style_of
from aisp.tui.widgets import glyphs
from aisp.tui.widgets.glyphs import GraphStyle

Cell: TypeAlias = str | Text


def safe(text: str) -> str:
    """`text` on one line with nothing in it that a terminal acts upon. Printable text passes unchanged."""
    return text if text.isprintable() else clean_line(text, limit=4096)


def plain(cell: Cell) -> str:
    return safe(cell if isinstance(cell, str) else cell.plain)


def cell_segments(cell: Cell, width: int, base: Style, *, align: str = "left", ellipsis: str = "…") -> list[Segment]:
    """Return segments of exactly `width` terminal cells: cut with `ellipsis`, or filled on the side away from
    `align`. Wide characters (CJK, emoji) count two and are never cut in half.

    Args:
        cell: what to show. Styles of a `Text` lie over `base`.
        width: 0 gives no segments.
        align: "left" or "right".
    """
    if width <= 0:
        return []
    text = plain(cell)
    length = cell_len(text)
    if length > width:
        text = set_cell_size(text, width - cell_len(ellipsis)) + ellipsis if width > 1 else ellipsis[:width]
        length = width
    if isinstance(cell, str) or cell.plain != safe(cell.plain):
        style = base
        if isinstance(cell, Text) and isinstance(cell.style, Style):
            style = base + cell.style
        segments = [Segment(text, style)]
    else:
        segments = _styled(cell, text, base)
    if length < width:
        fill = Segment(" " * (width - length), base)
        segments = [fill, *segments] if align == "right" else [*segments, fill]
    return segments


def _styled(cell: Text, text: str, base: Style) -> list[Segment]:
    """`text`, the beginning of `cell`, in runs of equal style. Style names that mean nothing are left out."""
    own = _parsed(cell.style)
    styles = [base + own] * len(text)
    for span in cell.spans:
        style = _parsed(span.style)
        for index in range(max(0, span.start), min(span.end, len(text))):
            styles[index] = styles[index] + style
    segments: list[Segment] = []
    start = 0
    for index in range(1, len(text) + 1):
        if index == len(text) or styles[index] != styles[start]:
            segments.append(Segment(text[start:index], styles[start]))
            start = index
    return segments


def _parsed(style: str | Style) -> Style:
    if isinstance(style, Style):
        return style
    try:
        return Style.parse(style)
    except StyleSyntaxError:
        return Style()


class Refitted(Message):
    """A pane has its size, its first or another one. Whoever fills it for its width does so now: a screen that has just
    been opened or rearranged draws before its panes have theirs.
    """

    def __init__(self, pane: Widget) -> None:
        super().__init__()
        self.pane = pane


class LineView(ScrollView):
    """A scrolling widget that renders line by line and knows how little it can repaint."""

    ALLOW_SELECT = False

    DEFAULT_CSS = """
    LineView {
        overflow-x: hidden;
        overflow-y: auto;
        scrollbar-size-vertical: 1;
        scrollbar-size-horizontal: 0;
        height: 1fr;
    }
    """

    @property
    def ascii(self) -> bool:
        return glyphs.of(self.app) is GraphStyle.ASCII

    @property
    def cut(self) -> str:
        return "~" if self.ascii else "…"

    def on_mount(self) -> None:
        self._refresh_scrollbars()
        self.app.theme_changed_signal.subscribe(self, self._theme_changed)

    def _theme_changed(self, _theme: Theme) -> None:
        self.refresh()

    def on_resize(self, _event: events.Resize) -> None:
        self.post_message(Refitted(self))

    def style(self, spec: str) -> Style:
        """The widget's own style with `spec` (see `tui.themes.style_of`) over it."""
        return self.rich_style + style_of(self.app, spec) if spec else self.rich_style

    @property
    def inner_width(self) -> int:
        """Cells of a line that can be seen: what the scrollbar covers is not among them."""
        return max(0, self.size.width - self.scrollbar_gutter.width)

    @property
    def top(self) -> int:
        return self.scroll_offset.y

    def set_line_count(self, count: int) -> None:
        """Tell how many lines there are to scroll over."""
        size = Size(self.size.width, count)
        if size.height == self.virtual_size.height:
            return
        room = self.container_size.height
        if (self.virtual_size.height > room) != (count > room) or not self.is_mounted:
            self.virtual_size = size
            return
        self.set_reactive(Widget.virtual_size, size)
        if self.show_vertical_scrollbar:
            self.vertical_scrollbar.window_virtual_size = count
        self.scroll_target_y = self.validate_scroll_target_y(self.scroll_target_y)
        self.scroll_y = self.validate_scroll_y(self.scroll_y)

    def go_to(self, line: int) -> None:
        """Put `line` at the top, as far as the content reaches, at once."""
        self.scroll_to(y=max(0, line), animate=False, force=True)

    def refresh_span(self, y: int, x: int, width: int) -> None:
        """Repaint `width` cells of the line that is `y` lines below the widget's top."""
        if 0 <= y < self.size.height and width > 0:
            self.refresh(Region(x, y, width, 1))

    def blank(self) -> Strip:
        """An empty line. Never without a style: unstyled ones crash Textual's monochrome filter."""
        return Strip.blank(self.size.width, self.rich_style)

    def sentence(self, text: str) -> Strip:
        """A line that says something about the widget's state, dimmed, with a space in front."""
        width = self.size.width
        return Strip(cell_segments(f" {text}", width, self.style("dim"), ellipsis=self.cut), width)
