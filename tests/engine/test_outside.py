"""The judge's clock: what comes of batches that another process times, feeds and reads."""

from __future__ import annotations

import ast
import ctypes
import errno
import fcntl
import itertools
import math
import mmap
import os
import signal
import socket
import struct
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import pytest
import torch

from aisp.engine import outside as taking
from aisp.engine import statistics, verdicts
from aisp.engine.arena import Arena
from aisp.engine.arms import Arm as EngineArm
from aisp.engine.arms import ArmProcess
from aisp.engine.protocol import reports
from aisp.engine.protocol.batches import (
    Done,
    Forms,
    Layout,
    Line,
    LineError,
    Mapped,
    Over,
    Read,
    Run,
    overlapping,
    strides,
)
from aisp.engine.statistics import Ratio, confirmed_outside, outside
from aisp.engine.worker import batches, clock, ipc
from aisp.engine.worker.arm import Arm as WorkerArm
from aisp.engine.worker.arm import _Bound
from aisp.engine.worker.probe import LINE_WORDS
from aisp.kernels.catalog.model import Case, Flag, Kind, Needs, Role, Rung
from aisp.store.outcomes import Correctness, State, Verdict
from aisp.store.record import Arm, Quality
from aisp.store.results.outside import COVER, JudgedTime, judged, outside_ratio
from tests import imported
from tests.engine.harness import EngineUnderTest
from tests.engine.targets import write_target

FASTER = Ratio(2.0, 1.9, 2.1, 0.01, Verdict.FASTER, 0.001, "")


def test_tensors_of_a_batch_lie_apart_and_aligned() -> None:
    assert strides([1, 512, 513]) == ([0, 512, 1024], 2048)
    assert strides([]) == ([], 0)


@pytest.mark.parametrize(("nbytes", "whole"), [(1, 2 << 20), (2 << 20, 2 << 20), ((2 << 20) + 1, 4 << 20)])
def test_what_the_judge_shares_is_whole_large_pages(monkeypatch: pytest.MonkeyPatch, nbytes: int, whole: int) -> None:
    """The rung would read it through small ones, a third slower, and be charged for it."""
    asked: list[int] = []

    def allocates(_address: object, size: ctypes.c_size_t) -> int:
        asked.append(size.value)
        return 0

    monkeypatch.setattr(ipc, "_driver", lambda: SimpleNamespace(cuMemAlloc_v2=allocates))
    ipc.allocate(nbytes)
    assert asked == [whole]


def test_a_rung_that_cuts_the_page_where_the_judge_waits_for_it_is_refused() -> None:
    file, page = clock.meeting_page()
    for nbytes in (0, 2 * mmap.PAGESIZE):
        with pytest.raises(PermissionError):
            os.ftruncate(file, nbytes)
    with pytest.raises(PermissionError):
        fcntl.fcntl(file, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE)
    theirs = np.frombuffer(mmap.mmap(file, mmap.PAGESIZE), np.uint64)
    os.ftruncate(file, mmap.PAGESIZE)  # as whoever meets there makes sure of its size
    os.close(file)
    page[LINE_WORDS] = 7
    assert theirs[LINE_WORDS] == 7


def test_a_line_says_what_came_and_that_the_other_side_has_left() -> None:
    mine, theirs = (Line(end.detach(), 1.0) for end in socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET))
    mine.send(Run(calls=3))
    assert theirs.receive() == (Run(calls=3), [])
    theirs._socket.send(b"no message")
    with pytest.raises(LineError, match="no message"):
        mine.receive()
    theirs.send(Done())
    theirs.close()
    assert isinstance(mine.receive()[0], Done)
    with pytest.raises(LineError, match="left"):
        mine.receive()


def test_who_waits_awake_sees_a_message_or_an_end_and_takes_neither() -> None:
    mine, theirs = (Line(end.detach(), 1.0) for end in socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET))
    start_s = time.monotonic()
    mine.spin(0.02)
    assert time.monotonic() - start_s >= 0.02 and not mine.waits(0.0)
    theirs.send(Done())
    start_s = time.monotonic()
    mine.spin(60.0)
    assert isinstance(mine.receive()[0], Done)
    theirs.close()
    mine.spin(60.0)
    assert time.monotonic() - start_s < 30.0
    mine.close()


def test_the_judges_time_is_the_median_over_replicas_and_its_error_what_they_differ_by() -> None:
    assert outside([]) is None
    assert outside([(0, -1.0)]) is None
    time_ms, error = outside([(0, 1.0), (0, 1.0), (1, 1.2), (1, 1.2)]) or (0.0, 0.0)
    assert time_ms == pytest.approx(1.1)
    few = statistics.student(statistics.LEVEL, 2.0) / COVER  # two replicas of each arm
    assert error == pytest.approx(statistics.MAD_TO_DEVIATION * 0.1 / math.sqrt(2) / 1.1 * few)


