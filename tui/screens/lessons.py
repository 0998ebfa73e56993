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
from textual import events
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.content import Content

from aisp.store.results import hardware, overview
from aisp.store.results.overview import Lesson, Outcome
from aisp.store.results.prediction import LOOK_BACK_RUNS, Answer, Says, answer
from aisp.store.text import clean_line
from aisp.tui import plain
from aisp.tui.aside import begin
from aisp.tui.earlier import environment, newest_first
from aisp.tui.findings import bar_sign
from aisp.tui.keymap import TARGET, Key, bind
from aisp.tui.results import STATE_WORDS
from aisp.tui.screens.base import entitle
from aisp.tui.screens.filtering import FILTER, FilteringScreen, FilterInput
from aisp.tui.themes import style_of, verdict_style, verdict_text
from aisp.tui.widgets.ratiobar import Axis, ratio_bar
from aisp.tui.widgets.table import GAP, Cell, Column, LiveTable
from aisp.tui.widgets.textrows import TextRows

if TYPE_CHECKING:
    from aisp.kernels.catalog.model import Expectation, Target
    from aisp.store import History
    from aisp.store.record import Run
    from aisp.store.results.reading import Bar, Reading
    from aisp.tui.model import RunView

SHOWN = {"catalog", "board", "runs", "status", "connection", "quarantines"}
LEGEND_ROWS = 18  # from here on a row says how the bars are to be read
LEAST_BAR = 14  # cells; where there is not so much room there is no bar
BAR_SHARE = 0.25  # of the width, which columns that may give way leave it
TICK_CELLS = 6  # room for one label of the axis
ASKED_AT_ONCE = 8  # lessons that the store is asked about in one go
Asked = tuple[
    str, frozenset[str]
]  # what an answer to a prediction hangs on: the last result, and what is in quarantine

_NAME = (12, 30)  # cells of a lesson's id, at least and at most
# In their order. Those with a rank give way where they would leave too little for the bar, the highest rank first.
_COLUMNS: tuple[tuple[int, Column], ...] = (
    (0, Column("outcome", "verdict", 11)),
    (0, Column("speedup", "speed-up", 8, "right")),
    (4, Column("interval", "[95 %]", 14)),
    (0, Column("bar", "", None)),
    (2, Column("predicted", "predicted", 19)),
    (1, Column("sol", "of light", 8, "right")),
    (3, Column("when", "when", 10)),
    (5, Column("on", "on", 18)),
)
_PREDICTED_WORDS = {
    Says.MET: "met",
    Says.MISSED: "missed",
    Says.UNMEASURED: "memory?",
    Says.QUARANTINED: "held",
    Says.DOUBTED: "doubted",
    Says.PORTABLE: "portable",
    Says.SOME_RUNGS: "some",
}


def columns_for(width: int, names: int) -> tuple[list[Column], int]:
    """The table's columns on `width` cells, and how wide the bar is; 0 where there is no room for one.

    Args:
        names: cells of the longest lesson's id.
    """
    name = max(_NAME[0], min(names, _NAME[1]))
    for least in range(max(rank for rank, _ in _COLUMNS), -1, -1):
        columns = [column for rank, column in _COLUMNS if rank <= least]
        bar = width - name - sum((column.width or 0) + GAP for column in columns)
        if bar >= max(LEAST_BAR, BAR_SHARE * width):
            break
    if bar < LEAST_BAR:
        return [Column("name", "lesson", None, ratio=1), *(one for one in columns if one.key != "bar")], 0
    found = [Column("bar", "", bar) if column.key == "bar" else column for column in columns]
    return [Column("name", "lesson", name), *found], bar


