"""A suite on one page: whether its targets are still as fast as they were. A row each with the verdict of its last run,
its history in a row of cells, and what it came to against the last and the best comparable run.

What a run says against earlier ones is said in store.results.regression, which figures may be shown in
store.results.overview, and the suite in one number in store.results.suite. The store is read in a thread, a few
targets at a time, and only what is not known yet.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from rich.style import Style
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container, Vertical
from textual.widgets import Static

from aisp.engine.protocol.requests import FrozenContract
from aisp.kernels.catalog.contracts import Cache
from aisp.store.results import busy, hardware, regression
from aisp.store.results.overview import Lesson
from aisp.store.results.regression import Against, Change
from aisp.store.results.tables import copied
from aisp.store.results.tables.suites import TARGETS, Target
from aisp.store.text import clean_line
from aisp.tui import plain
from aisp.tui.aside import aside, begin
from aisp.tui.keymap import TARGET, Key, bind
from aisp.tui.results import STATE_WORDS
from aisp.tui.screens.base import ScrollPane, Sizes, entitle
from aisp.tui.screens.filtering import FILTER, FilterInput, LessonRows
from aisp.tui.suites import NOT_RUN, Found, Loaded, Wanted, load, mean_text, read_contract, read_found
from aisp.tui.themes import VERDICT_SIGNS, VERDICT_SIGNS_ASCII, style_of, verdict_style, verdict_text
from aisp.tui.widgets.sparkline import APART, APART_ASCII, NONE, Spot, sparkline
from aisp.tui.widgets.table import Cell, Column, LiveTable, giving_way
from aisp.tui.widgets.textrows import TextRows

if TYPE_CHECKING:
    from aisp.kernels.catalog.model import Catalog
    from aisp.kernels.catalog.suites import Entry

FIRST_SUITE = "tier1"
WIDE_COLUMNS = 160  # from here on the sentences stand beside the table
LEGEND_ROWS = 20  # from here on a row says how the cells of a history are to be read
FIGURE_COLUMNS = 100  # from here on the speed-up has a column of its own
LEAST_SPARK, MOST_SPARK = 8, 48

_NAME = (14, 46)  # cells of a target's id, at least and at most
# In their order. Those with a rank give way where they would leave too little for the history, the highest rank first.
_COLUMNS: tuple[tuple[int, Column], ...] = (
    (0, Column("verdict", "verdict", 11)),
    (1, Column("speedup", "speed-up", 8, "right")),
    (2, Column("interval", "[95 %]", 14)),
    (0, Column("spark", "history", None, "right")),
    (0, Column("last", "against last", 16)),
    (0, Column("best", "against best", 12)),
    (3, Column("wall", "when", 10)),
    (4, Column("on", "on", 18)),
)
_SIGN_OF = dict.fromkeys(Change, "none") | {
    Change.WORSE: "slower",
    Change.BETTER: "faster",
    Change.SAME: "same",
    Change.UNDECIDED: "undecided",
}


def columns_for(width: int, names: int, runs: int) -> list[Column]:
    """The table's columns on `width` cells.

    Args:
        names: cells of the longest target's id.
        runs: how many the longest history has.
    """
    least_name = max(_NAME[0], min(names, 20))
    spark_least = max(LEAST_SPARK, min(runs, 12))
    columns, spare = giving_way(_COLUMNS, width - least_name, spark_least)
    name = min(max(names, _NAME[0]), _NAME[1], least_name + max(0, spare - spark_least))
    spark = max(LEAST_SPARK, min(spare - (name - least_name), MOST_SPARK, max(runs, LEAST_SPARK)))
    found = [Column("spark", "history", spark, "right") if column.key == "spark" else column for column in columns]
    return [Column("target", "target", name), *found]


FILTERS = (
    "all",
    Change.WORSE.value,
    Change.BETTER.value,
    Change.UNDECIDED.value,
    Change.NOT_COMPARABLE.value,
    Change.LEFT_OUT.value,
    NOT_RUN,
)
_GRAVEST = (
    Change.LOST,
    Change.WORSE,
    Change.UNDECIDED,
    Change.NOT_COMPARABLE,
    Change.LEFT_OUT,
    Change.BETTER,
    Change.SAME,
    Change.FIRST,
)
SORTS: Mapping[str, Callable[[Found], Any]] = {
    "suite": lambda found: None,  # the suite's own order
    "change": lambda found: (_GRAVEST.index(found.row.outcome), (found.row.told and found.row.told.ratio) or 1.0),
    "speed-up": lambda found: (
        -found.lesson.ratio.speedup if found.lesson.ratio and found.lesson.ratio.speedup else None
    ),
    "age": lambda found: found.lesson.run.record.wall if found.lesson.run is not None else None,
}


class SuiteScreen(LessonRows):
    """See the module.

    Args:
        suite: which to begin with; "" for tier1, else the first there is.
    """

    sorts = SORTS
    choices = FILTERS
    BINDINGS: ClassVar[list[BindingType]] = bind(
        "lesson",
        Key("step_suite(1)", "right_square_bracket", "suite", "Go to the next suite.", "[ ]"),
        Key("step_suite(-1)", "left_square_bracket", "", "Go to the suite before."),
        Key("only", "o", "only", f"Show the next choice of: {', '.join(FILTERS)}."),
        Key("run_suite", "a", "run suite", "Run every target of the suite as the suite says, after a question."),
        Key("sort", "s", "sort", f"Sort by the next of: {', '.join(SORTS)}."),
        FILTER,
        Key("open('history')", "h", "", "Show every stored run of the target."),
        *TARGET,
        "reload",
    )
    DEFAULT_CSS = """
    SuiteScreen #score { background: $surface; }
    SuiteScreen #legend { display: none; background: $surface; }
    SuiteScreen.-tall #legend { display: block; }
    SuiteScreen #left { width: 1fr; height: 1fr; }
    SuiteScreen #about { height: 8; padding: 0 1; }
    SuiteScreen #about Static { height: auto; }
    SuiteScreen.-tall #about { height: 30%; min-height: 8; }
    SuiteScreen.-short #about { height: 3; border: none; }
    SuiteScreen.-wide #about { width: 38%; height: 1fr; max-height: 100%; }
    """
    words = ("noise floor", "verdict")
    own_keys_first = True
    sizes: ClassVar[Sizes] = {
        "-tall": lambda size: size.height >= LEGEND_ROWS,
        "-short": lambda size: size.height < 16,
        "-wide": lambda size: size.width >= WIDE_COLUMNS,
    }
    chooses = "open('lesson')"
    asked_at_once = 3

    def __init__(self, suite: str = "") -> None:
        super().__init__()
        self._chosen = suite
        self._suites: dict[str, Loaded] = {}
        self._problems: tuple[str, ...] = ()  # of files of which no suite came
        self._of_catalog: Catalog | None = None  # that the suites were resolved with
        self._shown: list[tuple[Entry, Found | None]] = []
        self._known: dict[tuple[object, ...], tuple[object, Found]] = {}  # by Loaded.place
        self._asked: list[Found] = []  # of the suite, as they were found
        self._staying: list[Found] = []  # the same, with what stays when so many are asked

    @property
    def header_title(self) -> str:
        loaded = self._loaded
        if loaded is None:
            return "Suite"
        at = f"{list(self._suites).index(self._chosen) + 1} of {len(self._suites)}"
        return f"Suite {self._chosen} ({at}): {loaded.suite.title}"

    @property
    def _loaded(self) -> Loaded | None:
        return self._suites.get(self._chosen)

    def compose_body(self) -> ComposeResult:
        yield TextRows(id="score")
        yield TextRows(id="legend")
        with Container(id="panes"):
            with Vertical(id="left"):
                yield LiveTable(id="targets", classes="pane", empty="Reading the suites")
                yield FilterInput(placeholder="words of an id, title, verdict, change or reason", id="filter")
            with ScrollPane(id="about", classes="pane") as about:
                about.border_title = "Against earlier runs"
                yield Static(markup=False)

    def theme_changed(self) -> None:
        super().theme_changed()
        self._about_drawn = None

    async def _read_suites(self, catalog: Catalog) -> None:
        self._suites, self._problems = await aside(load, catalog)
        if self._chosen not in self._suites:
            if self._chosen:
                self.notify(
                    f"There is no suite {self._chosen}; there are {', '.join(self._suites)}", severity="warning"
                )
            self._chosen = FIRST_SUITE if FIRST_SUITE in self._suites else next(iter(self._suites), "")
        if self.is_mounted:
            self.draw()
            self.renew_header()

    @property
    def entries(self) -> tuple[Entry, ...]:
        return self._loaded.entries if self._loaded is not None else ()

    def _found(self) -> list[tuple[Entry, Found | None]]:
        """Every target of the suite with what is known of it, None where nobody has looked; asks for what is not."""
        app = self.workbench
        ended: dict[str, list[str]] = {}
        for run in app.model.runs.values():
            if run.record.state.final:
                ended.setdefault(run.record.target, []).append(run.id)
        self._active = {run.record.target: STATE_WORDS[run.record.state] for run in app.model.active_runs()}
        found: list[tuple[Entry, Found | None]] = []
        wanted: list[Wanted] = []
        loaded = self._loaded
        for entry in loaded.entries if loaded is not None else ():
            assert loaded is not None
            held = app.held(entry.target)
            board = entry.target.known_in(app.board)
            key = (tuple(ended.get(entry.target.id, ())), board.id if board is not None else "", frozenset(held))
            known = self._known.get(loaded.place(entry))
            found.append((entry, known[1] if known is not None else None))
            if known is None or known[0] != key or known[1].lesson.target is not entry.target:
                wanted.append(Wanted(loaded, entry, held, key))
        self.ask(wanted if app.board_read else (), read_found, self._take)
        return found

    def _take(self, some: Sequence[Wanted], answers: Sequence[tuple[Wanted, Found]] | None) -> bool:
        if answers is None:  # there is no store yet
            answers = [(one, Found(Lesson(one.entry.target), regression.row(one.entry.target.id, ()))) for one in some]
        for one, found in answers:
            self._known[one.loaded.place(one.entry)] = (one.key, found)
        return True

    def _stay(self, found: Sequence[tuple[Entry, Found | None]]) -> list[tuple[Entry, Found | None]]:
        """The same with what stays worse or better when so many are asked."""
        asked = [one for _, one in found if one is not None]
        if asked != self._asked:
            rows = regression.corrected(one.row for one in asked)
            self._asked = asked
            self._staying = [Found(one.lesson, row) for one, row in zip(asked, rows, strict=True)]
        staying = iter(self._staying)
        return [(entry, None if one is None else next(staying)) for entry, one in found]

    def draw(self) -> None:
        catalog = self.workbench.catalog
        if catalog is not None and catalog is not self._of_catalog:
            self._of_catalog = catalog
            begin(self, partial(self._read_suites, catalog), group="suites", exclusive=True)
        table = self.table
        every = self._stay(self._found())
        chosen = [pair for pair in every if self._kept(*pair)]
        self._shown = sorted(chosen, key=self._place)
        names = max((plain.cells(entry.target.id) for entry, _ in every), default=0)
        runs = max((len(found.row.past) for _, found in every if found is not None), default=0)
        table.columns = columns_for(table.inner_width, names, runs)
        if not self._shown:
            table.empty = self.nothing() if every else self._no_targets()
        keys = [column.key for column in table.columns]
        spark = next((column.width or 0 for column in table.columns if column.key == "spark"), 0)
        rows = []
        for entry, found in self._shown:
            hangs_on = (found, tuple(keys), spark, self.workbench.missing(entry.target))
            make = partial(self._cells, entry, found, keys, spark)
            rows.append((entry.target.id, self.cached(entry.target.id, hangs_on, make)))
        table.show(rows)
        order = "" if self._sort == "suite" else f" by {self._sort}"
        mode = "quick" if self._loaded is not None and self._loaded.suite.how.quick else "full"
        entitle(table, f"Last {mode} runs{order}{self.choice_text(len(self._shown), len(every))}")
        self._say_score(every)
        self.say("legend", self._legend())
        self.row_changed()

    def _place(self, pair: tuple[Entry, Found | None]) -> tuple[Any, ...]:
        """Where a row stands in the order; those without a key come last."""
        key = None if pair[1] is None else SORTS[self._sort](pair[1])
        return (1,) if key is None else (0, key)

    def _kept(self, entry: Entry, found: Found | None) -> bool:
        kind = found.kind if found is not None else ""
        if self._only not in ("all", kind):
            return False
        target = entry.target
        said = [target.id, target.title, *target.techniques, kind, self._active.get(target.id, "")]
        if found is not None:
            said += [found.lesson.word, found.row.sentence(), found.lesson.on]
        return self.matches(*said)

    def _no_targets(self) -> str:
        if self._of_catalog is None or (not self._suites and not self._problems):
            return "Reading the suites"
        if not self._suites:
            return "There is no suite: a TOML file in the folder `suites` of your targets makes one"
        return f"No target of {clean_line(self._chosen)} is in this catalogue; ] goes to the next suite"

    def _say_score(self, every: Sequence[tuple[Entry, Found | None]]) -> None:
        rows = [Text(" ").append(mean_text(every, wide=self.size.width >= FIGURE_COLUMNS))]
        ran = [found.row for _, found in every if found is not None and found.kind != NOT_RUN]
        text = Text(" ")
        for change, count in regression.tally(ran).items():
            if count or change in (Change.WORSE, Change.BETTER):
                style = "bold" if change is Change.LEFT_OUT else verdict_style(_SIGN_OF[change])
                text.append(f"{count} {change.words}", style if count else "dim").append("   ")
        if not_run := sum(found is not None and found.kind == NOT_RUN for _, found in every):
            text.append(f"{not_run} {NOT_RUN}").append("   ")
        met = sum(found is not None and found.busy for _, found in every)
        if on_busy := busy.tally(met):
            text.append(on_busy, "bold").append("   ")
        if unread := sum(found is None for _, found in every):
            text.append(f"reading {unread} of {len(every)}", "dim")
        rows.append(text)
        told = [self._problem] if self._problem else []
        told += [clean_line(f"! {one}") for one in (*(self._loaded.told if self._loaded else ()), *self._problems)]
        if told:
            more = f" (and {len(told) - 1} more)" if len(told) > 1 else ""
            rows.append(Text(" ").append(told[0] + more, "bold"))
        self.give_rows(self.query_one("#score"), len(rows))
        self.say("score", *rows)

    def _legend(self) -> Text:
        ascii_only = self.workbench.ascii
        low, high, apart = (".", "%", APART_ASCII) if ascii_only else ("▂", "▇", APART)
        wide = self.size.width >= FIGURE_COLUMNS + 20
        text = Text(" ").append(f"{low}{high}", style_of(self.app, "$series-1"))
        text.append(" a run's time, taller is slower   " if wide else " time, taller: slower   ", "dim")
        text.append(low, style_of(self.app, "$series-1") + self._band)
        text.append(" its interval is longer than a step   " if wide else " unsure by a step   ", "dim")
        text.append(apart, "dim")
        text.append(" not comparable with the newest   " if wide else " not comparable   ", "dim")
        return text.append(NONE, "dim").append(" no time", "dim")

    @property
    def _band(self) -> Style:
        return style_of(self.app, "on $panel")

    def _cells(self, entry: Entry, found: Found | None, keys: Sequence[str], spark: int) -> list[Cell]:
        cells: dict[str, Cell] = {"target": entry.target.id}
        if found is None:
            going = entry.target.id in self._active
            cells["verdict"] = self.outcome(Lesson(entry.target)) if going else Text("reading", "dim")
            return [cells.get(key, "") for key in keys]
        lesson, row, ratio = found.lesson, found.row, found.ratio
        cells["verdict"] = self.outcome(lesson, figure="speedup" not in keys)
        if lesson.outcome.compared and not found.shown and entry.target.id not in self._active:
            cells["verdict"] = Text(Change.LEFT_OUT.value, "dim")
        cells["spark"] = self._spark(found, spark)
        cells["on"] = hardware.short(clean_line(lesson.on))
        if ratio is not None:
            cells["speedup"] = plain.speedup(ratio.speedup)
            cells["interval"] = plain.bounds(ratio.low, ratio.high).strip()
        if lesson.run is not None:
            first = Text("first run" if found.shown else "", "dim")
            cells["last"] = self._change(row.last) if row.last is not None else first
            cells["wall"] = plain.local_time(lesson.run.record.wall)[:10]
        cells["best"] = self._change(row.best) if row.best is not None else ""
        return [cells.get(key, "") for key in keys]

    def _spark(self, found: Found, width: int) -> Text:
        """The history; none of a target of which a rung is held against it today."""
        if found.lesson.held and not found.shown:
            return Text("")
        spots = [Spot(one.median_ms, one.low_ms, one.high_ms, not one.comparable) for one in found.row.past]
        newest = verdict_style(_SIGN_OF[found.row.outcome]) if found.shown else Style()
        return sparkline(
            spots,
            width,
            style=style_of(self.app, "$series-1"),
            newest=newest + Style(bold=True),
            band=self._band,
            ascii=self.workbench.ascii,
        )

    def _change(self, against: Against) -> Text:
        ascii_only = self.workbench.ascii
        sign = verdict_text(_SIGN_OF[against.change], None, ascii_only)
        if against.change in (Change.SAME, Change.NOT_COMPARABLE) or against.ratio is None:
            return sign.append(f" {against.change.value}")
        slower = against.ratio < 1
        figure = plain.percent(max(against.ratio, 1 / against.ratio) - 1, 1)
        if against.change is Change.UNDECIDED:
            signs = VERDICT_SIGNS_ASCII if ascii_only else VERDICT_SIGNS
            sign.append(f" {signs['slower' if slower else 'faster']}")
        return sign.append(f" {figure}")

    def row_changed(self) -> None:
        """What the highlighted target was compared with, what confirms it, which cause to look at first."""
        chosen = next((pair for pair in self._shown if pair[0].target.id == self.target_id), None)
        text = Text() if chosen is None else about(*chosen)
        if text != self._about_drawn:
            self._about_drawn = text
            self.query_one("#about Static", Static).update(text)

    _about_drawn: Text | None = None

    def copy_text(self) -> str:
        return "\n".join(
            entry.target.id if found is None else copied(TARGETS, Target(found.row)) for entry, found in self._shown
        )

    def action_open(self, name: str) -> None:
        """Open a screen; in the place of a lesson the run that goes on."""
        if name == "lesson" and self.workbench.model.active_run(self.target_id) is not None:
            self.action_open_running()
        else:
            super().action_open(name)

    def action_step_suite(self, by: int) -> None:
        names = list(self._suites)
        if len(names) < 2:
            self.notify("There is no other suite")
            return
        self._chosen = names[(names.index(self._chosen) + by) % len(names)]
        self.draw_from_top()
        self.renew_header()

    def action_reload(self) -> None:
        self._known, self._problem, self._of_catalog = {}, "", None
        self.workbench.reload()

    def _run_targets(self, *, quick: bool) -> None:
        """Run the highlighted target on the suite's case and with its rungs."""
        if not self.target_id:
            self.notify(self.no_target, severity="warning")
            return
        self._start_of([self.target_id], quick, self.show_run)

    def action_run_suite(self) -> None:
        if self.entries:
            begin(self, self._run_suite, group="ask", exclusive=True)
        else:
            self.notify("There is no target to run", severity="warning")

    async def _run_suite(self) -> None:
        loaded = self._suites[self._chosen]
        chosen, entries = loaded.suite, loaded.entries
        contract, why = await aside(read_contract, chosen)
        if why:
            self.notify(f"{self._chosen} is not run: {why}", severity="error", timeout=12)
            return
        names = [entry.target.id for entry in entries]
        word = "quick" if chosen.how.quick else "full"
        question = f"Queue {plain.counted(len(names), f'{word} run')}, all of {self._chosen}?"
        detail = await self.workbench.expected_text(names, chosen.how.quick)
        if contract is not None:
            detail += f" Each is meant to keep the contract {contract.name}."
        if await self.workbench.confirmed(question, detail):
            frozen = None
            if contract is not None:
                frozen = FrozenContract(name=contract.name, sha256=contract.sha256, document=contract.document())
            # A second harness would take its time in every run: as the command line's.
            self._start_of(names, chosen.how.quick, self.workbench.stay, naive=False, contract=frozen)

    def _start_of(self, names: list[str], quick: bool, show: Callable[[str], None], **more: Any) -> None:
        """Start runs of these on the suite's cases, with its rungs, in its manner; `more`: fields of the requests."""
        how = self._suites[self._chosen].suite.how
        entries = {entry.target.id: entry for entry in self.entries}

        def fields(target_id: str) -> dict[str, Any]:
            entry = entries[target_id]
            found = more | self.workbench.run_fields(target_id)
            found |= {"case": entry.case, "gpu_case": True} if entry.case else {}
            found |= {"rungs": list(entry.rungs)} if entry.rungs else {}
            found |= {"cache": Cache.WARM} if how.warm else {}
            found |= {"validity": how.policy.value}
            return found | ({"replicas": how.replicas} if how.replicas and quick == how.quick else {})

        self.workbench.start_runs(names, quick=quick, show=show, fields=fields)


