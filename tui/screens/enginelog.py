"""The engine's own log as it is written, below its state. What it has to do is on the screen of jobs."""

from __future__ import annotations

from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import BindingType

from aisp.tui import plain
from aisp.tui.aside import begin
from aisp.tui.keymap import Key, bind
from aisp.tui.model import Model
from aisp.tui.screens.base import WorkScreen
from aisp.tui.widgets.logpane import LogPane
from aisp.tui.widgets.textrows import TextRows

STATUS_PERIOD_S = 2.0
LOG_LINES = 500
LEVEL_STYLES = {"error": "bold $error", "critical": "bold $error", "warning": "$warning"}


def status_rows(model: Model, connected: bool) -> list[Text]:
    connection, status = model.connection, model.status
    rows = [Text.assemble(("engine  ", "dim"), (str(connection), "bold"))]

    def add(label: str, text: str, style: str = "dim") -> None:
        rows.append(Text.assemble((f"{label:<8}", style), text))

    if connection.state == "lost":
        add("", "S starts one or looks for it now; stored results are safe")
    elif connection.state == "mismatch":
        add("", "U lets it end after its queue and starts ours then; nothing is lost")
    if status is None or not connected:
        return rows
    about = f"{status.pid}  up {plain.duration(status.uptime_s)}  memory {plain.size(status.rss_bytes)}"
    add("pid", f"{about}  build {connection.build or plain.DASH}")
    queue = f"{len(model.queue)} in the queue, {len(model.active_watches())} watched (J shows them)"
    done = f"{plain.counted(status.runs_done, 'run')} done"
    add("work", f"{done}, {queue}, {status.warm_workers} warm, {status.clients} viewing")
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
        add(f"GPU {device.index}" if device.index >= 0 else "CPU", ", ".join(facts))
    if status.gpu_note:
        add("no GPU", status.gpu_note)
    for banner in model.banners.values():
        add(banner.severity, f"{banner.key}: {banner.text}", "bold")
    if connection.state_dir:
        add("state", connection.state_dir)
    return rows


class EngineLogScreen(WorkScreen):
    BINDINGS: ClassVar[list[BindingType]] = bind(
        Key("start_engine", "S", "start engine", "Look for the engine now, and start one where there is none."),
        Key("restart_engine", "U", "restart when idle",
            "Let an engine of another version end after its queue, and start ours then."),
        "reload",
    )  # fmt: skip
    DEFAULT_CSS = """
    EngineLogScreen #status { height: 6; background: $surface; }
    EngineLogScreen #log { height: 1fr; }
    """
    heading = "Engine log"
    redrawn = True
    shown = frozenset(("log", "status", "connection", "queue", "banners", "watches", "gaps"))

    def __init__(self) -> None:
        super().__init__()
        self._lines_seen = -1  # lines of the log that the pane holds; -1 where it must be filled anew

    def compose_body(self) -> ComposeResult:
        yield TextRows(id="status")
        yield LogPane(id="log", classes="ruled", empty="the engine has written nothing yet")

    def on_mount(self) -> None:
        self.query_one("#log", LogPane).border_title = "engine log"
        self.set_interval(STATUS_PERIOD_S, self._ask_status)
        self.action_reload()
        self.draw()

    async def _fetch(self) -> None:
        link = self.workbench.link
        if link is not None and link.connected:
            await link.fetch_log(LOG_LINES)
            await link.fetch_status()

    def _ask_status(self) -> None:
        link = self.workbench.link
        if self.is_current and link is not None and link.connected:
            begin(self, link.fetch_status, group="status", exclusive=True)

    def refresh_from(self, names: set[str]) -> None:
        if "connection" in names and self.is_mounted:
            self.action_reload()
        if "log:whole" in names:
            self._lines_seen = -1
        super().refresh_from(names)

    def draw(self) -> None:
        model, link = self.workbench.model, self.workbench.link
        status = self.query_one("#status", TextRows)
        rows = status_rows(model, link is not None and link.connected)
        status.styles.height = min(max(3, len(rows)), max(3, self.size.height // 3))
        status.show(rows)
        log = self.query_one("#log", LogPane)
        new = model.engine_line_count - self._lines_seen
        if self._lines_seen < 0 or new > len(model.engine_lines):
            log.clear()
            new = len(model.engine_lines)
        if new > 0:
            fresh = list(model.engine_lines)[-new:]
            log.extend(
                [(f"{level:<8}{text}" if level else text, LEVEL_STYLES.get(level.lower(), "")) for level, text in fresh]
            )
        self._lines_seen = model.engine_line_count

    def action_start_engine(self) -> None:
        link = self.workbench.link
        if link is None or link.connected:
            self.notify("The engine is connected")
            return
        link.reconnect(start=True)
        self.notify("Looking for the engine, starting one if need be")

    def action_restart_engine(self) -> None:
        if self.workbench.model.connection.state == "mismatch":
            self.workbench.restart_engine_when_idle()
        else:
            self.notify("The engine is of this version; there is no need to restart it")

    def action_reload(self) -> None:
        begin(self, self._fetch, group="fetch", exclusive=True)

    def copy_text(self) -> str:
        model = self.workbench.model
        return "\n".join(f"{level} {text}".strip() for level, text in model.engine_lines)
