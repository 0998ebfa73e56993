"""Child processes of the engine: started, listened to, and always brought to an end.

A child has its own session, is killed by the kernel when the engine dies, and is first in line when memory runs out.
Its stdout and stderr are drained into rings of bounded size. Its reports are sealed (engine.protocol.framing) and come
on a socket of their own, so that nothing that a kernel prints, writes to a descriptor or leaves as a status counts as a
report. The engine's one main thread starts all children, because the parent-death signal is tied to the thread that
forked. The engine is subreaper: what a child leaves behind becomes the engine's child, and is swept.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import logging
import os
import secrets
import signal
import socket
import subprocess
import sysconfig
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from aisp.engine import arena, confinement, paths, start, workplaces
from aisp.engine.confinement import Place
from aisp.engine.nursery import Forked, Nursery, send_files
from aisp.engine.protocol import jobs, reports
from aisp.engine.protocol.framing import (
    JOBS,
    KEY_BYTES,
    REPORTS,
    Decoder,
    Encoder,
    ForgedFrameError,
    FrameError,
    Opener,
    sealing,
)
from aisp.store.text import clean_line

log = logging.getLogger("aisp.spawner")

PR_SET_CHILD_SUBREAPER = 36
RING_BYTES = 64 * 1024
OUTPUT_LIMIT_BYTES = int(paths.positive_setting("AISP_OUTPUT_LIMIT_BYTES", 1 << 30))  # tests lower it
OUTPUT_RATE_BYTES_PER_S = int(paths.positive_setting("AISP_OUTPUT_RATE_BYTES_PER_S", 50_000_000))
OUTPUT_RATE_PATIENCE_S = paths.positive_setting("AISP_OUTPUT_RATE_PATIENCE_S", 10.0)
READY_LIMIT_S = paths.positive_setting("AISP_READY_LIMIT_S", 120.0)  # for what a process imports before it is ready
TERM_PATIENCE_S = 2.0
KILL_PATIENCE_S = 5.0
COLLECT_S = 0.05
COLLECT_PATIENCE_S = 0.5
UNKNOWN_STATUS = 256  # that no process can leave with: another collected it

# The threads of NumPy's OpenBLAS spin for 2^28 cycles after a call, 0.1 s of a whole core, while rivals are measured.
# After 2^20, 0.4 ms, they sleep: calls in a row still find them awake, and a product 1 ms later takes as long.
OPENBLAS_SPIN_LOG2_CYCLES = 20

# Threads of OpenMP that spin while they wait take the cores of the process that works (100 times slower comparisons
# were seen on four cores). Where they never spin, each parallel region wakes them: 38 us on a virtual machine, and
# nothing where the scheduler put all on one core, so that calls of 64 regions took 1.7 or 4.1 ms by chance. GNU's are
# torch's: they look 10,000 times, some 0.3 ms. With 2,500 times have two modes (noise floors of 12 to 160 %, here 2
# to 4: we think that some sleep in the middle of a call and wake on one core).
BRIEF_SPIN = {"OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "10000"}

# torch's compiler would precompile its C++ headers in each process, since none has another's temporary files: 5 s and
# 156 MB before the first kernel for a CPU. Without them such a kernel takes 1 s more, and the stored one nothing.
NO_PRECOMPILED_HEADERS = {"TORCHINDUCTOR_CPP_CACHE_PRECOMPILE_HEADERS": "0"}

# It compiles in the process that asks. The processes of its pool could not reach the GPU: they write to folders
# of their own in /proc, and a confinement names those that are there when it begins.
COMPILE_IN_PROCESS = {"TORCHINDUCTOR_COMPILE_THREADS": "1"}


def become_subreaper() -> None:
    """Orphans of our descendants become our children, so that none escapes."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