def test_one_pair_of_batches_says_little_and_ten_say_much() -> None:
    assert outside([(0, 1.0)]) == (1.0, statistics.LONE_ERROR)
    low = outside_ratio(JudgedTime(1.0, statistics.LONE_ERROR), JudgedTime(taking.CLEAR, statistics.LONE_ERROR)).low
    assert low > 1.0, "or one pair of each would be enough and decide nothing"
    errors = [(outside([(0, 1.0 + 0.1 * (-1) ** n) for n in range(count)]) or (0.0, 0.0))[1] for count in (2, 4, 10)]
    assert errors[0] > 2 * errors[1] > 3 * errors[2]


@pytest.mark.parametrize("pairs", [1, 2])
def test_a_bent_clock_is_seldom_confirmed_by_few_pairs_whatever_they_differ_by(pairs: int) -> None:
    """Arms that are alike, their slopes spread by a tenth, and a rung that says it is twice as fast."""
    chance = np.random.default_rng(0)

    def judged_by_few() -> JudgedTime:
        return JudgedTime(*(outside([(0, ms) for ms in np.exp(chance.normal(0, 0.1, pairs))]) or (0.0, 0.0)))

    trials = 2000
    faster = sum(
        statistics.confirmed_outside(FASTER, judged_by_few(), judged_by_few()).verdict is Verdict.FASTER
        for _ in range(trials)
    )
    assert faster < 0.05 * trials


@pytest.mark.parametrize(("base_ms", "rung_ms", "verdict"), [(2.0, 1.0, Verdict.FASTER), (1.0, 1.0, Verdict.UNDECIDED)])
def test_faster_must_hold_by_the_judges_clock(base_ms: float, rung_ms: float, verdict: Verdict) -> None:
    found = confirmed_outside(FASTER, JudgedTime(base_ms, 0.01), JudgedTime(rung_ms, 0.01))
    assert found.verdict is verdict
    assert ("judge" in found.note) == (verdict is Verdict.UNDECIDED)


def test_what_the_judge_has_no_time_of_is_not_faster() -> None:
    for base, rung, whose in ((None, JudgedTime(1.0, 0.01), "baseline"), (JudgedTime(2.0, 0.01), None, "rung")):
        found = confirmed_outside(FASTER, base, rung)
        assert found.verdict is Verdict.UNDECIDED and found.note.endswith(f"no time of the {whose}")


def seen(name: str, role: Role, claimed_ms: float, judge_ms: float) -> ArmProcess:
    """One process of an arm: what its samples say, and what one pair of batches does."""
    arm = EngineArm(name, Rung(name, role, Kind.TORCH, Path("x.py"), Needs()), "cpu", True, State.RUNNING)
    arm.samples.device_ms, arm.samples.host_ms = [claimed_ms] * 3, [math.nan] * 3
    arm.samples.replica, arm.samples.discarded = [1] * 3, [0] * 3
    arm.outside_ms = [(1, judge_ms)]
    process = ArmProcess(arm, 1, MagicMock(), MagicMock())
    arm.processes.append(process)
    return process


@pytest.mark.parametrize(
    ("baseline", "optimized", "expected"),
    [
        ((2.0, 2.1), (1.0, 1.1), []),
        ((2.0, 2.1), (1.0, 2.0), ["optimized", "baseline"]),  # it claims what the judge does not see
        ((1.0, 2.0), (1.1, 1.1), ["baseline"]),  # a neighbour came by, or a cheat would be excused
        ((1.1, 1.1), (1.0, 1.0), ["optimized", "baseline"]),  # faster, and not by far
        ((1.0, 1.0), (1.1, 1.1), []),
        ((2.0, 1.4), (1.0, 0.7), ["baseline", "optimized"]),
    ],
    ids=["clear", "cheat", "neighbour", "close", "not faster", "less than the samples say"],
)
def test_one_pair_of_batches_is_enough_where_nothing_hangs_on_how_exact_it_is(
    baseline: tuple[float, float], optimized: tuple[float, float], expected: list[str]
) -> None:
    processes = [seen("baseline", Role.BASELINE, *baseline), seen("optimized", Role.OPTIMIZED, *optimized)]
    assert [process.name for process in taking.open_still(processes)] == expected


def test_a_round_draws_one_set_and_what_was_learnt_in_the_round_before_is_in_none_of_its_sets() -> None:
    """Values of a round come back for nobody: only those of the set that rungs may know anyway."""
    known = {"x": torch.zeros(4096), "w": torch.zeros(8)}
    draws: list[int] = []

    def draw(seed: int) -> dict[str, torch.Tensor]:
        draws.append(seed)
        return {"x": torch.full((4096,), float(len(draws))), "w": known["w"]}

    spec = SimpleNamespace(name="x", posed=False, distribution="normal")
    target: Any = SimpleNamespace(inputs=[spec])
    fresh = clock.FreshSets(target, draw, ["x"], "cpu", known)
    first = [fresh.next() for _ in range(5)]
    second = [fresh.renewed().next()] + [fresh.next() for _ in range(4)]
    assert len(set(draws)) == 2
    for number, sets in enumerate((first, second), 1):
        assert all(set(one) == {"x"} and set(one["x"].tolist()) == {0.0, float(number)} for one in sets)
    assert len({tuple(one["x"].tolist()) for one in first}) == len(first)


