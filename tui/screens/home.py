"""The catalogue: chapters and targets with their last results on the left, the highlighted target on the right.

The tree is a line-API table, so that a running target's mark costs one row on the wire and 10,000 targets scroll
as fast as ten. Nothing here reads a disk: the catalogue and the results come from the app, which loads them in
threads.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, ClassVar, TypeAlias

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.widgets import Input, Static

from aisp.kernels.catalog.model import Goal, Kind, Role
from aisp.store.outcomes import TWIN_SUFFIX, State, Validity
from aisp.store.record import Comparison
from aisp.store.results import hardware, overview
from aisp.store.results.overview import Here, Lesson
from aisp.store.results.prediction import LOOK_BACK_RUNS, Answer, Says, answer
from aisp.store.results.reading import Reading
from aisp.store.text import clean, clean_line
from aisp.tui import plain, progress
from aisp.tui.aside import begin
from aisp.tui.earlier import environment, newest_first
from aisp.tui.findings import bar_sign, cheats_text, outcome_text
from aisp.tui.keymap import TARGET, Key, bind
from aisp.tui.model import RunView
from aisp.tui.results import CHEAT, STATE_WORDS, state_words
from aisp.tui.screens.base import ScrollPane, entitle, subtitle
from aisp.tui.screens.filtering import FILTER, FilteringScreen, FilterInput
from aisp.tui.screens.folding import FoldingScreen, folding_keys
from aisp.tui.themes import verdict_style, verdict_text
from aisp.tui.widgets.table import Cell, Column, LiveTable
from aisp.tui.widgets.textrows import TextRows

if TYPE_CHECKING:
    from aisp.kernels.catalog.model import Catalog, Chapter, Expectation, Needs, Problem, Rung, Target
    from aisp.store import History
    from aisp.store.results.expected import Shipped

# What the details are made of: paragraphs, and lists of labels with values.
Parts: TypeAlias = "list[Text | list[tuple[Text, Text]]]"

BESIDE_COLUMNS = 76  # from this width on the details stand beside the tree, below it they stand under it
BADGE_COLUMNS = 92  # from here on a badge says "needs sm_90" rather than "sm_90"
TITLE_COLUMNS = 150  # from here on the tree has the targets' titles
PROBLEMS = "problems"
SHIPPED = "dim: shipped, measured elsewhere"
WHAT = "Pairs of kernels, slow and fast: checked for right results, then timed here."
WHAT_OF_IT = "Kernels, slow and fast, checked for right results: {} of {} can be timed here."
FILTER_AT = TARGET.index("roofline")  # of the footer: before what a newcomer does not need
WHAT_ROWS = 20  # from here on there is a row for it
SHOWN = {"catalog", "board", "runs", "status", "watches", "connection", "quarantines"}
GOALS = {
    Goal.SPEED: "faster",
    Goal.MEMORY: "less memory",
    Goal.LATENCY: "lower latency",
    Goal.NULL: "teaches that it does not help",
    Goal.REFUSAL: "shows what must be refused",
}
_KINDS = {
    Kind.TORCH: "PyTorch",
    Kind.TRITON: "Triton",
    Kind.CUDA: "CUDA",
}


def columns_for(width: int, *, cheats: bool = False, gpu: bool = True) -> list[Column]:
    """The tree's columns on a terminal of `width` columns.

    Args:
        cheats: whether every target is a cheat with its twin, which nobody holds against the speed of light.
        gpu: whether there is one: without, the last column says what can be done here.
    """
    narrow = width < BADGE_COLUMNS
    columns = [
        Column("name", "target", None if width < TITLE_COLUMNS else 30, ratio=1 if width < TITLE_COLUMNS else 0),
        Column("verdict", "last run" if cheats else "speed-up", 10 if narrow else 13, align="right"),
        Column("sol", "of SOL", 6, align="right") if gpu else Column("here", "here", 7 if narrow else 9, align="right"),
    ]
    if cheats:
        columns.pop()
    if width >= TITLE_COLUMNS:
        columns.insert(1, Column("title", "title", None, ratio=1))
    return columns


class HomeScreen(FilteringScreen, FoldingScreen):
    """See the module."""

    sorts = ("chapter",)
    choices = ("all", overview.HERE, "not run", "not faster", "failed or doubted")  # those that need no look-up
    BINDINGS: ClassVar[list[BindingType]] = bind(
        Key("leave", "q", "quit", "Leave the app; runs and watches go on in the engine."),
        *("lesson", *TARGET[:FILTER_AT]),
        FILTER,
        Key("only", "o", "only", f"Show the next choice of: {', '.join(choices)}."),
        *TARGET[FILTER_AT:],
        *folding_keys("chapter"),
        "reload",
    )
    words = ("rung", "speed of light (SOL)", "quick, full")
    back_label = ""  # there is nothing behind this screen; escape clears the filter
    DEFAULT_CSS = """
    HomeScreen #panes { height: 1fr; }
    HomeScreen #left { width: 8fr; height: 1fr; }
    HomeScreen #tree { height: 1fr; }
    HomeScreen #details { width: 7fr; height: 1fr; padding: 0 1; }
    HomeScreen.-low #what { display: none; }
    HomeScreen.-stacked #panes { layout: vertical; }
    HomeScreen.-stacked #left { width: 100%; height: 55%; }
    HomeScreen.-stacked #details { width: 100%; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._shown_details = ""
        self._title = ""
        self._answers: dict[str, Answer] = {}  # to predictions, by target
        self._asked: tuple[str, str, frozenset[str]] | None = None  # target, last result and quarantines of the newest

    @property
    def header_title(self) -> str:
        catalog = self.workbench.catalog
        if catalog is None:
            return "reading the catalogue"
        count = len(catalog.targets)
        where = f" in {self.workbench.path}" if self.workbench.path else ""
        return f"{count} target{'' if count == 1 else 's'}{where}"

    def compose_body(self) -> ComposeResult:
        yield TextRows(id="what")
        with Horizontal(id="panes"):
            with Vertical(id="left"):
                table = LiveTable(id="tree", classes="pane", empty="Reading the catalogue")
                table.border_title = "Targets"
                table.columns = columns_for(80)
                yield table
                yield FilterInput(
                    placeholder="words of a chapter's title, or of a target's id, title or techniques", id="filter"
                )
            with ScrollPane(id="details", classes="pane"):
                yield Static(id="about", markup=False)

    def on_mount(self) -> None:
        self.query_one("#details").border_title = "Details"

    def on_resize(self, event: events.Resize) -> None:
        width = event.size.width
        self.set_class(width < BESIDE_COLUMNS, "-stacked")
        self.set_class(event.size.height < WHAT_ROWS, "-low")
        if self._arrange(width):
            self.draw()

    @property
    def _targets(self) -> Sequence[Target]:
        catalog = self.workbench.catalog
        return catalog.targets if catalog is not None else ()

    def _arrange(self, width: int) -> bool:
        """Say what stands below, and give the tree its columns; whether they changed."""
        self.say("what", Text(f" {self._what()}", style="dim"))
        targets = self._targets
        cheats = bool(targets) and all(any(rung.role is Role.CHEAT for rung in one.rungs) for one in targets)
        columns = columns_for(width, cheats=cheats, gpu=not self.workbench.no_gpu)
        changed = columns != self.table.columns
        self.table.columns = columns
        return changed

    # -- what is highlighted -----------------------------------------------------------------------------------

    @property
    def _key(self) -> str:
        return (self.table.cursor_key or "") if self.is_mounted else ""

    @property
    def target_id(self) -> str:
        kind, _, name = self._key.partition(" ")
        return name if kind == "target" else ""

    @property
    def target_ids(self) -> list[str]:
        kind, _, name = self._key.partition(" ")
        catalog = self.workbench.catalog
        if kind == "chapter" and catalog is not None:
            return [target.id for target in catalog.targets if target.chapter == name]
        return [name] if kind == "target" else []

    @property
    def _run_here(self) -> RunView | None:
        active = self._active.get(self.target_id)
        return active if active is not None and active.record.start_ns is not None else None

    def key_label(self, binding: Binding) -> str:
        if binding.id == "lesson" and self.is_mounted and self._run_here is not None:
            return "open run"
        return super().key_label(binding)

    def copy_text(self) -> str:
        return self._shown_details

    # -- drawing -----------------------------------------------------------------------------------------------

    def refresh_from(self, names: set[str]) -> None:
        super().refresh_from(names)
        if self.is_mounted and names & {"catalog", "status"}:
            self._arrange(self.size.width)
        if self.is_mounted and (not names or names & SHOWN):
            self.draw()

    def theme_changed(self) -> None:
        self._shown_details = ""
        super().theme_changed()

    def result(self, target_id: str) -> Reading | None:
        return self._last(target_id)[0]

    def _last(self, target_id: str) -> tuple[Reading | None, Reading | None]:
        """The last result, and a newer attempt that says nothing."""
        return self.workbench.last(target_id, self._runs.get(target_id, ()))

    def draw(self) -> None:
        model = self.workbench.model
        # The runs of each target, and the newest unended one: one pass over the runs.
        self._runs: dict[str, list[RunView]] = {}
        for run in model.runs.values():
            self._runs.setdefault(run.record.target, []).append(run)
        self._active = {run.record.target: run for run in model.active_runs()}
        rows = list(self._rows())
        table = self.table
        catalog = self.workbench.catalog
        if catalog is not None and not rows:
            table.empty = self.nothing() if catalog.targets else "No targets here; `aisp new NAME` makes one"
        first = table.cursor_key is None
        table.show(rows)
        if first and not table.move_to(f"target {self.workbench.place.arguments.get('target_id', '')}"):
            self._to_first_target()
        shown = sum(1 for key, _ in rows if key.startswith("target "))
        only = "" if self._only == "all" else f", only: {self._only}"
        words = f" with “{plain.fit(self.filter_words, 24)}”" if self.filter_words else ""
        entitle(table, f"Targets{words}{only}{f': {shown}' if words or only else ''}")
        dim = any(self._shipped(target) for target in self._targets)
        subtitle(table, SHIPPED if dim else "")
        self._describe()

    def _what(self) -> str:
        here = [self.workbench.here(target) for target in self._targets]
        count = here.count(Here.TIMED)
        return WHAT if count == len(here) or None in here else WHAT_OF_IT.format(count, len(here))

    def _shipped(self, target: Target) -> Shipped | None:
        """What the collection says of a target that has no result here."""
        said = self.workbench.shipped.get(target.id)
        return said if said is not None and said.lead and self.result(target.id) is None else None

    def _to_first_target(self) -> None:
        """Highlight the first target: the first row is a chapter, and what one comes for is a target."""
        self.table.move_to(next((key for key in self.table.keys if key.startswith("target ")), ""))

    def _rows(self) -> Iterable[tuple[str, list[Cell]]]:
        catalog = self.workbench.catalog
        if catalog is None:
            return
        ascii_only = self.workbench.ascii
        titled = self.size.width >= TITLE_COLUMNS

        def row(name: Text, title: str = "", verdict: Cell = "", sol: Cell = "") -> list[Cell]:
            return [name, *([title] if titled else []), verdict, sol]

        opened, closed = ("-", "+") if ascii_only else ("▾", "▸")
        by_chapter: dict[str, list[Target]] = {}
        titles = {chapter.id: chapter.title for chapter in catalog.chapters}
        for target in catalog.targets:
            if self._wanted(target, titles.get(target.chapter, "")):
                by_chapter.setdefault(target.chapter, []).append(target)
        narrowed = bool(self.filter_words) or self._only != "all"
        if catalog.problems and not narrowed:
            folded = PROBLEMS in self.folded
            label = f"{closed if folded else opened} Problems ({len(catalog.problems)})"
            yield f"problems {PROBLEMS}", row(Text(label, style="bold"))
            if not folded:
                for index, problem in enumerate(catalog.problems):
                    name = f"{problem.path.parent.name}/{problem.path.name}"
                    yield f"problem {index}", row(Text(f"  {name}"), problem.message)
        for chapter in catalog.chapters:
            targets = by_chapter.get(chapter.id, [])
            if not targets:
                continue
            folded = chapter.id in self.folded and not narrowed
            head = Text(f"{closed if folded else opened} ")
            head.append(chapter.id, style="bold")
            if chapter.title and chapter.title.lower() != chapter.id.lower():
                head.append(f" {chapter.title}")
            if folded:  # behind the title, not in a column that would cut it
                head.append(f" ({len(targets)})", style="dim")
            yield f"chapter {chapter.id}", row(head)
            if not folded:
                for target in targets:
                    yield (
                        f"target {target.id}",
                        row(Text(f"  {target.name}"), target.title, *self._cells(target)),
                    )

    def _wanted(self, target: Target, chapter: str) -> bool:
        app, words = self.workbench, self.filter_words.lower().split()
        if self._only != "all":
            timed = app.here(target) in (None, Here.TIMED)
            result, attempt = self._last(target.id)
            missing, held = app.missing(target), app.held(target)
            one = Lesson(target, result, attempt, held=held, missing=missing, timed_here=timed)
            if not overview.FILTERS[self._only](one):
                return False
        if not words:
            return True
        text = " ".join((target.id, target.title, *target.techniques, chapter)).lower()
        return all(word in text for word in words)

    def _cells(self, target: Target) -> list[Cell]:
        """Verdict with speed-up, or what is going on, or what is missing; and share of the speed of light, or what can
        be done here."""
        active = self._active.get(target.id)
        result, attempt = self._last(target.id)
        missing = self.workbench.missing(target)
        wide = self.size.width >= BADGE_COLUMNS
        badge = missing if wide else missing.removeprefix("needs ")
        sol: Cell = ""
        if self.workbench.no_gpu:
            here = self.workbench.here(target) or ""
            sol = Text(here if wide else here.removeprefix("needs "), "dim")
        elif result is not None and result.sol is not None:
            sol = plain.percent(result.sol)
        if active is not None:
            mark = "*" if self.workbench.ascii else "●"
            return [Text(f"{mark} {STATE_WORDS[active.record.state]}", style="bold"), sol]
        if (said := self._shipped(target)) is not None:
            on = f"{' on' if wide else ''} {hardware.short(said.on)}"
            return [Text(f"{plain.number(said.speedup(said.lead), 2)}x{on}", "dim"), sol or Text(badge, "dim italic")]
        if missing and result is None:
            return [Text(badge, style="dim italic"), sol]
        if result is None:
            return ["" if attempt is None else Text(STATE_WORDS[attempt.record.state], style="dim"), sol]
        held, caught = self.workbench.held(target), result.caught
        kept: Cell = sol if self.workbench.no_gpu else ""  # beside what has no figure
        lesson = Lesson(target, result, held=held)
        bar = lesson.ended.bar if lesson.ended is not None else None
        cheats = cheats_text(result, caught, self.workbench.ascii)
        if cheats is not None and (bar is None or not bar.rung):
            return [cheats, kept]
        if not lesson.outcome.compared:
            word = "quarantine" if self.size.width >= BADGE_COLUMNS else "held"
            return [outcome_text(lesson, self.workbench.ascii, held=word), kept if bar is not None else sol]
        text = verdict_text(lesson.outcome.value, result.speedup, self.workbench.ascii)
        if held or caught:  # another rung
            text = Text.assemble((f"{bar_sign(self.workbench.ascii)} ", verdict_style("slower")), text)
        return [text, sol]

    # -- details -----------------------------------------------------------------------------------------------

    def on_live_table_highlighted(self, message: LiveTable.Highlighted) -> None:
        message.stop()
        self._describe()
        self.query_one("#details", ScrollPane).scroll_home(animate=False)
        self.refresh_bindings()

    def _describe(self) -> None:
        kind, _, name = self._key.partition(" ")
        catalog = self.workbench.catalog
        parts: Parts = []
        title = "Details"
        if catalog is not None:
            if kind == "target":
                target = self.workbench.target(name)
                if target is not None:
                    title, parts = target.id, self._about_target(target)
            elif kind == "chapter":
                chapter = next((chapter for chapter in catalog.chapters if chapter.id == name), None)
                if chapter is not None:
                    title, parts = chapter.id, self._about_chapter(catalog, chapter)
            elif kind == "problem":
                title, parts = "Problem", [about_problem(catalog.problems[int(name)])]
            elif kind == "problems":
                title = "Problems"
                parts = [Text("These folders look like targets but could not be loaded; all others work.\n")]
                for problem in catalog.problems:
                    parts += [about_problem(problem), Text("")]
        details = self.query_one("#details", ScrollPane)
        if self._title != title:
            self._title = title
            details.border_title = Content(title)
        shown = as_text(parts)
        if shown != self._shown_details:
            self._shown_details = shown
            self.query_one("#about", Static).update(as_renderable(parts))

    def _about_chapter(self, catalog: Catalog, chapter: Chapter) -> Parts:
        targets = [target for target in catalog.targets if target.chapter == chapter.id]
        # Appended: a base style would make everything behind it bold too.
        text = Text().append(clean_line(chapter.title), style="bold")
        text.append(f"\n{len(targets)} target{'' if len(targets) == 1 else 's'}; r runs them one after the other.")
        return [text, *readme_parts(chapter.readme.partition("\n\n")[2] or chapter.readme)]

    def _about_target(self, target: Target) -> Parts:
        app = self.workbench
        head = Text().append(clean_line(target.title), style="bold")
        active = self._active.get(target.id)
        if active is not None:
            far = progress.words(active.progress(app.model.now_ns()), ", ")
            told = ", ".join(part for part in (STATE_WORDS[active.record.state], far, progress.doing(active)) if part)
            keys = "enter opens the run" if active.record.start_ns is not None else "J shows the queue"
            head.append(f"\nNow {told}; {keys}, x cancels")
        missing = app.missing(target)
        if missing:
            head.append(f"\nHere: {missing}")
        facts = [
            ("goal", GOALS[target.goal]),
            ("technique", ", ".join(target.techniques) or plain.DASH),
            ("needs", needs_text(target)),
        ]
        watch = app.model.watches.get(target.id)
        if watch is not None and watch.active:
            facts.append(("watch", f"on, {len(watch.edits)} edits"))
        if (said := self._shipped(target)) is not None:
            facts.append(("shipped", shipped_text(said, said.lead)))
        expect = target.expect
        if expect is not None:
            low, high = expect.speedup
            less = f", {expect.memory[0]:g}x to {expect.memory[1]:g}x less memory" if expect.memory else ""
            facts.append(("predicted", f"{low:g}x to {high:g}x{less} on {expect.on}: {self._met(target)}"))
            facts.append(("because", expect.why))
        grid: list[tuple[Text, Text]] = [(Text(label, "dim"), Text(clean_line(value))) for label, value in facts]
        if any(rung.role is Role.CHEAT for rung in target.rungs):
            head.append("\nA cheat and its honest twin: d compares them, r runs both, v shows who was caught", "bold")
        parts: Parts = [head, self._last_run(target), grid, Text("Rungs", style="dim"), *self._rungs(target)]
        if any(rung.role is Role.WRONG for rung in target.rungs):
            parts.append(Text("\nNo key runs what must be refused; its lesson says how to see it", style="dim"))
        return parts

    def _last_run(self, target: Target) -> Text:
        result, attempt = self._last(target.id)
        tried = Text()
        if attempt is not None:
            tried.append(f"Last try {plain.local_time(attempt.record.wall)}: {state_words(attempt.record.state)}: ")
            tried.append(f"{attempt.record.reason or plain.DASH}\n")
        if result is None:
            if attempt is not None:
                return tried
            known = self.workbench.board_read
            return Text("Not run yet: r runs it quickly, R in full\n" if known else "Reading earlier results\n")
        how = "quick" if result.record.quick else "full"
        where = result.record.device
        if case := result.unusual_case(target):
            where += f", case {case}"
        text = Text(f"Last run {plain.local_time(result.record.wall)}, {how}, {where}\n", style="dim")
        if result.record.state is not State.OK:
            text.append(f"{state_words(result.record.state)}: ", style="not dim bold")
            text.append(f"{result.record.reason or plain.DASH}\n", style="not dim")
        elif result.record.validity.suspect:
            text.append("suspect: ", style="not dim bold")
            text.append(f"{result.record.reason or 'v says why'}\n", style="not dim")
        lines = Text()
        held, caught = self.workbench.held(target), result.caught
        barred = {*held, *caught}
        sign = bar_sign(self.workbench.ascii)
        for rung in sorted(barred):
            if rung in result.mistaken or (rung in held and held[rung].mistake):
                word = "wrong"
            else:
                word = "in quarantine" if rung in held else "caught"
            why = caught.get(rung) or f"{held[rung].check}: {held[rung].evidence}"
            lines.append(f"{sign} {rung or 'the run'} {word}", verdict_style("slower")).append(
                f" {clean_line(why, limit=600)}\n"
            )
        headline = result.headline  # the figure of the row: it is what one looks for
        for item in sorted(result.comparisons, key=lambda item: headline is None or item.rung != headline.rung):
            cheat = item.rung.startswith(CHEAT)  # what one came to is nobody's speed-up
            if not item.rung.endswith(TWIN_SUFFIX) and not cheat and not {item.rung, item.baseline, ""} & barred:
                where = result.judged(item)
                lines.append_text(comparison_text(item, where, self.workbench.ascii)).append("\n")
        return Text.assemble(text, lines, tried)

    def _met(self, target: Target) -> str:
        """Whether the prediction came true, as far as the store has been asked."""
        expect = target.expect
        assert expect is not None
        result = self.result(target.id)
        asked = (target.id, result.id if result is not None else "", frozenset(self.workbench.held(target)))
        if asked != self._asked:
            self._asked = asked
            begin(self, partial(self._read_answer, asked, target), group="prediction", exclusive=True)
        said = self._answers.get(target.id)
        return prediction_text(said, expect) if said is not None else "looking it up"

    async def _read_answer(self, asked: tuple[str, str, frozenset[str]], target: Target) -> None:
        def read(history: History) -> Answer:
            runs = newest_first(history, target.names, LOOK_BACK_RUNS)
            return answer(runs, target, lambda run: environment(history, run), quarantined=bool(asked[2]))

        try:
            found = await self.workbench.stored(read)
        except Exception as error:
            self._asked = None
            self.log(f"the prediction of {target.id} could not be looked up: {error!r}")
            return
        self._answers[target.id] = found or Answer()
        self._describe()

    def _rungs(self, target: Target) -> Parts:
        result = self.result(target.id)
        barred = {*self.workbench.held(target), *(result.caught if result is not None else ())}
        parts: Parts = []
        for rung in target.rungs:
            arm = result.arm(rung.name) if result is not None else None
            text = Text(clean_line(rung.name), style="bold")
            text.append(f" {_KINDS[rung.kind]}", style="not bold dim")
            if rung.role is Role.WRONG:
                text.append(", must be refused", style="not bold dim")
            elif rung.role is Role.CHEAT:
                text.append(", a cheat: must be caught", style="not bold dim")
            elif arm is not None and arm.state.final and arm.median_ms is None:
                text.append(f", {STATE_WORDS[arm.state]}", style="not bold")
            parts.append(text)
            about = Text()
            believed = rung.role is not Role.CHEAT and not {rung.name, ""} & barred
            if believed and arm is not None and arm.median_ms is not None:
                about.append(plain.time_of(arm.median_ms, arm.low_ms, arm.high_ms))
                if arm.sol is not None:
                    about.append(f", {plain.percent(arm.sol)} of the speed of light")
                about.append("\n")
            about.append(rung_summary(rung))
            if about.plain.strip():
                about.rstrip()
                parts.append([(Text(""), about)])
        return parts

    # -- keys --------------------------------------------------------------------------------------------------

    def on_live_table_chosen(self, message: LiveTable.Chosen) -> None:
        message.stop()
        self.action_open("lesson")

    def action_open(self, name: str) -> None:
        """Open a screen. In the place of a lesson: the run that goes on; of a chapter, which has none: fold it."""
        if name == "lesson" and not self.target_id:
            self.action_toggle_fold()
        elif name == "lesson" and (running := self._run_here) is not None:
            self.workbench.open_screen("run", run_id=running.id)
        else:
            super().action_open(name)

    def group(self) -> str:
        kind, _, name = self._key.partition(" ")
        if kind == "target":
            target = self.workbench.target(name)
            return target.chapter if target is not None else ""
        return PROBLEMS if kind in ("problem", "problems") else name

    def groups(self) -> list[str]:
        catalog = self.workbench.catalog
        return [chapter.id for chapter in catalog.chapters] if catalog is not None else []

    def head(self, group: str) -> str:
        return f"{'problems' if group == PROBLEMS else 'chapter'} {group}"

    def draw_from_top(self) -> None:
        """Another choice is looked at from its first target."""
        self.draw()
        self._to_first_target()

    def on_input_changed(self, message: Input.Changed) -> None:
        message.prevent_default()  # Textual calls both classes' handlers, this one first
        super().on_input_changed(message)
        if self.filter_words:
            self._to_first_target()

    async def action_back(self) -> None:
        """Leave the zoom, then the words, then the choice."""
        if self.maximized is not None:
            self.minimize()
        elif self.filtering:
            self._close_filter()
        elif self._only != "all":
            self._only = "all"
            self.draw_from_top()

    def action_leave(self) -> None:
        self.app.exit(return_code=0)

    def action_reload(self) -> None:
        self.workbench.reload()


