"""Rows of styled text, drawn by line: showing new rows sends the terminal only those that differ."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text
from textual import events
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from aisp.tui.widgets.lines import Refitted, cell_segments


class TextRows(Widget):
    """As many rows as there is room for; one that is too long ends with an ellipsis. Never markup."""

    ALLOW_SELECT = False
    DEFAULT_CSS = "TextRows { height: 1; width: 1fr; }"

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._rows: list[Text] = []

    def on_resize(self, _event: events.Resize) -> None:
        self.post_message(Refitted(self))

    def show(self, rows: Sequence[Text]) -> None:
        """Show these rows; those that did not change are not drawn again."""
        before, self._rows = self._rows, list(rows)
        width = self.size.width
        for number in range(max(len(before), len(self._rows))):
            old = before[number] if number < len(before) else None
            new = self._rows[number] if number < len(self._rows) else None
            if old is None or new is None or old.plain != new.plain or old.spans != new.spans:
                self.refresh(Region(0, number, width, 1))

    def render_line(self, y: int) -> Strip:
        style = self.rich_style
        width = self.size.width
        if y >= len(self._rows) or width < 1:
            return Strip.blank(width, style)
        return Strip(cell_segments(self._rows[y], width, style), width)
