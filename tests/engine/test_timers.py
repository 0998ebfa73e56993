"""Taking one sample: nothing but the call stands between the two time stamps, and what leaked in is marked."""

from __future__ import annotations

import _thread
import contextlib
import functools
import gc
import math
import sys
import threading
import time
import types
import weakref
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from aisp.checks import cupti
from aisp.checks.cuda import READ_KERNEL
from aisp.checks.cupti import Activity
from aisp.engine.worker import timers
from aisp.engine.worker.probe import (
    _HOLD_SOURCE,
    _PART_SOURCE,
    _SOURCE,
    _SPIN_SOURCE,
    MOST_CLOCK_HZ,
    NOBODY,
    PATIENCE_S,
    ClockProbe,
    Hold,
    Meeting,
    Span,
    _step_ms,
    span,
)
from aisp.engine.worker.timers import (
    LEAKED,
    MAX_HOLD_MS,
    CaptureError,
    CudaTimer,
    HostTimer,
    LaunchBatch,
    SavedHandles,
    TorchHandles,
    WarmedUp,
    _smallest_step,
    _until_steady,
    batch,
    single,
)
from aisp.kernels.catalog.contracts import Cache
from aisp.store.outcomes import Timing
from aisp.store.record import DISCARDED

CYCLES_PER_MS = 1.98e6
EMPTY_MS = 0.00128
AROUND_MS = 0.004  # between the probes where nothing is between the events
HOST_GAPS_MS = 0.03  # the same where nothing is held: the host launches


class Gpu:
    """Stands in for torch where no GPU is: one stream, and a log of what was asked of it in order.

    Attributes:
        log: what happened.
        device_ms: how long the GPU works on each call.
        host_ms: how long the host takes to launch a call, on the clock that the timer reads.
        waits: whether the call waits for the GPU itself, and so always outlasts the hold.
        captures: whether it can be captured into a graph.
        kernels: in a call.
        late_ms: work that each call leaves on a stream which nobody waits for.
        filled: whether the hold takes all SMs, or only the timed stream.
    """

    int32 = "int32"
    stream_id, device_index, device_type = 0, 0, 1

    def __init__(self) -> None:
        self.log: list[str] = []
        self.device_ms = 1.0
        self.host_ms = 0.05
        self.waits = False
        self.captures = True
        self.kernels = 1
        self.now_ns = 0
        self.flushed_bytes = self.clean_bytes = 0
        self.work_ms = 0.0
        self._held_until_ns = 0
        self._capturing = False
        self.late_ms = 0.0
        self.hold_ms = 0.0  # the last one
        self.filled = True
        self.bent = 1.0  # what events say is so much shorter than it was
        self.behind = False  # still at work when the host has launched all
        self.devices = 1
        self.current_device_set = 0
        self._beside_until_ns = 0
        self.cuda = self
        self._C = self._VariableFunctions = self
        self._CudaEventBase = functools.partial(Event, self)
        for name in ("record", "query", "elapsed_time", "synchronize"):
            setattr(self._CudaEventBase, name, getattr(Event, name))
        self.Tensor = type(self)

    # torch._C
    def _cuda_sleep(self, cycles: int) -> None:
        self._sleep(cycles)

    def _cuda_synchronize(self) -> None:
        self.log.append("synchronize" if self.current_device_set == 0 else f"synchronize {self.current_device_set}")
        self.now_ns = max(self.now_ns, self._beside_until_ns, self._held_until_ns)

    def _cuda_setDevice(self, index: int) -> None:
        self.current_device_set = index

    def _cuda_setStream(self, *, stream_id: int, device_index: int, device_type: int) -> None:
        assert (stream_id, device_index, device_type) == (0, 0, 1)

    def _cuda_hasPrimaryContext(self, index: int) -> bool:
        return index == 2

    # torch
    def empty(self, count: int, *, dtype: str, device: str) -> Gpu:
        assert (dtype, device) == ("int32", "cuda")
        self.flushed_bytes = count * 4
        return self

    def zero_(self) -> None:
        self.log.append("flush")

    def zeros(self, shape: tuple[int, ...], *, dtype: str, device: str) -> Gpu:
        assert (dtype, device) == ("int32", "cuda")
        self.clean_bytes = max(self.clean_bytes, math.prod(shape) * 4)
        return self

    def amax(self, of: Gpu, dim: int, *, out: Gpu) -> None:
        assert (of, dim, out) == (self, 1, self)
        self.log.append("read")

    # torch.cuda
    def current_device(self) -> int:
        return 0

    def device_count(self) -> int:
        return self.devices

    def default_stream(self, index: int) -> Gpu:
        assert index == 0
        return self

    def _sleep(self, cycles: int) -> None:
        self.log.append("hold")
        self.hold_ms = cycles / CYCLES_PER_MS
        self.work_ms += cycles / CYCLES_PER_MS
        self._held_until_ns = self.now_ns + int(cycles / CYCLES_PER_MS * 1e6)

    def synchronize(self) -> None:
        self.log.append("synchronize")

    def CUDAGraph(self, *, keep_graph: bool) -> Gpu:
        assert keep_graph
        return self

    @contextlib.contextmanager
    def graph(self, captured: Gpu) -> Iterator[None]:
        self._capturing, captured.captured_calls = True, 0
        try:
            yield
        finally:
            self._capturing = False

    def replay(self) -> None:
        self.log.append("replay")
        self.now_ns += 10_000
        self.work_ms += self.device_ms * self.captured_calls

    # the call that is timed
    captured_calls = 0

    def call(self) -> tuple[Any, ...]:
        if self._capturing:
            if not self.captures:
                raise RuntimeError("operation not permitted when stream is capturing")
            self.captured_calls += 1
            return ("output",)
        self.log.append("call")
        self.now_ns += int(self.host_ms * 1e6)
        self.work_ms += self.device_ms
        self._beside_until_ns = max(self.now_ns, self._held_until_ns) + int(self.late_ms * 1e6)
        if self.waits:
            self.now_ns = max(self.now_ns, self._held_until_ns + 1)
        return ("output",)

    def refill(self) -> None:
        self.log.append("refill")

    @property
    def released(self) -> bool:
        return self.now_ns >= self._held_until_ns