def test_copies_in_a_batch_that_a_rung_could_leave_out_are_not_credited_to_it() -> None:
    """They are taken off what is shown. Who is faster by that alone has no verdict, and is told why."""
    base, rung = JudgedTime(2.0, 0.01), JudgedTime(1.0, 0.01, copies_ms=1.5)
    assert outside_ratio(rung, base).ratio == 2.0
    assert outside_ratio(rung, base).low < 1.0 < outside_ratio(rung._replace(copies_ms=0.5), base).low
    found = confirmed_outside(FASTER, base, rung)
    assert found.verdict is Verdict.UNDECIDED and "could leave them out" in found.note
    assert "copies" not in confirmed_outside(FASTER, base, JudgedTime(2.0, 0.01, 1.5)).note
    assert confirmed_outside(FASTER, base._replace(copies_ms=9.0), rung._replace(copies_ms=0.0)) is FASTER


UNCOUNTED = """
import gc, os, socket, sys, threading
import torch
from aisp.engine.protocol.batches import Done, Layout, Line, Over, Read, Run, overlapping
from aisp.engine.worker import batches
sys.path.insert(0, sys.argv[1])
from cheat import prepare

mine, theirs = (Line(end.detach(), 10.0) for end in socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET))
x, w, made = torch.zeros(128), torch.rand(128), torch.rand(3, 128)
call = prepare(x, w)
gc.disable()  # as in a worker
threading.Thread(target=batches.serve, args=(theirs, call, [x, w], [0], lambda y: [y]), kwargs={"own": True}).start()
mine.receive()
mine.send(Layout(offsets={0: 0}, set_bytes=512, most=3))
mine.receive()
for clones in (False, True, True):
    file = os.memfd_create("inputs")
    os.pwrite(file, made.numpy().tobytes(), 0)
    mine.send(Run(calls=3, clones=clones), [file])
    done, _ = mine.receive()
    at = [row[0].offset for row in done.places]
    last = torch.frombuffer((batches.ctypes.c_char * 65536).from_address(at[2]), dtype=torch.float32).view(128, 128)
    print(len(set(at)), torch.equal(last, torch.outer(made[2], w)), bool(x.any()))
    mine.send(Read())
mine.send(Over())
"""


def test_the_cheat_that_leaves_copies_out_leaves_them_out() -> None:
    """Else that nobody is faster by them would say nothing. Its outputs have one place until they are copied, and then
    places of their own; all are right, and nothing ever lies in its input."""
    folder = Path(__file__).parents[2] / "checks" / "gallery" / "timing" / "uncounted_copies"
    ran = imported.python(UNCOUNTED, str(folder))
    assert ran.stdout.splitlines() == ["1 True False", "3 True False", "3 True False"], ran.stderr


def test_the_engine_reads_outputs_in_another_process_and_nothing_that_is_not_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    there = mmap.mmap(-1, 2 * mmap.PAGESIZE, flags=mmap.MAP_PRIVATE)
    there[:5] = b"known"
    address = ctypes.addressof(ctypes.c_char.from_buffer(there))
    child = os.fork()
    if not child:
        time.sleep(60)
        os._exit(0)
    try:
        file = taking.memory_of(child, address, 5)
        assert os.pread(file, 9, 0) == b"known"
        os.close(file)
        open_files = len(list(Path("/proc/self/fd").iterdir()))
        for where, nbytes in ((0, 5), (-1, 5), (1 << 63, 5), (address, 0), (address, 1 << 40), (mmap.PAGESIZE, 5)):
            assert taking.memory_of(child, where, nbytes) == -1, (where, nbytes)
        with monkeypatch.context() as patched:  # nobody would answer the judge, who would blame the rung
            patched.setattr(mmap, "mmap", lambda *_: (_ for _ in ()).throw(OSError(errno.ENOMEM, "no memory")))
            assert taking.memory_of(child, address, 5) == -1
        assert len(list(Path("/proc/self/fd").iterdir())) == open_files
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def test_calls_of_a_batch_on_a_cpu_read_inputs_in_place_and_keep_their_outputs() -> None:
    """Neither is copied, so nothing is taken off that a rung could leave out; and who writes into an input does so in
    pages of his own."""
    calls, made = 3, torch.rand(3, 4, 128)
    mine, theirs = (Line(end.detach(), 10.0) for end in socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET))
    seen: list[int] = []

    def run(x: torch.Tensor) -> torch.Tensor:
        seen.append(x.data_ptr())
        y = x * 2
        x.zero_()
        return y

    buffer = torch.zeros(4, 128)
    serving = threading.Thread(
        target=lambda: batches.serve(theirs, run, [buffer], [0], lambda out: [out], own=False), name="worker"
    )
    serving.start()
    forms, _ = mine.receive()
    assert isinstance(forms, Forms) and not forms.copies
    mine.send(Layout(offsets={0: 0}, set_bytes=4 * 128 * 4, most=calls))
    assert isinstance(mine.receive()[0], Mapped)
    file = os.memfd_create("inputs")
    os.pwrite(file, made.numpy().tobytes(), 0)
    for _ in range(2):  # what the first one wrote into its inputs is not there for the second
        mine.send(Run(calls=calls), [file])
        done, _ = mine.receive()
        assert isinstance(done, Done) and len({row[0].offset for row in done.places}) == calls
        for (place,), values in zip(done.places, made, strict=True):
            there = (ctypes.c_char * (4 * 128 * 4)).from_address(place.offset)
            assert torch.equal(torch.frombuffer(there, dtype=torch.float32).view(4, 128), values * 2)
        mine.send(Read())
    mine.send(Over())
    serving.join(10)
    os.close(file)
    assert not serving.is_alive()
    assert buffer.data_ptr() not in seen[1:] and len(set(seen[1 : 1 + calls])) == calls, "the first call was before"


