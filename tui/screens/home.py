"""The catalogue: chapters and targets with their last results on the left, the highlighted target on the right.

The tree is a line-API table, so that a running target's mark costs one row on the wire and 10,000 targets scroll
as fast as ten. Nothing here reads a disk: the catalogue and the results come from the app, which loads them in
threads.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, ClassVar

from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.widgets import Input

from aisp.kernels.catalog.model import Role
from aisp.store.results import hardware, overview
from aisp.store.results.overview import Here, Lesson
from aisp.tui import plain
from aisp.tui.findings import bar_sign, cheats_text, outcome_text
from aisp.tui.keymap import TARGET, Key, bind
from aisp.tui.model import RunView
from aisp.tui.results import STATE_WORDS
from aisp.tui.screens.base import Sizes, entitle, subtitle
from aisp.tui.screens.details import Details, TargetState
from aisp.tui.screens.filtering import FILTER, FilteringScreen, FilterInput
from aisp.tui.screens.folding import FoldingScreen, folding_keys
from aisp.tui.themes import verdict_style, verdict_text
from aisp.tui.widgets.table import Cell, Column, LiveTable
from aisp.tui.widgets.textrows import TextRows

if TYPE_CHECKING:
    from aisp.kernels.catalog.model import Target

BESIDE_COLUMNS = 76  # from this width on the details stand beside the tree, below it they stand under it
BADGE_COLUMNS = 92  # from here on a badge says "needs sm_90" rather than "sm_90"
TITLE_COLUMNS = 150  # from here on the tree has the targets' titles
PROBLEMS = "problems"
SHIPPED = "dim: shipped, measured elsewhere"
WHAT = "Pairs of kernels, slow and fast: checked for right results, then timed here."
WHAT_OF_IT = "Kernels, slow and fast, checked for right results: {} of {} can be timed here."
FILTER_AT = TARGET.index("roofline")  # of the footer: before what a newcomer does not need
WHAT_ROWS = 20  # from here on there is a row for it


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
    HomeScreen #panes { layout: horizontal; }
    HomeScreen #left { width: 8fr; height: 1fr; }
    HomeScreen #details { width: 7fr; height: 1fr; }
    HomeScreen.-low #what { display: none; }
    HomeScreen.-stacked #panes { layout: vertical; }
    HomeScreen.-stacked #left { width: 100%; height: 55%; }
    HomeScreen.-stacked #details { width: 100%; }
    """

    shown = frozenset(("catalog", "board", "runs", "status", "watches", "connection", "quarantines"))
    sizes: ClassVar[Sizes] = {
        "-stacked": lambda size: size.width < BESIDE_COLUMNS,
        "-low": lambda size: size.height < WHAT_ROWS,
    }
    chooses = "open('lesson')"

    @property
    def header_title(self) -> str:
        catalog = self.workbench.catalog
        if catalog is None:
            return "reading the catalogue"
        count = len(catalog.targets)
        where = f" in {self.workbench.path}" if self.workbench.path else ""
        return f"{plain.counted(count, 'target')}{where}"

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
            yield Details()

    def on_resize(self, event: events.Resize) -> None:
        if self._arrange(event.size.width):
            self.draw()

    @property
    def _details(self) -> Details:
        return self.query_one(Details)

    @property
    def _targets(self) -> Sequence[Target]:
        catalog = self.workbench.catalog
        return catalog.targets if catalog is not None else ()

    def _arrange(self, width: int) -> bool:
        """Say what stands below, and give the tree its columns; whether they changed."""
        targets = self._targets
        here = [self.workbench.here(target) for target in targets]
        count = here.count(Here.TIMED)
        what = WHAT if count == len(here) or None in here else WHAT_OF_IT.format(count, len(here))
        self.say("what", Text(f" {what}", style="dim"))
        cheats = bool(targets) and all(any(rung.role is Role.CHEAT for rung in one.rungs) for one in targets)
        columns = columns_for(width, cheats=cheats, gpu=not self.workbench.no_gpu)
        changed = columns != self.table.columns
        self.table.columns = columns
        return changed

    @property
    def target_id(self) -> str:
        kind, _, name = self.chosen_key.partition(" ")
        return name if kind == "target" else ""

    @property
    def target_ids(self) -> list[str]:
        kind, _, name = self.chosen_key.partition(" ")
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
        return self._details.text

    def refresh_from(self, names: set[str]) -> None:
        if self.is_mounted and (not names or names & {"catalog", "status"}):
            self._arrange(self.size.width)
        super().refresh_from(names)

    def theme_changed(self) -> None:
        self._details.forget()
        super().theme_changed()

    def _state(self, target: Target) -> TargetState:
        app = self.workbench
        result, attempt = app.last(target.id, self._runs.get(target.id, ()))
        shipped = app.shipped.get(target.id) if result is None else None
        shipped = shipped if shipped is not None and shipped.lead else None
        return TargetState(target, result, attempt, self._active.get(target.id), app.held(target), shipped)

    def draw(self) -> None:
        model = self.workbench.model
        # The runs of each target, and the newest unended one: one pass over the runs.
        self._runs: dict[str, list[RunView]] = {}
        for run in model.runs.values():
            self._runs.setdefault(run.record.target, []).append(run)
        self._active = {run.record.target: run for run in model.active_runs()}
        states = [self._state(target) for target in self._targets]
        rows = list(self._rows(states))
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
        subtitle(table, SHIPPED if any(state.shipped for state in states) else "")
        self._describe()

    def _to_first_target(self) -> None:
        """Highlight the first target: the first row is a chapter, and what one comes for is a target."""
        self.table.move_to(next((key for key in self.table.keys if key.startswith("target ")), ""))

    def _rows(self, states: Sequence[TargetState]) -> Iterable[tuple[str, list[Cell]]]:
        catalog = self.workbench.catalog
        if catalog is None:
            return
        ascii_only = self.workbench.ascii
        titled = self.size.width >= TITLE_COLUMNS

        def row(name: Text, title: str = "", verdict: Cell = "", sol: Cell = "") -> list[Cell]:
            return [name, *([title] if titled else []), verdict, sol]

        opened, closed = ("-", "+") if ascii_only else ("▾", "▸")
        by_chapter: dict[str, list[TargetState]] = {}
        titles = {chapter.id: chapter.title for chapter in catalog.chapters}
        for state in states:
            if self._wanted(state, titles.get(state.target.chapter, "")):
                by_chapter.setdefault(state.target.chapter, []).append(state)
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
            inside = by_chapter.get(chapter.id, [])
            if not inside:
                continue
            folded = chapter.id in self.folded and not narrowed
            head = Text(f"{closed if folded else opened} ")
            head.append(chapter.id, style="bold")
            if chapter.title and chapter.title.lower() != chapter.id.lower():
                head.append(f" {chapter.title}")
            if folded:  # behind the title, not in a column that would cut it
                head.append(f" ({len(inside)})", style="dim")
            yield f"chapter {chapter.id}", row(head)
            if not folded:
                for state in inside:
                    cells = row(Text(f"  {state.target.name}"), state.target.title, *self._cells(state))
                    yield f"target {state.target.id}", cells

    def _wanted(self, state: TargetState, chapter: str) -> bool:
        app, target = self.workbench, state.target
        if self._only != "all":
            timed = app.here(target) in (None, Here.TIMED)
            missing = app.missing(target)
            one = Lesson(target, state.result, state.attempt, held=state.held, missing=missing, timed_here=timed)
            if not overview.FILTERS[self._only](one):
                return False
        return self.matches(target.id, target.title, *target.techniques, chapter)

    def _cells(self, state: TargetState) -> list[Cell]:
        """Verdict with speed-up, or what is going on, or what is missing; and share of the speed of light, or what can
        be done here."""
        target, result, attempt, active = state.target, state.result, state.attempt, state.active
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
        if (said := state.shipped) is not None:
            on = f"{' on' if wide else ''} {hardware.short(said.on)}"
            return [Text(f"{said.speedup(said.lead)}{on}", "dim"), sol or Text(badge, "dim italic")]
        if missing and result is None:
            return [Text(badge, style="dim italic"), sol]
        if result is None:
            return ["" if attempt is None else Text(STATE_WORDS[attempt.record.state], style="dim"), sol]
        held, caught = state.held, result.caught
        kept: Cell = sol if self.workbench.no_gpu else ""  # beside what has no figure
        lesson = Lesson(target, result, held=held)
        bar = lesson.ended.bar if lesson.ended is not None else None
        cheats = cheats_text(result, caught, self.workbench.ascii)
        if cheats is not None and (bar is None or not bar.rung):
            return [cheats, kept]
        if not lesson.outcome.compared:
            return [
                outcome_text(lesson, self.workbench.ascii, held="quarantine" if wide else "held"),
                kept if bar is not None else sol,
            ]
        text = verdict_text(lesson.outcome.value, result.speedup, self.workbench.ascii)
        if held or caught:  # another rung
            text = Text.assemble((f"{bar_sign(self.workbench.ascii)} ", verdict_style("slower")), text)
        return [text, sol]

    def row_changed(self) -> None:
        self._describe()
        self._details.scroll_home(animate=False)

    def _describe(self) -> None:
        kind, _, name = self.chosen_key.partition(" ")
        catalog, details = self.workbench.catalog, self._details
        target = self.workbench.target(name) if kind == "target" else None
        chapter = next((one for one in catalog.chapters if one.id == name), None) if catalog is not None else None
        if target is not None:
            details.show_target(self._state(target))
        elif catalog is not None and kind == "chapter" and chapter is not None:
            details.show_chapter(catalog, chapter)
        elif catalog is not None and kind == "problem":
            details.show_problems("Problem", [catalog.problems[int(name)]])
        elif catalog is not None and kind == "problems":
            intro = "These folders look like targets but could not be loaded; all others work.\n"
            details.show_problems("Problems", catalog.problems, intro)
        else:
            details.show("Details", [])

    def action_open(self, name: str) -> None:
        """Open a screen. In the place of a lesson: the run that goes on; of a chapter, which has none: fold it."""
        if name == "lesson" and not self.target_id:
            self.action_toggle_fold()
        elif name == "lesson" and (running := self._run_here) is not None:
            self.workbench.open_screen("run", run_id=running.id)
        else:
            super().action_open(name)

    def group(self) -> str:
        kind, _, name = self.chosen_key.partition(" ")
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
        if self.maximized is None and not self.filtering and self._only != "all":
            self._only = "all"
            self.draw_from_top()
        else:
            await super().action_back()

    def action_leave(self) -> None:
        self.app.exit(return_code=0)

    def action_reload(self) -> None:
        self.workbench.reload()
