"""What the engine's own clock makes of an arm's calls: with a clock and a process that follow a script."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from aisp.engine import challenges, contention
from aisp.engine.arms import Arm, ArmProcess
from aisp.engine.protocol import jobs, reports
from aisp.kernels.catalog.model import Kind, Needs, Role, Rung


class Clocked:
    """A process whose calls take a known time by the engine's clock.

    Attributes:
        call_ms: of a call.
        late_ms: more that the first answers take, one by one: a neighbour's noise.
        in_line: of the time of its calls, the share in which it stands in line for a processor.
    """

    pid = 4321

    def __init__(self, call_ms: float, late_ms: tuple[float, ...] = (), in_line: float = 0.0) -> None:
        self.call_ms = call_ms
        self.late_ms = list(late_ms)
        self.in_line = in_line
        self.ran_ms = self.waited_ms = 0.0
        self.now_ns = 0
        self.asked: list[int] = []

    async def ask(self, job: jobs.AnyJob, patience_s: float) -> reports.AnyReport:
        assert isinstance(job, jobs.Sustain)
        self.asked.append(job.calls)
        late_ms = self.late_ms.pop(0) if self.late_ms else 0.0
        self.ran_ms += job.calls * self.call_ms * (1 - self.in_line)
        self.waited_ms += job.calls * self.call_ms * self.in_line
        self.now_ns += int((0.2 + job.calls * self.call_ms + late_ms) * 1e6)
        return reports.Sustained(calls=job.calls)


def arm(claimed_ms: float, host_ms: float = 0.01) -> Arm:
    found = Arm("optimized", Rung("optimized", Role.OPTIMIZED, Kind.TORCH, Path("o.py"), Needs()), "cpu", True)
    log = found.samples
    for replica, ms in ((0, 99.0), (1, claimed_ms)):
        log.device_ms += [ms] * 5
        log.host_ms += [host_ms] * 5
        log.replica += [replica] * 5
        log.discarded += [0] * 5
    return found


async def sustain(monkeypatch: pytest.MonkeyPatch, child: Clocked, book: Arm) -> Any:
    monkeypatch.setattr(contention.time, "monotonic_ns", lambda: child.now_ns)
    monkeypatch.setattr(contention.Scheduled, "of", lambda pid: contention.Scheduled(child.ran_ms, child.waited_ms))
    return await challenges.sustain(ArmProcess(book, 1, child, jobs.Blob(name="out")), "default", 1.0)  # type: ignore[arg-type]


@pytest.mark.parametrize("call_ms", [0.002, 0.05, 1.0, 40.0])
async def test_the_time_per_call_is_that_of_the_engines_clock_without_the_way_of_the_message(
    monkeypatch: pytest.MonkeyPatch, call_ms: float
) -> None:
    child = Clocked(call_ms)
    found = await sustain(monkeypatch, child, arm(call_ms))
    assert found.per_call_ms == pytest.approx(call_ms, rel=0.01)
    assert found.claimed_ms == call_ms  # of this replica, not of the one before
    assert found.calls * call_ms >= challenges.STRETCH_MS or found.calls == challenges.MOST_CALLS
    assert max(child.asked) <= challenges.MOST_CALLS


async def test_a_stretch_never_lasts_long_however_little_is_claimed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of calls follows what the engine sees, not what the process says of itself."""
    child = Clocked(10.0)
    found = await sustain(monkeypatch, child, arm(0.0001))
    assert found.per_call_ms == pytest.approx(10.0, rel=0.01)
    assert child.now_ns < 2e9


async def test_what_looks_slow_once_is_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    noisy = Clocked(1.0, late_ms=(0.0, 0.0, 0.0, 30.0, 0.0, 30.0))
    found = await sustain(monkeypatch, noisy, arm(1.0))
    assert found.per_call_ms == pytest.approx(1.0, rel=0.05)
    steady = Clocked(1.0)
    await sustain(monkeypatch, steady, arm(1.0))
    liar = Clocked(1.0)
    await sustain(monkeypatch, liar, arm(0.1))
    assert len(liar.asked) > len(steady.asked)


async def test_a_stretch_that_an_interruption_made_long_enough_is_made_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two calls of 10 us beside 0.1 ms of noise in every answer would look five times as slow as they are."""
    interrupted = Clocked(0.01, late_ms=(0.0, 0.0, 10.0, *([0.1] * 40)))
    found = await sustain(monkeypatch, interrupted, arm(0.01, host_ms=0.0))
    assert found.calls > 2
    assert found.per_call_ms < challenges.DOUBT * 0.01


async def test_a_launch_that_takes_the_host_long_is_no_lie(monkeypatch: pytest.MonkeyPatch) -> None:
    """Held samples have no host time in them; calls that are not held cannot be faster than they are launched."""
    child = Clocked(0.02)
    found = await sustain(monkeypatch, child, arm(0.003, host_ms=0.02))
    assert (found.claimed_ms, found.host_ms) == (0.003, 0.02)
    quick = Clocked(0.02)
    await sustain(monkeypatch, quick, arm(0.02))
    assert len(child.asked) == len(quick.asked)


async def test_time_in_which_a_process_stood_in_line_for_a_processor_is_its_neighbours(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = await sustain(monkeypatch, Clocked(8.0, in_line=0.875), arm(1.0))
    assert found.per_call_ms == pytest.approx(8.0, rel=0.01)
    assert found.alone_ms == pytest.approx(1.0, rel=0.05)
    quiet = await sustain(monkeypatch, Clocked(8.0), arm(1.0))
    assert quiet.alone_ms == pytest.approx(quiet.per_call_ms)


def test_waiting_excuses_no_more_than_was_waited_and_never_the_work_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    start = contention.Scheduled(5.0, 100.0)
    assert start.alone_ms(contention.Scheduled(15.0, 130.0), 40.0) == 10.0
    assert start.alone_ms(contention.Scheduled(45.0, 900.0), 40.0) == 20.0  # 40 ms of work on two processors
    assert start.alone_ms(contention.Scheduled(5.0, 100.0), 40.0) == 40.0  # asleep, or no count is kept
    assert start.alone_ms(contention.Scheduled(0.0, 0.0), 40.0) == 40.0  # a thread has ended and took its count along


@pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="this kernel keeps no count")
def test_the_kernel_counts_what_a_process_ran() -> None:
    before = contention.Scheduled.of(os.getpid())
    with contention.Crowd(os.getpid()) as crowd:
        started_ns = time.thread_time_ns()
        while time.thread_time_ns() - started_ns < 30e6:
            pass
    after = contention.Scheduled.of(os.getpid())
    assert after.ran_ms - before.ran_ms > 25
    assert 25 / (os.cpu_count() or 1) < crowd.alone_ms <= crowd.wall_ms
    assert contention.Scheduled.of(2**22 + 1) == contention.Scheduled(0.0, 0.0)