def test_copies_are_measured_from_and_to_as_many_places_as_a_batch_has(monkeypatch: pytest.MonkeyPatch) -> None:
    """From one cached place to another they take half as long, and a rung whose outputs are copied in its batches would
    be called slower there than its samples say."""
    side = object.__new__(clock._HostSide)
    side._outside = SimpleNamespace(sizes=lambda: [300, 0])  # type: ignore[assignment]
    side._copies, side._output_sizes, side.clones, side._most = True, [500], True, 6
    made: list[tuple[int, int]] = []
    monkeypatch.setattr(clock, "COPY_TRIES", 1)
    monkeypatch.setattr(torch.Tensor, "copy_", lambda to, values: made.append((to.data_ptr(), values.data_ptr())))
    assert side.copies_ms() > 0
    (into, inputs), (places, output) = (map(set, zip(*part, strict=True)) for part in (made[::2], made[1::2]))
    assert [len(each) for each in (into, inputs, places, output)] == [1, 6, 6, 1]
    side._copies = side.clones = False
    assert side.copies_ms() == 0.0


@pytest.mark.parametrize(
    ("prepare", "device", "takes"),
    [
        (None, "cpu", True),
        (lambda x: lambda y: y * 2, "cpu", True),
        (lambda x: lambda y: x * 2, "cpu", False),
        (lambda x: lambda y: y * 2 if y is x else 1 / 0, "cpu", False),
        (lambda x: lambda y: torch.ones(4), "cpu", False),
    ],
    ids=["run", "its arguments", "its buffers", "refuses others", "neither"],
)
def test_inputs_are_copied_for_those_alone_that_know_their_places(prepare: Any, device: str, takes: bool) -> None:
    """What prepare() returns mostly reads what it is called with: packed weights are no reason to copy."""
    x = torch.zeros(4)
    bound = _Bound(None, [x], [{0: torch.ones(4)}, {0: torch.full((4,), 2.0)}])  # type: ignore[arg-type]
    bound.call = prepare and prepare(x)
    arm: Any = object.__new__(WorkerArm)
    arm._device, arm._prepare, arm._torch = device, prepare, torch
    arm._target = SimpleNamespace(inputs=[SimpleNamespace(flags=frozenset(), made=False)])
    arm._outputs = lambda bound, output: (output,)
    assert arm._takes_others(bound) is takes
    assert prepare is None or torch.equal(x, torch.ones(4)), "its buffers have the values of set 0 again"
    arm._target.inputs[0].flags = frozenset({Flag.MUTABLE})
    for arm._device in ("cpu", "cuda"):
        assert not arm._takes_others(bound)
    arm._prepare, bound.buffers = None, [torch.empty(0)]
    assert arm._takes_others(bound), "there is nothing in it that a call could change"


def test_a_short_batch_that_wastes_time_makes_no_call_shorter() -> None:
    calls, call_ms = 10, 0.5
    few_ms, many_ms = 0.1 + calls * call_ms, 0.1 + 3 * calls * call_ms
    assert clock.per_call_ms_of(few_ms, many_ms, calls) == pytest.approx(call_ms)
    flat = clock.per_call_ms_of(few_ms + 9, many_ms, calls)
    assert flat == pytest.approx(call_ms, rel=0.02), "what is left to gain"


def test_a_batch_that_no_gpu_takes_ahead_of_time_has_fewer_calls_until_none_are_held() -> None:
    side = object.__new__(clock._DeviceSide)
    side.held, found = True, [64]
    while side.held:
        side.late = True
        found.append(side.fewer(found[-1]))
        assert not side.late
    assert found == [64, 16, 4, 1, 1]


CPU = '\n[[cases]]\nname = "cpu"\naxes = { N = 4096 }\n'
LATE = """
calls = 0
def run(x):
    global calls
    calls += 1
    y = x * 2
    import sys
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_filename.endswith("batches.py"):
            y.zero_()
        frame = frame.f_back
    return y
"""


