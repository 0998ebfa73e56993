"""A fake engine whose every run is a flood: `python -m tests.proofs.bench.flood_engine`. Ends at SIGTERM.

It speaks the real protocol on the real socket. From the moment that a client starts a run until that client cancels it,
SAMPLES_PER_S samples of two arms arrive in batches of BATCH, as well as GPU readings at 20 Hz and the arms' figures
twice a second: what a real engine tells during a run of the fastest kernels.
"""

from __future__ import annotations

import asyncio
import math
import signal
import time
from typing import Any

from aisp.engine.protocol import events
from aisp.engine.protocol.requests import Cancel
from aisp.store.outcomes import Timing
from tests import heard
from tests.tui.fake_engine import FakeEngine

ARMS = ("baseline", "optimized")
MEDIAN_MS = {"baseline": 0.212, "optimized": 0.097}
BATCH = 25
BATCHES_PER_S = 200
SAMPLES_PER_S = BATCH * BATCHES_PER_S
READINGS_PER_BATCH = 2  # at 20 Hz, told every 0.1 s as the engine does
FIGURES_PERIOD_S = 0.5


def times_ms(arm: str, first: int, count: int) -> list[float]:
    """Samples number `first` on of an arm: a slow swing, a jitter, and a spike now and then."""
    median = MEDIAN_MS[arm]
    return [
        median * (1 + 0.02 * math.sin(i / 900) + 0.004 * ((i * 37) % 11 - 5)) * (1.7 if i % 997 == 996 else 1.0)
        for i in range(first, first + count)
    ]


class FloodEngine(FakeEngine):
    """See the module."""

    def __init__(self) -> None:
        super().__init__()
        self._floods: dict[str, asyncio.Task[None]] = {}

    def _plan(self, run_id: str, target: str, *, quick: bool, trigger: str, **manifest: Any) -> None:
        self._broadcast(
            heard.planned(
                run_id=run_id,
                target=target,
                title="A flood",
                folder="/kernels/flood",
                device="cuda",
                case="default",
                quick=quick,
                trigger=trigger,
                rungs=list(ARMS),
                snapshot="ab" * 32,
                wall="2026-05-04T10:11:12Z",
            )
        )

    def _play(self, run_id: str, target: str) -> None:
        self._floods[run_id] = asyncio.get_running_loop().create_task(self._flood(run_id))

    async def _cancel(self, request: Cancel) -> events.Event:
        for run_id, flood in self._floods.items():
            if request.run_id in ("", run_id):
                flood.cancel()
        return await super()._cancel(request)

    async def _flood(self, run_id: str) -> None:
        now = time.monotonic_ns()
        self._broadcast(heard.state(run_id=run_id, state="starting", at_ns=now))
        self._broadcast(heard.state(run_id=run_id, state="running", at_ns=now))
        self._broadcast(heard.step(run_id=run_id, name="warm worker", arm="", start_ns=now, duration_ms=2.1))
        for arm in ARMS:
            for name in ("compile", "verify", "warm-up"):
                self._broadcast(heard.step(run_id=run_id, name=name, arm=arm, start_ns=now, duration_ms=21.0))
        self._broadcast(heard.step(run_id=run_id, name="measure", arm="", start_ns=now))
        begun = time.monotonic()
        batches = figures = readings = 0
        while True:
            # What is due by the clock, so that a late wake-up does not lower the rate.
            elapsed = time.monotonic() - begun
            while batches < elapsed * BATCHES_PER_S:
                self._batch(run_id, batches)
                batches += 1
            while readings < elapsed * 20:
                self._readings(readings)
                readings += READINGS_PER_BATCH
            if figures < elapsed / FIGURES_PERIOD_S:
                self._figures(run_id, batches)
                figures += 1
            await asyncio.sleep(1 / BATCHES_PER_S)

    def _batch(self, run_id: str, number: int) -> None:
        arm = ARMS[number % 2]
        end_ns = time.monotonic_ns()
        step_ns = int(1e9 / SAMPLES_PER_S)
        self._broadcast(
            events.SampleBatch(
                run_id=run_id,
                arm=arm,
                replica=0,
                round=number // 20,
                timing=Timing.COLD,
                device_ms=times_ms(arm, number // 2 * BATCH, BATCH),
                end_ns=[end_ns - (BATCH - 1 - i) * step_ns for i in range(BATCH)],
                discarded=[0] * BATCH,
                sm_clock_mhz=[1980.0] * BATCH,
            )
        )

    def _readings(self, number: int) -> None:
        now = time.monotonic_ns()
        count = READINGS_PER_BATCH
        self._broadcast(
            events.TelemetryBatch(
                gpu=0,
                at_ns=[now - (count - 1 - i) * 50_000_000 for i in range(count)],
                sm_clock_mhz=[1980.0 - 15.0 * ((number + i) // 7 % 6) for i in range(count)],
                memory_clock_mhz=[2619.0] * count,
                temperature_c=[min(71.0, 41.0 + (number + i) // 12) for i in range(count)],
                power_w=[min(700.0, 310.0 + 6 * (number + i)) for i in range(count)],
                throttle=[0x4 if number > 200 else 0] * count,
            )
        )

    def _figures(self, run_id: str, batches: int) -> None:
        for arm in ARMS:
            median = MEDIAN_MS[arm] * (1 + 0.001 * math.sin(batches / 90))
            self._broadcast(
                heard.arm(
                    run_id=run_id,
                    arm=arm,
                    state="running",
                    correctness="correct",
                    timing="cold",
                    median_ms=median,
                    low_ms=median * 0.996,
                    high_ms=median * 1.004,
                    samples=batches * BATCH // 2,
                    sol=0.9 * MEDIAN_MS["optimized"] / median,
                    max_error=0.25,
                )
            )
        self._broadcast(
            heard.comparison(
                run_id=run_id,
                rung="optimized",
                baseline="baseline",
                verdict="faster",
                speedup=2.18 + 0.01 * math.sin(batches / 300),
                low=2.16,
                high=2.2,
                floor=0.004,
            )
        )


async def serve() -> None:
    """Be the engine of this state directory until SIGTERM."""
    engine = FloodEngine()
    serving = asyncio.create_task(engine.serve())
    await asyncio.to_thread(engine.ready.wait)
    assert engine.stopping is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, engine.stopping.set)
    print("ready", flush=True)
    await serving


if __name__ == "__main__":
    asyncio.run(serve())
