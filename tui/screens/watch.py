"""The watch: every save of a target's files as a row, verified and timed, against the previous and the best.

Opening it starts the watch unless one is on; leaving it leaves the watch on, `w` stops it. What is drawn comes
from the model alone, so a watch that was left is found as it stands now.
"""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container

from aisp.engine.protocol import requests
from aisp.engine.protocol.events import WatchEdit
from aisp.tui import plain, readings
from aisp.tui.keymap import Key, bind
from aisp.tui.model import WatchView
from aisp.tui.screens import Source
from aisp.tui.screens.base import WorkScreen, entitle
from aisp.tui.widgets.lines import Refitted
from aisp.tui.widgets.logpane import LogPane
from aisp.tui.widgets.plot import LivePlot
from aisp.tui.widgets.table import LiveTable
from aisp.tui.widgets.textrows import TextRows

WIDE_COLUMNS = 110
FILES_NAMED = 8


class WatchScreen(WorkScreen):
    """See the module."""

    BINDINGS: ClassVar[list[BindingType]] = bind(
        Key("open_edit", "enter", "open run", "Open the run of the highlighted edit."),
        Key(
            "diff",
            "d",
            "diff",
            "Compare the highlighted edit's sources with the marked edit's, or with the edit before.",
        ),
        Key("diff_best", "D", "diff best", "Compare the best edit's sources with the highlighted one's."),
        Key("mark", "m", "mark", "Mark the edit; d then compares with it. Again: unmark."),
        Key(
            "restore_best",
            "b",
            "restore best",
            "Write the best edit's files back, after a question; what stands there is kept.",
        ),
        Key("toggle_watch", "w", "stop/start", "Stop watching; again: watch on."),
        *("edit", "run_quick", "run_full", "cancel", "history"),
    )
    DEFAULT_CSS = """
    WatchScreen #title { height: 2; background: $surface; }
    WatchScreen #body { layout: vertical; height: 1fr; }
    WatchScreen #plot { height: 6; }
    WatchScreen #edits { height: 1fr; min-height: 3; }
    WatchScreen #text { height: 6; border-top: solid $panel; border-title-color: $text; }
    WatchScreen #text:focus { border-top: solid $accent; }
    WatchScreen.-tall #plot { height: 30%; }
    WatchScreen.-tall #text { height: 35%; }
    WatchScreen.-short #plot { display: none; }
    """

    def __init__(self, target_id: str) -> None:
        super().__init__()
        self._target = target_id
        self.marked: int | None = None
        self._asked = False  # whether this screen asked for the watch
        self._problem = ""

    def compose_body(self) -> ComposeResult:
        yield TextRows(id="title")
        with Container(id="body"):
            yield LivePlot(id="plot", name="Plot", empty="the times of the edits, once there are two")
            yield LiveTable(id="edits", name="Edits", empty="waiting for the first save; e opens your editor")
            yield LogPane(id="text", name="Edit", empty="nothing here")

    def on_mount(self) -> None:
        self.query_one("#edits", LiveTable).focus()
        watch = self.watch_view
        if watch is None or not watch.active:
            self.run_worker(self._start(), group="watch", exit_on_error=False)
        self._draw()

    def on_resize(self, event: events.Resize) -> None:
        """A tall terminal has room for a larger plot; a very short one for none."""
        self.set_class(event.size.height >= 34, "-tall")
        self.set_class(event.size.height < 18, "-short")
        self.call_after_refresh(self._draw)

    def on_refitted(self, message: Refitted) -> None:
        if message.pane.id == "text":
            self._draw_text()

    @property
    def watch_view(self) -> WatchView | None:
        """The watch as the engine tells it; None before it began."""
        return self.workbench.model.watches.get(self._target)

    @property
    def target_id(self) -> str:
        return self._target

    @property
    def header_title(self) -> str:
        return f"Watch {self._target}"

    def _root(self) -> str:
        target = self.workbench.target(self._target)
        return str(target.root) if target is not None else ""

    # -- drawing ----------------------------------------------------------------------------------------

    def refresh_from(self, names: set[str]) -> None:
        super().refresh_from(names)
        if not self.is_mounted:
            return
        watch = self.watch_view
        runs = {f"run:{edit.run_id}" for edit in watch.edits} if watch is not None else set()
        if not names or f"watch:{self._target}" in names or "watches" in names or not names.isdisjoint(runs):
            self._draw()

    def _title(self, watch: WatchView | None) -> list[Text]:
        first = Text(f"{self._target}  ", style="bold")
        if watch is None:
            first.append(self._problem or "asking the engine to watch", style="not bold")
            return [first]
        running = [
            edit.number
            for edit in watch.edits
            if (run := self.workbench.model.runs.get(edit.run_id)) is not None and not run.record.state.final
        ]
        if not watch.active:
            state = "not watching: w watches on"
        elif running:
            state = f"running edit {running[-1]}"
        else:
            state = "watching: save a file in the folder"
        if watch.active and watch.polling:
            state += " \u00b7 polling (no inotify here: saves are seen within a second or two)"
        first.append(state, style="not bold")
        best = readings.best_edit(self.workbench.model, watch)
        count = sum(1 for edit in watch.edits if edit.number)  # 0 is the state at the start
        second = Text(f"{watch.folder}  \u00b7  {count} {'edit' if count == 1 else 'edits'}", style="not bold")
        if best is not None:
            run = self.workbench.model.runs.get(best.run_id)
            item = run.headline if run is not None else None
            median = readings.edit_median(self.workbench.model, best)
            second.append(f"  \u00b7  best: edit {best.number}, {plain.number(median)} ms")
            if item is not None and item.speedup is not None:
                second.append(f", {plain.speedup(item.speedup)} vs baseline")
        if self.marked is not None:
            second.append(f"  \u00b7  marked: edit {self.marked}")
        if self._problem:
            second = Text(self._problem, style="bold")
        return [first, second]

    def _draw(self) -> None:
        if not self.is_mounted:
            return
        watch = self.watch_view
        self.say("title", *self._title(watch))
        if watch is None:
            return
        model, width = self.workbench.model, self.size.width
        edits = self.query_one("#edits", LiveTable)
        columns = readings.edit_columns(width)
        edits.columns = columns
        newest_before = edits.cursor_key is None or edits.cursor_key == self._newest_shown
        edits.show(readings.edit_rows(model, watch, width, self.workbench.ascii, self.marked))
        newest = max((edit.number for edit in watch.edits), default=None)
        # The cursor goes with the newest edit unless the person moved it elsewhere.
        if newest is not None and newest_before:
            edits.move_to(str(newest))
        self._newest_shown = None if newest is None else str(newest)
        self.query_one("#plot", LivePlot).show(readings.edit_series(model, watch), x_label="edit", y_label="ms")
        self._draw_text()

    _newest_shown: str | None = None

    def _draw_text(self) -> None:
        watch, edit = self.watch_view, self.chosen
        if watch is None or edit is None:
            return
        pane = self.query_one("#text", LogPane)
        width = max(20, (pane.size.width or self.size.width) - 1)
        lines = plain.wrapped(readings.edit_lines(self.workbench.model, watch, edit), width)
        pane.tell(lines, lambda: lines)
        entitle(pane, f"edit {edit.number}")

    def on_live_table_highlighted(self, message: LiveTable.Highlighted) -> None:
        """Show what became of the edit."""
        self._draw_text()

    def on_live_table_chosen(self, message: LiveTable.Chosen) -> None:
        """Enter on a row."""
        self.action_open_edit()

    @property
    def chosen(self) -> WatchEdit | None:
        """The highlighted edit."""
        key = self.query_one("#edits", LiveTable).cursor_key if self.is_mounted else None
        return self._edit(int(key)) if key is not None else None

    def _edit(self, number: int) -> WatchEdit | None:
        watch = self.watch_view
        return next((edit for edit in watch.edits if edit.number == number), None) if watch else None

    # -- keys -------------------------------------------------------------------------------------------

    def _say(self, text: str) -> None:
        self.notify(text, severity="warning")

    def action_open_edit(self) -> None:
        """Open the edit's run."""
        edit = self.chosen
        if edit is None:
            self._say("There is no edit yet: save a file of the target")
        elif not edit.run_id:
            self._say("Nothing ran for this edit; the pane below says why")
        else:
            self.workbench.open_screen("run", run_id=edit.run_id)

    def action_diff(self) -> None:
        """Compare with the marked edit, else with the edit before."""
        watch, edit = self.watch_view, self.chosen
        if watch is None or edit is None:
            self._say("There is no edit yet: save a file of the target")
            return
        other = self._edit(self.marked) if self.marked is not None and self.marked != edit.number else None
        other = other or readings.edit_before(watch, edit)
        if other is None:
            self._say("This is the state when the watch began; there is nothing before it")
            return
        self._compare(other, edit)

    def action_diff_best(self) -> None:
        """Compare the best edit with the highlighted one."""
        watch, edit = self.watch_view, self.chosen
        best = readings.best_edit(self.workbench.model, watch) if watch is not None else None
        if edit is None or best is None:
            self._say("No edit was correct and timed yet, so there is no best one")
        elif best is edit:
            self._say("This is the best edit")
        else:
            self._compare(best, edit)

    def _compare(self, one: WatchEdit, other: WatchEdit) -> None:
        """The older on the left."""
        older, newer = sorted((one, other), key=lambda edit: edit.number)
        name = self._changed_file(older, newer)
        self.workbench.open_diff(self._target, Source(name, older.snapshot), Source(name, newer.snapshot))

    def _changed_file(self, older: WatchEdit, newer: WatchEdit) -> str:
        """What to open the diff on: a file that changed between the two, else the fastest rung."""
        watch = self.watch_view
        for edit in reversed(watch.edits if watch is not None else []):
            if older.number < edit.number <= newer.number and edit.files:
                name = edit.files[0]
                return name.removesuffix(".py") if "/" not in name else name
        run = self.workbench.model.runs.get(newer.run_id)
        return run.lead.rung if run is not None and run.lead is not None else "optimized"

    def action_mark(self) -> None:
        """Mark the edit, or take the mark away."""
        edit = self.chosen
        if edit is not None:
            self.marked = None if self.marked == edit.number else edit.number
            self._draw()

    def action_toggle_watch(self) -> None:
        """Stop the watch, or start it again."""
        watch = self.watch_view
        stop = watch is not None and watch.active
        self.run_worker(self._stop() if stop else self._start(), group="watch", exit_on_error=False)

    async def _start(self) -> None:
        self._problem = ""
        reply = await self.workbench.ask_engine(
            "The watch was not started",
            requests.StartWatch,
            root=self._root(),
            target=self._target,
        )
        if reply is None:
            self._problem = "not watching: the engine refused or is not there; w tries again"
        elif why := reply.refused.get(self._target):
            self._problem = f"cannot run here, its saves are kept: {why}"
        self._draw()

    async def _stop(self) -> None:
        if await self.workbench.ask_engine("The watch was not stopped", requests.StopWatch, target=self._target):
            self.notify("Not watching any more; the edits stay", timeout=3)

    def action_restore_best(self) -> None:
        """Ask, then write the best edit's files back."""
        watch = self.watch_view
        best = readings.best_edit(self.workbench.model, watch) if watch is not None else None
        if watch is None or best is None:
            self._say("No edit was correct and timed yet, so there is nothing to restore")
        else:
            self.run_worker(self._restore(watch, best), group="restore", exit_on_error=False)

    async def _restore(self, watch: WatchView, best: WatchEdit) -> None:
        from aisp.tui.screens.confirm import ConfirmScreen  # a question is rare

        names = await self._differing(watch, best)
        median = plain.number(readings.edit_median(self.workbench.model, best))
        if names == []:
            self.notify(f"The folder holds edit {best.number}, the best, already")
            return
        if names is None:
            what = "Every file of that edit's snapshot is written over what stands"
        else:
            more = f" and {len(names) - FILES_NAMED} more" if len(names) > FILES_NAMED else ""
            what = f"Overwritten: {', '.join(names[:FILES_NAMED])}{more}"
        yes = await self.app.push_screen_wait(
            ConfirmScreen(
                f"Restore edit {best.number}, the best so far ({median} ms)?",
                f"{what}\nin {watch.folder}.\n"
                "What stands there now is first kept in the store as a snapshot, so nothing is lost.",
            )
        )
        if not yes:
            return
        reply = await self.workbench.ask_engine(
            "Nothing was restored",
            requests.Restore,
            root=self._root(),
            target=self._target,
            snapshot=best.snapshot,
        )
        if reply is not None:
            kept = reply.detail[:12]
            self.notify(f"Edit {best.number} is restored; what was there is kept as snapshot {kept}", timeout=12)

    async def _differing(self, watch: WatchView, edit: WatchEdit) -> list[str] | None:
        """Names of the files that the edit's snapshot would change; None where nobody can tell."""
        target = self.workbench.target(self._target)
        folder = target.folder if target is not None else Path(watch.folder)

        def names(snapshot: dict[str, bytes]) -> list[str]:
            found = []
            for name, content in sorted(snapshot.items()):
                path = folder / name
                if not path.is_file() or path.read_bytes() != content:
                    found.append(name)
            return found

        try:
            return await self.workbench.stored(lambda history: names(history.snapshot(edit.snapshot)))
        except Exception as error:
            self.log(f"the snapshot could not be compared: {error!r}")
            return None

    def copy_text(self) -> str:
        watch = self.watch_view
        if watch is None:
            return self._target
        if self.focused is not None and self.focused.id == "text":
            return self.query_one("#text", LogPane).text
        wide = 150
        rows = readings.edit_rows(self.workbench.model, watch, wide, True, self.marked)
        heads = [column.title for column in readings.edit_columns(wide)]
        return "\n".join(plain.table(heads, [[str(cell) for cell in cells] for _, cells in rows]))
