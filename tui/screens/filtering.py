"""A screen with one table that is sorted and chosen from by a key, and filtered by words: `/` opens the line under it,
escape clears the words before it leaves."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from rich.text import Text
from textual.binding import Binding
from textual.widgets import Input

from aisp.store.results.overview import Lesson
from aisp.store.text import clean_line
from aisp.tui import plain
from aisp.tui.aside import begin
from aisp.tui.findings import outcome_text
from aisp.tui.keymap import Key
from aisp.tui.screens.base import WorkScreen
from aisp.tui.themes import verdict_text
from aisp.tui.widgets.finding import WordsInput
from aisp.tui.widgets.lines import Refitted
from aisp.tui.widgets.table import Cell

if TYPE_CHECKING:
    from aisp.store import History

Read: TypeAlias = "Callable[[Sequence[Any], History], object]"
FILTER = Key("filter", "slash", "filter", "Show only what contains the words you type; escape clears.", "/")


class FilterInput(WordsInput):
    """One line under the table; what is typed filters at once."""

    DEFAULT_CSS = """
    FilterInput { display: none; height: 1; border: none; padding: 0 1; background: $surface; }
    FilterInput:focus { border: none; }
    FilterInput.-shown { display: block; }
    """
    ALLOW_MAXIMIZE = False


class FilteringScreen(WorkScreen):
    """Base of such a screen: it yields the table and a FilterInput `filter`, and draws what contains `filter_words`.

    Attributes:
        sorts, choices: names of its orders and of what it can show, the first of each to begin with.
    """

    sorts: ClassVar[Iterable[str]]
    choices: ClassVar[Iterable[str]]
    filter_words = ""

    def __init__(self) -> None:
        super().__init__()
        self._sort = next(iter(self.sorts))
        self._only = next(iter(self.choices))

    def on_mount(self) -> None:
        self.table.focus()
        self.draw()

    def on_refitted(self, message: Refitted) -> None:
        if message.pane is self.table:
            self.draw()

    def matches(self, *texts: str) -> bool:
        """Whether all of the words stand in these texts."""
        whole = " ".join(texts).casefold()
        return all(word in whole for word in self.filter_words.casefold().split())

    def nothing(self, one: str = "target") -> str:
        """Why no row is left, and what brings some back."""
        wanted = [f"“{self.filter_words}”"] if self.filter_words else []
        wanted += [self._only] if self._only != "all" else []
        ways = ["escape clears the words"] if self.filter_words else []
        ways += ["o shows another choice"] if self._only != "all" else []
        return f"No {one} is left by {' and '.join(wanted)}; {', '.join(ways)}"

    def action_sort(self) -> None:
        self._sort = _next(self._sort, self.sorts)
        self.draw_from_top()

    def action_only(self) -> None:
        self._only = _next(self._only, self.choices)
        self.draw_from_top()

    def draw_from_top(self) -> None:
        """Another order is looked at from its beginning."""
        self.draw()
        self.table.action_end(-1)

    def action_filter(self) -> None:
        field = self.query_one("#filter", FilterInput)
        field.add_class("-shown")
        field.display = True  # the class takes effect later, and so does `focus`: the next key is a letter of a word
        self.set_focus(field)

    def on_input_changed(self, message: Input.Changed) -> None:
        message.stop()
        self.filter_words = clean_line(message.value)
        self.draw()

    def on_input_submitted(self, message: Input.Submitted) -> None:
        message.stop()
        if self.filter_words:
            self.table.focus()
        else:
            self._close_filter()

    def _close_filter(self) -> None:
        field = self.query_one("#filter", FilterInput)
        field.value = self.filter_words = ""
        field.remove_class("-shown")
        field.display = False
        self.table.focus()
        self.draw()
        self.refresh_bindings()  # what escape does from here on

    @property
    def filtering(self) -> bool:
        return self.maximized is None and self.query_one("#filter", FilterInput).has_class("-shown")

    def key_label(self, binding: Binding) -> str:
        if binding.id == "back" and self.is_mounted and self.filtering:
            return "clear"
        return super().key_label(binding)

    async def action_back(self) -> None:
        """Leave the zoom, then the words, then the screen."""
        if self.filtering:
            self._close_filter()
        else:
            await super().action_back()


class LessonRows(FilteringScreen):
    """Base of such a screen whose rows are lessons, by their ids."""

    def __init__(self) -> None:
        super().__init__()
        self._rows: dict[str, tuple[object, list[Cell]]] = {}  # what a row hangs on, and its cells; by target
        self._active: dict[str, str] = {}  # a word for what goes on, by target
        self._problem = ""  # why the store cannot be read
        self._asking = False  # whether it is being asked: what changes meanwhile is asked for next

    asked_at_once: ClassVar[int]  # rows that the store is asked about in one go
    shown = frozenset(("catalog", "board", "runs", "status", "connection", "quarantines"))

    @property
    def target_id(self) -> str:
        return self.chosen_key

    def ask(self, wanted: Sequence[Any], read: Read, take: Callable[[Any, Any], bool]) -> None:
        """Ask the store in a thread what is not known of these rows, a few at a time, and draw what came.

        Args:
            read: of some of them, from the store.
            take: the same and what was read, None where there is no store yet; returns whether to go on.
        """
        if wanted and not self._problem and not self._asking:
            self._asking = True
            begin(self, partial(self._ask, wanted, read, take), group="rows")

    async def _ask(self, wanted: Sequence[Any], read: Read, take: Callable[[Any, Any], bool]) -> None:
        more = True
        for start in range(0, len(wanted), self.asked_at_once):
            if self.is_mounted and start:
                self.draw()
            some = wanted[start : start + self.asked_at_once]
            found, why = await self.workbench.read(partial(read, some))
            self._problem = f"the store cannot be read: {why}" if why else ""
            more = not why and take(some, found)
            if not more:
                break
        self._asking = not more
        if self.is_mounted:
            self.draw()
        self._asking = False

    def cached(self, target_id: str, hangs_on: object, make: Callable[[], list[Cell]]) -> list[Cell]:
        """A row's cells; the same list as before where nothing in it can have changed."""
        key = (hangs_on, self._active.get(target_id), self.app.theme, self.workbench.ascii)
        if target_id not in self._rows or self._rows[target_id][0] != key:
            self._rows[target_id] = (key, make())
        return self._rows[target_id][1]

    def outcome(self, lesson: Lesson, *, figure: bool = False) -> Text:
        """What goes on in a lesson, else what it comes to; with the speed-up where that has no column."""
        ascii_only = self.workbench.ascii
        if word := self._active.get(lesson.target.id):
            return Text(f"{'*' if ascii_only else '●'} {word}", "bold")
        if figure and lesson.ratio is not None:
            return verdict_text(lesson.outcome.value, lesson.ratio.speedup, ascii_only)
        return outcome_text(replace(lesson, missing=self.workbench.missing(lesson.target)), ascii_only)

    def choice_text(self, shown: int, of: int) -> str:
        """What the rows are chosen by and how many they are: ", only: not run, with “tma”: 3 of 48"."""
        words = f", with “{plain.fit(self.filter_words, 24)}”" if self.filter_words else ""
        only = "" if self._only == "all" else f", only: {self._only}"
        return f"{only}{words}: {shown if shown == of else f'{shown} of {of}'}"


def _next(name: str, names: Iterable[str]) -> str:
    known = list(names)
    return known[(known.index(name) + 1) % len(known)]