def about(entry: Entry, found: Found | None) -> Text:
    """All that is known of a target: its title, what it came to, what else changed, and its runs."""
    text = Text(clean_line(entry.target.title), "bold")
    if found is None:
        return text.append("\nIts runs are being read.", "not bold dim")
    row, lesson = found.row, found.lesson
    told = [sentence_of(found)]
    if row.best is not None and row.now is not None and row.best is not row.told and not row.same_pair:
        told.append(f"Against the best: {regression.sentence(row.best, row.now)}.")
    elif row.told is row.best and row.last is not None and row.now is not None and not row.same_pair:
        told.append(f"Against the last: {regression.sentence(row.last, row.now)}.")
    if row.told is not None and len(row.told.causes) > 1:
        told.append(f"What else differs: {'; '.join(regression.told(one) for one in row.told.causes[1:])}.")
    if lesson.attempt is not None or (found.shown and lesson.why):
        told.append(lesson.why)
    for line in told:
        text.append(f"\n{clean_line(line, limit=2000)}", "not bold")
    if found.shown and row.past:
        rung = row.past[-1].rung
        text.append(f"\n\nRuns, newest first; times of {clean_line(rung)}", "not bold dim")
        for point in reversed(row.past):
            time = plain.time_of(point.median_ms, point.low_ms, point.high_ms)
            line = f"\n{plain.local_time(point.wall)}  {time:<34}"
            line += f"  {plain.speedup(point.speedup, point.low, point.high, verdict=point.verdict)}"
            if point.comparable:
                text.append(line, "not bold")
            else:
                text.append(f"{line}  not comparable", "not bold dim")
    return text


def sentence_of(found: Found) -> str:
    if found.lesson.run is None:
        return found.lesson.why or "No run of this kind is stored yet: R runs it in full, a runs the whole suite."
    sentence = found.row.sentence()
    return sentence[:1].upper() + sentence[1:] + "."