class Ring:
    """The first and the last 64 KB of a stream, and how many bytes there were."""

    def __init__(self) -> None:
        self.total_bytes = 0
        self._head = bytearray()
        self._tail: deque[bytes] = deque()
        self._tail_bytes = 0

    def add(self, data: bytes) -> None:
        """Take in more of the stream."""
        self.total_bytes += len(data)
        room = RING_BYTES - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        if not data:
            return
        data = data[-RING_BYTES:]
        self._tail.append(data)
        self._tail_bytes += len(data)
        while self._tail_bytes - len(self._tail[0]) >= RING_BYTES:
            self._tail_bytes -= len(self._tail.popleft())

    def text(self) -> bytes:
        """What is kept, with a line that says how much is not."""
        tail = b"".join(self._tail)[-RING_BYTES:]
        left_out = self.total_bytes - len(self._head) - len(tail)
        if left_out > 0:
            return bytes(self._head) + b"\n... %d bytes left out ...\n" % left_out + tail
        return bytes(self._head) + tail


class ChildGoneError(Exception):
    """The child ended, or broke the protocol, while an answer was expected."""


class ForgedReportError(ChildGoneError):
    """What came on the child's line was not sent by our code in it, or not in this place."""


class ChildTimeoutError(Exception):
    """The child gave no sign of progress in time."""


class LimitError(ChildGoneError):
    """We end the child because it used more than it may. The message is a clause: "printed over 1 MiB"."""


class OutputLimitError(LimitError):
    """It printed more than may be drained without disturbing the measurement."""


class MemoryLimitError(LimitError):
    """It held most of the memory when all children together held more than they may."""


class ProcessLimitError(LimitError):
    """There were more processes below it than one child may have."""


class StoppedError(LimitError):
    """A signal that we did not send stopped it (SIGSTOP or the like), and nobody let it go on."""


def progress_limit_s() -> float:
    """How long a process may give no sign of progress: AISP_PROGRESS_LIMIT_S, or a minute."""
    return paths.positive_setting("AISP_PROGRESS_LIMIT_S", 60.0)