class LessonsScreen(FilteringScreen):
    """See the module."""

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
    LessonsScreen #lessons { height: 1fr; }
    """
    own_keys_first = True
    no_target = "Highlight a lesson first"

    def __init__(self) -> None:
        super().__init__()
        self._bar = 0  # cells of the bar
        self._shown: list[Lesson] = []
        self._facts: dict[str, dict[str, object]] = {}  # environments by hash
        self._answers: dict[str, tuple[Asked, Answer]] = {}  # by target
        self._known: dict[str, Lesson] = {}  # as drawn last, by target: what did not change is worked out once
        self._rows: dict[str, tuple[object, list[Cell]]] = {}  # what a row hangs on, and its cells; by target
        self._active: dict[str, str] = {}  # a word for what goes on, by target
        self._problem = ""
        self._reading = False  # whether the store is being asked: what changes meanwhile is asked for next

    @property
    def header_title(self) -> str:
        return "All lessons"

    @property
    def target_id(self) -> str:
        return (self.table.cursor_key or "") if self.is_mounted else ""

    def compose_body(self) -> ComposeResult:
        yield TextRows(id="legend")
        yield LiveTable(id="lessons", classes="pane", empty="Reading the catalogue")
        yield FilterInput(placeholder="words of an id, title, technique, limiter, verdict or hardware", id="filter")

    def on_resize(self, event: events.Resize) -> None:
        self.set_class(event.size.height >= LEGEND_ROWS, "-tall")

    def refresh_from(self, names: set[str]) -> None:
        super().refresh_from(names)
        if self.is_mounted and (not names or names & SHOWN):
            self.draw()

    # -- what there is -----------------------------------------------------------------------------------------

    def _lessons(self) -> list[Lesson]:
        """Every lesson of the catalogue with what is known of it."""
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
        """Ask the store what is not known of these lessons yet."""
        wanted = [
            lesson
            for lesson in lessons
            if lesson.run is not None
            and (
                lesson.run.record.environment not in self._facts
                or (lesson.target.expect is not None and lesson.answer is None)
            )
        ]
        if wanted and not self._problem and not self._reading:
            self._reading = True
            begin(self, partial(self._read, wanted), group="lessons")

    async def _read(self, wanted: Sequence[Lesson]) -> None:
        for start in range(0, len(wanted), ASKED_AT_ONCE):
            some = wanted[start : start + ASKED_AT_ONCE]
            try:
                found = await self.workbench.stored(partial(_read_answers, some))
            except Exception as error:
                self._problem = clean_line(f"the store cannot be read: {error}")
                break
            for lesson, facts, said in found or ():
                assert lesson.run is not None
                self._facts[lesson.run.record.environment] = facts
                if said is not None:
                    self._answers[lesson.target.id] = (_asked(lesson.run, lesson.held), said)
            if found is None:
                break
        self._reading = False
        if self.is_mounted:
            self.draw(ask=False)

    # -- drawing -----------------------------------------------------------------------------------------------

    def draw(self, *, ask: bool = True) -> None:
        """Draw the rows, sorted and filtered; `ask` the store what is not known."""
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
        table.show([(lesson.target.id, self._row(lesson, axis, keys)) for lesson in self._shown])
        self._say_title(len(every))
        self._say_why()
        self.say("legend", self._legend())
        if ask:
            self._look_up(every)

    def _say_title(self, count: int) -> None:
        words = f", with “{plain.fit(self.filter_words, 24)}”" if self.filter_words else ""
        shown = str(count) if len(self._shown) == count else f"{len(self._shown)} of {count}"
        only = "" if self._only == "all" else f", only: {self._only}"
        entitle(self.table, f"Lessons by {self._sort}{only}{words}: {shown}")

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

    def _row(self, lesson: Lesson, axis: Axis, keys: Sequence[str]) -> list[Cell]:
        """A lesson's cells; the same list as before where nothing in it can have changed."""
        name = lesson.target.id
        hangs_on = (id(lesson), axis, tuple(keys), self._active.get(name), self.app.theme, self.workbench.ascii)
        if name not in self._rows or self._rows[name][0] != hangs_on:
            cells = self._cells(lesson, axis, keys)
            self._rows[name] = (hangs_on, [cells[key] for key in keys])
        return self._rows[name][1]

    def _cells(self, lesson: Lesson, axis: Axis, keys: Sequence[str]) -> dict[str, Cell]:
        ascii_only = self.workbench.ascii
        ratio, run, expect = lesson.ratio, lesson.run, lesson.target.expect
        outcome = lesson.outcome
        figure = (ratio.speedup, ratio.low, ratio.high) if ratio is not None and ratio.speedup is not None else None
        cells: dict[str, Cell] = {
            "name": lesson.target.id,
            "outcome": self._outcome(lesson),
            "speedup": plain.speedup(ratio.speedup) if ratio is not None else "",
            "interval": plain.bounds(ratio.low, ratio.high).strip() if ratio is not None else "",
            "predicted": predicted_text(lesson, expect) if expect is not None else "",
            "sol": plain.percent(lesson.sol) if lesson.sol is not None else "",
            "on": hardware.short(clean_line(lesson.on)),
            "when": plain.local_time(run.record.wall)[:10] if run is not None else "",
        }
        if "bar" in keys:
            cells["bar"] = ratio_bar(
                axis,
                figure,
                expect.speedup if expect is not None else None,
                style=verdict_style(outcome.value if ratio is not None else "none"),
                # What was predicted for other hardware is there to be seen, not to be held against this figure.
                behind=self._behind if figure is None or lesson.meant else style_of(self.app, "dim"),
                ascii=ascii_only,
            )
        return cells

    def _outcome(self, lesson: Lesson) -> Text:
        ascii_only = self.workbench.ascii
        if word := self._active.get(lesson.target.id):
            return Text(f"{'*' if ascii_only else '●'} {word}", "bold")
        outcome = lesson.outcome
        if outcome.judged:
            return verdict_text(outcome.value, None, ascii_only).append(f" {outcome.value}")
        if outcome is Outcome.SUSPECT:
            return Text("! suspect", "bold")
        if outcome is Outcome.FAILED and lesson.run is not None:
            return Text(f"! {STATE_WORDS[lesson.run.record.state]}", "bold")
        if outcome.bad:
            word = "held" if outcome is Outcome.QUARANTINED else outcome.value
            return Text(f"{bar_sign(ascii_only)} {word}", verdict_style("slower"))
        if outcome is Outcome.NOT_HERE:
            return Text(lesson.missing.removeprefix("needs ").partition(":")[0], "dim italic")
        return Text(outcome.value, "dim")

    # -- the highlighted lesson --------------------------------------------------------------------------------

    def on_live_table_highlighted(self, message: LiveTable.Highlighted) -> None:
        message.stop()
        self._say_why()
        self.refresh_bindings()

    def _highlighted(self) -> Lesson | None:
        return next((lesson for lesson in self._shown if lesson.target.id == self.target_id), None)

    def _say_why(self) -> None:
        """Under the table: the highlighted lesson's title, and why it has no figure or what must be known of it."""
        lesson = self._highlighted()
        told = "" if lesson is None else "; ".join(text for text in (lesson.target.title, lesson.why) if text)
        self.table.border_subtitle = Content(plain.fit(clean_line(told), max(0, self.table.size.width - 4)))

    def copy_text(self) -> str:
        """The rows as they are shown, as text."""
        return "\n".join(row_text(lesson) for lesson in self._shown)

    # -- keys --------------------------------------------------------------------------------------------------

    def on_live_table_chosen(self, message: LiveTable.Chosen) -> None:
        message.stop()
        self.action_open("lesson")

    def action_reload(self) -> None:
        """Read everything again."""
        self._facts, self._answers, self._problem = {}, {}, ""
        self.workbench.reload()


