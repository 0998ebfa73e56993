"""All lessons on one page: a row each with the speed-up as a bar on a log axis, what was predicted behind it, the share
of the speed of light, the verdict, and when and where it was measured. Sorted and filtered by a key.

What each lesson comes to, the orders and the choices are said in store.results.overview. Answers to predictions and the
hardware of runs are read from the store in a thread, a few lessons at a time, and only what is not known yet.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from rich.style import Style
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import BindingType

from aisp.store.results import overview
from aisp.store.results.overview import Lesson
from aisp.store.results.prediction import Answer
from aisp.store.results.tables import copied
from aisp.store.results.tables.lessons import LESSONS, PREDICTION_WORDS
from aisp.store.text import clean_line
from aisp.tui import plain
from aisp.tui.keymap import TARGET, Key, bind
from aisp.tui.results import STATE_WORDS
from aisp.tui.screens.base import Sizes, entitle, subtitle
from aisp.tui.screens.filtering import FILTER, FilterInput, LessonRows
from aisp.tui.themes import style_of, verdict_style
from aisp.tui.widgets.ratiobar import Axis, ratio_bar
from aisp.tui.widgets.table import Cell, Column, LiveTable, giving_way
from aisp.tui.widgets.textrows import TextRows

if TYPE_CHECKING:
    from aisp.store import History
    from aisp.store.results.reading import Bar, Reading
    from aisp.tui.model import RunView

LEGEND_ROWS = 18  # from here on a row says how the bars are to be read
LEAST_BAR = 14  # cells; where there is not so much room there is no bar
BAR_SHARE = 0.25  # of the width, which columns that may give way leave it
TICK_CELLS = 6  # room for one label of the axis
Asked = tuple[
    str, frozenset[str]
]  # what an answer to a prediction hangs on: the last result, and what is in quarantine

_NAME = (12, 30)  # cells of a lesson's id, at least and at most
_SAID = {column.key: column for column in LESSONS}
# In their order. Those with a rank give way where they would leave too little for the bar, the highest rank first.
_COLUMNS: tuple[tuple[int, Column], ...] = (
    (0, Column("outcome", "verdict", 11)),
    (0, Column("speedup", "speed-up", 8, "right")),
    (4, Column("interval", "[95 %]", 14)),
    (0, Column("bar", "", None)),
    (2, Column("predicted", "predicted", 19)),
    (1, Column("sol", "of light", 8, "right")),
    (3, Column("wall", "when", 10)),
    (5, Column("on", "on", 18)),
)


def columns_for(width: int, names: int) -> tuple[list[Column], int]:
    """The table's columns on `width` cells, and how wide the bar is; 0 where there is no room for one.

    Args:
        names: cells of the longest lesson's id.
    """
    name = max(_NAME[0], min(names, _NAME[1]))
    columns, bar = giving_way(_COLUMNS, width - name, round(max(LEAST_BAR, BAR_SHARE * width)))
    if bar < LEAST_BAR:
        return [Column("target", "lesson", None, ratio=1), *(one for one in columns if one.key != "bar")], 0
    found = [Column("bar", "", bar) if column.key == "bar" else column for column in columns]
    return [Column("target", "lesson", name), *found], bar


class LessonsScreen(LessonRows):
    sorts = overview.SORTS
    choices = overview.FILTERS
    BINDINGS: ClassVar[list[BindingType]] = bind(
        "lesson",
        Key("sort", "s", "sort", f"Sort by the next of: {', '.join(overview.SORTS)}."),
        Key("only", "o", "only", f"Show the next choice of: {', '.join(overview.FILTERS)}."),
        FILTER,
        *TARGET,
        "reload",
    )
    DEFAULT_CSS = """
    LessonsScreen #legend { display: none; background: $surface; }
    LessonsScreen.-tall #legend { display: block; }
    """
    own_keys_first = True
    heading = "All lessons"
    sizes: ClassVar[Sizes] = {"-tall": lambda size: size.height >= LEGEND_ROWS}
    chooses = "open('lesson')"
    asked_at_once = 8
    no_target = "Highlight a lesson first"

    def __init__(self) -> None:
        super().__init__()
        self._bar = 0  # cells of the bar
        self._shown: list[Lesson] = []
        self._facts: dict[str, dict[str, object]] = {}  # environments by hash
        self._answers: dict[str, tuple[Asked, Answer]] = {}  # by target
        self._known: dict[str, Lesson] = {}  # as drawn last, by target: what did not change is worked out once

    def compose_body(self) -> ComposeResult:
        yield TextRows(id="legend")
        yield LiveTable(id="lessons", classes="pane", empty="Reading the catalogue")
        yield FilterInput(placeholder="words of an id, title, technique, limiter, verdict or hardware", id="filter")

    def _lessons(self) -> list[Lesson]:
        catalog, app = self.workbench.catalog, self.workbench
        if catalog is None:
            return []
        live: dict[str, list[RunView]] = {}
        for run in app.model.runs.values():
            live.setdefault(run.record.target, []).append(run)
        self._active = {run.record.target: STATE_WORDS[run.record.state] for run in app.model.active_runs()}
        found = []
        for target in catalog.targets:
            result, attempt = app.last(target.id, live.get(target.id, ()))
            facts = self._facts.get(result.record.environment, {}) if result is not None else {}
            said = self._answers.get(target.id)
            held = app.held(target)
            known = said[1] if said is not None and said[0] == _asked(result, held) else None
            timed = bool(app.gpus) or app.model.status is None or overview.times_without_gpu(target)
            lesson = Lesson(target, result, attempt, facts, held, app.missing(target), timed, known)
            before = self._known.get(target.id)
            self._known[target.id] = before if before is not None and _alike(before, lesson) else lesson
            found.append(self._known[target.id])
        return found

    def _look_up(self, lessons: Sequence[Lesson]) -> None:
        wanted = [
            lesson
            for lesson in lessons
            if lesson.run is not None
            and (
                lesson.run.record.environment not in self._facts
                or (lesson.target.expect is not None and lesson.answer is None)
            )
        ]
        self.ask(wanted, _read_answers, self._take)

    def _take(self, _: object, found: Sequence[tuple[Lesson, dict[str, object], Answer | None]] | None) -> bool:
        for lesson, facts, said in found or ():
            assert lesson.run is not None
            self._facts[lesson.run.record.environment] = facts
            if said is not None:
                self._answers[lesson.target.id] = (_asked(lesson.run, lesson.held), said)
        return found is not None

    def draw(self) -> None:
        """Draw the rows, sorted and filtered, and ask the store what is not known."""
        table, catalog = self.table, self.workbench.catalog
        if catalog is None:
            return
        every = self._lessons()
        chosen = [
            lesson
            for lesson in every
            if overview.FILTERS[self._only](lesson)
            and overview.matches(lesson, self.filter_words, self._active.get(lesson.target.id, ""))
        ]
        self._shown = overview.ordered(chosen, self._sort)
        low, high = overview.span(every)
        columns, self._bar = columns_for(
            table.inner_width, max((plain.cells(one.target.id) for one in every), default=0)
        )
        axis = Axis(low, high, self._bar)
        if self._bar:
            scale = axis.scale(tuple(overview.ticks(low, high, self._bar // TICK_CELLS)))
            columns = [Column("bar", scale, self._bar) if column.key == "bar" else column for column in columns]
        table.columns = columns
        if not self._shown:
            table.empty = self.nothing("lesson") if every else "No lessons here; `aisp new NAME` makes one"
        keys = [column.key for column in columns]
        rows = []
        for one in self._shown:
            make = partial(lambda one: [self._cell(one, key, axis) for key in keys], one)
            rows.append((one.target.id, self.cached(one.target.id, (id(one), axis, tuple(keys)), make)))
        table.show(rows)
        entitle(table, f"Lessons by {self._sort}{self.choice_text(len(self._shown), len(every))}")
        self.row_changed()
        self.say("legend", self._legend())
        self._look_up(every)

    def _legend(self) -> Text:
        ascii_only = self.workbench.ascii
        pieces = ("=o", "[-o-]", ".....", "|") if ascii_only else ("━●", "├─●─┤", "░░░░░", "│")
        text = Text(" ")
        for sign, meaning in zip(pieces, ("speed-up", "its 95 % interval", "predicted", "1x"), strict=True):
            text.append(sign, self._behind if meaning == "predicted" else "bold").append(f" {meaning}   ", "dim")
        if self._problem:
            text.append(self._problem, "bold")
        return text

    @property
    def _behind(self) -> Style:
        return style_of(self.app, "$warning on $panel")

    def _cell(self, lesson: Lesson, key: str, axis: Axis) -> Cell:
        ratio, expect, answer = lesson.ratio, lesson.target.expect, lesson.answer
        if key == "outcome":
            return self.outcome(lesson)
        if key == "bar":
            figure = (ratio.speedup, ratio.low, ratio.high) if ratio is not None and ratio.speedup is not None else None
            return ratio_bar(
                axis,
                figure,
                expect.speedup if expect is not None else None,
                style=verdict_style(lesson.outcome.value if ratio is not None else "none"),
                # What was predicted for other hardware is there to be seen, not to be held against this figure.
                behind=self._behind if figure is None or lesson.meant else style_of(self.app, "dim"),
                ascii=self.workbench.ascii,
            )
        if key in ("speedup", "interval"):
            figure_text, _, interval = _SAID["speedup"].cell(lesson).partition(" ")
            return "" if ratio is None else figure_text if key == "speedup" else interval
        said = _SAID[key].cell(lesson)
        if key == "predicted":
            plainly = answer is not None and answer.says in PREDICTION_WORDS
            return Text("" if expect is None else said, ("" if answer and answer.met else "bold") if plainly else "dim")
        return "" if said == plain.DASH else said[:10] if key == "wall" else said

    def row_changed(self) -> None:
        """Under the table: the highlighted lesson's title, and why it has no figure or what must be known of it."""
        lesson = next((lesson for lesson in self._shown if lesson.target.id == self.target_id), None)
        told = "" if lesson is None else "; ".join(text for text in (lesson.target.title, lesson.why) if text)
        subtitle(self.table, plain.fit(clean_line(told), max(0, self.table.size.width - 4)))

    def copy_text(self) -> str:
        return "\n".join(copied(LESSONS, lesson) for lesson in self._shown)

    def action_reload(self) -> None:
        self._facts, self._answers, self._problem = {}, {}, ""
        self.workbench.reload()


def _asked(result: Reading | None, held: Mapping[str, Bar]) -> Asked:
    return (result.id if result is not None else "", frozenset(held))


def _alike(one: Lesson, other: Lesson) -> bool:
    """Whether two are made of the same: a run that goes on has another record after each event."""
    runs = ((one.run, other.run), (one.attempt, other.attempt))
    same = all(a is b or (a is not None and b is not None and a.record is b.record) for a, b in runs)
    rest = ("target", "facts", "held", "missing", "timed_here", "answer")
    return same and all(getattr(one, name) == getattr(other, name) for name in rest)


def _read_answers(lessons: Sequence[Lesson], history: History) -> list[tuple[Lesson, dict[str, object], Answer | None]]:
    """The hardware of the last results, and what answers the predictions; in a thread."""
    from aisp.tui.stored import Stored  # the store, which the first screen does without

    with Stored(history.path) as opened:
        return [
            (one, opened.facts(one.run.record), opened.answer(one.target)) for one in lessons if one.run is not None
        ]