def needs_text(target: Target) -> str:
    """What a target needs, for people; of one that a CPU is enough for, which rungs have no time there."""
    if target.needs.gpus:
        return _gpus_text(target.needs)
    on_gpu = [rung for rung in target.honest_rungs if rung.gpu_only]
    checked = any(rung.kind is Kind.TRITON and not rung.gpu_only for rung in target.honest_rungs)
    text = "a CPU, which checks Triton and does not time it" if checked else "a CPU" if on_gpu else "nothing but a CPU"
    alike: dict[str, list[str]] = {}  # names of rungs, by what they need
    for rung in on_gpu:
        alike.setdefault(_gpus_text(rung.needs), []).append(rung.name)
    for needed, (first, *rest) in alike.items():
        others = f" and {len(rest)} other rung{'' if len(rest) == 1 else 's'}" if rest else ""
        text += f"; for {first}{others} {needed}"
    return text


def _gpus_text(needs: Needs) -> str:
    count = "a GPU" if needs.gpus == 1 else f"{needs.gpus} GPUs"
    return f"{count}, sm_{needs.sm} or newer" if needs.sm else count


def shipped_text(said: Shipped, rung: str) -> str:
    """What a rung came to elsewhere: "optimized 26x, 0.13 ms on NVIDIA H200, 2026-11-23; not measured here"."""
    ms = said.ms(rung)
    time = f", {plain.time_of(ms)}" if ms is not None else ""
    figure = f" {plain.number(ratio, 2)}x" if (ratio := said.speedup(rung)) is not None else ""
    return f"{rung}{figure}{time} on {said.on}, {said.wall[:10]}; not measured here"


