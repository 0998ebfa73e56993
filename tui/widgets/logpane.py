"""The newest lines of something that talks without end, drawn as they stand.

Keeps a fixed number of lines, follows the newest unless the person scrolled up, wraps nothing (h and l move
sideways). Lines are plain text: brackets are brackets, control characters are shown as pictures.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice
from typing import Any, ClassVar, TypeAlias

from rich.cells import cell_len
from rich.segment import Segment
from textual import events
from textual.binding import Binding, BindingType
from textual.strip import Strip

from aisp.store.text import clean
from aisp.tui import plain
from aisp.tui.widgets.finding import FIND_KEYS, Findable, Match
from aisp.tui.widgets.lines import LineView, cell_segments

Line: TypeAlias = str | tuple[str, str]  # with a style, see `tui.themes.style_of`

TAB_CELLS = 4
_SIDEWAYS_CELLS = 8


class LogPane(LineView, Findable, can_focus=True):
    """A log that can be scrolled."""

    DEFAULT_CSS = """
    LogPane { min-height: 1; }
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "lines(-1)", "Up", show=False),
        Binding("down,j", "lines(1)", "Down", show=False),
        Binding("pageup,ctrl+b,ctrl+u", "pages(-1)", "Page up", show=False),
        Binding("pagedown,ctrl+f,ctrl+d", "pages(1)", "Page down", show=False),
        Binding("home,g", "oldest", "Oldest", show=False),
        Binding("end,G", "newest", "Newest", show=False),
        Binding("left,h", "sideways(-1)", "Left", show=False),
        Binding("right,l", "sideways(1)", "Right", show=False),
        *FIND_KEYS,
    ]

    def __init__(self, *, max_lines: int = 5000, empty: str = "nothing was printed", **kwargs: Any) -> None:
        """Make one that keeps the newest `max_lines`, and shows the sentence `empty` while there is none."""
        super().__init__(**kwargs)
        self._max_lines = max_lines
        self._empty = empty
        self._lines: deque[tuple[str, str]] = deque(maxlen=max_lines)
        self._following = True
        self._shift = 0
        self._told: tuple[object, object] | None = None  # by `tell`: what and about what
        self._prose: Callable[[], None] | None = None  # wraps what is shown again

    @property
    def text(self) -> str:
        return "\n".join(line for line, _ in self._lines)

    def extend(self, lines: Sequence[Line], style: str = "") -> None:
        """Add `lines` at the end. A line with newlines in it becomes several.

        Args:
            lines: any text, oldest first, each with a style of its own or without; it is cleaned here.
            style: of those without, see `tui.themes.style_of`.
        """
        # More than fits would only be cleaned to be dropped.
        fresh = [
            (part, own)
            for given in lines[-self._max_lines :]
            for line, own in [(given, style) if isinstance(given, str) else given]
            for part in (line if line.isprintable() else clean(line)).expandtabs(TAB_CELLS).split("\n")
        ]
        if not fresh:
            return
        before = len(self._lines)
        dropped = max(0, before + len(fresh) - self._max_lines)
        self._lines.extend(fresh)
        if self.pattern is not None:
            self.renew_matches()
        count = len(self._lines)
        top_before = self.top
        # A person who reads further up keeps the same lines before the eyes while old ones fall away above.
        keep = max(0, top_before - dropped)
        self.set_line_count(count)
        target = max(0, count - self.size.height) if self._following else keep
        if target != self.top:
            self.go_to(target)
        if self.top == top_before and not dropped and before:
            for number in range(before - self.top, count - self.top):
                self.refresh_span(number, 0, self.size.width)
        elif self._following or dropped > top_before or not before:
            self.refresh()

    def tell(self, what: object, lines: Callable[[], Sequence[Line]], *, about: object = None) -> None:
        """Show lines from the first one on in the place of what is shown, unless they are what is shown.

        Args:
            what: all that the lines are made of.
            lines: makes them.
            about: what they are about; whoever reads on about the same keeps the place.
        """
        if self._told == (what, about):
            return
        top = self.top if self._told is not None and about is not None and self._told[1] == about else 0
        self.clear()
        self._told = (what, about)
        self.extend(lines())
        self._scroll(top)

    def prose(self, lines: Sequence[str], *, labelled: bool = False, about: object = None) -> None:
        """Show sentences as `tell` does, wrapped for the pane's width, also when that changes.

        Args:
            labelled: see `plain.wrapped`.
        """
        # Out of sight it has no width yet: it will have the screen's.
        width = max(20, (self.size.width or self.screen.size.width) - 1)
        self.tell((width, labelled, *lines), lambda: plain.wrapped(lines, width, labelled=labelled), about=about)
        self._prose = partial(self.prose, lines, labelled=labelled, about=about)

    def clear(self) -> None:
        self._lines.clear()
        self._told = self._prose = None
        self._following = True
        self._shift = 0
        self.set_line_count(0)
        self.refresh()

    def action_lines(self, count: int) -> None:
        self._scroll(self.top + count)

    def action_pages(self, count: int) -> None:
        """Scroll by pages, with one line in common."""
        self._scroll(self.top + count * max(1, self.size.height - 1))

    def action_oldest(self) -> None:
        self._scroll(0)

    def action_newest(self) -> None:
        self._scroll(len(self._lines))

    def action_sideways(self, steps: int) -> None:
        shown = islice(self._lines, self.top, self.top + self.size.height)
        last = max(0, max((cell_len(line) for line, _ in shown), default=0) - self.inner_width)
        shift = max(0, min(self._shift + steps * _SIDEWAYS_CELLS, last if steps > 0 else self._shift))
        if shift != self._shift:
            self._shift = shift
            self.refresh()

    def _scroll(self, line: int) -> None:
        self.go_to(min(line, self._last_top))

    @property
    def _last_top(self) -> int:
        return max(0, len(self._lines) - self.size.height)

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        # Keys, wheel and scrollbar all end here: whoever is at the end follows.
        self._following = round(new_value) >= self._last_top

    def on_resize(self, _event: events.Resize) -> None:
        if self._prose is not None:
            self._prose()
        elif self._following:
            self.go_to(self._last_top)

    def find_lines(self) -> Sequence[str]:
        return [line for line, _ in self._lines]

    def show_match(self, match: Match) -> None:
        line = self._lines[match.line][0]
        start, end = cell_len(line[: match.start]), cell_len(line[: match.end])
        if not self._shift <= start <= end <= self._shift + self.inner_width:
            self._shift = 0 if end <= self.inner_width else max(0, start - self.inner_width // 2)
        if not self.top <= match.line < self.top + self.size.height:
            self._scroll(max(0, match.line - self.size.height // 2))

    def render_line(self, y: int) -> Strip:
        index, width = self.top + y, self.size.width
        if not self._lines and y == 0:
            return self.sentence(self._empty)
        if index >= len(self._lines):
            return self.blank()
        line, style = self._lines[index]
        base = self.style(style)
        if self.pattern is not None:
            whole = self.marked(Strip([Segment(line, base)]), index, line)
            return whole.crop(self._shift, self._shift + self.inner_width).adjust_cell_length(width, base)
        if self._shift:
            whole = Strip([Segment(line, base)])
            line = whole.crop(self._shift, max(self._shift, whole.cell_length)).text
        inner = self.inner_width
        strip = Strip(cell_segments(line, inner, base, ellipsis=self.cut), inner)
        return strip.adjust_cell_length(width, base)
