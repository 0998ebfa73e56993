"""The processes of a job: taken from those that stand by, given their roles, asked, and ended.

Every rung is a process of its own. The verifier is another, which has read the reference before anything of a rung
runs: a rung can write into its own folder.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import shutil
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from aisp.engine import environment, facts, snapshots
from aisp.engine.arena import Arena
from aisp.engine.arms import Arm, ArmEnd, ArmProcess, ask, check_done, tail
from aisp.engine.caches import RunCaches
from aisp.engine.plan import Plan
from aisp.engine.protocol import jobs, reports
from aisp.engine.ranks import Process, Ranks
from aisp.engine.reporting import Reporter
from aisp.engine.services import Services
from aisp.engine.spawner import UNKNOWN_STATUS, Child, ChildGoneError, ChildTimeoutError
from aisp.kernels.catalog.contracts import Cache
from aisp.kernels.catalog.model import Target
from aisp.store.outcomes import Correctness, State
from aisp.store.text import clean_line

log = logging.getLogger("aisp.engine")

VERIFIER = "the verifier"
FINAL_REPORT_S = 5.0

Ask = Callable[[jobs.AnyJob, type[Any], str], Awaitable[Any]]
Teach = Callable[[Ask, jobs.AnyJob], Awaitable[None]]
"""Tells a fresh verifier, by the first, what the lost one knew, without what the second asked about."""


async def taken(
    services: Services, whose: str, *, interpret: bool, compiler: bool = False, reads: bool = False
) -> Child:
    """A standby, or a process that is made now. Raises ArmEnd."""
    try:
        return await services.pool.take(interpret=interpret, compiler=compiler, reads=reads)
    except (ChildGoneError, ChildTimeoutError) as error:
        raise ArmEnd(
            State.INFRA_ERROR,
            f"no process could be made ready for {whose} ({error}); `aisp doctor` tells what is missing",
        ) from None


class Crew:
    """The processes of one job on one target.

    Attributes:
        interpret: whether Triton's kernels go through its interpreter.
        folder: where the snapshot lies; None before `lay_out`.
        verifier: while it lives.
        ready: what the first verifier found of the machine; None before.
        arena: the shared files that its processes exchange.
    """

    def __init__(
        self,
        services: Services,
        *,
        target: Target,
        files: Mapping[str, bytes],
        snapshot: str,
        device: str,
        interpret: bool,
        without: Iterable[str] = (),
        keeps: bool = True,
    ) -> None:
        """`keeps`: whether a later job may have what compilers leave."""
        self._services, self._target, self._files, self._snapshot = services, target, files, snapshot
        self.device, self.interpret, self._without = device, interpret, sorted(without)
        self.folder: Path | None = None
        self.verifier: Child | None = None
        self.ready: reports.Ready | None = None
        self.arena = Arena()
        self.caches = RunCaches(services.caches, files, device, interpret, keeps=keeps)
        self._one_at_a_time = asyncio.Lock()
        self._traces = asyncio.Lock()
        self._rendezvous_folders: list[Path] = []
        self._heard: Callable[[Child], None] = lambda child: None  # with each verifier before it is asked anything

    # -- roles -----------------------------------------------------------------------------------------------------

    async def lay_out(self) -> None:
        """Lay the snapshot out, unless it lies there as it should."""
        self.folder = await asyncio.to_thread(
            snapshots.lay_out, self._services.snapshots_dir, self._snapshot, self._target.name, dict(self._files)
        )

    async def take(self, whose: str, *, compiler: bool = False) -> Child:
        """One process without a role. Raises ArmEnd."""
        return await taken(self._services, whose, interpret=self.interpret, compiler=compiler)

    async def take_ranks(self, whose: str, *, compiler: bool = False) -> Process:
        """One process for each rank of the target; several stand for one arm. Raises ArmEnd."""
        if self._target.ranks == 1:
            return await self.take(whose, compiler=compiler)
        children: list[Child] = []
        try:
            while len(children) < self._target.ranks:
                children.append(await self.take(whose, compiler=compiler))
        except BaseException:
            await asyncio.gather(*(child.end(gently=False) for child in children))
            raise
        return Ranks(children)

    async def give_role(
        self, process: Process, module: str, whose: str, *, verifies: bool = False, seat: int = 0
    ) -> None:
        """Make a process the arm `whose` of a module of the snapshot, or its verifier. Raises ArmEnd.

        Args:
            seat: how many processes of the same arm live already.
        """
        assert self.folder is not None
        shared = self._target.ranks > 1 and not verifies
        caches = [] if verifies else await self.caches.prepare(process, module, whose, seat)
        job = jobs.Load(
            folder=os.fsencode(self.folder),
            root=os.fsencode(self._target.root),
            chapter=self._target.chapter,
            target_id=self._target.id,
            module=module,
            device=self.device,
            without=self._without,
            ranks=self._target.ranks if shared else 1,
            rendezvous=self.rendezvous() if shared else "",
            meeting=self.arena.blob() if shared and self.device == "cuda" else None,
            caches=caches,
        )
        limits = self._services.limits
        patience_s = limits.verifier_s if verifies else limits.compile_s
        await ask(process, job, reports.Loaded, patience_s, "reference.py" if verifies else whose)

    def rendezvous(self) -> str:
        """A path that no file has, in a folder that the ranks of an arm share and that goes with the job."""
        folder = self._services.snapshots_dir / f".rendezvous-{os.urandom(8).hex()}"
        folder.mkdir(mode=0o700, parents=True)
        self._rendezvous_folders.append(folder)
        return str(folder / "rendezvous")

    # -- the verifier ----------------------------------------------------------------------------------------------

    async def start_verifier(self, heard: Callable[[Child], None] = lambda child: None) -> reports.Ready:
        """Take a process for the verifier, which lasts over all replicas. Raises ArmEnd.

        Args:
            heard: called with it before it is asked anything.

        Returns:
            What it found of the machine.
        """
        self._heard = heard
        poses = any(spec.posed for spec in self._target.inputs)  # by code of its own, which may read data sets
        child = await taken(self._services, VERIFIER, interpret=self.interpret, reads=poses)
        self.verifier = child
        heard(child)
        ready = child.ready
        if self.device == "cuda" and not (ready and ready.gpu_name):
            note = ready.note if ready else ""
            raise ArmEnd(State.UNAVAILABLE, f"torch cannot use the GPU: {note or 'no reason given'}")
        await self.give_role(child, "reference", VERIFIER, verifies=True)
        assert ready is not None
        self.ready = ready
        return ready

    async def describe(self, ready: reports.Ready) -> str:
        """Store what a process found of the machine; the environment's id."""
        target, nvml = self._target, self._services.nvml
        beside = [one.name for one in nvml.devices()[self._services.gpu :]][:1] if target.on_host else []
        described = environment.describe(
            ready, nvml.driver, target.folder, ranks=target.ranks, beside=next(iter(beside), "")
        )
        return await self._services.store(lambda store: store.put_environment(described))

    async def ask_verifier(
        self, job: jobs.AnyJob, want: type[Any], whose: str = VERIFIER, *, teach: Teach | None = None
    ) -> Any:
        """Its answer; it is asked one thing at a time. Raises ArmEnd.

        Args:
            teach: of a job that the run can do without. A verifier that is lost to it is replaced by a fresh one, which
                is taught what the lost one knew before anybody else asks it anything; then the end is the job's alone,
                `State.USER_ERROR`.
        """
        async with self._one_at_a_time:
            try:
                return await self._ask_now(job, want, whose)
            except ArmEnd as end:
                if teach is None or end.state is State.USER_ERROR or self.verifier is None:
                    raise
                await self.end_verifier()
                await self.start_verifier(self._heard)
                await self.on_the_gpu([])
                await teach(self._ask_now, job)
                raise ArmEnd(State.USER_ERROR, end.reason, end.detail) from None

    async def pair_ms(self, cache: Cache) -> float | None:
        """What an event pair reads on this run's GPU beyond the kernels between its events: asked of a verifier once
        in an engine's life. None on a CPU, and where CUPTI does not say. Raises ArmEnd.

        Args:
            cache: what the L2 holds before a sample.
        """
        if self.device != "cuda":
            return None
        cached_ms, key = self._services.pairs_ms, (self._services.gpu, cache)
        if key not in cached_ms:
            report = await self.ask_verifier(jobs.ReadPairs(cache=cache), reports.PairsRead)
            if report.pair_ms is None:
                log.warning("event pairs were not held against CUPTI: %s", clean_line(report.note))
            cached_ms[key] = report.pair_ms
        return cached_ms[key]

    async def _ask_now(self, job: jobs.AnyJob, want: type[Any], whose: str = VERIFIER) -> Any:
        """The answer of whoever is the verifier now."""
        if self.verifier is None:
            raise ArmEnd(State.INFRA_ERROR, "there is no verifier")
        return await ask(self.verifier, job, want, self._services.limits.verifier_s, whose)

    async def end_verifier(self) -> None:
        """End it, where there is one."""
        verifier, self.verifier = self.verifier, None
        if verifier is not None:
            await self.end(verifier, gently=False)

    # -- ends ------------------------------------------------------------------------------------------------------

    async def on_the_gpu(self, processes: Iterable[Process]) -> None:
        """Note that these processes, and the verifier, use the GPU from now on."""
        if self.device == "cuda":
            own = [self.verifier.pid] if self.verifier is not None else []
            await self._services.ownership.begin({*own, *(process.pid for process in processes)})

    async def end(self, process: Process, *, gently: bool) -> int | None:
        """End a process and wait until the GPU has forgotten it. Returns its exit status; None: it cannot be killed."""
        code = await process.end(gently=gently)
        if code is None and process.alive:
            self._services.ownership.cannot_kill(process.pid)
            self._services.on_lost_gpu(f"process {process.pid} cannot be killed")
        elif self.device == "cuda" and (pending := await self._services.ownership.ended(process.pid)):
            self._services.on_lost_gpu(pending)
        return code

    async def inspected(self, child: Process, patience_s: float, whose: str) -> reports.Inspected:
        """What its sensors noted; of groups of ranks on GPUs one after another. Raises ArmEnd.

        Sensors make calls. A GPU would take turns between the calls of two groups, and a rank that has its turn would
        be busy waiting for one that has not.
        """
        alone = self.device == "cuda" and self._target.ranks > 1
        async with self._traces if alone else contextlib.nullcontext():
            return await ask(child, jobs.Inspect(), reports.Inspected, patience_s, whose)

    async def close(self) -> None:
        """End the verifier and give back all shared memory. All other processes must have ended."""
        await self.end_verifier()
        self.arena.close()
        for folder in self._rendezvous_folders:
            shutil.rmtree(folder, ignore_errors=True)


