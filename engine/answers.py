"""What becomes of a request: it is looked up, planned and queued, or refused in a sentence that says what would work.

A request is answered at once. Events report what it began.
"""

from __future__ import annotations

import asyncio
import functools
import os
import resource
from pathlib import Path

import msgspec

from aisp.engine import corpus, paths, planning, snapshots
from aisp.engine.broadcast import LOG_LINES, Broadcast
from aisp.engine.fuzzing import FuzzPlan
from aisp.engine.guarding import Guarding
from aisp.engine.job import FuzzJob, PeakJob, PeakPlan
from aisp.engine.journal import Journal
from aisp.engine.life import Life
from aisp.engine.plan import Plan
from aisp.engine.planning import Hardware, PlanError
from aisp.engine.protocol import events, requests
from aisp.engine.queue import Queue
from aisp.engine.store_writer import StoreWriter
from aisp.engine.watches import Watches
from aisp.kernels import catalog
from aisp.kernels.catalog.model import Catalog
from aisp.kernels.catalog.sources import not_restorable
from aisp.store.given import write_whole
from aisp.store.outcomes import Trigger
from aisp.store.text import clean_line
from aisp.store.ulid import new_ulid
from aisp.store.writer import Store

MOST_PLANNED = 1000
MOST_FUZZES = 64


