"""The line to a child: what our code in it sends arrives, and nothing else counts as a report."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from unittest import mock

import msgspec
import pytest

from aisp.checks.evaluation import Note, NotesFacts
from aisp.checks.registry import Sensed, received
from aisp.engine import arena, paths, spawner, workplaces
from aisp.engine.arms import explain
from aisp.engine.protocol import jobs, reports
from aisp.engine.protocol.framing import JOBS, KEY_BYTES, REPORTS, Decoder, Encoder, Opener, sealing
from aisp.engine.spawner import Child, ChildGoneError, ChildTimeoutError, ForgedReportError, StoppedError
from aisp.engine.worker import tensors
from aisp.engine.worker.channel import Channel, packed
from aisp.store.outcomes import State

KEY = bytes(range(KEY_BYTES))
READY = reports.Ready(pid=1, torch="2", cuda="")


class Line:
    """A child without code: the test is what runs in it."""

    def __init__(self, child: Child, theirs: socket.socket) -> None:
        self.child = child
        self.theirs = theirs
        self.encoder = Encoder(sealing(KEY, REPORTS))

    def says(self, report: reports.Report) -> bytes:
        """The next true frame, not sent."""
        return self.encoder.frame(report)


@contextlib.asynccontextmanager
async def line() -> AsyncIterator[Line]:
    ours, theirs = socket.socketpair()
    process = subprocess.Popen(  # noqa: ASYNC220  forks in 2 ms, as spawn() does
        [sys.executable, "-S", "-c", "import sys; sys.stdin.read()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    reader, writer = await asyncio.open_connection(sock=ours)
    child = Child(process, reader, writer, KEY, folder=Path(tempfile.mkdtemp(prefix="aisp-test-")))
    made = Line(child, theirs)
    try:
        theirs.sendall(made.says(READY))
        assert (await spawner.until_ready(child)).torch == "2"
        yield made
    finally:
        await child.end(gently=False)
        theirs.close()
        if process.stdin is not None:
            process.stdin.close()


async def test_sealed_reports_arrive() -> None:
    async with line() as one:
        one.theirs.sendall(one.says(reports.Sustained(calls=1)) + one.says(reports.Sustained(calls=2)))
        assert await one.child.receive(5.0) == reports.Sustained(calls=1)
        assert await one.child.receive(5.0) == reports.Sustained(calls=2)


async def test_a_cancellation_that_comes_together_with_a_report_is_not_lost_and_neither_is_the_report() -> None:
    async with line() as one:
        waiting = asyncio.create_task(one.child.receive(5.0))
        await asyncio.sleep(0.05)
        one.child._reader.feed_data(one.says(reports.Sustained(calls=3)))
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert await one.child.receive(5.0) == reports.Sustained(calls=3)


FORGERIES: dict[str, Callable[[Line], bytes]] = {
    "a frame without a seal": lambda one: Encoder().frame(reports.Sustained(calls=9)),
    "a frame with another key": lambda one: Encoder(sealing(bytes(32), REPORTS)).frame(reports.Sustained(calls=9)),
    "text": lambda one: b'{"speedup": 99.0}\n',
    "a frame of the other direction": lambda one: Encoder(sealing(KEY, JOBS)).frame(jobs.Finish()),
    "a frame sent again": lambda one: one.says(reports.Sustained(calls=1)) * 2,
    "a frame that was left out": lambda one: one.says(READY)[:0] + one.says(READY),
    "one byte before a frame": lambda one: b"\x00" + one.says(reports.Sustained(calls=1)) + bytes(600),
    "one byte within a frame": lambda one: one.says(reports.Sustained(calls=1))[:-1] + b"\x05",
}


@pytest.mark.parametrize("way", FORGERIES)
async def test_forged_replayed_reordered_and_torn_reports_are_refused(way: str) -> None:
    async with line() as one:
        one.theirs.sendall(FORGERIES[way](one))
        with pytest.raises(ForgedReportError, match="forged or torn"):
            for _ in range(3):
                report = await one.child.receive(5.0)
                assert report in (reports.Sustained(calls=1), READY)


async def test_a_report_that_is_begun_and_never_ends_is_a_forgery_and_silence_is_not() -> None:
    async with line() as one:
        with pytest.raises(ChildTimeoutError):
            await one.child.receive(0.1)
        one.theirs.sendall(one.says(reports.Sustained(calls=1))[:9])
        with pytest.raises(ForgedReportError, match="9 bytes came that begin a report"):
            await one.child.receive(0.6)


async def test_text_that_is_no_utf8_arrives_as_its_escapes_wherever_it_stands_in_a_report() -> None:
    ours, theirs = socket.socketpair()
    ours.sendall(KEY)
    channel = Channel(theirs.detach())
    note = Note(kind="files", what="opened bad_\udcff", where="optimized.py:1", times=1)
    noted = reports.Sensed(facts={"reach": packed(NotesFacts(notes=[note]))}, failed={"memo": "no \udc80"})
    told = reports.Inspected(sensed=[noted], cost_us={"\udc80": 0.5})
    await asyncio.to_thread(channel.send, told)
    await asyncio.to_thread(channel.send, reports.Failed(job="j", kind="user", summary="\udc80", traceback="\ud800\n"))
    first, second = Decoder(reports.AnyReport, Opener(KEY, REPORTS)).feed(ours.recv(1 << 16))
    assert isinstance(first, reports.Inspected)
    (sensed,) = first.sensed
    assert received(sensed.facts, sensed.failed) == Sensed(
        {"reach": NotesFacts(notes=[msgspec.structs.replace(note, what="opened bad_\\udcff")])},
        {"memo": "no \\udc80"},
    )
    assert first.cost_us == {"\\udc80": 0.5}
    assert second == reports.Failed(job="j", kind="user", summary="\\udc80", traceback="\\ud800\n")
    ours.close()


@pytest.mark.parametrize("patience_s", [1.2, 60.0])
async def test_a_child_that_is_stopped_is_told_as_such_within_the_progress_limit(
    monkeypatch: pytest.MonkeyPatch, patience_s: float
) -> None:
    monkeypatch.setenv("AISP_PROGRESS_LIMIT_S", "1.5")
    async with line() as one:
        os.kill(one.child.pid, signal.SIGSTOP)
        started = time.monotonic()
        with pytest.raises(StoppedError, match=r"was stopped by .* the engine did not send, for [12] s"):
            await one.child.receive(patience_s)
        assert time.monotonic() - started < 5.0
        end = await explain(one.child, StoppedError("was stopped"), "the verifier")
        assert (end.state, one.child.alive) == (State.TIMEOUT_PROGRESS, False)
        with pytest.raises(StoppedError):  # whoever asks it afterwards hears the same, and not that it was killed
            await one.child.ask(jobs.Finish(), 5.0)


@pytest.mark.slow
async def test_a_child_that_goes_on_after_a_stop_is_given_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AISP_PROGRESS_LIMIT_S", "2")
    async with line() as one:
        os.kill(one.child.pid, signal.SIGSTOP)
        waiting = asyncio.create_task(one.child.receive(30.0))
        await asyncio.sleep(1.0)
        os.kill(one.child.pid, signal.SIGCONT)
        await asyncio.sleep(2.0)
        one.theirs.sendall(one.says(reports.Sustained(calls=1)))
        assert await waiting == reports.Sustained(calls=1)


async def test_a_line_that_is_closed_within_a_report_is_an_end_and_no_forgery() -> None:
    """A process that is killed while it writes has forged nothing."""
    async with line() as one:
        one.theirs.sendall(one.says(reports.Sustained(calls=1))[:20])
        one.theirs.close()
        with pytest.raises(ChildGoneError, match="closed in the middle of a report") as caught:
            await one.child.receive(5.0)
        assert not isinstance(caught.value, ForgedReportError)


def test_a_channel_takes_its_key_from_the_first_bytes_and_keeps_its_descriptor_to_itself() -> None:
    ours, theirs = socket.socketpair()
    with ours:
        fd = theirs.detach()
        os.set_inheritable(fd, True)
        ours.sendall(KEY[:5])
        ours.sendall(KEY[5:] + Encoder(sealing(KEY, JOBS)).frame(jobs.Finish()))
        channel = Channel(fd)
        assert not os.get_inheritable(fd)
        assert channel.receive() == jobs.Finish()
        channel.send(reports.Sustained(calls=3))
        assert ours.recv(4096) == Encoder(sealing(KEY, REPORTS)).frame(reports.Sustained(calls=3))
        assert KEY not in [value for value in vars(channel).values() if isinstance(value, (bytes, bytearray))]


def test_a_channel_without_a_key_is_refused() -> None:
    ours, theirs = socket.socketpair()
    ours.close()
    with pytest.raises(ConnectionError, match="before it gave a key"):
        Channel(theirs.detach())


def make_inputs(*blobs: jobs.Blob, pad: int = 0) -> jobs.TakeInputs:
    return jobs.TakeInputs(case="x" * pad, made_seed=1, sets=list(blobs))


def test_a_shared_file_travels_with_the_job_that_names_it_and_is_closed_after_it() -> None:
    files = arena.Arena()
    first, second, third = (files.blob() for _ in range(3))
    os.pwrite(arena.descriptor(second.name), b"second", 0)
    theirs, engines = socket.socketpair()
    engines.sendall(KEY)
    channel = Channel(theirs.detach())
    with engines:
        seal = Encoder(sealing(KEY, JOBS))
        job = make_inputs(first, second, first)
        fds = [arena.descriptor(name) for name in jobs.files(job)]
        socket.send_fds(engines, [seal.frame(job)], fds)
        socket.send_fds(engines, [seal.frame(make_inputs(third))], [arena.descriptor(third.name)])
        engines.sendall(seal.frame(jobs.Finish()))
        assert channel.receive() == job
        held = tensors.descriptor(second.name)
        assert os.pread(held, 16, 0) == b"second"
        assert not os.get_inheritable(held)
        assert channel.receive() == make_inputs(third)
        assert os.fstat(tensors.descriptor(third.name)).st_ino == os.fstat(arena.descriptor(third.name)).st_ino
        with pytest.raises(ValueError, match="did not come with this job"):
            tensors.descriptor(second.name)
        assert channel.receive() == jobs.Finish()
    files.close()


@pytest.mark.parametrize("pad", [0, 1 << 20])
async def test_the_engine_sends_a_frame_whole_and_its_files_once_however_full_the_line(pad: int) -> None:
    files = arena.Arena()
    blob = files.blob()
    async with line() as one:
        job = make_inputs(blob, pad=pad)
        sending = asyncio.create_task(one.child.send(job))
        decoder: Decoder[jobs.AnyJob] = Decoder(jobs.AnyJob, Opener(KEY, JOBS))
        arrived: list[jobs.AnyJob] = []
        brought: list[int] = []
        one.theirs.setblocking(True)
        while not arrived:
            data, fds, _, _ = await asyncio.to_thread(socket.recv_fds, one.theirs, 1 << 16, 8)
            brought += fds
            arrived += decoder.feed(data)
        await sending
        assert arrived == [job]
        assert [os.fstat(fd).st_ino for fd in brought] == [os.fstat(arena.descriptor(blob.name)).st_ino]
        for fd in brought:
            os.close(fd)
    files.close()


async def test_a_report_may_name_no_file_but_those_of_its_job() -> None:
    files = arena.Arena()
    given, other = files.blob(), files.blob()
    async with line() as one:
        await one.child.send(make_inputs(given))
        one.theirs.sendall(one.says(reports.Posed(blob=given)) + one.says(reports.Posed(blob=other)))
        assert await one.child.receive(5.0) == reports.Posed(blob=given)
        with pytest.raises(ForgedReportError, match="names a shared file that its job did not bring"):
            await one.child.receive(5.0)
    files.close()


async def test_keys_are_each_childs_own_and_in_no_argument_nor_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[bytes] = []

    def key_of(size: int) -> bytes:
        given.append(os.urandom(size))
        return given[-1]

    monkeypatch.setattr("aisp.engine.spawner.secrets.token_bytes", key_of)
    one, two = await spawner.spawn(interpret=False), await spawner.spawn(interpret=False)
    try:
        assert len(set(given)) == 2 and {len(key) for key in given} == {KEY_BYTES}
        for child, key in zip((one, two), given, strict=True):
            process = Path("/proc", str(child.pid))
            for told in (process / "cmdline", process / "environ"):
                assert key not in told.read_bytes() and key.hex().encode() not in told.read_bytes()
    finally:
        await one.end(gently=False)
        await two.end(gently=False)


PAUSE = """
import sys, time
import numpy as np

