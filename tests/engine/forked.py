"""An engine whose workers are forked from a process that has imported torch: `python -m tests.engine.forked`.

A worker starts with three CPU-seconds of imports, and the tests that share an engine take some four hundred workers.
Here the engine is the product's, and so is all that a worker does from the first line of its `main` to the last. But
`python -m aisp.engine.worker` is not executed: it becomes a fork with the same arguments, environment, descriptors,
session and parent. And it leaves without taking its modules down, which would copy every page of them first; its
threads are waited for and its exit functions run.

Engines that a test has for itself start their workers as the product does, as do all engines of a machine with a GPU
and of `make audit`.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import gc
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, NoReturn
from unittest import mock

from aisp.engine import start
from tests.engine import started

NAME = "aisp-forker"  # of the process that forks, in /proc/PID/comm
REFUSED = -1
READY = b"ready"
PATIENCE_S = 120.0
WORDS_BYTES = 1 << 12

PR_SET_PDEATHSIG = 1
PR_SET_NAME = 15
_prctl = ctypes.CDLL(None).prctl


@contextlib.contextmanager
def engines() -> Iterator[None]:
    """Whatever engine this process starts meanwhile has forked workers."""
    with started.programs({"aisp.engine.server": ["tests.engine.forked"]}):
        yield


# -- in the engine -----------------------------------------------------------------------------------------------------


class Forked:
    """A worker, with as much of `subprocess.Popen` as the engine wants of one."""

    def __init__(self, forker: Forker, words: Sequence[str], channel: int) -> None:
        (out, their_out), (err, their_err) = os.pipe(), os.pipe()
        self.stdout: IO[bytes] = os.fdopen(out, "rb")
        self.stderr: IO[bytes] = os.fdopen(err, "rb")
        self.returncode: int | None = None
        try:
            self.pid = forker.fork(words, [their_out, their_err, channel])
        except OSError:
            self.stdout.close()
            self.stderr.close()
            raise
        finally:
            os.close(their_out)
            os.close(their_err)

    def poll(self) -> int | None:
        """Its exit status, once it has ended."""
        return self._collect(os.WNOHANG)

    def wait(self) -> int | None:
        """Its exit status, when it has ended."""
        return self._collect(0)

    def kill(self) -> None:
        """kill -9."""
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)

    def _collect(self, flags: int) -> int | None:
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, flags)
            if pid == self.pid:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode


class Forker:
    """The process that has imported torch, in one environment."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._line, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._line.settimeout(PATIENCE_S)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-u", "-m", "tests.engine.forked", str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                env=started.environment(environment),
                cwd="/",
                start_new_session=True,
            )
        self.pid = self._process.pid
        self._ready = False

    @property
    def ready(self) -> bool:
        """Whether it has imported what workers import."""
        if not self._ready and select.select([self._line], [], [], 0)[0]:
            self._ready = self._line.recv(WORDS_BYTES) == READY
        return self._ready

    def fork(self, words: Sequence[str], descriptors: Sequence[int]) -> int:
        """A worker with these arguments, and these as its stdout, stderr and channel; its pid."""
        socket.send_fds(self._line, ["\0".join(words).encode()], list(descriptors))
        pid = int(self._line.recv(WORDS_BYTES) or REFUSED)
        if pid == REFUSED:
            raise OSError("no worker could be forked")
        return pid

    def close(self) -> None:
        """End it. What it has forked is the engine's."""
        self._line.close()
        self._process.kill()
        self._process.wait()


class Workers:
    """`subprocess` as the engine's spawner sees it. The first few are executed: nobody waits for a forker's imports."""

    DEVNULL = subprocess.DEVNULL
    PIPE = subprocess.PIPE

    def __init__(self, children: dict[int, Any]) -> None:
        self._children = children
        self._forkers: dict[frozenset[tuple[str, str]], Forker] = {}

    def Popen(self, words: Sequence[str], **rest: Any) -> Forked | subprocess.Popen[bytes]:
        """As `subprocess.Popen` of `engine.worker CHANNEL_FD ENGINE_PID PLACE`."""
        key = frozenset(rest["env"].items())
        if key not in self._forkers:
            self._forkers[key] = forker = Forker(rest["env"])
            self._children[forker.pid] = None  # no stray that a worker left behind
        if not self._forkers[key].ready:
            return subprocess.Popen(words, **rest)
        (channel,) = rest["pass_fds"]
        return Forked(self._forkers[key], words[words.index(start.FILE) + 1 :], channel)

    def close(self) -> None:
        """End those that fork."""
        for forker in self._forkers.values():
            forker.close()


