"""Following work that belongs to the engine: the first Ctrl-C asks it to cancel, the second leaves at once.

SIGTERM is Ctrl-C: whoever ends a command after a time limit does not want what it asked for to keep the GPU.
"""

from __future__ import annotations

import abc
import asyncio
import contextlib
import signal
import time
from typing import TYPE_CHECKING

from aisp.tui.cli import common
from aisp.tui.cli.tree import NotHereError

if TYPE_CHECKING:
    from aisp.engine.client import Connection
    from aisp.engine.protocol import events


class Interruptible(abc.ABC):
    """One command from its request to the end of what it asked for.

    Attributes:
        LEFT: what to say to a person who leaves before the end.
        LOST: what to say where the engine goes away before the end.
        TICK_S: how often the live line's clock moves while nothing arrives.
        SIGNALS: what counts as Ctrl-C.
        interrupts: how often Ctrl-C was pressed, or SIGTERM came.
    """

    LEFT = ""
    LOST = "the engine went away before the end; `aisp engine --logs` may say why"
    TICK_S = 0.25
    SIGNALS: tuple[signal.Signals, ...] = (signal.SIGINT, signal.SIGTERM)

    def __init__(self) -> None:
        self.interrupts = 0
        self._progress = common.Progress()
        self._engine: Connection | None = None
        self._cancelling: asyncio.Task[None] | None = None
        self._started = 0.0

    @abc.abstractmethod
    def to_cancel(self) -> list[str]:
        """Begin nothing more; ids of what the engine is to cancel. Where there are none, the first Ctrl-C leaves."""

    @abc.abstractmethod
    async def _follow(self, engine: Connection) -> bool:
        """Ask, and follow what was asked for; whether all of it came to its end."""

    def _take(self, event: events.Event) -> None:  # noqa: B027  who does not listen takes nothing
        """Take in what the engine says."""

    async def _settle(self, engine: Connection) -> bool:
        """See to what a batch of events leaves to be done; whether all that was asked for has ended."""
        return False

    @abc.abstractmethod
    def _draw(self) -> None: ...

    async def _listen(self, engine: Connection) -> bool:
        """Hear the engine until all has ended, or the connection has; whether all has."""
        from aisp.engine.protocol import events  # already imported by the connection

        async for batch in engine.batches():
            for event in batch:
                if isinstance(event, events.Banner):
                    self._progress.banner(event)
                self._take(event)
            if await self._settle(engine):
                return True
            self._draw()
        return False

    @property
    def elapsed_s(self) -> float:
        """Since the engine was there."""
        return time.monotonic() - self._started

    async def _work(self) -> None:
        self._progress.show("connecting to the engine", now=True)
        self._engine = engine = await common.connect_from_now()
        self._started = time.monotonic()
        async with engine:
            ticker = asyncio.create_task(self._tick())
            try:
                done = await self._follow(engine)
            finally:
                ticker.cancel()
        self._progress.clear()
        if not done:
            raise NotHereError(self.LOST)
        if self.interrupts:
            common.note("cancelled")

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(self.TICK_S)
            if self._engine is not None and not self._engine.silent_since:  # else nobody knows what goes on
                self._draw()

    async def run(self) -> bool:
        """Do it; whether Ctrl-C ended it."""
        loop = asyncio.get_running_loop()
        work = asyncio.create_task(self._work())

        def interrupt() -> None:
            self.interrupts += 1
            self._progress.clear()
            going = self.to_cancel() if self.interrupts == 1 and self._engine is not None else []
            if self._engine is None or not going:
                work.cancel()
                return
            common.note("cancelling; Ctrl-C again leaves at once and the engine goes on by itself")
            self._cancelling = asyncio.create_task(self._cancel(self._engine, going))

        for number in self.SIGNALS:
            loop.add_signal_handler(number, interrupt)
        try:
            await work
        except asyncio.CancelledError:
            if not self.interrupts:
                raise
            if self.LEFT:
                common.note(f"left; {self.LEFT}")
        finally:
            for number in self.SIGNALS:
                loop.remove_signal_handler(number)
            self._progress.clear()
        return self.interrupts > 0

    async def _cancel(self, engine: Connection, going: list[str]) -> None:
        from aisp.engine.client import EngineUnavailableError  # already imported by the connection
        from aisp.engine.protocol import requests

        for run_id in going:
            # An engine that goes away meanwhile ends `_work` with a message of its own.
            with contextlib.suppress(EngineUnavailableError):
                await engine.request(requests.Cancel(seq=engine.next_seq(), run_id=run_id))