class RunCrew(Crew):
    """The processes of one run: those of its arms, replica by replica, beside the verifier.

    Whatever goes wrong with one ends its arm and leaves the others alone.

    Attributes:
        hurries: whether processes are killed at once; of a run that nobody waits for any more.
    """

    def __init__(self, plan: Plan, services: Services, reporter: Reporter) -> None:
        super().__init__(
            services,
            target=plan.target,
            files=plan.files,
            snapshot=plan.record.snapshot,
            device=plan.device,
            interpret=plan.interpreted,
            without=plan.without,
        )
        self._plan, self._reporter = plan, reporter
        self.hurries = False

    async def start(self, arms: Sequence[Arm], replica: int) -> list[ArmProcess]:
        """A process for each arm, with its role; the processes of those where that went well."""
        async with self._reporter.step("warm worker"):
            started = await gathered(self._started(arm, replica) for arm in arms)
        return [process for process in started if process is not None and process.running]

    async def _started(self, arm: Arm, replica: int) -> ArmProcess | None:
        try:
            child = await self.take_ranks(arm.name, compiler=self._plan.compiles(arm.rung))
        except ArmEnd as end:
            self.end_arm(arm, end)
            return None
        if not arm.running:  # another process of it has failed while this one was made
            await self.end(child, gently=False)
            return None
        process = ArmProcess(arm, replica, child, self.arena.blob())
        seat = len(arm.processes)
        arm.processes.append(process)
        arm.state = State.RUNNING
        self._reporter.listen(child, arm.name)
        await self.guarded(process, lambda s: self.give_role(s.child, arm.rung.name, arm.name, seat=seat))
        return process

    async def each(self, processes: Iterable[ArmProcess], work: Callable[[ArmProcess], Awaitable[None]]) -> None:
        """Do this for all of them side by side, every one to its end."""
        await gathered(self.guarded(process, work) for process in processes if process.running)

    async def guarded(self, process: ArmProcess, work: Callable[[ArmProcess], Awaitable[None]]) -> None:
        """Do some work of a process. A failure ends its arm."""
        try:
            await work(process)
        except ArmEnd as end:
            await self.fail(process, end)

    async def fail(self, process: ArmProcess, end: ArmEnd) -> None:
        """End an arm for what one of its processes came to, and all of its processes, that one first."""
        arm = process.arm
        self.end_arm(arm, end)
        if arm.correctness is Correctness.WRONG:
            await self._final_sensor_report(process)
        for each in sorted(arm.processes, key=lambda other: other is not process):
            await self.end_arm_process(each)

    def end_arm(self, arm: Arm, end: ArmEnd) -> None:
        """Note and tell the end of an arm."""
        arm.end(end)
        self._reporter.report_arm(arm)

    async def _final_sensor_report(self, process: ArmProcess) -> None:
        """Ask the process of a refused arm what its sensors noted, where it still answers."""
        if process.child.alive and process in process.arm.processes:
            with contextlib.suppress(ArmEnd):
                report = await self.inspected(process.child, FINAL_REPORT_S, process.arm.name)
                process.arm.sensed += facts.sensed(report, self._plan.target.ranks, process.replica)

    async def end_arm_process(self, process: ArmProcess) -> None:
        """End its process, and keep what that says of the arm. It may be called twice."""
        arm, child = process.arm, process.child
        if process not in arm.processes:
            return
        hurries = self.hurries or arm.state is State.TIMEOUT_PROGRESS
        code = await self.end(child, gently=not hurries)
        if process not in arm.processes:
            return  # whoever waited for the same end has noted it
        arm.processes.remove(process)
        self.arena.free(process.outputs)
        arm.signal_sent_by_us = arm.signal_sent_by_us or child.signal_sent_by_us
        if code is not None and code < 0 and arm.signal is None:
            arm.signal = -code  # SIGTERM was enough, or SIGKILL was needed
        if code is None and child.alive:
            arm.state = State.INFRA_ERROR
            arm.reason = f"process {child.pid} cannot be killed: it is stopped in the kernel, with all that it holds"
            self._reporter.report_arm(arm)

    async def finish(self, process: ArmProcess) -> None:
        """Check the end of a process: only a done frame, exit status 0 and no signal make it a success."""
        arm, child, limits = process.arm, process.child, self._services.limits
        async with self._reporter.step("inspect", arm):
            inspected = await self.inspected(child, limits.progress_s, arm.name)
        arm.sensed += facts.sensed(inspected, self._plan.target.ranks, process.replica)
        arm.note_cost(inspected.cost_us)
        done = await ask(child, jobs.Finish(), reports.Done, limits.progress_s, arm.name)
        check_done(process, done, (time.monotonic_ns() - process.started_ns) / 1e6)
        code = await child.wait(limits.finish_s)
        if code is None or code != 0:
            # Everything was delivered and checked; only the leaving went wrong.
            arm.dirty_exit = True
            arm.exit_code = code if code is not None and 0 < code < UNKNOWN_STATUS else None
            arm.detail = tail(child)
        if code in (0, None):  # on a busy machine a compiler's own processes take longer than that to leave
            self.caches.keep(child)
        await self.end_arm_process(process)

    async def end_all(self, arms: Iterable[Arm]) -> None:
        """End every process that is left."""
        await asyncio.gather(*(self.end_arm_process(process) for arm in arms for process in list(arm.processes)))


async def gathered(work: Iterable[Awaitable[Any]]) -> list[Any]:
    """Run these side by side, every one to its end. Raises the first of their errors."""
    results = await asyncio.gather(*work, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return results