class Event:
    def __init__(self, gpu: Gpu, *, enable_timing: bool) -> None:
        assert enable_timing
        self.gpu = gpu
        self.at_ms = 0.0

    def record(self, stream: Gpu) -> None:
        assert stream is self.gpu
        self.gpu.log.append("record")
        self.at_ms = self.gpu.work_ms

    def query(self) -> bool:
        self.gpu.log.append("query")
        return self.gpu.released and not self.gpu.behind

    def elapsed_time(self, end: Event) -> float:
        return (end.at_ms - self.at_ms + EMPTY_MS) / self.gpu.bent

    def synchronize(self) -> None:
        self.gpu.log.append("wait")
        self.gpu.now_ns = max(self.gpu.now_ns, self.gpu._held_until_ns)


class WholeHold(Hold):
    """Fills the GPU that it is given."""

    def __init__(self, gpu: Gpu) -> None:
        self.gpu = gpu

    def launch(self, ms: float, meeting: Meeting | None = None) -> bool:
        if not self.gpu.filled:
            return False
        self.gpu.log.append("hold" if meeting is None else "hold that meets")
        self.gpu.work_ms += ms
        self.gpu.hold_ms = ms
        self.gpu._held_until_ns = self.gpu.now_ns + int(ms * 1e6)
        return True


class Probe(ClockProbe):
    """Tells the clock that it is given, and for how long the GPU worked between its two readings."""

    def __init__(self, gpu: Gpu) -> None:
        self.gpu = gpu
        self.mhz = 1980.0
        self.step_ms = 3.2e-5
        self.around_ms = [AROUND_MS]  # of the samples to come, the last one for ever
        self.silent = False
        self.launching_ms = 0.0  # what the host takes for the second reading
        self._since_ms = self._until_ms = 0.0
        self._spun = False

    def before(self) -> None:
        self.gpu.log.append("clock")
        self._since_ms = self.gpu.work_ms

    def after(self) -> None:
        self.gpu.log.append("clock")
        self._until_ms = self.gpu.work_ms
        self._spun = not self.gpu.released  # by the call, as nothing was held
        self.gpu.now_ns += int(self.launching_ms * 1e6)

    def read(self) -> Span:
        around_ms = self.around_ms.pop(0) if len(self.around_ms) > 1 else self.around_ms[0]
        if around_ms == HOST_GAPS_MS and (self.gpu.behind or self._spun):
            around_ms = AROUND_MS  # nothing waits for the host
        ms = self._until_ms - self._since_ms + around_ms
        return Span() if self.silent else Span(ms, ms * self.mhz * 1e3, self.mhz)


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Gpu:
    made = Gpu()
    monkeypatch.setitem(sys.modules, "torch", made)
    monkeypatch.setattr(timers, "_perf_counter_ns", lambda: made.now_ns)
    monkeypatch.setattr(timers, "free_persisting_lines", lambda: made.log.append("persisting"))
    monkeypatch.setattr(timers, "node_count", lambda captured: captured.captured_calls * made.kernels)
    return made


def handles_of(gpu: Gpu) -> SavedHandles:
    return SavedHandles(TorchHandles(gpu), Probe(gpu), WholeHold(gpu))


class OtherRank(Meeting):
    """Comes to every meeting, and to the second one of a sample so much later."""

    def __init__(self, gpu: Gpu) -> None:
        self.gpu = gpu
        self.late_ms = 0.0

    def part(self) -> None:
        self.gpu.log.append("part")
        self.gpu.work_ms += self.late_ms


class Two:
    """This process beside another rank, which says what it is told to."""

    def __init__(self, gpu: Gpu, *, kernels: bool, says: Sequence[bool] = ()) -> None:
        self.meeting = OtherRank(gpu) if kernels else None
        self.gpu, self._says = gpu, iter(says)
        self.asked = 0

    def meet(self) -> None:
        self.gpu.log.append("meet")

    def any(self, mine: bool) -> bool:
        self.asked += 1
        return mine or next(self._says, False)


def timer_on(gpu: Gpu, l2_bytes: int = 0, **options: Any) -> CudaTimer:
    made = CudaTimer(l2_bytes, handles=handles_of(gpu), **options)
    gpu.log.clear()
    return made


# -- on a GPU ----------------------------------------------------------------------------------------------------------


def test_a_cold_sample_is_refill_flush_hold_event_call_event(gpu: Gpu) -> None:
    timer = timer_on(gpu)
    found = timer.sample(single(gpu.call), gpu.refill)
    assert gpu.log == [
        *("refill", "persisting", "flush", "read", "hold", "clock"),
        *("record", "call", "record"),
        *("clock", "query", "record", "wait", "synchronize"),
    ]
    assert found.device_ms == pytest.approx(1.0 + EMPTY_MS)
    assert (found.host_ms, found.discarded, found.outputs) == (0.05, 0, (("output",),))
    assert (found.sm_clock_mhz, timer.timing) == (1980.0, Timing.COLD)


def test_ranks_meet_when_all_else_is_ready(gpu: Gpu) -> None:
    timer = timer_on(gpu, latency=True, together=Two(gpu, kernels=False))
    found = timer.sample(single(gpu.call), gpu.refill)
    ready = gpu.log.index("meet")
    assert gpu.log[:ready] == ["refill", "persisting", "flush", "read", "synchronize"]
    assert gpu.log[ready + 1 :][:3] == ["clock", "record", "call"]
    assert 0 < found.start_ns <= found.end_ns


def test_kernels_of_ranks_meet_at_the_end_of_their_holds_and_once_more_behind_the_second_event(gpu: Gpu) -> None:
    together = Two(gpu, kernels=True)
    timer = timer_on(gpu, together=together)
    timer.sample(single(gpu.call), gpu.refill)
    assert gpu.log == [
        *("refill", "persisting", "flush", "read", "meet", "hold that meets", "clock"),
        *("record", "call", "record"),
        *("clock", "query", "part", "record", "wait", "synchronize"),
    ]
    # By how much earlier a rank began is how much longer its call lasted and it waited, together.
    together.meeting.late_ms = 0.5  # type: ignore[union-attr]
    waited = timer.sample(single(gpu.call), gpu.refill)
    assert waited.device_ms == pytest.approx(1.0 + EMPTY_MS)
    assert waited.start_ns == pytest.approx(-1.5e6 - EMPTY_MS * 1e6)


def test_hosts_of_ranks_that_are_not_held_wait_for_the_meeting_of_their_kernels(gpu: Gpu) -> None:
    timer = timer_on(gpu, latency=True, together=Two(gpu, kernels=True))
    timer.sample(single(gpu.call), gpu.refill)
    ready = gpu.log.index("meet")
    assert gpu.log[ready:][:6] == ["meet", "part", "synchronize", "clock", "record", "call"]


