"""Every stored run of a target: a table of outcomes, and one rung's medians over the runs with their intervals."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container
from textual.widgets import Static

from aisp.engine.stored import marked, marks_of
from aisp.store.outcomes import SUPERSEDED, State
from aisp.store.results import outcome
from aisp.store.results.reading import Reading
from aisp.store.results.tables.runs import RUNS, Listed, note
from aisp.tui import plain
from aisp.tui.aside import begin
from aisp.tui.earlier import foreign_machine, runs_of
from aisp.tui.findings import bar_sign, cheats_text, ended_text
from aisp.tui.keymap import Key, bind
from aisp.tui.replicas import ReplicaTimes
from aisp.tui.screens import Source
from aisp.tui.screens.base import Sizes, entitle, subtitle
from aisp.tui.screens.exporting import EXPORT, ExportingScreen
from aisp.tui.widgets.editplot import NAMES, EditPlot, EditPoint, Mark
from aisp.tui.widgets.lines import Refitted
from aisp.tui.widgets.table import Cell, Column, LiveTable

if TYPE_CHECKING:
    from aisp.store import History

MAX_RUNS = 1000
PLOTTED = {**NAMES, Mark.EDIT: "run", Mark.BEST: "marked"}
WIDE_COLUMNS = 130
VERDICT_COLUMNS = 10


def results_of(names: Sequence[str], history: History) -> tuple[list[Reading], dict[str, str]]:
    """The newest runs of a target under all its names; of those that other machines made, which, by run."""
    foreign = [run for name in names for run in history.foreign(name, MAX_RUNS)]
    runs = [*runs_of(history, names, MAX_RUNS), *foreign]
    machines = {run.id: foreign_machine(history, run) for run in foreign}
    marks = marks_of(history)
    return [marked(run, marks) for run in sorted(runs, key=lambda run: run.id, reverse=True)], machines


class HistoryScreen(ExportingScreen):
    BINDINGS: ClassVar[list[BindingType]] = bind(
        Key("open_run", "enter", "open run", "Open the stored run.", "⏎"),
        Key("mark", "m,space", "mark", "Mark a run; the two marked last are compared, of whatever targets they are."),
        Key("compare", "C", "compare",
            "Compare the two marked runs, or the marked one with the highlighted: figures, differences, checks."),
        Key("diff_runs", "d", "diff",
            "Compare the sources of the two marked runs, or of the highlighted run with now."),
        Key("only", "o", "all", "Show cancelled and superseded runs too, or leave them out again."),
        Key("plot_rung(1)", "right_square_bracket", "rung", "Plot the next rung.", "[ ]"),
        Key("plot_rung(-1)", "left_square_bracket", "", "Plot the rung before."),
        EXPORT,
        *("run_quick", "run_full", "run_trust", "checks", "cancel", "watch", "edit"),
    )  # fmt: skip
    words = ("noise floor", "verdict")
    DEFAULT_CSS = """
    HistoryScreen #plot { height: 50%; width: 100%; display: none; }
    HistoryScreen #plot.-filled { display: block; }
    HistoryScreen.-wide #plot { width: 40%; height: 1fr; }
    HistoryScreen.-short #plot { display: none; }
    """

    heading = "{}  history"
    sizes: ClassVar[Sizes] = {
        "-wide": lambda size: size.width >= WIDE_COLUMNS,
        "-short": lambda size: size.height < 16,
    }
    chooses = "open_run"
    of_rows = frozenset(("open_run", "mark", "compare", "diff_runs", "plot_rung(1)", "export"))

    def __init__(self, target_id: str) -> None:
        super().__init__(target_id)
        self._results: list[Reading] = []  # newest first
        self._all = False  # whether runs that were cancelled have rows too
        self._machines: dict[str, str] = {}  # of the runs that were imported
        self._rung = ""
        self._drawn: list[str] = []  # runs by id, as they are numbered in the plot
        self._both = ReplicaTimes(self)
        self._ended: set[str] = set()

    def compose_body(self) -> ComposeResult:
        with Container(id="panes"):
            table = LiveTable(id="runs", classes="pane", empty="Reading the store")
            table.border_title = "Runs, newest first"
            table.columns = [
                Column("mark", "", 1),
                Column("wall", "when", 16),
                Column("quick", "mode", 5),
                Column("verdict", "verdict", VERDICT_COLUMNS, align="right"),
                Column("speedup", "speed-up [95 %]", 20, align="right"),
                Column("lead_ms", "best ms", 7, align="right"),
                Column("base_ms", "base ms", 7, align="right"),
                Column("device", "device"),
                Column("snapshot", "sources", 8),
                Column("reason", "reason", None, ratio=1),
            ]
            yield table
            yield EditPlot(PLOTTED, id="plot", name="Plot of the runs", classes="pane", empty="no time to draw")
        yield Static(id="empty", markup=False)

    def on_mount(self) -> None:
        self.table.focus()
        self._load()

    def on_refitted(self, message: Refitted) -> None:
        if message.pane is self.table:
            self._say_reason()

    def refresh_from(self, names: set[str]) -> None:
        super().refresh_from(names)
        if self.is_mounted and "quarantines" in names:
            self._load()
        if self.is_mounted and not names and self._results:
            self._fill()  # a run may have been marked elsewhere
        if not self.is_mounted or (names and "runs" not in names):
            return
        ended = {
            run.id
            for run in self.workbench.model.runs.values()
            if run.record.target == self._target_id and run.record.state.final
        }
        if ended - self._ended:
            self._ended = ended
            self._load()

    def draw(self) -> None:
        if self._results:
            self._fill()
            self._draw()

    def _load(self) -> None:
        begin(self, self._read, group="history", exclusive=True)

    async def _read(self) -> None:
        target = self.workbench.target(self._target_id)
        names = target.names if target is not None else (self._target_id,)
        found, why = await self.workbench.read(partial(results_of, names))
        if why:
            self.say_empty(f"The history cannot be read: {why}")
            return
        self._results, self._machines = found or ([], {})
        if not self._results:
            self.say_empty(
                "No run of this target is stored yet.\n\n"
                "r  runs it quickly (two replicas, some seconds)\n"
                "R  runs it in full (as many replicas as the verdict asks for)\n"
                "w  runs it again after each save\n\n"
                f"or, in a shell: {self.workbench.typed('run', self._target_id)}"
            )
            return
        self.say_empty("")
        self.draw()

    def _fill(self) -> None:
        if self.focused is None:
            self.table.focus()
        ascii_only = self.workbench.ascii
        rows: list[tuple[str, list[Cell]]] = []
        for result in self._shown():
            ended, one = outcome.of_run(result), self._listed(result)
            verdict = ended_text(ended, ascii_only)
            cheats = cheats_text(result, result.caught, ascii_only)
            if cheats is not None and (ended.bar is None or not ended.bar.rung):
                verdict = cheats
            elif result.record.superseded:
                verdict = Text(SUPERSEDED)
            elif verdict.cell_len > VERDICT_COLUMNS:
                verdict = verdict[2:]  # a word that fills the column is told from the others without its sign
            own: dict[str, Cell] = {"mark": self._sign(result.id, ascii_only), "verdict": verdict, "reason": note(one)}
            own["device"] = one.machine or result.record.device  # the case stands in the reason where it is unusual
            cells = {column.key: column.cell(one) for column in RUNS} | own
            rows.append((result.id, [cells[column.key] for column in self.table.columns]))
        self.table.show(rows)
        self._tell_held()
        self._say_reason()
        self.refresh_bindings()

    def _shown(self) -> list[Reading]:
        """The runs that have a row: of those that were cancelled, by a person or a newer one, the marked alone."""
        marked = self.workbench.marked
        return [
            one for one in self._results if self._all or one.record.state is not State.CANCELLED or one.id in marked
        ]

    def _sign(self, run_id: str, ascii_only: bool) -> str:
        """Before a row: that it is marked, or else that it is another machine's."""
        if run_id in self.workbench.marked:
            return "*" if ascii_only else "◆"
        return "" if run_id not in self._machines else ">" if ascii_only else "»"

    def _listed(self, result: Reading) -> Listed:
        return Listed(result, self._machines.get(result.id, ""), self.workbench.target(self._target_id))

    def _tell_held(self) -> None:
        """Say above the runs which rungs are in quarantine, and what C would do."""
        target = self.workbench.target(self._target_id)
        held = self.workbench.held(target) if target is not None else {}
        sign = bar_sign(self.workbench.ascii)
        marks = [
            f"{sign} {rung} {'wrong' if one.mistake else 'in quarantine'}: {one.check}" for rung, one in held.items()
        ]
        marked = len(self.workbench.marked)
        hint = ["C compares the two marked"] if marked == 2 else ["one is marked"] if marked else []
        elsewhere = marked - sum(result.id in self.workbench.marked for result in self._results)
        if hint and elsewhere:
            hint = [f"{hint[0]} ({'one' if elsewhere == 1 else 'both'} elsewhere)"]
        hidden = len(self._results) - len(self._shown())
        left_out = [f"{plain.count(hidden)} cancelled left out, o shows"] if hidden else []
        self.table.empty = "every run was cancelled" if hidden else "Reading the store"
        entitle(self.table, ", ".join(["Runs, newest first", *hint, *marks, *left_out]))

    def _alike(self) -> list[Reading]:
        """The runs whose times may be drawn side by side: of this machine, of the newest one's case, on its device;
        newest first."""
        own = [result for result in self._results if result.id not in self._machines]
        timed = [result for result in own if any(arm.median_ms is not None for arm in result.record.arms)]

        def kind(result: Reading) -> tuple[str, str]:
            return result.record.device, result.record.case

        return [result for result in timed if kind(result) == kind(timed[0])]

    def _rungs(self) -> list[str]:
        """Rungs with a time in any run that is drawn, the newest run's lead first."""
        names: list[str] = []
        for result in self._alike():
            lead = result.lead
            for arm in ([lead] if lead is not None else []) + list(result.record.arms):
                if (
                    arm.median_ms is not None
                    and result.bar(arm.rung) is None
                    and arm.rung not in names
                    and not arm.twin
                ):
                    names.append(arm.rung)
        return names

    def _draw(self) -> None:
        """Draw the rung's time in each run; of a run with two processes what each of them took."""
        rungs, plot = self._rungs(), self.query_one("#plot", EditPlot)
        plot.set_class(bool(rungs), "-filled")
        if not rungs:
            return
        if self._rung not in rungs:
            self._rung = rungs[0]
        points, alike, marked = [], self._alike(), self.workbench.marked
        self._drawn = [result.id for result in reversed(alike)]
        chosen = self.table.cursor_key
        for number, result in enumerate(reversed(alike), start=1):
            arm = result.arm(self._rung)
            if arm is not None and arm.median_ms is not None and result.bar(arm.rung) is None:
                mark = Mark.BEST if result.id in marked else Mark.EDIT
                both = self._both.of(result, arm.rung)
                points.append(EditPoint(number, arm.median_ms, arm.low_ms, arm.high_ms, mark, both))
        at = rungs.index(self._rung) + 1
        what = f"medians in ms on {alike[0].record.device}, case {alike[0].record.case}"
        entitle(plot, f"{self._rung}: {what}, oldest run first")
        pair = [point.y for point in points if point.mark is Mark.BEST]
        told = f"marked: {plain.number(pair[0])} and {plain.number(pair[1])} ms, C compares; " if len(pair) == 2 else ""
        subtitle(plot, f"{told}rung {at} of {len(rungs)}")
        plot.show(points, chosen=self._drawn.index(chosen) + 1 if chosen in self._drawn else None)
        self._both.look_up(list(reversed(alike)), self._draw)

    def on_edit_plot_picked(self, message: EditPlot.Picked) -> None:
        message.stop()
        self.table.move_to(self._drawn[message.number - 1])

    def action_plot_rung(self, by: int) -> None:
        rungs = self._rungs()
        if rungs:
            self._rung = rungs[(rungs.index(self._rung) + by) % len(rungs)] if self._rung in rungs else rungs[0]
            self._draw()

    def row_changed(self) -> None:
        self._say_reason()
        self._draw()

    def _say_reason(self) -> None:
        """The highlighted run's reason under the table: at 80 columns it has no column."""
        result = self._highlighted()
        text = "" if result is None else note(self._listed(result))
        width = max(0, self.table.size.width - 4)
        subtitle(self.table, plain.fit(text, width))

    def _highlighted(self) -> Reading | None:
        return next((result for result in self._results if result.id == self.chosen_key), None)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Nothing is left out where nothing was cancelled."""
        if action == "only" and not any(one.record.state is State.CANCELLED for one in self._results):
            return False
        return super().check_action(action, parameters)

    def action_only(self) -> None:
        self._all = not self._all
        self._fill()

    def action_open_run(self) -> None:
        result = self._highlighted()
        if result is not None:
            self.workbench.open_screen("run", run_id=result.id)

    def opened_about(self, name: str) -> dict[str, Any] | None:
        if name != "trust":
            return super().opened_about(name)
        result = self._highlighted()
        return {"target_id": self._target_id, "run_id": result.id if result is not None else ""}

    def action_mark(self) -> None:
        result = self._highlighted()
        if result is None:
            return
        marked = self.workbench.marked
        if result.id in marked:
            marked.remove(result.id)
        else:
            self.workbench.marked = [*marked[-1:], result.id]
        self.draw()

    def action_compare(self) -> None:
        highlighted = self._highlighted()
        marked = self.workbench.marked
        if len(marked) == 1 and highlighted is not None and highlighted.id not in marked:
            self.workbench.marked = [*marked, highlighted.id]
            self._fill()
        self.workbench.compare_marked()

    def action_diff_runs(self) -> None:
        chosen = [result for result in self._results if result.id in self.workbench.marked]
        highlighted = self._highlighted()
        if len(chosen) == 1 and highlighted is not None and highlighted is not chosen[0]:
            chosen = [chosen[0], highlighted]
        if len(chosen) == 2:
            older, newer = sorted(chosen, key=lambda result: result.id)
            if older.record.snapshot == newer.record.snapshot:
                self.notify(f"Both runs ran the same sources, {older.record.snapshot[:8]}: nothing differs")
                return
        elif highlighted is not None:
            older = newer = highlighted
        else:
            self.notify("Highlight a run first", severity="warning")
            return
        name = newer.lead.rung if newer.lead is not None else "optimized"
        left, right = Source.ran(name, older.record), Source.ran(name, newer.record)
        if older is newer and self.workbench.ready(self._target_id):
            right = Source(name)
        elif older is newer:  # nothing stands there now
            left = Source.ran("baseline", newer.record)
        self.workbench.open_diff(self._target_id, left, right)

    @property
    def shared_run(self) -> str:
        result = self._highlighted()
        return result.id if result is not None else ""
