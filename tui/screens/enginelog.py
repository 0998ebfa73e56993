"""The engine's own log as it is written, beside its state and its queue."""

from __future__ import annotations

from typing import ClassVar

from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container

from aisp.tui import plain
from aisp.tui.keymap import Key, bind
from aisp.tui.model import Model, RunView
from aisp.tui.results import STATE_WORDS
from aisp.tui.screens.base import WorkScreen
from aisp.tui.widgets.logpane import LogPane
from aisp.tui.widgets.table import Cell, Column, LiveTable
from aisp.tui.widgets.textrows import TextRows

WIDE_COLUMNS = 110
STATUS_PERIOD_S = 2.0
LOG_LINES = 500
LEVEL_STYLES = {"error": "bold $error", "critical": "bold $error", "warning": "$warning"}
QUEUE_COLUMNS = [
    Column("state", "state", 9),
    Column("target", "target", None, ratio=1),
    Column("mode", "mode", 5),
    Column("device", "device", 6),
    Column("trigger", "by", 5),
]


def status_rows(model: Model, connected: bool) -> list[Text]:
    """The engine's state: connection, process, memory, devices, workers, clients, watches; and what to do."""
    connection, status = model.connection, model.status
    rows = [Text.assemble(("engine  ", "dim"), (str(connection), "bold"))]
    if connection.state == "lost":
        rows.append(Text("        S starts one or looks for it now; stored results are safe"))
    elif connection.state == "mismatch":
        rows.append(Text("        U lets it end after its queue and starts ours then; nothing is lost"))
    if status is None or not connected:
        return rows
    rows.append(
        Text.assemble(
            ("pid     ", "dim"),
            f"{status.pid}  up {plain.duration(status.uptime_s)}  memory {plain.size(status.rss_bytes)}  "
            f"build {connection.build or plain.DASH}",
        )
    )
    rows.append(
        Text.assemble(
            ("work    ", "dim"),
            f"{status.runs_done} {'run' if status.runs_done == 1 else 'runs'} done, "
            f"{len(status.queue)} in the queue, {status.warm_workers} warm, "
            f"{status.clients} viewing, {len(status.watches)} watched",
        )
    )
    for device in status.devices:
        facts = [device.name]
        if device.memory_bytes:
            facts.append(plain.size(device.memory_bytes))
        if device.sm is not None:
            facts.append(f"sm_{device.sm}")
        if device.driver:
            facts.append(f"driver {device.driver}")
        if device.note:
            facts.append(device.note)
        name = f"GPU {device.index}" if device.index >= 0 else "CPU"
        rows.append(Text.assemble((f"{name:<8}", "dim"), ", ".join(facts)))
    if status.gpu_note:
        rows.append(Text.assemble(("no GPU  ", "dim"), status.gpu_note))
    for item in status.watches:
        polling = ", polling" if item.polling else ""
        rows.append(Text.assemble(("watch   ", "dim"), f"{item.target}  {item.edits} edits{polling}"))
    rows += [
        Text.assemble((f"{banner.severity:<8}", "bold"), f"{banner.key}: {banner.text}")
        for banner in model.banners.values()
    ]
    if connection.state_dir:
        rows.append(Text.assemble(("state   ", "dim"), connection.state_dir))
    return rows


def queue_rows(model: Model) -> list[tuple[str, list[Cell]]]:
    """Runs that have not ended, in the order in which they will run."""
    return [
        (
            run.id,
            [
                Text(STATE_WORDS.get(run.record.state, run.record.state.value)),
                Text(run.record.target or plain.DASH),
                "quick" if run.record.quick else "full",
                Text(run.device or plain.DASH),
                Text(run.record.trigger or plain.DASH),
            ],
        )
        for run in model.active_runs()
    ]


