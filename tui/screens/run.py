"""One run: every iteration's time on one axis with the GPU's clocks, the arms, the steps, and why it failed.

A run that the model holds is drawn as it goes on, at most ten times a second (the link's ticks), its plot three times;
any other is read from the store in a thread and drawn the same way.
"""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container

from aisp.kernels.catalog.model import Role
from aisp.store.outcomes import Fault
from aisp.tui import rank_rows, readings, runplot, steps
from aisp.tui.aside import begin
from aisp.tui.earlier import foreign_machine
from aisp.tui.keymap import TARGET, Key, bind
from aisp.tui.model import BASELINE, RunView, stored_run
from aisp.tui.screens import Source
from aisp.tui.screens.base import Paced, Sizes
from aisp.tui.screens.exporting import EXPORT
from aisp.tui.screens.run_text import TALL_ROWS, RunTextScreen
from aisp.tui.widgets.lines import Refitted
from aisp.tui.widgets.logpane import LogPane
from aisp.tui.widgets.plot import LivePlot
from aisp.tui.widgets.strips import DistributionStrips
from aisp.tui.widgets.table import LiveTable
from aisp.tui.widgets.textrows import TextRows

if TYPE_CHECKING:
    from aisp.store import History

WIDE_COLUMNS = 110
STRIP_ROWS = 34  # of a screen on which there is room for how the times are distributed
ROWS_BESIDE_RANKS = 21  # of a screen that has all else to show
MOST_ARMS = 8  # rows of the table of rungs; it scrolls where there are more
CLOCK_PERIOD_S = 1.0
PLOT_PERIOD_S = 0.3  # a new curve is most of what a live frame sends; the eye reads figures, not every curve


