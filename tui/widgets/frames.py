"""A drawn picture of cells, and the widget that sends the terminal only the cells in which it changed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from aisp.tui.themes import style_of
from aisp.tui.widgets import glyphs
from aisp.tui.widgets.axes import Span
from aisp.tui.widgets.canvas import AXIS, BLANK, CLIPPED, Row, message_rows
from aisp.tui.widgets.glyphs import GraphStyle
from aisp.tui.widgets.lines import Refitted


@dataclass
class Frame:
    """A drawn plot and the ranges it was drawn with, which the next frame prefers to keep."""

    rows: list[Row]
    x: Span | None = None
    left: Span | None = None
    lanes: tuple[Span | None, ...] = ()
    clipped: int = 0
    log: bool = False  # whether the axis of values is logarithmic: its range is of logarithms then
    names: tuple[str, ...] = field(default=())


Picture: TypeAlias = Callable[[int, int, GraphStyle, Frame], Frame]
"""Draws into so many columns and rows of cells, with these glyphs; the last is the frame that is shown."""


class FrameView(Widget):
    """A widget that draws a `Frame` and sends the terminal only the cells that changed."""

    ALLOW_SELECT = False
    DEFAULT_CSS = "FrameView { height: 1fr; min-height: 3; }"

    def __init__(self, *, empty: str = "no data yet", **kwargs: Any) -> None:
        """Make one that shows the sentence `empty` while there is no picture."""
        super().__init__(**kwargs)
        self.empty = empty
        self._styles: list[str] = []  # by owner; "" for the next colour of the theme
        self._frame = Frame([])
        self._picture: Picture | None = None

    def draw(self, picture: Picture, styles: Sequence[str] | None = None) -> None:
        """Show a picture, which is drawn again for another size; `styles` by owner."""
        self._picture = picture
        if styles is not None:
            self._styles = list(styles)
        self.redraw()

    @property
    def graph_style(self) -> GraphStyle:
        return glyphs.of(self.app)

    @property
    def lines(self) -> list[str]:
        return [row.text for row in self._frame.rows]

    def on_mount(self) -> None:
        self.app.theme_changed_signal.subscribe(self, lambda _: self.refresh())

    def on_resize(self, _event: events.Resize) -> None:
        self.redraw()
        self.post_message(Refitted(self))

    def _draw(self) -> None:
        width, height = self.size
        if self._picture is None:
            rows = message_rows(self.empty, width, height) if width > 0 and height > 0 else []
            self._frame = Frame(rows)
        else:
            self._frame = self._picture(width, height, self.graph_style, self._frame)

    def redraw(self) -> None:
        if not self.is_attached:
            return  # drawn when it is first rendered: then there is a size and an app
        old = self._frame.rows
        self._draw()
        new = self._frame.rows
        if len(old) != len(new) or not old or len(old[0].characters) != len(new[0].characters):
            self.refresh()
            return
        regions = []
        for number, (was, now) in enumerate(zip(old, new, strict=True)):
            changed = changed_columns(was, now)
            if changed is not None:
                start, end = changed
                regions.append(Region(start, number, end - start, 1))
        if regions:
            self.refresh(*regions)

    def render_line(self, y: int) -> Strip:
        base = self.rich_style
        width, height = self.size
        rows = self._frame.rows
        if len(rows) != height or (rows and len(rows[0].characters) != width):
            self._draw()
            rows = self._frame.rows
        if y >= len(rows):
            return Strip.blank(width, base)
        row = rows[y]
        segments = []
        start, count = 0, len(row.characters)
        while start < count:
            owner, end = row.owners[start], start + 1
            # A blank shows no colour, so it goes along with its neighbours: every change of style costs the
            # terminal some 30 bytes.
            while end < count and row.owners[end] in (owner, BLANK):
                end += 1
            segments.append(Segment("".join(row.characters[start:end]), base + self._style(owner)))
            start = end
        return Strip(segments, count)

    def _style(self, owner: int) -> Style:
        if owner >= 0:
            given = self._styles[owner] if owner < len(self._styles) else ""
            return style_of(self.app, given or f"$series-{owner % 6 + 1}")
        if owner == CLIPPED:
            return style_of(self.app, "bold $warning")
        if owner == AXIS:
            return style_of(self.app, "dim")
        return style_of(self.app, "")


def changed_columns(was: Row, now: Row) -> tuple[int, int] | None:
    """First column that differs and the one behind the last, or None; wide characters are never cut."""
    if was.characters == now.characters and was.owners == now.owners:
        return None
    if len(was.characters) != len(now.characters):
        return 0, len(now.characters)
    flags = [
        a != b or c != d for a, b, c, d in zip(was.characters, now.characters, was.owners, now.owners, strict=True)
    ]
    start = flags.index(True)
    end = len(flags) - flags[::-1].index(True)
    while start and (now.characters[start] == "" or was.characters[start] == ""):
        start -= 1
    while end < len(flags) and (now.characters[end] == "" or was.characters[end] == ""):
        end += 1
    return start, end
