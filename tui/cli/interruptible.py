"""Following work that belongs to the engine: the first Ctrl-C asks it to cancel, the second leaves at once."""

from __future__ import annotations

import abc
import asyncio
import contextlib
import signal
from typing import TYPE_CHECKING

from aisp.tui.cli import common

if TYPE_CHECKING:
    from aisp.engine.client import Connection


class Interruptible(abc.ABC):
    """One command from its request to the end of what it asked for.

    Attributes:
        LEFT: what to say to a person who leaves before the end.
        interrupts: how often Ctrl-C was pressed.
    """

    LEFT = ""

    def __init__(self) -> None:
        self.interrupts = 0
        self._progress = common.Progress()
        self._engine: Connection | None = None
        self._cancelling: asyncio.Task[None] | None = None

    @property
    @abc.abstractmethod
    def cancellable(self) -> bool:
        """Whether there is anything that the engine could cancel for us; else the first Ctrl-C leaves."""

    @abc.abstractmethod
    def to_cancel(self) -> list[str]:
        """Ids of what the engine is to cancel."""

    @abc.abstractmethod
    async def _work(self) -> None:
        """All of it: connect, ask, follow."""

    async def run(self) -> bool:
        """Do it; whether Ctrl-C ended it."""
        loop = asyncio.get_running_loop()
        work = asyncio.create_task(self._work())

        def interrupt() -> None:
            self.interrupts += 1
            self._progress.clear()
            if self.interrupts > 1 or self._engine is None or not self.cancellable:
                work.cancel()
                return
            common.note("aisp: cancelling; Ctrl-C again leaves at once and the engine goes on by itself")
            self._cancelling = asyncio.create_task(self._cancel(self._engine))

        loop.add_signal_handler(signal.SIGINT, interrupt)
        try:
            await work
        except asyncio.CancelledError:
            if not self.interrupts:
                raise
            common.note(f"aisp: left; {self.LEFT}")
        finally:
            loop.remove_signal_handler(signal.SIGINT)
            self._progress.clear()
        return self.interrupts > 0

    async def _cancel(self, engine: Connection) -> None:
        from aisp.engine.client import EngineUnavailableError  # already imported by the connection
        from aisp.engine.protocol import requests

        for run_id in self.to_cancel():
            # An engine that goes away meanwhile ends `_work` with a message of its own.
            with contextlib.suppress(EngineUnavailableError):
                await engine.request(requests.Cancel(seq=engine.next_seq(), run_id=run_id))
