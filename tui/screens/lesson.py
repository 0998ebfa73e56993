"""A target's lesson: its text, its rungs with what each changes, and the source of any of them.

Links in a lesson are inert: a lesson may come from anybody.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container
from textual.content import Content
from textual.widgets import ContentSwitcher, Markdown, Static

from aisp.kernels.catalog.model import Role
from aisp.store.errors import StoreError
from aisp.store.outcomes import State
from aisp.store.results import hardware, outcome, overview, repeating
from aisp.store.results.reading import Reading
from aisp.store.results.standing import tells
from aisp.store.text import clean, clean_line
from aisp.tui import plain, readings
from aisp.tui.aside import aside, begin
from aisp.tui.earlier import standing
from aisp.tui.findings import bar_sign, ended_text
from aisp.tui.keymap import TARGET, Key, bind
from aisp.tui.model import BASELINE, RunView, stored_run
from aisp.tui.results import STATE_WORDS, quality_notes, state_words, timing_words
from aisp.tui.screens import Source
from aisp.tui.screens.base import ScrollPane, Sizes, WorkScreen, entitle
from aisp.tui.screens.details import shipped_text
from aisp.tui.screens.source import SourceView
from aisp.tui.themes import verdict_style, verdict_text
from aisp.tui.widgets.finding import FIND_KEYS, Findable, FindableText
from aisp.tui.widgets.logpane import LogPane
from aisp.tui.widgets.table import GAP, Cell, Column, LiveTable

if TYPE_CHECKING:
    from aisp.kernels.catalog.model import Rung, Target
    from aisp.store.results.expected import Shipped

WIDE_COLUMNS = 120
FRAME = 4  # cells of a pane's border and scrollbar
REFUSED = (Role.WRONG, Role.CHEAT)
MAX_FILE_BYTES = 2_000_000


def mark(word: str, ascii_only: bool) -> Text:
    return Text(f"{bar_sign(ascii_only)} {word}", verdict_style("slower"))


def _refusal(target: Target, rung: str) -> str:
    return repeating.command("run", target.id, target.folder, "--rungs", rung, "--quick")


def file_of(target: Target, name: str) -> Path:
    for rung in target.rungs:
        if rung.name == name:
            return rung.path
    return target.folder / name


def read_source(path: Path) -> str:
    """A source as text, or a sentence where it cannot be read."""
    from aisp.kernels.catalog import sources  # the loader was read in a thread, with the lessons

    try:
        return clean(sources.read_bytes(str(path))[:MAX_FILE_BYTES], limit=MAX_FILE_BYTES)
    except OSError as error:
        return clean_line(f"{path} cannot be read: {sources.reason(error)}")


class LessonText(ScrollPane, FindableText):
    """The lesson's text, which can be searched."""

    BINDINGS: ClassVar[list[BindingType]] = FIND_KEYS


