"""One run: every iteration's time on one axis with the GPU's clocks, the arms, the steps, and why it failed.

A run that the model holds is drawn as it goes on, at most ten times a second (the link's ticks), its plot three times;
any other is read from the store in a thread and drawn the same way.
"""

from __future__ import annotations

import os
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container
from textual.timer import Timer

from aisp.kernels.catalog.model import Role
from aisp.store.outcomes import Fault
from aisp.tui import plain, rank_rows, readings, runplot, steps
from aisp.tui.aside import begin
from aisp.tui.earlier import foreign_machine
from aisp.tui.keymap import TARGET, Key, bind
from aisp.tui.model import BASELINE, RunView, stored_run
from aisp.tui.screens import Source
from aisp.tui.screens.base import entitle
from aisp.tui.screens.exporting import EXPORT, ExportingScreen
from aisp.tui.widgets.lines import Refitted
from aisp.tui.widgets.logpane import LogPane
from aisp.tui.widgets.plot import LivePlot
from aisp.tui.widgets.strips import DistributionStrips
from aisp.tui.widgets.table import LiveTable
from aisp.tui.widgets.textrows import TextRows

if TYPE_CHECKING:
    from aisp.store import History

WIDE_COLUMNS = 110
TALL_ROWS = 36
STRIP_ROWS = 34  # of a screen on which there is room for how the times are distributed
ROWS_BESIDE_RANKS = 21  # of a screen that has all else to show
MOST_ARMS = 8  # rows of the table of rungs; it scrolls where there are more
CLOCK_PERIOD_S = 1.0
NOTHING = "nothing"  # what the pane of text shows where somebody put away what it had shown by itself
PLOT_PERIOD_S = 0.3  # a new curve is most of what a live frame sends; the eye reads figures, not every curve


