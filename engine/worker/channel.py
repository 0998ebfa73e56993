"""A process's private line to the engine: blocking, framed, on a descriptor that is neither of the standard three."""

from __future__ import annotations

import os
from typing import Any

from engine.protocol import jobs, reports
from engine.protocol.framing import Decoder, Encoder


class Channel:
    """Receives jobs and sends reports over one connected socket's descriptor."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._encoder = Encoder()
        self._decoder: Decoder[jobs.AnyJob] = Decoder(jobs.AnyJob)
        self._waiting: list[jobs.AnyJob] = []

    def receive(self) -> jobs.AnyJob | None:
        """The next job, or None when the engine has closed the line."""
        while not self._waiting:
            data = os.read(self._fd, 1 << 16)
            if not data:
                return None
            self._waiting.extend(self._decoder.feed(data))
        return self._waiting.pop(0)

    def send(self, report: reports.AnyReport) -> None:
        """Send one report whole."""
        view: Any = memoryview(self._encoder.frame(report))
        while view:
            view = view[os.write(self._fd, view) :]
