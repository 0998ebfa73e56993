"""The app's line to the engine: connects in the background, drains ten times a second, reconnects.

Events never become messages one by one: they wait in the connection's buffer, are applied to the model in
slices that leave the loop free, and one `ModelChanged` with the names of what changed goes to the app. While
the terminal has not shown what was drawn before (a slow SSH line), ticks are skipped and the names kept.

A lost engine is looked for again with growing pauses and is not started behind the user's back: only the
first connection, a request and `reconnect(start=True)` start one.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
from typing import TYPE_CHECKING, Any

from textual.message import Message

from aisp.engine import client
from aisp.engine.protocol import events, requests
from aisp.tui.model import Model

if TYPE_CHECKING:
    from textual.app import App

DRAIN_PERIOD_S = 0.1
SLICE_EVENTS = 100
SLICE_S = 0.02  # the loop is given back after this long, so that keys are answered during a replay
MAX_HELD_TICKS = 50  # a terminal behind for 5 s must not fill the buffer: apply, do not draw
PAUSES_S = (0.2, 0.5, 1.0, 2.0, 5.0)
REQUEST_PATIENCE_S = 15.0
IDLE_RESTART_LOOK_S = 1.0


class ModelChanged(Message):
    """The model was changed; `names` as `Model.apply` returns them. One per tick at most."""

    def __init__(self, names: set[str]) -> None:
        super().__init__()
        self.names = names


class EngineLink:
    """Owns the connection. `start(app)` after the first frame, `await stop()` at the end."""

    def __init__(self, model: Model | None = None) -> None:
        self.model = model if model is not None else Model()
        self.skipped_ticks = 0
        self._client = secrets.token_hex(8)
        self._seq = 0  # of the last request; counts on over reconnects, as the engine remembers (client, seq)
        self._connection: client.Connection | None = None
        self._app: App[Any] | None = None
        self._task: asyncio.Task[None] | None = None
        self._may_start = True
        self._stopping = False
        self._wake = asyncio.Event()
        self._up = asyncio.Event()

    @property
    def state(self) -> str:
        """ "connecting", "connected", "lost: why" or "mismatch: why"."""
        return str(self.model.connection)

    @property
    def connected(self) -> bool:
        return self._connection is not None and not self._connection.closed

    def start(self, app: App[Any]) -> None:
        self._app = app
        if self._task is None:
            self._stopping = False
            self._task = asyncio.create_task(self._live(), name="engine link")
            self._task.add_done_callback(self._ended)

    async def stop(self) -> None:
        """Close; the engine and its runs go on."""
        self._stopping = True
        task, self._task = self._task, None
        while task is not None and not task.done():
            # A cancellation that arrives while a connection is being closed is taken for the end of its reader.
            task.cancel()
            await asyncio.wait([task], timeout=0.2)
        if self._connection is not None:
            await self._connection.close()
            self._connection = None

    def reconnect(self, *, start: bool = True) -> None:
        """Look for an engine now rather than after the pause, and start one if need be."""
        self._may_start = self._may_start or start
        self._wake.set()

    async def request(self, kind: type[requests.Request], /, **fields: Any) -> events.Reply:
        """Send `kind(**fields)` (its seq is put in here) and return the Reply.

        Where there is no engine one is started first. Never raises for a missing or lost engine: the Reply's
        `error` then says why and what to do.
        """
        connection = await self._connected()
        if connection is None:
            return events.Reply(to=0, error=f"not sent: {self.state}")
        message: Any = kind(seq=self._next_seq(connection), **fields)
        try:
            return await connection.request(message)
        except client.EngineUnavailableError as error:
            return events.Reply(to=0, error=str(error))

    async def fetch_status(self) -> events.Status | None:
        """Ask for the engine's status, put it into the model and return it; None where there is no engine."""
        connection = self._connection
        if connection is None or connection.closed:
            return None
        try:
            status = await connection.status()
        except client.EngineUnavailableError:
            return None
        self._post(self.model.apply([status]))
        return status

    async def fetch_log(self, lines: int = 500) -> bool:
        """Ask for the newest lines of the engine's log and put them into the model."""
        connection = self._connection
        if connection is None or connection.closed:
            return False
        try:
            found = await connection.log(lines)
        except client.EngineUnavailableError:
            return False
        self._post(self.model.apply([events.EngineLog(to=0, lines=found)]))
        return True

    async def restart_when_idle(self) -> str:
        """Ask an engine of another version to end after its queue, and start ours then.

        Returns what was done, or why it could not be.
        """
        try:
            other = await client.connect(start=False, client=self._client, accept_mismatch=True)
        except client.EngineUnavailableError as error:
            self.reconnect(start=True)
            return str(error)
        pid = other.welcome.pid
        try:
            reply = await other.request(requests.Shutdown(seq=other.next_seq(), when_idle=True))
            answer = reply.error
        except client.EngineUnavailableError:
            answer = ""  # it was idle, and is gone already
        finally:
            await other.close()
        if answer:
            return answer
        self.reconnect(start=True)
        return f"the engine (pid {pid}) ends when its queue is empty; a new one is started then"

    def _next_seq(self, connection: client.Connection) -> int:
        self._seq = connection.next_seq()
        return self._seq

    def _ended(self, task: asyncio.Task[None]) -> None:
        """A defect of ours must not look like a quiet engine."""
        if not task.cancelled() and (error := task.exception()) is not None:
            self._post(self.model.set_connection("lost", f"the link failed ({error!r}); start aisp-tui again"))

    async def _connected(self) -> client.Connection | None:
        if not self.connected and self.model.connection.state != "mismatch":
            self._up.clear()
            self.reconnect(start=True)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(REQUEST_PATIENCE_S):
                    await self._up.wait()
        return self._connection if self.connected else None

    def _post(self, names: set[str]) -> None:
        if names and self._app is not None and self._app.is_running:
            self._app.post_message(ModelChanged(names))

    async def _live(self) -> None:
        failures = 0
        while not self._stopping:
            self._wake.clear()
            known = self.model.connection
            may_start = self._may_start
            try:
                connection = await client.connect(
                    start=may_start,
                    subscribe_from=known.last_seq + 1 if known.epoch else 0,
                    epoch=known.epoch,
                    client=self._client,
                    warm=True,
                    tell=self._waits,
                )
            except client.EngineMismatchError as error:
                self._post(self.model.set_connection("mismatch", str(error)))
                self._up.set()
                await self._pause(IDLE_RESTART_LOOK_S)
                continue
            except (client.EngineUnavailableError, OSError) as error:
                if self._may_start and not may_start:
                    continue  # a request came meanwhile, and a request may start an engine
                self._post(self.model.set_connection("lost", str(error)))
                self._may_start = False
                self._up.set()
                await self._pause(PAUSES_S[min(failures, len(PAUSES_S) - 1)])
                failures += 1
                continue
            failures = 0
            while connection.next_seq() < self._seq:
                pass  # the engine answers a (client, seq) that it knows without carrying it out
            self._connection = connection
            self._may_start = False
            names = self.model.apply([connection.welcome])
            names |= self.model.set_connection("connected")
            self._post(names)
            self._up.set()
            try:
                await self._drain(connection)
            finally:
                self._connection = None
                await connection.close()
            why = "it went away and is looked for; stored results are safe; r runs again and starts one"
            self._post(self.model.set_connection("lost", why))

    def _waits(self, sentence: str) -> None:
        """What is waited for; how a connected engine answers is seen with every tick."""
        if self._connection is None:
            self._post(self.model.set_connection("connecting", sentence))

    async def _pause(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._wake.wait()

    async def _drain(self, connection: client.Connection) -> None:
        """Apply what arrived, ten times a second, until the connection ends."""
        # The driver's base class is slow to import and needed on no path but this one.
        from aisp.tui.driver import expect_frame, has_backlog

        held = 0
        names: set[str] = set()
        while True:
            await asyncio.sleep(DRAIN_PERIOD_S)
            ended = connection.closed
            names |= self.model.set_silent(connection.silent_since, int(connection.heard_s * 1e9))
            names |= self.model.set_gpus(connection.gpus)
            connection.gpus = []
            behind = self._app is not None and has_backlog(self._app) and not ended
            if behind:
                self.skipped_ticks += 1
                held += 1
                if held % MAX_HELD_TICKS:
                    continue
            batch = connection.take()
            begun = time.monotonic()
            for start in range(0, len(batch), SLICE_EVENTS):
                names |= self.model.apply(batch[start : start + SLICE_EVENTS])
                if time.monotonic() - begun > SLICE_S:
                    await asyncio.sleep(0)
                    begun = time.monotonic()
            if not behind:
                if names and self._app is not None:
                    expect_frame(self._app)
                self._post(names)
                names = set()
                held = 0
            if ended and not batch:
                return
