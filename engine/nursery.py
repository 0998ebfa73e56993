"""The engine's side of a nursery: a process that has imported what workers import, and forks them.

A started worker needs seconds for its imports, a forked one some ten milliseconds. A nursery imports what is installed
and nothing else, sees no lesson and never uses CUDA (engine.worker.nursery). What it forks becomes the engine's child,
with a session, a line, pipes and a folder of its own, like a process that the engine started.

No sweep takes a fork for a stray, since the engine knows its pid before it is the engine's child:

    engine    asks, and sends the descriptors that the process will have, and one end of a pair for the answer
    nursery   forks a process between, which forks the worker and tells its pid
    engine    notes the pid and says so; the process between ends, and the worker falls to the engine
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import subprocess
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from typing import IO

from aisp.engine import paths, start
from aisp.engine.confinement import Place

FORK_LIMIT_S = paths.positive_setting("AISP_FORK_LIMIT_S", 10.0)
FULL_LINE_S = 0.001
WORDS_BYTES = 1 << 16
FORK, COMPILER, DONE = "fork", "compiler", "done"
NOTED = b"noted"

SWITCH = "AISP_FORK"

ENVIRONMENT = {"OPENBLAS_NUM_THREADS": "1"}  # of a nursery: it must have one thread whenever it forks


def wanted() -> bool:
    """Whether workers are to be forked: unless AISP_FORK is 0."""
    return os.environ.get(SWITCH, "") != "0"


class NurseryError(Exception):
    """It cannot do what was asked. The message is a clause: "it has 3 threads"."""


class Forked:
    """A forked worker, with as much of `subprocess.Popen` as the engine needs of one."""

    def __init__(self, pid: int, stdout: IO[bytes], stderr: IO[bytes]) -> None:
        self.pid, self.stdout, self.stderr = pid, stdout, stderr
        self.returncode: int | None = None


class Nursery:
    """One nursery. Whatever is asked of it waits until its imports are done."""

    def __init__(self, environment: Mapping[str, str], limit_s: float, cores: Sequence[int] = ()) -> None:
        """Start it.

        Args:
            environment: of all that it forks.
            limit_s: for its imports.
            cores: that it and all that it forks run on; empty: all but the first that are allowed.

        Raises:
            OSError: it cannot be started.
        """
        self._line, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._line.setblocking(False)
        try:
            with theirs:
                self._process = subprocess.Popen(
                    start.command(
                        "aisp.engine.worker.nursery",
                        str(theirs.fileno()),
                        str(os.getpid()),
                        ",".join(map(str, cores)),
                    ),
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    pass_fds=(theirs.fileno(),),
                    env={**environment, **ENVIRONMENT},
                    cwd="/",
                    start_new_session=True,
                )
        except OSError:
            self._line.close()
            raise
        self.pid = self._process.pid
        self.ready = False  # whether it has answered yet
        self.compiler = False  # whether it has imported torch's compiler
        self._importing = 0  # requests to import it that are not answered: others wait behind them
        self._limit_s = limit_s

    async def import_compiler(self) -> None:
        """Have it import torch's compiler, for whatever it forks from then on. Raises NurseryError."""
        if self.compiler:
            return
        self._importing += 1
        try:
            async with self._request([COMPILER], (), self._limit_s) as (reply, _):
                if reply != DONE:
                    raise NurseryError(reply)
        finally:
            self._importing -= 1
        self.compiler = True

    async def fork(self, place: Place, channel: socket.socket, born: Callable[[int], None]) -> Forked:
        """A worker for this place that talks over this socket.

        Args:
            born: called with its pid before it can become our child.

        Raises:
            NurseryError: there is none.
        """
        with contextlib.ExitStack() as ours, contextlib.ExitStack() as theirs:
            try:
                streams = [_pipe(ours, theirs) for _ in range(2)]
            except OSError as error:
                raise NurseryError(str(error)) from None
            words = [FORK, str(os.getpid()), place.encoded()]
            files = [stream.fileno() for _, stream in streams] + [channel.fileno()]
            async with self._request(words, files, FORK_LIMIT_S) as (reply, line):
                if not reply.isdigit():
                    raise NurseryError(reply)
                pid = int(reply)
                born(pid)
                with contextlib.suppress(OSError):  # who stands between has died: it is our child already
                    line.send(NOTED)
            ours.pop_all()
        return Forked(pid, streams[0][0], streams[1][0])

    def close(self) -> None:
        """End it. What it has forked lives on."""
        self._line.close()
        self._process.kill()
        self._process.wait()  # it is killed: a millisecond

    @contextlib.asynccontextmanager
    async def _request(
        self, words: Iterable[str], files: Iterable[int], limit_s: float
    ) -> AsyncIterator[tuple[str, socket.socket]]:
        """What it says to this, and the line on which it said so. Raises NurseryError."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        limit_s = limit_s if self.ready and not self._importing else self._limit_s
        with ours, theirs:
            ours.setblocking(False)
            try:
                async with asyncio.timeout(limit_s):
                    await send_files(self._line, "\0".join(words).encode(), [theirs.fileno(), *files])
                    theirs.close()  # so that we hear when nobody will answer
                    reply = await asyncio.get_running_loop().sock_recv(ours, WORDS_BYTES)
            except TimeoutError:
                raise NurseryError(f"it gave no answer within {limit_s:.0f} s") from None
            except OSError as error:
                raise NurseryError(f"{self._end()} ({error})") from None
            if not reply:
                raise NurseryError(self._end())
            self.ready = True
            yield reply.decode(errors="replace"), ours

    def _end(self) -> str:
        code = self._process.poll()
        if code is None:
            return "it closed the line"
        return f"it ended with {f'signal {-code}' if code < 0 else f'status {code}'}"


async def send_files(line: socket.socket, data: bytes, files: Sequence[int]) -> int:
    """Send descriptors with as much of the data as the line takes at once. Returns how many bytes that was."""
    while True:
        try:
            return socket.send_fds(line, [data], files)
        except BlockingIOError:
            await asyncio.sleep(FULL_LINE_S)


def _pipe(ours: contextlib.ExitStack, theirs: contextlib.ExitStack) -> tuple[IO[bytes], IO[bytes]]:
    """Both ends of a pipe: to read, and to write."""
    reads, writes = os.pipe()
    return ours.enter_context(os.fdopen(reads, "rb")), theirs.enter_context(os.fdopen(writes, "wb"))
