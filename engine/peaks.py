"""Measuring a GPU's ceilings, as the engine does it: one process, one job a ceiling, reported one by one, stored whole.

A ceiling that fails has no value and a reason. Where its process did not survive, the rest is measured in a fresh one.
Nothing else is measured meanwhile: the engine's queue starts this as it starts a run.
"""

from __future__ import annotations

import asyncio
import logging
import math
import statistics
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from aisp.engine import environment
from aisp.engine.arms import ArmEnd, ask
from aisp.engine.crew import taken
from aisp.engine.protocol import events, jobs, reports
from aisp.engine.spawner import Child
from aisp.engine.telemetry import Readings, Sampler
from aisp.store.errors import StoreError
from aisp.store.record import Ceiling, Peak
from aisp.store.results.speed_of_light import CEILINGS
from aisp.store.text import clean_line

if TYPE_CHECKING:
    from aisp.engine.services import Services

log = logging.getLogger("aisp.peaks")

WHOSE = "the process that measures ceilings"
DRAIN_S = 0.1
MOST_DEATHS = 4  # in a row, after which the GPU is not asked again


@dataclass(slots=True)
class _Progress:
    """What has been found out on the way."""

    ready: reports.Ready
    gpu: str
    ceilings: list[Ceiling]


class PeakError(Exception):
    """The ceilings could not be measured at all; the message says why and what would help."""


async def measure(services: Services, peak_id: str) -> Peak | None:
    """Measure, report and store the ceilings of the GPU that runs are placed on. Returns the peak, or None.

    The reason of a failure is reported. Cancelling ends the process and stores nothing; the caller reports that end.
    """
    name = next((d.name for d in services.nvml.devices() if d.index == services.gpu), "")
    clocks = _Clocks(services)
    reason, cancelled = "", False
    try:
        if problem := await services.look_at_gpu():
            raise PeakError(problem)
        clocks.start()
        async with asyncio.timeout(services.limits.total_s):
            with services.pool.quiet():
                progress = await _measure_all(services, peak_id, clocks)
        name = progress.gpu
        described = environment.describe(progress.ready, services.nvml.driver, Path(__file__).parent)
        peak = Peak(
            id=peak_id,
            gpu=progress.gpu,
            gpu_uuid=progress.ready.gpu_uuid,
            wall=datetime.now(UTC).isoformat(timespec="milliseconds"),
            environment=await services.store(lambda store: store.put_environment(described)),
            ceilings=tuple(progress.ceilings),
        )
        await services.store(lambda store: store.put_peak(peak))
        return peak
    except TimeoutError:
        reason = f"it took longer than {services.limits.total_s:.0f} s; nothing was stored"
    except asyncio.CancelledError:
        cancelled = True
        raise
    except PeakError as error:
        reason = str(error)
    except StoreError as error:
        reason = f"it was measured but could not be stored: {error}"
    except Exception as error:
        log.exception("measuring the ceilings failed in the engine")
        reason = f"the engine failed ({type(error).__name__}: {error}); `aisp engine --logs` has the trace"
    finally:
        clocks.stop()
        if not cancelled:
            services.publish(events.PeakFinished(peak_id=peak_id, gpu=clean_line(name), reason=clean_line(reason)))
    return None


