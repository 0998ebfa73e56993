"""The one list of jobs of an engine: which goes next and where, what carries it out, and what becomes of its end.

The list is in the order in which jobs were asked for, but for those that somebody moved up; jobs of a lower `order` go
first. A slot that is free takes the first job that fits it (engine.slots). Clients hear of every change of the list.
"""

from __future__ import annotations

import asyncio
import functools
import itertools
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any

from aisp.engine import environment, paths, planning, silence, statistics
from aisp.engine.ahead import Ahead
from aisp.engine.broadcast import Broadcast
from aisp.engine.caches import Caches
from aisp.engine.guarding import Guarding
from aisp.engine.job import AnyJob, AnyPlan, RunJob
from aisp.engine.lease import leased
from aisp.engine.life import Life
from aisp.engine.plan import Plan
from aisp.engine.planning import Hardware, PlanError
from aisp.engine.protocol import events
from aisp.engine.services import Services, StoreCall
from aisp.engine.slots import Slot, Slots
from aisp.engine.store_writer import StoreWriter
from aisp.engine.telemetry import Nvml
from aisp.kernels.catalog.model import Target
from aisp.store.outcomes import State
from aisp.store.record import Arm
from aisp.store.writer import Store

log = logging.getLogger("aisp.engine")

TELL_S = 0.05  # what changes within this time is one event: a batch is planned, or cancelled, job by job


