"""Problems in formats of others: all that a folder holds, what each takes and gives, and how to judge an answer to it.

Listed and read in a thread, importing nothing of theirs. Opened by `aisp-tui PATH`.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import BindingType

from aisp.store.text import clean_line
from aisp.tui import plain, problems
from aisp.tui.aside import aside, begin
from aisp.tui.keymap import Key, bind
from aisp.tui.screens.base import entitle
from aisp.tui.screens.filtering import FILTER, FilteringScreen, FilterInput
from aisp.tui.widgets.logpane import LogPane
from aisp.tui.widgets.table import Cell, Column, LiveTable
from aisp.tui.widgets.textrows import TextRows

if TYPE_CHECKING:
    from aisp.kernels.catalog.formats import Dialect, Listed

FORMAT_COLUMNS = 72  # from here on there is room for the format, level and number of each


def _read(dialect: Dialect, path: Path) -> tuple[list[str], str]:
    """What a problem says in lines, and the command that judges an answer to it, "" where none can be judged."""
    try:
        opened = dialect.read(path)
    except OSError as error:
        return [f"cannot be read: {clean_line(str(error))}"], ""
    if opened.problems:
        return ["cannot be judged:", *(f"  {clean_line(str(problem), limit=1000)}" for problem in opened.problems)], ""
    title, *rest = problems.opened_lines(dialect, opened)
    command = problems.command(opened)
    return [title, command, *rest], command


class ProblemsScreen(FilteringScreen):
    """See the module. `folder` is a folder of problems, or one problem."""

    BINDINGS: ClassVar[list[BindingType]] = bind(
        Key("sort", "s", "sort", "Sort as they lie there, by name, or those that cannot be judged first."), FILTER
    )
    sorts = ("as they lie there", "name", "cannot be judged")
    choices = ("all",)
    DEFAULT_CSS = """
    ProblemsScreen #table { height: 2fr; }
    ProblemsScreen #about { height: 1fr; min-height: 6; }
    """
    redrawn = True

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder
        self._found: list[tuple[Dialect, Listed]] | None = None  # None: not listed yet
        self._problem = ""
        self._command = ""
        self._shown: Path | None = None

    def compose_body(self) -> ComposeResult:
        yield TextRows(id="title")
        yield FilterInput(id="filter", placeholder="words of a name or format")
        yield LiveTable(id="table", name="Problems", empty="reading the folder")
        yield LogPane(id="about", classes="ruled", empty="")

    def on_mount(self) -> None:
        super().on_mount()
        entitle(self.query_one("#about"), "problem")
        begin(self, self._list, group="problems", exclusive=True)

    @property
    def header_title(self) -> str:
        return f"Problems in {clean_line(self.folder.name)}"

    async def _list(self) -> None:
        from aisp.kernels.catalog import formats  # parses: only where a folder of others is opened

        def listing() -> list[tuple[Dialect, Listed]]:
            found = formats.recognise(self.folder)
            if found is not None and found[1] is formats.Part.PROBLEM:
                return [(found[0], formats.Listed(None, None, self.folder.stem, self.folder))]
            return list(formats.listed(self.folder))

        try:
            self._found = await aside(listing)
        except OSError as error:
            self._found, self._problem = [], clean_line(str(error))
        self.draw()

    def draw(self) -> None:
        if not self.is_mounted:
            return
        found = self._found
        table = self.table
        if found is None:
            return
        wide = self.size.width >= FORMAT_COLUMNS
        counted = wide and any(each.number is not None for _, each in found)
        columns = [Column("format", "format", 17)] if wide else []
        if counted:
            columns += [Column("level", "level", 5, align="right"), Column("number", "no.", 5, align="right")]
        table.columns = [*columns, Column("name", "problem", None, ratio=1), Column("reason", "", None, ratio=2)]
        shown = [(dialect, each) for dialect, each in found if self.matches(dialect.TITLE, each.name, each.path.name)]
        if self._sort == "name":
            shown.sort(key=lambda pair: pair[1].name.casefold())
        elif self._sort == "cannot be judged":
            shown.sort(key=lambda pair: not pair[1].reason)
        table.show([(str(each.path), self._row(dialect, each, wide, counted)) for dialect, each in shown])
        self.say("title", Text(self._title(found, len(shown))))
        self.row_changed()

    def _row(self, dialect: Dialect, each: Listed, wide: bool, counted: bool) -> list[Cell]:
        cells: list[Cell] = [dialect.TITLE] if wide else []
        if counted:
            cells += [plain.DASH if number is None else str(number) for number in (each.level, each.number)]
        style = "dim" if each.reason else ""
        return [*cells, Text(clean_line(each.name), style), Text(clean_line(each.reason), "dim italic")]

    def _title(self, found: list[tuple[Dialect, Listed]], shown: int) -> str:
        if self._problem or not found:
            return self._problem or "no problem in a format that is known (docs/formats.md)"
        counted = Counter(dialect.TITLE for dialect, _ in found)
        parts = [f"{title} {plain.count(number)}" for title, number in counted.items()]
        broken = sum(bool(each.reason) for _, each in found)
        if broken:
            parts.append(f"{plain.count(broken)} cannot be judged")
        if shown != len(found):
            parts.append(f"{plain.count(shown)} shown")
        return ", ".join([plain.counted(len(found), "problem"), *parts, f"sorted: {self._sort}"])

    def row_changed(self) -> None:
        key = self.table.cursor_key
        pair = next((pair for pair in self._found or () if str(pair[1].path) == key), None)
        if pair is None or pair[1].path == self._shown:
            return
        self._shown, self._command = pair[1].path, ""
        begin(self, partial(self._tell, *pair), group="problem", exclusive=True)

    async def _tell(self, dialect: Dialect, each: Listed) -> None:
        lines, command = await aside(_read, dialect, each.path)
        if each.path != self._shown:
            return
        self._command = command
        self.query_one("#about", LogPane).prose(lines)

    def copy_text(self) -> str:
        return self._command
