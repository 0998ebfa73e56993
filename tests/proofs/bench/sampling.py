"""What one reading of a GPU's clocks, temperature, power and throttle bits costs; the engine takes 20 a second."""

from __future__ import annotations

import time
from collections.abc import Iterator

from aisp.engine.telemetry import PERIOD_S, Nvml, Readings
from tests.proofs.bench.table import Row

NAME = "sampling"


def measure(*, quick: bool) -> Iterator[Row]:
    """One row per quantity; dashes without a GPU."""
    nvml = Nvml()
    what = "one NVML reading"
    if not nvml.count:
        yield Row(NAME, what, "us", note=f"no GPU: {nvml.note}")
        return
    into = Readings()
    took_us: list[float] = []
    cpu_before = time.thread_time()
    for _ in range(200 if quick else 1000):
        start = time.perf_counter()
        nvml.read(0, into)
        took_us.append((time.perf_counter() - start) * 1e6)
    cpu_us = (time.thread_time() - cpu_before) / len(took_us) * 1e6
    yield Row(NAME, what, "us", tuple(took_us))
    percent = cpu_us / 1e6 / PERIOD_S * 100
    yield Row(NAME, "NVML at 20 readings/s", "% of a core", (percent,), note="CPU time of the reading thread")