@pytest.mark.slow
async def test_an_arm_is_timed_and_read_from_outside(shared: EngineUnderTest, tmp_path: Path) -> None:
    target = write_target(tmp_path, {"optimized_lazy.py": LATE}, axes="{ N = 4096 }", cases=CPU)
    result = await shared.run(tmp_path, target.id, device="cpu", quick=True)
    arms = {arm.rung: arm for arm in result.record.arms}
    honest = arms["optimized"].quality
    assert honest is not None
    assert honest.inside is not None or (honest.outside_ms or 0) > 0
    assert honest.inside is not None or (honest.outside_read or 0) >= 1
    lazy = arms["optimized_lazy"]
    assert (lazy.state, lazy.correctness) == (State.INCORRECT, Correctness.WRONG)
    assert "the judge had made" in lazy.reason


# -- a GPU whose memory cannot be shared, or is small ------------------------------------------------------------------

N = 64


class Driver:
    """CUDA's IPC over host memory: an address is one of this process, a handle holds it.

    Attributes:
        fails: names of calls, as `who.call`, and the status with which each fails.
        most: bytes that an allocation can have.
    """

    def __init__(self, fails: dict[str, int], most: int) -> None:
        self.fails, self.most, self.freed = fails, most, 0
        self.kept: list[Any] = []
        self.page: Any = None

    def _may(self, call: str) -> None:
        name = f"{'worker' if threading.current_thread().name == 'worker' else 'judge'}.{call}"
        if name in self.fails:
            raise ipc.IpcError(f"{call}: CUDA error {self.fails[name]}", self.fails[name])

    def allocate(self, nbytes: int) -> int:
        self._may("allocate")
        if nbytes > self.most:
            raise ipc.IpcError("allocate: CUDA error 2", ipc.OUT_OF_MEMORY)
        self.kept.append(torch.zeros(nbytes, dtype=torch.uint8))
        return int(self.kept[-1].data_ptr())

    def free(self, address: int) -> None:
        self.freed += 1

    def share(self, address: int, known: dict[int, bytes] | None = None) -> tuple[bytes, int]:
        self._may("share")
        return struct.pack("Q", address).ljust(ipc.HANDLE_BYTES, b"."), 0

    def open_shared(self, handle: bytes) -> tuple[int, int]:
        self._may("open_shared")
        return struct.unpack_from("Q", handle)[0], 1 << 30

    @staticmethod
    def bytes_at(address: int, nbytes: int) -> torch.Tensor:
        return torch.frombuffer((ctypes.c_char * nbytes).from_address(address), dtype=torch.uint8)


@contextmanager
def on_a_gpu(monkeypatch: pytest.MonkeyPatch, fails: dict[str, int], most: int, free: int) -> Iterator[Driver]:
    driver = Driver(fails, most)
    for name in ("allocate", "free", "share", "open_shared", "bytes_at"):
        monkeypatch.setattr(ipc, name, getattr(driver, name))
    monkeypatch.setattr(ipc, "close_shared", lambda address: None)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (free, free))
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(batches, "Meeting", meeting(driver))
    monkeypatch.setattr(clock._DeviceSide, "copies_ms", lambda side: 0.0)
    yield driver


def meeting(driver: Driver) -> Any:
    def made(fd: int, rank: int, ranks: int) -> Any:
        if "worker.meeting" in driver.fails:
            raise RuntimeError("the GPU cannot reach the page where ranks meet (1)")
        driver.page = np.frombuffer(mmap.mmap(fd, mmap.PAGESIZE), np.uint64)
        return SimpleNamespace(close=lambda: None)

    return made


class Stream:
    """What launches go to: behind a hold it comes to its end when the judge is at the meeting."""

    def __init__(self, driver: Driver) -> None:
        self._driver, self._holds = driver, 0

    def launch(self, ms: float, meeting: Any) -> None:
        self._holds += 1

    def settle(self) -> None:
        pass

    def synchronize(self) -> None:
        while self._holds and int(self._driver.page[LINE_WORDS]) < self._holds:
            time.sleep(0.001)