a = np.ones((512, 512), np.float32)
for _ in range(3):
    a @ a
before = time.process_time()
time.sleep(0.1)
print(time.process_time() - before)
"""


async def environment_of_a_child() -> dict[str, str]:
    child = await spawner.spawn(interpret=False)
    try:
        # There is none for a moment between the call of exec and the first instruction of the new program.
        told = b""
        for _ in range(500):
            if told := Path("/proc", str(child.pid), "environ").read_bytes():
                break
            await asyncio.sleep(0.01)
    finally:
        await child.end(gently=False)
    return {name: value for name, _, value in (os.fsdecode(line).partition("=") for line in told.split(b"\0")) if name}


REGIONS = """
import pathlib, time, torch

def waits():
    told = [task.read_text() for task in pathlib.Path("/proc/self/task").glob("*/status")]
    return sum(int(text.partition("\\nvoluntary_ctxt_switches:")[2].split()[0]) for text in told)

torch.set_num_threads(2)
x = torch.ones(1 << 17)
for _ in range(20):
    x.relu_()
told = []
while len(told) < 100 and min(told, default=100) > 9:  # a neighbour may have taken a core
    before = waits()
    for _ in range(30):
        x.relu_()
    told.append(waits() - before)
    time.sleep(0.01)
print(min(told))
before = time.process_time()
time.sleep(0.1)
print(time.process_time() - before)
"""


async def printed(program: str, environment: dict[str, str]) -> str:
    words = [sys.executable, "-c", program]
    done = await asyncio.to_thread(subprocess.run, words, env=environment, capture_output=True, text=True, check=True)
    return str(done.stdout)


async def test_the_pool_of_numpys_products_sleeps_soon_after_a_call() -> None:
    environment = await environment_of_a_child()
    assert environment["OPENBLAS_THREAD_TIMEOUT"] == str(spawner.OPENBLAS_SPIN_LOG2_CYCLES)
    environment["OMP_NUM_THREADS"] = "2"
    assert float(await printed(PAUSE, environment)) < 0.02, "seconds of processor time in a pause of 0.1 s"


@pytest.mark.slow
async def test_torchs_threads_stay_awake_between_parallel_regions_and_sleep_soon_after() -> None:
    """A call of many small ones took two and a half times as long on some runs where each region woke them."""
    environment = await environment_of_a_child()
    waits, pause_s = (await printed(REGIONS, environment)).split()
    assert int(waits) < 10, "times that a thread fell asleep in 30 regions"
    assert float(pause_s) < 0.02, "seconds of processor time in a pause of 0.1 s"
    passive = {name: value for name, value in environment.items() if name != "GOMP_SPINCOUNT"}
    assert int((await printed(REGIONS, passive)).split()[0]) > 20, "or there is no second thread"


@pytest.mark.slow
async def test_torchs_compiler_starts_no_processes() -> None:
    program = "from torch._inductor.async_compile import get_compile_threads; print(get_compile_threads())"
    assert await printed(program, await environment_of_a_child()) == "1\n", "more are a pool of processes"


async def test_who_is_cancelled_while_it_ends_a_process_leaves_nothing_of_it() -> None:
    async with line() as one:
        ending = asyncio.create_task(one.child.end())
        await asyncio.sleep(0)
        ending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await ending
        await spawner.all_ended()
        assert not one.child.alive
        await workplaces.cleared()
        assert not one.child.folder.exists()


OTHER = 'Thread 0x00007e (most recent call first):\n  File "/usr/lib/python3.11/threading.py", line 1 in wait\n\n'
FATAL = "Fatal Python error: Segmentation fault\n\n"
CURRENT = "Current thread 0x00007f (most recent call first):\n"
OWN = '  File "{state}/snapshots/ab/optimized.py", line 7 in run\n'
OURS = '  File "/opt/aisp/engine/worker/arm.py", line 870 in _project\n'
CTYPES = '  File "/usr/lib/python3.11/ctypes/__init__.py", line 519 in string_at\n'
INSPECT = '  File "/usr/lib/python3.11/inspect.py", line 12 in signature\n'


@pytest.mark.parametrize(
    ("frames", "own"),
    [(OWN + OURS, True), (CTYPES + OWN + OURS, True), (OURS, False), (INSPECT + OWN + OURS, False)],
    ids=["in the rung", "called by the rung", "in our code", "in the library under the rung"],
)
async def test_a_trace_is_where_it_happened_only_where_it_begins_in_the_rung(frames: str, own: bool) -> None:
    async with line() as one:
        said = CURRENT + frames.replace("{state}", str(paths.state_dir()))
        printed = f"printed before\n{FATAL}{OTHER}{said}\nExtension modules: {'numpy, ' * 2000}"
        one.child.stderr.add(printed.encode())
        os.kill(one.child.pid, signal.SIGSEGV)
        end = await explain(one.child, ChildGoneError("closed"), "optimized")
        assert ("begins where it happened" in end.reason) is own
        assert ("memory was overwritten before: look for a store without a mask" in end.reason) is not own
        assert end.detail.strip() == (FATAL + said).strip()


async def test_a_process_that_another_collects_has_ended_with_a_status_that_nobody_knows() -> None:
    async with line() as one:
        one.child._loop.remove_reader(one.child._pidfd)  # the engine looks only when the other has been there
        os.kill(one.child.pid, signal.SIGKILL)
        os.waitpid(one.child.pid, 0)  # noqa: ASYNC222  it is killed
        one.theirs.close()
        one.child._on_exit()
        assert await one.child.wait(5.0) == spawner.UNKNOWN_STATUS
        with pytest.raises(ChildGoneError) as gone:
            await one.child.receive(5.0)
        end = await explain(one.child, gone.value, "optimized")
        assert (end.state, end.exit_code, end.check) == (State.INFRA_ERROR, None, "")
        assert "nobody knows how" in end.reason


async def test_a_process_that_is_not_our_child_yet_is_collected_once_it_is() -> None:
    async with line() as one:
        with mock.patch.object(os, "waitpid", side_effect=ChildProcessError):
            os.kill(one.child.pid, signal.SIGKILL)
            assert await one.child.wait(0.3) is None
        assert await one.child.wait(5.0) == -signal.SIGKILL


async def test_who_wants_a_process_killed_does_not_wait_for_the_grace_that_another_gave_it() -> None:
    async with line() as one:
        os.kill(one.child.pid, signal.SIGSTOP)
        with mock.patch.object(spawner, "TERM_PATIENCE_S", 60.0):
            gently = asyncio.create_task(one.child.end())
            await asyncio.sleep(0)
            assert await one.child.end(gently=False) == -signal.SIGKILL
            assert await gently == await one.child.end()


def test_what_torch_builds_extensions_with_is_found_without_the_shells_help(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert shutil.which("ninja", path=spawner.environment(interpret=False)["PATH"])
    monkeypatch.setenv("PATH", str(Path(shutil.__file__).parent))  # the user's own programs come first
    assert spawner.environment(interpret=False)["PATH"].startswith(os.environ["PATH"] + os.pathsep)


SWEEPING = """
import asyncio, subprocess, sys
from aisp.engine import spawner

async def main():
    words = [sys.executable, "-S", "-c", "import sys, time; time.sleep(0.3); print(sys.stdin.read())"]
    stray = subprocess.Popen(["sleep", "60"])
    asked = asyncio.gather(*(asyncio.to_thread(spawner.helped, words, 20.0, b"word") for _ in range(8)))
    while not asked.done():
        await spawner.sweep_orphans()
        await asyncio.sleep(0)
    print([(one.returncode, one.stdout) for one in await asked])
    print(stray.poll() is not None, spawner._children)

asyncio.run(main())
"""


def test_no_sweep_ends_a_program_that_the_engine_itself_asks() -> None:
    """The one that looks at compiled files was ended so, and what Python had compiled was held against a run."""
    done = subprocess.run([sys.executable, "-c", SWEEPING], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [str([(0, b"word\n")] * 8), "True {}"]