class EngineLogScreen(WorkScreen):
    """See the module."""

    BINDINGS: ClassVar[list[BindingType]] = bind(
        Key("open_queued", "enter", "open run", "Open the highlighted run of the queue."),
        Key("cancel", "x", "cancel", "Cancel the highlighted run of the queue."),
        Key("cancel_all", "X", "cancel all", "Cancel every run, after a question."),
        Key("start_engine", "S", "start engine", "Look for the engine now, and start one where there is none."),
        Key(
            "restart_engine",
            "U",
            "restart when idle",
            "Let an engine of another version end after its queue, and start ours then.",
        ),
        "reload",
    )
    DEFAULT_CSS = """
    EngineLogScreen #status { height: 6; background: $surface; }
    EngineLogScreen #below { layout: vertical; height: 1fr; }
    EngineLogScreen #queue { height: 5; }
    EngineLogScreen #log { height: 1fr; border-top: solid $panel; border-title-color: $text; }
    EngineLogScreen #log:focus { border-top: solid $accent; }
    EngineLogScreen.-wide #below { layout: horizontal; }
    EngineLogScreen.-wide #queue { width: 45%; height: 100%; border-top: solid $panel; border-title-color: $text; }
    EngineLogScreen.-wide #queue:focus { border-top: solid $accent; }
    EngineLogScreen.-wide #log { width: 1fr; height: 100%; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._lines_seen = 0

    def compose_body(self) -> ComposeResult:
        yield TextRows(id="status")
        with Container(id="below"):
            yield LiveTable(QUEUE_COLUMNS, id="queue", empty="the queue is empty: nothing is planned or running")
            yield LogPane(id="log", empty="the engine has written nothing yet")

    def on_mount(self) -> None:
        self.query_one("#log", LogPane).border_title = "engine log"
        self.query_one("#queue", LiveTable).border_title = "queue"
        self.query_one("#queue", LiveTable).focus()
        self.set_interval(STATUS_PERIOD_S, self._ask_status)
        self.run_worker(self._fetch(), group="fetch", exclusive=True, exit_on_error=False)
        self._draw(whole=True)

    def on_resize(self, event: events.Resize) -> None:
        """Queue and log beside each other from WIDE_COLUMNS on."""
        self.set_class(event.size.width >= WIDE_COLUMNS, "-wide")
        self.call_after_refresh(self._redraw)

    @property
    def header_title(self) -> str:
        return "Engine log"

    async def _fetch(self) -> None:
        link = self.workbench.link
        if link is not None and link.connected:
            await link.fetch_log(LOG_LINES)
            await link.fetch_status()

    def _ask_status(self) -> None:
        link = self.workbench.link
        if self.is_current and link is not None and link.connected:
            self.run_worker(link.fetch_status(), group="status", exclusive=True, exit_on_error=False)

    # -- drawing ----------------------------------------------------------------------------------------

    def refresh_from(self, names: set[str]) -> None:
        super().refresh_from(names)
        if not self.is_mounted:
            return
        if "connection" in names:
            self.run_worker(self._fetch(), group="fetch", exclusive=True, exit_on_error=False)
        if not names or not names.isdisjoint(("log", "status", "connection", "runs", "banners", "watches", "gaps")):
            self._draw(whole="log:whole" in names)

    def _redraw(self) -> None:
        self._draw(whole=False)
        self.query_one("#queue", LiveTable).refresh()  # its columns may have another width since it was painted

    def _draw(self, *, whole: bool) -> None:
        model, link = self.workbench.model, self.workbench.link
        status = self.query_one("#status", TextRows)
        rows = status_rows(model, link is not None and link.connected)
        status.styles.height = min(max(3, len(rows)), max(3, self.size.height // 3))
        status.show(rows)
        self.query_one("#queue", LiveTable).show(queue_rows(model))
        log = self.query_one("#log", LogPane)
        new = model.engine_line_count - self._lines_seen
        if whole or new > len(model.engine_lines):
            log.clear()
            new = len(model.engine_lines)
        if new > 0:
            fresh = list(model.engine_lines)[-new:]
            log.extend(
                [(f"{level:<8}{text}" if level else text, LEVEL_STYLES.get(level.lower(), "")) for level, text in fresh]
            )
        self._lines_seen = model.engine_line_count

    # -- keys -------------------------------------------------------------------------------------------

    @property
    def target_id(self) -> str:
        run = self._chosen_run()
        return run.record.target if run is not None else ""

    def _chosen_run(self) -> RunView | None:
        key = self.query_one("#queue", LiveTable).cursor_key if self.is_mounted else None
        return self.workbench.model.runs.get(key) if key is not None else None

    def action_open_queued(self) -> None:
        """Open the highlighted run."""
        run = self._chosen_run()
        if run is None:
            self.notify("The queue is empty")
        else:
            self.workbench.open_screen("run", run_id=run.id)

    def on_live_table_chosen(self, message: LiveTable.Chosen) -> None:
        """Enter on a row."""
        self.action_open_queued()

    def action_cancel(self) -> None:
        """Cancel the highlighted run."""
        run = self._chosen_run()
        if run is None:
            self.notify("The queue is empty")
        else:
            self.workbench.cancel([run.id])

    def action_cancel_all(self) -> None:
        """Ask, then cancel everything."""
        self.run_worker(self._cancel_all(), group="cancel", exclusive=True, exit_on_error=False)

    async def _cancel_all(self) -> None:
        from aisp.tui.screens.confirm import ConfirmScreen  # a question is rare

        count = len(self.workbench.model.active_runs())
        if not count:
            self.notify("The queue is empty")
            return
        question = f"Cancel {count} {'run' if count == 1 else 'runs'}?"
        if await self.app.push_screen_wait(ConfirmScreen(question, "What was measured before is kept.")):
            self.workbench.cancel([""])

    def action_start_engine(self) -> None:
        """Look for an engine now."""
        link = self.workbench.link
        if link is None or link.connected:
            self.notify("The engine is connected")
            return
        link.reconnect(start=True)
        self.notify("Looking for the engine, starting one if need be")

    def action_restart_engine(self) -> None:
        """Replace an engine of another version when it is idle."""
        if self.workbench.model.connection.state == "mismatch":
            self.workbench.restart_engine_when_idle()
        else:
            self.notify("The engine is of this version; there is no need to restart it")

    def action_reload(self) -> None:
        """Fetch the log and the state again."""
        self.run_worker(self._fetch(), group="fetch", exclusive=True, exit_on_error=False)

    def copy_text(self) -> str:
        model = self.workbench.model
        return "\n".join(f"{level} {text}".strip() for level, text in model.engine_lines)