@contextlib.contextmanager
def forking() -> Iterator[None]:
    """Whatever worker this process starts meanwhile is forked."""
    from aisp.engine import spawner

    workers = Workers(spawner._children)
    with mock.patch.object(spawner, "subprocess", workers), contextlib.closing(workers):
        yield


# -- in the process that forks -----------------------------------------------------------------------------------------


def named(name: bytes) -> None:
    """What /proc/PID/comm says of this process."""
    _prctl(PR_SET_NAME, name, 0, 0, 0)


def serve(line: socket.socket) -> tuple[list[str], list[int]] | None:
    """Fork a worker for each request until the engine goes; in a worker, its arguments and its descriptors."""
    while True:
        words, descriptors, _, _ = socket.recv_fds(line, WORDS_BYTES, 8)
        if not words:
            return None
        try:
            pid = fork()
        except OSError:
            pid = REFUSED
        if pid == 0:
            line.close()
            return words.decode().split("\0"), descriptors
        for descriptor in descriptors:
            os.close(descriptor)
        line.send(str(pid).encode())


def fork() -> int:
    """A process that is not ours but the engine's, to which it falls as the process between us and it is gone; its pid,
    and 0 in it."""
    told, tells = os.pipe()
    waits, lets_go = os.pipe()
    between = os.fork()
    if between == 0:
        os.close(lets_go)
        try:
            pid = os.fork()
        except OSError:
            os._exit(1)
        if pid == 0:
            os.close(told)
            os.close(tells)
            os.read(waits, 1)
            os.close(waits)
            return 0
        os.write(tells, str(pid).encode())
        os._exit(0)
    os.close(tells)
    os.close(waits)
    os.waitpid(between, 0)
    pid = int(os.read(told, 32) or REFUSED)
    os.close(told)
    os.close(lets_go)
    return pid


def become_worker(words: Sequence[str], descriptors: Sequence[int]) -> None:
    """All that an executed worker differs in from this fork, and then `python -m aisp.engine.worker`."""
    named(Path(sys.executable).name.encode())
    os.setsid()
    stdout, stderr, channel = descriptors
    os.dup2(stdout, 1)
    os.dup2(stderr, 2)
    os.close(stdout)
    os.close(stderr)
    os.set_inheritable(channel, True)
    import numpy

    numpy.random.seed()  # random seeds itself in a fork, numpy does not
    module, _, engine_pid, *rest = words
    sys.argv = ["", str(channel), engine_pid, *rest]
    del os.environ["PYTHONPATH"]
    sys.path.remove(started.ROOT)
    sys.meta_path.insert(0, start.OurPackage(Path(started.ROOT)))
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as leaving:
        leave(leaving.code)


def leave(status: object) -> NoReturn:
    """End this process as Python does after its last line, but for taking the modules down."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(status if isinstance(status, int) else status is not None)


def main() -> int:
    """See the module."""
    if len(sys.argv) == 1:
        from aisp.engine import server

        with forking():
            return server.main()
    _prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    named(NAME.encode())
    import torch  # noqa: F401
    import triton  # noqa: F401

    import aisp.engine.worker.arm
    import aisp.engine.worker.channel
    import aisp.engine.worker.verifier  # noqa: F401

    gc.collect()
    gc.freeze()  # no collection in a fork copies pages of what all have
    line = socket.socket(fileno=int(sys.argv[1]))
    line.send(READY)
    asked = serve(line)
    if asked is not None:
        become_worker(*asked)
    return 0


if __name__ == "__main__":
    sys.exit(main())