def test_ranks_hold_as_long_as_the_slowest_host_needs_and_end_their_warm_up_together(gpu: Gpu) -> None:
    together = Two(gpu, kernels=True, says=[True] * 8)
    timer = timer_on(gpu, together=together)
    timer.warm_up(single(gpu.call), gpu.refill, budget_ms=1000)
    assert timer.timing is Timing.COLD_SYNC  # the other rank's call waits for its GPU
    together = Two(gpu, kernels=True, says=[False] * 3 + [True])
    warmed = timer_on(gpu, together=together).warm_up(single(gpu.call), gpu.refill, budget_ms=1000)
    assert warmed.calls == 3 and together.asked == 4  # it was the other rank's that were steady


def test_a_warm_sample_runs_the_same_call_just_before_and_flushes_nothing(gpu: Gpu) -> None:
    timer = timer_on(gpu, cache=Cache.WARM)
    found = timer.sample(single(gpu.call), gpu.refill)
    assert gpu.log == [
        *("refill", "call", "hold", "clock", "record", "call", "record", "clock"),
        *("query", "record", "wait", "synchronize"),
    ]
    assert found.device_ms == pytest.approx(1.0 + EMPTY_MS)  # one call, not two
    assert timer.timing == Timing.WARM


def test_a_dirty_sample_flushes_and_leaves_what_the_flush_wrote(gpu: Gpu) -> None:
    timer = timer_on(gpu, cache=Cache.DIRTY)
    timer.sample(single(gpu.call), gpu.refill)
    assert gpu.log[:4] == ["refill", "persisting", "flush", "hold"]
    assert timer.timing is Timing.DIRTY


def test_the_flush_and_what_is_read_behind_it_are_at_least_twice_the_cache(gpu: Gpu) -> None:
    timer_on(gpu, 50 << 20)
    assert gpu.flushed_bytes == gpu.clean_bytes == 100 << 20
    timer_on(gpu, 1 << 20)
    assert gpu.flushed_bytes == 64 << 20  # where the driver tells too little
    timer_on(gpu, 0)
    assert gpu.flushed_bytes == 64 << 20


def test_the_time_is_the_devices_and_not_the_hosts(gpu: Gpu) -> None:
    timer = timer_on(gpu)
    gpu.device_ms, gpu.host_ms = 7.25, 0.2
    found = timer.sample(single(gpu.call), gpu.refill)
    assert (found.device_ms, found.host_ms) == (pytest.approx(7.25 + EMPTY_MS), 0.2)


def test_what_an_empty_pair_reads_is_taken_off(gpu: Gpu) -> None:
    timer = timer_on(gpu)
    timer.warm_up(single(gpu.call), gpu.refill, budget_ms=1000)
    assert timer.overhead_ms == pytest.approx(EMPTY_MS)
    assert timer.sample(single(gpu.call), gpu.refill).device_ms == pytest.approx(1.0)


PAIR_MS = 0.0025


def test_what_a_pair_reads_beyond_calls_is_taken_off_both_clocks_and_of_a_graph_what_an_empty_one_reads(
    gpu: Gpu,
) -> None:
    timer = timer_on(gpu, pair_ms=PAIR_MS)
    timer.warm_up(single(gpu.call), gpu.refill, 0.0)
    assert timer.overhead_ms == PAIR_MS
    found = timer.sample(single(gpu.call), gpu.refill)
    assert found.device_ms == pytest.approx(1.0 + EMPTY_MS - PAIR_MS)
    assert found.probe_ms == pytest.approx(found.device_ms)
    assert found.cycles == pytest.approx(found.device_ms * 1.98e6)
    several = timer.sample(batch([gpu.call] * 4), gpu.refill)
    assert several.device_ms == pytest.approx(1.0 + (EMPTY_MS - PAIR_MS) / 4)
    graph = timer.sample(timer.graph([gpu.call] * 4), gpu.refill)
    assert (graph.device_ms, timer.overhead_ms) == (pytest.approx(1.0), pytest.approx(EMPTY_MS))


class Spinning:
    """Kernels that last so long, and CUPTI, which sees how long."""

    def __init__(self, gpu: Gpu, beyond_ms: Callable[[float], float]) -> None:
        self.gpu, self.beyond_ms = gpu, beyond_ms
        self.activities: list[Activity] = []
        self._recording = False

    def launch(self, us: float) -> None:
        self.gpu.work_ms += us / 1e3
        if self._recording:
            start = 1_000_000 * len(self.activities)
            marks = [Activity(READ_KERNEL, 0, 7, at, at + 1, 0) for at in (start, start + 900_000)]
            took_ns = int(us * 1e3 - self.beyond_ms(us) * 1e6)
            self.activities += [*marks, Activity("aisp_spin", 0, 7, start + 9, start + 9 + took_ns, 0)]

    @contextlib.contextmanager
    def recorded(self) -> Iterator[Spinning]:
        self._recording = True
        yield self


@pytest.mark.parametrize("beyond_us", [1.2, 2.5])
def test_a_pair_is_held_against_cupti_with_kernels_of_known_length(
    gpu: Gpu, monkeypatch: pytest.MonkeyPatch, beyond_us: float
) -> None:
    spinning = Spinning(gpu, lambda us: beyond_us / 1e3 - EMPTY_MS)
    monkeypatch.setattr(timers, "Spin", lambda: spinning)
    monkeypatch.setattr(cupti, "opened", lambda: spinning)
    assert timers.pair_ms(handles_of(gpu), 0) == pytest.approx(beyond_us / 1e3, abs=2e-6)


def test_a_pair_is_read_behind_the_flush_of_a_sample(gpu: Gpu, monkeypatch: pytest.MonkeyPatch) -> None:
    for cache, flushed in ((Cache.COLD, ["flush", "read"]), (Cache.DIRTY, ["flush"]), (Cache.WARM, [])):
        spinning = Spinning(gpu, lambda us: 0.001)
        monkeypatch.setattr(timers, "Spin", lambda spinning=spinning: spinning)
        monkeypatch.setattr(cupti, "opened", lambda spinning=spinning: spinning)
        gpu.log.clear()
        timers.pair_ms(handles_of(gpu), 0, cache)
        assert [step for step in gpu.log if step in ("flush", "read")] == flushed * gpu.log.count("hold")