def prediction_text(said: Answer, expect: Expectation) -> str:
    """Whether a prediction came true, or why that cannot be said."""
    found = said.measured
    speedup, memory = plain.speedup(found.speedup, verdict=found.verdict), found.memory
    match said.says:
        case Says.NOTHING:
            return "not measured yet"
        case Says.QUARANTINED:
            return "not answered: a rung is in quarantine"
        case Says.ELSEWHERE:
            return f"not measured there; {speedup} on {said.on or 'another machine'}"
        case Says.PORTABLE:
            return f"not answered, {speedup} with the policy portable"
        case Says.SOME_RUNGS:
            return f"not answered, {speedup} is of some rungs only"
        case Says.DOUBTED:
            validity = said.run.validity if said.run is not None else Validity.UNKNOWN
            return f"not answered, {speedup} is {validity}"
        case Says.UNMEASURED:
            return f"{speedup} as predicted, but memory was not measured"
    low, high = expect.speedup
    if found.speedup is not None and not low <= found.speedup <= high:
        return f"missed, {speedup} is {'less' if found.speedup < low else 'more'}"
    word = "met" if said.says is Says.MET else "missed"
    return f"{word}, {speedup}, {plain.saved(memory)} memory" if expect.memory is not None else f"{word}, {speedup}"


