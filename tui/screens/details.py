"""All about the highlighted row of the catalogue, as a pane: a target with its last result, a chapter, a problem.

What is said of a target hangs on its `TargetState`; whether its prediction came true is looked up beside the loop.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, TypeAlias, cast

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text
from textual.app import ComposeResult
from textual.content import Content
from textual.widgets import Static

from aisp.engine.stored import environment
from aisp.kernels.catalog.model import Goal, Kind, Role
from aisp.store.outcomes import TWIN_SUFFIX, State, Validity
from aisp.store.record import Comparison
from aisp.store.results.prediction import LOOK_BACK_RUNS, Answer, Says, answer
from aisp.store.results.reading import Bar, Reading
from aisp.store.text import clean, clean_line
from aisp.tui import plain, progress
from aisp.tui.aside import begin
from aisp.tui.earlier import newest_first
from aisp.tui.findings import bar_sign, end_text
from aisp.tui.model import RunView
from aisp.tui.results import CHEAT, STATE_WORDS, end_words, own_note
from aisp.tui.screens.base import ScrollPane
from aisp.tui.themes import verdict_style, verdict_text

if TYPE_CHECKING:
    from aisp.kernels.catalog.model import Catalog, Chapter, Expectation, Needs, Problem, Target
    from aisp.store import History
    from aisp.store.results.expected import Shipped
    from aisp.tui.app import Workbench

# What the details are made of: paragraphs, and lists of labels with values.
Parts: TypeAlias = "list[Text | list[tuple[Text, Text]]]"

GOALS = {
    Goal.SPEED: "faster",
    Goal.MEMORY: "less memory",
    Goal.LATENCY: "lower latency",
    Goal.NULL: "teaches that it does not help",
    Goal.REFUSAL: "shows what must be refused",
}
KINDS = {Kind.TORCH: "PyTorch", Kind.TRITON: "Triton", Kind.CUDA: "CUDA"}


@dataclass(frozen=True, slots=True)
class TargetState:
    """What is known of a target now.

    Attributes:
        result, attempt: its last result, and a newer attempt that says nothing.
        active: its run that is under way, or waits.
        held: its rungs in quarantine.
        shipped: what its collection says of it, where it has no result here.
    """

    target: Target
    result: Reading | None
    attempt: Reading | None
    active: RunView | None
    held: dict[str, Bar]
    shipped: Shipped | None

    @property
    def caught(self) -> dict[str, str]:
        return self.result.caught if self.result is not None else {}


class Details(ScrollPane):
    """The pane. `text` is what it shows, for the clipboard."""

    DEFAULT_CSS = "Details { padding: 0 1; }"

    def __init__(self) -> None:
        super().__init__(id="details", classes="pane")
        self.border_title = "Details"
        self.text = ""
        self._state: TargetState | None = None  # of the target that is shown
        self._answers: dict[str, Answer] = {}  # to predictions, by target
        self._asked: tuple[str, str, frozenset[str]] | None = None  # target, last result and quarantines of the newest

    @property
    def _app(self) -> Workbench:
        return cast("Workbench", self.app)

    def compose(self) -> ComposeResult:
        yield Static(id="about", markup=False)

    def forget(self) -> None:
        """Draw what comes next whatever it is: the theme's colours are others."""
        self.text = ""

    def show(self, title: str, parts: Parts) -> None:
        if self.border_title != (content := Content(title)).markup:
            self.border_title = content
        self._state, text = None, as_text(parts)
        if text != self.text:
            self.text = text
            self.query_one("#about", Static).update(as_renderable(parts))

    def show_target(self, state: TargetState) -> None:
        self.show(state.target.id, self._about_target(state))
        self._state = state

    def show_chapter(self, catalog: Catalog, chapter: Chapter) -> None:
        count = sum(target.chapter == chapter.id for target in catalog.targets)
        # Appended: a base style would make everything behind it bold too.
        text = Text().append(clean_line(chapter.title), style="bold")
        text.append(f"\n{plain.counted(count, 'target')}; r runs them one after the other.")
        readme = chapter.readme.partition("\n\n")[2] or chapter.readme
        self.show(chapter.id, [text, *readme_parts(readme)])

    def show_problems(self, title: str, problems: Iterable[Problem], intro: str = "") -> None:
        parts: Parts = [Text(intro)] if intro else []
        for problem in problems:
            parts += [about_problem(problem), *([Text("")] if intro else [])]
        self.show(title, parts)

    def _about_target(self, state: TargetState) -> Parts:
        app, target = self._app, state.target
        head = Text().append(clean_line(target.title), style="bold")
        if (active := state.active) is not None:
            far = progress.words(active.progress(app.model.now_ns()), ", ")
            parts_now = (STATE_WORDS[active.record.state], far, progress.doing(active))
            keys = "enter opens the run" if active.record.start_ns is not None else "J shows the queue"
            head.append(f"\nNow {', '.join(part for part in parts_now if part)}; {keys}, x cancels")
        if missing := app.missing(target):
            head.append(f"\nHere: {missing}")
        facts = [
            ("goal", GOALS[target.goal]),
            ("technique", ", ".join(target.techniques) or plain.DASH),
            ("needs", needs_text(target)),
        ]
        watch = app.model.watches.get(target.id)
        if watch is not None and watch.active:
            facts.append(("watch", f"on, {plain.counted(watch.saves, 'edit')}"))
        if state.shipped is not None:
            facts.append(("shipped", shipped_text(state.shipped, state.shipped.lead)))
        if (expect := target.expect) is not None:
            low, high = expect.speedup
            less = f", {expect.memory[0]:g}x to {expect.memory[1]:g}x less memory" if expect.memory else ""
            facts.append(("predicted", f"{low:g}x to {high:g}x{less} on {expect.on}: {self._met(state, expect)}"))
            facts.append(("because", expect.why))
        grid: list[tuple[Text, Text]] = [(Text(label, "dim"), Text(clean_line(value))) for label, value in facts]
        if any(rung.role is Role.CHEAT for rung in target.rungs):
            head.append("\nA cheat and its honest twin: d compares them, r runs both, v shows who was caught", "bold")
        parts: Parts = [head, self._last_run(state), grid, Text("Rungs", style="dim"), *_rungs(state)]
        if any(rung.role is Role.WRONG for rung in target.rungs):
            parts.append(Text("\nNo key runs what must be refused; its lesson says how to see it", style="dim"))
        return parts

    def _last_run(self, state: TargetState) -> Text:
        result, attempt, held = state.result, state.attempt, state.held
        tried = Text()
        if attempt is not None:
            tried.append(f"Last try {plain.local_time(attempt.record.wall)}: {end_words(attempt.record)}\n")
        if result is None:
            if attempt is not None:
                return tried
            known = self._app.board_read
            return Text("Not run yet: r runs it quickly, R in full\n" if known else "Reading earlier results\n")
        how = "quick" if result.record.quick else "full"
        where = result.record.device
        if case := result.unusual_case(state.target):
            where += f", case {case}"
        text = Text(f"Last run {plain.local_time(result.record.wall)}, {how}, {where}\n", style="dim")
        lines = Text()
        if result.record.state is not State.OK:
            lines.append_text(end_text(result.record)).append("\n")
        elif result.record.validity.suspect:
            lines.append("suspect: ", style="bold").append(f"{result.record.reason or 'v says why'}\n")
        caught, ascii_only = result.caught, self._app.ascii
        barred = {*held, *caught}
        for rung in sorted(barred):
            if rung in result.mistaken or (rung in held and held[rung].mistake):
                word = "wrong"
            else:
                word = "in quarantine" if rung in held else "caught"
            why = caught.get(rung) or f"{held[rung].check}: {held[rung].evidence}"
            lines.append(f"{bar_sign(ascii_only)} {rung or 'the run'} {word}", verdict_style("slower"))
            lines.append(f" {clean_line(why, limit=600)}\n")
        headline = result.headline  # the figure of the row: it is what one looks for
        silent: dict[tuple[str, str], list[str]] = {}  # against what a rung has no verdict, by rung and reason
        for item in sorted(result.comparisons, key=lambda item: headline is None or item.rung != headline.rung):
            cheat = item.rung.startswith(CHEAT)  # what one came to is nobody's speed-up
            if item.rung.endswith(TWIN_SUFFIX) or cheat or {item.rung, item.baseline, ""} & barred:
                continue
            if item.verdict.known:
                lines.append_text(comparison_text(item, result.judged(item), ascii_only)).append("\n")
            else:
                silent.setdefault((item.rung, own_note(item)), []).append(item.baseline)
        for (rung, note), baselines in silent.items():
            lines.append_text(verdict_text("none", None, ascii_only)).append(" no verdict  ").append(rung, "bold")
            lines.append(f" against {', '.join(baselines)}", "dim").append(f"\n  {note}\n" if note else "\n")
        return Text.assemble(text, lines, tried)

    def _met(self, state: TargetState, expect: Expectation) -> str:
        """Whether the prediction came true, as far as the store has been asked."""
        target, result = state.target, state.result
        asked = (target.id, result.id if result is not None else "", frozenset(state.held))
        if asked != self._asked:
            self._asked = asked
            begin(self, partial(self._read_answer, asked, target), group="prediction", exclusive=True)
        said = self._answers.get(target.id)
        return prediction_text(said, expect) if said is not None else "looking it up"

    async def _read_answer(self, asked: tuple[str, str, frozenset[str]], target: Target) -> None:
        def read(history: History) -> Answer:
            runs = newest_first(history, target.names, LOOK_BACK_RUNS)
            return answer(runs, target, lambda run: environment(history, run), quarantined=bool(asked[2]))

        found, why = await self._app.read(read)
        if why:
            self._asked = None
            self.log(f"the prediction of {target.id} could not be looked up: {why}")
            return
        self._answers[target.id] = found or Answer()
        if self._state is not None:
            self.show_target(self._state)