def test_lengths_that_disagree_say_nothing_of_a_pair(gpu: Gpu, monkeypatch: pytest.MonkeyPatch) -> None:
    spinning = Spinning(gpu, lambda us: us * 0.01 / 1e3)  # another clock than before
    monkeypatch.setattr(timers, "Spin", lambda: spinning)
    monkeypatch.setattr(cupti, "opened", lambda: spinning)
    with pytest.raises(RuntimeError, match=r"pairs read 1\.33 to 3\.28 us more than kernels take"):
        timers.pair_ms(handles_of(gpu), 0)


def test_a_call_that_does_nothing_takes_one_step_of_the_clock_and_never_less(gpu: Gpu) -> None:
    timer = timer_on(gpu)
    gpu.device_ms = 0.0
    timer.warm_up(single(gpu.call), gpu.refill, budget_ms=1000)
    assert timer.sample(single(gpu.call), gpu.refill).device_ms > 0


@pytest.mark.parametrize("impossible", [0.0, -1.0, float("nan")])
def test_a_time_that_no_clock_gives_is_handed_on_for_the_engine_to_refuse(gpu: Gpu, impossible: float) -> None:
    """Mended here, a patched elapsed_time would look like the fastest kernel of all."""
    timer = timer_on(gpu)
    timer.warm_up(single(gpu.call), gpu.refill, budget_ms=1000)
    timer._torch.elapsed_ms = lambda start, end: impossible
    assert repr(timer.sample(single(gpu.call), gpu.refill).device_ms) == repr(impossible)


def test_a_hold_that_was_too_short_marks_its_sample_and_grows(gpu: Gpu) -> None:
    timer = timer_on(gpu)
    gpu.host_ms = 0.4  # longer than the first hold of 0.3 ms
    first = timer.sample(single(gpu.call), gpu.refill)
    second = timer.sample(single(gpu.call), gpu.refill)
    assert (first.discarded, second.discarded) == (LEAKED, 0)
    assert DISCARDED[LEAKED] == "host time leaked into the sample"


def test_warming_up_finds_a_hold_that_outlasts_the_launch(gpu: Gpu) -> None:
    timer = timer_on(gpu)
    gpu.host_ms = 1.5
    found = timer.warm_up(single(gpu.call), gpu.refill, budget_ms=1000)
    assert (found.per_call_ms, timer.timing) == (pytest.approx(1.0), Timing.COLD)
    assert found.calls == 10  # two groups that agree
    assert timer.sample(single(gpu.call), gpu.refill).discarded == 0
    assert gpu.hold_ms > 2.5  # room for a launch that takes longer than usual


def test_a_call_that_waits_for_the_gpu_is_timed_with_its_host_and_says_so(gpu: Gpu) -> None:
    timer = timer_on(gpu)
    gpu.waits = True
    timer.warm_up(single(gpu.call), gpu.refill, budget_ms=1000)
    assert (timer.timing, timer.overhead_ms) == (Timing.COLD_SYNC, None)
    gpu.log.clear()
    found = timer.sample(single(gpu.call), gpu.refill)
    assert found.discarded == 0
    # Not held, so the flush must be over before the first launch.
    assert gpu.log[:7] == ["refill", "persisting", "flush", "read", "synchronize", "clock", "record"]


def test_a_launch_slower_than_the_longest_hold_is_timed_with_its_host(gpu: Gpu) -> None:
    timer = timer_on(gpu)
    gpu.host_ms = 2 * MAX_HOLD_MS
    timer.warm_up(single(gpu.call), gpu.refill, budget_ms=1000)
    assert timer.timing == Timing.COLD_SYNC


def test_a_launch_that_only_just_fits_into_the_longest_hold_is_not_held_either(gpu: Gpu) -> None:
    timer = timer_on(gpu)
    gpu.host_ms = 0.9 * MAX_HOLD_MS  # a little slower once, and every sample would be set aside
    timer.warm_up(single(gpu.call), gpu.refill, budget_ms=1000)
    assert timer.timing == Timing.COLD_SYNC


def test_gpus_of_ranks_are_held_together_for_one_call_that_is_traced(gpu: Gpu) -> None:
    assert timer_on(gpu, together=Two(gpu, kernels=True)).hold_together()
    assert gpu.log == ["meet", "hold that meets"]
    gpu.log.clear()
    assert not timer_on(gpu).hold_together()
    assert not gpu.log


def test_a_latency_lesson_is_never_held(gpu: Gpu) -> None:
    timer = timer_on(gpu, latency=True)
    timer.sample(single(gpu.call), gpu.refill)
    assert (timer.timing, "hold" in gpu.log) == (Timing.COLD_SYNC, False)


@pytest.mark.parametrize(
    ("options", "kind", "timing"),
    [
        ({}, "single", Timing.COLD),
        ({}, "graph", Timing.COLD_GRAPH),
        ({}, "batch", Timing.COLD_BATCH),
        ({"latency": True}, "single", Timing.COLD_SYNC),
        ({"cache": Cache.DIRTY}, "single", Timing.DIRTY),
        ({"cache": Cache.DIRTY}, "graph", Timing.DIRTY_GRAPH),
        ({"cache": Cache.DIRTY}, "batch", Timing.DIRTY_BATCH),
        ({"cache": Cache.DIRTY, "latency": True}, "single", Timing.DIRTY_SYNC),
        ({"cache": Cache.WARM}, "single", Timing.WARM),
        ({"cache": Cache.WARM}, "graph", Timing.WARM_GRAPH),
        ({"cache": Cache.WARM}, "batch", Timing.WARM_BATCH),
        ({"cache": Cache.WARM, "latency": True}, "single", Timing.WARM_SYNC),
    ],
)
def test_every_number_says_how_it_was_taken(gpu: Gpu, options: dict[str, Any], kind: str, timing: Timing) -> None:
    timer = timer_on(gpu, **options)
    timer.sample(LaunchBatch(lambda: [gpu.call()], 1, kind), gpu.refill)
    assert timer.timing is timing


def test_the_clock_under_light_load_is_the_reference(gpu: Gpu) -> None:
    given = handles_of(gpu)
    timer = CudaTimer(0, handles=given)
    assert timer.reference_mhz == 1980.0
    given.probe.mhz = 1200.0  # type: ignore[attr-defined]  # the GPU is hot by now
    timer.warm_up(single(gpu.call), gpu.refill, budget_ms=1000)
    assert timer.reference_mhz == 1980.0
    assert timer.sample(single(gpu.call), gpu.refill).sm_clock_mhz == 1200.0


