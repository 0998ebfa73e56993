"""One run of one target, from the warm workers to the committed verdict.

Every arm is a process of its own; the verifier is another. Nothing is timed before its outputs were found right. The
outputs of timed calls are compared by fingerprint with the verified ones, and those of the last call in full. Arms take
turns in random order, and each round is reversed by the next (ABBA), so that drift falls on all alike.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import os
import random
import shutil
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from aisp.checks import registry
from aisp.checks.evaluation import Elsewhere
from aisp.checks.oracle.comparator import Mismatch
from aisp.checks.oracle.schema import Case as PosedCase
from aisp.checks.registry import Refusal, TaskFacts
from aisp.engine import (
    challenges,
    contention,
    environment,
    facts,
    gate,
    silence,
    snapshots,
    statistics,
    verdicts,
)
from aisp.engine.arena import Arena
from aisp.engine.arms import TWIN_SUFFIX, Arm, ArmEnd, ask, check_done, tail
from aisp.engine.caches import RunCaches
from aisp.engine.gate import Gate
from aisp.engine.gpus import WallClock, conditions, neighbours
from aisp.engine.plan import Plan
from aisp.engine.protocol import events, jobs, reports
from aisp.engine.ranks import Process, Ranks
from aisp.engine.services import Services
from aisp.engine.spawner import Child, ChildGoneError, ChildTimeoutError
from aisp.engine.telemetry import Readings, Sampler
from aisp.engine.turns import ArmFailure, Turns
from aisp.kernels.catalog.model import Case, Flag, Kind, Role, Rung
from aisp.kernels.catalog.sources import SUFFIXES
from aisp.store import record as records
from aisp.store.outcomes import Correctness, FindingStatus, State, Validity, Verdict
from aisp.store.results import speed_of_light, standing
from aisp.store.samples import Samples, Telemetry, frozen
from aisp.store.text import clean, clean_line

if TYPE_CHECKING:
    pass

log = logging.getLogger("aisp.runs")

OUTPUT_LINES_PER_EVENT = 200
DRAIN_S = 0.1
NAIVE_PATIENCE_S = 60.0
FINAL_REPORT_S = 5.0
REPORTED_BYTES = 4 << 20  # of a run's record in one event: a frame may have twice as many
REPORTED_FINDINGS = 1000
CONCLUDE_S = 2.0  # for what comes behind the last sample, where a newer save waits
CONTEXT_BYTES = 768 << 20  # of GPU memory, for a process that stands by


_WHEN = {
    "output.last_call": " in the last timed call",
    "output.fresh_values": " on values that it had never seen",
    "output.moved_buffers": " on the same values in other buffers",
}


class Execution:
    """Carries out one plan."""

    def __init__(self, plan: Plan, services: Services) -> None:
        self.plan = plan
        self._services = services
        self._id = plan.id
        self._device = plan.device
        self._arms: list[Arm] = []
        self._judge: Child | None = None
        self._judge_lock = asyncio.Lock()
        self._arena = Arena()
        self._posed: dict[tuple[str, int], dict[str, Any]] = {}  # sets of the lesson's own cases, as they travel
        self._inputs: dict[tuple[str, int], jobs.Blob] = {}
        self._expected: asyncio.Task[None] | None = None
        self._coming: dict[int, asyncio.Task[None]] = {}  # by replica: what makes its held-out sets
        self._folder: Path | None = None  # where the snapshot lies
        self._before: dict[str, Any] = {}  # engine.environment.observe
        self._after: dict[str, Any] = {}
        self._wall = WallClock()
        self._lost = ""  # what has become of the GPU
        self._task_facts: TaskFacts | None = None
        self._rendezvous_folders: list[Path] = []
        self._steps: list[records.Step] = []
        self._readings = Readings()
        self._flags: list[str] = []
        self._replicas = 0  # taken
        self._environment = ""
        self._ready: reports.Ready | None = None
        self._base_ms: float | None = None  # the first baseline's time
        self._output: dict[tuple[str, str], bytearray] = {}
        self._output_dropped: dict[tuple[str, str], int] = {}
        self._started = time.monotonic_ns()
        self._turns = Turns(
            self._id,
            plan.case.name,
            plan.rule,
            random.Random(plan.seed),
            services.publish,
            self._report_step,
            services.limits.progress_s,
        )
        self._reason = ""
        self._state: State | None = None
        self._task: asyncio.Task[Any] | None = None  # what measures, while it does
        self._sampled = False  # the last sample is taken
        self._superseded = ""  # by what
        self._cut: asyncio.TimerHandle | None = None  # ends it soon
        self._beyond = Gate(
            target=plan.target,
            case=plan.case,
            device=self._device,
            seed=plan.seed,
            without=plan.without,
            first_set=plan.held_out + gate.FIRST_SET,
            ask_judge=self._ask_judge,
            blob=self._arena.blob,
        )
        self._caches = RunCaches(services.caches, plan.files, self._device, self._interpreted)
        self._doubted: Mapping[str, str] = {}

    @property
    def _interpreted(self) -> bool:
        """Whether Triton's kernels go through its interpreter."""
        return self._device == "cpu" and any(rung.kind is Kind.TRITON for rung in self.plan.rungs)

    # -- the whole -------------------------------------------------------------------------------------------------

    async def run(self) -> records.Run:
        """Carry it out; the final record, committed. Cancelling this task ends the run as `cancelled`."""
        self._started = time.monotonic_ns()
        self._task = asyncio.current_task()
        self._services.pool.begin_run()
        self._make_arms()
        sampler = Sampler(self._services.nvml, self._services.gpu)
        drain = asyncio.create_task(self._drain(sampler, self._task))
        try:
            if self.plan.problem:
                self._state, self._reason = State.UNAVAILABLE, self.plan.problem
            else:
                await self._advance(State.STARTING)
                if self._device == "cuda":
                    sampler.start()
                async with asyncio.timeout(self._services.limits.total_s):
                    await self._measure_all()
        except TimeoutError:
            self._state = State.TIMEOUT_TOTAL
            self._reason = (
                f"the run took longer than {self._services.limits.total_s:.0f} s; use smaller axes or --quick"
            )
        except asyncio.CancelledError:
            self._state, self._reason = (
                State.CANCELLED,
                self._superseded or "cancelled on request; nothing is lost of earlier runs",
            )
            if self._superseded:
                self._flags.append(records.SUPERSEDED)
            self._lost = self._services.ownership.why_lost(sampler.lost)
        except ArmEnd as end:
            self._state, self._reason = end.state, end.reason
            for arm in self._arms:
                if arm.running:
                    self._end_arm(arm, end)
        except Exception as error:
            log.exception("run %s failed in the engine", self._id)
            self._state = State.INFRA_ERROR
            self._reason = f"the engine failed ({type(error).__name__}: {error}); `aisp engine logs` has the trace"
        finally:
            self._task = None
            if self._cut is not None:
                self._cut.cancel()
            sampler.stop()
            drain.cancel()
        # A task of its own: cancelled once more, or at its very end, a run is still cleaned up and stored.
        ending = asyncio.create_task(self._end(sampler))
        while not ending.done():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.shield(ending)
        return ending.result()

    def supersede(self, reason: str) -> None:
        """End the run because a later save takes its place.

        Up to its last sample, the challenge's, it ends at once. Behind that there is a result, and what is left takes
        some tenths of a second: it may conclude. Where the questions behind the last sample (other values, drawn shapes
        of a compiled rung) take longer than CONCLUDE_S, it ends all the same. A verdict that is on its way is stored.
        """
        if self._task is None or self._superseded:
            return
        self._superseded = reason
        if self._sampled:
            self._cut = asyncio.get_running_loop().call_later(CONCLUDE_S, self._task.cancel)
        else:
            self._task.cancel()

    async def _end(self, sampler: Sampler) -> records.Run:
        if self._device == "cuda" and self._before:
            await self._handle_lost_gpu()
        await self._clean_up()
        self._flush(sampler)
        try:
            return await self._conclude()
        finally:
            await self._caches.settle({arm.name for arm in self._arms if self._is_good(arm)})

    def _is_good(self, arm: Arm) -> bool:
        """Whether what this arm compiled may be used again."""
        ended_well = arm.state is State.OK and arm.correctness is Correctness.CORRECT
        return ended_well and arm.name not in self._doubted and "" not in self._doubted

    def _make_arms(self) -> None:
        made = self._arms
        for rung in self.plan.rungs:
            timed = not (self._device == "cpu" and rung.kind is Kind.TRITON)
            # The record's name of it, by which events, findings and samples name it too: a file may be called anything.
            arm = Arm(clean_line(rung.name), rung, self._device, timed, without=self.plan.without)
            made.append(arm)
            if rung.name in self.plan.obstacles:
                self._end_arm(arm, ArmEnd(State.UNAVAILABLE, self.plan.obstacles[rung.name]))
        if self.plan.rule.replicas > 1 and made and made[0].running and made[0].timed:
            base = made[0]
            made.append(Arm(base.name + TWIN_SUFFIX, base.rung, self._device, True, without=self.plan.without))

    async def _measure_all(self) -> None:
        if not any(arm.running for arm in self._arms):
            self._state = State.UNAVAILABLE
            self._reason = "; ".join(sorted({arm.reason for arm in self._arms}))
            return
        if self._device == "cuda" and (problem := await self._services.look_at_gpu()):
            self._state, self._reason = State.UNAVAILABLE, problem
            return
        self._before = await asyncio.to_thread(self._observe)
        others = neighbours(self._before) if self._device == "cuda" and self._services.refuse_contended else []
        if others:
            self._state = State.UNAVAILABLE
            self._reason = (
                f"process {others[0]} uses the GPU ({len(others)} in all) and AISP_REFUSE_CONTENDED is set; "
                "end it, or unset the variable and start the engine anew"
            )
            return
        for replica in range(self.plan.rule.replicas):
            taking_part = [arm for arm in self._arms if arm.running and (arm.timed or not replica)]
            if self.plan.rule.interleaved:
                groups = [taking_part] if taking_part else []
            else:
                groups = [[arm] for arm in self._turns.in_order(taking_part, replica)]
            over = False
            for arms in groups:
                over = await self._replica(arms, replica, closing=arms is groups[-1])
            self._replicas = replica + 1
            if over:
                if self._replicas < self.plan.rule.replicas:
                    self._flags.append(f"decided after {self._replicas} of {self.plan.rule.replicas} replicas")
                break
        await self._ask_naively()
        self._task_facts = await self._about_the_task()

    def _over(self, replica: int) -> bool:
        """Whether this replica is the run's last: there are no more, or its look finds every comparison decided."""
        rule = self.plan.rule
        if replica + 1 >= rule.replicas:
            return True
        if not any(look.replicas == replica + 1 for look in rule.looks):
            return False
        return verdicts.decided(self._compared(statistics.RESAMPLES))

    def _compared(self, draws: int | None = None) -> list[records.Comparison]:
        """The comparisons as they stand; with fewer draws while the run goes on, unless told how many."""
        rule = self.plan.rule
        return verdicts.comparisons(
            self._arms, quick=self.plan.record.quick, interleaved=rule.interleaved, looks=rule.looks, draws=draws
        )

    async def _replica(self, taking_part: list[Arm], replica: int, *, closing: bool) -> bool:
        """One fresh process per arm: verified, warmed up, measured in turns, and thrown away.

        Args:
            closing: no other arms are taken in this replica.

        Returns:
            Whether the run has all that it needs.
        """
        plan = self.plan
        last = closing and replica + 1 == plan.rule.replicas
        self._folder = await asyncio.to_thread(
            snapshots.lay_out, self._services.snapshots_dir, plan.record.snapshot, plan.target.name, plan.files
        )
        if self._judge is None:
            await self._start_judge()
            await self._advance(State.RUNNING)
            await self._describe()
            # The verifier makes inputs and expected values while the processes of the arms become ready.
            await _all(self._make_inputs(), self._start_arms(taking_part, replica))
        else:
            await self._start_arms(taking_part, replica)
        if self._device == "cuda":
            processes = [self._judge, *(arm.child for arm in taking_part)]
            await self._services.ownership.begin({process.pid for process in processes if process is not None})
        if last:
            # The next job's processes start behind the last sample, which would wait for them.
            self._services.pool.expect(0)
        else:
            self._expect_processes(taking_part, max(1, plan.rule.until_look(replica + 1) - replica - 1))
        self._prepare_held_out(replica)
        # Compiling and verifying side by side: nothing is timed yet.
        await self._each(taking_part, lambda arm: self._verify(arm, gate=replica == 0))
        if self._expected is not None:
            await self._expected  # a reference that failed ends the run, not only its arms
        for task in self._coming.values():
            await task  # the verifier does not work while anything is timed
        timed = [arm for arm in taking_part if arm.running and arm.timed]
        if timed:
            with self._services.pool.quiet():
                await self._services.pool.settled()
                for arm in timed:
                    await self._guarded(arm, self._warm_up)
                timed = [arm for arm in timed if arm.running]
                await self._choose(timed)
                timed = [arm for arm in timed if arm.running]
                async with self._step("measure"):
                    with contention.around([arm.waits for arm in timed]):
                        await self._take_turns(timed, replica)
                async with self._step("challenge"):
                    for arm in timed:
                        if arm.running:
                            await self._guarded(arm, lambda a: self._challenge(a, replica))
        over = closing and await asyncio.to_thread(self._over, replica)
        if over:
            self._sampled = True
            self._expect_processes(taking_part, 0)
            self._services.pool.end_run()
        elif closing and any(arm.running for arm in timed):
            self._prepare_held_out(replica + 1)
        if replica == 0:
            # One after the other: what one process holds at the timed shape twice, several may not.
            for arm in taking_part:
                if arm.running:
                    await self._guarded(arm, self._try_more)
        await self._each(taking_part, self._finish_process)
        await self._report()
        return over

    def _expect_processes(self, arms: Sequence[Arm], replicas: int) -> None:
        """Start the processes of later replicas ahead, while the arms of this one compile.

        After the last replica the processes of the next job follow. Their CUDA contexts may take a quarter of the GPU
        memory that is free: the lessons come first.
        """
        if replicas:
            each = replicas * self.plan.target.ranks
            count, compilers = each * len(arms), each * sum(self.plan.compiles(arm.rung) for arm in arms)
        else:
            count, compilers = self._services.next_processes()
            count += len(self._naively()) * self.plan.target.ranks
        if self._device == "cuda":
            whole, used = self._ready and self._ready.memory_bytes, self._services.nvml.used_bytes(self._services.gpu)
            count = min(count, int((whole - used) / 4 / CONTEXT_BYTES)) if whole and used is not None else 0
        elif self._interpreted and not self._services.pool.interpret:
            count = 0  # standbys would be of the wrong kind
        self._services.pool.expect(count, compilers)

    async def _start_judge(self) -> None:
        """Take a standby for the verifier, which stays for all replicas.

        It has read the reference before anything of a rung runs: a rung can write into its own folder.
        """
        async with self._step("verifier"):
            child = self._judge = await self._take("the verifier")
            self._listen(child, "verifier")
            if self._device == "cuda" and not (child.ready and child.ready.gpu_name):
                note = child.ready.note if child.ready else ""
                raise ArmEnd(State.UNAVAILABLE, f"torch cannot use the GPU: {note or 'no reason given'}")
            job = self._load("reference", 0)
            await ask(child, job, reports.Loaded, self._services.limits.compile_s, "reference.py")

    async def _start_arms(self, arms: list[Arm], replica: int) -> None:
        """Take standbys for these, and give them their roles."""

        async def start(arm: Arm) -> None:
            compiler = self.plan.compiles(arm.rung)
            child = await self._for_all_ranks(lambda: self._take(arm.name, compiler=compiler))
            arm.begin_replica(child)
            arm.state = State.RUNNING
            self._listen(child, arm.name)
            job = self._load(arm.rung.name, replica, await self._caches.prepare(child, arm.rung.name, arm.name))
            await ask(child, job, reports.Loaded, self._services.limits.compile_s, arm.name)

        async with self._step("warm worker"):
            await _all(*(self._guarded(arm, start) for arm in arms))

    async def _take(self, whose: str, *, compiler: bool = False) -> Child:
        """A standby, or a process that is started now."""
        try:
            return await self._services.pool.take(interpret=self._interpreted, compiler=compiler)
        except (ChildGoneError, ChildTimeoutError) as error:
            raise ArmEnd(
                State.INFRA_ERROR,
                f"no process could be made ready for {whose} ({error}); `aisp doctor` tells what is missing",
            ) from None

    def _load(self, module: str, replica: int, caches: Sequence[bytes] = ()) -> jobs.Load:
        """The job that makes a process the arm, or the verifier, of a module of the snapshot."""
        plan, folder = self.plan, self._folder
        assert folder is not None  # laid out at the beginning of every replica
        shared = plan.target.ranks > 1 and module != "reference"
        return jobs.Load(
            folder=os.fsencode(folder),
            root=os.fsencode(plan.target.root),
            chapter=plan.target.chapter,
            target_id=plan.target.id,
            module=module,
            device=self._device,
            without=sorted(plan.without),
            deep=plan.naive and replica == 0,
            ranks=plan.target.ranks if shared else 1,
            rendezvous=self._rendezvous() if shared else "",
            caches=list(caches),
        )

    async def _for_all_ranks(self, take: Callable[[], Awaitable[Child]]) -> Process:
        """Take one process for each rank of the target; several stand for one arm."""
        if self.plan.target.ranks == 1:
            return await take()
        taken: list[Child] = []
        try:
            while len(taken) < self.plan.target.ranks:
                taken.append(await take())
        except BaseException:
            await asyncio.gather(*(child.end(gently=False) for child in taken))
            raise
        return Ranks(taken)

    def _rendezvous(self) -> str:
        """A path that no file has, in a folder that the ranks share and that goes with the run."""
        folder = self._services.snapshots_dir / f".rendezvous-{self._id}-{len(self._rendezvous_folders)}"
        folder.mkdir(mode=0o700, parents=True)
        self._rendezvous_folders.append(folder)
        return str(folder / "rendezvous")

    async def _describe(self) -> None:
        judge = self._judge
        if judge is None or judge.ready is None:
            return
        self._ready = judge.ready
        described = environment.describe(judge.ready, self._services.nvml.driver, self.plan.target.folder)
        self._environment = await self._services.store(lambda store: store.put_environment(described))

    async def _make_inputs(self) -> None:
        """Make the inputs of the timed case's sets and of the gate's cases, once for all replicas.

        The expected values are computed while the arms start and compile. A comparison waits for them.
        """
        async with self._step("inputs"):
            for case, number in self._sets(gate=True):
                await self._make_set(case, number)
        self._expected = asyncio.create_task(self._expect())

    async def _make_set(self, case: Case, number: int, like: int | None = None) -> None:
        plain = self._posed[case.name, number] = PosedCase.of_set(case, number, like).plain()
        job = jobs.Pose(case=plain, seed=self.plan.seed, blob=self._arena.blob(), later=True)
        self._inputs[case.name, number] = (await self._ask_judge(job, reports.Posed, "making the inputs")).blob

    async def _expect_set(self, case: Case, number: int) -> None:
        job = jobs.Expect(case=self._posed[case.name, number])
        await self._ask_judge(job, reports.Expected, "reference.py")

    async def _expect(self) -> None:
        for case, number in self._sets(gate=True):
            await self._expect_set(case, number)
        await self._beyond.pose([a.rung for a in self._arms if a.running])

    def _prepare_held_out(self, replica: int) -> None:
        """Let the verifier make the held-out sets of a replica, unless it does so already.

        It works while nothing is timed: before the arms are verified, or after all samples are taken.
        """
        if replica not in self._coming:
            self._coming[replica] = asyncio.create_task(self._make_held_out(replica))

    async def _make_held_out(self, replica: int) -> None:
        if self._expected is not None:
            await asyncio.shield(self._expected)  # the arms wait for that first
        case, sets = self.plan.case, self._held_out_sets(replica)
        if not sets:
            return
        async with self._step("inputs"):
            for number, like in sets:
                await self._make_set(case, number, like)
                await self._expect_set(case, number)

    def _held_out_sets(self, replica: int) -> list[tuple[int, int | None]]:
        """Number and likeness of a replica's held-out sets: wholly new values, or those of set 0 but for one element of
        every input.

        A replica gets one of the two kinds in turn; a run of one replica gets both. There are none where no input is
        refilled.
        """
        if not any(not spec.made and Flag.STATIC not in spec.flags for spec in self.plan.target.inputs):
            return []
        which = [replica] if self.plan.rule.replicas > 1 else [0, 1]
        return [(self.plan.held_out + number, None if number % 2 == 0 else 0) for number in which]

    def _gate(self) -> list[Case]:
        """Cases that every arm must get right before the timed one: the untimed ones."""
        return [case for case in self.plan.target.cases if not case.timed and case.name != self.plan.case.name]

    def _sets(self, *, gate: bool) -> list[tuple[Case, int]]:
        timed = [(self.plan.case, number) for number in range(self.plan.rule.input_sets)]
        return timed + [(case, 0) for case in self._gate()] if gate else timed

    async def _ask_judge(self, job: jobs.AnyJob, want: type[Any], whose: str) -> Any:
        judge = self._judge
        if judge is None:
            raise ArmEnd(State.INFRA_ERROR, "there is no verifier")
        async with self._judge_lock:
            return await ask(judge, job, want, self._services.limits.compile_s, whose)

    # -- one arm ---------------------------------------------------------------------------------------------------

    async def _each(self, arms: list[Arm], work: Callable[[Arm], Awaitable[None]]) -> None:
        await _all(*(self._guarded(arm, work) for arm in arms if arm.running))

    async def _guarded(self, arm: Arm, work: Callable[[Arm], Awaitable[None]]) -> None:
        """Do some work of an arm. A failure ends this arm and leaves its siblings alone."""
        try:
            await work(arm)
        except ArmEnd as end:
            self._end_arm(arm, end)
            await self._final_sensor_report(arm)
            await self._end_process(arm)

    async def _final_sensor_report(self, arm: Arm) -> None:
        """Ask the process of a refused arm what its sensors noted, where it still answers."""
        child = arm.child
        if arm.correctness is not Correctness.WRONG or child is None or not child.alive:
            return
        with contextlib.suppress(ChildGoneError, ChildTimeoutError):
            report = await child.ask(jobs.Inspect(), FINAL_REPORT_S)
            if isinstance(report, reports.Inspected):
                arm.sensed += facts.sensed(report, self.plan.target.ranks)

    def _end_arm(self, arm: Arm, end: ArmEnd) -> None:
        arm.state = end.state
        arm.reason = clean_line(end.reason)
        arm.detail = clean(end.detail)
        arm.signal = end.signal_number
        arm.exit_code = end.exit_code
        if end.correctness is not None:
            arm.correctness = end.correctness
        if end.correctness is Correctness.WRONG:
            arm.max_error = end.max_error  # None where a wrong output has no finite error
        if end.check:
            arm.refusal = Refusal(end.check, clean_line(end.detail.splitlines()[0] if end.detail else end.reason))
        self._report_arm(arm)

    async def _end_process(self, arm: Arm) -> None:
        child, arm.child = arm.child, None
        if child is None:
            return
        hurry = arm.state is State.TIMEOUT_PROGRESS or self._lost or self._superseded
        code = await child.end(gently=not hurry)
        outputs, arm.outputs = arm.outputs, None
        if outputs is not None:
            self._arena.free(outputs)
        arm.signal_sent_by_us = arm.signal_sent_by_us or child.signal_sent_by_us
        if code is not None and code < 0 and arm.signal is None:
            arm.signal = -code  # SIGTERM was enough, or SIGKILL was needed
        if code is None and child.alive:
            arm.state = State.INFRA_ERROR
            arm.reason = f"process {child.pid} cannot be killed: it is stopped in the kernel, with all that it holds"
            self._report_arm(arm)
            self._services.on_lost_gpu(f"process {child.pid} cannot be killed")
        elif self._device == "cuda" and (pending := await self._services.ownership.ended(child.pid)):
            self._services.on_lost_gpu(pending)

    async def _handle_lost_gpu(self) -> None:
        """If the GPU is lost, the run is lost too: what its processes said on the way down counts no more."""
        self._lost = self._lost or await self._services.ownership.lost()
        if self._lost:
            self._state = State.INFRA_ERROR
            self._reason = f"{self._lost}; `nvidia-smi` and the kernel's log say more, a restart may bring it back"
            self._services.on_lost_gpu(self._lost)

    def _child(self, arm: Arm) -> Process:
        if arm.child is None:
            raise ArmEnd(State.INFRA_ERROR, f"{arm.name} has no process")
        return arm.child

    async def _verify(self, arm: Arm, *, gate: bool) -> None:
        """Compile and check: the timed case on every set, then the gate's cases.

        The gate is passed once. Later processes run the same sources, and their timed case is checked again.
        """
        child, limits = self._child(arm), self._services.limits
        outputs = self._outputs_of(arm)
        by_case: dict[str, list[int]] = {}
        for case, number in self._sets(gate=gate):
            if beyond := arm.rung.unsupported(case.axes):
                told = clean_line(f"{beyond}: not asked for case {case.name}")
                self._flags += [told] if told not in self._flags else []  # the baseline takes part twice
                continue
            by_case.setdefault(case.name, []).append(number)
        for case_name, numbers in by_case.items():
            async with self._step("compile", arm):
                await ask(
                    child,
                    jobs.TakeInputs(
                        case=case_name,
                        seed=self.plan.seed,
                        sets=[self._inputs[case_name, number] for number in numbers],
                    ),
                    reports.Taken,
                    limits.progress_s,
                    arm.name,
                )
                ready = jobs.Prepare(case=case_name)
                prepared = await ask(child, ready, reports.Prepared, limits.compile_s, arm.name)
            async with self._step("verify", arm):
                for number in numbers:
                    executed = await ask(
                        child,
                        jobs.Execute(case=case_name, set_index=number, outputs=outputs),
                        reports.Executed,
                        limits.progress_s,
                        arm.name,
                    )
                    check = "output.values" if case_name == self.plan.case.name else "evaluation.held_out"
                    await self._judge_outputs(arm, case_name, number, executed.outputs, check)
                    if case_name == self.plan.case.name:
                        arm.verified[number] = executed.fingerprint
                        if executed.peak_bytes is not None:
                            arm.peak_bytes = max(arm.peak_bytes or 0, executed.peak_bytes)
                if case_name == self.plan.case.name and gate and not prepared.for_buffers:
                    # Not the set that lies in the old buffers: a rung that reads those must be wrong.
                    job = jobs.Execute(case=case_name, set_index=numbers[0], outputs=outputs, moved=True)
                    moved = await ask(child, job, reports.Executed, limits.progress_s, arm.name)
                    await self._judge_outputs(arm, case_name, numbers[0], moved.outputs, "output.moved_buffers")
        if gate and not self.plan.compiles(arm.rung):
            await self._enter(arm)
        arm.correctness = Correctness.CORRECT
        self._report_arm(arm)

    async def _enter(self, arm: Arm, *, most: int | None = None) -> None:
        """The drawn shapes of the gate."""
        async with self._step("gate", arm):
            if self._expected is not None:
                await asyncio.shield(self._expected)
            patience_s = self._services.limits.compile_s
            child = self._child(arm)
            async with self._caches.passing(child):
                await self._beyond.enter(arm, child, self._outputs_of(arm), patience_s, most=most)

    def _outputs_of(self, arm: Arm) -> jobs.Blob:
        """The shared file in which an arm's process hands over outputs. No other process has it."""
        if arm.outputs is None:
            arm.outputs = self._arena.blob()
        return arm.outputs

    async def _judge_outputs(self, arm: Arm, case_name: str, number: int, outputs: jobs.Blob, check: str) -> None:
        """Judge one call's outputs in full. Wrong outputs end the arm in the name of `check`."""
        if self._expected is not None:
            await asyncio.shield(self._expected)
        job = jobs.Judge(case=self._posed[case_name, number], seed=self.plan.seed, outputs=outputs)
        judged: reports.Judged = await self._ask_judge(job, reports.Judged, "the verifier")
        arm.compared.append(judged.figures)
        arm.accepted[judged.policy] += judged.right
        if judged.finding in (Mismatch.NAN, Mismatch.INF):
            check = "output.nonfinite"
        elif not judged.right and judged.finding != Mismatch.VALUES:
            check = "output.form"
        if not judged.right and check in self.plan.without:
            return
        if judged.max_error is not None:
            arm.max_error = max(arm.max_error or 0.0, judged.max_error)
        if not judged.right:
            place = "" if case_name == self.plan.case.name else f" (case {case_name})"
            place += _WHEN.get(check, "")
            raise ArmEnd(
                State.INCORRECT,
                f"wrong {judged.finding}{place}: {clean_line(judged.detail)}",
                clean(judged.detail),
                correctness=Correctness.WRONG,
                max_error=judged.max_error,
                check=check,
            )

    async def _warm_up(self, arm: Arm) -> None:
        async with self._step("warm-up", arm):
            await self._turns.warm_up(arm, self._child(arm))

    async def _choose(self, arms: list[Arm]) -> None:
        """Choose how samples are taken, alike for all arms. If an arm fails here, the others get one more try without
        it.
        """
        while arms:
            try:
                await self._turns.choose(arms, self._child)
            except ArmFailure as failed:
                self._end_arm(failed.arm, failed.end)
                await self._end_process(failed.arm)
                arms = [arm for arm in arms if arm.running]
            else:
                return

    async def _take_turns(self, arms: list[Arm], replica: int) -> None:
        """Randomised ABBA: a shuffled order in one round, its reverse in the next, until the stop rule is met."""
        number, started_s = 0, time.monotonic()
        while not self._turns.over(number, started_s, verdicts.widest(self._arms, replica)):
            for arm in self._turns.in_order(arms, number):
                if arm.running:
                    await self._guarded(
                        arm,
                        lambda a, n=number: self._turns.turn(a, self._child(a), n, replica),  # type: ignore[misc]
                    )
            if not any(arm.running for arm in arms):
                return
            if number == 0 or number % 2 == 1:
                await self._report()
            number += 1

    async def _challenge(self, arm: Arm, replica: int) -> None:
        """Judge the last timed call's outputs in full, then challenge the arm: the engine's own clock, and held-out
        inputs.
        """
        await self._verify_last(arm)
        child, case, patience_s = self._child(arm), self.plan.case.name, self._services.limits.progress_s
        arm.sustained.append(await challenges.sustain(arm, child, case, replica, patience_s))
        found: list[reports.HeldOutTimes] = []
        crowding = 1.0
        for position, (number, like) in enumerate(self._held_out_sets(replica)):
            count = challenges.pairs(arm.per_sample_ms) + (like is not None) if position == 0 else 1
            job = jobs.HeldOut(
                case=case,
                blob=self._inputs[case, number],
                seen=[random.randrange(self.plan.rule.input_sets) for _ in range(count)],
                shifts=[random.randrange(1, 1 << 20) for _ in range(count - 1)],
                outputs=self._outputs_of(arm),
            )
            with contention.Crowd(child.pid) as crowd:
                answer = await ask(child, job, reports.HeldOutTimes, patience_s, arm.name)
            crowding = max(crowding, crowd.factor)
            await self._judge_outputs(arm, case, number, answer.outputs, "output.fresh_values")
            found.append(challenges.without_first(answer) if like is not None else answer)
        if found:
            arm.held_out.append(challenges.together(found, len(found), crowding))

    async def _try_more(self, arm: Arm) -> None:
        """Ask what the gate asks after the last sample."""
        if self.plan.compiles(arm.rung):
            await self._enter(arm, most=1)
        async with self._step("values", arm):
            await self._beyond.try_values(
                arm, self._child(arm), self._outputs_of(arm), self._services.limits.progress_s
            )

    async def _verify_last(self, arm: Arm) -> None:
        """Judge the outputs of the last timed call in full."""
        last = await ask(
            self._child(arm),
            jobs.FetchLast(outputs=self._outputs_of(arm)),
            reports.LastOutputs,
            self._services.limits.progress_s,
            arm.name,
        )
        if last.set_index < 0:
            raise ArmEnd(State.INFRA_ERROR, f"{arm.name} took no sample")
        await self._judge_outputs(arm, self.plan.case.name, last.set_index, last.outputs, "output.last_call")

    async def _finish_process(self, arm: Arm) -> None:
        """Check the end of an arm's process: only a done frame, exit status 0 and no signal make it a success."""
        child = self._child(arm)
        async with self._step("inspect", arm):
            patience_s = self._services.limits.progress_s
            inspected = await ask(child, jobs.Inspect(), reports.Inspected, patience_s, arm.name)
        arm.sensed += facts.sensed(inspected, self.plan.target.ranks)
        arm.note_cost(inspected.cost_us)
        done = await ask(child, jobs.Finish(), reports.Done, self._services.limits.progress_s, arm.name)
        check_done(arm, done, (time.monotonic_ns() - arm.started_ns) / 1e6)
        code = await child.wait(self._services.limits.finish_s)
        if code is None or code != 0:
            # Everything was delivered and checked; only the leaving went wrong.
            arm.dirty_exit = True
            arm.exit_code = code if code is not None and code > 0 else None
            arm.detail = tail(child)
        if code in (0, None):  # on a busy machine a compiler's own processes take longer than that to leave
            self._caches.keep(child)
        await self._end_process(arm)

    # -- beside the arms -------------------------------------------------------------------------------------------

    async def _ask_naively(self) -> None:
        """What the naive harness would have said of every rung, each in a process of its own."""
        base = self.plan.rungs[0]
        case = self.plan.case.name
        for arm in self._naively():
            if not arm.timed:
                arm.naive = records.Naive(note="not timed: Triton's interpreter says nothing of a GPU's time")
                continue
            async with self._step("naive", arm):
                arm.naive = await self._naive(base, arm.rung, case)

    def _naively(self) -> list[Arm]:
        """The arms that the naive harness is asked about."""
        if not self.plan.naive or (self.plan.case.name, 0) not in self._inputs:
            return []
        asked = (Role.OPTIMIZED, Role.PEER, Role.CHEAT, Role.WRONG)
        return [arm for arm in self._arms if arm.rung.role in asked and arm.state is not State.UNAVAILABLE]

    async def _naive(self, base: Rung, rung: Rung, case: str) -> records.Naive:
        if self._folder is None:
            return records.Naive(note="the sources were never laid out")
        job = jobs.Naive(
            folder=os.fsencode(self._folder),
            root=os.fsencode(self.plan.target.root),
            chapter=self.plan.target.chapter,
            device=self._device,
            case=case,
            seed=self.plan.seed,
            sets=[self._inputs[case, 0]],
            baseline=base.name,
            rung=rung.name,
            ranks=self.plan.target.ranks,
            rendezvous=self._rendezvous() if self.plan.target.ranks > 1 else "",
        )
        try:
            child = await self._for_all_ranks(lambda: self._services.pool.take(interpret=self._interpreted))
        except (ChildGoneError, ChildTimeoutError) as error:
            return records.Naive(note=clean_line(f"no process could be made ready: {error}"))
        try:
            job = msgspec.structs.replace(job, caches=await self._caches.prepare(child, rung.name, rung.name))
            found = await ask(child, job, reports.NaiveMeasured, NAIVE_PATIENCE_S, rung.name)
        except ArmEnd as end:
            return records.Naive(note=clean_line(end.reason))
        finally:
            await child.end(gently=False)
        note = clean_line(found.note) or ("" if found.time_ms and found.base_ms else "its clock did not advance")
        return records.Naive(found.base_ms, found.time_ms, found.accepts, note)

    async def _about_the_task(self) -> TaskFacts | None:
        """What the verifier says of the task itself; None where it cannot."""
        if self._judge is None:
            return None
        try:
            return facts.task_facts(await self._ask_judge(jobs.Inspect(), reports.TaskInspected, "the verifier"))
        except ArmEnd:
            return None

    # -- reporting -------------------------------------------------------------------------------------------------

    async def _advance(self, state: State) -> None:
        await self._services.store(lambda store: store.advance(self._id, state, start_ns=self._started))
        self._services.publish(events.RunState(run_id=self._id, state=state, at_ns=time.monotonic_ns()))

    @contextlib.asynccontextmanager
    async def _step(self, name: str, arm: Arm | None = None) -> AsyncIterator[None]:
        whose = arm.name if arm else ""
        start = time.monotonic_ns()
        self._report_step(records.Step(name, whose, start))
        before = silence.step.set(name)
        try:
            yield
        finally:
            silence.step.reset(before)
            self._report_step(records.Step(name, whose, start, (time.monotonic_ns() - start) / 1e6))

    def _report_step(self, step: records.Step) -> None:
        if step.duration_ms is not None:
            self._steps.append(step)
        self._services.publish(events.Step(run_id=self._id, step=step))

    def _listen(self, child: Process, whose: str) -> None:
        def heard(stream: str, data: bytes) -> None:
            kept = self._output.setdefault((whose, stream), bytearray())
            room = 256 * 1024 - len(kept)
            kept += data[: max(room, 0)]
            if len(data) > room:
                key = (whose, stream)
                self._output_dropped[key] = self._output_dropped.get(key, 0) + len(data) - max(room, 0)

        child.on_output = heard

    async def _drain(self, sampler: Sampler, run: asyncio.Task[Any] | None) -> None:
        """Hand on what gathers while the run lasts; end it as soon as the GPU is lost."""
        while True:
            await asyncio.sleep(DRAIN_S)
            self._flush(sampler)
            if sampler.lost and run is not None:
                run.cancel()
                run = None

    def _flush(self, sampler: Sampler) -> None:
        """Hand on telemetry and printed lines that have gathered."""
        taken = sampler.take()
        if taken.at_ns:
            self._readings.extend(taken)
            self._services.publish(taken.event(self._services.gpu))
        gathered, self._output = self._output, {}
        dropped, self._output_dropped = self._output_dropped, {}
        for (whose, stream), data in gathered.items():
            lines = clean(bytes(data)).splitlines()
            lost = dropped.get((whose, stream), 0)
            if len(lines) > OUTPUT_LINES_PER_EVENT:
                lost += sum(len(line) for line in lines[OUTPUT_LINES_PER_EVENT:])
                lines = lines[:OUTPUT_LINES_PER_EVENT]
            if lines:
                shown = [line[:2000] for line in lines]
                self._services.publish(
                    events.Output(run_id=self._id, arm=whose, stream=stream, lines=shown, dropped=lost)
                )

    def _report_arm(self, arm: Arm) -> None:
        self._services.publish(events.ArmUpdate(run_id=self._id, arm=self._arm_record(arm)))

    async def _report(self) -> None:
        """Preliminary figures. They cost some 10 ms an arm: in a thread, while nothing is measured."""
        self._publish_figures(*await asyncio.to_thread(self._figures))

    def _publish_figures(self, arms: Sequence[records.Arm], comparisons: Sequence[records.Comparison]) -> None:
        for arm in arms:
            self._services.publish(events.ArmUpdate(run_id=self._id, arm=arm))
        for comparison in comparisons:
            self._services.publish(events.ComparisonUpdate(run_id=self._id, comparison=comparison))

    def _figures(self) -> tuple[tuple[records.Arm, ...], tuple[records.Comparison, ...]]:
        """What the samples say so far, the baseline first."""
        return tuple(self._arm_record(arm) for arm in self._arms), tuple(self._compared())

    # -- the verdict -----------------------------------------------------------------------------------------------

    def _arm_record(self, arm: Arm) -> records.Arm:
        roofline: verdicts.RooflineBound | None = None
        if self._ready is not None and self._device == "cuda":
            roofline = functools.partial(
                speed_of_light.light, self.plan.target, self.plan.case, self._ready.gpu_name, self._services.peak
            )
        base = arm is self._arms[0]
        record = verdicts.arm_record(
            arm, source=self.plan.source(arm.rung), roofline=roofline, base_ms=None if base else self._base_ms
        )
        if base:
            self._base_ms = record.median_ms
        return record

    async def _clean_up(self) -> None:
        """No process and no shared memory of this run is left, whatever happened."""
        self._services.pool.expect(*self._services.next_processes())
        self._services.pool.end_run()
        making = [task for task in (self._expected, *self._coming.values()) if task is not None]
        for task in making:
            task.cancel()
        await asyncio.gather(*making, return_exceptions=True)
        await asyncio.shield(asyncio.gather(*map(self._end_process, self._arms)))
        if self._judge is not None:
            judge, self._judge = self._judge, None
            if await asyncio.shield(judge.end(gently=False)) is None:
                self._services.on_lost_gpu(f"process {judge.pid} cannot be killed")
            elif self._device == "cuda" and (pending := await self._services.ownership.ended(judge.pid)):
                self._services.on_lost_gpu(pending)
        self._arena.close()
        for folder in self._rendezvous_folders:
            shutil.rmtree(folder, ignore_errors=True)

    async def _conclude(self) -> records.Run:
        start = time.monotonic_ns()
        for arm in self._arms:
            if arm.running:
                if self._state in (None, State.OK) and arm.correctness is Correctness.CORRECT:
                    arm.state = State.OK
                else:
                    arm.state = self._state or State.INFRA_ERROR
                    arm.reason = self._reason or "not reached"
        arms, comparisons = await asyncio.to_thread(self._figures)
        state, reason = self._final_state(arms)
        correctness = verdicts.overall(arms)
        if state is State.OK and correctness is not Correctness.CORRECT:
            state, reason = State.UNAVAILABLE, "no rung could run here"
        telemetry = self._telemetry()
        findings = await self._examine(arms, telemetry)
        validity = facts.overall(findings, arms, left_out=bool(self.plan.without))
        code = self.plan.record.code
        quarantines = await self._services.store(lambda store: store.quarantines(self.plan.record.folder, code))
        self._doubted = facts.doubted(findings, quarantines, code)
        comparisons = facts.without_doubted(comparisons, self._doubted)
        if self.plan.without:
            self._flags.append(f"without {', '.join(sorted(self.plan.without))}")
        if any(arm.dirty_exit for arm in arms):
            self._flags.append("dirty_exit")
        self._flags += self._turns.notes
        if self._device == "cuda" and self._before:
            self._flags += conditions(self._before, self._after, self._readings.throttle)
        self._flags += self._wall.flags()
        verdict = standing.verdict(arms, comparisons) if validity is Validity.VALID else Verdict.NONE
        self._steps.append(records.Step("verdict", "", start, (time.monotonic_ns() - start) / 1e6))
        record = msgspec.structs.replace(
            self.plan.record,
            state=state,
            correctness=correctness,
            validity=validity,
            verdict=verdict,
            start_ns=self._started,
            duration_ms=(time.monotonic_ns() - self._started) / 1e6,
            reason=reason,
            environment=self._environment,
            flags=tuple(self._flags),
            arms=arms,
            comparisons=comparisons,
            steps=tuple(self._steps),
            findings=findings,
        )
        samples = {arm.name: frozen(Samples, arm.samples) for arm in self._arms if arm.samples.device_ms}
        await self._services.store(lambda store: store.finish(record, samples, telemetry))
        self._services.publish(events.RunFinished(run=reported(record)))
        return record

    def _telemetry(self) -> Telemetry | None:
        return frozen(Telemetry, self._readings) if self._readings.at_ns else None

    @property
    def may_write(self) -> bool:
        """Whether processes of its rungs have begun and are not kept from writing into the target's own folder."""
        return self._ready is not None and not self._ready.confined

    def written(self) -> dict[str, str]:
        """Sources in the target's own folder that a rung wrote, by relative name, with the rung.

        They are those that the sensors in its process noticed. A confined process was refused such writes, so there are
        none.
        """
        if not self.may_write:
            return {}
        own = os.path.realpath(self.plan.target.folder) + os.sep
        found: dict[str, str] = {}
        for arm in self._arms:
            for told in filter(None, (sensed.of(Elsewhere) for sensed in arm.sensed)):
                for path in told.paths:
                    if path.startswith(own) and path.endswith(SUFFIXES):
                        found.setdefault(path.removeprefix(own), arm.rung.name)
        return found

    def _observe(self) -> dict[str, object]:
        services = self._services
        return environment.observe(services.nvml, services.gpu, folder=self.plan.target.folder)

    async def _examine(self, arms: Sequence[records.Arm], telemetry: Telemetry | None) -> tuple[records.Finding, ...]:
        """Ask every check. Nothing is asked of a run that never began."""
        if not self._before:
            return ()
        history = await self._services.store(lambda store: store.earlier(self.plan.record))
        self._after = await asyncio.to_thread(self._observe)
        if self._services.look_after is not None:
            self._after["installed"] = await self._services.look_after(self._id)

        def work() -> tuple[records.Finding, ...]:
            folder = self._folder
            intact = snapshots.intact(folder, self.plan.files) if folder is not None else None
            known = facts.run_facts(
                self.plan,
                self._replicas,
                [facts.arm_facts(a, r, self.plan.source(a.rung)) for a, r in zip(self._arms, arms, strict=True)],
                before=self._before,
                after=self._after,
                telemetry=telemetry,
                task=self._task_facts,
                files_intact=intact,
                drawn=self._beyond.facts(),
                history=history,
            )
            return tuple(registry.examine(known, without=self.plan.without))

        return await asyncio.to_thread(work)

    def _final_state(self, arms: tuple[records.Arm, ...]) -> tuple[State, str]:
        """The run's state: our own if we ended it, else that of the first arm that did not end well."""
        if self._state is not None:
            return self._state, clean_line(self._reason)
        for arm in arms:
            if arm.state not in (State.OK, State.UNAVAILABLE):
                named = arm.reason.startswith(arm.rung)
                return arm.state, clean_line(arm.reason if named else f"{arm.rung}: {arm.reason}")
        if not any(arm.state is State.OK for arm in arms):
            return State.UNAVAILABLE, clean_line("; ".join(sorted({arm.reason for arm in arms})))
        return State.OK, ""


def reported(record: records.Run) -> records.Run:
    """The record as clients hear of it: whole, unless it would hardly fit into a frame.

    Then the long texts of arms and minor findings are left out, and a flag says so.
    """
    if len(msgspec.msgpack.encode(record)) <= REPORTED_BYTES:
        return record
    grave = [found for found in record.findings if found.status in (FindingStatus.CAUGHT, FindingStatus.SUSPECT)]
    return msgspec.structs.replace(
        record,
        arms=tuple(msgspec.structs.replace(arm, detail="") for arm in record.arms),
        findings=tuple(grave[:REPORTED_FINDINGS]),
        flags=(*record.flags, f"told in part: `aisp bench history {record.id}` shows all of it"),
    )


async def _all(*work: Awaitable[None]) -> None:
    """Run these side by side, every one to its end. Raises the first of their errors."""
    for result in await asyncio.gather(*work, return_exceptions=True):
        if isinstance(result, BaseException):
            raise result
