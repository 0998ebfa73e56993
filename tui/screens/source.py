"""A read-only source with line numbers, highlighted in a thread, drawn by line.

Used beside a lesson's text. The diff of two sources is `tui.widgets.diffview.DiffView`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar

from rich.style import Style
from rich.text import Text
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from aisp.tui.aside import aside, begin
from aisp.tui.widgets.finding import FIND_KEYS, Findable, Match

LEXERS = {".py": "python", ".cu": "cuda", ".cuh": "cuda", ".md": "markdown", ".toml": "toml", ".h": "cuda"}


def language_of(name: str) -> str:
    """The language of a file by its name, for DiffView and SourceView."""
    dot = name.rfind(".")
    return LEXERS.get(name[dot:].lower(), "python") if dot >= 0 else "python"


class SourceView(ScrollView, Findable, can_focus=True):
    """`show(text, name)` shows a source, which is clean; the keys scroll it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down,j", "scroll_down", "Down", show=False, tooltip="Scroll down by a line."),
        Binding("up,k", "scroll_up", "Up", show=False, tooltip="Scroll up by a line."),
        Binding("right", "scroll_right", "Right", show=False, tooltip="Scroll right."),
        Binding("left,h", "scroll_left", "Left", show=False, tooltip="Scroll left."),
        Binding("pagedown,ctrl+d", "page_down", "Page down", show=False, tooltip="Scroll down by a page."),
        Binding("pageup,ctrl+u", "page_up", "Page up", show=False, tooltip="Scroll up by a page."),
        Binding("home,g", "scroll_home", "Top", show=False, tooltip="Go to the first line."),
        Binding("end,G", "scroll_end", "Bottom", show=False, tooltip="Go to the last line."),
        *FIND_KEYS,
    ]
    DEFAULT_CSS = "SourceView { scrollbar-size-vertical: 1; scrollbar-size-horizontal: 1; }"

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.source = ""
        self._file_name = ""
        self._lines: list[Text] = []
        self._gutter = 3

    def on_mount(self) -> None:
        self.app.theme_changed_signal.subscribe(self, lambda _: self._begin_highlight())

    def _begin_highlight(self) -> None:
        begin(self, partial(self._highlight, self.source, language_of(self._file_name)), exclusive=True)

    def show(self, source: str, name: str) -> None:
        self.source = source.expandtabs(8)
        self._put([Text(line) for line in self.source.split("\n")])
        self.scroll_home(animate=False)
        self.renew_matches()
        self._file_name = name
        self._begin_highlight()

    def _put(self, lines: list[Text]) -> None:
        self._lines = lines
        self._gutter = len(str(len(lines))) + 2
        widest = max((line.cell_len for line in lines), default=0)
        self.virtual_size = Size(self._gutter + widest, len(lines))
        self.refresh()

    async def _highlight(self, source: str, language: str) -> None:
        dark = self.app.current_theme.dark

        def work() -> list[Text]:
            from rich.syntax import Syntax  # pygments: 30 ms, in this thread

            whole = Syntax("", language, theme="monokai" if dark else "friendly").highlight(source)
            return list(whole.split("\n", allow_blank=True))

        lines = await aside(work)
        if source == self.source:
            self._put(lines[: len(self._lines)])

    def find_lines(self) -> Sequence[str]:
        return [line.plain for line in self._lines]

    def show_match(self, match: Match) -> None:
        room = Region(match.start + self._gutter, match.line, match.end - match.start, 1)
        self.scroll_to_region(room, animate=False, force=True)

    def render_line(self, y: int) -> Strip:
        base = self.rich_style
        scroll_x, scroll_y = self.scroll_offset
        at = y + scroll_y
        width = self.size.width
        if at >= len(self._lines):
            return Strip.blank(width, base)
        number = Strip(Text(f"{at + 1:>{self._gutter - 1}} ", style=Style(dim=True)).render(self.app.console, end=""))
        plain = Style.from_color(base.color, base.bgcolor)
        # The highlighter's own background would cut a hole into the theme's.
        body = Strip(
            [
                segment._replace(style=Style.from_color(segment.style.color if segment.style else None, base.bgcolor)
                                 if segment.style and segment.style.color else plain)
                for segment in self._lines[at].render(self.app.console, end="")
            ]
        )  # fmt: skip
        body = self.marked(body, at, self._lines[at].plain)
        room = max(0, width - self._gutter)
        return Strip.join(
            [number.apply_style(plain), body.crop(scroll_x, scroll_x + room).adjust_cell_length(room, plain)]
        ).adjust_cell_length(width, plain)
