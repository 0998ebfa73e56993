"""Two texts side by side, whole, with what changed marked by signs and, where there is colour, by colour.

Aligning and highlighting run in a thread: the alignment is shown as soon as it is there, colours follow.
Only lines in sight are built. Under 100 columns the view is unified by itself; `u` chooses. A line that is longer than
its side goes on below, so that what changed in it is always to be seen.

    - removed     + added     ~ changed inside, the words marked     ⋯ equal lines left out
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, NamedTuple

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.strip import Strip
from textual.theme import Theme

from aisp.store.text import clean, clean_line
from aisp.tui.aside import aside, begin
from aisp.tui.themes import style_of
from aisp.tui.widgets import alignment
from aisp.tui.widgets.alignment import Row
from aisp.tui.widgets.finding import FIND_KEYS, Findable, Match
from aisp.tui.widgets.lines import LineView, cell_segments

Runs = list[tuple[str, str]]  # (kind of code, text) along a line; kinds as in the themes' code-* variables

UNIFIED_UNDER_COLUMNS = 100
CONTEXT_LINES = 3  # equal lines kept around a hunk when only changes are shown
TAB_CELLS = 4
LEAST_CELLS = 8  # of a text, before it is cut rather than continued
# Highlighting a file longer than this takes longer than anybody wants to wait for colours.
_HIGHLIGHT_CHARACTERS = 1_000_000


class Item(NamedTuple):
    """One line of the view: a row of the alignment on one side or both, the `part`-th of as many as its text takes, or
    `folded` rows from `row` on."""

    row: int
    left: bool
    right: bool
    folded: int = 0
    part: int = 0


@dataclass
class Comparison:
    """Two texts, aligned."""

    raw: tuple[list[str], list[str]]  # as given, for copying
    lines: tuple[list[str], list[str]]  # safe to draw, tabs expanded
    rows: list[Row]
    hunks: list[tuple[int, int]]
    removed: int
    added: int
    note: str  # "" or in words why there is nothing to see
    code: tuple[list[Runs], list[Runs]] | None = None


def compare(left: str, right: str) -> Comparison:
    """Align two texts. 3,000 lines take some ten milliseconds."""
    raw = alignment.split_lines(left), alignment.split_lines(right)
    rows = alignment.align(*raw)
    hunks = alignment.hunks_of(rows)
    note = ""
    if not raw[0] and not raw[1]:
        note = "both files are empty"
    elif not hunks:
        lines = "1 line" if len(rows) == 1 else f"{len(rows)} lines"
        note = f"the files are identical ({lines})"
        if left != right:
            note = f"the files differ only in how their lines end ({lines})"
    return Comparison(
        raw=raw,
        lines=(_drawable(raw[0]), _drawable(raw[1])),
        rows=rows,
        hunks=hunks,
        removed=sum(1 for row in rows if row.left >= 0 and not row.equal),
        added=sum(1 for row in rows if row.right >= 0 and not row.equal),
        note=note,
    )


def _drawable(lines: list[str]) -> list[str]:
    return [line if line.isprintable() else clean(line, limit=len(line) + 1).expandtabs(TAB_CELLS) for line in lines]


def highlight(lines: Sequence[str], language: str) -> list[Runs]:
    """The lines in runs of one kind of code; plain where the language is unknown or the text too long."""
    plain: list[Runs] = [[("", line)] for line in lines]
    if sum(map(len, lines)) > _HIGHLIGHT_CHARACTERS:
        return plain
    # Pygments takes 50 ms to import and is needed by the thread that highlights alone.
    from pygments.lexers import get_lexer_by_name  # type: ignore[import-untyped]
    from pygments.token import Token  # type: ignore[import-untyped]
    from pygments.util import ClassNotFound  # type: ignore[import-untyped]

    try:
        lexer = get_lexer_by_name(language, stripnl=False, ensurenl=True)
    except ClassNotFound:
        return plain
    kinds = (
        (Token.Comment, "comment"),
        (Token.Literal.String.Doc, "comment"),
        (Token.Literal.String, "string"),
        (Token.Literal.Number, "number"),
        (Token.Keyword, "keyword"),
        (Token.Operator.Word, "keyword"),
        (Token.Name.Builtin, "builtin"),
        (Token.Name.Class, "name"),
        (Token.Name.Function, "name"),
        (Token.Name.Decorator, "name"),
        (Token.Generic.Heading, "keyword"),
        (Token.Generic.Subheading, "keyword"),
        (Token.Generic.Strong, "name"),
        (Token.Generic.Emph, "string"),
    )
    known: dict[object, str] = {}
    coloured: list[Runs] = [[]]
    for token, text in lexer.get_tokens("\n".join(lines)):
        kind = known.get(token)
        if kind is None:
            kind = known[token] = next((name for parent, name in kinds if token in parent), "")
        for number, part in enumerate(text.split("\n")):
            if number:
                coloured.append([])
            if part:
                runs = coloured[-1]
                if runs and runs[-1][0] == kind:
                    runs[-1] = (kind, runs[-1][1] + part)
                else:
                    runs.append((kind, part))
    # A lexer that changes the text would put colours beside the words; the words are what matters.
    return [
        runs if "".join(text for _, text in runs) == line else plain[number]
        for number, (line, runs) in enumerate(zip(lines, coloured + [[]] * len(lines), strict=False))
    ]


class DiffView(LineView, Findable, can_focus=True):
    """Compares two texts. See the module's first lines for the signs."""

    DEFAULT_CSS = """
    DiffView { min-height: 3; }
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("n", "hunk(1)", "Next change", tooltip="Go to the next change; after /: to the next match."),
        Binding("N", "hunk(-1)", "Previous change", show=False,
                tooltip="Go to the change before; after /: to the match before."),
        Binding("c", "changes_only", "Changes", tooltip="Changes only."),
        Binding("u", "unified", "Unified"),
        Binding("y", "copy_hunk", "Copy change", show=False),
        Binding("up,k", "lines(-1)", "Up", show=False),
        Binding("down,j", "lines(1)", "Down", show=False),
        Binding("pageup,ctrl+b", "pages(-2)", "Page up", show=False),
        Binding("pagedown,ctrl+f", "pages(2)", "Page down", show=False),
        Binding("ctrl+u", "pages(-1)", "Half page up", show=False),
        Binding("ctrl+d", "pages(1)", "Half page down", show=False),
        Binding("home,g", "edge(-1)", "Top", show=False),
        Binding("end,G", "edge(1)", "End", show=False),
        *FIND_KEYS,
    ]  # fmt: skip

    class Ready(Message):
        """The texts given to `show` are aligned and on the screen."""

        def __init__(self, view: DiffView) -> None:
            super().__init__()
            self.view = view

    class Copied(Message):
        """A hunk is to be copied: the app knows where to."""

        def __init__(self, view: DiffView, text: str) -> None:
            super().__init__()
            self.view = view
            self.text = text

    def __init__(self, *, changes_only: bool = False, **kwargs: Any) -> None:
        """Make one that leaves out equal lines far from any change at first where `changes_only`."""
        super().__init__(**kwargs)
        self._request = 0
        self._wanted: tuple[str, str, str] | None = None
        self._titles = ("", "")
        self._comparison: Comparison | None = None
        self._items: list[Item] = []
        self._first_item: list[int] = []  # per hunk
        self._current = 0
        self._changes_only = changes_only
        self._sentence = ""
        self._unified: bool | None = None
        self._laid_out: tuple[bool, int] | None = None  # whether unified, and cells of a text
        self._sides: dict[tuple[int, int], Strip] = {}

    # -- what it holds ---------------------------------------------------------------------------------------

    @property
    def ready(self) -> bool:
        return self._comparison is not None and self._wanted is None

    @property
    def hunks(self) -> int:
        return len(self._comparison.hunks) if self._comparison else 0

    @property
    def unified(self) -> bool:
        return self.size.width < UNIFIED_UNDER_COLUMNS if self._unified is None else self._unified

    def show(
        self, left: str, right: str, *, left_title: str = "", right_title: str = "", language: str = "python"
    ) -> None:
        """Compare two texts, the earlier one on the left. Returns at once; `Ready` comes when they are on the screen.

        Args:
            language: "python", "cuda", "markdown" or another name that Pygments knows; others stay plain.
        """
        self._request += 1
        self._sentence = ""
        self._wanted = (left, right, language)
        self._titles = (clean_line(left_title), clean_line(right_title))
        if self.is_attached:
            self._start()

    def tell(self, sentence: str) -> None:
        """Say why there is nothing to compare, in the place of what is shown."""
        if sentence == self._sentence:
            return
        self._request += 1  # what is being aligned is not wanted any more
        self._sentence, self._wanted, self._comparison, self._laid_out = clean_line(sentence), None, None, None
        self._items, self._first_item = [], []
        self.set_line_count(1)
        self.refresh()

    def hunk_text(self, number: int | None = None) -> str:
        """Hunk `number` as lines with - and +, "" where there is none.

        Args:
            number: from 1; None is the current one, else the first in sight.
        """
        if self._comparison is None or not self.hunks:
            return ""
        if number is None:
            number = self._current or self._hunk_in_sight()
        if not 1 <= number <= self.hunks:
            return ""
        start, end = self._comparison.hunks[number - 1]
        rows = self._comparison.rows[start:end]
        left, right = self._comparison.raw
        lines = [f"-{left[row.left]}" for row in rows if row.left >= 0]
        lines += [f"+{right[row.right]}" for row in rows if row.right >= 0]
        return "\n".join(lines) + "\n"

    # -- computing -------------------------------------------------------------------------------------------

    def on_mount(self) -> None:
        if self._wanted is not None:
            self._start()

    def _start(self) -> None:
        if self._wanted is None:
            return
        begin(self, partial(self._align, self._request, *self._wanted), group="diff")

    async def _align(self, request: int, left: str, right: str, language: str) -> None:
        comparison = await aside(compare, left, right)
        if request != self._request:
            return  # another pair of texts was asked for meanwhile
        self._sides.clear()
        self._comparison = comparison
        self._wanted = None
        self._current = 0
        self._lay_out()
        self.go_to(0)
        self.refresh()
        self.post_message(self.Ready(self))
        first, second = [await aside(highlight, lines, language) for lines in comparison.lines]
        comparison.code = first, second
        if request == self._request:
            self._sides.clear()
            self.refresh()

    def _lay_out(self) -> None:
        """Make the list of lines for the present mode, keeping the first row in sight where it is."""
        comparison = self._comparison
        if comparison is None:
            return
        top_row = self._items[self.top].row if self._laid_out and self.top < len(self._items) else 0
        unified = self.unified
        items: list[Item] = []
        first: list[int] = []
        position = 0
        ends = [*comparison.hunks, (len(comparison.rows), len(comparison.rows))]
        for number, (start, end) in enumerate(ends):
            items += self._equal_items(position, start, first=number == 0, last=number == len(ends) - 1)
            first.append(len(items))
            if unified:
                rows = range(start, end)
                items += self._whole(Item(row, True, False) for row in rows if comparison.rows[row].left >= 0)
                items += self._whole(Item(row, False, True) for row in rows if comparison.rows[row].right >= 0)
            else:
                items += self._whole(Item(row, True, True) for row in range(start, end))
            position = end
        self._items = items
        self._first_item = first[:-1]
        had = self._laid_out
        self._laid_out = (unified, self._text_width)
        self.renew_matches()
        self.set_line_count(len(items) + 1)
        if had:
            self.go_to(next((n for n, item in enumerate(items) if item.row + item.folded >= top_row), 0))

    def _equal_items(self, start: int, end: int, *, first: bool, last: bool) -> list[Item]:
        """Items for equal rows, the middle folded where only changes are wanted."""
        head = 0 if first else CONTEXT_LINES
        tail = 0 if last else CONTEXT_LINES
        folded = end - start - head - tail
        # Folding a single line would save nothing.
        if not self._changes_only or folded < 2:
            return self._whole(Item(row, True, True) for row in range(start, end))
        return [
            *self._whole(Item(row, True, True) for row in range(start, start + head)),
            Item(start + head, True, True, folded),
            *self._whole(Item(row, True, True) for row in range(end - tail, end)),
        ]

    def _whole(self, items: Iterable[Item]) -> list[Item]:
        """Each of these as often as its longer text needs lines."""
        width = self._text_width
        if width < LEAST_CELLS or self._comparison is None:
            return list(items)
        rows, lines = self._comparison.rows, self._comparison.lines
        found: list[Item] = []
        for item in items:
            texts = [lines[side][rows[item.row][side]] for side in self._sides_of(item)]
            parts = max((-(-cell_len(text) // width) for text in texts if len(text) > width // 2), default=1)
            found.append(item)
            found += [item._replace(part=part) for part in range(1, parts)]
        return found

    def _theme_changed(self, theme: Theme) -> None:
        self._sides.clear()
        super()._theme_changed(theme)

    def on_resize(self, _event: events.Resize) -> None:
        if self._laid_out is not None and self._laid_out != (self.unified, self._text_width):
            self._lay_out()
        self.refresh()

    # -- keys ------------------------------------------------------------------------------------------------

    def action_hunk(self, direction: int) -> None:
        """Go to the next (1) or previous (-1) hunk; from what is in sight if the current one is not."""
        if not self.hunks:
            return
        current = self._first_item[self._current - 1] if self._current else -1
        if self._current and self.top - CONTEXT_LINES <= current < self.top + self.size.height:
            number = self._current + direction
        elif direction > 0:
            number = next((n for n, item in enumerate(self._first_item, 1) if item >= self.top), self.hunks)
        else:
            number = next(
                (n for n in range(self.hunks, 0, -1) if self._first_item[n - 1] < self.top + self.size.height - 1),
                1,
            )
        if not 1 <= number <= self.hunks:
            self.notify(
                "that was the last change; N goes back" if direction > 0 else "that was the first change; n goes on"
            )
            return
        self._current = number
        self.go_to(self._first_item[number - 1] - CONTEXT_LINES)
        self.refresh()

    def action_changes_only(self) -> None:
        self._changes_only = not self._changes_only
        self._lay_out()
        self._back_to_hunk()

    def action_unified(self) -> None:
        self._unified = not self.unified
        self._lay_out()
        self._back_to_hunk()

    def _back_to_hunk(self) -> None:
        if self._current:
            self.go_to(self._first_item[self._current - 1] - CONTEXT_LINES)
        self.refresh()

    def action_copy_hunk(self) -> None:
        if text := self.hunk_text():
            self.post_message(self.Copied(self, text))
        else:
            self.notify("there is no change to copy", severity="warning")

    def action_lines(self, count: int) -> None:
        self.go_to(min(self.top + count, self.max_scroll_y))

    def action_pages(self, halves: int) -> None:
        self.action_lines(halves * max(1, (self.size.height - 2) // 2))

    def action_edge(self, side: int) -> None:
        """Go to the top (-1) or the end (1)."""
        self.go_to(0 if side < 0 else len(self._items))

    def _hunk_in_sight(self) -> int:
        """The first hunk of which something is shown, from 1, or 0."""
        comparison = self._comparison
        if comparison is None:
            return 0
        shown = self._items[self.top : self.top + self.size.height - 1]
        rows = {item.row for item in shown if not item.folded}
        for number, (start, end) in enumerate(comparison.hunks, 1):
            if not rows.isdisjoint(range(start, end)):
                return number
        return 0

    # -- search ----------------------------------------------------------------------------------------------

    def _sides_of(self, item: Item) -> tuple[int, ...]:
        """The sides of which an item shows a text of its own: equal ones are found once."""
        row = self._comparison.rows[item.row] if self._comparison is not None and not item.folded else None
        if row is None:
            return ()
        if self.unified:
            return (0,) if item.left and not item.right else (1,)
        return tuple(side for side in ((0,) if row.equal else (0, 1)) if row[side] >= 0)

    def find_lines(self) -> Sequence[str]:
        """Two per item: the left text and the right one, "" where it has none of its own and where it goes on."""
        comparison = self._comparison
        if comparison is None:
            return []
        return [
            comparison.lines[side][comparison.rows[item.row][side]]
            if not item.part and side in self._sides_of(item)
            else ""
            for item in self._items
            for side in (0, 1)
        ]

    @property
    def top_line(self) -> int:
        return 2 * self.top

    def show_match(self, match: Match) -> None:
        item = match.line // 2 + self._part_of(match)
        if not self.top <= item < self.top + self.size.height - 1:
            self.go_to(max(0, item - self.size.height // 2))

    def _part_of(self, match: Match) -> int:
        if self._comparison is None or self._text_width < LEAST_CELLS:
            return 0
        item, side = self._items[match.line // 2], match.line % 2
        text = self._comparison.lines[side][self._comparison.rows[item.row][side]]
        return cell_len(text[: match.start]) // self._text_width

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """In a search `n` and `N` go to matches, not to changes."""
        return super().check_action(action, parameters) and not (action == "hunk" and self.pattern is not None)

    async def action_find(self) -> None:
        """Ask for words, with every line in sight: what is folded could not be found."""
        if self._changes_only:
            self.action_changes_only()
        await super().action_find()

    # -- drawing ---------------------------------------------------------------------------------------------

    @property
    def _number_width(self) -> int:
        comparison = self._comparison
        return len(str(max(len(comparison.lines[0]), len(comparison.lines[1]), 1))) if comparison else 1

    @property
    def _left_width(self) -> int:
        return max(0, (self.inner_width - 3) // 2)

    @property
    def _text_width(self) -> int:
        if self.unified:
            return max(0, self.inner_width - 2 * self._number_width - 5)
        return max(0, self._left_width - self._number_width - 3)

    def render_line(self, y: int) -> Strip:
        comparison = self._comparison
        if comparison is None:
            if y == 0 and (self._sentence or self._wanted is not None):
                return self.sentence(self._sentence or "comparing" + self.cut)
            return self.blank()
        if y == 0:
            return self._header(comparison)
        if y == 1 and comparison.note and (self._changes_only or not comparison.rows):
            more = "; c shows them" if comparison.rows else ""
            return self.sentence(comparison.note + more)
        index = self.top + y - 1
        if index >= len(self._items) or (comparison.note and self._changes_only):
            return self.blank()
        item = self._items[index]
        if item.folded:
            sign = "..." if self.ascii else "⋯"
            return self.sentence(f"{' ' * self._number_width}{sign} {item.folded} equal lines")
        row = comparison.rows[item.row]
        marker = Segment(self._marker(item.row), self.style("bold $warning"))
        width = self.size.width
        if self.unified:
            strip = self._unified_line(row, item, index)
        else:
            bar = Segment("| " if self.ascii else "│ ", self.style("dim"))
            left = self._left_width
            right = self._side_line(row, 1, max(0, width - 3 - left), index, item.part)
            strip = Strip([*self._side_line(row, 0, left, index, item.part), bar, *right])
        return Strip([marker, *strip]).adjust_cell_length(width, self.rich_style)

    def _marker(self, row: int) -> str:
        if self._current and self._comparison:
            start, end = self._comparison.hunks[self._current - 1]
            if start <= row < end:
                return ">" if self.ascii else "▌"
        return " "

    def _header(self, comparison: Comparison) -> Strip:
        width = self.size.width
        base = self.style("bold")
        minus = "-" if self.ascii else "−"
        if comparison.hunks:
            many = "change" if self.hunks == 1 else "changes"
            place = f"{self._current}/{self.hunks}" if self._current else f"{self.hunks}"
            state = f"{place} {many}  {minus}{comparison.removed} +{comparison.added}"
        else:
            state = comparison.note.split(" (")[0].removeprefix("the files ").removeprefix("are ")
        if self._changes_only:
            state += "  folded"
        titles = [
            title + ("" if lines else " (empty)") for title, lines in zip(self._titles, comparison.lines, strict=True)
        ]
        tail = f" {state} "
        room = max(0, width - cell_len(tail))
        if self.unified:
            half = max(0, (room - 5) // 2)
            first = min(half, cell_len(titles[0]))
            segments = [
                Segment(f" {minus} ", self.style("bold $error")),
                *cell_segments(titles[0], first, base, ellipsis=self.cut),
                Segment(" + ", self.style("bold $success")),
            ]
            segments += cell_segments(titles[1], max(0, room - first - 6), base, ellipsis=self.cut)
        else:
            left = self._left_width
            segments = [
                Segment(" ", base),
                *cell_segments(titles[0], left, base, ellipsis=self.cut),
                Segment("  ", base),
                *cell_segments(titles[1], max(0, room - left - 3), base, ellipsis=self.cut),
            ]
        segments.append(Segment(tail, self.style("dim")))
        return Strip(segments).adjust_cell_length(width, self.rich_style)

    def _signs(self, row: Row) -> tuple[str, str]:
        if row.equal:
            return " ", " "
        if row.alike:
            return "~", "~"
        return "-" if row.left >= 0 else " ", "+" if row.right >= 0 else " "

    def _side_line(self, row: Row, side: int, width: int, index: int, part: int) -> list[Segment]:
        """One side of a row: number, sign, text."""
        line = row[side]
        base = self.rich_style
        if line < 0:
            return [Segment(" " * width, base)]
        sign = self._signs(row)[side]
        behind = self._behind(row, side)
        gutter = f"{line + 1:>{self._number_width}} {sign} "[: max(0, width)]
        gutter = " " * len(gutter) if part else gutter
        strip = self._part(row, side, index, part)
        rest = Segment(" " * max(0, width - len(gutter) - self._text_width), behind)
        return [Segment(gutter, self._gutter_style(row, side)), *strip, rest]

    def _unified_line(self, row: Row, item: Item, index: int) -> Strip:
        number = self._number_width
        side = 0 if item.left and not item.right else 1
        left = f"{row.left + 1:>{number}}" if item.left and row.left >= 0 else " " * number
        right = f"{row.right + 1:>{number}}" if item.right and row.right >= 0 else " " * number
        sign = " " if row.equal else "-+"[side]
        gutter = f"{left} {right} {sign} "
        gutter = " " * len(gutter) if item.part else gutter
        return Strip([Segment(gutter, self._gutter_style(row, side)), *self._part(row, side, index, item.part)])

    def _behind(self, row: Row, side: int) -> Style:
        return self.rich_style if row.equal else self.style(("on $diff-del", "on $diff-add")[side])

    def _gutter_style(self, row: Row, side: int) -> Style:
        if row.equal:
            return self.style("dim")
        return self._behind(row, side) + Style(bold=True)

    def _part(self, row: Row, side: int, index: int, part: int) -> Strip:
        """The part of a side's text that stands on one line, with what a search found in it."""
        strip, comparison, width = self._side(row, side), self._comparison, self._text_width
        if self.pattern is not None and comparison is not None:
            strip = self.marked(strip, 2 * (index - part) + side, comparison.lines[side][row[side]])
        return strip.crop_extend(part * width, (part + 1) * width, self._behind(row, side))

    def _side(self, row: Row, side: int) -> Strip:
        comparison = self._comparison
        line = row[side]
        key = (side, line)
        strip = self._sides.get(key)
        if strip is not None or comparison is None:
            return strip or self.blank()
        text = comparison.lines[side][line]
        runs = comparison.code[side][line] if comparison.code else [("", text)]
        behind = self._behind(row, side)
        marks: list[tuple[int, int]] = []
        if row.alike:
            marks = alignment.changed_parts(comparison.lines[0][row.left], comparison.lines[1][row.right])[side]
        marked = self.style(("on $diff-del-strong", "on $diff-add-strong")[side])
        # Bold and underlined as well: there may be no colour, or none that this person sees.
        marked += Style(bold=True, underline=True if self.app.no_color else None)
        segments: list[Segment] = []
        position = 0
        for kind, run in runs:
            style = behind
            if kind:
                style += style_of(self.app, f"{'italic ' if kind == 'comment' else ''}$code-{kind}")
            segments += _split_at_marks(run, position, marks, style, marked)
            position += len(run)
        strip = Strip(segments or [Segment("", behind)])
        if len(self._sides) > 4000:
            self._sides.clear()
        self._sides[key] = strip
        return strip


def _split_at_marks(
    run: str, position: int, marks: list[tuple[int, int]], style: Style, marked: Style
) -> list[Segment]:
    """`run`, which begins at character `position` of its line, cut where marks begin and end."""
    over = Style(bgcolor=marked.bgcolor, bold=marked.bold, underline=marked.underline)
    segments: list[Segment] = []
    at, end = position, position + len(run)
    for start, stop in marks:
        start, stop = max(start, at), min(stop, end)
        if start >= stop:
            continue
        if start > at:
            segments.append(Segment(run[at - position : start - position], style))
        segments.append(Segment(run[start - position : stop - position], style + over))
        at = stop
    if at < end:
        segments.append(Segment(run[at - position :], style))
    return segments