class Child:
    """One worker or verifier process."""

    def __init__(
        self,
        process: subprocess.Popen[bytes] | Forked,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        key: bytes,
        folder: Path,
        *,
        compiler: bool = False,
    ) -> None:
        self.pid = process.pid
        self.folder = folder  # of its own, see engine.workplaces; gone after its end
        self.keeps_folder = False  # whether somebody else gives it back, who still wants what is in it
        self.compiler = compiler  # whether it was started with torch's compiler imported
        self.way: tuple[int, ...] = ()  # to the state folder, when it was confined: see confinement.way_to
        self.ready: reports.Ready | None = None
        self.oom_kills = 0  # that the kernel had made for want of memory when this process was taken for a job
        self.stdout = Ring()
        self.stderr = Ring()
        self.on_output: Callable[[str, bytes], None] | None = None
        self.signal_sent_by_us = False
        self._unkillable = False
        self._left = False  # whether its folder is given back
        self._ending: asyncio.Task[int | None] | None = None
        self.limit: LimitError | None = None  # why it is ended by us
        self.exited: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._process = process
        self._reader = reader
        self._writer = writer
        writer.transport.set_write_buffer_limits(0)  # drain() waits until all is sent
        self._line: socket.socket = writer.get_extra_info("socket").dup()  # streams cannot send descriptors
        self._named: frozenset[str] = frozenset()  # shared files of the job that was sent last
        self._encoder = Encoder(sealing(key, JOBS))
        self._decoder: Decoder[reports.AnyReport] = Decoder(reports.AnyReport, Opener(key, REPORTS))
        self._arrived: deque[reports.AnyReport] = deque()
        self._rate_window: tuple[float, int] = (time.monotonic(), 0)
        self._loop = asyncio.get_running_loop()
        self._pidfd = os.pidfd_open(process.pid)
        self._loop.add_reader(self._pidfd, self._on_exit)
        self.becoming_ready: asyncio.Task[reports.Ready] = asyncio.create_task(self._become_ready())
        for name in ("stdout", "stderr"):
            pipe = getattr(process, name)
            os.set_blocking(pipe.fileno(), False)
            self._loop.add_reader(pipe.fileno(), self._on_output, name)

    @property
    def children(self) -> list[Child]:
        """Itself: one process stands for one."""
        return [self]

    @property
    def reads_what_is_new(self) -> bool:
        """Whether nothing lies beside the way to the state folder that was put there since it was confined."""
        return not self.way or self.way == confinement.way_to(str(paths.state_dir()))

    @property
    def caches(self) -> Path:
        """Where compilers keep what they make in it."""
        return self.folder / paths.CACHE_FOLDER

    # -- talking ---------------------------------------------------------------------------------------------------

    async def send(self, job: jobs.AnyJob) -> None:
        """Send one job, and with it the descriptors of the shared files that it names."""
        frame, names = self._encoder.frame(job), jobs.files(job)
        self._named = frozenset(names)
        try:
            if names:
                await self._writer.drain()
                frame = frame[await send_files(self._line, frame, [arena.descriptor(name) for name in names]) :]
            self._writer.write(frame)
            await self._writer.drain()
        except OSError as error:
            raise (self.limit or ChildGoneError(str(error))) from None

    async def receive(self, patience_s: float) -> reports.AnyReport:
        """The next report.

        Raises:
            ChildTimeoutError: none came within `patience_s`.
            LimitError: it used too much, or stands still because it was stopped.
            ForgedReportError: bytes came that our code in it has not sent, or not in this place.
            ChildGoneError: it ended, or what it sent was no report.
        """
        deadline = self._loop.time() + patience_s
        stopped_at: float | None = None
        while not self._arrived:
            now = self._loop.time()
            left = deadline - now
            if stopped_at is not None and (left <= 0 or now - stopped_at >= progress_limit_s()):
                reason = f"was stopped by a signal that the engine did not send, for {now - stopped_at:.0f} s"
                self.limit = self.limit or StoppedError(reason)
            if self.limit is not None:
                raise self.limit
            if left <= 0:
                if self._decoder.pending_bytes:  # our code writes a report in one go
                    raise ForgedReportError(
                        f"{self._decoder.pending_bytes} bytes came that begin a report, and the rest never did"
                    )
                raise ChildTimeoutError(f"no sign of progress for {patience_s:.0f} s")
            try:
                # wait_for of Python 3.11 loses a cancellation that comes together with the report.
                async with asyncio.timeout(min(left, 0.5)):
                    data = await self._reader.read(1 << 18)
            except TimeoutError:
                stopped_at = (stopped_at or now) if is_stopped(self.pid) else None
                continue
            except OSError as error:
                raise (self.limit or ChildGoneError(str(error))) from None
            if not data:
                cut = " in the middle of a report" if self._decoder.pending_bytes else ""
                raise self.limit or ChildGoneError(f"the line to the process was closed{cut}")
            try:
                self._arrived.extend(self._decoder.feed(data))
            except ForgedFrameError as error:
                raise ForgedReportError(f"a report was forged or torn: {error}") from None
            except FrameError as error:
                raise ChildGoneError(f"what it sent is no report: {error}") from None
        report = self._arrived.popleft()
        if not self._named.issuperset(jobs.files(report)):
            raise ForgedReportError("a report names a shared file that its job did not bring")
        return report

    async def ask(self, job: jobs.AnyJob, patience_s: float) -> reports.AnyReport:
        """Send a job and wait for its first report. Raises as `send` and `receive` do."""
        await self.send(job)
        return await self.receive(patience_s)

    async def _become_ready(self) -> reports.Ready:
        try:
            report = await self.receive(READY_LIMIT_S)
        except ChildTimeoutError:
            raise ChildTimeoutError(f"torch was not imported within {READY_LIMIT_S:.0f} s: {doing(self.pid)}") from None
        if isinstance(report, reports.Failed):
            raise ChildGoneError(clean_line(report.summary))
        if not isinstance(report, reports.Ready):
            raise ChildGoneError(f"expected Ready, got {type(report).__name__}")
        self.ready = report
        return report

    # -- called by the loop ----------------------------------------------------------------------------------------

    def _on_output(self, name: str) -> None:
        pipe = getattr(self._process, name)
        try:
            data = os.read(pipe.fileno(), 1 << 17)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._loop.remove_reader(pipe.fileno())
            pipe.close()
            return
        ring: Ring = getattr(self, name)
        ring.add(data)
        total = self.stdout.total_bytes + self.stderr.total_bytes
        if total > OUTPUT_LIMIT_BYTES:
            self.limit = OutputLimitError(f"printed over {OUTPUT_LIMIT_BYTES / 2**20:g} MiB")
        started, before = self._rate_window
        now = time.monotonic()
        if now - started > OUTPUT_RATE_PATIENCE_S:
            if total - before > OUTPUT_RATE_BYTES_PER_S * (now - started):
                rate = f"{OUTPUT_RATE_BYTES_PER_S / 1e6:g} MB/s for {now - started:.0f} s"
                self.limit = OutputLimitError(f"printed over {rate}")
            self._rate_window = (now, total)
        if self.on_output is not None:
            self.on_output(name, data)

    def _on_exit(self) -> None:
        self._loop.remove_reader(self._pidfd)
        os.close(self._pidfd)
        self._collect()

    def _collect(self) -> None:
        """Collect its exit status. A traced process has none before its tracer lets go: never wait for it.

        A forked one that dies at once is for a moment the child of the process that stands between, not ours.
        """
        code: int | None = None
        try:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            code = os.waitstatus_to_exitcode(status) if pid else None
        except ChildProcessError:
            code = None if _state(self.pid) == "Z" else UNKNOWN_STATUS
        if code is None:
            self._loop.call_later(COLLECT_S, self._collect)
            return
        self._process.returncode = code
        if not self.exited.done():
            self.exited.set_result(code)

    # -- the end ---------------------------------------------------------------------------------------------------

    @property
    def alive(self) -> bool:
        """Whether the process has not been reaped."""
        return not self.exited.done()

    async def wait(self, patience_s: float) -> int | None:
        """Exit status, or None if it has not ended in time. Never waits for its pipes.

        Negative: the signal; UNKNOWN_STATUS: another process collected it.
        """
        try:
            async with asyncio.timeout(patience_s):
                return await asyncio.shield(self.exited)
        except TimeoutError:
            return None

    async def end(self, *, gently: bool = True) -> int | None:
        """End it: SIGTERM to its group, SIGKILL after a while. Returns its exit status, None if it cannot be killed.

        Who is cancelled meanwhile leaves it to itself: it ends all the same (`all_ended`).
        """
        if self._ending is None or self._ending.done():
            self._ending = asyncio.create_task(self._end(gently=gently))
            _endings.add(self._ending)
            self._ending.add_done_callback(_endings.discard)
        elif not gently and self.alive:
            self._signal(signal.SIGKILL)
        return await asyncio.shield(self._ending)

    async def _end(self, *, gently: bool) -> int | None:
        if self._unkillable:
            return await self.wait(0.0)
        if self.alive:
            if gently:
                self._signal(signal.SIGTERM)
                await self.wait(TERM_PATIENCE_S)
            if self.alive:
                self._signal(signal.SIGKILL)
                if await self.wait(COLLECT_PATIENCE_S) is None:
                    await sweep_orphans()  # one of those it left behind may trace it, and is ours now
                    await self.wait(KILL_PATIENCE_S)
        else:
            # The leader is gone; the rest of its session may not be.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)
        code = await self.wait(0.0) if self.alive else self.exited.result()
        self._unkillable = code is None
        self.close()
        await sweep_orphans()
        if not self._unkillable and not self._left:
            self._left = True
            if not self.keeps_folder:
                workplaces.leave(self.folder)
        return code

    def cut_off(self, limit: LimitError, family: Iterable[int]) -> None:
        """End it and `family`, the processes below it, at once, and say why to the caller that waits for a report."""
        self.limit = limit
        self.signal_sent_by_us = True
        for pid in {self.pid, *family}:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        self.signal_sent_by_us = True
        with contextlib.suppress(ProcessLookupError, PermissionError):
            try:
                os.killpg(self.pid, number)
            except ProcessLookupError:  # a fork that has no session of its own yet
                os.kill(self.pid, number)

    def close(self) -> None:
        """Give back its descriptors, once all that it printed has been read."""
        for name in ("stdout", "stderr"):
            pipe = getattr(self._process, name)
            if not pipe.closed:
                self._on_output(name)
            if not pipe.closed:
                self._loop.remove_reader(pipe.fileno())
                pipe.close()
        self._writer.close()
        self._line.close()
        if self.becoming_ready.done():
            if not self.becoming_ready.cancelled():
                self.becoming_ready.exception()  # looked at, so that the loop does not complain about it
        else:
            self.becoming_ready.cancel()