def rung_summary(rung: Rung) -> str:
    return clean_line(rung.summary)


def comparison_text(item: Comparison, judged: str, ascii_only: bool) -> Text:
    """One comparison on a line: sign, speed-up with interval, verdict, where it was judged, and why there is none."""
    text = verdict_text(item.verdict.value, None, ascii_only)
    if item.verdict.known:
        text.append(f" {plain.speedup(item.speedup, item.low, item.high)}  {item.verdict.value}  ")
    else:
        text.append(" no verdict  ")
    text.append(item.rung, style="bold")
    text.append(f" against {item.baseline}{', ' if judged else ''}{judged}", style="dim")
    if item.note and not item.verdict.decided:
        text.append(f"\n  {item.note}")
    return text


def about_problem(problem: Problem) -> list[tuple[Text, Text]]:
    """A problem of the catalogue: the file, the key, what was given, and the fix."""
    return [
        (Text(label, "dim"), Text(clean_line(value)))
        for label, value in (
            ("file", str(problem.path)),
            ("key", problem.key or "the whole file"),
            ("found", problem.message),
            ("fix", problem.fix),
        )
    ]


_NUMBERED = re.compile(r"\d+\. ")  # an item of a list; "132 SMs" at the beginning of a line is prose
_LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")
_RULE = re.compile(r"\|[\s|:-]*-[\s|:-]*")  # between a table's head and its rows
_EMPHASIS = re.compile(r"(?<!\w)[*_]([^*_\s][^*_]*)[*_](?!\w)")


