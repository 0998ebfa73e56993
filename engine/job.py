"""What the engine's queue consists of: runs, fuzzes and measurements of ceilings are all jobs.

A job that has begun reports its own end. The end of a job that has not begun, or that failed in the engine, is
reported from here.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeAlias, TypeVar

import msgspec

from aisp.engine import peaks
from aisp.engine.fuzzing import Fuzzing, FuzzPlan, unstarted
from aisp.engine.plan import Plan
from aisp.engine.protocol import events
from aisp.engine.runs import Execution
from aisp.engine.services import Services
from aisp.store.outcomes import SUPERSEDED, State, Trigger
from aisp.store.text import clean_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aisp.engine.slots import Slot
    from aisp.kernels.catalog.model import Rung, Target

log = logging.getLogger("aisp.engine")


@dataclass(frozen=True, slots=True)
class PeakPlan:
    """A measurement of the ceilings of one GPU, by NVML's index."""

    id: str
    gpu: int = 0
    device: str = "cuda"
    problem: str = ""  # why it cannot be made

    @property
    def sought(self) -> int:
        """What two have alike that are the same job."""
        return self.gpu


AnyPlan: TypeAlias = Plan | FuzzPlan | PeakPlan
P = TypeVar("P", Plan, FuzzPlan, PeakPlan)


class Job(ABC, Generic[P]):
    """One entry of the queue.

    Attributes:
        order: jobs of a lower order go first; of equal ones the older, unless it was moved.
        goes_first: why jobs of a higher order wait for it.
        kind: what it is, for clients.
        ends: what somebody waits for who waits for its end.
        slot: where it is carried out; None while it waits for one.
        task: what carries it out; None before it begins.
        state: as clients see it in the queue.
        gpus: how many it needs at once, where it is carried out on GPUs.
        began_ns: CLOCK_MONOTONIC when it began; None before.
        expected_s: how long it is expected to take; None where nothing is known.
    """

    order: int
    goes_first: str = ""
    kind: str
    ends: ClassVar[str] = "the run has ended"
    gpus = 1

    def __init__(self, plan: P, services: Services, **named: Any) -> None:
        """`named`: what clients read of it in the queue."""
        self.id = plan.id
        self.plan: P = plan
        self.task: asyncio.Task[None] | None = None
        self.slot: Slot | None = None
        self.state = State.PLANNED
        self.began_ns: int | None = None
        self.expected_s: float | None = None
        self._services, self._named = services, named

    @property
    def device(self) -> str:
        """Where it is carried out, as clients read it: what it needs while it has no slot."""
        return str(self.plan.device) if self.slot is None else self.slot.name

    @property
    def guarded(self) -> str:
        """The id under which the installation is watched while it lasts; "" where no code of a lesson runs."""
        return "" if self.plan.problem else self.id

    @property
    def layout(self) -> str:
        """The snapshot in whose layout its processes work; "" where they need none."""
        return ""

    def take(self, slot: Slot) -> None:
        """Its turn has come, in this slot."""
        self.slot, self._services = slot, slot.services

    def same(self, plan: AnyPlan) -> bool:
        """Whether it does what `plan` would, so that who asks for that may follow this one: it is not being ended."""
        ending = self.task is not None and self.task.cancelling() > 0
        return not ending and type(self.plan) is type(plan) and bool(self.plan.sought == plan.sought)

    def refuse(self, problem: str) -> None:
        """Let it end with this problem, unless that is "" or there is one already."""
        if problem and not self.plan.problem:
            self.plan = replace(self.plan, problem=problem)

    def item(self, starts_ns: int | None = None) -> events.QueueItem:
        """Item of the queue for clients; `starts_ns`: see there."""
        return events.QueueItem(
            run_id=self.id,
            kind=self.kind,
            state=self.state.value,
            device=self.device,
            began_ns=self.began_ns,
            expected_s=self.expected_s,
            starts_ns=starts_ns,
            **self._named,
        )

    @abstractmethod
    async def carry_out(self) -> None:
        """Do it, and report its end. Cancelling this reports that end too."""

    @abstractmethod
    async def unstarted(self, reason: str) -> None:
        """Report the end of a job that has not begun."""

    async def failed(self, error: BaseException) -> None:
        """Report the end of a job that raised."""
        log.error("%s could not be concluded: %s", self.id, error, exc_info=error)
        await self.unstarted(clean_line(f"the engine failed: {error}"))


