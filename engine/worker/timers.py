"""Taking one sample. Everything that is not the call stands outside the two time stamps.

On a GPU, cold: refill the inputs, flush the L2, hold the stream until the host has launched everything, event, calls,
event. The hold is a kernel that spins for a while: the launch cost of a call that is all kernels never shows. A call
that waits for the GPU itself outlasts any hold; that is noticed, and its samples say so. What an empty event pair
reads is taken off (1.28 us on an H100; a pair around a kernel still reads some 1.2 us more than the profiler).

A call of a few microseconds is timed in company: a replayed graph of several calls between one pair of events, each
on buffers of its own, so that the data of every one is cold. Where capture is impossible, or a call has more than one
kernel, they are launched one by one behind the hold (some 0.7 us more per call than in a graph, on an H100): a graph
would shorten the gaps between the kernels of a call, which are the call's own.

On a CPU: refill, monotonic clock, call, monotonic clock. The caches are as the refill left them.
"""

from __future__ import annotations

import itertools
import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from engine.worker.probe import ClockProbe, free_persisting_lines
from store.outcomes import Timing

if TYPE_CHECKING:
    import torch

Outputs = tuple["torch.Tensor", ...]
MAX_HOLD_MS = 20.0
LEAKED = 2  # store.records.DISCARDED: host time leaked into the sample
EMPTY_PAIRS = 25
EVENT_ROUNDING_MS = 1e-5  # event times come as float32: smaller steps are rounding


class CaptureError(Exception):
    """The calls cannot be captured into a graph, or would not be the same in one. The message is a clause."""


@dataclass(frozen=True, slots=True)
class Shot:
    """What one sample times: one call, or several that stand for one.

    Attributes:
        launch: makes all calls; their outputs, in order.
        calls: how many.
        kind: "single", "batch" (launched one by one) or "graph" (one replay).
        held: what the launch reads without naming it, and what must therefore live as long: a graph knows addresses.
    """

    launch: Callable[[], Sequence[Outputs]]
    calls: int = 1
    kind: str = "single"
    held: object = None


def single(call: Callable[[], Outputs]) -> Shot:
    """One call."""
    return Shot(lambda: (call(),))


def batch(calls: Sequence[Callable[[], Outputs]]) -> Shot:
    """Several calls, one after the other."""
    return Shot(lambda: [call() for call in calls], len(calls), "batch")


@dataclass(frozen=True, slots=True)
class Sample:
    """One sample: times per call; `discarded` is 0 or why it does not count; outputs of every call."""

    device_ms: float
    host_ms: float
    end_ns: int
    discarded: int
    sm_clock_mhz: float
    outputs: Sequence[Outputs]


@dataclass(frozen=True, slots=True)
class WarmedUp:
    """What warming up found: time per call, and how many calls it took."""

    per_call_ms: float
    calls: int


class Timer(Protocol):
    """Takes samples of a shot.

    Attributes:
        timing: how the last samples were taken.
        resolution_ms: smallest step of its clock that was seen; None before the warm-up.
        overhead_ms: what is taken off every sample; None where nothing is.
        reference_mhz: highest SM clock seen under light load; NaN where unknown.
    """

    timing: Timing
    resolution_ms: float | None
    overhead_ms: float | None
    reference_mhz: float

    def warm_up(self, shot: Shot, refill: Callable[[], None], budget_ms: float) -> WarmedUp:
        """Sample until the time per call is steady or the budget is spent."""
        ...

    def sample(self, shot: Shot, refill: Callable[[], None]) -> Sample:
        """Take one sample."""
        ...


class HostTimer:
    """CPU targets."""

    timing = Timing.HOST
    overhead_ms: float | None = None
    reference_mhz = math.nan

    def __init__(self) -> None:
        self.resolution_ms: float | None = _smallest_step([time.perf_counter_ns() / 1e6 for _ in range(1000)], 0.0)

    def warm_up(self, shot: Shot, refill: Callable[[], None], budget_ms: float) -> WarmedUp:
        """See Timer."""
        return _until_steady(lambda: self.sample(shot, refill).device_ms, budget_ms)

    def sample(self, shot: Shot, refill: Callable[[], None]) -> Sample:
        """See Timer. `host_ms` is the CPU time of the whole process, all threads together."""
        refill()
        cpu_start = time.process_time_ns()
        start = time.perf_counter_ns()
        outputs = shot.launch()
        end = time.perf_counter_ns()
        cpu_end = time.process_time_ns()
        # A clock that does not advance is the engine's to refuse, not ours to mend.
        elapsed_ms = (end - start) / 1e6 / shot.calls
        return Sample(elapsed_ms, (cpu_end - cpu_start) / 1e6 / shot.calls, time.monotonic_ns(), 0, math.nan, outputs)