class LessonScreen(WorkScreen):
    BINDINGS: ClassVar[list[BindingType]] = bind(
        Key("source", "enter,s", "source", "Show the highlighted rung's source beside the lesson.", "⏎"),
        *("diff", "run_quick", "trust"),
        Key("lesson_text", "m", "text", "Show the lesson's text in the place of the source, and back."),
        Key("step_rung(1)", "right_square_bracket", "rung", "Go to the next rung.", "[ ]"),
        Key("step_rung(-1)", "left_square_bracket", "", "Go to the rung before."),
        Key("samples", "i", "samples", "Show what the last run's samples say of the highlighted rung, and back."),
        Key("find_text", "slash", "", "Find words in the text or source that is shown; n and N go on.", "/"),
        *(name for name in TARGET if name not in ("diff", "run_quick", "trust")),
    )
    words = ("rung", "speed of light (SOL)", "verdict")
    DEFAULT_CSS = """
    LessonScreen #side { height: auto; max-height: 40%; width: 100%; }
    LessonScreen #rungs { height: 8; }
    LessonScreen #rung-about { height: auto; padding: 0 1; display: none; }
    LessonScreen #main { height: 1fr; width: 1fr; }
    LessonScreen #text, LessonScreen #source, LessonScreen #samples { height: 1fr; width: 1fr; }
    LessonScreen #markdown { padding: 0 1; }
    LessonScreen MarkdownH1 { content-align: left middle; margin: 0 0 1 0; }
    LessonScreen MarkdownH2 { margin: 1 0; }
    LessonScreen MarkdownFence > Label { width: 100%; padding: 1; }
    LessonScreen.-wide #side { max-width: 45%; height: 1fr; max-height: 100%; dock: right; }
    LessonScreen.-wide #rungs { height: 1fr; }
    LessonScreen.-wide #rung-about { display: block; height: 14; }
    """

    sizes: ClassVar[Sizes] = {"-wide": lambda size: size.width >= WIDE_COLUMNS}
    redrawn = True
    shown = frozenset(("catalog", "board", "runs", "status", "quarantines"))
    chooses = "source"
    AUTO_FOCUS = "#text"

    def __init__(self, target_id: str) -> None:
        super().__init__(target_id)
        self._told = False  # whether the lesson's text is in its pane
        self._source = ""  # name of the one in the pane
        self._runs: dict[str, RunView] = {}  # by id, those whose figures are shown, whole but for their samples
        self._earlier: dict[str, Reading] = {}  # by rung of which the last run says nothing
        self._earlier_of = ""  # the run that they stand beside

    @property
    def rung_name(self) -> str:
        return self.chosen_key

    @property
    def header_title(self) -> str:
        target = self.workbench.target(self._target_id)
        return f"{self._target_id}  {target.title}" if target is not None else self._target_id

    def compose_body(self) -> ComposeResult:
        with Container(id="panes"):
            with ContentSwitcher(initial="text", id="main"):
                with LessonText(id="text", classes="pane"):
                    yield Markdown("", id="markdown", open_links=False)
                yield SourceView(id="source", classes="pane")
                yield LogPane(id="samples", classes="pane", empty="nothing here")
            with Container(id="side"):
                yield LiveTable(id="rungs", classes="pane", empty="Reading the catalogue")
                yield Static(id="rung-about", classes="pane", markup=False)

    def on_mount(self) -> None:
        self.query_one("#text").border_title = "Lesson"
        self.query_one("#source").border_title = "Source"
        self.draw()

    def _arrange(self) -> None:
        """Give the table its columns and, beside the text, the room that they need and no more."""
        gpu, target = not self.workbench.no_gpu, self.workbench.target(self._target_id)
        columns = [
            Column("name", "rung", None, ratio=1),
            Column("median", "median ms", 10, align="right"),
            Column("verdict", "speed-up", 9, align="right"),
            Column("sol", "of SOL", 6, align="right") if gpu else Column("here", "here", 9, align="right"),
        ]
        self.table.columns = columns
        names = [*(rung.name for rung in target.rungs), *target.files] if target is not None else []
        needed = max(map(plain.cells, names), default=0) + sum((one.width or 0) + GAP for one in columns) + FRAME
        self.query_one("#side").styles.width = needed if self.has_class("-wide") else None

    def refresh_from(self, names: set[str]) -> None:
        self._told = self._told and "catalog" not in names
        super().refresh_from(names)

    def _last(self) -> tuple[Reading | None, Reading | None]:
        live = (run for run in self.workbench.model.runs.values() if run.record.target == self._target_id)
        return self.workbench.last(self._target_id, live)

    def _result(self) -> Reading | None:
        return self._last()[0]

    def _of(self, rung: str) -> Reading | None:
        """The run that a rung's figures are from: the last one, or an earlier one where that says nothing of it."""
        result = self._result()
        if result is not None and result.id == self._earlier_of and not tells(result.arm(rung)):
            return self._earlier.get(rung, result)
        return result

    async def _read_earlier(self, result: Reading, target: Target) -> None:
        try:
            found = await self.workbench.stored(lambda history: standing(history, target, result))
        except (LookupError, StoreError):
            return  # it is not in the store yet: its end is told once more when it is
        self._earlier_of, self._earlier = result.id, found or {}
        if self._earlier:
            self.draw()

    def _run_of(self, rung: str) -> RunView | None:
        """The run of `_of`: the model's, else from the store, read in a thread; None until it is there."""
        result = self._of(rung)
        if result is None:
            return None
        live = self.workbench.model.runs.get(result.id)
        if live is not None and live.record.state.final:
            return live
        if result.id not in self._runs:
            begin(self, partial(self._read_run, result.id), group="run", exclusive=True)
        return self._runs.get(result.id)

    async def _read_run(self, run_id: str) -> None:
        try:
            run = await self.workbench.stored(lambda history: stored_run(history.run(run_id), {}))
        except LookupError:
            return  # it was removed from the store meanwhile: its figures in the table are all there is
        if run is None:
            return
        self._runs[run_id] = run
        self.workbench.model.mark(run)
        self._about()

    def draw(self) -> None:
        target = self.workbench.target(self._target_id)
        if target is None:
            if self.workbench.catalog is not None and not self._told:
                self._told = True
                self.query_one(Markdown).update(
                    f"`{self._target_id}` is not in the catalogue; F5 on the first screen reads it again."
                )
            return
        if not self._told:
            self._told = True
            lesson = (
                clean(target.lesson).strip()
                or "This lesson has no text yet: it goes below the `+++` line of lesson.md."
            )
            if not lesson.startswith("# "):
                lesson = f"# {clean_line(target.title)}\n\n{lesson}"
            self.query_one(Markdown).update(lesson)
        self._arrange()
        last, attempt = self._last()
        if last is not None and last.id != self._earlier_of:  # what of the store still stands beside it
            begin(self, partial(self._read_earlier, last, target), group="earlier", exclusive=True)
        said = self.workbench.shipped.get(self._target_id)
        held = self.workbench.held(target)
        ascii_only = self.workbench.ascii
        rows: list[tuple[str, list[Cell]]] = []
        old = False  # whether any figure is of an earlier run
        for rung in target.rungs:
            result = self._of(rung.name)
            arm = result.arm(rung.name) if result is not None else None
            earlier = arm is not None and result is not None and (last is None or result.id != last.id)
            old = old or earlier
            caught = result.caught if result is not None else {}
            comparison = None
            if result is not None:
                comparison = next((item for item in result.comparisons if item.rung == rung.name), None)
            barred = rung.name in held or rung.name in caught or "" in caught or rung.role is Role.CHEAT
            shown = arm if not barred else None
            elsewhere = said if said is not None and self._is_shipped(rung, said) else None
            name = Text(rung.name, style="bold" if rung.role not in REFUSED else "")
            verdict: Cell = ""
            if rung.name in caught or "" in caught:
                wrong = result is not None and rung.name in result.mistaken
                verdict = mark("wrong" if wrong else "caught", ascii_only)
            elif rung.name in held or BASELINE in held:
                by = held.get(rung.name) or held[BASELINE]
                verdict = mark("wrong" if by.mistake else "held", ascii_only)
            elif rung.role is Role.WRONG and arm is None:
                verdict = Text("mistake", "dim")
            elif rung.role is Role.CHEAT:
                verdict = Text("! missed", "bold") if arm is not None and arm.median_ms is not None else "cheat"
            elif result is not None and (ended := outcome.of(result, rung.name)).doubts:
                verdict = ended_text(ended, ascii_only)
            elif comparison is not None:
                verdict = verdict_text(comparison.verdict.value, comparison.speedup, ascii_only)
            elif arm is not None and arm.state.final and arm.median_ms is None:
                verdict = STATE_WORDS[arm.state]
            elif elsewhere is not None:
                verdict = Text(elsewhere.speedup(rung.name), "dim")
            median: Cell = plain.number(shown.median_ms) if shown and shown.median_ms else ""
            if median and earlier:
                median = f"({median})"
            if elsewhere is not None:
                median = Text(f"on {hardware.short(elsewhere.on)}", "dim")
            sol: Cell = plain.percent(shown.sol) if shown is not None and shown.sol is not None else ""
            if self.workbench.no_gpu:
                sol = Text(overview.without_gpu(rung) if rung.role not in REFUSED else "", "dim")
            rows.append((rung.name, [name, median, verdict, sol]))
        known = {rung.path.name for rung in target.rungs}
        rows += [(name_, [Text(name_, style="dim"), "", "", ""]) for name_ in target.files if name_ not in known]
        self.table.show(rows)
        case = last.unusual_case(target) if last is not None else ""
        title = f"Rungs and files, case {case}" if case else "Rungs and files"
        title += "; (earlier run)" if old else ""
        if (active := self.workbench.model.active_run(self._target_id)) is not None:
            title += f"; {STATE_WORDS[active.record.state]}: . opens the run"
        entitle(self.table, f"{title}; last try: {STATE_WORDS[attempt.record.state]}" if attempt is not None else title)
        self._about()

    def _is_shipped(self, rung: Rung, said: Shipped) -> bool:
        """Whether what the collection says of a rung stands in the place of a result here."""
        return self._of(rung.name) is None and rung.role not in REFUSED and bool(said.speedup(rung.name))

    def _about(self) -> None:
        target = self.workbench.target(self._target_id)
        name = self.rung_name
        text = Text()
        if target is not None:
            rung = next((rung for rung in target.rungs if rung.name == name), None)
            text.append(clean_line(name), style="bold")
            if rung is None:
                text.append("\na file that every rung depends on; enter shows it")
            else:
                if rung.role is Role.CHEAT:
                    text.append(" must be caught", style="dim")
                elif rung.role is Role.WRONG:
                    text.append(" must be refused", style="dim")
                hint = f"enter shows its source{', d its diff to the honest twin' * (rung.role is Role.CHEAT)}"
                text.append(f"\n{clean_line(rung.summary) or hint}\n")
                result = self._of(rung.name)
                said = self.workbench.shipped.get(self._target_id)
                if said is not None and self._is_shipped(rung, said):
                    text.append(f"shipped: {shipped_text(said, rung.name)}\n", style="dim")
                marks = self._marks(target, result, rung.name)
                if result is not None and result.record.state is State.CHANGED:
                    text.append(
                        f"the last run was {state_words(result.record.state)}: {result.record.reason}\n", style="bold"
                    )
                for why in marks:
                    text.append(why + "\n", style="bold")
                arm = result.arm(rung.name) if result is not None else None
                if rung.role is Role.WRONG and not marks and not tells(arm):
                    text.append("no key runs it; to see it refused, in a shell:\n")
                    text.append(_refusal(target, rung.name) + "\n")
                if arm is not None and arm.median_ms is not None and not marks:
                    text.append(f"{plain.time_of(arm.median_ms, arm.low_ms, arm.high_ms)}\n")
                    last = self._result()
                    if result is not None and (last is None or result.id != last.id):
                        how = "quick" if result.record.quick else "full"
                        text.append(
                            f"of the {how} run of {plain.local_time(result.record.wall)}: its code has not changed\n"
                        )
                    text.append("\n".join(self._short(rung.name)) + "\n")
                if arm is not None and arm.reason:
                    text.append(f"{arm.reason}\n")
        self.query_one("#rung-about", Static).update(text)
        self._tell_samples()

    def _marks(self, target: Target, result: Reading | None, rung: str) -> list[str]:
        """Why the rung's figures are no result; empty where they are one."""
        caught = result.caught if result is not None else {}
        lines = []
        if rung in caught or "" in caught:
            word = "wrong, found by" if result is not None and rung in result.mistaken else "caught by"
            lines.append(f"{word} {caught.get(rung) or caught['']}")
        held = self.workbench.held(target).get(rung)
        if held is not None:
            since = plain.local_time(held.wall)
            where = f"wrong since {since}" if held.mistake else f"in quarantine since {since} ({held.check})"
            lines.append(f"{where}, until its code changes and passes every check")
            if not lines[:-1]:
                lines.append(held.evidence)
        return lines

    def _short(self, rung: str) -> list[str]:
        """How the rung's time was taken and what limits it, in a few words; the `i` pane has the sentences."""
        run = self._run_of(rung)
        arm = run.arm(rung) if run is not None else None
        if run is None or arm is None:
            return []
        parts = [timing_words(arm.timing, arm.calls)]
        if arm.sm_clock_mhz is not None:
            parts.append(f"SM {plain.megahertz(arm.sm_clock_mhz)} MHz")
        lines = [" \u00b7 ".join(parts) if not self.workbench.ascii else " | ".join(parts)]
        if arm.light is not None:
            basis = {"measured": "measured ceilings", "datasheet": "datasheet"}.get(
                arm.light.basis if arm.light else "", plain.DASH
            )
            lines.append(f"{plain.percent(arm.sol)} of the {basis}")
            lines.append(f"limit {readings.limiter_word(arm)}, score {readings.score_word(arm)}")
        notes = quality_notes(arm.quality, arm.median_ms, arm.calls)
        item = run.comparison(rung)
        if notes or (item is not None and item.note):
            lines.append("i: what the samples say")
        return lines

    def _tell_samples(self) -> None:
        if self.query_one("#main", ContentSwitcher).current != "samples":
            return
        pane, name = self.query_one("#samples", LogPane), self.rung_name
        run = self._run_of(name)
        lines = ["No run of this target has ended yet: r runs it quickly, R in full."]
        if run is not None:
            lines = readings.sample_lines(run, self.workbench.ascii, name if name in run.rungs else None)
        target = self.workbench.target(self._target_id)
        rung = next((rung for rung in target.rungs if rung.name == name), None) if target is not None else None
        unseen = run is None or name not in run.rungs
        if target is not None and rung is not None and rung.role is Role.WRONG and unseen:
            how = f"{name} must be refused. No key runs it; to see it refused, in a shell:"
            lines = [how, _refusal(target, name), "", *lines]
        pane.prose(lines, labelled=True)
        when = f", {plain.local_time(run.record.wall)}" if run is not None and run.record.wall else ""
        pane.border_title = Content(f"What the samples say{when}")

    def action_samples(self) -> None:
        switcher = self.query_one("#main", ContentSwitcher)
        switcher.current = "text" if switcher.current == "samples" else "samples"
        if self.focused is not self.table:
            self.query_one(f"#{switcher.current}").focus()
        self._tell_samples()

    def opened_about(self, name: str) -> dict[str, Any] | None:
        """The diff of a cheat is its honest twin beside it."""
        about, target = super().opened_about(name), self.workbench.target(self._target_id)
        if name == "diff" and about and target and any(rung.role is Role.CHEAT for rung in target.rungs):
            left, right = self.workbench.pair_of(self._target_id, self.rung_name)
            about |= {"left": Source(left), "right": Source(right)}
        return about

    def copy_text(self) -> str:
        """The source where one is shown, else the lesson."""
        switcher = self.query_one("#main", ContentSwitcher)
        if switcher.current == "source":
            return self.query_one(SourceView).source
        run = self._run_of(self.rung_name)
        if switcher.current == "samples" and run is not None:
            return "\n".join(readings.sample_lines(run, True, self.rung_name))
        target = self.workbench.target(self._target_id)
        return clean(target.lesson) if target is not None else ""

    def on_markdown_link_clicked(self, message: Markdown.LinkClicked) -> None:
        """A link is shown, never followed."""
        message.stop()
        self.notify(f"Links are not opened from here: {message.href}")

    def row_changed(self) -> None:
        self._about()
        if self.query_one("#main", ContentSwitcher).current == "source" and self._source != self.rung_name:
            self._show_source()

    def action_source(self) -> None:
        self.query_one("#main", ContentSwitcher).current = "source"
        if self.focused is not self.table:
            self.query_one(SourceView).focus()
        self._show_source()

    def _show_source(self) -> None:
        target = self.workbench.target(self._target_id)
        if target is not None and self.rung_name:
            self._source = self.rung_name
            begin(self, partial(self._load, target, self.rung_name), exclusive=True)

    async def _load(self, target: Target, name: str) -> None:
        path = file_of(target, name)
        text = await aside(read_source, path)
        view = self.query_one(SourceView)
        # Literal: a file's name is not markup.
        view.border_title = Content(clean_line(path.name))
        view.show(text, path.name)

    def action_lesson_text(self) -> None:
        if self.query_one("#main", ContentSwitcher).current == "text":
            self.action_source()
            return
        self.query_one("#main", ContentSwitcher).current = "text"
        if self.focused is not self.table:
            self.query_one("#text").focus()

    async def action_find_text(self) -> None:
        """Find words in what is shown, also while the rungs have the focus."""
        shown = self.query_one("#main", ContentSwitcher).current
        await self.query_one(f"#{shown}", Findable).action_find()

    def action_step_rung(self, by: int) -> None:
        target = self.workbench.target(self._target_id)
        if target is None:
            return
        known = {rung.path.name for rung in target.rungs}
        names = [rung.name for rung in target.rungs] + [name for name in target.files if name not in known]
        at = names.index(self.rung_name) if self.rung_name in names else 0
        self.table.move_to(names[(at + by) % len(names)])
