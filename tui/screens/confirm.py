"""A question with two answers. `await app.push_screen_wait(ConfirmScreen(...))` gives True or False."""

from __future__ import annotations

from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Static

from aisp.store.text import clean, clean_line
from aisp.tui.keymap import Key, bind


class ConfirmScreen(ModalScreen[bool]):
    """Ask before something is overwritten.

    Args:
        question: one sentence.
        detail: what exactly happens, and what is kept.
    """

    BINDINGS: ClassVar[list[BindingType]] = bind(
        Key("answer(True)", "y,enter", "yes", "Do it."),
        Key("answer(False)", "n,escape,q", "no", "Leave everything as it is."),
    )
    DEFAULT_CSS = """
    ConfirmScreen { align: center middle; }
    ConfirmScreen #box { width: 70; max-width: 96%; height: auto; max-height: 96%; border: round $accent;
        background: $surface; padding: 0 1; }
    ConfirmScreen Static { height: auto; }
    """

    def __init__(self, question: str, detail: str = "") -> None:
        super().__init__()
        self._question = question
        self._detail = detail

    def compose(self) -> ComposeResult:
        with Vertical(id="box"):
            text = Text(clean_line(self._question), style="bold")
            if self._detail:
                text.append(f"\n{clean(self._detail)}", style="not bold")
            yield Static(text, markup=False)
            yield Static(Text.assemble("\n", (" y ", "reverse"), " yes   ", (" n ", "reverse"), " no"), markup=False)

    def action_answer(self, yes: bool) -> None:
        """Close with the answer."""
        self.dismiss(yes)
