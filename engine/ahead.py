"""Compiling ahead: while one run is measured, the extensions that the next ones build are built on cores to spare.

A rung that names `load_inline` or `cpp_extension` builds its extension when it is imported, which takes tens of seconds
with nvcc. For a run that waits, a process of its own imports each such rung: on two cores that no slot uses, at the
lowest priority, with no GPU in sight, and with the architecture of the run's GPU in TORCH_CUDA_ARCH_LIST, so that the
compiler gets the same command. Its caches have the key of the rung's own process (engine.caches), which is given a copy
of what was left in them before it imports the same code, and finds everything built. Nothing is stored: that is for the
run, if it ends well.

The process has no role, no inputs and no say. It may write to its own folder alone, and not even to the layout of its
rung, since the run's verifier may read the reference there meanwhile. Where Landlock does not hold it to that, nothing
is compiled ahead. However it ends, the run does not hear of it: its own process meets the same error, and reports it.
Only one that leaves with a done frame and status 0 has its caches handed on, as long as its run is in the queue.

Bounds: RUNS in the queue, MOST_AT_ONCE processes on CORES_EACH cores, FREE_BYTES of memory for each, the limit of the
run for what is compiled. Cores are to spare by `Slots.spare`; a job that takes a slot takes its cores back at once, and
what was compiled there is not begun again.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from aisp.engine import environment, snapshots, spawner, workplaces
from aisp.engine.caches import Caches, builds, key_of
from aisp.engine.confinement import ABI_TRUNCATE
from aisp.engine.job import AnyJob, RunJob
from aisp.engine.plan import Plan
from aisp.engine.protocol import jobs, reports
from aisp.engine.slots import Cores, Slots
from aisp.engine.spawner import Child, ChildGoneError, ChildTimeoutError, Share
from aisp.store.outcomes import Trigger
from aisp.store.text import clean_line

log = logging.getLogger("aisp.ahead")

RUNS = 2  # of those that wait, the first
MOST_AT_ONCE = 4  # processes
CORES_EACH = 2
FREE_BYTES = 4 << 30  # of memory for each process: two compilers with torch's headers


@dataclass(frozen=True, slots=True)
class _Build:
    """One process of a rung that will be there: its key, and what it is compiled for."""

    plan: Plan
    rung: str
    key: str
    ready: reports.Ready  # of a process in the slot where the run will be
    limit_s: float


@dataclass(slots=True, eq=False)
class _Going:
    """A build that is under way."""

    build: _Build
    cores: Cores
    task: asyncio.Task[None]

    def stop(self) -> None:
        """Have its process ended, unless it is being ended already."""
        if not self.task.cancelling():
            self.task.cancel()


@dataclass(slots=True)
class _Run:
    """A run that waits, or waited when it was looked at."""

    planning: asyncio.Task[None]
    left: list[_Build] = field(default_factory=list)
    made: list[str] = field(default_factory=list)  # keys in Caches.ahead


class Ahead:
    """What is compiled ahead for the runs of one queue."""

    def __init__(self, snapshots_dir: Path, caches: Caches) -> None:
        self._snapshots_dir, self._caches = snapshots_dir, caches
        self._runs: dict[str, _Run] = {}
        self._going: list[_Going] = []
        self._waiting: list[str] = []  # runs for which a build may begin
        self._spare = Cores()
        self._closed = False
        self._unheld = False  # whether a process came up that nothing holds to its own folder

    # -- what there is to do -------------------------------------------------------------------------------------------

    def tend(self, queue: Sequence[AnyJob], slots: Slots) -> None:
        """Look at the queue: forget the runs that have left it, give back cores that a slot needs, and begin more."""
        suspect = any(pool.forbidden for pool in slots.pools)  # of what a process would import
        self._forget(self._runs.keys() - (set() if suspect else {job.id for job in queue}))
        self._spare = Cores() if suspect or self._closed else slots.spare
        for going in self._going:
            if not going.cores <= self._spare:
                going.stop()
        if not self._spare or self._unheld:
            self._waiting.clear()
            return
        waiting = [job for job in queue if job.slot is None and isinstance(job, RunJob) and _fits(job)][:RUNS]
        for job in waiting:
            if job.id not in self._runs:
                self._look_at(job, slots)
        # A rung that is under way may have changed its layout, which is found out behind its run: nobody lays it anew.
        taken = {job.layout for job in queue if job.slot is not None}
        self._waiting = [job.id for job in waiting if job.layout not in taken]
        self._begin()

    def _forget(self, run_ids: Iterable[str]) -> None:
        """End what is compiled for these runs, and what was."""
        for run_id in run_ids:
            run = self._runs.pop(run_id)
            run.planning.cancel()
            for going in self._going:
                if going.build.plan.id == run_id:
                    going.stop()
            for key in run.made:
                workplaces.leave(self._caches.ahead.pop(key).parent)

    def _look_at(self, job: RunJob, slots: Slots) -> None:
        """Find out what its rungs build, once a process has come up where it will be."""
        services = slots.options(job)[0].services
        child = services.pool.last_ready
        if child is None or child.ready is None:
            return
        limit_s = services.patient(job.plan.patience_s).limits.compile_s
        self._runs[job.id] = _Run(asyncio.create_task(self._find(job.plan, child.ready, limit_s)))

    async def _find(self, plan: Plan, ready: reports.Ready, limit_s: float) -> None:
        """Note all builds of a run, those of each rung's first process first."""
        keys = await asyncio.to_thread(_keys, plan, ready, self._caches)
        self._runs[plan.id].left = [_Build(plan, rung, key, ready, limit_s) for rung, key in keys]
        self._begin()

    def _begin(self) -> None:
        """Begin as many builds as there is room for."""
        while len(self._going) < MOST_AT_ONCE and (cores := self._cores()):
            build = next((self._runs[run_id].left.pop(0) for run_id in self._waiting if self._has_more(run_id)), None)
            if build is None:
                return
            if build.key in self._caches.coming or build.key in self._caches.ahead:
                continue
            task = asyncio.create_task(self._build(build, cores), name=f"ahead {build.key}")
            self._caches.coming[build.key] = task
            self._going.append(_Going(build, cores, task))
            task.add_done_callback(self._ended)

    def _has_more(self, run_id: str) -> bool:
        return run_id in self._runs and bool(self._runs[run_id].left)

    def _cores(self) -> Cores:
        """Cores for one more process; none where cores or memory are short."""
        free = sorted(self._spare.difference(*(going.cores for going in self._going)))
        if len(free) < CORES_EACH:
            return Cores()
        memory = environment.available_bytes()
        # Those that have just begun do not hold theirs yet.
        if memory is None or memory < FREE_BYTES * (len(self._going) + 1):
            return Cores()
        return Cores(free[:CORES_EACH])

    def _ended(self, task: asyncio.Task[None]) -> None:
        (going,) = (going for going in self._going if going.task is task)
        self._going.remove(going)
        del self._caches.coming[going.build.key]
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("%s was not compiled ahead", going.build.rung, exc_info=error)
        self._begin()

    # -- one process ---------------------------------------------------------------------------------------------------

    async def _build(self, build: _Build, cores: Cores) -> None:
        """Have a process import the rung; its caches are handed on if it ends well."""
        plan = build.plan
        child: Child | None = None
        try:
            folder = await asyncio.to_thread(
                snapshots.lay_out, self._snapshots_dir, plan.record.snapshot, plan.target.name, plan.files
            )
            share = Share(tuple(sorted(cores)), visible="", layouts=False)
            child = await spawner.spawn(interpret=False, share=share)
            ready = await spawner.until_ready(child)
            if ready.confined < ABI_TRUNCATE:
                self._unheld = True
                log.info("nothing is compiled ahead: no Landlock holds a process to its own folder here")
                return
            link = await asyncio.to_thread(self._lend, build.key, child)
            if link is None:
                return  # the rung's own process is there already
            job = jobs.Build(
                folder=os.fsencode(folder),
                module=build.rung,
                caches=os.fsencode(link),
                environment=variables(plan.device, build.ready.sm),
            )
            loaded = await child.ask(job, build.limit_s)
            if not isinstance(loaded, reports.Loaded):
                reason = loaded.summary if isinstance(loaded, reports.Failed) else type(loaded).__name__
                log.info("%s was not compiled ahead: %s", build.rung, clean_line(reason))
                return
            done = await child.ask(jobs.Finish(), spawner.progress_limit_s())
            if isinstance(done, reports.Done) and await child.wait(spawner.progress_limit_s()) == 0:
                child.keeps_folder = True
                log.info("%s was compiled ahead in %.1f s", build.rung, loaded.import_ms / 1e3)
        except (ChildGoneError, ChildTimeoutError, OSError) as error:
            log.info("%s was not compiled ahead: %s", build.rung, clean_line(str(error)))
        finally:
            if child is not None:
                ending = asyncio.create_task(self._end(build, child))
                while not ending.done():  # cancelled or not
                    with contextlib.suppress(asyncio.CancelledError):
                        await asyncio.shield(ending)

    def _lend(self, key: str, child: Child) -> Path | None:
        with self._caches.lock:
            return self._caches.lend(key, child)

    async def _end(self, build: _Build, child: Child) -> None:
        """End a process; what it compiled waits for its run, where that is still there."""
        run = self._runs.get(build.plan.id)
        await child.end(gently=False)
        await asyncio.to_thread(self._give_back, build.key)
        if not child.keeps_folder:
            return
        if run is not None and self._runs.get(build.plan.id) is run:
            run.made.append(build.key)
            self._caches.ahead[build.key] = child.caches
        else:
            workplaces.leave(child.folder)

    def _give_back(self, key: str) -> None:
        with self._caches.lock:
            self._caches.give_back(key)

    async def close(self) -> None:
        """End everything."""
        self._closed = True
        self._waiting.clear()
        self._forget(list(self._runs))
        await asyncio.gather(*(going.task for going in self._going), return_exceptions=True)


