"""How far this engine is: what it does before it can carry out requests, and whether it is to end."""

from __future__ import annotations

import asyncio
import time

from aisp.engine.protocol.events import GpuUse
from aisp.store.ulid import new_ulid


class Life:
    """One engine's life, from its lock to its end.

    Attributes:
        epoch: names it; events are numbered within it.
        starting: what it does before it is ready ("reading the store"); "" from then on.
        ready: it carries out requests.
        stopping: it is to end now.
        stop_when_idle: it is to end once nothing is queued.
        gpus: each GPU as it was when nothing was measured last, for clients that look.
    """

    def __init__(self) -> None:
        self.epoch = new_ulid()
        self.starting = "reading the store"
        self.ready = asyncio.Event()
        self.stopping = asyncio.Event()
        self.stop_when_idle = False
        self.gpus: list[GpuUse] = []
        self._born = self._busy_at = time.monotonic()

    def is_ready(self) -> None:
        """The start is over."""
        self.starting = ""
        self.ready.set()

    def note(self) -> None:
        """Somebody asked for something, or something has ended."""
        self._busy_at = time.monotonic()

    @property
    def idle_s(self) -> float:
        """Since the last `note`."""
        return time.monotonic() - self._busy_at

    @property
    def uptime_s(self) -> float:
        """Since its start."""
        return time.monotonic() - self._born
