"""What stands around a sample on the GPU: a hold over all of its SMs, a second clock of their own, a free cache.

Before and after the timed region one block per SM notes that SM's cycle counter and the nanosecond timer that all SMs
share. Three figures come from these readings, and no event is in any of them:

- the time between the last SM's reading before and the first SM's after, which bounds the time between the two events:
  the first event waits for all blocks of the reading before, and no block of the reading after begins before the second
  event. What it reads around nothing is taken off by the timer (engine.worker.timers).
- the SM's cycles between its own two readings, median over SMs.
- cycles over nanoseconds: the clock while the work ran. The driver's 20 readings a second cannot see a sample of
  100 us; this can (on an H100 the timer steps in 32 ns, which is 0.3 % over 10 us).

Cycle counters are compared with those of the same SM, since each counts from a start of its own; the timer is one for
all. On GPUs before Hopper it steps in about 1 us, on some in 1 ms, so its step is measured when the process stands by.

The driver clears and fetches the readings, by functions that were saved before a lesson was imported: torch's copies
and fills pass every mode that a lesson may have entered.

The hold takes every thread slot of every SM: two blocks of half an SM's threads each. One thread of a block looks at
the timer now and then and all others wait for it. No block of another kernel fits beside such blocks, so work on other
streams starts after the hold as well. It uses no shared memory, so the caches stay split as they were. Copies may run
meanwhile: the engines that make them are no SMs.

Of several ranks each has its own GPU, and a host that leaves a barrier some tens of microseconds after another. So
their holds end together: the first block of each writes into a page of host memory that it has come to its end, and
waits until all have; the others wait for it. Behind the second event a kernel of one block meets the other ranks'
once more. No GPU knows another's clock, but all leave that meeting within a microsecond or two: how long before it a
rank's clock started tells how much later than the others it began.
"""

from __future__ import annotations

import itertools
import math
import mmap
import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from aisp.checks.cuda import HOLD_KERNEL, READ_KERNEL
from aisp.kernels import cuda