def variables(device: str, sm: int | None) -> dict[str, str]:
    """What a build reads of its environment: how many compilers it may run, and the architecture that torch's builder
    would find by itself where it sees the run's GPU.
    """
    environ = {"MAX_JOBS": str(CORES_EACH)}
    if device == "cuda" and sm is not None:
        environ["TORCH_CUDA_ARCH_LIST"] = f"{sm // 10}.{sm % 10}+PTX"
    return environ


def _fits(job: RunJob) -> bool:
    """Whether something may be compiled ahead for a run. The next save ends that of this one; ranks want each other."""
    plan = job.plan
    saved = plan.record.trigger is Trigger.WATCH
    return not (plan.problem or saved or plan.interpreted or plan.target.ranks > 1)


def _keys(plan: Plan, ready: reports.Ready, caches: Caches) -> list[tuple[str, str]]:
    """Rung and key of every process that will build something and finds nothing in the store."""
    misses = []
    for seat in range(2 if plan.side_by_side else 1):
        for rung in plan.rungs:
            if rung.name in plan.obstacles or not builds(plan.files, rung.name):
                continue
            arm, interpret = clean_line(rung.name), plan.interpreted
            key = key_of(plan.files, rung.name, arm, 0, ready, device=plan.device, interpret=interpret, seat=seat)
            if not caches.has(key):
                misses.append((rung.name, key))
    return misses