def paragraphs(markdown: str) -> str:
    """A README's clean prose for a narrow pane: joined lines; no emphasis, addresses of links or tables."""
    out: list[str] = []
    joined = False  # whether the next line goes on with the paragraph
    for raw in markdown.splitlines():
        line = _unmarked(raw)
        if line.startswith("|"):
            joined = False
            continue
        begins = line.startswith(("- ", "* ", "#")) or _NUMBERED.match(line) is not None
        if joined and line and not begins:
            out[-1] += f" {line}"
        elif line or (out and out[-1]):
            out.append(line.lstrip("# "))
        joined = bool(line)
    return "\n".join(out).strip()


def _unmarked(raw: str) -> str:
    line = _LINK.sub(r"\1", " ".join(raw.split())).replace("**", "").replace("`", "")
    return _EMPHASIS.sub(r"\1", line)


def readme_parts(markdown: str) -> Parts:
    """A README for a narrow pane: its prose, and each row of its tables as a name with what stands beside it below."""
    parts: Parts = []
    prose: list[str] = []

    def tell_prose() -> None:
        told = paragraphs("\n".join(prose))
        prose.clear()
        if told:
            parts.append(Text(f"\n{told}\n"))

    for is_table, group in groupby(clean(markdown).splitlines(), lambda raw: raw.startswith("|")):
        lines = list(group)
        if is_table and len(lines) > 2 and _RULE.fullmatch(lines[1].strip()):
            tell_prose()
            if parts and isinstance(parts[-1], list):
                parts.append(Text(""))
            heads, _, *rows = [
                [_unmarked(cell.strip()) for cell in line.strip().strip("|").split("|")] for line in lines
            ]
            for name, *cells in rows:
                parts.append(Text(name, style="bold"))
                # The second column is what the table is about; those behind it need their heads.
                told = [f"{head}: {cell}" for head, cell in zip(heads[1:], cells, strict=False)]
                told[:1] = cells[:1]
                if told:
                    parts.append([(Text(""), Text("\n".join(told)))])
        else:
            prose += lines
    tell_prose()
    return parts


def as_text(parts: Parts) -> str:
    """What `parts` say, for the clipboard and to see whether it changed."""
    lines: list[str] = []
    for part in parts:
        if isinstance(part, Text):
            lines.append(part.plain)
        else:
            lines += [f"{label.plain:<11}{value.plain}" if label.plain else f"  {value.plain}" for label, value in part]
    return "\n".join(lines)


def as_renderable(parts: Parts) -> RenderableType:
    """`parts` below each other; labels in a column with the values hanging beside them."""
    shown: list[RenderableType] = []
    for part in parts:
        if isinstance(part, Text):
            shown.append(part)
            continue
        grid = Table.grid(padding=(0, 1))
        labelled = any(label.plain for label, _ in part)
        grid.add_column(width=10 if labelled else 1)
        grid.add_column(ratio=1)
        for label, value in part:
            grid.add_row(label, value)
        shown.append(grid)
        if labelled:
            shown.append(Text(""))
    return Group(*shown)