_SOURCE = r"""
extern "C" __global__ void read_clocks(unsigned long long* out) {
    if (threadIdx.x != 0) return;
    unsigned sm;
    unsigned long long cycles, ns;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
    asm volatile("mov.u64 %0, %%clock64;" : "=l"(cycles));
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
    out[2 * sm] = cycles;
    out[2 * sm + 1] = ns;
}
"""
_SPIN_SOURCE = r"""
extern "C" __global__ void aisp_spin(unsigned long long ns) {
    unsigned long long first, now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(first));
    do {
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    } while (now - first < ns);
}
"""
_MEETING_SOURCE = r"""
// So many nanoseconds from now on, by the timer, or so many cycles, where that stands still.
struct Spell {
    unsigned long long first_ns, first_cycles, ns, cycles;
    __device__ Spell(unsigned long long ns, unsigned long long cycles) : ns(ns), cycles(cycles) {
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(first_ns));
        asm volatile("mov.u64 %0, %%clock64;" : "=l"(first_cycles));
    }
    __device__ bool lasts() const {
        unsigned long long now_ns, now_cycles;
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now_ns));
        asm volatile("mov.u64 %0, %%clock64;" : "=l"(now_cycles));
        return now_ns - first_ns < ns && now_cycles - first_cycles < cycles;
    }
};

// Says that this rank has come to its meeting number `turn`, and waits until all have.
__device__ void meet(unsigned long long* page, unsigned rank, unsigned ranks, unsigned long long turn,
                     unsigned long long ns, unsigned long long cycles) {
    asm volatile("st.release.sys.global.u64 [%0], %1;" :: "l"(page + 16 * rank), "l"(turn) : "memory");
    Spell patience(ns, cycles);
    for (unsigned other = 0; other < ranks; ++other) {
        unsigned long long come;
        do {
            asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(come) : "l"(page + 16 * other) : "memory");
        } while (come < turn && patience.lasts());
    }
}
"""
_PART_SOURCE = (
    _MEETING_SOURCE
    + r"""
extern "C" __global__ void aisp_part(unsigned long long* page, unsigned rank, unsigned ranks, unsigned long long turn,
                                     unsigned long long ns, unsigned long long cycles) {
    if (threadIdx.x == 0) meet(page, rank, ranks, turn, ns, cycles);
}
"""
)
_HOLD_SOURCE = (
    _MEETING_SOURCE
    + r"""
// At most 32 registers a thread, so that two blocks of 1024 threads fit into an SM. Of one rank, `page` is null.
extern "C" __global__ void __launch_bounds__(1024, 2)
aisp_hold(unsigned long long ns, unsigned long long most_cycles, unsigned long long* page, unsigned long long* met,
          unsigned rank, unsigned ranks, unsigned long long turn, unsigned long long patience_ns,
          unsigned long long patience_cycles) {
    if (threadIdx.x == 0) {
        Spell held(ns, most_cycles);
        do {
            __nanosleep(500);
        } while (held.lasts());
        if (page != nullptr && blockIdx.x == 0) {
            meet(page, rank, ranks, turn, patience_ns, patience_cycles);
            asm volatile("st.release.gpu.global.u64 [%0], %1;" :: "l"(met), "l"(turn) : "memory");
        } else if (page != nullptr) {
            Spell patience(patience_ns, patience_cycles);
            unsigned long long over;
            do {
                asm volatile("ld.acquire.gpu.global.u64 %0, [%1];" : "=l"(over) : "l"(met) : "memory");
            } while (over < turn && patience.lasts());
        }
    }
    __syncthreads();
}
"""
)
MOST_CLOCK_HZ = 4e9  # no GPU is faster: a hold ends by its cycles where the timer stands still
PATIENCE_S = 10.0  # of a kernel for those of the other ranks: one whose process has died never comes
# Blocks are dealt out to SMs one each; SM numbers may have holes, so there is room for more than there are blocks.
_MOST_SMS = 512
LINE_WORDS = 16  # of 8 bytes: each rank writes into a line of its own
_LEAST_READINGS = 4
_STEP_PAIRS = 4  # 8 readings of every SM show a step of 32 ns and one of 1 us; within these 0.1 ms none of 1 ms is seen
# Counters of SMs that ran all the time differ by under 1 %. Where the median one lies further below the high ones, SMs
# that had nothing to do have stood still, and the median is of those.
_STOOD_STILL = 0.9
_HIGH = 0.9  # quantile that stands for the SMs that ran all the time, so that one wrong reading is none


@dataclass(frozen=True, slots=True)
class Span:
    """What lies between two readings of all SMs; NaN where unknown.

    Attributes:
        ms: from the last SM's reading before to the first SM's after, by the timer that they share.
        cycles: of an SM between its own readings.
        mhz: SM clock, median over SMs of cycles over time.
    """

    ms: float = math.nan
    cycles: float = math.nan
    mhz: float = math.nan