def _rungs(state: TargetState) -> Parts:
    result, barred = state.result, {*state.held, *state.caught}
    parts: Parts = []
    for rung in state.target.rungs:
        arm = result.arm(rung.name) if result is not None else None
        text = Text(clean_line(rung.name), style="bold")
        text.append(f" {KINDS[rung.kind]}", style="not bold dim")
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
        about.append(clean_line(rung.summary))
        if about.plain.strip():
            about.rstrip()
            parts.append([(Text(""), about)])
    return parts


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
    return f"{rung} {said.speedup(rung)}".rstrip() + f"{time} on {said.on}, {said.wall[:10]}; not measured here"


def prediction_text(said: Answer, expect: Expectation) -> str:
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


def comparison_text(item: Comparison, judged: str, ascii_only: bool) -> Text:
    """One comparison on a line: sign, speed-up with interval, verdict, where it was judged, and why it is open."""
    text = verdict_text(item.verdict.value, None, ascii_only)
    text.append(f" {plain.speedup(item.speedup, item.low, item.high)}  {item.verdict.value}  ")
    text.append(item.rung, style="bold")
    text.append(f" against {item.baseline}{', ' if judged else ''}{judged}", style="dim")
    if item.note and not item.verdict.decided:
        text.append(f"\n  {own_note(item)}")
    return text


def about_problem(problem: Problem) -> list[tuple[Text, Text]]:
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
