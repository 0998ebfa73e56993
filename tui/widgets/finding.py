"""Search inside a pane of text: `/` and words, then `n` and `N`; matches are marked, escape ends it.

A pane that can be searched is a `Findable`: it says which lines it has and brings one into sight. The words are typed
into a `FindLine`, which stands above the footer and counts what was found.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, NamedTuple

from rich.cells import cell_len
from rich.style import Style
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.content import Content
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import Input, Static

# Seen on every terminal, without colour too.
MARK = Style(reverse=True)
MARK_HERE = Style(reverse=True, bold=True, underline=True)

FIND_KEYS: list[BindingType] = [
    Binding("slash", "find", "find", key_display="/", tooltip="Find words in this pane; n and N go on.", id="find"),
    Binding("n", "find_step(1)", show=False, tooltip="After /: go to the next match.", id="find_next"),
    Binding("N", "find_step(-1)", show=False, tooltip="After /: go to the match before.", id="find_previous"),
    Binding("escape", "find_end", show=False, tooltip="After /: end the search.", id="find_end"),
]


class Match(NamedTuple):
    """Where words were found: in which line, from which character on, and up to which."""

    line: int
    start: int
    end: int


class Findable(Widget):
    """A pane that can be searched. A subclass has `find_lines` and `show_match`, and marks `matches_in` its lines."""

    pattern: re.Pattern[str] | None = None  # what is looked for; None where nothing is
    matches: Sequence[Match] = ()
    match_at = 0

    def find_lines(self) -> Sequence[str]:
        raise NotImplementedError

    def show_match(self, match: Match) -> None:
        raise NotImplementedError

    def show_marks(self) -> None:
        self.refresh()

    @property
    def top_line(self) -> int:
        """The first line in sight: where a search begins."""
        return self.scroll_offset.y

    def find(self, words: str) -> None:
        """Look for words, in any case, and go to the first match from what is in sight on; "" ends the search."""
        self.pattern = re.compile(re.escape(words), re.IGNORECASE) if words else None
        self.renew_matches()
        below = [number for number, match in enumerate(self.matches) if match.line >= self.top_line]
        self.match_at = below[0] if below else 0
        if self.matches:
            self.show_match(self.matches[self.match_at])
        self.show_marks()

    def renew_matches(self) -> None:
        """Look again: the lines are others."""
        pattern = self.pattern
        lines = self.find_lines() if pattern is not None else ()
        self.matches = [Match(number, *span) for number, line in enumerate(lines) for span in _spans(pattern, line)]
        self.match_at = min(self.match_at, max(0, len(self.matches) - 1))

    @property
    def match_told(self) -> str:
        """ "3 of 12", "none" where nothing was found, "" where nothing is looked for."""
        if self.pattern is None:
            return ""
        return f"{self.match_at + 1} of {len(self.matches)}" if self.matches else "none"

    def marks_in(self, number: int, line: str) -> Iterator[tuple[int, int, Style]]:
        """What to mark in a line: from which character up to which, and how."""
        here = self.matches[self.match_at] if self.matches else None
        for start, end in _spans(self.pattern, line):
            yield start, end, MARK_HERE if here is not None and here[:2] == (number, start) else MARK

    def marked(self, strip: Strip, number: int, line: str) -> Strip:
        """A line of the pane, drawn as `strip` from its first cell on, with its matches marked."""
        for start, end, style in self.marks_in(number, line):
            left, right = cell_len(line[:start]), cell_len(line[:end])
            parts = strip.divide([left, right, strip.cell_length])
            if len(parts) > 1:
                strip = Strip.join([parts[0], parts[1].apply_style(style), *parts[2:]])
        return strip

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """What goes on with a search does nothing while there is none."""
        if action in ("find_step", "find_end") and self.pattern is None:
            return False
        return super().check_action(action, parameters)

    async def action_find(self) -> None:
        """Ask for words; the next key that is pressed is one of them already."""
        await self.screen.query(FindLine).remove()
        line = FindLine(self)
        await self.screen.mount(line, before="KeyLine")
        self.screen.set_focus(line.query_one(Input))

    def action_find_step(self, by: int) -> None:
        if not self.matches:
            return
        self.match_at = (self.match_at + by) % len(self.matches)
        self.show_match(self.matches[self.match_at])
        self.show_marks()
        for line in self.screen.query(FindLine):
            line.tell()

    def action_find_end(self) -> None:
        self.find("")
        for line in self.screen.query(FindLine):
            line.remove()
        self.focus()


def _spans(pattern: re.Pattern[str] | None, line: str) -> Iterator[tuple[int, int]]:
    return (found.span() for found in pattern.finditer(line)) if pattern is not None else iter(())


class WordsInput(Input):
    """A row in which words are typed; enter keeps them and goes back to what they are looked for in."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "submit", "keep", key_display="⏎", tooltip="Keep the words and leave the row."),
    ]


