"""Taking one sample: nothing but the call stands between the two time stamps, and what leaked in is marked."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import pytest

from engine.worker.timers import LEAKED, MAX_HOLD_MS, CudaTimer, HostTimer, _until_steady
from store.outcomes import Timing
from store.records import DISCARDED

CYCLES_PER_MS = 1000.0


class Gpu:
    """Stands in for torch where no GPU is: one stream, and a log of what was asked of it in order.

    Attributes:
        log: what happened.
        device_ms: what the events say of each call.
        host_ms: how long the host takes for a call, on the clock that the timer reads.
        waits: whether the call waits for the GPU itself, and so always outlasts the hold.
    """

    int32 = "int32"

    def __init__(self) -> None:
        self.log: list[str] = []
        self.device_ms = 1.0
        self.host_ms = 0.05
        self.waits = False
        self.now_ns = 0
        self.flushed_bytes = 0
        self._held_until_ns = 0
        self._calibrating = True
        self.cuda = self

    # torch
    def empty(self, count: int, *, dtype: str, device: str) -> Gpu:
        assert (dtype, device) == ("int32", "cuda")
        self.flushed_bytes = count * 4
        return self

    def zero_(self) -> None:
        self.log.append("flush")

    # torch.cuda
    def Event(self, *, enable_timing: bool) -> Event:
        assert enable_timing
        return Event(self)

    def _sleep(self, cycles: int) -> None:
        self.log.append("hold")
        self._held_until_ns = self.now_ns + int(cycles / CYCLES_PER_MS * 1e6)

    def synchronize(self) -> None:
        self.log.append("synchronize")

    # the call that is timed
    def call(self) -> tuple[Any, ...]:
        self.log.append("call")
        self.now_ns += int(self.host_ms * 1e6)
        if self.waits:
            self.now_ns = max(self.now_ns, self._held_until_ns + 1)
        return ("output",)

    def refill(self) -> None:
        self.log.append("refill")

    @property
    def released(self) -> bool:
        return self.now_ns >= self._held_until_ns

    @property
    def held_ms(self) -> float:
        return (self._held_until_ns - self.now_ns) / 1e6


class Event:
    def __init__(self, gpu: Gpu) -> None:
        self.gpu = gpu

    def record(self) -> None:
        self.gpu.log.append("record")

    def query(self) -> bool:
        self.gpu.log.append("query")
        return self.gpu.released

    def elapsed_time(self, end: Event) -> float:
        if self.gpu._calibrating:
            self.gpu._calibrating = False
            return 2_000_000 / CYCLES_PER_MS
        return self.gpu.device_ms


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Gpu:
    made = Gpu()
    monkeypatch.setitem(sys.modules, "torch", made)
    monkeypatch.setattr(time, "perf_counter_ns", lambda: made.now_ns)
    return made


# -- on a GPU ----------------------------------------------------------------------------------------------------------


def test_a_cold_sample_is_refill_flush_hold_event_call_event(gpu: Gpu) -> None:
    timer = CudaTimer(50 << 20)
    gpu.log.clear()
    found = timer.sample(gpu.call, gpu.refill)
    assert gpu.log == ["refill", "flush", "hold", "record", "call", "record", "query", "synchronize"]
    assert (found.device_ms, found.host_ms, found.discarded, found.outputs) == (1.0, 0.05, 0, ("output",))
    assert timer.timing == Timing.COLD


def test_the_flush_is_at_least_twice_the_cache(gpu: Gpu) -> None:
    CudaTimer(50 << 20)
    assert gpu.flushed_bytes == 100 << 20
    CudaTimer(1 << 20)
    assert gpu.flushed_bytes == 64 << 20  # where the driver tells too little
    CudaTimer(0)
    assert gpu.flushed_bytes == 64 << 20


def test_the_time_is_the_devices_and_not_the_hosts(gpu: Gpu) -> None:
    timer = CudaTimer(0)
    gpu.device_ms, gpu.host_ms = 7.25, 0.2
    found = timer.sample(gpu.call, gpu.refill)
    assert (found.device_ms, found.host_ms) == (7.25, 0.2)


@pytest.mark.parametrize("impossible", [0.0, -1.0, float("nan")])
def test_a_time_that_no_clock_gives_is_handed_on_for_the_engine_to_refuse(gpu: Gpu, impossible: float) -> None:
    """Mended here, a patched elapsed_time would look like the fastest kernel of all."""
    timer = CudaTimer(0)
    gpu.device_ms = impossible
    assert repr(timer.sample(gpu.call, gpu.refill).device_ms) == repr(impossible)


def test_a_hold_that_was_too_short_marks_its_sample_and_grows(gpu: Gpu) -> None:
    timer = CudaTimer(0)
    gpu.host_ms = 0.4  # longer than the first hold of 0.3 ms
    first = timer.sample(gpu.call, gpu.refill)
    second = timer.sample(gpu.call, gpu.refill)
    assert (first.discarded, second.discarded) == (LEAKED, 0)
    assert DISCARDED[LEAKED] == "host time leaked into the sample"


def test_warming_up_finds_a_hold_that_outlasts_the_launch(gpu: Gpu) -> None:
    timer = CudaTimer(0)
    gpu.host_ms = 1.5
    per_call_ms, calls = timer.warm_up(gpu.call, gpu.refill, budget_ms=1000)
    assert (per_call_ms, timer.timing) == (1.0, "cold")
    assert calls == 10  # two groups that agree
    assert timer.sample(gpu.call, gpu.refill).discarded == 0
    assert gpu.held_ms > 1.0  # room for a launch that takes longer than usual


def test_a_call_that_waits_for_the_gpu_is_timed_with_its_host_and_says_so(gpu: Gpu) -> None:
    timer = CudaTimer(0)
    gpu.waits = True
    timer.warm_up(gpu.call, gpu.refill, budget_ms=1000)
    assert timer.timing == Timing.COLD_SYNC
    gpu.log.clear()
    found = timer.sample(gpu.call, gpu.refill)
    assert found.discarded == 0
    # Not held, so the flush must be over before the first launch.
    assert gpu.log == ["refill", "flush", "synchronize", "record", "call", "record", "synchronize"]


def test_a_launch_slower_than_the_longest_hold_is_timed_with_its_host(gpu: Gpu) -> None:
    timer = CudaTimer(0)
    gpu.host_ms = 2 * MAX_HOLD_MS
    timer.warm_up(gpu.call, gpu.refill, budget_ms=1000)
    assert timer.timing == Timing.COLD_SYNC


def test_a_latency_lesson_is_never_held(gpu: Gpu) -> None:
    timer = CudaTimer(0, latency=True)
    gpu.log.clear()
    timer.warm_up(gpu.call, gpu.refill, budget_ms=1000)
    timer.sample(gpu.call, gpu.refill)
    assert timer.timing == Timing.COLD_SYNC
    assert "hold" not in gpu.log


def test_every_way_of_timing_has_a_name_in_the_store(gpu: Gpu) -> None:
    assert {CudaTimer(0).timing, CudaTimer(0, latency=True).timing, HostTimer.timing} <= {t.value for t in Timing}


# -- on a CPU ----------------------------------------------------------------------------------------------------------


def test_a_sample_on_the_cpu_leaves_the_refill_out(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0
    log: list[str] = []

    def spend(name: str, ms: float) -> Callable[[], tuple[Any, ...]]:
        def work() -> tuple[Any, ...]:
            nonlocal now
            log.append(name)
            now += int(ms * 1e6)
            return (name,)

        return work

    monkeypatch.setattr(time, "perf_counter_ns", lambda: now)
    found = HostTimer().sample(spend("call", 3.5), spend("refill", 1000.0))  # type: ignore[arg-type]
    assert log == ["refill", "call"]
    assert (found.device_ms, found.host_ms, found.discarded, found.outputs) == (3.5, 3.5, 0, ("call",))


def test_a_clock_that_stands_still_is_handed_on_as_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "perf_counter_ns", lambda: 5)
    assert HostTimer().sample(lambda: (), lambda: None).device_ms == 0


def test_samples_end_in_order_on_the_clock_that_telemetry_uses() -> None:
    before = time.monotonic_ns()
    ends = [HostTimer().sample(lambda: (), lambda: None).end_ns for _ in range(5)]
    assert before <= ends[0]
    assert ends == sorted(ends)
    assert ends[-1] <= time.monotonic_ns()


# -- until it is steady ------------------------------------------------------------------------------------------------


def steady(times: list[float], budget_ms: float = 1e6) -> tuple[float, int]:
    """Warm-up over calls that take these times; the last one for ever."""
    given = iter(times)
    return _until_steady(lambda: next(given, times[-1]), budget_ms)


def test_it_ends_when_two_groups_of_five_agree() -> None:
    assert steady([2.0]) == (2.0, 10)
    # Compilation and caches: falling times are waited out.
    assert steady([500.0, 50.0, 9.0, 8.0, 7.0, 6.0, 5.0, 4.0, 3.0, 2.5, 2.0]) == (2.0, 20)


def test_one_interrupted_call_in_a_group_does_not_matter() -> None:
    assert steady([1.0, 1.0, 90.0, 1.0, 1.0, 1.0, 1.0, 1.0, 70.0, 1.0]) == (1.0, 10)


def test_it_ends_with_its_budget_where_nothing_gets_steady() -> None:
    swing = [1.0, 1.0, 1.0, 1.0, 1.0, 2.0, 2.0, 2.0, 2.0, 2.0] * 100_000
    per_call_ms, calls = steady(swing, budget_ms=20)
    assert per_call_ms in (1.0, 2.0)
    assert 1 <= calls < 1_000_000


def test_a_call_that_takes_longer_than_the_whole_budget_is_made_once() -> None:
    assert steady([5.0], budget_ms=-1.0) == (5.0, 1)
