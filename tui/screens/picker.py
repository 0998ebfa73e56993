"""A list to pick one thing from, filtered as one types. Dismisses with the picked key, or None."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input

from aisp.store.text import clean_line
from aisp.tui.widgets.table import Column, LiveTable

if TYPE_CHECKING:
    from aisp.kernels.catalog.model import Target


def files_of(target: Target) -> list[tuple[str, str]]:
    """Rows for every file of a target that a person edits: rungs with what each changes, then lesson.md and the
    rest."""
    rungs = {rung.path.name: clean_line(rung.summary) for rung in target.rungs}
    rest = sorted((name for name in target.files if name not in rungs), key=lambda name: name != "lesson.md")
    names = [*rungs, *rest]
    width = max(map(len, names))
    return [(name, f"{clean_line(name):<{width}}  {rungs.get(name, '')}".rstrip()) for name in names]


class PickerScreen(ModalScreen[str | None]):
    """Pick one of `rows`: (key, what is shown)."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "cancel", "Close", tooltip="Close without picking."),
        Binding("down", "step(1)", "Down", show=False, tooltip="Go to the next row.", priority=True),
        Binding("up", "step(-1)", "Up", show=False, tooltip="Go to the row before.", priority=True),
    ]
    DEFAULT_CSS = """
    PickerScreen { align: center middle; }
    PickerScreen #box { width: 90; max-width: 96%; height: 80%; border: round $accent; background: $surface;
        border-title-style: bold; }
    PickerScreen Input { height: 1; border: none; padding: 0 1; }
    PickerScreen Input:focus { border: none; }
    PickerScreen LiveTable { height: 1fr; }
    """

    def __init__(self, title: str, rows: Sequence[tuple[str, str]], current: str = "", head: str = "source") -> None:
        super().__init__()
        self._head = head
        self._title = clean_line(title)
        self._all = rows
        self._current = current

    def compose(self) -> ComposeResult:
        with Vertical(id="box") as box:
            box.border_title = self._title.replace("[", "\\[")
            box.styles.max_height = len(self._all) + 4  # the frame, the line that filters, the table's head
            yield Input(placeholder="type to filter, enter picks, escape closes")
            table = LiveTable(empty="Nothing contains these words")
            table.columns = [Column("name", self._head, None, ratio=1)]
            yield table

    def on_mount(self) -> None:
        self.query_one(Input).focus()
        self._fill("")
        self._table.move_to(self._current)

    @property
    def _table(self) -> LiveTable:
        return self.query_one(LiveTable)

    def _fill(self, typed: str) -> None:
        words = typed.lower().split()
        self._table.show(
            [(key, [Text(shown)]) for key, shown in self._all if all(word in shown.lower() for word in words)]
        )

    def on_input_changed(self, message: Input.Changed) -> None:
        message.stop()
        self._fill(message.value)

    def on_input_submitted(self, message: Input.Submitted) -> None:
        message.stop()
        self.dismiss(self._table.cursor_key)

    def on_live_table_chosen(self, message: LiveTable.Chosen) -> None:
        message.stop()
        self.dismiss(message.key)

    def action_step(self, by: int) -> None:
        """Move the cursor while the filter keeps the focus."""
        self._table.action_cursor(by)

    def action_cancel(self) -> None:
        self.dismiss(None)
