"""Jump mode: a letter on every pane that takes the focus and on every row in sight of the focused list.

Pressing a letter goes there. Panes have capitals, rows small letters first, so that no colour is needed to tell them.
"""

from __future__ import annotations

from collections.abc import Iterator
from string import ascii_lowercase, ascii_uppercase
from typing import Any, ClassVar

from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.geometry import Offset
from textual.screen import ModalScreen, Screen
from textual.widget import Widget
from textual.widgets import Static

from aisp.tui.keymap import Key, bind
from aisp.tui.widgets.table import LiveTable


class JumpScreen(ModalScreen[None]):
    """Labels over `subject`. See the module."""

    BINDINGS: ClassVar[list[BindingType]] = bind(Key("leave", "escape,ctrl+o", "leave", "Stay where you are.", "esc"))
    DEFAULT_CSS = """
    JumpScreen { background: transparent; }
    JumpScreen Static { position: absolute; width: 1; height: 1; background: $warning; color: $background;
        text-style: bold reverse; }
    JumpScreen Static.-pane { background: $accent; }
    """

    def __init__(self, subject: Screen[Any]) -> None:
        super().__init__()
        self._subject = subject
        self._made_for = subject.size
        self._ways: dict[str, tuple[Widget, str]] = {}  # by letter: the pane, and the row's key; "" for the pane itself

    def compose(self) -> ComposeResult:
        panes = [pane for pane in self._subject.focus_chain if pane.region.area]
        capitals = iter(ascii_uppercase)
        for pane, letter in zip(panes, capitals, strict=False):
            self._ways[letter] = pane, ""
            yield self._label(letter, Offset(pane.region.right - 1, pane.region.y), "-pane")
        table = self._subject.focused
        if isinstance(table, LiveTable):
            inner, top = table.content_region, table.content_region.y
            column = inner.x - 1 if inner.x else inner.right - 1  # on the border: no row is covered
            letters: Iterator[str] = iter([*ascii_lowercase, *capitals])
            for (row, key), letter in zip(table.rows_in_sight(), letters, strict=False):
                self._ways[letter] = table, key
                yield self._label(letter, Offset(column, top + row))

    @staticmethod
    def _label(letter: str, at: Offset, classes: str = "") -> Static:
        label = Static(Text(letter), classes=classes, markup=False)
        label.styles.offset = at
        return label

    def on_key(self, event: events.Key) -> None:
        way = self._ways.get(event.character or "")
        if way is None:
            return
        event.stop()
        self.dismiss(None)
        pane, row = way
        if row and isinstance(pane, LiveTable):
            pane.move_to(row)
        else:
            self._subject.set_focus(pane)

    def on_resize(self, event: events.Resize) -> None:
        """The labels stand where the panes were when they were made."""
        if event.size != self._made_for:
            self._made_for = event.size  # a terminal tells a size more than once
            self.dismiss(None)

    def action_leave(self) -> None:
        self.dismiss(None)