class Answers:
    """Answers requests from what the engine has."""

    def __init__(
        self,
        life: Life,
        journal: Journal,
        broadcast: Broadcast,
        writer: StoreWriter,
        guarding: Guarding,
        queue: Queue,
        watches: Watches,
        hardware: Hardware,
    ) -> None:
        self._life, self._journal, self._broadcast, self._writer = life, journal, broadcast, writer
        self._guarding, self._queue, self._watches, self._hardware = guarding, queue, watches, hardware
        self._planning = asyncio.Lock()  # from the look for the same run to its place in the queue

    def now(self, request: requests.AnyRequest) -> events.Event | None:
        """See Connections."""
        match request:
            case requests.GetStatus():
                return self._status(request.seq)
            case requests.GetLog():
                count = max(1, min(request.lines, LOG_LINES))
                return events.EngineLog(to=request.seq, lines=list(self._broadcast.lines)[-count:])
        return None

    async def carry_out(self, request: requests.AnyRequest) -> events.Reply:
        """See Connections."""
        match request:
            case requests.StartRuns():
                return await self._start_runs(request)
            case requests.MeasurePeak():
                return self._measure_peak(request)
            case requests.FuzzTarget():
                return await self._start_fuzz(request)
            case requests.ReplayFailure():
                return await self._start_replay(request)
            case requests.Cancel():
                return await self._cancel(request)
            case requests.MoveUp():
                return self._move_up(request)
            case requests.StartWatch():
                return await self._start_watch(request)
            case requests.StopWatch():
                return self._stop_watch(request)
            case requests.Restore():
                return await self._restore(request)
            case requests.AcceptInstalled():
                return events.Reply(to=request.seq, detail=await self._guarding.accept())
            case requests.Shutdown():
                if request.when_idle and self._queue.busy:
                    self._life.stop_when_idle = True
                    runs = len(self._queue.runs)
                    waiting = f"{runs} run(s)" if runs else self._queue.jobs[0].ends
                    return events.Reply(to=request.seq, detail=f"stops after {waiting}")
                asyncio.get_running_loop().call_later(0.05, self._life.stopping.set)
                return events.Reply(to=request.seq, detail="stopping")
            case _:
                raise PlanError(f"{type(request).__name__} is not a request")

    async def _start_runs(self, request: requests.StartRuns) -> events.Reply:
        if not request.targets:
            raise PlanError("no targets were named; `aisp list` shows them")
        runs = len(self._queue.runs)
        if runs + len(request.targets) > MOST_PLANNED:
            raise PlanError(f"{runs} runs are planned already, {MOST_PLANNED} is the most")
        targets = await asyncio.to_thread(planning.load_catalog, request.roots)
        async with self._planning:
            return await self._plan_runs(request, targets)

    async def _plan_runs(self, request: requests.StartRuns, targets: Catalog) -> events.Reply:
        """Plan a run of each target, and join those that are on their way; one request at a time."""
        trigger = Trigger.TUI if request.trigger == "tui" else Trigger.CLI
        plans: list[Plan] = []
        run_ids: list[str] = []
        joined: list[str] = []
        refused: dict[str, str] = {}
        for name in request.targets:
            target = targets.find(name)
            case = planning.case_of(target, self._hardware, request)
            if why := planning.cannot_run(
                target, self._hardware, rungs=request.rungs, device=request.device, case=case
            ):
                refused[target.id] = why
                continue
            files = await asyncio.to_thread(catalog.read_sources, target)
            snapshot = await self._writer.ask(functools.partial(Store.put_snapshot, files=files))
            plan = self._queue.plan(
                target,
                files,
                snapshot,
                rungs=request.rungs,
                device=request.device,
                case=case,
                quick=request.quick,
                replicas=request.replicas,
                cache=request.cache,
                interleave=request.interleave,
                trigger=trigger,
                validity=request.validity,
                without=request.without,
                naive=request.naive,
                contract=request.contract,
                batch=request.batch,
                patience_s=request.patience_s,
            )
            same = self._queue.same(plan, again=request.again)
            run_ids.append(same or plan.id)
            if same:
                joined.append(same)
            else:
                plans.append(plan)
        if not run_ids:
            reasons = {why: [name for name, its in refused.items() if its == why] for why in refused.values()}
            error = ". ".join(f"{', '.join(names)} cannot run here: {why}" for why, names in reasons.items())
            return events.Reply(to=request.seq, error=error, refused=refused)
        if plans:
            await self._queue.enqueue(plans, self._writer.ask)
        return events.Reply(to=request.seq, run_ids=run_ids, refused=refused, joined=joined)

    async def _start_fuzz(self, request: requests.FuzzTarget) -> events.Reply:
        root = str(corpus.root()) if request.root == corpus.NAME else request.root
        targets = await asyncio.to_thread(planning.load_catalog, [root] if root else [])
        target = targets.find(request.target)
        files = await asyncio.to_thread(catalog.read_sources, target)
        snapshot = await self._writer.ask(lambda store: store.put_snapshot(files))
        return self._ask_fuzz(planning.plan_fuzz(target, files, snapshot, self._hardware, request), request)

    async def _start_replay(self, request: requests.ReplayFailure) -> events.Reply:
        failure = await self._writer.call(lambda store: store.failure(request.failure))
        files = await self._writer.call(lambda store: store.snapshot(failure.snapshot))
        name = failure.target.rpartition(":")[2]
        folder = await asyncio.to_thread(snapshots.lay_out, paths.snapshots_dir(), failure.snapshot, name, files)
        return self._ask_fuzz(planning.plan_replay(failure, files, folder, self._hardware), request)

    def _ask_fuzz(self, plan: FuzzPlan, request: requests.FuzzTarget | requests.ReplayFailure) -> events.Reply:
        if same := self._queue.same(plan, again=request.again):
            return events.Reply(to=request.seq, run_ids=[same], joined=[same])
        planned = sum(isinstance(job, FuzzJob) for job in self._queue.jobs)
        if planned >= MOST_FUZZES:
            raise PlanError(f"{planned} fuzzes are planned already; wait, or cancel them")
        self._queue.add(FuzzJob(plan, self._queue.slots.usual.services))
        self._queue.publish(plan.planned())
        return events.Reply(to=request.seq, run_ids=[plan.id])

    def _measure_peak(self, request: requests.MeasurePeak) -> events.Reply:
        """Queue a measurement of the ceilings of each GPU that runs are placed on."""
        slots = self._queue.slots
        if not slots.gpus:
            raise PlanError(f"ceilings need a GPU: {self._hardware.note}")
        able = [slot for slot in slots.gpus if not slots.why_not(slot)]
        if not able:
            raise PlanError(f"the GPU is set aside: {slots.gone}")
        run_ids: list[str] = []
        joined: list[str] = []
        for slot in able:
            plan = PeakPlan(new_ulid(), slot.gpus[0])
            if same := self._queue.same(plan, again=request.again):
                joined.append(same)
            else:
                self._queue.add(PeakJob(plan, slot.services), warm=False)
            run_ids.append(same or plan.id)
        return events.Reply(to=request.seq, run_ids=run_ids, joined=joined)

    async def _cancel(self, request: requests.Cancel) -> events.Reply:
        wanted = [job for job in self._queue.jobs if request.run_id in ("", job.id)]
        if request.run_id and not wanted:
            return events.Reply(to=request.seq, error=f"run {clean_line(request.run_id)} is not planned or running")
        for job in wanted:
            await self._queue.cancel(job)
        return events.Reply(to=request.seq, run_ids=[job.id for job in wanted])

    def _move_up(self, request: requests.MoveUp) -> events.Reply:
        job = next((job for job in self._queue.jobs if job.id == request.run_id), None)
        if job is None:
            raise PlanError(f"no job {clean_line(request.run_id)} is queued or under way")
        place = self._queue.move_up(job)
        return events.Reply(to=request.seq, run_ids=[job.id], detail=f"number {place} of those that wait")

    async def _start_watch(self, request: requests.StartWatch) -> events.Reply:
        if request.target in self._watches:
            return events.Reply(to=request.seq, detail="already watched")
        roots = [request.root] if request.root else []
        targets = await asyncio.to_thread(planning.load_catalog, roots)
        target = targets.find(request.target)
        if target.id in self._watches:  # by somebody else, while the files were read
            return events.Reply(to=request.seq, detail="already watched")
        # What the target itself needs may be added to it while it is watched; a device that was asked for may not.
        why = planning.cannot_run(target, self._hardware, device=request.device)
        if why and request.device != "auto":
            raise PlanError(f"{target.id} cannot run here: {why}")
        folder = os.fsencode(target.folder)
        try:
            last_edit = await self._writer.ask(lambda store: store.last_edit(target.id, folder))
        except PlanError:  # a store that waits for room keeps nobody from watching
            last_edit = None
        if target.id in self._watches:
            return events.Reply(to=request.seq, detail="already watched")
        self._watches.start(target, request.device, last_edit)
        return events.Reply(to=request.seq, refused={target.id: why} if why else {})

    def _stop_watch(self, request: requests.StopWatch) -> events.Reply:
        self._watches.stop(request.target)
        return events.Reply(to=request.seq)

    async def _restore(self, request: requests.Restore) -> events.Reply:
        """Write an earlier snapshot back; what stands there now is stored first."""
        roots = [request.root] if request.root else []
        targets = await asyncio.to_thread(planning.load_catalog, roots)
        target = targets.find(request.target)
        if why := not_restorable(target.folder):
            raise PlanError(clean_line(os.fsencode(why)))
        present = await asyncio.to_thread(catalog.read_sources, target)
        kept = await self._writer.call(lambda store: store.put_snapshot(present))
        wanted = await self._writer.call(lambda store: store.snapshot(request.snapshot))
        await asyncio.to_thread(_write_back, target.folder, wanted, present)
        return events.Reply(to=request.seq, detail=kept)

    def _status(self, to: int) -> events.Status:
        slots = self._queue.slots
        devices = [
            msgspec.structs.replace(device, note=device.note or slots.set_aside.get(device.index, ""))
            for device in self._hardware.devices
        ]
        devices.append(events.Device(index=-1, name=f"CPU, {os.cpu_count() or '?'} cores"))
        return events.Status(
            to=to,
            pid=os.getpid(),
            uptime_s=self._life.uptime_s,
            rss_bytes=_rss_bytes(),
            devices=devices,
            gpu_note=slots.gone or self._hardware.note,
            queue=self._queue.items,
            watches=list(self._watches.items()),
            warm_workers=sum(pool.warm for pool in slots.pools),
            not_forked=clean_line(next((pool.not_forked for pool in slots.pools if pool.not_forked), "")),
            clients=len(self._journal.outboxes),
            runs_done=self._queue.runs_done,
            starting=self._life.starting,
            store_note=self._writer.note,
        )


def _write_back(folder: Path, wanted: dict[str, bytes], present: dict[str, bytes]) -> None:
    """Replace the files that differ, each at once. Files that the snapshot does not know stay."""
    real = folder.resolve()
    for name, data in wanted.items():
        if present.get(name) == data:
            continue
        path = folder / name
        if not path.resolve().is_relative_to(real):
            raise ValueError(f"{clean_line(name)} would lie outside of {clean_line(os.fsencode(folder))}")
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, data, path.stat().st_mode & 0o777 if path.exists() else 0o644)


def _rss_bytes() -> int:
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
    except (OSError, ValueError, IndexError):
        return 0