class CudaTimer:
    """GPU targets.

    Args:
        l2_bytes: size of the cache to flush.
        latency: never hold the stream: what the host takes to launch is what the lesson is about.
        warm: do not flush; the same shot runs just before, untimed.
        probe: reads the SM clock; a new one by default.
    """

    def __init__(
        self, l2_bytes: int, *, latency: bool = False, warm: bool = False, probe: ClockProbe | None = None
    ) -> None:
        import torch

        self._torch = torch
        self._warm = warm
        self._flush = torch.empty(max(2 * l2_bytes, 64 << 20) // 4, dtype=torch.int32, device="cuda")
        self._start = torch.cuda.Event(enable_timing=True)
        self._end = torch.cuda.Event(enable_timing=True)
        self._probe = probe or ClockProbe()
        self._held = not latency
        self._hold_ms = 0.3
        self._readings_ms: deque[float] = deque(maxlen=200)
        self.resolution_ms: float | None = None
        self.overhead_ms: float | None = None
        self.reference_mhz = math.nan
        self.timing = self._timing("single")
        self._cycles_per_ms = self._calibrate()

    def _timing(self, kind: str) -> Timing:
        cache = "warm" if self._warm else "cold"
        if not self._held:
            return Timing(f"{cache}+host")
        return Timing(cache if kind == "single" else f"{cache} {kind}")

    def _calibrate(self) -> float:
        """Spin cycles in a millisecond at the clock that runs now, which is also the clock under light load."""
        torch, cycles = self._torch, 2_000_000
        torch.cuda._sleep(cycles)
        self._probe.before()
        self._start.record()
        torch.cuda._sleep(cycles)
        self._end.record()
        self._probe.after()
        torch.cuda.synchronize()
        found = self._probe.read_mhz()
        if not found <= self.reference_mhz:  # either may be NaN
            self.reference_mhz = found
        return cycles / max(float(self._start.elapsed_time(self._end)), 1e-3)

    def graph(self, calls: Sequence[Callable[[], Outputs]]) -> Shot:
        """Several calls as one graph. Their outputs lie at the same addresses after every replay.

        Raises:
            CaptureError: a call does what cannot be captured (waits for the GPU, launches a graph of its own), or is
                more than one kernel.
        """
        torch = self._torch
        captured = torch.cuda.CUDAGraph(keep_graph=True)
        outputs: list[Outputs] = []
        torch.cuda.synchronize()
        try:
            with torch.cuda.graph(captured):
                outputs = [call() for call in calls]
        except Exception as error:
            # Whatever the calls raise: only that they cannot be captured follows from it.
            torch.cuda.synchronize()
            words = " ".join(str(error).split())[:200]
            raise CaptureError(f"it cannot be captured ({type(error).__name__}: {words})") from error
        nodes = node_count(captured)
        if nodes > len(calls):
            raise CaptureError(f"a call is {nodes / len(calls):.0f} kernels, and a graph would shorten their gaps")

        def replay() -> Sequence[Outputs]:
            captured.replay()
            return outputs

        return Shot(replay, len(calls), "graph", held=tuple(calls))

    def warm_up(self, shot: Shot, refill: Callable[[], None], budget_ms: float) -> WarmedUp:
        """See Timer. Also finds how long the stream must be held, and whether the call waits for the GPU."""
        self.sample(shot, refill)
        leaks = 0
        for _ in range(8 if self._held else 0):
            found = self.sample(shot, refill)
            if not found.discarded:
                leaks = 0
                break
            leaks += 1
            self._hold_ms = min(MAX_HOLD_MS, max(2 * self._hold_ms, 2 * found.host_ms * shot.calls))
        if leaks >= 8:
            self._held = False
        if self._held and self.overhead_ms is None:
            empty = Shot(lambda: ())
            readings_ms = sorted(self._pair(empty)[0] for _ in range(EMPTY_PAIRS))
            self.overhead_ms = readings_ms[EMPTY_PAIRS // 2]
            self.resolution_ms = _smallest_step(readings_ms, EVENT_ROUNDING_MS)
        result = _until_steady(lambda: self.sample(shot, refill).device_ms, budget_ms)
        if self._held:
            typical_ms = min(self.sample(shot, refill).host_ms for _ in range(3)) * shot.calls
            self._hold_ms = min(MAX_HOLD_MS, 3 * typical_ms + 0.1)
        self._cycles_per_ms = self._calibrate()
        self.resolution_ms = _smallest_step(self._readings_ms, EVENT_ROUNDING_MS) or self.resolution_ms
        return result

    def sample(self, shot: Shot, refill: Callable[[], None]) -> Sample:
        """See Timer."""
        refill()
        if self._warm:
            shot.launch()
        else:
            free_persisting_lines()
            self._flush.zero_()
        pair_ms, host_ms, leaked, outputs = self._pair(shot)
        self._readings_ms.append(pair_ms)
        net_ms = pair_ms
        if self._held and self.overhead_ms is not None and pair_ms > 0:  # else it is the engine's to refuse
            net_ms = max(pair_ms - self.overhead_ms, self.resolution_ms or EVENT_ROUNDING_MS)
        if leaked:
            self._hold_ms = min(MAX_HOLD_MS, self._hold_ms * 1.5)
        self.timing = self._timing(shot.kind)
        return Sample(
            net_ms / shot.calls,
            host_ms / shot.calls,
            time.monotonic_ns(),
            LEAKED if leaked else 0,
            self._probe.read_mhz(),
            outputs,
        )

    def _pair(self, shot: Shot) -> tuple[float, float, bool, Sequence[Outputs]]:
        """Event time in ms, host time in ms, whether the hold was too short, and the outputs."""
        torch = self._torch
        if self._held:
            torch.cuda._sleep(int(self._hold_ms * self._cycles_per_ms))
        else:
            torch.cuda.synchronize()  # else the flush would hide the first launches
        self._probe.before()
        self._start.record()
        before = time.perf_counter_ns()
        outputs = shot.launch()
        host_ms = (time.perf_counter_ns() - before) / 1e6
        self._end.record()
        # The start event has passed although the host has only now finished launching: the hold was too short.
        leaked = self._held and bool(self._start.query())
        self._probe.after()
        torch.cuda.synchronize()
        return float(self._start.elapsed_time(self._end)), host_ms, leaked, outputs


def node_count(captured: torch.cuda.CUDAGraph) -> int:
    """How many kernels, copies and fills a captured graph has."""
    try:
        from cuda.bindings import driver
    except ImportError as error:
        raise CaptureError(f"its graph cannot be looked into ({error})") from error
    status, *_, count = driver.cuGraphGetNodes(driver.CUgraph(captured.raw_cuda_graph()))
    if status != driver.CUresult.CUDA_SUCCESS:
        raise CaptureError(f"its graph cannot be looked into ({status.name})")
    return int(count)


def _smallest_step(readings_ms: Iterable[float], rounding_ms: float) -> float | None:
    """Smallest difference between two readings that differ by more than rounding; None where none do."""
    ordered = sorted(set(readings_ms))
    steps = [b - a for a, b in itertools.pairwise(ordered) if b - a > rounding_ms]
    return min(steps, default=None)


def _until_steady(once: Callable[[], float], budget_ms: float) -> WarmedUp:
    """Call until the medians of two successive groups of five differ by under 3 %, or the budget is spent."""
    deadline = time.monotonic() + budget_ms / 1e3
    times: list[float] = []
    while True:
        times.append(once())
        if len(times) >= 10 and len(times) % 5 == 0:
            new, old = sorted(times[-5:])[2], sorted(times[-10:-5])[2]
            if abs(new - old) < 0.03 * old:
                break
        if time.monotonic() > deadline:
            break
    tail = sorted(times[-5:])
    return WarmedUp(tail[len(tail) // 2], len(times))
