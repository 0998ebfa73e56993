"""What the engine does, what waits for it in which order, and what is watched. Drawn from what the engine tells.

A row is a job under way, a job that waits, with its place, or a watch. Seconds are counted here; nothing is asked for.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from aisp.engine.protocol import requests
from aisp.engine.protocol.events import QueueItem
from aisp.store.text import clean_line
from aisp.tui import jobs, plain, progress
from aisp.tui.aside import begin
from aisp.tui.keymap import Key, bind
from aisp.tui.model import WatchView
from aisp.tui.screens.base import Sizes, WorkScreen, entitle
from aisp.tui.widgets.table import Cell, Column, LiveTable
from aisp.tui.widgets.textrows import TextRows

CLOCK_PERIOD_S = 1.0
TIMES_COLUMNS = 64  # from here on there is room for how long a job goes on and takes
BAR_COLUMNS = 10
ASKED_COLUMNS = 110  # from here on for who asked, and where it is carried out
EMPTY = "Nothing is under way, waits or is watched: r on a target runs it, w watches it"


# The columns, each with how wide the terminal must be for it.
_COLUMNS = (
    (0, Column("place", "", 2, align="right")),
    (0, Column("target", "target", None, ratio=1)),
    (0, Column("kind", "what", 9)),
    (0, Column("state", "state", 9)),
    (TIMES_COLUMNS, Column("elapsed_s", "for", 7, align="right")),
    (TIMES_COLUMNS, Column("expected_s", "takes", 7, align="right")),
    (TIMES_COLUMNS, Column("starts_in_s", "begins", BAR_COLUMNS, align="right")),
    (ASKED_COLUMNS, Column("trigger", "asked by", 12)),
    (ASKED_COLUMNS, Column("device", "device", 7)),
)


def columns_for(width: int) -> list[Column]:
    shown = [column for least, column in _COLUMNS if width >= least]
    return [replace(one, width=20) if one.key == "state" and width >= ASKED_COLUMNS else one for one in shown]


class JobsScreen(WorkScreen):
    BINDINGS: ClassVar[list[BindingType]] = bind(
        Key("open_job", "enter", "open", "Open the run, fuzz, measurement or watch.", "⏎"),
        Key("cancel", "x", "cancel", "Cancel the job; of a watch: stop watching, after a question."),
        Key("move_up", "u", "move up", "Let a job that waits go before the one that waits before it."),
        Key("cancel_waiting", "X", "cancel waiting", "Cancel every job that waits, after a question."),
        "history",
    )
    own_keys_first = True
    heading = "Jobs"
    shown = frozenset(("queue", "runs", "watches", "connection"))
    redrawn = True
    sizes: ClassVar[Sizes] = {"-short": lambda size: size.height < 16}
    chooses = "open_job"
    DEFAULT_CSS = """
    JobsScreen #about { height: 3; background: $surface; padding: 0 1; }
    JobsScreen.-short #about { display: none; }
    """

    def compose_body(self) -> ComposeResult:
        yield LiveTable(id="jobs", classes="pane", empty=EMPTY)
        yield TextRows(id="about")

    def on_mount(self) -> None:
        self._idle: set[str] = set()  # the keys that the footer leaves out
        self.set_interval(CLOCK_PERIOD_S, self._tick)
        self.draw()

    @property
    def chosen(self) -> QueueItem | WatchView | None:
        kind, _, name = (self.table.cursor_key or "").partition(" ")
        model = self.workbench.model
        if kind == "watch":
            return model.watches.get(name)
        return next((job for job in model.queue if job.run_id == name), None)

    @property
    def target_id(self) -> str:
        chosen = self.chosen if self.is_mounted else None
        return chosen.target if chosen is not None and getattr(chosen, "kind", "") != "peak" else ""

    def copy_text(self) -> str:
        chosen = self.chosen
        if chosen is None:
            return ""
        return chosen.folder if isinstance(chosen, WatchView) else chosen.run_id

    def _tick(self) -> None:
        if self.is_current and self.workbench.model.queue:
            self.draw()

    def draw(self) -> None:
        model, now_ns = self.workbench.model, self.workbench.model.now_ns()
        table, queue = self.table, jobs.rows(model.queue, now_ns)
        table.columns = columns_for(self.size.width)
        rows = [(f"job {row.job.run_id}", self._job_row(row)) for row in queue]
        rows += [(f"watch {watch.target}", self._watch_row(watch)) for watch in model.active_watches()]
        table.show(rows)
        entitle(table, self._title(sum(row.place is not None for row in queue), now_ns))
        self.row_changed()

    def _title(self, waiting: int, now_ns: int) -> str:
        queue, watches = self.workbench.model.queue, self.workbench.model.active_watches()
        parts = [f"{n} {word}" for n, word in ((len(queue) - waiting, "under way"), (waiting, "waiting")) if n]
        if watches:
            parts.append(f"{len(watches)} watched")
        if queue and (left := jobs.all_done_s(queue, now_ns)) is not None:
            parts.append(f"all done in about {plain.about(left)}")
        return ", ".join(["Jobs", *parts])

    def _job_row(self, row: jobs.Row) -> list[Cell]:
        job, under_way = row.job, row.place is None
        cells: dict[str, Cell] = {column.key: column.cell(row) for column in jobs.JOBS}
        style = "bold" if under_way else ""
        cells["target"] = Text(job.target if job.kind != "peak" else "this GPU", style)
        if under_way:
            # How much of its time has passed, by how long the last one like it took.
            elapsed_s = jobs.elapsed_s(job, row.now_ns)
            share = None if elapsed_s is None or not job.expected_s else min(1.0, elapsed_s / job.expected_s)
            cells["starts_in_s"] = progress.bar(share, BAR_COLUMNS, self.workbench.ascii)
        else:
            cells["elapsed_s"] = ""
        cells["place"] = Text(("*" if self.workbench.ascii else "●") if under_way else str(row.place), "bold")
        if under_way and self.size.width >= ASKED_COLUMNS and (doing := self._doing(job)):
            cells["state"] = doing
        return [cells[column.key] for column in self.table.columns]

    def _doing(self, job: QueueItem) -> str:
        run = self.workbench.model.runs.get(job.run_id)
        return "" if run is None else progress.doing(run)

    def _watch_row(self, watch: WatchView) -> list[Cell]:
        cells: list[Cell] = [Text("w", "bold"), Text(watch.target), "watch", plain.counted(watch.saves, "edit")]
        return cells + [""] * (len(self.table.columns) - len(cells))

    def row_changed(self) -> None:
        """All about the highlighted row, of which narrow terminals have no column."""
        chosen, now_ns = self.chosen, self.workbench.model.now_ns()
        rows: list[Text] = []
        if isinstance(chosen, WatchView):
            target = self.workbench.target(chosen.target)
            rows = [Text(target.title if target is not None else chosen.target, "bold"), Text(chosen.folder)]
            polling = "; inotify is not to be had: it looks now and then" if chosen.polling else ""
            rows.append(Text(f"{plain.counted(chosen.saves, 'edit')} so far; each save is run again{polling}"))
        elif chosen is not None:
            rows = [Text(chosen.title or chosen.target, "bold"), Text(self._sentence(chosen, now_ns))]
            rows.append(Text(f"asked by: {jobs.asked_by(chosen)}; on {chosen.device}; {chosen.run_id}", "dim"))
        self.say("about", *rows)
        if (idle := self._idle_keys()) != self._idle:
            self._idle = idle
            self.refresh_bindings()

    def _sentence(self, job: QueueItem, now_ns: int) -> str:
        takes = f"such a run took {plain.about(job.expected_s)}" if job.expected_s is not None else ""
        place = jobs.places(self.workbench.model.queue).get(job.run_id)
        if place is None:
            since = plain.about(jobs.elapsed_s(job, now_ns))
            doing = f", {found}" if (found := self._doing(job)) else ""
            return f"{jobs.state(job)} for {since}{doing}; {takes or 'how long it takes is not known yet'}"
        if job.starts_ns is None:
            begins = "when it begins cannot be said: it is not known how long something before it takes"
        else:
            begins = f"begins {jobs.begins(job, now_ns)}"
        return "; ".join(part for part in (f"number {place} of those that wait", begins, takes) if part)

    def key_label(self, binding: Binding) -> str:
        """Nothing for a key that has nothing to do; pressed all the same, it says why."""
        return "" if binding.id in self._idle_keys() else super().key_label(binding)

    def _idle_keys(self) -> set[str]:
        chosen, places = self.chosen if self.is_mounted else None, jobs.places(self.workbench.model.queue)
        idle = set() if places else {"cancel_waiting"}
        if chosen is None:
            idle |= {"open_job", "cancel"}
        if not isinstance(chosen, QueueItem) or places.get(chosen.run_id, 1) == 1:
            idle.add("move_up")
        return idle

    def action_open_job(self) -> None:
        app, chosen = self.workbench, self.chosen
        if chosen is None:
            self.notify(EMPTY)
        elif isinstance(chosen, WatchView):
            app.open_screen("watch", target_id=chosen.target)
        elif chosen.kind == "run":
            app.open_screen("run", run_id=chosen.run_id)
        elif chosen.kind == "peak":
            app.open_screen("ceilings")
        elif chosen.kind == "fuzz":
            app.open_screen("fuzz", target_id=chosen.target, fuzz_id=chosen.run_id)
        else:
            app.open_screen("fuzz", target_id=chosen.target)  # what a lint or a replay is about

    def action_cancel(self) -> None:
        chosen = self.chosen
        if chosen is None:
            self.notify(EMPTY)
        elif isinstance(chosen, WatchView):
            begin(self, partial(self._stop_watch, chosen.target), group="cancel", exclusive=True)
        else:
            self.workbench.cancel([chosen.run_id])

    async def _stop_watch(self, target: str) -> None:
        detail = "Saves are not run any more; what was measured is kept."
        if await self.workbench.confirmed(f"Stop watching {clean_line(target)}?", detail):
            await self.workbench.ask_engine("The watch goes on", requests.StopWatch, target=target)

    def action_move_up(self) -> None:
        chosen = self.chosen
        if isinstance(chosen, QueueItem):
            self.workbench.tell_engine("Not moved up", requests.MoveUp, run_id=chosen.run_id)
        else:
            self.notify("Highlight a job that waits: a watch has no place in the queue")

    def action_cancel_waiting(self) -> None:
        if jobs.places(self.workbench.model.queue):
            begin(self, self._cancel_waiting, group="cancel", exclusive=True)
        else:
            self.notify("Nothing waits")

    async def _cancel_waiting(self) -> None:
        count = len(jobs.places(self.workbench.model.queue))
        question = f"Cancel {'the job that waits' if count == 1 else f'all {count} jobs that wait'}?"
        if not await self.workbench.confirmed(question, "What is under way goes on, as watches do."):
            return
        # The last one first: none of them begins because the one before it is gone.
        for job in reversed(jobs.places(self.workbench.model.queue)):
            if await self.workbench.ask_engine("Not cancelled", requests.Cancel, run_id=job) is None:
                return
