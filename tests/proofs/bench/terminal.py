"""A program on a pseudo-terminal, its screen rebuilt in memory, read as fast as it writes or only so fast.

Times are CLOCK_MONOTONIC in nanoseconds, taken when bytes were read, before they are interpreted: the emulator's own
cost (about 1 us a byte) is not in them. Bytes that the kernel still holds for a slow reader (a pty holds up to 12 kB)
count as not yet shown, as on a slow line.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyte

from tests.proofs.bench.table import COLUMNS, LINES

ROOT = Path(__file__).parents[3]
# Sequences that pyte takes for others or fails at: private ones of newer protocols, and questions about modes.
UNKNOWN = re.compile(rb"\x1b\[(?:[<>=][0-9;]*[A-Za-z]|\?[0-9;]*\$[a-z]|\?[0-9;]*u)")
UNFINISHED = re.compile(rb"\x1b(?:\[[0-9;<>=?$]*)?$")
DROPPED = ("NO_COLOR", "FORCE_COLOR", "SSH_CONNECTION", "SSH_TTY", "TMUX", "COLUMNS", "LINES", "AISP_DEBUG")


def environment(home: Path) -> dict[str, str]:
    """What a program of ours runs under: state, settings and sockets below `home`, a plain colour terminal."""
    (home / "run").mkdir(parents=True, exist_ok=True)
    (home / "run").chmod(0o700)
    kept = {name: value for name, value in os.environ.items() if name not in DROPPED}
    kept.pop("TEXTUAL_FPS", None)
    return kept | {
        "TERM": "xterm-256color",
        "COLORTERM": "truecolor",
        "LANG": "C.UTF-8",
        "PYTHONPATH": str(ROOT),
        "AISP_STATE": str(home / "state"),
        "AISP_CONFIG": str(home / "config"),
        "XDG_RUNTIME_DIR": str(home / "run"),
    }


def program(module: str, function: str, *words: str) -> list[str]:
    """The command line that calls an entry point as its installed script does."""
    return [sys.executable, "-c", f"from {module} import {function}; {function}()", *words]


class _Screen(pyte.Screen):
    """Answers what a terminal answers: a program may ask how far its output has been read."""

    answer: Callable[[str], None] = staticmethod(lambda data: None)

    def write_process_input(self, data: str) -> None:
        self.answer(data)


class Terminal:
    """A pty with a program on it.

    Args:
        argv: the program, its full path first.
        environ: its environment.
        size: columns and lines.
        bytes_per_s: read no faster than this; None for as fast as can be.

    Attributes:
        raw_bytes: how many bytes were read.
        started_ns: when the program was forked.
    """

    TICK_S = 0.005

    def __init__(
        self,
        argv: list[str],
        environ: Mapping[str, str],
        *,
        size: tuple[int, int] = (COLUMNS, LINES),
        bytes_per_s: float | None = None,
    ) -> None:
        self.screen: Any = _Screen(*size)
        self._stream = pyte.ByteStream(self.screen)
        self.bytes_per_s = bytes_per_s
        self._credit = 0.0
        self._credited = time.monotonic()
        self._rest = b""
        self.raw_bytes = 0
        self.tail = b""  # the newest 64 kB
        self.read_ns = 0  # when the newest bytes were read
        self.status: int | None = None
        self.open = True
        self.started_ns = time.monotonic_ns()
        self.pid, self.master = pty.fork()
        if self.pid == 0:
            # Only a few calls stand between fork and exec; a failure ends the child and nothing else.
            try:
                fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", size[1], size[0], 0, 0))
                os.chdir(ROOT)
                os.execve(argv[0], argv, dict(environ))
            finally:
                os._exit(127)
        os.set_blocking(self.master, False)
        self.screen.answer = self._answer

    def _answer(self, data: str) -> None:
        self.press(data)

    def press(self, keys: str) -> int:
        """Type; returns when."""
        with contextlib.suppress(OSError):
            os.write(self.master, keys.encode())
        return time.monotonic_ns()

    def read(self, seconds: float = 0.0) -> bool:
        """Read what is there, waiting up to `seconds` for something. Whether anything came."""
        limit = 1 << 16
        if self.bytes_per_s is not None:
            limit = self._earn(seconds)
            if not limit:
                return False
        ready, _, _ = select.select([self.master], [], [], seconds if self.bytes_per_s is None else 0.0)
        if not ready or not self.open:
            if self.bytes_per_s is not None:
                time.sleep(min(self.TICK_S, seconds))
            return False
        try:
            data = os.read(self.master, limit)
        except BlockingIOError:
            return False
        except OSError as error:
            if error.errno != errno.EIO:  # EIO: nobody has the other side open any more
                raise
            data = b""
        if not data:
            self.open = False
            return False
        self.read_ns = time.monotonic_ns()
        self._credit -= len(data)
        self.raw_bytes += len(data)
        self.tail = (self.tail + data)[-(1 << 16) :]
        self._feed(data)
        return True

    def _feed(self, data: bytes) -> None:
        data = self._rest + data
        cut = UNFINISHED.search(data)
        self._rest = data[cut.start() :] if cut else b""
        self._stream.feed(UNKNOWN.sub(b"", data[: cut.start()] if cut else data))

    def _earn(self, seconds: float) -> int:
        """How many bytes may be read now; sleeps for a tick where there are none to read."""
        assert self.bytes_per_s is not None
        now = time.monotonic()
        # A line does not save up: at most two ticks' worth can arrive at once.
        most = max(1.0, 2 * self.TICK_S * self.bytes_per_s)
        self._credit = min(most, self._credit + (now - self._credited) * self.bytes_per_s)
        self._credited = now
        if self._credit < self.TICK_S * self.bytes_per_s / 2:
            time.sleep(min(self.TICK_S, max(seconds, 0.0)))
            return 0
        return int(self._credit)

    def run(self, seconds: float) -> None:
        """Read on for so long."""
        deadline = time.monotonic() + seconds
        while self.open and (left := deadline - time.monotonic()) > 0:
            self.read(min(left, 0.02))

    def until(self, condition: Callable[[], bool], seconds: float = 60.0, what: str = "") -> int:
        """Read until the screen shows something; when the bytes came that made it so.

        Raises:
            TimeoutError: it was never shown; the message holds the screen.
        """
        deadline = time.monotonic() + seconds
        if condition():
            return time.monotonic_ns()
        while time.monotonic() < deadline and self.open:
            if self.read(0.02) and condition():
                return self.read_ns
        raise TimeoutError(f"{what or 'what was awaited'} never came on the screen, which is:\n{self.shown()}")

    def shown(self) -> str:
        """The screen as text."""
        return "\n".join(line.rstrip() for line in self.screen.display)

    def line_with(self, text: str) -> int | None:
        """Index of the first line that holds a text."""
        return next((index for index, line in enumerate(self.screen.display) if text in line), None)

    def look(self, line: int, column: int) -> tuple[str, bool]:
        """Background colour of a cell, and whether it is drawn in reverse."""
        cell = self.screen.buffer[line][column]
        return str(cell.bg), bool(cell.reverse)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the program."""
        os.kill(self.pid, number)

    def end(self, seconds: float = 20.0) -> int:
        """Read until the program has ended; its exit status, or minus the signal that killed it."""
        deadline = time.monotonic() + seconds
        while self.status is None:
            if time.monotonic() > deadline:
                raise TimeoutError(f"it is still running:\n{self.shown()}")
            self.read(0.02)
            if not self.open:
                time.sleep(0.005)
            found, status = os.waitpid(self.pid, os.WNOHANG)
            if found:
                self.status = os.waitstatus_to_exitcode(status)
        self.bytes_per_s = None
        while self.open and self.read(0.05):
            pass
        return self.status

    def close(self) -> None:
        """End what is left of it."""
        if self.status is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(self.pid, 0)
            self.status = -signal.SIGKILL
        os.close(self.master)

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