class RunScreen(ExportingScreen):
    """See the module. `run_id` is a run of the model or of the store."""

    BINDINGS: ClassVar[list[BindingType]] = bind(
        Key("cancel", "x", "cancel", "Cancel this run, planned or running."),
        *("run_quick", "run_full"),
        Key(
            "samples",
            "i",
            "samples",
            "Show what the samples say: how taken, at which clock, speed of light, quality, all notes in full.",
        ),
        "run_trust",
        *(name for name in TARGET if name not in ("cancel", "run_quick", "run_full", "trust")),
        Key("output", "o", "output", "Show what the kernels printed, and back."),
        Key("steps", "s", "steps", "Show every step with its duration, and back."),
        Key(
            "metric",
            "m",
            "metric",
            "Put the next reading right below the samples: SM clock, memory clock, temperature, power.",
        ),
        Key(
            "log",
            "a",
            "log axis",
            "Make the axis of times logarithmic, or linear; where arms differ threefold it is by itself.",
        ),
        Key("pause", "p", "pause", "Stop drawing, to look at something closely; the run goes on. Again: draw on."),
        EXPORT,
    )
    words = ("arm", "replica", "noise floor", "cold")
    DEFAULT_CSS = """
    RunScreen #title { background: $surface; }
    RunScreen #progress { background: $surface; color: $accent; }
    RunScreen.-ended #progress { display: none; }
    RunScreen #verdict { background: $surface; text-style: bold; }
    RunScreen #note { display: none; color: $warning; }
    RunScreen #note.-shown { display: block; }
    RunScreen #upper { layout: vertical; height: 1fr; min-height: 8; }
    RunScreen #plot { height: 1fr; min-height: 3; }
    RunScreen #facts { height: 2; }
    RunScreen #arms { height: 5; }
    RunScreen #text { height: 1fr; min-height: 3; display: none; border-top: solid $panel; border-title-color: $text; }
    RunScreen #text:focus { border-top: solid $accent; }
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

    def __init__(self, run_id: str) -> None:
        super().__init__()
        self.run_id = run_id
        self.metric = 0
        self.log_axis: bool | None = None  # whether the axis of times is logarithmic; None lets the times decide
        self.zoomed = False  # whether the rungs, with all that is said of them, have the screen
        self.paused = False
        self.mode = ""  # what the pane of text shows: "samples", "steps", "output", NOTHING; "" for what fits the run
        self._stored: RunView | None = None
        self._looked = False  # whether the store was asked
        self._brought = False  # whether the catalogue was made to know its target
        self._problem = ""
        self._lines_seen = -1  # lines of output that the pane of text holds; -1 where it holds something else
        self._plotted_s = float("-inf")  # when, on the monotonic clock
        self._plot_timer: Timer | None = None  # draws what the plot does not show yet

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
        yield LogPane(id="text", name="Why and output", empty="nothing here")

    def on_mount(self) -> None:
        self.set_interval(CLOCK_PERIOD_S, self._tick)
        self._arrange()
        self.query_one("#arms", LiveTable).focus()
        self.refresh_from(set())

    def on_resize(self, event: events.Resize) -> None:
        self.set_class(event.size.width >= WIDE_COLUMNS, "-wide")
        self.call_after_refresh(self._redraw_all)

    def on_refitted(self, message: Refitted) -> None:
        """The curve is thinned, and the steps' times are set to the right, for the width that their panes have."""
        run = self.run_view
        if run is not None and message.pane.id == "facts":
            self._draw_facts(run)
        elif run is not None and message.pane.id == "plot":
            self._draw_plot(run)

    def _redraw_all(self) -> None:
        if self.is_mounted:
            self._draw(set())

    # -- which run --------------------------------------------------------------------------------------

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
    def header_title(self) -> str:
        return f"Run {self.target_id}".rstrip()

    @property
    def rung_name(self) -> str:
        chosen = self.query_one("#arms", LiveTable).cursor_key if self.is_mounted else None
        return chosen or ""

    def _look(self) -> None:
        """Ask the store where the model has not all of the run."""
        live = self.workbench.model.runs.get(self.run_id)
        needed = live is None or (live.record.state.final and (not live.whole or bool(live.gaps)))
        if needed and not self._looked:
            self._looked = True
            self.run_worker(self._load(), group="stored", exclusive=True, exit_on_error=False)

    async def _load(self) -> None:
        run_id = self.run_id

        def read(history: History) -> RunView:
            record = history.run(run_id)
            found = stored_run(record, history.samples(run_id), history.telemetry(run_id))
            found.foreign = foreign_machine(history, record)
            return found

        try:
            found = await self.workbench.stored(read)
        except Exception as error:
            self._problem = str(error)
        else:
            self._stored = found
            if found is not None:
                self.workbench.model.mark(found)
            self._problem = "" if found else "there is no store yet; `r` on a target in the catalogue runs it"
        if self.is_mounted:
            self.refresh_from(set())  # the header names its target

    # -- drawing ----------------------------------------------------------------------------------------

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
            arms = self.query_one("#arms", LiveTable)
            width = self.size.width
            unit = runplot.time_unit(run, self.workbench.ascii)
            columns = readings.arm_columns(width, unit, gpu=readings.on_gpu(run))
            arms.columns = columns
            arms.show(readings.arm_rows(run, width, unit, self.workbench.ascii))
            self._draw_ranks(run)
        if head or samples or "telemetry" in names:
            self._draw_facts(run)
            if everything or run.record.state.final:
                self._draw_plot(run)
            else:
                self._draw_plot_in_time(run)
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
        self._arrange()

    def _draw_plot_in_time(self, run: RunView) -> None:
        """Draw the plot now, or when PLOT_PERIOD_S have passed since it was drawn."""
        left_s = self._plotted_s + PLOT_PERIOD_S - time.monotonic()
        if left_s <= 0:
            self._draw_plot(run)
        elif self._plot_timer is None:
            self._plot_timer = self.set_timer(left_s, self._draw_late_plot)

    def _draw_late_plot(self) -> None:
        late, self._plot_timer = self._plot_timer, None
        run = self.run_view
        if late is not None and run is not None and self.is_mounted:
            self._draw_plot(run)

    def _draw_plot(self, run: RunView) -> None:
        if self._plot_timer is not None:
            self._plot_timer.stop()
            self._plot_timer = None
        self._plotted_s = time.monotonic()
        plot = self.query_one("#plot", LivePlot)
        unit = runplot.time_unit(run, self.workbench.ascii)
        columns = max(16, plot.size.width * plot.graph_style.dots[0])
        fold = runplot.Folding.of(run)
        lanes = runplot.run_lanes(run, self.metric, columns, fold)
        series = runplot.run_series(run, columns, unit, fold)
        log = runplot.wants_log(run) if self.log_axis is None else self.log_axis
        plot.show(series, x_label=fold.x_label, y_label=unit.name, lanes=lanes, log=log)
        self._draw_strips(run)

    def _draw_strips(self, run: RunView) -> None:
        """How the times of the arms are distributed, as long as there are rows for it."""
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

    def _mode(self, run: RunView) -> str:
        """What the pane of text shows now; "" where it is not needed."""
        if self.zoomed and self.mode in ("", NOTHING):
            return "samples"
        if self.mode:
            return "" if self.mode == NOTHING else self.mode
        if readings.detail_lines(run):
            return "detail"
        if self.has_class("-wide") and self.size.height >= TALL_ROWS:
            return (
                "output" if run.output_count else "samples" if run.comparisons and run.record.state.final else "steps"
            )
        return ""

    def _draw_text(self, run: RunView) -> None:
        pane = self.query_one("#text", LogPane)
        mode = self._mode(run)
        if mode == "output":
            new = run.output_count - self._lines_seen
            if self._lines_seen < 0 or new > len(run.output):
                pane.clear()
                new = len(run.output)
            if run.output_count:
                pane.extend([f"{arm}: {line}" for arm, line in list(run.output)[-new:]] if new else [])
                self._lines_seen = run.output_count
            else:
                pane.tell(mode, lambda: ["the kernels printed nothing"])
            dropped = f", {run.output_dropped} more left out by the engine" if run.output_dropped else ""
            title = f"output: {run.output_count} lines{dropped}"
        else:
            chosen = self.query_one("#arms", LiveTable).cursor_key
            if mode == "steps":
                title, lines = "steps", steps.step_lines(run)
            elif mode == "samples":
                picked = chosen if self.mode or chosen != BASELINE else None
                title, lines = "what the samples say", readings.sample_lines(run, self.workbench.ascii, picked)
            else:
                title, lines = "why", readings.detail_lines(run, chosen)
            self._lines_seen = -1
            width = max(20, (pane.size.width or self.size.width) - 1)
            labelled = mode == "samples"
            pane.tell(
                (mode, width, *lines),
                lambda: plain.wrapped(lines, width, labelled=labelled) or ["nothing went wrong"],
            )
        entitle(pane, title)

    def _arrange(self) -> None:
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
        self.query_one("#arms", LiveTable).styles.height = min(len(run.rungs), most) + 1

    def on_live_table_highlighted(self, message: LiveTable.Highlighted) -> None:
        """The chosen arm's traceback comes first."""
        run = self.run_view
        if run is not None and not self.paused:
            self._draw_text(run)
            self._draw_ranks(run)

    # -- keys -------------------------------------------------------------------------------------------

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
        left, right = (Source(name, run.record.snapshot) for name in (first, other))
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

    def action_output(self) -> None:
        self._toggle("output")

    def action_samples(self) -> None:
        """Show what the samples say: of the highlighted rung first, of the fastest where none was highlighted yet."""
        run = self.run_view
        begins = run is not None and self._mode(run) != "samples"
        if begins and run is not None and run.lead is not None and self.rung_name == BASELINE:
            self.query_one("#arms", LiveTable).move_to(run.lead.rung)
        self._toggle("samples")

    def action_steps(self) -> None:
        self._toggle("steps")

    def _toggle(self, mode: str) -> None:
        """Show this in the pane of text; where it stands there, show what fits the run, or nothing if that is it."""
        run = self.run_view
        if run is None:
            return
        if self._mode(run) != mode:
            self.mode = mode
        else:
            self.mode = ""
            if self._mode(run) == mode:
                self.mode = NOTHING
        self._lines_seen = -1
        self._arrange()
        self._draw_text(run)

    def action_zoom(self) -> None:
        if self.zoomed or (self.focused is not None and self.focused.id == "arms"):
            self.zoomed = not self.zoomed
            self._redraw_all()
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
            self._draw_plot(run)

    def action_metric(self) -> None:
        self.metric = (self.metric + 1) % len(runplot.METRICS)
        run = self.run_view
        if run is None:
            return
        self._draw_plot(run)
        missing = readings.no_readings(run, self.workbench.model.status)
        text = missing or f"below the samples: {runplot.METRICS[self.metric].name}"
        self.notify(text, timeout=2)

    def action_pause(self) -> None:
        self.paused = not self.paused
        run = self.run_view
        if self.paused and run is not None:
            self._draw_late_plot()  # so that plot and figures stand at the same moment
            self._draw_title(run)
        else:
            self._draw(set())

    @property
    def shared_run(self) -> str:
        return self.run_id if self.run_view is not None else ""

    def copy_text(self) -> str:
        run = self.run_view
        if run is not None and self.focused is not None and self.focused.id == "text" and self._mode(run) == "output":
            return "\n".join(f"{arm}: {line}" for arm, line in run.output)
        return ""