async def all_ended() -> None:
    """Wait until every process that is being ended has ended."""
    while _endings:
        await asyncio.wait(set(_endings))


_endings: set[asyncio.Task[int | None]] = set()
_children: dict[int, Child | None] = {}  # by pid; None for one that was forked and is not talked to yet, or is `helped`
_born = threading.Lock()  # between the birth of what a thread of ours starts and its entry there


def living() -> list[Child]:
    """All children of ours that have not been reaped."""
    return [child for child in _children.values() if child is not None]


@dataclass(frozen=True, slots=True)
class Share:
    """The part of the machine that processes have.

    Attributes:
        cores: that they run on; empty: all that are allowed, the engine's aside.
        visible: for CUDA_VISIBLE_DEVICES, "" for no GPU; None: what the engine was given.
        uuid: of the GPU that they must find there first; "" where that is not known.
        layouts: whether they may write where sources are laid out, each in the end to its own.
    """

    cores: tuple[int, ...] = ()
    visible: str | None = None
    uuid: str = ""
    layouts: bool = True

    def misplaced(self, ready: reports.Ready | None) -> str:
        """Why a process must not be used: it has another GPU; "" where it has the right one, or says it has none."""
        if ready is None or not self.uuid or ready.gpu_uuid in ("", self.uuid):
            return ""
        return f"it came up on {clean_line(ready.gpu_uuid)} and not on {self.uuid}"