def timed(
    monkeypatch: pytest.MonkeyPatch,
    *,
    most: int = 1 << 30,
    free: int = 1 << 30,
    held: bool = False,
    run: Callable[[torch.Tensor], Any] = lambda x: x * 2,
    looks: bool = False,
    both: bool = False,
    **fails: int,
) -> Any:
    """What the judge comes to with an honest worker on such a GPU: its report, or why there is none.

    It `looks` at what it reads, or takes all of it for right; it reads of `both` batches, or of the larger one.
    """
    mine, theirs = (Line(end.detach(), 20.0) for end in socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET))
    spec = SimpleNamespace(name="x", made=False, refilled=True, flags=frozenset())
    target: Any = SimpleNamespace(inputs=[spec], outputs_of=lambda count: [SimpleNamespace(name="y")])
    sets: Any = SimpleNamespace(next=lambda: {"x": torch.rand(N)})
    failed: list[BaseException] = []

    def work() -> None:
        stream: Any = Stream(driver)
        hold = stream if held else None
        try:
            batches.serve(theirs, run, [torch.zeros(N)], [0], lambda out: [out], own=False, hold=hold, device=stream)
        except LineError:
            pass  # the judge says what happened
        except BaseException as error:
            failed.append(error)

    known = {name.replace("_", ".", 1): status for name, status in fails.items()}
    with on_a_gpu(monkeypatch, known, most, free) as driver:
        worker = threading.Thread(target=work, name="worker")
        worker.start()
        judged = [sets.next() for _ in range(clock.PICKS * (1 + both))]

        def compare(which: int, outputs: dict[str, torch.Tensor]) -> Any:
            return SimpleNamespace(right=not looks or torch.equal(outputs["y"], judged[which]["x"] * 2))

        like = {"x": torch.zeros(N)}
        judge = clock.Outside(mine, mine, target, sets, like, compare, os.getpid(), judged, 4 * N, both=both)
        try:
            return judge.timed(1, "cuda", 1e-3)
        except clock.CannotError as error:
            assert len(driver.kept) == driver.freed, "the judge has given back what it had"
            return str(error)
        finally:
            mine.close()
            worker.join(20)
            assert not worker.is_alive() and failed == []


@pytest.mark.parametrize(
    ("call", "why"),
    [
        ("judge_allocate", "CUDA gives no memory for its inputs (allocate: CUDA error 999)"),
        ("judge_share", "its inputs lie in memory that cannot be shared (share: CUDA error 999)"),
        ("worker_open_shared", "its process cannot open memory that CUDA shares"),
        ("worker_meeting", "its process cannot open memory that CUDA shares"),
        ("worker_share", "its outputs lie in memory that cannot be shared"),
        ("judge_open_shared", "its outputs lie in memory that cannot be shared (open_shared: CUDA error 999)"),
    ],
)
def test_memory_that_cuda_does_not_share_is_why_a_rung_is_judged_inside(
    call: str, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert timed(monkeypatch, **{call: 999}) == why


@pytest.mark.slow
def test_calls_that_are_launched_ahead_are_held_and_those_that_cannot_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "ARMED_S", 0.2)
    ahead = timed(monkeypatch, held=True)
    assert (ahead.held, len(ahead.slopes_ms), ahead.read) == (True, 1, clock.PICKS)

    def waits(x: torch.Tensor) -> torch.Tensor:
        time.sleep(0.3)  # as for the device, in each call
        return x * 2

    monkeypatch.setattr(clock, "MOST_CALLS", 3)
    assert timed(monkeypatch, held=True, run=waits).held is False
    monkeypatch.setattr(clock, "MOST_CALLS", 90)

    def many(x: torch.Tensor) -> torch.Tensor:
        time.sleep(0.02)  # for its launches, of which a batch of 3 calls can have so many
        return x * 2

    for first in (0, 1):  # the larger batch of a pair, or the smaller one, which may be ahead where the other is not
        monkeypatch.setattr(clock.secrets, "randbelow", lambda count, first=first: first)
        few = timed(monkeypatch, held=True, run=many)
        assert few.held is True and 0 < few.calls < 10
        assert few.slopes_ms[0] < 5.0, "a batch that was not held has the host's 20 ms a call in it"


def test_no_set_comes_twice_so_that_nothing_tells_which_calls_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "MOST_CALLS", 30)
    seen: list[bytes] = []

    def run(x: torch.Tensor) -> torch.Tensor:
        seen.append(x.numpy().tobytes())
        return x * 2

    for both in (False, True):
        seen.clear()
        report = timed(monkeypatch, run=run, both=both)
        calls = seen[1:]  # of what the buffers held before
        assert report.read == clock.PICKS * (1 + both) and len(calls) == 1 + 10 + 30
        assert len(set(calls)) == len(calls)


@pytest.mark.parametrize("skipped", [10, 30])
def test_where_there_may_be_no_second_pair_a_rung_is_met_in_either_batch(
    monkeypatch: pytest.MonkeyPatch, skipped: int
) -> None:
    monkeypatch.setattr(clock, "MOST_CALLS", 30)
    monkeypatch.setattr(clock.secrets, "randbelow", lambda count: 0)  # the larger one first
    called: list[int] = []

    def run(x: torch.Tensor) -> torch.Tensor:
        called.append(0)
        first, last = (2, 32) if skipped == 30 else (32, 42)  # behind the first call and the batch of one
        return x * (3 if first < len(called) <= last else 2)

    assert not timed(monkeypatch, run=run, both=True, looks=True).judged.right


