"""A process's private line to the engine: blocking, framed, sealed, on a descriptor that is neither of the standard
three.

The engine's first bytes on the line are the key of both directions. They are read before anything of a lesson is
loaded and kept only inside of hash objects. A kernel can still write to the descriptor: the engine then ends the arm.
"""

from __future__ import annotations

import os
from typing import Any

from engine.protocol import jobs, reports
from engine.protocol.framing import JOBS, KEY_BYTES, REPORTS, Decoder, Encoder, Opener, sealing


class Channel:
    """Receives jobs and sends reports over one connected socket's descriptor."""

    def __init__(self, fd: int) -> None:
        os.set_inheritable(fd, False)
        self._fd = fd
        key = self._key()
        self._encoder = Encoder(sealing(key, REPORTS))
        self._decoder: Decoder[jobs.AnyJob] = Decoder(jobs.AnyJob, Opener(key, JOBS))
        key[:] = bytes(KEY_BYTES)
        self._waiting: list[jobs.AnyJob] = []

    def _key(self) -> bytearray:
        key = bytearray(KEY_BYTES)
        view = memoryview(key)
        while view:
            count = os.readv(self._fd, [view])
            if not count:
                raise ConnectionError("the engine closed the line before it gave a key")
            view = view[count:]
        return key

    def receive(self) -> jobs.AnyJob | None:
        """The next job, or None when the engine has closed the line.

        Raises:
            FrameError: somebody else read from the line, so that a part of it is missing here.
        """
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