class PeakJob(Job[PeakPlan]):
    """Measures ceilings: before the next run, since runs are held against them."""

    order = 0
    goes_first = "ceilings are measured before runs, which are held against them"
    kind = "peak"
    ends = "the ceilings are measured"
    guarded = ""

    def __init__(self, plan: PeakPlan, services: Services) -> None:
        super().__init__(plan, services, target="peak", title="The ceilings of the GPU", trigger="", quick=False)

    async def carry_out(self) -> None:
        if self.plan.problem:
            await self.unstarted(self.plan.problem)
            return
        self.state = State.RUNNING
        try:
            if (peak := await peaks.measure(self._services, self.id)) is not None:
                self._services.peaks[self.plan.gpu] = peak
        except asyncio.CancelledError:
            await self.unstarted("cancelled; nothing was stored")

    async def unstarted(self, reason: str) -> None:
        self._services.publish(events.PeakFinished(peak_id=self.id, gpu="", reason=reason))


class RunJob(Job[Plan]):
    """A run: before fuzzes, and that of a save before all others, since somebody waits for its number."""

    kind = "run"

    def __init__(self, plan: Plan, services: Services) -> None:
        run = plan.record
        saved = run.trigger is Trigger.WATCH
        self.order = 1 if saved else 2
        self.goes_first = "the run of a save goes before all others" if saved else "runs go before fuzzes"
        super().__init__(plan, services, target=run.target, title=run.title, trigger=run.trigger.value, quick=run.quick)
        self.gpus = _gpus(plan.target, plan.rungs)
        self.written: dict[str, str] = {}  # see Execution.written; known when it has ended
        self.superseded = ""  # by what, where the run of a later save is to take its place
        self.cut = False  # it had begun, and was ended for that
        self._execution: Execution | None = None

    def same(self, plan: AnyPlan) -> bool:
        """See Job. The next save ends the run of this one, so that nobody else may follow it."""
        return self.plan.record.trigger is not Trigger.WATCH and super().same(plan)

    @property
    def layout(self) -> str:
        """See Job."""
        return self.plan.record.snapshot

    @property
    def may_write(self) -> bool:
        """Whether its rungs have begun, and may write into the target's own folder."""
        return self._execution is not None and self._execution.may_write

    def supersede(self, reason: str) -> None:
        """Let it end because a later save takes its place: at once, unless it may conclude (Execution.supersede).

        One that has not begun is ended by the caller.
        """
        self.superseded = self.superseded or reason
        if self._execution is not None:
            self._execution.supersede(reason)
        elif self.task is not None:  # it waits for its GPU
            self.task.cancel()

    async def carry_out(self) -> None:
        self._execution = execution = Execution(self.plan, self._services)
        try:
            self.cut = (await execution.run()).superseded
        finally:
            self.written = execution.written()

    async def unstarted(self, reason: str) -> None:
        flags = (SUPERSEDED,) if self.superseded else ()
        ended = msgspec.structs.replace(
            self.plan.record, state=State.CANCELLED, reason=self.superseded or reason, flags=flags
        )
        record = self.plan.secrets.shown(ended)
        await self._services.store(lambda store: store.finish(record, {}))
        self._services.publish(events.RunFinished(run=record))

    async def failed(self, error: BaseException) -> None:
        log.error("run %s could not be concluded: %s", self.id, error, exc_info=error)
        reason = clean_line(f"the result could not be stored: {error}")
        record = msgspec.structs.replace(self.plan.record, state=State.INFRA_ERROR, reason=reason)
        self._services.publish(events.RunFinished(run=record))


class FuzzJob(Job[FuzzPlan]):
    """A fuzz, lint or replay."""

    order = 3
    ends = "the fuzz has ended"

    def __init__(self, plan: FuzzPlan, services: Services) -> None:
        self.kind = plan.what
        title = f"{plan.what}: {clean_line(plan.target.title)}"
        super().__init__(plan, services, target=plan.target.id, title=title, trigger=plan.trigger, quick=False)
        self.gpus = _gpus(plan.target, plan.rungs)

    @property
    def layout(self) -> str:
        """See Job."""
        return self.plan.snapshot

    async def carry_out(self) -> None:
        self.state = State.RUNNING
        await Fuzzing(self.plan, self._services).run()

    async def unstarted(self, reason: str) -> None:
        for event in unstarted(self.plan, reason):
            self._services.publish(event)


def _gpus(target: Target, rungs: Sequence[Rung]) -> int:
    """How many GPUs a target's rungs use: one each where they are several ranks, more where they say so."""
    return max(1, target.ranks, target.needs.gpus, *(rung.needs.gpus for rung in rungs))


AnyJob = Job[Any]