WHOLE = Share()


def environment(*, interpret: bool, visible: str | None = None) -> dict[str, str]:
    """What a worker, or the nursery that forks it, sees of the environment.

    Args:
        interpret: have Triton's interpreter run its kernels; decided here, because Triton decides at import.
        visible: see Share.
    """
    environment = {name: os.environ[name] for name in paths.ENVIRONMENT_NAMES if name in os.environ}
    # Behind all others, the programs that were installed with us: torch looks for ninja.
    environment["PATH"] = os.pathsep.join((environment.get("PATH", os.defpath), sysconfig.get_path("scripts")))
    if not BRIEF_SPIN.keys() & environment.keys():  # else the user decides
        environment |= BRIEF_SPIN
    environment["OPENBLAS_THREAD_TIMEOUT"] = str(OPENBLAS_SPIN_LOG2_CYCLES)
    environment |= NO_PRECOMPILED_HEADERS | COMPILE_IN_PROCESS
    if interpret:
        environment["TRITON_INTERPRET"] = "1"
    if visible is not None:
        environment["CUDA_VISIBLE_DEVICES"] = visible
    return environment


def open_nursery(*, interpret: bool, share: Share = WHOLE) -> Nursery:
    """Start a nursery. No sweep takes it for a stray until `close_nursery`. Raises OSError."""
    nursery = Nursery(environment(interpret=interpret, visible=share.visible), READY_LIMIT_S, share.cores)
    _children[nursery.pid] = None
    return nursery


def close_nursery(nursery: Nursery) -> None:
    """End it, and not what it has forked."""
    nursery.close()
    _children.pop(nursery.pid, None)


def _start(place: Place, channel: socket.socket, *, interpret: bool, visible: str | None) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        start.command("aisp.engine.worker", str(channel.fileno()), str(os.getpid()), place.encoded()),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        pass_fds=(channel.fileno(),),
        env=environment(interpret=interpret, visible=visible),
        cwd=place.cwd,
        start_new_session=True,
    )
    _children[process.pid] = None  # before the next await: a sweep must not take it for a stray
    return process


