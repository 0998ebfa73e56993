"""Questions: they lie over the screen, their keys in the place of its keys.

`await app.push_screen_wait(ConfirmScreen(...))` gives True or False, `CopyScreen(...)` gives what to edit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, NamedTuple

from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen, ScreenResultType
from textual.widgets import Static

from aisp.store.text import clean, clean_line
from aisp.tui.keymap import Key, bind
from aisp.tui.screens.base import KeyLine
from aisp.tui.screens.source import language_of
from aisp.tui.widgets.diffview import DiffView


class Rewrite(NamedTuple):
    """A file that would be written: its name, its text as it is now and as it would be."""

    name: str
    now: str
    then: str


class QuestionScreen(ModalScreen[ScreenResultType]):
    """A box with a question, what exactly happens, and what would be written, with the keys that answer it below.

    Args:
        question: one sentence.
        detail: what exactly happens, and what is kept.
        rewrites: files that would be written, to be looked at before answering.
    """

    BINDINGS: ClassVar[list[BindingType]] = bind(
        Key("file(1)", "right_square_bracket", "file", "Show the next file that would be written.", "[ ]"),
        Key("file(-1)", "left_square_bracket", "", "Show the file before."),
    )
    own_keys_first = True
    DEFAULT_CSS = """
    QuestionScreen { align: center middle; }
    QuestionScreen #box { width: 76; max-width: 100%; height: auto; max-height: 96%; border: round $accent;
        background: $surface; padding: 0 1; }
    QuestionScreen.-diff #box { width: 100%; height: 1fr; max-height: 100%; padding: 0; }
    QuestionScreen.-diff Static { padding: 0 1; }
    QuestionScreen.-low.-diff Static { max-height: 3; }
    QuestionScreen Static { height: auto; }
    QuestionScreen DiffView { height: 1fr; border-top: solid $panel; }
    """

    def __init__(self, question: str, detail: str = "", rewrites: Sequence[Rewrite] = ()) -> None:
        super().__init__()
        self._question = question
        self._detail = detail
        self._rewrites = list(rewrites)
        self._shown = 0

    def compose(self) -> ComposeResult:
        with Vertical(id="box"):
            text = Text(clean_line(self._question), style="bold")
            if self._detail:
                text.append(f"\n{clean(self._detail)}", style="not bold")
            yield Static(text, markup=False)
            if self._rewrites:
                yield DiffView(changes_only=True)
        yield KeyLine()

    def on_mount(self) -> None:
        self.set_class(bool(self._rewrites), "-diff")
        if self._rewrites:
            self._show()

    def on_resize(self, event: events.Resize) -> None:
        self.set_class(event.size.height < 20, "-low")

    def _show(self) -> None:
        file = self._rewrites[self._shown]
        which = f" ({self._shown + 1} of {len(self._rewrites)})" if len(self._rewrites) > 1 else ""
        view = self.query_one(DiffView)
        view.show(
            file.now,
            file.then,
            left_title=f"{file.name}{which} now",
            right_title="as it would be",
            language=language_of(file.name),
        )
        view.focus()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """There is a next file only where several would be written."""
        return action != "file" or len(self._rewrites) > 1

    def action_answer(self, answer: ScreenResultType) -> None:
        self.dismiss(answer)

    def action_file(self, by: int) -> None:
        self._shown = (self._shown + by) % len(self._rewrites)
        self._show()


class ConfirmScreen(QuestionScreen[bool]):
    """Ask before something is overwritten."""

    BINDINGS: ClassVar[list[BindingType]] = bind(
        # Ahead of the diff's own n and y: where a question stands they are its answers.
        Key("answer(True)", "enter,y", "yes", "Do it.", "\u23ce", priority=True),
        Key("answer(False)", "escape,n,q", "no", "Leave everything as it is.", "esc", priority=True),
    )


class CopyScreen(QuestionScreen[str]):
    """Ask what to edit of a lesson that came with aisp: "copy", "here", or "" for nothing."""

    BINDINGS: ClassVar[list[BindingType]] = bind(
        Key("answer('copy')", "enter,y", "copy and edit that", "Copy the lesson, and edit the copy.", "\u23ce"),
        Key("answer('here')", "p", "edit in place", "Edit the lesson itself, where it is installed."),
        Key("answer('')", "escape,n,q", "leave", "Do neither.", "esc"),
    )