# -- the second clock --------------------------------------------------------------------------------------------------


def test_what_the_probes_read_around_nothing_is_taken_off_their_time_and_their_cycles(gpu: Gpu) -> None:
    timer = timer_on(gpu)
    timer.warm_up(single(gpu.call), gpu.refill, budget_ms=1000)
    found = timer.sample(single(gpu.call), gpu.refill)
    assert (timer.probe_overhead_ms, timer.probe_step_ms) == (pytest.approx(AROUND_MS), 3.2e-5)
    assert found.probe_ms == pytest.approx(found.device_ms) == pytest.approx(1.0)
    assert found.cycles == pytest.approx(1.98e6)


def test_the_least_of_the_empty_pairs_counts_since_what_comes_between_makes_them_longer(gpu: Gpu) -> None:
    timer = timer_on(gpu)
    timer._probe.around_ms = [0.3, AROUND_MS, 0.3]  # type: ignore[attr-defined]  # a rung that disturbs most of them
    timer.read_empty_pairs()
    assert timer.probe_overhead_ms == pytest.approx(AROUND_MS)


def test_before_the_empty_pairs_were_read_and_without_counters_the_second_clock_is_unknown(gpu: Gpu) -> None:
    timer = timer_on(gpu)
    assert math.isnan(timer.sample(single(gpu.call), gpu.refill).probe_ms)
    timer._probe.silent = True  # type: ignore[attr-defined]
    timer.warm_up(single(gpu.call), gpu.refill, budget_ms=1000)
    found = timer.sample(single(gpu.call), gpu.refill)
    assert math.isnan(found.probe_ms)
    assert math.isnan(found.cycles)
    assert timer.probe_overhead_ms is None


@pytest.mark.parametrize("bent", [0.4, 1.3, 2.5, 10.0])
def test_bent_events_bend_neither_the_probes_time_nor_the_cycles(gpu: Gpu, bent: float) -> None:
    timer = timer_on(gpu)
    gpu.bent = bent
    timer.warm_up(single(gpu.call), gpu.refill, budget_ms=1000)
    found = timer.sample(single(gpu.call), gpu.refill)
    assert found.device_ms == pytest.approx(1.0 / bent)
    assert (found.probe_ms, found.cycles) == (pytest.approx(1.0), pytest.approx(1.98e6))


def test_where_the_host_is_in_the_time_both_clocks_keep_what_an_empty_pair_of_events_reads(gpu: Gpu) -> None:
    timer = timer_on(gpu, latency=True)
    timer._probe.around_ms = [HOST_GAPS_MS]  # type: ignore[attr-defined]
    timer.warm_up(single(gpu.call), gpu.refill, budget_ms=1000)
    found = timer.sample(single(gpu.call), gpu.refill)
    assert timer.overhead_ms is None
    assert timer.probe_overhead_ms == pytest.approx(HOST_GAPS_MS - EMPTY_MS)
    assert found.probe_ms == pytest.approx(found.device_ms) == pytest.approx(1.0 + EMPTY_MS)
    assert found.cycles == pytest.approx((1.0 + EMPTY_MS) * 1.98e6)


def test_behind_a_call_that_outlasts_the_host_no_launch_is_between_it_and_the_second_reading(gpu: Gpu) -> None:
    """What is around nothing where the host launches would be taken off too much there."""
    timer = timer_on(gpu, latency=True)
    timer._probe.around_ms = [HOST_GAPS_MS]  # type: ignore[attr-defined]
    timer.warm_up(single(gpu.call), gpu.refill, budget_ms=1000)
    gpu.behind = True
    found = timer.sample(single(gpu.call), gpu.refill)
    assert found.probe_ms == pytest.approx(1.0)
    assert found.cycles == pytest.approx(1.98e6)


@pytest.mark.parametrize(("launching_ms", "apart_ms"), [(0.12, 0.0), (0.05, 0.07), (0.0, 0.12)])
def test_a_reading_is_late_by_no_more_than_the_host_took_to_launch_it(
    gpu: Gpu, launching_ms: float, apart_ms: float
) -> None:
    """A host that wakes from a wait of the call's is slow: seen were 0.1 ms more than around nothing."""
    timer = timer_on(gpu, latency=True)
    timer.warm_up(single(gpu.call), gpu.refill, budget_ms=1000)
    probe: Any = timer._probe
    probe.around_ms, probe.launching_ms = [AROUND_MS + 0.12], launching_ms
    found = timer.sample(single(gpu.call), gpu.refill)
    assert found.probe_ms - found.device_ms == pytest.approx(apart_ms, abs=AROUND_MS)
    assert found.cycles == pytest.approx(found.probe_ms * 1.98e6)


def test_empty_pairs_are_read_again_where_the_stream_is_no_longer_held(gpu: Gpu) -> None:
    timer = timer_on(gpu)
    timer.warm_up(single(gpu.call), gpu.refill, budget_ms=1000)
    timer._probe.around_ms = [HOST_GAPS_MS]  # type: ignore[attr-defined]
    gpu.waits = True
    timer.warm_up(single(gpu.call), gpu.refill, budget_ms=1000)
    assert timer.timing is Timing.COLD_SYNC
    assert timer.probe_overhead_ms == pytest.approx(HOST_GAPS_MS - EMPTY_MS)


def test_a_call_that_does_nothing_takes_a_cycle_so_that_it_is_compared_in_cycles_too(gpu: Gpu) -> None:
    timer = timer_on(gpu)
    gpu.device_ms = 0.0
    timer.warm_up(single(gpu.call), gpu.refill, budget_ms=1000)
    assert timer.sample(single(gpu.call), gpu.refill).cycles >= 1.0


# -- calls too short for one pair of events ----------------------------------------------------------------------------


def test_a_graph_of_eight_calls_tells_the_time_of_one(gpu: Gpu) -> None:
    timer = timer_on(gpu)
    gpu.device_ms = 0.004
    timer.warm_up(single(gpu.call), gpu.refill, budget_ms=1000)
    launches = timer.graph([gpu.call] * 8)
    gpu.log.clear()
    found = timer.sample(launches, gpu.refill)
    assert (launches.kind, launches.calls, gpu.log.count("replay"), gpu.log.count("call")) == ("graph", 8, 1, 0)
    assert found.device_ms == pytest.approx(0.004)
    assert found.host_ms == pytest.approx(0.01 / 8)
    assert list(found.outputs) == [("output",)] * 8


