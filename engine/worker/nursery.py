"""A nursery: `engine.worker.nursery LINE_FD ENGINE_PID CORES`, started by engine.nursery, which says what it is for.

It does what its line asks, one request after the other, and ends with the engine. Each request brings the descriptor
on which it is answered. Whatever else a worker is, a fork becomes by itself: engine.worker.__main__.live.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import functools
import gc
import importlib
import os
import select
import signal
import socket
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from aisp.engine.confinement import Place
from aisp.engine.nursery import COMPILER, DONE, ENVIRONMENT, NOTED, WORDS_BYTES
from aisp.engine.worker.__main__ import die_with, import_compiler, live, settle_on_cores

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController

PR_SET_DUMPABLE = 4
PR_SET_NAME = 15
NURSERY_NAME, WORKER_NAME = b"aisp-nursery", b"aisp-worker"  # in /proc/PID/comm, whose limit is 15 bytes
CHILD_FILES = 3  # its stdout, its stderr and its line

HAS_GPU = Path("/dev/nvidiactl").exists()
ARCHITECTURES = (80, 86, 89, 90, 100, 103, 120)  # for which Triton's assembler may be asked

_prctl = ctypes.CDLL(None).prctl


class Availability:
    """`torch.cuda.is_available`, asked in a fork: the driver leaves a thread in whoever asks it, and no fork survives a
    driver that was asked before. torch's compiler wants to know while it is imported.
    """

    def __init__(self) -> None:
        import torch

        self._cuda = torch.cuda
        self._really = torch.cuda.is_available
        torch.cuda.is_available = self._answer

    @functools.cache  # noqa: B019  there is one of these
    def _answer(self) -> bool:
        pid = os.fork()
        if not pid:
            os._exit(int(self._really()))
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 1

    def give_back(self) -> None:
        """Let this process find out by itself."""
        self._cuda.is_available = self._really


class Threads:
    """How many threads libraries may use. Here it is one, so that a fork copies all there are."""

    def __init__(self) -> None:
        import torch
        from threadpoolctl import ThreadpoolController

        self._torch = torch.get_num_threads()
        named = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
        self._blas_threads = int(named) if named.isdigit() and int(named) else len(os.sched_getaffinity(0))
        self._blas: ThreadpoolController = ThreadpoolController().select(internal_api="openblas")
        torch.set_num_threads(1)

    def give_back(self) -> None:
        """Allow as many threads as in a process that was started."""
        import torch

        torch.set_num_threads(self._torch)
        self._blas.limit(limits=self._blas_threads)


def import_all() -> None:
    """Import what a worker imports before it is ready."""
    for name in ("triton", *(("cuda.core", "cuda.bindings.driver", "cuda.bindings.nvrtc") if HAS_GPU else ())):
        with contextlib.suppress(ImportError):
            importlib.import_module(name)

    if HAS_GPU and os.environ.get("TRITON_INTERPRET") != "1":
        for prepare in (load_launcher, know_triton):
            with contextlib.suppress(Exception):  # each process does it by itself then
                prepare()

    import aisp.engine.worker.arm
    import aisp.engine.worker.channel
    import aisp.engine.worker.timers
    import aisp.engine.worker.verifier  # noqa: F401


@contextlib.contextmanager
def cache_of_its_own(variable: str) -> Iterator[None]:
    """Have a compiler's cache lie in a folder that is gone afterwards: what lies in a shared one may be anybody's."""
    kept = os.environ.get(variable)
    with tempfile.TemporaryDirectory() as folder:
        os.environ[variable] = folder
        try:
            yield
        finally:
            del os.environ[variable]
            if kept is not None:
                os.environ[variable] = kept


def find_instruction_sets() -> None:
    """Have torch's compiler find out, once and for all forks, what this processor and the C++ compiler agree on.

    It builds and loads a program for each set, 9 s in every process whose caches are empty, before the first kernel for
    a CPU.
    """
    from torch._inductor.cpu_vec_isa import valid_vec_isa_list

    with cache_of_its_own("TORCHINDUCTOR_CACHE_DIR"):
        valid_vec_isa_list()


def load_launcher() -> None:
    """Have Triton build and load what it talks to the driver with, once and for all forks.

    A process whose caches are empty, as each is that runs new code, would have a C compiler work on it for most of a
    second. The driver is asked for nothing. Raises whatever Triton does.
    """
    from triton.backends.nvidia.driver import CudaDriver
    from triton.runtime import driver

    with cache_of_its_own("TRITON_CACHE_DIR"):
        driver.set_active(CudaDriver())


def know_triton() -> None:
    """Have Triton find out what it consists of, once and for all forks: its caches are looked up by that.

    It reads and hashes its own library of 460 MB, 0.4 s in every process before the first kernel, and asks the
    assembler twice for its version. Raises whatever Triton does.
    """
    from triton.backends.nvidia.compiler import get_ptxas_version
    from triton.runtime.cache import triton_key

    triton_key()
    for sm in ARCHITECTURES:
        get_ptxas_version(sm)


def collect() -> None:
    """Have no collection in a fork copy pages of what all have."""
    gc.collect()
    gc.freeze()


def hindrance(files: list[int]) -> str:
    """Why this process cannot fork one with these descriptors; "" where it can."""
    if len(files) < CHILD_FILES:
        return "it can open no more files"
    try:
        tasks = [(task / "comm").read_text(errors="replace").strip() for task in Path("/proc/self/task").iterdir()]
    except OSError as error:
        return f"it cannot count its threads: {error}"
    return "" if len(tasks) == 1 else f"it has {len(tasks)} threads: {', '.join(sorted(tasks))}"


def say(answer: socket.socket, words: str) -> None:
    """Answer, where somebody still waits for it."""
    with contextlib.suppress(OSError):
        answer.send(words.encode())


def fork(answer: socket.socket) -> int | None:
    """Fork a worker by way of a process between, as engine.nursery says; None here, and in it the pid of that one."""
    try:
        if os.fork():
            return None
    except OSError as error:
        say(answer, f"no process can be forked: {error}")
        return None
    between = os.getpid()
    try:
        pid = os.fork()
    except OSError as error:
        say(answer, f"no process can be forked: {error}")
        os._exit(1)
    if not pid:
        return between
    try:
        answer.send(str(pid).encode())
        noted = answer.recv(len(NOTED)) == NOTED
    except OSError:
        noted = False
    if not noted:
        os.kill(pid, signal.SIGKILL)  # nobody waits for it any more
    os._exit(0)


def serve(line: socket.socket) -> tuple[list[str], list[int], int] | None:
    """Do what is asked until the engine goes. In a fork: its words, its descriptors, and who stands between."""
    while True:
        words, files, _, _ = socket.recv_fds(line, WORDS_BYTES, 1 + CHILD_FILES)
        if not words:
            return None
        kind, *rest = words.split(b"\0")
        between = None
        if not files:
            continue  # none can be taken in; who asked finds the line closed
        with socket.socket(fileno=files.pop(0)) as answer:
            if kind == COMPILER.encode():
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # the import runs programs and wants their status
                import_compiler()
                if not HAS_GPU:
                    with contextlib.suppress(Exception):  # each process does it by itself then
                        find_instruction_sets()
                collect()
                signal.signal(signal.SIGCHLD, signal.SIG_IGN)
                say(answer, DONE)
            elif problem := hindrance(files):
                say(answer, problem)
            else:
                between = fork(answer)
        if between is not None:
            line.close()
            return [word.decode() for word in rest], files, between
        for file in files:
            os.close(file)


def come_of_age(between: int) -> None:
    """Wait until this fork is the engine's child."""
    with contextlib.suppress(ProcessLookupError):  # it is already
        ended = os.pidfd_open(between)
        select.select([ended], [], [])
        os.close(ended)


