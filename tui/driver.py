"""A terminal driver that tells how far the terminal is behind, so that live screens can skip a frame.

Textual writes through a queue of 30 texts; when the terminal (an SSH line, mostly) takes them more slowly
than they are drawn, the queue fills and then every write blocks the event loop. A live screen asks
`has_backlog(app)` before it draws and leaves out that tick.

A terminal that is gone (SIGHUP, a closed pty) makes every write fail; Textual's writer thread dies of the
first one and the 31st write blocks for ever. Here the failure is noted in `lost` and what is drawn
afterwards goes nowhere, so that the app can still leave in order.
"""

from __future__ import annotations

from typing import IO, TYPE_CHECKING, Any, cast

from textual.drivers.linux_driver import LinuxDriver

if TYPE_CHECKING:
    from textual.app import App


class _Outlet:
    """The part of a text file that the writer thread uses; knows when it is inside a write."""

    def __init__(self, file: IO[str]) -> None:
        self._file = file
        self.writing = False
        self.lost: OSError | None = None

    def write(self, text: str) -> int:
        return self._guarded(lambda: self._file.write(text)) or 0

    def flush(self) -> None:
        self._guarded(self._file.flush)

    def fileno(self) -> int:
        return self._file.fileno()

    def isatty(self) -> bool:
        return self._file.isatty()

    def _guarded(self, action: Any) -> int | None:
        if self.lost is not None:
            return None
        self.writing = True
        try:
            return cast("int | None", action())
        except OSError as error:  # EIO: the terminal was hung up; EPIPE: a pipe's reader left
            self.lost = error
            return None
        finally:
            self.writing = False


class BackloggedDriver(LinuxDriver):
    """Textual's driver with a public `backlog`."""

    def __init__(
        self, app: App[Any], *, debug: bool = False, mouse: bool = True, size: tuple[int, int] | None = None
    ) -> None:
        super().__init__(app, debug=debug, mouse=mouse, size=size)
        self._outlet = _Outlet(cast("IO[str]", self._file))
        self._file = cast("Any", self._outlet)

    @property
    def backlog(self) -> int:
        """Texts that the terminal has not taken yet: those queued and the one being written."""
        writer = self._writer_thread
        if writer is None:
            return 0
        return writer._queue.qsize() + int(self._outlet.writing)

    @property
    def lost(self) -> OSError | None:
        """Why the terminal can no longer be written to, or None."""
        return self._outlet.lost


def has_backlog(app: App[Any]) -> bool:
    """Whether the terminal is behind, so that drawing now would block. False where the driver cannot tell."""
    return int(getattr(getattr(app, "_driver", None), "backlog", 0)) > 0
