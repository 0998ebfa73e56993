"""The profiler's account of calls: how long their kernels ran, by the GPU's own record of start and end (CUPTI).

Calls are spaced as aisp spaces its samples: flush the L2, and read away what the flush wrote unless that is to stay;
hold the stream until the call is launched, call, wait.
A second short hold ends each call, so that its kernels are those between two holds, whatever they are called.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from aisp.engine.worker.timers import ROW_WORDS
from aisp.kernels.catalog.contracts import Cache

HOLD_KERNEL = "spin_kernel"  # what torch.cuda._sleep launches
ROW_BYTES = 4 * ROW_WORDS  # of what is read behind a flush, one result each
HOLD_CYCLES = 1_000_000  # half a millisecond: time enough to launch some fifty kernels

Event = tuple[str, int, int]
"""Name, start and end in ns."""


@dataclass(frozen=True, slots=True)
class Call:
    """One call's kernels and copies, in ms: their durations summed, and from the first start to the last end."""

    kernels: int
    sum_ms: float
    span_ms: float


def calls_of(events: Sequence[Event]) -> list[Call]:
    """The calls among the GPU's events of a session of `profiled`, in order.

    Raises:
        ValueError: the holds do not come in pairs.
    """
    found: list[Call] = []
    inside: list[Event] | None = None
    for event in sorted(events, key=lambda event: event[1]):
        if HOLD_KERNEL in event[0]:
            if inside is None:
                inside = []
                continue
            if inside:
                total_ns = sum(end - start for _, start, end in inside)
                span_ns = max(end for _, _, end in inside) - inside[0][1]
                found.append(Call(len(inside), total_ns / 1e6, span_ns / 1e6))
            inside = None
        elif inside is not None:
            inside.append(event)
    if inside is not None:
        raise ValueError("a call without its end: the profiler has lost events")
    return found


class Profiler:
    """Profiles calls in this process, which has a CUDA context; before each the L2 is cold, or dirty."""

    def __init__(self, cache: Cache = Cache.COLD) -> None:
        import torch
        from torch.profiler import ProfilerActivity, profile

        self._torch = torch
        self._profile: Any = lambda: profile(activities=[ProfilerActivity.CUDA])
        size = max(2 * torch.cuda.get_device_properties(0).L2_cache_size, 64 << 20)
        rows = -(-size // ROW_BYTES)
        self._flush = torch.empty(size // 4, dtype=torch.int32, device="cuda")
        self._clean = torch.zeros(
            (rows if cache is Cache.COLD else 0, ROW_BYTES // 4), dtype=torch.int32, device="cuda"
        )
        self._seen = torch.zeros((len(self._clean),), dtype=torch.int32, device="cuda")

    def profiled(self, calls: Sequence[Callable[[], object]], *, wall_s: float, least: int = 3) -> list[list[Call]]:
        """Make the calls in turn until the time is up, at least so many times each; what the profiler saw of each.

        Raises:
            ValueError: it saw another number of calls than were made.
        """
        torch = self._torch
        rounds = 0
        torch.cuda.synchronize()
        with self._profile() as session:
            deadline = time.monotonic() + wall_s
            while rounds < least or time.monotonic() < deadline:
                for call in calls:
                    self._flush.zero_()
                    if len(self._clean):
                        torch.amax(self._clean, 1, out=self._seen)
                    torch.cuda._sleep(HOLD_CYCLES)
                    call()
                    torch.cuda._sleep(1)
                    torch.cuda.synchronize()
                rounds += 1
        cuda = torch.autograd.DeviceType.CUDA
        events = [
            (event.name(), event.start_ns(), event.start_ns() + event.duration_ns())
            for event in session.profiler.kineto_results.events()
            if event.device_type() == cuda and "Sync" not in event.name()
        ]
        seen = calls_of(events)
        if len(seen) != rounds * len(calls):
            raise ValueError(f"{rounds * len(calls)} calls were made, the profiler saw {len(seen)}")
        return [seen[position :: len(calls)] for position in range(len(calls))]


def typical_ms(calls: Sequence[Call]) -> float:
    """Median over calls of the kernel time; of the span where a call has several kernels."""
    several = statistics.median(call.kernels for call in calls) > 1
    return statistics.median(call.span_ms if several else call.sum_ms for call in calls)