def predicted_text(lesson: Lesson, expect: Expectation) -> Text:
    """The predicted range, and whether it was met, or the hardware that it speaks of."""
    text = Text(f"{plain.number(expect.speedup[0], 2)}..{plain.number(expect.speedup[1], 2)}x ")
    said = lesson.answer
    if said is not None and said.says in _PREDICTED_WORDS:
        return text.append(_PREDICTED_WORDS[said.says], "" if said.met else "bold")
    return text.append(f"on {hardware.short(clean_line(expect.on))}", "dim")


def row_text(lesson: Lesson) -> str:
    """A lesson on a line of text."""
    ratio, expect = lesson.ratio, lesson.target.expect
    parts = [lesson.target.id, lesson.outcome.value]
    parts += [plain.speedup(ratio.speedup, ratio.low, ratio.high)] if ratio is not None else []
    parts += [f"predicted {predicted_text(lesson, expect).plain}"] if expect is not None else []
    parts += [f"{plain.percent(lesson.sol)} of the speed of light"] if lesson.sol is not None else []
    parts += [f"on {clean_line(lesson.on)}"] if lesson.on else []
    parts += [plain.local_time(lesson.run.record.wall)] if lesson.run is not None else []
    return "  ".join(parts)


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
    known: dict[str, dict[str, object]] = {}

    def facts(run: Run) -> dict[str, object]:
        if run.environment not in known:
            known[run.environment] = environment(history, run)
        return known[run.environment]

    found = []
    for lesson in lessons:
        target: Target = lesson.target
        assert lesson.run is not None
        said = None
        if target.expect is not None:
            runs = newest_first(history, target.id, LOOK_BACK_RUNS)
            said = answer(runs, target, facts, quarantined=bool(lesson.held))
        found.append((lesson, facts(lesson.run.record), said))
    return found
