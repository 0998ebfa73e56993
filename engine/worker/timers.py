"""Taking one sample. Everything that is not the call stands outside the two time stamps.

On a GPU, cold: refill the inputs, flush the L2, hold the stream until the host has launched the whole call, event,
call, event. The hold is a kernel that spins for a while: the launch cost of a call that is all kernels never
shows. A call that waits for the GPU itself outlasts any hold; that is noticed, and its samples say so.

On a CPU: refill, monotonic clock, call, monotonic clock. The caches are as the refill left them.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import torch

Outputs = tuple["torch.Tensor", ...]
MAX_HOLD_MS = 20.0
LEAKED = 2  # store.records.DISCARDED: host time leaked into the sample


@dataclass(frozen=True, slots=True)
class Sample:
    """One timed call: `discarded` is 0 or why it does not count."""

    device_ms: float
    host_ms: float
    end_ns: int
    discarded: int
    outputs: Outputs


class Timer(Protocol):
    """Takes samples of a call."""

    timing: str

    def warm_up(self, call: Callable[[], Outputs], refill: Callable[[], None], budget_ms: float) -> tuple[float, int]:
        """Call until the time per call is steady or the budget is spent; (ms per call, number of calls)."""
        ...

    def sample(self, call: Callable[[], Outputs], refill: Callable[[], None]) -> Sample:
        """Take one sample."""
        ...


class HostTimer:
    """CPU targets."""

    timing = "host"

    def warm_up(self, call: Callable[[], Outputs], refill: Callable[[], None], budget_ms: float) -> tuple[float, int]:
        """See Timer."""
        return _until_steady(lambda: self.sample(call, refill).device_ms, budget_ms)

    def sample(self, call: Callable[[], Outputs], refill: Callable[[], None]) -> Sample:
        """See Timer."""
        refill()
        start = time.perf_counter_ns()
        outputs = call()
        end = time.perf_counter_ns()
        elapsed_ms = (end - start) / 1e6  # a clock that does not advance is the engine's to refuse, not ours to mend
        return Sample(elapsed_ms, elapsed_ms, time.monotonic_ns(), 0, outputs)


class CudaTimer:
    """GPU targets: cold L2, stream held.

    Args:
        l2_bytes: size of the cache to flush.
        latency: never hold the stream: what the host takes to launch is what the lesson is about.
    """

    def __init__(self, l2_bytes: int, *, latency: bool = False) -> None:
        import torch

        self._torch = torch
        self.timing = "cold+host" if latency else "cold"
        self._flush = torch.empty(max(2 * l2_bytes, 64 << 20) // 4, dtype=torch.int32, device="cuda")
        self._start = torch.cuda.Event(enable_timing=True)
        self._end = torch.cuda.Event(enable_timing=True)
        self._hold_ms = 0.0 if latency else 0.3
        self._cycles_per_ms = self._calibrate()

    def _calibrate(self) -> float:
        """Spin cycles in a millisecond at the clock that runs now."""
        torch, cycles = self._torch, 2_000_000
        torch.cuda._sleep(cycles)
        self._start.record()
        torch.cuda._sleep(cycles)
        self._end.record()
        torch.cuda.synchronize()
        return cycles / max(float(self._start.elapsed_time(self._end)), 1e-3)

    def warm_up(self, call: Callable[[], Outputs], refill: Callable[[], None], budget_ms: float) -> tuple[float, int]:
        """See Timer. Also finds how long the stream must be held, and whether the call waits for the GPU."""
        self.sample(call, refill)
        leaks = 0
        hosts: list[float] = []
        for _ in range(8 if self._hold_ms else 0):
            found = self.sample(call, refill)
            hosts.append(found.host_ms)
            if not found.discarded:
                leaks = 0
                break
            leaks += 1
            self._hold_ms = min(MAX_HOLD_MS, max(2 * self._hold_ms, 2 * found.host_ms))
        if leaks >= 8:
            self.timing, self._hold_ms = "cold+host", 0.0
        result = _until_steady(lambda: self.sample(call, refill).device_ms, budget_ms)
        if self.timing == "cold":
            typical = min(self.sample(call, refill).host_ms for _ in range(3))
            self._hold_ms = min(MAX_HOLD_MS, 3 * typical + 0.1)
        return result

    def sample(self, call: Callable[[], Outputs], refill: Callable[[], None]) -> Sample:
        """See Timer."""
        torch = self._torch
        refill()
        self._flush.zero_()
        if self._hold_ms:
            torch.cuda._sleep(int(self._hold_ms * self._cycles_per_ms))
        else:
            torch.cuda.synchronize()  # else the flush would hide the first launches
        self._start.record()
        before = time.perf_counter_ns()
        outputs = call()
        host_ms = (time.perf_counter_ns() - before) / 1e6
        self._end.record()
        # The start event has passed although the host has only now finished launching: the hold was too short.
        leaked = bool(self._hold_ms) and self._start.query()
        torch.cuda.synchronize()
        device_ms = float(self._start.elapsed_time(self._end))
        if leaked:
            self._hold_ms = min(MAX_HOLD_MS, self._hold_ms * 1.5)
        return Sample(device_ms, host_ms, time.monotonic_ns(), LEAKED if leaked else 0, outputs)


def _until_steady(once: Callable[[], float], budget_ms: float) -> tuple[float, int]:
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
    return tail[len(tail) // 2], len(times)