def test_a_call_of_several_kernels_is_not_put_into_a_graph_which_would_shorten_their_gaps(gpu: Gpu) -> None:
    timer = timer_on(gpu)
    gpu.kernels = 3
    with pytest.raises(CaptureError, match="a call is 3 kernels"):
        timer.graph([gpu.call] * 4)


def test_a_graph_keeps_what_its_calls_read(gpu: Gpu) -> None:
    """It knows addresses only: memory given back under it would be read all the same."""

    class Buffer:
        pass

    buffer = Buffer()
    alive = weakref.ref(buffer)
    launches = timer_on(gpu).graph([functools.partial(lambda kept: gpu.call(), buffer)])
    del buffer
    gc.collect()
    assert alive() is not None
    del launches
    gc.collect()
    assert alive() is None


def test_a_batch_is_launched_behind_one_hold(gpu: Gpu) -> None:
    timer = timer_on(gpu)
    gpu.device_ms = 0.004
    timer.warm_up(batch([gpu.call] * 6), gpu.refill, budget_ms=1000)
    gpu.log.clear()
    found = timer.sample(batch([gpu.call] * 6), gpu.refill)
    assert (gpu.log.count("hold"), gpu.log.count("call"), gpu.log.count("flush")) == (1, 6, 1)
    assert found.device_ms == pytest.approx(0.004)
    assert found.discarded == 0  # the hold has grown to six launches


def test_calls_that_cannot_be_captured_say_so(gpu: Gpu) -> None:
    timer = timer_on(gpu)
    gpu.captures = False
    with pytest.raises(CaptureError, match="not permitted when stream is capturing"):
        timer.graph([gpu.call] * 4)


# -- what is not in the time -------------------------------------------------------------------------------------------


def test_work_that_ends_after_the_timed_stream_shows_as_lag(gpu: Gpu) -> None:
    timer = timer_on(gpu)
    timer.warm_up(single(gpu.call), gpu.refill, budget_ms=1000)
    honest = timer.sample(single(gpu.call), gpu.refill)
    assert (honest.lag_ms, honest.usual_lag_ms) == (0.0, 0.0)
    gpu.late_ms = 2.5
    assert timer.sample(single(gpu.call), gpu.refill).lag_ms == pytest.approx(2.5)


def test_every_gpu_that_the_process_has_used_is_waited_for_and_ours_last(gpu: Gpu) -> None:
    gpu.devices = 4
    timer = timer_on(gpu)
    timer.sample(single(gpu.call), gpu.refill)
    assert gpu.log[-2:] == ["synchronize 2", "synchronize"]
    assert gpu.current_device_set == 0


def test_where_the_whole_gpu_cannot_be_held_the_timed_stream_still_is(gpu: Gpu) -> None:
    gpu.filled = False
    timer = timer_on(gpu)
    timer.sample(single(gpu.call), gpu.refill)
    assert gpu.log[4:6] == ["hold", "clock"]
    assert gpu.hold_ms == pytest.approx(0.3, rel=0.01)


def test_a_lesson_that_leaves_another_device_behind_is_timed_on_ours(gpu: Gpu) -> None:
    timer = timer_on(gpu)

    def wander() -> tuple[tuple[Any, ...]]:
        gpu.current_device_set = 3
        return (gpu.call(),)

    timer.sample(LaunchBatch(wander), gpu.refill)
    assert gpu.log[-1] == "synchronize"  # and not "synchronize 3"


def test_replaced_clocks_and_events_change_no_sample(gpu: Gpu, monkeypatch: pytest.MonkeyPatch) -> None:
    timer = timer_on(gpu)

    def never(*args: object) -> Any:
        raise AssertionError("the lesson's own clock was asked")

    for place, name in ((time, "perf_counter_ns"), (time, "monotonic_ns"), (time, "process_time_ns")):
        monkeypatch.setattr(place, name, never)
    for name in ("record", "query", "elapsed_time", "synchronize"):
        monkeypatch.setattr(Event, name, never)
    assert timer.sample(single(gpu.call), gpu.refill).device_ms == pytest.approx(1.0 + EMPTY_MS)
    monkeypatch.undo()
    for name in ("perf_counter_ns", "monotonic_ns", "process_time_ns"):
        monkeypatch.setattr(time, name, never)
    assert HostTimer().sample(single(lambda: ()), lambda: None).device_ms >= 0


