"""The event stream: numbered, kept on disk for clients that come late, and offered to each client without waiting.

Every broadcast event gets the next number of this engine's life and is appended to a file, as the frame that clients
receive. A client has a queue of bounded size. One that reads too slowly loses the oldest events, and a Gap says which.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
from array import array
from collections import deque
from pathlib import Path

from aisp.engine.protocol import events
from aisp.engine.protocol.framing import Encoder

KEPT_BYTES = 64 * 1024 * 1024  # per file; the file before it is kept as well
CLIENT_QUEUE_BYTES = 4 * 1024 * 1024
MOST_REPLIES = 1000


class ClientGoneError(Exception):
    """This client asks without ever reading; its connection is of no use."""


class Outbox:
    """One client's share of the stream, and the answers to its own requests."""

    def __init__(self) -> None:
        self._queue: deque[tuple[int, bytes]] = deque()
        self._queued_bytes = 0
        self._replies: deque[bytes] = deque()
        self._lost: tuple[int, int] | None = None
        self._filled = asyncio.Event()
        self._encoder = Encoder()

    def offer(self, seq: int, frame: bytes) -> None:
        """Queue an event's frame. The oldest are dropped where there is no room, and a Gap names them."""
        self._queue.append((seq, frame))
        self._queued_bytes += len(frame)
        while self._queued_bytes > CLIENT_QUEUE_BYTES and len(self._queue) > 1:
            old, gone = self._queue.popleft()
            self._queued_bytes -= len(gone)
            self._lost = (self._lost[0] if self._lost else old, old)
        self._filled.set()

    def reply(self, event: events.Event) -> None:
        """Queue an answer; none is ever dropped. Raises ClientGoneError where too many were never read."""
        if len(self._replies) >= MOST_REPLIES:
            raise ClientGoneError(f"{MOST_REPLIES} answers are waiting to be read")
        self._replies.append(self._encoder.frame(event))
        self._filled.set()

    async def next_bytes(self) -> bytes:
        """Answers and events that are queued, as one piece of some 256 KB at most; waits for something."""
        while not self._queue and not self._replies:
            self._filled.clear()
            await self._filled.wait()
        parts = list(self._replies)
        self._replies.clear()
        if self._lost is not None:
            parts.append(self._encoder.frame(events.Gap(first=self._lost[0], last=self._lost[1])))
            self._lost = None
        size = 0
        while self._queue and size < 256 * 1024:
            _, frame = self._queue.popleft()
            self._queued_bytes -= len(frame)
            size += len(frame)
            parts.append(frame)
        return b"".join(parts)


class _File:
    """Frames of consecutive numbers, and where each begins."""

    def __init__(self, folder: int, name: str, first: int) -> None:
        """`folder` is open: its path may be somebody else's by now."""
        self._folder, self._name = folder, name
        self.first = first
        self.starts = array("Q")
        self.size = 0
        self._fd = os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=folder)

    def append(self, frame: bytes) -> None:
        """Keep a frame. Raises OSError where it did not go in whole; nothing of it is then kept."""
        if os.pwrite(self._fd, frame, self.size) != len(frame):
            raise OSError(errno.ENOSPC, "the journal's disk is full")
        self.starts.append(self.size)
        self.size += len(frame)

    def read(self, seq: int) -> tuple[bytes, int]:
        """Some 256 KB of whole frames from number `seq` on, b"" for a stretch of lost ones; the number after them."""
        stop = seq - self.first
        start, lost = self.starts[stop], self._lost(stop)
        while stop < len(self.starts) and self._lost(stop) == lost and self.starts[stop] - start < 256 * 1024:
            stop += 1
        return os.pread(self._fd, self._end(stop - 1) - start, start), self.first + stop

    def _end(self, index: int) -> int:
        return self.starts[index + 1] if index + 1 < len(self.starts) else self.size

    def _lost(self, index: int) -> bool:
        """Whether a full disk swallowed this frame: nothing stands in its place."""
        return self._end(index) == self.starts[index]

    @property
    def next(self) -> int:
        return self.first + len(self.starts)

    def close(self) -> None:
        # Another engine that has taken this one's place has a file of that name.
        with contextlib.suppress(OSError):
            if os.path.samestat(os.stat(self._name, dir_fd=self._folder), os.fstat(self._fd)):
                os.unlink(self._name, dir_fd=self._folder)
        os.close(self._fd)


class Journal:
    """Numbers, keeps and spreads events."""

    def __init__(self, folder: Path) -> None:
        self._folder = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        for old in folder.glob("*.events"):
            old.unlink()
        self._encoder = Encoder()
        self._files: list[_File] = [_File(self._folder, "1.events", 1)]
        self.outboxes: set[Outbox] = set()

    @property
    def next_seq(self) -> int:
        """The number that the next event will get."""
        return self._files[-1].next

    def publish(self, event: events.Event) -> None:
        """Number an event, keep it, and offer it to every client."""
        current = self._files[-1]
        event.seq = current.next
        frame = self._encoder.frame(event)
        try:
            if current.size > KEPT_BYTES:
                current = _File(self._folder, f"{event.seq}.events", event.seq)
                self._files.append(current)
                for old in self._files[:-2]:
                    old.close()
                del self._files[:-2]
            current.append(frame)
        except OSError:
            # A full disk must not stop the live stream: latecomers miss this part and hear so.
            current.starts.append(current.size)
        for outbox in self.outboxes:
            outbox.offer(event.seq, frame)

    def piece(self, seq: int) -> tuple[bytes, int]:
        """Frames from number `seq` on, some 256 KB of them, and the number after the last.

        Where they are no longer kept, or never fitted on the disk, the piece is a Gap that says so.
        """
        oldest = self._files[0].first
        if seq < oldest:
            return self._encoder.frame(events.Gap(first=seq, last=oldest - 1)), oldest
        for file in self._files:
            if file.first <= seq < file.next:
                data, following = file.read(seq)
                return data or self._encoder.frame(events.Gap(first=seq, last=following - 1)), following
        return b"", self.next_seq

    def close(self) -> None:
        """Forget everything kept."""
        for file in self._files:
            file.close()
        self._files.clear()
        os.close(self._folder)