class Fleeting:
    """What torch.compile's own graphs return: behind the next call nothing of it can be asked."""

    newest: Fleeting | None = None

    def __init__(self, value: torch.Tensor) -> None:
        self._value, self.dtype, self.shape = value, value.dtype, value.shape
        Fleeting.newest = self

    def data_ptr(self) -> int:
        if Fleeting.newest is not self:
            raise RuntimeError("accessing tensor output of CUDAGraphs that has been overwritten by a subsequent run")
        return self._value.data_ptr()

    def clone(self) -> torch.Tensor:
        return self._value.clone()


@pytest.mark.parametrize("ring", [1, 2, 4, 11, 29])
@pytest.mark.parametrize("first", [0, 1])
def test_calls_that_share_outputs_in_any_way_are_copied_and_not_accused(
    ring: int, first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clock, "MOST_CALLS", 30)
    monkeypatch.setattr(clock.secrets, "randbelow", lambda count: first)  # the larger batch of a pair, or the smaller
    kept = itertools.cycle([torch.empty(N) for _ in range(ring)])

    def run(x: torch.Tensor) -> Any:
        out = torch.mul(x, 2, out=next(kept))
        return Fleeting(out) if ring == 1 else out

    report = timed(monkeypatch, run=run, looks=True)
    assert (report.clones, len(report.slopes_ms), report.inside, report.gone) == (True, 1, "", "")
    assert report.judged is None or report.judged.right
    wrong = timed(monkeypatch, run=lambda x: x * 3, looks=True)
    assert (wrong.clones, wrong.judged.right) == (False, False), "who shares nothing is read as it lies"


@pytest.mark.parametrize(
    ("calls", "found"),
    [
        ([[(0, 0)], [(0, 16)], [(1, 0)]], False),
        ([[(0, 0)], [(0, 16)], [(0, 0)]], True),
        ([[(0, 0)], [(0, 8)]], True),
        ([[(0, 0), (0, 0)], [(1, 0), (1, 16)]], False),  # of one call alone: that is refused elsewhere
        ([[(0, 0), (0, 32)], [(0, 16), (0, 40)]], True),
        ([[(0, 0)], [(0, 4)], [(0, 4)]], True),
    ],
)
def test_outputs_of_different_calls_that_lie_over_one_another_are_found(
    calls: list[list[tuple[int, int]]], found: bool
) -> None:
    spans = [(where, at, at + 16, number) for number, row in enumerate(calls) for where, at in row]
    assert overlapping(spans) is found
    assert not overlapping((where, at, at, number) for where, at, _, number in spans), "nothing lies nowhere"


@pytest.mark.parametrize(("ring", "apart"), [(1, False), (2, False), (4, False), (8, True), (16, True)])
def test_samples_take_calls_together_only_where_each_has_an_output_of_its_own(ring: int, apart: bool) -> None:
    """A ring of two or four comes round with the sets: by what it holds, each output is right."""
    kept = itertools.cycle([torch.empty(N) for _ in range(ring)])
    sets = [{0: torch.rand(N)} for _ in range(2)]
    bound: Any = SimpleNamespace(sets=sets, buffers=[torch.empty(N)])
    calls = [[torch.empty(N)] for _ in range(8)]

    def fill(to: list[torch.Tensor], number: int) -> None:
        to[0].copy_(sets[number][0])

    arm: Any = object.__new__(WorkerArm)
    arm._callable = lambda bound: lambda x: torch.mul(x, 2, out=next(kept))
    arm._refill = lambda bound, number: fill(bound.buffers, number)
    arm._fill_every = lambda bound, buffers, numbers: [fill(*one) for one in zip(buffers, numbers, strict=True)]
    arm._outputs = lambda bound, answer: (answer,)
    arm._fingerprint = lambda outputs: [float(outputs[0].sum()), 0.0, 1.0]
    launch = [lambda own=own: torch.mul(own[0], 2, out=next(kept)) for own in calls]
    assert arm._each_for_itself(bound, lambda: [one() for one in launch], calls) is apart


def test_memory_for_few_sets_makes_small_batches_and_for_fewer_than_three_none(monkeypatch: pytest.MonkeyPatch) -> None:
    for limit in ("BATCH_MS", "FILL_MS"):  # it is memory alone that keeps a batch small
        monkeypatch.setattr(clock, limit, 1e9)
    row = 512  # a set's bytes
    plenty = timed(monkeypatch)
    assert (plenty.sets, plenty.inside, len(plenty.slopes_ms)) == (0, "", 1)
    few = timed(monkeypatch, most=12 * row, free=10 * 24 * row)
    assert (few.sets, few.calls) == (12, 4), "half of what it had been promised was there"
    assert timed(monkeypatch, most=2 * row, free=10 * 24 * row) == clock.NO_ROOM
    assert timed(monkeypatch, free=10 * 2 * row) == clock.NO_ROOM


def test_a_record_says_that_batches_were_small_for_want_of_memory() -> None:
    arm = Arm(
        "optimized", State.OK, Correctness.CORRECT, quality=Quality(outside_ms=1.0, outside_error=0.01, outside_sets=12)
    )
    assert judged(arm) == "judged outside (in batches of 12 calls at most: memory had no room for more inputs)"