def test_a_hold_says_how_long_and_ends_by_its_cycles_where_the_timer_stands_still(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    launched: list[tuple[object, ...]] = []
    held = Hold.__new__(Hold)
    held._blocks, held._threads, held._kernel = 264, 1024, "kernel"  # type: ignore[assignment]
    held._launch = lambda *args: launched.append(args)
    assert held.launch(2.0)
    times = (np.uint64(2_000_000), np.uint64(2e-3 * MOST_CLOCK_HZ))
    assert launched == [("kernel", 264, 1024, *times, *NOBODY)]


def test_kernels_of_ranks_count_their_meetings_in_step() -> None:
    launched: list[tuple[Any, ...]] = []
    held = Hold.__new__(Hold)
    held._blocks, held._threads, held._kernel = 264, 1024, "kernel"  # type: ignore[assignment]
    meeting = Meeting.__new__(Meeting)
    meeting.page, meeting.met, meeting._kernel = 4096, "met", "part"  # type: ignore[assignment]
    meeting._rank, meeting._ranks, meeting._turn = np.uint32(1), np.uint32(4), 0
    held._launch = meeting._launch = lambda *args: launched.append(args)
    for _ in range(2):
        assert held.launch(0.5, meeting)
        meeting.part()
    assert [args[0] for args in launched] == ["kernel", "part"] * 2
    assert [args[-5:-2] for args in launched] == [(1, 4, turn) for turn in (1, 2, 3, 4)]
    assert all(args[-2] == PATIENCE_S * 1e9 for args in launched)


def test_a_rank_on_another_gpu_captures_there(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    streams: list[object] = []

    def captured(calls: Callable[[], object]) -> tuple[None, None]:
        streams.append(torch.cuda.graph.default_capture_stream)
        raise CaptureError("there is no GPU")

    monkeypatch.setattr(torch.cuda.graph, "default_capture_stream", "a stream of the first GPU")
    monkeypatch.setattr(torch, "zeros", lambda *size, device: torch.empty(0))
    for name, made in (("TorchHandles", lambda torch: "torch"), ("ClockProbe", object), ("Hold", object)):
        monkeypatch.setattr(timers, name, made)
    monkeypatch.setattr(timers, "capture", captured)
    monkeypatch.setattr(timers, "_saved", None)
    timers.stand_ready()
    timers.stand_ready(anew=True)
    assert streams == ["a stream of the first GPU", None]


def test_without_a_gpu_only_the_stream_can_be_held_and_the_hold_says_so() -> None:
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    held = Hold()
    assert held.launch(1.0) is False
    assert "only the timed stream is held" in held.note


@pytest.mark.parametrize(
    ("entry", "source"),
    [("aisp_hold", _HOLD_SOURCE), ("aisp_part", _PART_SOURCE), ("aisp_spin", _SPIN_SOURCE), ("read_clocks", _SOURCE)],
)
@pytest.mark.parametrize("arch", ["sm_80", "sm_86", "sm_90a", "sm_100a"])
def test_our_kernels_compile_for_the_gpus_that_we_name(arch: str, entry: str, source: str) -> None:
    pytest.importorskip("cuda.bindings.nvrtc")
    from aisp.kernels import cuda

    cubin, lowered = cuda.compile_cubin(cuda.Kernel(f"{entry}.cu", source, entry, digest=entry), arch)
    assert (cubin[:4], lowered) == (b"\x7fELF", entry)


# -- other Python threads ----------------------------------------------------------------------------------------------


def spin(ms: float) -> None:
    end_ns = time.thread_time_ns() + int(ms * 1e6)
    while time.thread_time_ns() < end_ns:
        math.sqrt(2.0)


def test_a_thread_that_works_on_after_the_call_is_seen() -> None:
    timer = HostTimer()
    at_work: list[threading.Thread] = []

    def call() -> tuple[Any, ...]:
        thread = threading.Thread(target=spin, args=(200.0,))
        thread.start()
        at_work.append(thread)
        return ()

    first = timer.sample(single(call), lambda: None)
    assert first.left_ms >= 0.5
    time.sleep(0.01)  # lets it work
    second = timer.sample(single(call), lambda: None)
    for thread in at_work:
        thread.join()
    assert second.beside_ms > 0.5


def test_a_thread_that_the_call_waits_for_is_not_left() -> None:
    timer = HostTimer()

    def call() -> tuple[Any, ...]:
        thread = threading.Thread(target=spin, args=(1.0,))
        thread.start()
        thread.join()
        return ()

    found = [timer.sample(single(call), lambda: None).left_ms for _ in range(15)]
    assert sorted(found)[7] < 0.2


def test_a_thread_that_sleeps_until_nobody_looks_is_left() -> None:
    timer = HostTimer()
    at_work: list[threading.Timer] = []

    def call() -> tuple[Any, ...]:
        at_work.append(threading.Timer(0.1, lambda: None))
        at_work[-1].start()
        return ()

    assert timer.sample(single(call), lambda: None).left_ms == timers.LEFT_ENOUGH_MS
    at_work[0].join()


@pytest.mark.parametrize(
    ("each_ns", "cores", "left_ms"),
    [
        (timers.ENDING_NS, 1, 0.0),  # each thread takes some processor time to end
        (timers.ENDING_NS + 40_000, 32, 0.04),  # and more of it where a machine is slow: they do so side by side
        (timers.ENDING_NS + 20_000, 1, 0.64),  # or one after the other
        (timers.ENDING_NS + 400_000, 32, 0.4),  # work that the call should have waited for
    ],
)
def test_a_pool_outlasts_the_call_by_what_its_threads_take_side_by_side(
    monkeypatch: pytest.MonkeyPatch, each_ns: int, cores: int, left_ms: float
) -> None:
    beside = beside_a_pool(monkeypatch, [each_ns] * 32)
    monkeypatch.setattr(timers, "CORES", cores)
    assert beside.after() == pytest.approx(left_ms)


@pytest.mark.parametrize(("used_ns", "left_ms"), [(32 * timers.ENDING_NS, 0.0), (40 * timers.ENDING_NS, 0.4)])
def test_the_thread_that_ends_a_pool_takes_time_for_each_of_it(
    monkeypatch: pytest.MonkeyPatch, used_ns: int, left_ms: float
) -> None:
    beside = beside_a_pool(monkeypatch, [used_ns] + [timers.ENDING_NS] * 31)
    monkeypatch.setattr(timers, "CORES", 32)
    assert beside.after() == pytest.approx(left_ms)


def beside_a_pool(monkeypatch: pytest.MonkeyPatch, used_ns: Sequence[int]) -> timers.Beside:
    """A pool that began during a call and is ending, whose threads use so much when the call has returned."""
    looks = {str(number): iter([0, ns, None]) for number, ns in enumerate(used_ns)}  # begun, on its way, gone
    monkeypatch.setattr(timers, "_threads", lambda: frozenset(looks))
    monkeypatch.setattr(timers, "_used_ns", lambda thread: next(looks[thread]))
    beside = timers.Beside()
    monkeypatch.setattr(beside, "_threads", frozenset())
    return beside


@pytest.mark.parametrize(("in_line", "left_ms"), [(True, 0.0), (False, timers.LEFT_ENOUGH_MS)])
def test_a_thread_that_stands_in_line_to_end_is_waited_for(
    monkeypatch: pytest.MonkeyPatch, in_line: bool, left_ms: float
) -> None:
    beside, gone_ns = timers.Beside(), time.monotonic_ns() + 4 * timers.LEFT_WAIT_NS
    monkeypatch.setattr(timers, "_threads", lambda: frozenset({"1"}))
    monkeypatch.setattr(timers, "_used_ns", lambda _: 0 if time.monotonic_ns() < gone_ns else None)
    monkeypatch.setattr(timers, "_in_line", lambda _: in_line)
    assert beside.after() == left_ms


def test_a_bare_thread_that_stands_in_no_list_is_seen_as_well() -> None:
    timer = HostTimer()

    def call() -> tuple[Any, ...]:
        _thread.start_new_thread(spin, (30.0,))
        return ()

    # On a busy machine the thread may not have had a core by the time that is looked.
    assert any(timer.sample(single(call), lambda: None).left_ms > 0.5 for _ in range(10))


def test_a_pool_that_rests_between_calls_is_not_at_work() -> None:
    timer = HostTimer()
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(spin, [1.0, 1.0]))

        def call() -> tuple[Any, ...]:
            list(pool.map(spin, [2.0, 2.0]))
            return ()

        found = [timer.sample(single(call), lambda: None) for _ in range(10)]
    assert sorted(sample.left_ms for sample in found)[5] == 0
    assert sorted(sample.beside_ms for sample in found)[5] < 0.5


# -- the clock ---------------------------------------------------------------------------------------------------------


def readings(sms: int, cycles: list[int], ns: list[int]) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    first = np.zeros((sms, 2), np.int64)
    second = np.zeros((sms, 2), np.int64)
    for sm, (more, later) in enumerate(zip(cycles, ns, strict=True)):
        first[sm] = (10_000_000 * (sm + 1), 5_000)  # each SM counts from a start of its own
        second[sm] = first[sm] + (more, later)
    return first, second


def test_the_clock_is_cycles_over_time_of_the_same_sm() -> None:
    assert span(*readings(8, [19_800] * 6, [10_000] * 6)).mhz == pytest.approx(1980.0)


@pytest.mark.parametrize("cycles", [90_000, 1_000])
def test_one_sm_that_says_something_else_does_not_matter(cycles: int) -> None:
    found = span(*readings(8, [19_800] * 5 + [cycles], [10_000] * 6))
    assert (found.mhz, found.cycles) == (pytest.approx(1980.0), 19_800)


def test_the_time_is_from_the_last_reading_before_to_the_first_one_after() -> None:
    first, second = readings(8, [19_800] * 6, [10_000] * 6)
    first[2, 1] += 900  # the events were between these two
    second[4, 1] -= 700
    assert span(first, second).ms == pytest.approx((10_000 - 900 - 700) / 1e6)


def test_counters_of_sms_that_stood_still_while_they_had_nothing_to_do_are_left_out() -> None:
    assert span(*readings(8, [7_000] * 4 + [19_800] * 2, [10_000] * 6)).cycles == 19_800
    assert span(*readings(8, [19_700] * 4 + [19_800] * 2, [10_000] * 6)).cycles == 19_700


def test_too_few_readings_are_no_clock() -> None:
    for too_few in (([], []), ([19_800] * 3, [10_000] * 3), ([19_800] * 6, [0] * 6)):
        found = span(*readings(8, *too_few))
        assert all(map(math.isnan, (found.ms, found.cycles, found.mhz)))


@pytest.mark.parametrize(
    ("timers_ns", "step_ms"),
    [
        ([0, 0, 64_000, 64_064, 64_032, 64_064], 3.2e-5),
        ([0, 5_120, 8_192, 9_216], 1.024e-3),
        ([7_000_000, 7_000_000, 8_000_000], 1.0),
        ([7_000_000, 7_000_000, 0], None),
    ],
)
def test_the_step_of_the_timer_is_the_smallest_difference_between_its_readings(
    timers_ns: list[int], step_ms: float | None
) -> None:
    assert _step_ms(timers_ns) == step_ms


def test_without_a_gpu_the_clock_is_unknown_and_says_why() -> None:
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    probe = ClockProbe()
    probe.before()
    probe.after()
    assert math.isnan(probe.read().mhz)
    assert probe.note
    assert probe.step_ms is None


def test_the_smallest_step_is_not_rounding() -> None:
    assert _smallest_step([1.248e-3, 1.28e-3, 1.28e-3, 1.312e-3], 1e-5) == pytest.approx(3.2e-5)
    assert _smallest_step([20.0, 20.000002, 20.5], 1e-5) == pytest.approx(0.5, abs=1e-4)
    assert _smallest_step([1.0, 1.0], 1e-5) is None


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

    monkeypatch.setattr(timers, "_perf_counter_ns", lambda: now)
    monkeypatch.setattr(timers, "_process_time_ns", lambda: 2 * now)  # two threads at work
    together = types.SimpleNamespace(meeting=None, meet=spend("meet", 50.0), any=bool)
    found = HostTimer(together).sample(single(spend("call", 3.5)), spend("refill", 1000.0))  # type: ignore[arg-type]
    assert log == ["refill", "meet", "call"]
    assert (found.device_ms, found.host_ms, found.discarded) == (3.5, 7.0, 0)
    assert found.outputs == (("call",),)
    assert math.isnan(found.sm_clock_mhz)


def test_a_clock_that_stands_still_is_handed_on_as_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timers, "_perf_counter_ns", lambda: 5)
    assert HostTimer().sample(single(lambda: ()), lambda: None).device_ms == 0