async def _measure_all(services: Services, peak_id: str, clocks: _Clocks) -> _Progress:
    """Every ceiling of the plan, in its order."""
    child = await _fresh(services)
    try:
        try:
            plan = await ask(child, jobs.PlanPeak(), reports.PeakPlan, services.limits.progress_s, WHOSE)
        except ArmEnd as end:
            raise PeakError(end.reason) from None
        ready = child.ready
        if ready is None or not plan.items:
            raise PeakError("the process gave no plan; start the engine anew with `aisp engine --stop`")
        progress = _Progress(ready, clean_line(ready.gpu_name), [])
        deaths = 0
        for position, item in enumerate(plan.items, start=1):
            if item.name not in CEILINGS:
                raise PeakError(f"the process plans {clean_line(item.name)!r}, which is no ceiling")
            note = clean_line(item.note)
            if not note and deaths >= MOST_DEATHS:
                note = f"not tried: {deaths} processes in a row did not survive their ceiling"
            if note:
                ceiling = _without_value(item, note)
            else:
                clocks.since_now()
                ceiling, died = await _measure_one(services, child, item)
                ceiling = _with_memory_clock(ceiling, clocks.memory_mhz())
                deaths = deaths + 1 if died else 0
                if died:
                    await child.end(gently=False)
                    if position < len(plan.items) and deaths < MOST_DEATHS:
                        child = await _fresh(services)
            progress.ceilings.append(ceiling)
            services.publish(
                events.PeakCeiling(
                    peak_id=peak_id, gpu=progress.gpu, position=position, count=len(plan.items), ceiling=ceiling
                )
            )
        if not any(ceiling.value is not None for ceiling in progress.ceilings):
            notes = "; ".join(dict.fromkeys(ceiling.note for ceiling in progress.ceilings))
            raise PeakError(f"no ceiling could be measured: {notes[:1000]}")
        return progress
    finally:
        await child.end(gently=False)


async def _fresh(services: Services) -> Child:
    try:
        return await taken(services, WHOSE, interpret=False)
    except ArmEnd as end:
        raise PeakError(end.reason) from None


async def _measure_one(services: Services, child: Child, item: reports.PeakItem) -> tuple[Ceiling, bool]:
    """Measure one ceiling. Also returns whether its process must not be asked again."""
    job = jobs.MeasureCeiling(name=item.name, footprint_bytes=item.footprint_bytes)
    try:
        report = await ask(child, job, reports.CeilingMeasured, services.limits.progress_s, WHOSE)
    except ArmEnd as end:
        return _without_value(item, clean_line(end.reason)), end.state.fatal
    if report.name != item.name or not (math.isfinite(report.value) and report.value > 0):
        note = f"{WHOSE} answered {clean_line(report.name)} = {report.value}, which no GPU does"
        return _without_value(item, note), False
    clock = report.sm_clock_mhz
    ceiling = Ceiling(
        name=item.name,
        value=report.value,
        unit=CEILINGS[item.name],
        sm_clock_mhz=clock if clock is not None and math.isfinite(clock) and clock > 0 else None,
        footprint_bytes=report.footprint_bytes,
        note=clean_line(report.note),
    )
    return ceiling, False


def _without_value(item: reports.PeakItem, note: str) -> Ceiling:
    return Ceiling(
        name=item.name, value=None, unit=CEILINGS[item.name], footprint_bytes=item.footprint_bytes, note=note
    )


def _with_memory_clock(ceiling: Ceiling, clocks: list[float]) -> Ceiling:
    """The ceiling with the median memory clock that the driver gave meanwhile, where it gave one."""
    readings = [clock for clock in clocks if math.isfinite(clock) and clock > 0]
    if ceiling.value is None or not readings:
        return ceiling
    return msgspec.structs.replace(ceiling, memory_clock_mhz=statistics.median(readings))


class _Clocks:
    """The driver's telemetry while ceilings are measured: handed on to clients, and kept for the ceiling under way."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._sampler = Sampler(services.nvml, services.gpu)
        self._readings = Readings()
        self._drain: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._sampler.start()
        self._drain = asyncio.create_task(self._hand_on())

    def stop(self) -> None:
        self._sampler.stop()
        self._flush()
        if self._drain is not None:
            self._drain.cancel()

    def since_now(self) -> None:
        """Forget what was read up to now."""
        self._flush()
        self._readings = Readings()

    def memory_mhz(self) -> list[float]:
        """Memory clocks since then. A ceiling that took less than a period has one reading, taken now."""
        self._flush()
        if not self._readings.at_ns:
            self._services.nvml.read(self._services.gpu, self._readings)
        return self._readings.memory_clock_mhz

    async def _hand_on(self) -> None:
        while True:
            await asyncio.sleep(DRAIN_S)
            self._flush()

    def _flush(self) -> None:
        taken = self._sampler.take()
        if taken.at_ns:
            self._readings.extend(taken)
            self._services.publish(taken.event(self._services.gpu))
