"""What a run reports while it lasts: steps, printed lines, telemetry, and preliminary figures of its arms."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import time
from collections.abc import AsyncIterator, Sequence
from typing import Any

import msgspec

from aisp.engine import silence, verdicts
from aisp.engine.arms import Arm
from aisp.engine.plan import Plan
from aisp.engine.protocol import events
from aisp.engine.ranks import Process, Ranks
from aisp.engine.services import Services
from aisp.engine.statistics import Prior, class_of
from aisp.engine.telemetry import Readings, Sampler
from aisp.kernels.catalog.model import UNCOUNTED
from aisp.store import record as records
from aisp.store.outcomes import State
from aisp.store.results import speed_of_light
from aisp.store.samples import Telemetry, frozen
from aisp.store.text import clean

LINES_PER_EVENT = 200
LINE_CHARS = 2000
WAITING_BYTES = 256 * 1024  # of one stream of one process, between two looks
DRAIN_S = 0.1

_Source = tuple[str, str, str]  # the arm, how its lines begin ("[rank 1] ", "" of one process), the stream


class Reporter:
    """Reports of one run to its clients.

    Attributes:
        arms: of the run, the baseline first.
        steps: those that have ended.
        gpu_name: as the run's first process found it; "" on a CPU.
        sampler: reads the driver's telemetry, once it is started.
        readings: all that it gave.
    """

    def __init__(self, plan: Plan, services: Services, arms: Sequence[Arm]) -> None:
        self._plan, self._services, self.arms = plan, services, arms
        self.steps: list[records.Step] = []
        self.gpu_name = ""
        self.sampler = Sampler(services.nvml, services.gpu)
        self.readings = Readings()
        self._output: dict[_Source, bytearray] = {}
        self._output_dropped: dict[_Source, int] = {}
        self._begun: dict[_Source, bytes] = {}  # lines that had no end at the last look
        self._base_ms: float | None = None  # the first baseline's time

    # -- steps -----------------------------------------------------------------------------------------------------

    @contextlib.asynccontextmanager
    async def step(self, name: str, arm: Arm | None = None) -> AsyncIterator[None]:
        """Tell that this step is under way, and how long it took."""
        whose = arm.name if arm else ""
        start = time.monotonic_ns()
        self.report_step(records.Step(name, whose, start))
        before = silence.step.set(name)
        try:
            yield
        finally:
            silence.step.reset(before)
            self.report_step(records.Step(name, whose, start, (time.monotonic_ns() - start) / 1e6))

    def report_step(self, step: records.Step) -> None:
        """Tell a step; one that has ended is kept for the record."""
        if step.duration_ms is not None:
            self.steps.append(step)
        self._services.publish(events.Step(run_id=self._plan.id, step=step))

    def begin_replica(self, number: int) -> None:
        """Tell that a fresh process of each arm begins, the first as number 0."""
        state = State.RUNNING if number else State.STARTING  # before the first one the verifier starts
        at_ns = time.monotonic_ns()
        self._services.publish(events.RunState(run_id=self._plan.id, state=state, at_ns=at_ns, process=number + 1))

    # -- printed lines and telemetry -------------------------------------------------------------------------------

    def listen(self, process: Process, whose: str) -> None:
        """Gather what a process prints; of several ranks each for itself, and its lines say which."""
        if isinstance(process, Ranks):
            for rank, child in enumerate(process.children):
                child.on_output = functools.partial(self._heard, whose, f"[rank {rank}] ")
        else:
            process.on_output = functools.partial(self._heard, whose, "")

    def _heard(self, whose: str, begins: str, stream: str, data: bytes) -> None:
        source = (whose, begins, stream)
        kept = self._output.setdefault(source, bytearray())
        room = max(WAITING_BYTES - len(kept), 0)
        kept += data[:room]
        if len(data) > room:
            self._output_dropped[source] = self._output_dropped.get(source, 0) + len(data) - room

    async def drain(self, run: asyncio.Task[Any] | None) -> None:
        """Hand on what gathers while the run lasts; end it as soon as the GPU is lost."""
        while True:
            await asyncio.sleep(DRAIN_S)
            self.flush()
            if self.sampler.lost and run is not None:
                run.cancel()
                run = None

    def flush(self, *, last: bool = False) -> None:
        """Hand on telemetry and printed lines that have gathered.

        Args:
            last: nothing more will come. Else a line that has no end yet waits for it, until the next look at least.
        """
        taken = self.sampler.take()
        if taken.at_ns:
            self.readings.extend(taken)
            self._services.publish(taken.event(self._services.gpu))
        gathered, self._output = self._output, {}
        dropped, self._output_dropped = self._output_dropped, {}
        begun, self._begun = self._begun, {}
        for source, printed in gathered.items():
            whose, begins, stream = source
            data = bytes(printed)
            ends = max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
            if not last and 0 < len(data) - ends < LINE_CHARS and begun.get(source) != data:
                self._begun[source] = data[ends:]
                self._output[source] = bytearray(data[ends:])
                data = data[:ends]
            lines = clean(data).splitlines()
            lost = dropped.get(source, 0) + sum(map(len, lines[LINES_PER_EVENT:]))
            if lines:
                shown = [begins + line[:LINE_CHARS] for line in lines[:LINES_PER_EVENT]]
                self._services.publish(
                    events.Output(run_id=self._plan.id, arm=whose, stream=stream, lines=shown, dropped=lost)
                )

    def telemetry(self) -> Telemetry | None:
        """All that was read of the GPU; None on a CPU."""
        return frozen(Telemetry, self.readings) if self.readings.at_ns else None

    # -- figures ---------------------------------------------------------------------------------------------------

    def report_arm(self, arm: Arm) -> None:
        """Tell how an arm stands."""
        if not arm.again:
            self._services.publish(events.ArmUpdate(run_id=self._plan.id, arm=self.record(arm)))

    async def report(self) -> None:
        """Tell preliminary figures. They cost some ms an arm: in a thread, while nothing is measured."""
        arms, comparisons = await asyncio.to_thread(self.figures)
        for arm in arms:
            self._services.publish(events.ArmUpdate(run_id=self._plan.id, arm=arm))
        for comparison in comparisons:
            self._services.publish(events.ComparisonUpdate(run_id=self._plan.id, comparison=comparison))

    def figures(self) -> tuple[tuple[records.Arm, ...], tuple[records.Comparison, ...]]:
        """What the samples say so far, the baseline first."""
        made = [self.record(arm) for arm in self.arms]
        compared, between = self.compared()
        if between and not self.arms[0].running and (quality := made[0].quality) is not None:
            made[0] = msgspec.structs.replace(made[0], quality=msgspec.structs.replace(quality, **between))
        return verdicts.agreeing(made, compared), tuple(compared)

    def _prior(self, arm: Arm) -> Prior:
        return self._plan.priors[class_of(arm.timing)]

    def compared(self) -> tuple[list[records.Comparison], dict[str, float]]:
        """The comparisons as they stand; see verdicts.comparisons."""
        rule = self._plan.rule
        return verdicts.comparisons(
            self.arms,
            quick=self._plan.record.quick,
            interleaved=rule.interleaved,
            looks=rule.looks,
            prior=self._prior(self.arms[0]),
        )

    def record(self, arm: Arm) -> records.Arm:
        """What its samples say so far."""
        roofline: verdicts.RooflineBound | None = None
        if self.gpu_name:
            roofline = functools.partial(
                speed_of_light.light, self._plan.target, self._plan.case, self.gpu_name, self._services.peak
            )
        base = arm is self.arms[0]
        record = verdicts.arm_record(
            arm,
            source=self._plan.source(arm.rung),
            roofline=roofline,
            base_ms=None if base else self._base_ms,
            prior=self._prior(arm),
        )
        if self._plan.target.flops == UNCOUNTED:  # a share of what its bytes alone allow would read as one of all
            record = msgspec.structs.replace(record, sol=None)
        if base:
            self._base_ms = record.median_ms
        return record