class Queue:
    """Jobs that wait, and those that the slots have.

    Attributes:
        runs_done: runs that have come to an end.
        run_ended: called with a run that did, before its slot takes the next job.
    """

    def __init__(
        self,
        life: Life,
        broadcast: Broadcast,
        writer: StoreWriter,
        guarding: Guarding,
        slots: Slots,
        hardware: Hardware,
        nvml: Nvml,
    ) -> None:
        self.slots = slots
        self.runs_done = 0
        self.run_ended: Callable[[RunJob], Awaitable[None]]
        self._life, self._broadcast, self._writer, self._guarding = life, broadcast, writer, guarding
        self._hardware = hardware
        self._jobs: list[AnyJob] = []
        self._wake = asyncio.Event()
        self._following: set[asyncio.Task[None]] = set()  # to the end of what is under way
        self._found_wrong: dict[int, Slot] = {}  # by GPU that is set aside: the slot whose job found something
        self._telling: asyncio.TimerHandle | None = None
        self._closing = False
        self._planned = 0  # runs
        self._priors = dict(statistics.PRIORS)  # by device and timing: how processes of the same code differ
        compiled = Caches(paths.compiled_dir(), paths.cache_links_dir())
        self._ahead = Ahead(paths.snapshots_dir(), compiled)
        shared: dict[str, Any] = {
            "publish": self.publish,
            "store": writer.call,
            "nvml": nvml,
            "snapshots_dir": paths.snapshots_dir(),
            "look_after": guarding.after,
            "caches": compiled,
            "peaks": {},
        }
        for slot in slots:
            slot.services = Services(
                pool=slot.pool,
                gpu=slot.gpus[0] if slot.gpus else hardware.index,
                gpus=slot.gpus,
                on_lost_gpu=functools.partial(self._lost, slot),
                next_processes=functools.partial(self._next_processes, slot),
                **shared,
            )
            slot.pool.report = functools.partial(broadcast.passing, f"start{slot.mark}")

    # -- what there is -------------------------------------------------------------------------------------------------

    @property
    def busy(self) -> bool:
        """Whether anything waits or is under way."""
        return bool(self._jobs)

    @property
    def jobs(self) -> list[AnyJob]:
        """Every job: those under way, then the one whose turn is first."""
        return sorted(self._jobs, key=lambda job: (job.task is None, job.order))

    @property
    def items(self) -> list[events.QueueItem]:
        """Every job as clients see it, in the same order."""
        jobs = self.jobs
        starts = self.slots.forecast(jobs, time.monotonic_ns())
        return [job.item(starts.get(job.id)) for job in jobs]

    @property
    def runs(self) -> list[RunJob]:
        """The runs among them, in the order in which they were asked for."""
        return [job for job in self._jobs if isinstance(job, RunJob)]

    def same(self, plan: AnyPlan, *, again: bool) -> str:
        """Id of the job that does what `plan` would; "" where there is none, or one more is wanted."""
        return next((job.id for job in self._jobs if not again and job.same(plan)), "")

    def under_way(self) -> tuple[list[tuple[Plan, State]], list[dict[str, bytes]]]:
        """See StoreWriter."""
        files = [dict(job.plan.files) for job in self._jobs if job.layout]
        return [(job.plan, job.state) for job in self.runs], files

    def publish(self, event: events.Event) -> None:
        """Publish what a job says of itself, and keep the list true to it."""
        if isinstance(event, events.RunState):
            for job in self._jobs:
                if job.id == event.run_id:
                    job.state, event.device = event.state, job.device
            self._wake.set()  # its first process has come up
        self._broadcast.publish(event)
        if ended := _ended(event):
            # A client that has heard of the end must not find the job in the queue, nor follow it.
            self._jobs = [job for job in self._jobs if job.id != ended]
            self._changed()

    def _changed(self) -> None:
        """Let clients know of the list."""
        if self._telling is None and not self._closing:
            self._telling = asyncio.get_running_loop().call_later(TELL_S, self._tell)

    def _tell(self) -> None:
        self._telling = None
        self._broadcast.publish(events.QueueChanged(jobs=self.items))

    # -- asking --------------------------------------------------------------------------------------------------------

    def add(self, job: AnyJob, *, warm: bool = True) -> None:
        """Let a job wait for its turn; `warm` keeps processes standing by for it."""
        self._jobs.append(job)
        self._changed()
        self._life.note()
        if warm and not job.plan.problem:
            self.slots.warm(job, self._jobs)
        self._wake.set()

    def plan(self, target: Target, files: dict[str, bytes], snapshot: str, **options: Any) -> Plan:
        """Decide everything about a run; see planning.plan. Runs have numbers in this order."""
        self._planned += 1
        return planning.plan(
            target,
            files,
            snapshot,
            self._hardware,
            epoch=self._life.epoch,
            seq=self._planned,
            priors=self._priors,
            **options,
        )

    async def enqueue(self, plans: list[Plan], store: StoreCall, announce: Callable[[], None] = lambda: None) -> None:
        """Journal all by `store`, report what they are for and then each of them, and let them start."""
        records = [plan.record for plan in plans]

        def journal(writer: Store) -> list[tuple[float, int] | None]:
            writer.plan(records, {plan.record.snapshot: plan.files for plan in plans})
            return [writer.last_like(record) for record in records]

        last = await store(journal)  # in one go: somebody waits for the first sample
        announce()
        for plan, like in zip(plans, last, strict=True):
            job = RunJob(plan, self.slots.usual.services)
            job.expected_s, processes = like or (None, 0)
            self.add(job)
            arms = (Arm(rung.name, State.PLANNED, role=rung.role) for rung in plan.rungs)
            run = plan.record.announced(arms)
            self.publish(events.RunPlanned(run=run, expected_s=job.expected_s, expected_processes=processes))

    async def cancel(self, job: AnyJob, reason: str = "cancelled before it began") -> None:
        """End a job; `reason` is for one that has not begun."""
        if job.task is None:
            self._drop(job)
            await job.unstarted(reason)
        else:
            job.task.cancel()

    def move_up(self, job: AnyJob) -> int:
        """Let a job go before the one that waits before it; returns its place among those that wait, from 1 on.

        Raises:
            PlanError: it does not wait, it is the first that does, or the one before is of a kind that goes first.
        """
        waiting = [other for other in self.jobs if other.slot is None]
        if job not in waiting:
            raise PlanError("it is under way already")
        place = waiting.index(job)
        if not place:
            raise PlanError("it is the first of those that wait already")
        before = waiting[place - 1]
        if before.order != job.order:
            raise PlanError(before.goes_first)
        one, other = self._jobs.index(before), self._jobs.index(job)
        self._jobs[one], self._jobs[other] = job, before
        self._changed()
        self._wake.set()
        return place

    # -- carrying out --------------------------------------------------------------------------------------------------

    async def work(self) -> None:
        """Give slots to jobs until cancelled, and have compiled what the next ones build."""
        while True:
            self._wake.clear()
            while (choice := self.slots.next([job for job in self.jobs if job.slot is None])) is not None:
                job, slot = choice
                self.slots.give(job, slot)
                job.take(slot)
                following = asyncio.create_task(self._follow(job, slot))
                self._following.add(following)
                following.add_done_callback(self._following.discard)
            self._ahead.tend(self.jobs, self.slots)
            await self._wake.wait()

    async def _follow(self, job: AnyJob, slot: Slot) -> None:
        """See a job that has a slot to its end. Nothing that it does can keep the slot from the next one."""
        if job.plan.device == "cuda" and (gone := self.slots.why_not(slot)):
            job.refuse(f"the GPU is set aside: {gone}")
        try:
            job.refuse(await self._guarding.before(job.guarded))
            if job not in self._jobs or self._closing:  # cancelled, or superseded, meanwhile
                return
            job.task = asyncio.create_task(self._in_slot(job, slot))
            await asyncio.wait({job.task})
            await self._conclude(job, job.task)
            self._drop(job)
            if isinstance(job, RunJob):
                self.runs_done += 1
                await self.run_ended(job)
        except Exception:
            log.exception("the end of %s could not be reported", job.id)
            self._drop(job)
        finally:
            if job.task is None and job.guarded:
                await self._guarding.over(job.guarded)
            slot.job = None
            self._life.note()
            self._wake.set()
        if isinstance(job, RunJob) and not self._closing:  # the slot is the next one's: nobody waits for this
            try:
                await self.recall_priors(job.plan.device)
            except Exception:
                log.exception("what %s shows of how processes differ could not be read", job.id)

    async def _in_slot(self, job: AnyJob, slot: Slot) -> None:
        """Carry out a job while no other engine of the machine uses the GPUs that it needs.

        Cancelled while it waits for them, it has not begun.
        """
        whose = job.guarded

        async def carry_out() -> None:
            job.began_ns = time.monotonic_ns()
            self._changed()
            await job.carry_out()

        silence.banner.set(lambda key, text: self._broadcast.banner(f"{key}{slot.mark}", text))
        environment.slot_cores.set(frozenset(slot.pool.share.cores))
        try:
            if job.plan.problem or job.plan.device != "cuda":
                await carry_out()
                return
            async with leased(slot.uuids, lambda text: self._broadcast.banner(f"lease{slot.mark}", text)):
                await self._guarding.before(whose)  # what was installed while it waited is none of its doing
                await carry_out()
        finally:
            if whose:
                await asyncio.shield(self._guarding.over(whose))

    async def _conclude(self, job: AnyJob, task: asyncio.Task[None]) -> None:
        """Report the end of a job that could not report it itself."""
        try:
            if task.cancelled():  # before its first step, or while it waited for a GPU
                await job.unstarted("cancelled before it began")
            else:
                task.result()
        except Exception as error:  # whatever it is, the next job begins
            await job.failed(error)

    async def close(self) -> None:
        """End what is under way, then what waits."""
        self._closing = True
        if self._telling is not None:
            self._telling.cancel()
        for job in self._jobs:
            if job.task is not None:
                job.task.cancel()
        await asyncio.gather(*self._following, return_exceptions=True)
        await self._ahead.close()
        for job in self.jobs:
            try:
                await self.cancel(job, "cancelled: the engine was stopped")
            except Exception as error:
                await job.failed(error)

    def _drop(self, job: AnyJob) -> None:
        if job in self._jobs:
            self._jobs.remove(job)
            self._changed()
        self._wake.set()  # others may have waited behind it
        wanted = {slot.pool for run in self.runs for slot in (run.slot, *self.slots.options(run)) if slot is not None}
        for pool in self.slots.pools:
            if pool not in wanted:
                pool.expect(0)  # the one before may have expected processes for this one, which was cancelled

    def _next_processes(self, slot: Slot) -> list[tuple[int, int]]:
        """See Plan.processes, of the slot's next two runs."""
        fitting = (job for job in self.jobs if job.task is None and slot in self.slots.options(job))
        waiting = (job.plan for job in fitting if isinstance(job, RunJob) and not job.plan.problem)
        return [plan.processes for plan in itertools.islice(waiting, 2)]

    # -- GPUs ----------------------------------------------------------------------------------------------------------

    async def recall_peaks(self) -> None:
        """Read the newest ceilings that were measured of each GPU before."""
        for slot in self.slots.gpus:
            for uuid in slot.uuids:
                peak = await self._writer.call(lambda store, uuid=uuid: store.latest_peak(uuid))  # type: ignore[misc]
                if peak is not None:
                    slot.services.peaks[slot.gpus[0]] = peak

    async def recall_priors(self, *devices: str) -> None:
        """Find how processes of the same code differed in the newest runs on this CPU, and on this model of GPU."""
        model = next((device.name for device in self._hardware.devices if device.index == self._hardware.index), "")
        for device in devices:
            gpu = model if device == "cuda" else ""
            self._priors[device] = {
                kind: statistics.fitted(
                    await self._writer.call(
                        lambda store, of=(device, gpu, kind == statistics.HELD): store.spreads(*of)  # type: ignore[misc]
                    ),
                    shipped,
                    f"on this machine's {gpu or 'CPU'}{'' if kind == statistics.HELD else ', host time in them'}",
                )
                for kind, shipped in statistics.PRIORS[device].items()
            }

    def _lost(self, slot: Slot, reason: str) -> None:
        """Set the GPUs aside with which a slot's job found something wrong; all that its processes see, if it is a
        process.
        """
        gpus = slot.services.ownership.bad.intersection(slot.gpus) or slot.sees
        for gpu in gpus:
            if gpu not in self.slots.set_aside:
                self.slots.set_aside[gpu], self._found_wrong[gpu] = reason, slot
                name, key = self._called(gpu)
                text = f"{name} is set aside: {reason}; it is used again when that is over"
                self._broadcast.banner(key, text, "error")
        for other in self.slots:
            if self.slots.why_not(other) and other.pool is not self.slots.cpu.pool:
                other.pool.keep(0)  # whoever stands by has a context on it
        self._wake.set()
        if not gpus:
            self._broadcast.banner("process", f"{reason}; the engine goes on without it", "error")

    async def look_again(self) -> None:
        """Use GPUs again that were set aside, and with which nothing is wrong any more."""
        for gpu, slot in list(self._found_wrong.items()):
            if slot.job is None and await slot.services.ownership.back():
                del self._found_wrong[gpu], self.slots.set_aside[gpu]
                self._broadcast.banner(self._called(gpu)[1], "")
                log.info("%s is used again", self._called(gpu)[0])

    def _called(self, gpu: int) -> tuple[str, str]:
        """A GPU's name in a sentence, and the key of its banner."""
        return (f"GPU {gpu}", f"gpu {gpu}") if len(self.slots.gpus) > 1 else ("the GPU", "gpu")


def _ended(event: events.Event) -> str:
    """Id of the job whose end this tells; "" for any other event."""
    match event:
        case events.RunFinished():
            return event.run_id
        case events.FuzzFinished() | events.LintFinished() | events.ReplayFinished():
            return event.fuzz_id
        case events.PeakFinished():
            return event.peak_id
    return ""