class ClockProbe:
    """Reads the counters of all SMs before and after a piece of GPU work on the default stream.

    Without cuda.core, NVRTC or a GPU that has these counters it measures nothing and `note` says why: the second clock
    is unknown, which is no reason not to time.

    Attributes:
        step_ms: smallest step of the SMs' timer that was seen before any lesson ran; None where none was.
    """

    def __init__(self) -> None:
        self.note = ""
        self.step_ms: float | None = None
        self._ready = False
        try:
            import torch

            self._launch = cuda.launch
            self._kernel = cuda.Kernel("read_clocks.cu", _SOURCE, READ_KERNEL, digest="aisp read_clocks")
            self._blocks = torch.cuda.get_device_properties(0).multi_processor_count
            # Before and after, [2, SM, (cycles, ns)]; zero where no block ran.
            self._readings = torch.zeros((2, _MOST_SMS, 2), dtype=torch.int64, device="cuda")
            self._views = self._readings[0], self._readings[1]
            self._address, self._bytes = self._readings.data_ptr(), self._readings.nbytes
            self._host = np.zeros((2, _MOST_SMS, 2), np.int64)
            self._bind_driver()
            self._ready = True
            seen = []
            for _ in range(_STEP_PAIRS):
                self.before()
                self.after()
                torch.cuda.synchronize()
                self._fetch()
                seen.append(self._host[:, :, 1].copy())
            self.step_ms = _step_ms(np.concatenate(seen, axis=None))
        except Exception as error:
            # Whatever is missing, of three libraries and a driver: the second clock stays unknown, and that is all.
            self._ready = False
            self.note = f"{type(error).__name__}: {error}"

    def _bind_driver(self) -> None:
        """Take the driver's fill and copy as they are now."""
        from cuda.bindings import driver

        self._fill, self._copy = driver.cuMemsetD8Async, driver.cuMemcpyDtoH
        self._success = driver.CUresult.CUDA_SUCCESS
        self._default_stream = driver.CUstream(0)

    def before(self) -> None:
        """Enqueue the first reading."""
        if self._ready:
            # An SM that gets no block must not show what it said last time.
            self._fill(self._address, 0, self._bytes, self._default_stream)
            self._launch(self._kernel, self._blocks, 32, self._views[0])

    def after(self) -> None:
        """Enqueue the second reading. It stays on the device: a copy would wait for copies of the lesson's."""
        if self._ready:
            self._launch(self._kernel, self._blocks, 32, self._views[1])

    def _fetch(self) -> bool:
        (status,) = self._copy(self._host.ctypes.data, self._address, self._bytes)
        return bool(status == self._success)

    def read(self) -> Span:
        """What lies between the two readings. Synchronise before."""
        if not self._ready or not self._fetch():
            return Span()
        return span(self._host[0], self._host[1])


class Hold:
    """Keeps every SM busy for a given time, from the current stream.

    Where the kernel cannot be had it launches nothing, and `note` says why.
    """

    def __init__(self) -> None:
        self.note = ""
        self._blocks = 0
        try:
            import torch

            properties = torch.cuda.get_device_properties(0)
            self._threads = int(properties.max_threads_per_multi_processor) // 2
            self._launch = cuda.launch
            self._kernel = cuda.Kernel("aisp_hold.cu", _HOLD_SOURCE, HOLD_KERNEL, digest="aisp hold that meets")
            self._blocks = 2 * int(properties.multi_processor_count)
            self.launch(0.0)  # compiles
            torch.cuda.synchronize()
        except Exception as error:
            # Whatever is missing, of three libraries and a driver: the caller has another way.
            self._blocks = 0
            self.note = f"only the timed stream is held ({type(error).__name__}: {error})"

    def launch(self, ms: float, meeting: Meeting | None = None) -> bool:
        """Enqueue a hold of so many ms, and until those of all ranks of a meeting are over; False where there is no
        kernel for it."""
        if not self._blocks:
            return False
        most_cycles = np.uint64(ms / 1e3 * MOST_CLOCK_HZ)
        others = NOBODY if meeting is None else (np.uint64(meeting.page), meeting.met, *meeting.next())
        self._launch(self._kernel, self._blocks, self._threads, np.uint64(ms * 1e6), most_cycles, *others)
        return True


class Spin:
    """A kernel of one thread that lasts so long by the GPU's timer.

    Raises:
        OSError, RuntimeError, CudaCompileError: it cannot be had.
    """

    def __init__(self) -> None:
        self._launch = cuda.launch
        self._kernel = cuda.Kernel("aisp_spin.cu", _SPIN_SOURCE, "aisp_spin", digest="aisp spin")

    def launch(self, us: float) -> None:
        """Enqueue one."""
        self._launch(self._kernel, 1, 32, np.uint64(us * 1e3))


NOBODY = (np.uint64(0), np.uint64(0), np.uint32(0), np.uint32(1), np.uint64(0), np.uint64(0), np.uint64(0))
"""In the place of a meeting's arguments."""