class FindLine(Horizontal):
    """The row in which words to find are typed; it stays until the search ends, and counts."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "end", "end search", key_display="esc", tooltip="End the search.", id="find_end"),
    ]
    DEFAULT_CSS = """
    FindLine { height: 1; background: $surface; }
    FindLine #slash { width: 2; padding: 0 0 0 1; }
    FindLine WordsInput { width: 1fr; height: 1; border: none; padding: 0; background: $surface; }
    FindLine WordsInput:focus { border: none; }
    FindLine #count { width: auto; padding: 0 1; text-style: bold; }
    """

    def __init__(self, pane: Findable) -> None:
        super().__init__()
        self._pane = pane

    def compose(self) -> ComposeResult:
        yield Static("/", id="slash")
        yield WordsInput(placeholder="words to find; enter goes back to the text, n and N to the matches")
        yield Static("", id="count", markup=False)

    def on_input_changed(self, message: Input.Changed) -> None:
        message.stop()
        self._pane.find(message.value)
        self.tell()

    def on_input_submitted(self, message: Input.Submitted) -> None:
        """Enter goes back to the pane; the matches stay marked."""
        message.stop()
        if message.value:
            self._pane.focus()
        else:
            self.action_end()

    def tell(self) -> None:
        """Say how many there are, and which of them one is at."""
        self.query_one("#count", Static).update(self._pane.match_told)

    def action_end(self) -> None:
        self._pane.action_find_end()


class FindableText(Findable):
    """A pane of Textual's own text widgets, a lesson's Markdown for instance."""

    _whole: Sequence[tuple[Static, Content]] = ()  # the texts without marks, while something is looked for

    def _leaves(self) -> list[Static]:
        return [leaf for leaf in self.query(Static) if isinstance(leaf.content, Content) and leaf.content.plain]

    def find_lines(self) -> Sequence[str]:
        self._taken_back()
        self._whole = [(leaf, _content(leaf)) for leaf in self._leaves()]
        return [content.plain for _, content in self._whole]

    @property
    def top_line(self) -> int:
        top = self.region.y
        return next((number for number, (leaf, _) in enumerate(self._whole) if leaf.region.y >= top), 0)

    def show_match(self, match: Match) -> None:
        self.scroll_to_widget(self._whole[match.line][0], animate=False)

    def show_marks(self) -> None:
        for number, (leaf, content) in enumerate(self._whole):
            shown = content
            for start, end, style in self.marks_in(number, content.plain):
                shown = shown.stylize("bold underline reverse" if style is MARK_HERE else "reverse", start, end)
            if shown is not content or leaf.content is not content:
                leaf.update(shown, layout=False)
        if self.pattern is None:
            self._whole = ()

    def _taken_back(self) -> None:
        """The texts without marks, before they are looked at again."""
        for leaf, content in self._whole:
            if leaf.is_attached and leaf.content is not content:
                leaf.update(content, layout=False)


def _content(leaf: Any) -> Content:
    found: Content = leaf.content
    return found