def become_worker(words: list[str], files: list[int], between: int, settled: Callable[[], object]) -> NoReturn:
    """What a started worker has from its start; then all that it does, to its end."""
    engine_pid, place = words
    come_of_age(between)
    os.setsid()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    stdout, stderr, channel = files
    for file, number in ((stdout, 1), (stderr, 2)):
        os.dup2(file, number)
        os.close(file)
    _prctl(PR_SET_NAME, WORKER_NAME, 0, 0, 0)
    _prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)
    for name in ENVIRONMENT:
        del os.environ[name]
    import numpy

    numpy.random.seed()  # Python's random has done so by itself, and torch is given one with the lesson
    leave(live(channel, int(engine_pid), Place.decoded(place), settled))


def leave(status: object) -> NoReturn:
    """End this process as Python does after its last line, without taking down modules: that would copy them first."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(status if isinstance(status, int) else status is not None)


def main() -> int:
    """Import, then fork."""
    line, engine_pid = socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2])
    die_with(engine_pid)
    _prctl(PR_SET_NAME, NURSERY_NAME, 0, 0, 0)
    _prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
    settle_on_cores([int(core) for core in sys.argv[3].split(",") if core])
    sys.dont_write_bytecode = True
    availability, threads = Availability(), Threads()
    import_all()
    collect()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody asks how those between ended
    if (forked := serve(line)) is not None:
        availability.give_back()
        become_worker(*forked, threads.give_back)
    return 0


if __name__ == "__main__":
    sys.exit(main())