class Meeting:
    """Where kernels of all ranks wait for one another: a page of host memory that every one of their GPUs sees.

    Each rank makes its own over the same shared file, and all of them hold and part in step.

    Args:
        fd: the shared file, in which no meeting was before.
        rank, ranks: which of how many.

    Attributes:
        page: address of the page, the same for this process and its GPU.
        met: int64 [1] on the GPU: the last meeting of a hold that is over.

    Raises:
        OSError, RuntimeError, CudaCompileError: the GPU cannot reach the page, or the kernel cannot be had.
    """

    def __init__(self, fd: int, rank: int, ranks: int) -> None:
        import torch

        os.ftruncate(fd, max(os.fstat(fd).st_size, mmap.PAGESIZE))
        self._page = np.frombuffer(mmap.mmap(fd, mmap.PAGESIZE), np.uint64)
        if LINE_WORDS * ranks > len(self._page):
            raise OSError(f"a page has room for {len(self._page) // LINE_WORDS} ranks, not {ranks}")
        self.page = self._page.ctypes.data
        driver: Any = torch.cuda.cudart()
        if (status := driver.cudaHostRegister(self.page, mmap.PAGESIZE, 0)) != driver.cudaError.success:
            raise RuntimeError(f"the GPU cannot reach the page where ranks meet ({status})")
        self.met = torch.zeros(1, dtype=torch.int64, device="cuda")
        self._rank, self._ranks, self._turn = np.uint32(rank), np.uint32(ranks), 0
        self._launch = cuda.launch
        self._kernel = cuda.Kernel("aisp_part.cu", _PART_SOURCE, "aisp_part", digest="aisp part")
        # Compiles, and meets nobody.
        self._launch(self._kernel, 1, 32, np.uint64(self.page), self._rank, np.uint32(0), *map(np.uint64, (0, 0, 0)))
        torch.cuda.synchronize()

    def next(self) -> tuple[Any, ...]:
        """What a kernel must know of the next meeting: rank, ranks, its number, and how long to wait for it."""
        self._turn += 1
        patience = np.uint64(PATIENCE_S * 1e9), np.uint64(PATIENCE_S * MOST_CLOCK_HZ)
        return self._rank, self._ranks, np.uint64(self._turn), *patience

    def close(self) -> None:
        """Let the driver forget the page: another one may lie at its address later. No kernel may be on its way."""
        import torch

        driver: Any = torch.cuda.cudart()
        driver.cudaHostUnregister(self.page)

    def part(self) -> None:
        """Enqueue a kernel of one block that waits for those of the other ranks."""
        self._launch(self._kernel, 1, 32, np.uint64(self.page), *self.next())


def span(first: Any, second: Any) -> Span:
    """What lies between two readings.

    Args:
        first, second: int64 [SM, 2], cycles and nanoseconds; zeros where an SM had no block.
    """
    ran = (first[:, 1] > 0) & (second[:, 1] > first[:, 1]) & (second[:, 0] > first[:, 0])
    if int(ran.sum()) < _LEAST_READINGS:
        return Span()
    elapsed = (second - first)[ran].astype(np.float64)
    by_cycles = np.sort(elapsed[:, 0])
    cycles, high = _median(by_cycles), by_cycles[int(_HIGH * (len(by_cycles) - 1))]
    return Span(
        ms=float(second[ran, 1].min() - first[ran, 1].max()) / 1e6,
        cycles=float(high if cycles < _STOOD_STILL * high else cycles),
        mhz=_median(np.sort(elapsed[:, 0] / elapsed[:, 1])) * 1e3,
    )


def _median(ordered: Any) -> float:
    """Median of sorted numbers: read behind every sample, where NumPy's own takes ten times as long."""
    return float(ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2


def _step_ms(timers_ns: Iterable[int]) -> float | None:
    """Smallest difference between readings of the timer that differ; None where all are alike."""
    steps = (later - earlier for earlier, later in itertools.pairwise(sorted({int(ns) for ns in timers_ns} - {0})))
    least = min(steps, default=None)
    return None if least is None else least / 1e6


def free_persisting_lines() -> bool:
    """Give lines that a kernel asked the L2 to keep back to ordinary use; whether there could be any.

    Lines persist only where a part of the L2 was set aside for them, which is asked first: it costs nothing.
    """
    try:
        from cuda.bindings import driver

        status, size = driver.cuCtxGetLimit(driver.CUlimit.CU_LIMIT_PERSISTING_L2_CACHE_SIZE)
    except (ImportError, RuntimeError):  # no bindings, or no driver under them
        return False
    if status != driver.CUresult.CUDA_SUCCESS or not size:
        return False
    driver.cuCtxResetPersistingL2Cache()
    return True
