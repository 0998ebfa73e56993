"""What stands around a sample on the GPU: a hold over all of its SMs, its clock by its own counters, a free cache.

Before and after the timed region one block per SM notes that SM's cycle counter and the nanosecond timer that all SMs
share; cycles over nanoseconds is the clock while the work ran. Only readings of the same SM are compared, since each
counts from a start of its own. The driver's 20 readings a second cannot see a sample of 100 us; this can (on an H100
the timer steps in 32 ns, which is 0.3 % over 10 us).

The hold takes every thread slot of every SM: two blocks of half an SM's threads each, of which one thread looks at the
timer now and then and all others wait for it. Beside such blocks no block of another kernel fits, so that work on other
streams starts after the hold as well. It uses no shared memory, hence the caches are split as they were. Copies are
not kept from running: the engines that make them are no SMs.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from kernels import cuda

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
_HOLD_SOURCE = r"""
// At most 32 registers a thread, so that two blocks of 1024 threads fit into an SM.
extern "C" __global__ void __launch_bounds__(1024, 2) aisp_hold(unsigned long long ns, unsigned long long most_cycles) {
    if (threadIdx.x == 0) {
        unsigned long long start, now, first, cycles;
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
        asm volatile("mov.u64 %0, %%clock64;" : "=l"(first));
        do {
            __nanosleep(500);
            asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
            asm volatile("mov.u64 %0, %%clock64;" : "=l"(cycles));
        } while (now - start < ns && cycles - first < most_cycles);
    }
    __syncthreads();
}
"""
MOST_CLOCK_HZ = 4e9  # no GPU is faster: a hold ends by its cycles where the timer stands still
# Blocks are dealt out to SMs one each; SM numbers may have holes, so there is room for more than there are blocks.
_MOST_SMS = 512
_LEAST_READINGS = 4


class ClockProbe:
    """Reads the SM clock over a piece of GPU work on the current stream.

    Without cuda.core, NVRTC or a GPU that has these counters it measures nothing and `note` says why: the clock is
    unknown, which is no reason not to time.
    """

    def __init__(self) -> None:
        self.note = ""
        self._torch: Any = None
        try:
            import torch

            self._launch = cuda.launch
            self._kernel = cuda.Kernel("read_clocks.cu", _SOURCE, "read_clocks", digest="aisp read_clocks")
            self._blocks = torch.cuda.get_device_properties(0).multi_processor_count
            # Before and after, [2, SM, (cycles, ns)]; zero where no block ran.
            self._readings = torch.zeros((2, _MOST_SMS, 2), dtype=torch.int64, device="cuda")
            self._host = torch.zeros_like(self._readings, device="cpu").pin_memory()
            self._torch = torch
            self.before()
            self.after()
            torch.cuda.synchronize()
        except Exception as error:
            # Whatever is missing, of three libraries and a driver: the clock stays unknown, and that is all.
            self._torch = None
            self.note = f"{type(error).__name__}: {error}"

    def before(self) -> None:
        """Enqueue the first reading."""
        if self._torch is not None:
            self._readings.zero_()  # an SM that gets no block must not show what it said last time
        self._read(0)

    def after(self) -> None:
        """Enqueue the second reading. It stays on the device: a copy would wait for copies of the lesson's."""
        self._read(1)

    def _read(self, which: int) -> None:
        if self._torch is not None:
            self._launch(self._kernel, self._blocks, 32, self._readings[which])

    def read_mhz(self) -> float:
        """SM clock between the two readings, in MHz, median over SMs; NaN where unknown. Synchronise before."""
        if self._torch is None:
            return math.nan
        self._host.copy_(self._readings)
        first, second = self._host.numpy()
        return clock_mhz(first, second)


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
            self._kernel = cuda.Kernel("aisp_hold.cu", _HOLD_SOURCE, "aisp_hold", digest="aisp hold")
            self._blocks = 2 * int(properties.multi_processor_count)
            self.launch(0.0)  # compiles
            torch.cuda.synchronize()
        except Exception as error:
            # Whatever is missing, of three libraries and a driver: the caller has another way.
            self._blocks = 0
            self.note = f"only the timed stream is held ({type(error).__name__}: {error})"

    def launch(self, ms: float) -> bool:
        """Enqueue a hold of so many ms; False where there is no kernel for it."""
        if not self._blocks:
            return False
        most_cycles = np.uint64(ms / 1e3 * MOST_CLOCK_HZ)
        self._launch(self._kernel, self._blocks, self._threads, np.uint64(ms * 1e6), most_cycles)
        return True


def clock_mhz(first: Any, second: Any) -> float:
    """Median over SMs of cycles per microsecond.

    Args:
        first, second: int64 [SM, 2], cycles and nanoseconds; zeros where an SM had no block.
    """
    ran = (first[:, 1] > 0) & (second[:, 1] > first[:, 1]) & (second[:, 0] > first[:, 0])
    if int(ran.sum()) < _LEAST_READINGS:
        return math.nan
    elapsed = (second - first)[ran].astype(np.float64)
    return float(np.median(elapsed[:, 0] / elapsed[:, 1]) * 1e3)


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