class RunScreen(RunTextScreen):
    """See the module. `run_id` is a run of the model or of the store."""

    BINDINGS: ClassVar[list[BindingType]] = bind(
        Key("cancel", "x", "cancel", "Cancel this run, planned or running."),
        *("run_quick", "run_full"),
        Key("samples", "i", "samples",
            "Show what the samples say: how taken, at which clock, speed of light, quality, all notes in full."),
        "run_trust",
        *(name for name in TARGET if name not in ("cancel", "run_quick", "run_full", "trust")),
        Key("output", "o", "output", "Show what the kernels printed, and back."),
        Key("steps", "s", "steps", "Show every step with its duration, and back."),
        Key("metric", "m", "metric",
            "Put the next reading right below the samples: SM clock, memory clock, temperature, power."),
        Key("log", "a", "log axis",
            "Make the axis of times logarithmic, or linear; where arms differ threefold it is by itself."),
        Key("pause", "p", "pause", "Stop drawing, to look at something closely; the run goes on. Again: draw on."),
        EXPORT,
    )  # fmt: skip
    words = ("arm", "replica", "noise floor", "cold")
    DEFAULT_CSS = """
    RunScreen #title { text-style: none; }
    RunScreen #progress { background: $surface; color: $accent; }
    RunScreen.-ended #progress { display: none; }
    RunScreen #verdict { background: $surface; text-style: bold; }
    RunScreen #note { display: none; color: $warning; }
    RunScreen #note.-shown { display: block; }
    RunScreen #upper { layout: vertical; height: 1fr; min-height: 8; }
    RunScreen #plot { height: 1fr; min-height: 3; }
    RunScreen #facts { height: 2; }
    RunScreen #arms { height: 5; }
    RunScreen #text { height: 1fr; min-height: 3; display: none; }
    RunScreen.-text #text { display: block; }
    RunScreen #ranks { display: none; }
    RunScreen.-ranks #ranks { display: block; }
    RunScreen #strips { display: none; }
    RunScreen.-strips #strips { display: block; }
    RunScreen.-reading #upper, RunScreen.-reading #strips { display: none; }
    RunScreen.-untimed #plot { display: none; }
    RunScreen.-untimed #upper { height: 2; min-height: 2; }
    RunScreen.-wide #upper { layout: horizontal; height: 2fr; }
    RunScreen.-wide.-untimed #upper { height: 9; }
    RunScreen.-wide #plot { width: 1fr; height: 100%; }
    RunScreen.-wide #facts { width: 38; height: 100%; padding: 0 1; }
    """

    no_target = "The target is not known yet; try again in a moment"
    heading = "Run {}"
    redrawn = True
    sizes: ClassVar[Sizes] = {"-wide": lambda size: size.width >= WIDE_COLUMNS}
    AUTO_FOCUS = "#arms"

    def __init__(self, run_id: str) -> None:
        super().__init__()
        self.run_id = run_id
        self.metric = 0
        self.log_axis: bool | None = None  # whether the axis of times is logarithmic; None lets the times decide
        self.paused = False
        self._stored: RunView | None = None
        self._looked = False  # whether the store was asked
        self._brought = False  # whether the catalogue was made to know its target
        self._problem = ""
        self._plot = Paced(self, self._draw_plot, PLOT_PERIOD_S)

    def compose_body(self) -> ComposeResult:
        yield TextRows(id="title")
        yield TextRows(id="progress")
        yield TextRows(id="verdict")
        yield TextRows(id="note")
        with Container(id="upper"):
            yield LivePlot(id="plot", name="Plot", empty="no samples yet")
            yield TextRows(id="facts")
        yield DistributionStrips(id="strips")
        yield LiveTable(id="arms", name="Rungs", empty="no arms yet")
        yield TextRows(id="ranks")
        yield LogPane(id="text", name="Why and output", classes="ruled", empty="nothing here")

    def on_mount(self) -> None:
        self.set_interval(CLOCK_PERIOD_S, self._tick)
        self.share_rows()
        self.refresh_from(set())

    def on_refitted(self, message: Refitted) -> None:
        """The curve is thinned, and the steps' times are set to the right, for the width that their panes have."""
        run = self.run_view
        if run is not None and message.pane.id == "facts":
            self._draw_facts(run)
        elif run is not None and message.pane.id == "plot":
            self._plot.now()

    def draw(self) -> None:
        self._draw(set())

    @property
    def run_view(self) -> RunView | None:
        """The run as far as it is known: live, or as stored where the live view has holes."""
        live = self.workbench.model.runs.get(self.run_id)
        if self._stored is not None and (live is None or not live.whole or (live.gaps and live.record.state.final)):
            return self._stored
        return live

    @property
    def target_id(self) -> str:
        run = self.run_view
        return run.record.target if run is not None else ""

    @property
    def rung_name(self) -> str:
        return self.chosen_key

    def _look(self) -> None:
        """Ask the store where the model has not all of the run."""
        live = self.workbench.model.runs.get(self.run_id)
        needed = live is None or (live.record.state.final and (not live.whole or bool(live.gaps)))
        if needed and not self._looked:
            self._looked = True
            begin(self, self._load, group="stored", exclusive=True)

    async def _load(self) -> None:
        run_id = self.run_id

        def read(history: History) -> RunView:
            record = history.run(run_id)
            found = stored_run(record, history.samples(run_id), history.telemetry(run_id))
            found.foreign = foreign_machine(history, record)
            return found

        found, self._problem = await self.workbench.read(read)
        if not self._problem:
            self._stored = found
            if found is not None:
                self.workbench.model.mark(found)
            else:
                self._problem = "there is no store yet; `r` on a target in the catalogue runs it"
        if self.is_mounted:
            self.refresh_from(set())  # the header names its target

    def refresh_from(self, names: set[str]) -> None:
        super().refresh_from(names)
        if self.is_mounted and not (self.paused and names):
            self._draw(names)

    def _tick(self) -> None:
        run = self.run_view
        if run is not None and not run.record.state.final and not self.paused:
            self._draw_title(run)

    def _draw(self, names: set[str]) -> None:
        self._look()
        run = self.run_view
        if run is None:
            why = self._problem or ("reading the store" if self._looked else "waiting for the engine")
            self.say("title", Text(f"run {self.run_id}", style="bold"))
            self.say("verdict", Text(why))
            return
        if not self._brought and run.record.target and self.workbench.catalog is not None:
            self._brought = True
            folder = Path(os.fsdecode(run.record.folder))
            begin(self.workbench, partial(self.workbench.bring, run.record.target, folder), group="bring")
        everything = not names
        head = everything or not names.isdisjoint((f"run:{run.id}", "status", "connection", "quarantines"))
        if "quarantines" in names and run is self._stored:
            self.workbench.model.mark(run)
        samples = everything or f"samples:{run.id}" in names
        if head:
            self._draw_head(run)
        if head or samples:
            width, unit = self.size.width, runplot.time_unit(run, self.workbench.ascii)
            self.table.columns = readings.arm_columns(width, unit, gpu=readings.on_gpu(run))
            self.table.show(readings.arm_rows(run, width, unit, self.workbench.ascii))
            self._draw_ranks(run)
        if head or samples or "telemetry" in names:
            self._draw_facts(run)
            self._plot.now() if everything or run.record.state.final else self._plot.soon()
        if head or f"output:{run.id}" in names:
            self._draw_text(run)

    def _draw_title(self, run: RunView) -> None:
        now_ns = self.workbench.model.now_ns()
        self.say("title", readings.title_text(run, now_ns, paused=self.paused))
        if not run.record.state.final:
            self.say("progress", steps.progress_row(run, now_ns, self.size.width, self.workbench.ascii))

    def _draw_head(self, run: RunView) -> None:
        self._draw_title(run)
        self.say("verdict", readings.verdict_row(run, self.workbench.ascii, self.size.width))
        note = readings.note_row(run)
        row = self.query_one("#note", TextRows)
        row.set_class(bool(note.plain), "-shown")
        row.show([note])
        self.share_rows()

    def _draw_plot(self) -> None:
        run = self.run_view
        if run is None:
            return
        plot = self.query_one("#plot", LivePlot)
        unit = runplot.time_unit(run, self.workbench.ascii)
        columns = max(16, plot.size.width * plot.graph_style.dots[0])
        fold = runplot.Folding.of(run)
        lanes = runplot.run_lanes(run, self.metric, columns, fold)
        series = runplot.run_series(run, columns, unit, fold)
        log = runplot.wants_log(run) if self.log_axis is None else self.log_axis
        plot.show(series, x_label=fold.x_label, y_label=unit.name, lanes=lanes, log=log)
        # How the times are distributed, as long as there are rows for it.
        strips = self.query_one("#strips", DistributionStrips)
        found, floor = runplot.distributions(run) if self.size.height >= STRIP_ROWS else ([], None)
        self.set_class(bool(found), "-strips")
        if found:
            strips.styles.height = min(len(found), MOST_ARMS) + 2
            strips.show(found, floor)

    def _draw_ranks(self, run: RunView) -> None:
        """What each rank of the highlighted arm does, as long as there are rows for it; its samples say it too."""
        arm = rank_rows.chosen_arm(run, self.rung_name)
        ranks = self.query_one("#ranks", TextRows)
        rows = [] if arm is None else rank_rows.rank_rows(arm, max(20, self.size.width), self.workbench.ascii)
        shown = rows if self.size.height >= ROWS_BESIDE_RANKS + len(rows) and not self.zoomed else []
        self.set_class(bool(shown), "-ranks")
        ranks.styles.height = max(1, len(shown))
        ranks.show(shown)

    def _draw_facts(self, run: RunView) -> None:
        facts = self.query_one("#facts", TextRows)
        status, ascii = self.workbench.model.status, self.workbench.ascii
        if self.has_class("-wide"):
            width = max(8, facts.size.width)
            rows = readings.reading_rows(run, status, width)
            facts.show([*rows, Text(), *steps.step_rows(run, width, ascii)])
        else:
            facts.show([readings.reading_row(run, status), steps.step_row(run, ascii)])

    def share_rows(self) -> None:
        run = self.run_view
        if run is None:
            return
        timed = any(drawn.points.count or drawn.discarded for drawn in run.drawn.values())
        self.set_class(run.record.state.final and not timed, "-untimed")
        self.set_class(run.record.state.final, "-ended")
        self.refresh_bindings()  # what has ended cannot be cancelled
        self.set_class(bool(self._mode(run)), "-text")
        # Sentences need rows: on a low screen they take those of the plot while they are read.
        reading = self.zoomed or (self.mode == "samples" and self.size.height < TALL_ROWS)
        self.set_class(reading, "-reading")
        most = max(MOST_ARMS, self.size.height // 2) if self.zoomed else MOST_ARMS
        self.table.styles.height = min(len(run.rungs), most) + 1

    def row_changed(self) -> None:
        run = self.run_view
        if run is not None and not self.paused:
            self._draw_text(run)  # the chosen arm's traceback comes first
            self._draw_ranks(run)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """A run that has ended, or was never heard of, cannot be cancelled."""
        if action == "cancel" and self.is_mounted:
            live = self.workbench.model.runs.get(self.run_id)
            return live is not None and not live.record.state.final
        return super().check_action(action, parameters)

    def action_cancel(self) -> None:
        self.workbench.cancel([self.run_id])

    def show_run(self, run_id: str) -> None:
        self.run_id = run_id
        self.opened_with = {"run_id": run_id}
        self._stored, self._looked, self._problem = None, False, ""
        self._lines_seen, self.mode, self.paused, self.zoomed = -1, "", False, False
        self.refresh_from(set())

    def opened_about(self, name: str) -> dict[str, Any] | None:
        """Trust, checks and roofline are of this run; the diff is of the sources as they ran."""
        run = self.run_view
        if name == "checks":
            return {"run_id": self.run_id if run is not None and run.record.findings else ""}
        if name not in ("trust", "roofline", "diff"):
            return super().opened_about(name)
        if name != "trust" and (run is None or not run.record.target):
            return None
        if name == "diff" and run is not None:
            return self._compared(run)
        return {"target_id": self.target_id, "run_id": self.run_id}

    def _compared(self, run: RunView) -> dict[str, Any]:
        """The baseline and the highlighted (or fastest) rung; of a cheat its honest twin and the cheat."""
        lead = run.lead
        chosen = self.rung_name
        if chosen not in run.rungs or chosen.startswith(BASELINE):
            chosen = lead.rung if lead is not None else BASELINE
        first, other = BASELINE, chosen
        if any(arm.role is Role.CHEAT for arm in run.record.arms):
            first, other = self.workbench.pair_of(run.record.target, chosen)
        left, right = (Source.ran(name, run.record) for name in (first, other))
        return {"target_id": run.record.target, "left": left, "right": right}

    def action_edit(self) -> None:
        """Open the highlighted rung, or the one that failed, at the line that its error names."""
        run, target = self.run_view, self.workbench.target(self.target_id)
        files = target.files if target is not None else ()
        place = (self.rung_name,) if run is None else readings.failed_place(run, self.rung_name, files)
        first = run.arm(BASELINE) if run is not None and place == (BASELINE, "", None) else None
        if first is not None and first.state.fault is not Fault.TARGET:
            place = ("",)  # the first row is highlighted by itself: nobody chose it, and nothing is wrong with it
        self.workbench.edit(self.target_id, *place)

    def action_zoom(self) -> None:
        if self.zoomed or (self.focused is not None and self.focused.id == "arms"):
            self.zoomed = not self.zoomed
            self.draw()
        else:
            super().action_zoom()

    async def action_back(self) -> None:
        """Leave the zoom, then the screen."""
        if self.zoomed:
            self.action_zoom()
        else:
            await super().action_back()

    def action_log(self) -> None:
        run = self.run_view
        if run is not None:
            self.log_axis = not (runplot.wants_log(run) if self.log_axis is None else self.log_axis)
            self._plot.now()

    def action_metric(self) -> None:
        self.metric = (self.metric + 1) % len(runplot.METRICS)
        run = self.run_view
        if run is None:
            return
        self._plot.now()
        missing = readings.no_readings(run, self.workbench.model.status)
        text = missing or f"below the samples: {runplot.METRICS[self.metric].name}"
        self.notify(text, timeout=2)

    def action_pause(self) -> None:
        self.paused = not self.paused
        run = self.run_view
        if self.paused and run is not None:
            if self._plot.late:
                self._plot.now()  # so that plot and figures stand at the same moment
            self._draw_title(run)
        else:
            self.draw()

    @property
    def shared_run(self) -> str:
        return self.run_id if self.run_view is not None else ""