def test_samples_end_in_order_on_the_clock_that_telemetry_uses() -> None:
    before = time.monotonic_ns()
    ends = [HostTimer().sample(single(lambda: ()), lambda: None).end_ns for _ in range(5)]
    assert before <= ends[0]
    assert ends == sorted(ends)
    assert ends[-1] <= time.monotonic_ns()


def test_the_cpus_clock_tells_its_smallest_step() -> None:
    resolution_ms = HostTimer().resolution_ms
    assert resolution_ms is not None
    assert 0 < resolution_ms < 0.1


# -- until it is steady ------------------------------------------------------------------------------------------------


def steady(times: list[float], budget_ms: float = 1e6) -> WarmedUp:
    """Warm-up over calls that take these times; the last one for ever."""
    given = iter(times)
    return _until_steady(lambda: next(given, times[-1]), budget_ms)


def test_it_ends_when_two_groups_of_five_agree() -> None:
    assert steady([2.0]) == WarmedUp(2.0, 10)
    # Compilation and caches: falling times are waited out.
    assert steady([500.0, 50.0, 9.0, 8.0, 7.0, 6.0, 5.0, 4.0, 3.0, 2.5, 2.0]) == WarmedUp(2.0, 20)


def test_one_interrupted_call_in_a_group_does_not_matter() -> None:
    assert steady([1.0, 1.0, 90.0, 1.0, 1.0, 1.0, 1.0, 1.0, 70.0, 1.0]) == WarmedUp(1.0, 10)


def test_it_ends_with_its_budget_where_nothing_gets_steady() -> None:
    swing = [1.0, 1.0, 1.0, 1.0, 1.0, 2.0, 2.0, 2.0, 2.0, 2.0] * 100_000
    found = steady(swing, budget_ms=20)
    assert found.per_call_ms in (1.0, 2.0)
    assert 1 <= found.calls < 1_000_000


def test_a_call_that_takes_longer_than_the_whole_budget_is_made_once() -> None:
    assert steady([5.0], budget_ms=-1.0) == WarmedUp(5.0, 1)