async def spawn(
    *, interpret: bool, compiler: bool = False, nursery: Nursery | None = None, share: Share = WHOLE
) -> Child:
    """Make a standby process. It is not ready yet: its first report is Ready, see `until_ready`.

    Args:
        interpret: have Triton's interpreter run its kernels.
        compiler: have it import torch's compiler before it is ready.
        nursery: what forks it, of the same `interpret` and `share`; without one the process is started.
        share: the part of the machine that it has.

    Raises:
        NurseryError: that one cannot.
        OSError: no process can be started.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    key = secrets.token_bytes(KEY_BYTES)
    ours.sendall(key)  # before anything of a lesson is loaded: the process reads it first of all
    folder = workplaces.make()
    place = workplaces.place(folder, compiler=compiler, cores=share.cores, layouts=share.layouts)
    way = confinement.way_to(place.state) if place.confine else ()
    born: list[int] = []

    def note(pid: int) -> None:
        born.append(pid)
        _children[pid] = None

    try:
        with theirs:
            if nursery:
                process: Forked | subprocess.Popen[bytes] = await nursery.fork(place, theirs, note)
            else:
                process = _start(place, theirs, interpret=interpret, visible=share.visible)
            note(process.pid)
        reader, writer = await asyncio.open_connection(sock=ours, limit=1 << 20)
    except BaseException:  # cancelled in between: nobody would ever own the process
        for pid in born:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            _children.pop(pid, None)  # a stray from now on
        ours.close()
        workplaces.leave(folder)
        raise
    child = _children[process.pid] = Child(process, reader, writer, key, folder, compiler=compiler)
    child.way = way
    child.exited.add_done_callback(lambda _: _children.pop(process.pid, None))
    return child


def _state(pid: int) -> str:
    """The letter by which Linux says what a process is doing; "" for one that has ended (see proc(5))."""
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0].decode()
    except (OSError, IndexError):
        return ""


def is_stopped(pid: int) -> bool:
    """Whether a signal stopped a process (SIGSTOP, SIGTSTP) and nobody has let it go on."""
    return _state(pid) == "T"


def doing(pid: int) -> str:
    """What a process seems to wait for, as a clause."""
    waits = {"D": "it waits for a disk or a network file system", "R": "it computes", "T": "it was stopped by a signal"}
    return waits.get(_state(pid), "it sleeps: something that it imports waits")


async def until_ready(child: Child) -> reports.Ready:
    """Wait for the Ready report. Several may wait at once. Raises as Child.receive does."""
    return await asyncio.shield(child.becoming_ready)


def helped(words: Sequence[str], patience_s: float, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """What a program answers that the engine itself needs. Blocks: for threads. No sweep takes it for a stray.

    Args:
        stdin: on its standard input.

    Raises:
        OSError: it cannot be started.
        subprocess.TimeoutExpired: it was killed after `patience_s`.
    """
    pipe = subprocess.PIPE
    with _born:
        process = subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=pipe, cwd="/")
        _children[process.pid] = None
    with process:
        try:
            stdout, stderr = process.communicate(stdin, timeout=patience_s)
            return subprocess.CompletedProcess(words, process.returncode, stdout, stderr)
        finally:
            process.kill()
            process.wait()
            _children.pop(process.pid, None)


async def sweep_orphans() -> int:
    """Kill and reap the children that we did not start: what workers left behind. Returns how many there were."""
    swept = 0
    for _ in range(500):
        with _born:
            strays = [pid for pid in _child_pids() if pid not in _children]
        if not strays:
            break
        for pid in strays:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                swept += os.waitpid(pid, os.WNOHANG)[0] == pid  # noqa: ASYNC222  WNOHANG: it does not wait
        await asyncio.sleep(0.002)
    if swept:
        log.warning("%d process(es) that were left behind were killed", swept)
    return swept


def _child_pids() -> list[int]:
    pids: list[int] = []
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):
            pids += [int(pid) for pid in (task / "children").read_text().split()]
    return pids