# -- why a rung is judged inside ---------------------------------------------------------------------------------------


def reasons() -> Iterator[str]:
    """What the code says of why a rung was judged inside; of a sentence with figures its longest part without."""
    for module in (taking, verdicts, clock):
        for node in ast.walk(ast.parse(Path(str(module.__file__)).read_text())):
            said: ast.expr | None = None
            match node:
                case ast.Call(func=ast.Name(id="CannotError"), args=[value]):
                    said = value
                case ast.Assign(targets=[ast.Attribute(attr="inside") | ast.Name(id="NO_ROOM")], value=value):
                    said = value
                case ast.Dict(keys=[ast.Constant(value="inside")], values=[ast.BoolOp(values=[_, value])]):
                    said = value
            if said is not None:
                yield from (texts[-1] for texts in [sorted(parts(said), key=len)] if texts)
    function = next(
        node for node in ast.walk(ast.parse(Path(clock.__file__).read_text()))
        if isinstance(node, ast.FunctionDef) and node.name == "why_inside"
    )  # fmt: skip
    yield from (
        str(node.value.value)
        for node in ast.walk(function)
        if isinstance(node, ast.Return) and isinstance(node.value, ast.Constant) and node.value.value
    )


def parts(said: ast.expr) -> list[str]:
    """The texts of an expression, between its figures."""
    pieces = said.values if isinstance(said, ast.JoinedStr) else [said]
    return [str(piece.value).strip(" (") for piece in pieces if isinstance(piece, ast.Constant)]


def test_the_threat_model_has_every_reason_for_which_a_rung_is_judged_inside_and_no_other() -> None:
    page = (Path(__file__).parents[2] / "docs" / "threat_model.md").read_text()
    table = page.partition("Judged inside, with the reason in the record")[2].partition("\n## ")[0]
    rows = [line.split("`") for line in table.splitlines() if line.startswith("|") and "`" in line]
    known, told = set(reasons()), [row[-2] for row in rows]
    assert len(known) >= 10
    assert [reason for reason in sorted(known) if not any(reason in words for words in told)] == []
    assert [words for words in told if not any(reason in words for reason in known)] == []


async def test_a_rung_that_is_wrong_in_a_batch_is_judged_inside_where_nobody_was_to_look(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    crew: Any = SimpleNamespace(arena=Arena())
    plan: Any = SimpleNamespace(
        target=SimpleNamespace(ranks=1),
        case=Case("default", {"N": 4}),
        without=frozenset({taking.FRESH_VALUES}),
        side_by_side=False,
    )
    services: Any = SimpleNamespace(limits=SimpleNamespace(progress_s=1.0, verifier_s=1.0))
    of_run = taking.Outside(plan, services, crew, None)  # type: ignore[arg-type]

    async def timed(*_: object) -> reports.BatchesTimed:
        return reports.BatchesTimed(judged=SimpleNamespace(right=False), slopes_ms=[1.0])  # type: ignore[arg-type]

    monkeypatch.setattr(of_run, "_timed", timed)
    arm = SimpleNamespace(
        name="optimized", inside="", outside_ms=[], batch_calls=0, batch_held=False, batch_clones=False
    )
    process: Any = SimpleNamespace(arm=arm, child=SimpleNamespace(pid=1), replica=0, per_call_ms=1.0)
    await of_run._pair(process)
    assert (arm.inside, arm.outside_ms) == ("output.fresh_values was left out", [])


@pytest.mark.parametrize("side_by_side", [False, True])
@pytest.mark.parametrize(("judge_ms", "pairs"), [(1.0, 1), (1.6, 2)], ids=["clear", "close"])
async def test_no_run_makes_a_second_pair_of_whoever_one_says_enough_of(
    judge_ms: float, pairs: int, side_by_side: bool
) -> None:
    processes = [seen("baseline", Role.BASELINE, 2.0, 2.0), seen("optimized", Role.OPTIMIZED, 1.0, judge_ms)]
    for process in processes:
        process.arm.outside_ms.clear()
    times = {"baseline": 2.0, "optimized": judge_ms}

    @asynccontextmanager
    async def step(name: str) -> AsyncIterator[None]:
        yield

    async def guarded(process: ArmProcess, work: Callable[[ArmProcess], Awaitable[None]]) -> None:
        await work(process)

    async def pair(process: ArmProcess) -> None:
        process.arm.outside_ms.append((process.replica, times[process.name]))

    of_run = object.__new__(taking.Outside)
    of_run._plan = SimpleNamespace(side_by_side=side_by_side)  # type: ignore[assignment]
    of_run._reporter, of_run._crew = SimpleNamespace(step=step), SimpleNamespace(guarded=guarded)  # type: ignore[assignment]
    of_run._round, of_run._pair = 0, pair  # type: ignore[method-assign]
    await of_run.take(processes)
    assert [len(process.arm.outside_ms) for process in processes] == [pairs, pairs]
