"""The keys of the focused pane and of the screen, each with a sentence, made from the bindings themselves;
before them the words that the screen uses, behind them all others."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

from rich.table import Table
from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen, Screen
from textual.widget import Widget
from textual.widgets import Static

from aisp.tui.glossary import WORDS
from aisp.tui.keymap import EVERYWHERE, KEYS, Key, bind, bindings_of, key_names


def sentence_of(binding: Binding) -> str:
    text = binding.tooltip or binding.description
    return text if text.endswith(".") or not text else text + "."


Row = tuple[list[str], str, str]  # keys, what they do in a sentence, and the action's name for settings

BESIDE_COLUMNS = 120  # from here on the words stand beside the keys
NAMED_COLUMNS = 100  # from here on the help has room for the names that settings.toml gives keys by

# What a container can do sideways is said only where there is something to the side.
_SIDEWAYS = ("scroll_left", "scroll_right", "page_left", "page_right")


def sections(screen: Screen[Any], focused: Widget | None) -> list[tuple[str, list[Row]]]:
    """The help's sections: the focused pane with its containers, the screen, and what works everywhere."""
    parts: list[tuple[str, list[Row]]] = []
    taken: set[str] = set()
    meant = {binding.key for binding in bindings_of(screen)}
    if focused is not None:
        own: list[Row] = []
        for node in (focused, *focused.ancestors):
            if isinstance(node, (Screen, App)):
                break
            if isinstance(node, Widget):
                every = bindings_of(node)
                # What a table only passes on (enter on a row) is told once: by the screen that makes something of it.
                # So is what a key does after / beside something else.
                other = {one.key for one in every if not one.action.startswith("find_")}
                told = [
                    one
                    for one in every
                    if not (one.action == "choose" and one.key in meant)
                    and not (one.action.startswith("find_") and one.key in other)
                ]
                _collect(own, told, taken, node)
        if own:
            name = _name_of(focused)
            parts.append((f"This pane: {name}" if name else "This pane", own))
    everywhere = {KEYS[name].action for name in EVERYWHERE}
    of_screen: list[Binding] = []
    general: list[Binding] = []
    for binding in bindings_of(screen):
        if binding.id is None and binding.action.startswith(("screen.", "app.")):
            continue  # Textual's own
        (general if binding.action in everywhere else of_screen).append(binding)
    general += [binding for binding in bindings_of(screen.app) if binding.id in KEYS]
    for title, bindings in (("This screen", of_screen), ("Everywhere", general)):
        rows: list[Row] = []
        _collect(rows, bindings, taken, None)
        if rows:
            parts.append((title, rows))
    return parts


def _name_of(pane: Widget) -> str:
    """What a person calls a pane: its title or name, else that of the box around it."""
    for node in (pane, *pane.ancestors):
        if isinstance(node, (Screen, App)):
            break
        if isinstance(node, Widget):
            name = Content.from_markup(str(node.border_title or "")).plain or node.name
            if name:
                return name
    return ""


def _collect(rows: list[Row], bindings: list[Binding], taken: set[str], widget: Widget | None) -> None:
    """Add a row per sentence; a key that a pane nearer to the focus uses is left out."""
    added: set[str] = set()
    for binding in bindings:
        sentence = sentence_of(binding)
        if binding.system or not sentence or binding.key in taken:
            continue
        if widget is not None and binding.action in _SIDEWAYS and not widget.allow_horizontal_scroll:
            continue
        added.add(binding.key)
        name = key_names(binding.key)[0]
        for keys, known, _ in rows:
            if known == sentence:
                keys.append(name)
                break
        else:
            rows.append(([name], sentence, binding.id or ""))
    if widget is not None:
        taken |= added


def _grid(rows: list[Row], named: bool) -> Table:
    """Keys left, sentences right with a hanging indent, and behind them, where there is room, the actions' names."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(width=14, style="bold")
    grid.add_column(ratio=1)
    for keys, sentence, name in rows:
        text = Text(sentence)
        if named and name:
            text.append(f"  {name}", style="dim")
        grid.add_row(Text(" ".join(keys)), text)
    return grid


def _words(words: Iterable[str]) -> Table:
    return _grid([([word], WORDS[word], "") for word in words], False)


class HelpScreen(ModalScreen[None]):
    """A panel over `subject`."""

    BINDINGS: ClassVar[list[BindingType]] = bind(
        Key("dismiss_panel", "escape,q,question_mark", "close", "Close this panel.", "esc")
    )
    DEFAULT_CSS = """
    HelpScreen { align: center middle; }
    HelpScreen #help { width: 84; max-width: 96%; height: auto; max-height: 90%; border: round $accent;
        background: $surface; padding: 0 1; border-title-style: bold; scrollbar-size-vertical: 1; }
    HelpScreen #help.-wide { width: 96%; }
    HelpScreen Horizontal, HelpScreen Static, HelpScreen .side { height: auto; }
    HelpScreen .side { width: 1fr; padding: 0 1; }
    HelpScreen .rows { margin: 0 0 1 1; }
    """

    def __init__(self, subject: Screen[Any]) -> None:
        super().__init__()
        self._sections = sections(subject, subject.focused)
        self._words: Sequence[str] = getattr(subject, "words", ())

    def compose(self) -> ComposeResult:
        width = self.app.size.width
        named = width >= NAMED_COLUMNS
        keys = [(title, _grid(rows, named)) for title, rows in self._sections]
        words = [("Words here", _words(self._words))] if self._words else []
        more = ("More words", _words([word for word in WORDS if word not in self._words]))
        with VerticalScroll(id="help") as panel:
            panel.border_title = "Keys and words (escape closes)"
            if width < BESIDE_COLUMNS:
                yield from self._parts([*words, *keys, more])
                return
            panel.add_class("-wide")
            with Horizontal():
                with Vertical(classes="side"):
                    yield from self._parts(keys)
                with Vertical(classes="side"):
                    yield from self._parts([*words, more])

    @staticmethod
    def _parts(parts: Iterable[tuple[str, Table]]) -> ComposeResult:
        for title, rows in parts:
            yield Static(Text(title, style="bold underline"), markup=False)
            yield Static(rows, markup=False, classes="rows")

    def on_mount(self) -> None:
        self.query_one("#help").focus()

    def action_dismiss_panel(self) -> None:
        self.dismiss(None)
