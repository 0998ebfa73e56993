"""The watch: every save of a target's files verified and timed; its figures, its diff and its samples side by side.

Opening it starts the watch unless one is on; leaving it leaves the watch on, `w` stops it. What is drawn comes
from the model alone, so a watch that was left is found as it stands now. From WIDE_COLUMNS on all panes are in sight,
below that one at a time.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, Vertical

from aisp.engine.protocol import requests
from aisp.engine.protocol.events import WatchEdit
from aisp.store.outcomes import Trigger
from aisp.store.results import edits as rule
from aisp.tui import edits, plain
from aisp.tui.aside import begin
from aisp.tui.edits import Against
from aisp.tui.keymap import Key, bind
from aisp.tui.model import MAX_EDITS, RunView, WatchView
from aisp.tui.readings import verdict_row
from aisp.tui.replicas import ReplicaTimes
from aisp.tui.runplot import run_series, time_unit
from aisp.tui.screens.base import Paced, entitle
from aisp.tui.screens.edit_sources import EditSourcesScreen
from aisp.tui.screens.watch_diff import EditDiff
from aisp.tui.themes import verdict_text
from aisp.tui.widgets.editplot import EditPlot
from aisp.tui.widgets.lines import Refitted
from aisp.tui.widgets.logpane import LogPane
from aisp.tui.widgets.plot import LivePlot
from aisp.tui.widgets.table import LiveTable
from aisp.tui.widgets.textrows import TextRows

if TYPE_CHECKING:
    from aisp.store import History
    from aisp.store.record import Run

WIDE_COLUMNS = 120
LOW_ROWS = 18  # below this no plot of the edits stands over their table
CLOCK_PERIOD_S = 1.0
PLOT_PERIOD_S = 0.3  # as on the run's screen: a new curve is most of what a live frame sends
PANES = {"edits": "edits", "diff": "diff", "live": "samples", "text": "why"}  # by the widget that has the focus


class WatchScreen(EditSourcesScreen):
    BINDINGS: ClassVar[list[BindingType]] = bind(
        Key("pane", "p", "pane", "Show the next pane: the edits, the diff, the samples, what became of the edit."),
        Key("open_edit", "enter", "open run", "Open the run of the highlighted edit."),
        "edit",
        Key("toggle_watch", "w", "stop", "Stop watching; again: watch on."),
        Key("cancel", "x", "cancel", "Cancel the run of the edit that is under way, and no other."),
        Key("restore_best", "b", "restore",
            "Write the best edit's files back, after a question that shows the difference; what stands there is kept."),
        Key("against", "a", "against",
            "Show the diff against the edit before, the best edit, or the baseline, in turn."),
        Key("diff", "d", "whole diff",
            "Compare the highlighted edit's sources with the marked edit's, or with the edit before."),
        Key("diff_best", "D", "", "Compare the best edit's sources with the highlighted one's."),
        Key("mark", "m", "mark", "Mark the edit; d then compares with it. Again: unmark."),
        *("run_quick", "run_full", "history"),
    )  # fmt: skip
    own_keys_first = True
    DEFAULT_CSS = """
    WatchScreen #title { height: 3; text-style: none; }
    WatchScreen #body { layout: horizontal; height: 1fr; }
    WatchScreen #left, WatchScreen #right { width: 1fr; height: 100%; }
    WatchScreen #plot { height: 20%; min-height: 6; }
    WatchScreen #edits { height: 1fr; min-height: 3; }
    WatchScreen .ruled { height: 1fr; }
    WatchScreen.-low #plot { display: none; }
    WatchScreen.-narrow #left, WatchScreen.-narrow #right { display: none; }
    WatchScreen.-narrow #left > *, WatchScreen.-narrow #right > * { display: none; }
    WatchScreen.-edits #left, WatchScreen.-text #left, WatchScreen.-diff #right, WatchScreen.-live #right
        { display: block; }
    WatchScreen.-edits #plot, WatchScreen.-edits #edits, WatchScreen.-text #text, WatchScreen.-diff #diff,
        WatchScreen.-live #live { display: block; }
    WatchScreen.-edits.-low #plot { display: none; }
    WatchScreen.-wide #left { width: 64; }
    WatchScreen.-wide #right { border-left: solid $panel; }
    WatchScreen.-wide #plot { height: 15%; min-height: 8; }
    WatchScreen.-wide #text { height: 30%; }
    WatchScreen.-wide #live { height: 35%; }
    WatchScreen.-vast #left { width: 45%; }
    """

    heading = "Watch {}"
    redrawn = True
    chooses = "open_edit"
    AUTO_FOCUS = "#edits"

    def __init__(self, target_id: str) -> None:
        super().__init__(target_id)
        self.against = Against.PREVIOUS
        self.pane = "edits"  # the one in sight where there is room for one
        self._problem = ""  # why there is no watch
        self._cannot_run = ""  # why the saves of the one there is are only kept
        self._both = ReplicaTimes(self)
        self._newest_shown: str | None = None
        self._samples = Paced(self, self._draw_samples, PLOT_PERIOD_S)
        self._can_cancel: bool | None = None
        self._can_open = True

    def compose_body(self) -> ComposeResult:
        yield TextRows(id="title")
        with Container(id="body"):
            with Vertical(id="left"):
                yield EditPlot(id="plot", name="Plot of the edits", empty="no edit yet")
                yield LiveTable(id="edits", name="Edits", empty="waiting for the first save; e opens your editor")
                yield LogPane(id="text", name="Edit", classes="ruled", empty="no edit yet")
            with Vertical(id="right"):
                yield EditDiff(id="diff", name="Diff", classes="ruled")
                yield LivePlot(id="live", name="Samples", classes="ruled", empty="no samples yet")

    def on_mount(self) -> None:
        self._arrange()
        self.query_one("#diff", EditDiff).tell("no edit yet")
        watch = self.watch_view
        if watch is None or not watch.active:
            begin(self, self._start, group="watch")
        self.set_interval(CLOCK_PERIOD_S, self._tick)
        begin(self, self._read_earlier, group="earlier")
        self.draw()

    async def _read_earlier(self) -> None:
        """The edits of this folder that engines before this one ran: their runs are in the store."""
        target = self.workbench.target(self._target_id)
        folder = os.fsencode(target.folder) if target is not None else b""

        def read(history: History) -> list[Run]:
            runs = history.newest(MAX_EDITS, self._target_id, all_findings=False)
            return [run for run in runs if run.trigger is Trigger.WATCH and run.state.final and run.folder == folder]

        self.workbench.model.take_watched(await self.workbench.stored(read) or ())
        self.draw()

    def on_resize(self, event: events.Resize) -> None:
        self._arrange()
        self.refresh_bindings()

    def _arrange(self) -> None:
        width, height = self.app.size
        wide = width >= WIDE_COLUMNS
        self.set_class(wide, "-wide")
        self.set_class(width >= 160, "-vast")
        self.set_class(not wide, "-narrow")
        self.set_class(height < LOW_ROWS, "-low")
        for pane in PANES:
            self.set_class(not wide and pane == self.pane, f"-{pane}")

    def on_refitted(self, message: Refitted) -> None:
        if message.pane.id == "live":
            self._samples.now()

    def refresh_from(self, names: set[str]) -> None:
        super().refresh_from(names)
        if not self.is_mounted:
            return
        watch = self.watch_view
        runs = {edit.run_id for edit in watch.edits if edit.run_id} if watch is not None else set()
        told = {"watches", f"watch:{self._target_id}", "banners", "connection", "quarantines"}
        if not names or not names.isdisjoint(told | {f"run:{run_id}" for run_id in runs}):
            self.draw()
        if not names.isdisjoint({f"samples:{run_id}" for run_id in runs}):
            self._draw_samples_soon()

    def _tick(self) -> None:
        """What is said of a run that goes on is about time, which goes on between events."""
        watch = self.watch_view
        if watch is not None and edits.running_edit(self.workbench.model, watch) is not None:
            self.draw()

    def _state(self, watch: WatchView) -> str:
        model = self.workbench.model
        connection = model.connection
        if connection.silent_since:
            return f"the engine has not answered since {connection.silent_since}: saves may not be seen"
        if connection.state != "connected":
            return "no engine: these are the edits as they stood, and saves are not seen"
        if not watch.active:
            return "not watching: these are the edits of the watch that ended; w watches on"
        edit = edits.running_edit(model, watch)
        newest = next(reversed(edits.in_order(watch)), None)
        if edit is None and newest is not None and edits.awaited(model, watch, newest):
            state = f"edit {newest.number}: {edits.sentence(model, watch, newest)}"
        elif edit is None:
            state = "watching: save a file in the folder"
        else:
            run = model.runs[edit.run_id]
            ends = " (x cancels it, a save ends it)" if edits.silence_of(model, run) else ""
            state = f"edit {edit.number}{ends}: {edits.progress_words(model, run)}"
        if watch.polling:
            state += " \u00b7 polling (no inotify here: saves are seen within a second or two)"
        return state

    def _told(self, watch: WatchView) -> dict[int, edits.Told]:
        return edits.all_told(self.workbench.model, watch, self._known)

    def _title(self, watch: WatchView | None) -> list[Text]:
        first = Text(f"{self._target_id}  ", style="bold")
        if watch is None:
            first.append(self._problem or "asking the engine to watch", style="not bold")
            return [first]
        first.append(self._state(watch), style="not bold")
        if problem := self._cannot_run if watch.active else self._problem:
            return [first, Text(problem, style="bold")]
        told = self._told(watch)
        best = edits.by_number(watch, rule.best(edits.times_of(told)))
        second = Text(plain.counted(watch.saves, "edit"), style="not bold")
        if best is not None:
            unit, item = edits.unit_of(told, self.workbench.ascii), told[best.number]
            median_ms = item.arm.median_ms if item.arm is not None else None
            median = plain.number(None if median_ms is None else median_ms * unit.per_ms)
            second.append(f"  \u00b7  best: edit {best.number}, {median} {unit.name}")
            if item.ratio is not None:
                ratio = verdict_text(item.ratio.verdict, item.ratio.speedup, self.workbench.ascii)
                second.append(", ").append_text(ratio).append(" vs baseline")
        elif any(not item.going for item in told.values()):
            second.append("  \u00b7  no edit was correct and timed yet")
        if self.marked is not None:
            second.append(f"  \u00b7  marked: edit {self.marked}")
        second.append(f"  \u00b7  {watch.folder}")
        return [*self._last_verdict(watch, told), first, second]

    def _last_verdict(self, watch: WatchView, told: Mapping[int, edits.Told]) -> list[Text]:
        """What the newest edit that has ended came to, as loud as a row can be; nothing before there is one."""
        ended = next((edit for edit in reversed(edits.in_order(watch)) if not told[edit.number].going), None)
        if ended is None:
            return []
        run, item = edits.run_of(self.workbench.model, ended), told[ended.number]
        text = Text(f" edit {ended.number}  ", style="bold reverse")
        if item.sentence or run is None:
            return [text.append(item.sentence, "bold")]
        return [text.append_text(verdict_row(run, self.workbench.ascii, self.size.width - text.cell_len))]

    def draw(self) -> None:
        if not self.is_mounted:
            return
        watch = self.watch_view
        self.say("title", *self._title(watch))
        can = watch is not None and edits.running_edit(self.workbench.model, watch) is not None
        if can != self._can_cancel:
            self._can_cancel = can
            self.refresh_bindings()
        if watch is None:
            return
        ascii, told = self.workbench.ascii, self._told(watch)
        table = self.query_one("#edits", LiveTable)
        width = table.size.width
        table.columns = edits.columns(width, edits.unit_of(told, ascii))
        newest_before = table.cursor_key is None or table.cursor_key == self._newest_shown
        table.show(edits.rows(watch, told, width, ascii, self.marked))
        newest = max((edit.number for edit in watch.edits), default=None)
        # The cursor goes with the newest edit unless the person moved it elsewhere.
        if newest is not None and newest_before:
            table.move_to(str(newest))
        self._newest_shown = None if newest is None else str(newest)
        self._draw_plot(watch)
        self._draw_text()
        self._draw_diff()
        self._draw_samples_soon()

    def _draw_plot(self, watch: WatchView) -> None:
        told, chosen, model = self._told(watch), self.chosen, self.workbench.model
        unit = edits.unit_of(told, self.workbench.ascii)
        runs = {edit.number: run for edit in watch.edits if (run := edits.run_of(model, edit)) is not None}
        both = {
            number: pair
            for number, run in runs.items()
            if (arm := told[number].arm) is not None and (pair := self._both.of(run, arm.rung)) is not None
        }
        self.query_one("#plot", EditPlot).show(
            edits.points(watch, told, unit, both), y_label=unit.name, chosen=None if chosen is None else chosen.number
        )
        self._both.look_up([run for run in runs.values() if rule.time_of(run)], self.draw)

    def key_label(self, binding: Binding) -> str:
        watch = self.watch_view
        if binding.id == "toggle_watch" and watch is not None and not watch.active:
            return "watch"
        return "" if binding.id == "open_edit" and not self._can_open else super().key_label(binding)

    def _draw_text(self) -> None:
        watch, edit = self.watch_view, self.chosen
        if (can := edit is not None and bool(edit.run_id)) != self._can_open:
            self._can_open = can
            self.refresh_bindings()  # nothing ran for an edit that is no Python
        if watch is None or edit is None:
            return
        pane = self.query_one("#text", LogPane)
        pane.prose(edits.lines(self.workbench.model, watch, edit), about=edit.number)
        entitle(pane, f"what became of edit {edit.number}")

    def _draw_diff(self) -> None:
        watch, edit = self.watch_view, self.chosen
        if watch is not None and edit is not None:
            best = edits.best_edit(self.workbench.model, watch, self._known)
            self.query_one("#diff", EditDiff).compare(self.workbench.model, watch, edit, self.against, best)

    def _sampled(self) -> tuple[WatchEdit, RunView] | None:
        """The edit whose samples are shown, and its run: the one under way, else the highlighted one."""
        watch = self.watch_view
        edit = (edits.running_edit(self.workbench.model, watch) if watch is not None else None) or self.chosen
        run = edits.run_of(self.workbench.model, edit) if edit is not None else None
        return (edit, run) if edit is not None and run is not None else None

    def _draw_samples(self) -> None:
        plot, found = self.query_one("#live", LivePlot), self._sampled()
        if found is None:
            edit = self.chosen
            plot.empty = "nothing was measured for this edit" if edit is not None else "no samples yet"
            entitle(plot, f"samples of edit {edit.number}" if edit is not None else "samples")
            plot.show([])
            return
        edit, run = found
        entitle(plot, f"samples of edit {edit.number}{'' if run.record.state.final else ', under way'}")
        plot.empty = "no samples" if run.record.state.final else "no samples yet"
        plot.empty = plot.empty if run.whole else "its samples are in the store: enter opens the run"
        unit = time_unit(run, self.workbench.ascii)
        plot.show(run_series(run, max(1, plot.size.width * 2), unit), x_label="s", y_label=unit.name)

    def _draw_samples_soon(self) -> None:
        if self.query_one("#live", LivePlot).size.width:  # not while out of sight
            self._samples.soon()

    def row_changed(self) -> None:
        watch = self.watch_view
        if watch is not None:
            self._draw_plot(watch)
        self._draw_text()
        self._draw_diff()
        self._draw_samples_soon()

    def on_edit_plot_picked(self, message: EditPlot.Picked) -> None:
        self.query_one("#edits", LiveTable).move_to(str(message.number))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """One pane at a time only where there is no room for all; there is something to cancel while a run goes on."""
        if action == "pane":
            return not self.has_class("-wide")
        return self._can_cancel is True if action == "cancel" else True

    def action_pane(self) -> None:
        names = list(PANES)
        self.pane = names[(names.index(self.pane) + 1) % len(names)]
        self._arrange()
        self.query_one(f"#{self.pane}").focus()
        self.call_after_refresh(self.draw)

    def action_against(self) -> None:
        self.against = self.against.following
        self._draw_diff()
        if not self.has_class("-wide") and self.pane != "diff":
            self.pane = "diff"
            self._arrange()
            self.query_one("#diff").focus()

    def action_cancel(self) -> None:
        """Cancel the run of the edit under way alone: one that waits behind it is wanted."""
        watch = self.watch_view
        edit = edits.running_edit(self.workbench.model, watch) if watch is not None else None
        if edit is not None:
            self.workbench.cancel([edit.run_id])

    def action_edit(self) -> None:
        """Open what was saved last, else the rung that the watch is about, in the person's editor."""
        watch, target = self.watch_view, self.workbench.target(self._target_id)
        saved = [file for edit in edits.in_order(watch) for file in edit.files] if watch is not None else []
        names = [rung.name for rung in target.rungs] if target is not None else []
        last = next((file for file in reversed(saved) if target is not None and file in target.files), "")
        self.workbench.edit(
            self._target_id, last or ("optimized" if "optimized" in names else names[-1] if names else "")
        )

    def action_open_edit(self) -> None:
        edit = self.chosen
        if edit is None:
            self._say("There is no edit yet: save a file of the target")
        elif not edit.run_id:
            self._say("Nothing ran for this edit; the pane below says why")
        else:
            self.workbench.open_screen("run", run_id=edit.run_id)

    def action_toggle_watch(self) -> None:
        watch = self.watch_view
        stop = watch is not None and watch.active
        if stop:
            done = "Not watching any more; the edits stay, and their runs in the history (t)"
            fields = {"target": self._target_id}
            self.workbench.tell_engine("The watch was not stopped", requests.StopWatch, done=done, **fields)
        else:
            begin(self, self._start, group="watch")

    async def _start(self) -> None:
        self._problem = self._cannot_run = ""
        reply = await self.workbench.ask_engine(
            "The watch was not started",
            requests.StartWatch,
            root=self._root(),
            target=self._target_id,
        )
        if reply is None:
            self._problem = "not watching: the engine refused or is not there; w tries again"
        elif why := reply.refused.get(self._target_id):
            self._cannot_run = f"cannot run here, its saves are kept: {why}"
        self.draw()

    def copy_text(self) -> str:
        watch = self.watch_view
        if watch is None:
            return self._target_id
        if self.focused is not None and self.focused.id == "text":
            return self.query_one("#text", LogPane).text
        wide = 150
        told = self._told(watch)
        unit = edits.unit_of(told, True)
        rows = edits.rows(watch, told, wide, True, self.marked, result=True)
        heads = [column.title for column in edits.columns(wide, unit, result=True)]
        return "\n".join(plain.table(heads, [[str(cell) for cell in cells] for _, cells in rows]))
