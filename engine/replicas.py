"""The replicas of one run: in each a fresh process per arm, verified, warmed up, measured in turns, and thrown away."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path

from aisp.checks.registry import TaskFacts
from aisp.engine import environment, facts, naive, verdicts
from aisp.engine.arms import Arm, ArmEnd, ArmProcess
from aisp.engine.caches import builds
from aisp.engine.crew import RunCrew, gathered
from aisp.engine.measuring import Measuring
from aisp.engine.plan import Plan
from aisp.engine.protocol import jobs, reports
from aisp.engine.ranks import Process
from aisp.engine.reporting import Reporter
from aisp.engine.services import Services
from aisp.engine.turns import Alternation
from aisp.engine.verification import Verification
from aisp.kernels.catalog.model import Kind, Role
from aisp.store.outcomes import State, Trigger

CONTEXT_BYTES = 768 << 20  # of GPU memory, for a process that stands by
EARLY_ROUNDS = 2  # of a quick run's first figures
SPARE_CORES = 1  # for the verifier, where rungs compile side by side
COPIES = 4  # of its inputs, that a process may hold at once


class Replicas:
    """Takes them.

    Attributes:
        taken: how many.
        sampled: whether the last sample is taken.
        environment: id of the one in which they are taken; "" before the verifier has started.
        notes: why there are no more of them.
        task: what the verifier says of the task itself; None where it could not, or was not asked yet.
        free_bytes: of memory when the run began; 0 where that is not known.
    """

    def __init__(
        self,
        plan: Plan,
        services: Services,
        crew: RunCrew,
        verification: Verification,
        measuring: Measuring,
        reporter: Reporter,
        running: Callable[[], Awaitable[None]],
    ) -> None:
        """`running`: called once the verifier has started."""
        self._plan, self._services, self._arms = plan, services, reporter.arms
        self._crew, self._verification, self._measuring, self._reporter = crew, verification, measuring, reporter
        self._running = running
        self.taken = 0
        self.sampled = False
        self.environment = ""
        self.notes: list[str] = []
        self._settled: set[str] = set()
        self.task: TaskFacts | None = None
        self.free_bytes = 0

    @property
    def folder(self) -> Path | None:
        """Where the snapshot lies; None where it was never laid out."""
        return self._crew.folder

    async def take(self) -> None:
        """All that the run needs. Raises ArmEnd where none of its arms can go on."""
        if self._plan.side_by_side:
            await self._two_replicas()
        else:
            await self._all_replicas()
        if not self.sampled:
            await self._part_with_verifier()

    async def _all_replicas(self) -> None:
        """One replica after the other, until a look finds every comparison decided or there are no more. Rungs of which
        a look has nothing open take no more of them; baselines do, which others are held against."""
        rule, order = self._plan.rule, Alternation(self._plan.chance("replicas"))
        for replica in range(rule.replicas):
            self._reporter.begin_replica(replica)
            taking_part = [
                arm
                for arm in self._arms
                if arm.running and (arm.timed or not replica) and arm.rung.name not in self._settled
            ]
            if rule.interleaved:
                groups = [taking_part] if taking_part else []
            else:
                groups = [[arm] for arm in order.of(taking_part, replica)]
            over = False
            for arms in groups:
                over = await self._replica(arms, replica, closing=arms is groups[-1])
            self.taken = replica + 1
            if over:
                if self.taken < rule.replicas:
                    self.notes.append(f"decided after {self.taken} of {rule.replicas} replicas")
                break

    async def again(self, arms: Sequence[Arm]) -> None:
        """One more replica when all are taken, of arms that are none of the run's own. Raises ArmEnd."""
        self._services.pool.begin_run()
        async with self._reporter.step("verifier"):
            await self._crew.start_verifier(self._listen)
        await self._verification.recall()
        groups = [list(arms)] if self._plan.rule.interleaved else [[arm] for arm in arms]
        for group in groups:
            await self._replica(group, self._plan.replica_again, closing=group is groups[-1])

    async def _replica(self, arms: list[Arm], replica: int, *, closing: bool) -> bool:
        """One fresh process per arm: verified, warmed up, measured in turns, and thrown away.

        Args:
            closing: no other arms are taken in this replica.

        Returns:
            Whether the run has all that it needs.
        """
        processes = await self._start((arms, replica))
        self._services.pool.expect(0)  # what is made now, the first sample would wait for
        await self._verify(processes)
        timed = [process for process in processes if process.running and process.arm.timed]
        if timed:
            async with self._quiet():
                await self._measuring.warm_up(timed)
                await self._measuring.take_samples(timed, replica)
                await self._measuring.challenge(timed, timed, self._asked_once(timed))
        over = closing and await asyncio.to_thread(self._over, replica)
        running = [process.arm for process in timed if process.running and process.arm.rung.name not in self._settled]
        if over:
            self._last_sample_taken()
        else:
            self._expect_again(running)
        await self._close(processes, [] if replica else self._asked_once(processes))
        return over

    async def _two_replicas(self) -> None:
        """Both replicas of a quick run. Somebody waits for its first figures: they come from the rungs of the first
        replica alone. Then all other processes start and are verified side by side, and each replica is measured.

        On cores that are to spare the others start and compile while these compile, but where a save waits for rungs
        that do so in no time. Those that build an extension when they are imported, tens of seconds, start at once.
        """
        measuring = self._measuring
        rungs, twins = self._told_apart()
        self._services.pool.expect(0)  # nothing is made before the first figures
        self._reporter.begin_replica(0)
        processes = await self._start((rungs, 0), *self._building(rungs, twins))
        early = [process for process in processes if process.replica == 0 and process.arm in rungs]
        building = [process for process in processes if process not in early]
        patient = self._plan.record.trigger is Trigger.CLI or any(map(self._compiles_long, rungs))
        beside = [self._verify(early), *([self._verification.pose_values()] if patient else [])]
        ahead, *_ = await gathered([self._compiled_ahead(early, twins, building, patient=patient), *beside])
        first = [process for process in early if process.running and process.arm.timed]
        if first:
            async with self._quiet():
                await measuring.warm_up(first)
                await measuring.take_samples(first, 0, most=EARLY_ROUNDS)
        if not self._arms[0].running:
            for twin in twins:
                self._crew.end_arm(twin, ArmEnd(State.UNAVAILABLE, "the baseline had ended"))
            twins = []
        again = [process.arm for process in first if process.running] + twins
        if not again:
            self.taken = 1
            self._last_sample_taken()
            await self._close(early, early)
            return
        both = self._side_by_side(len(first), self._held_bytes(len(first) + len(ahead)))
        if not both:
            await gathered(self._crew.end_arm_process(process) for process in ahead)
            ahead = []
        ready = [(process.arm, process.replica) for process in ahead]
        joined = [arm for arm in twins if (arm, 0) not in ready]
        repeated = [arm for arm in again if (arm, 1) not in ready] if both else []
        beside = [] if patient else [self._verification.pose_values()]  # the verifier has nothing else to do
        started, *_ = await gathered([self._start((joined, 0), (repeated, 1)), *beside])
        late = [*ahead, *started]
        await self._verify(late)
        joining = [process for process in late if process.replica == 0]
        second = [process for process in late if process.replica == 1]
        async with self._quiet():
            await measuring.warm_up(joining, first)
            await measuring.take_samples([*first, *joining], 0, first=EARLY_ROUNDS)
            if both:
                self._reporter.begin_replica(1)
                await measuring.warm_up(second)
                await measuring.take_samples(second, 1)
            timed = [*first, *joining, *second]
            drawn = self._drawn(timed)
            await measuring.challenge(timed, drawn, self._asked_once(drawn))
        if both:
            self._last_sample_taken()
        untimed = [process for process in early if process not in first]
        await self._close([*early, *late], [*untimed, *self._asked_once(drawn)])
        if not both:
            self._reporter.begin_replica(1)
            await self._replica([arm for arm in again if arm.running], 1, closing=True)
        self.taken = 2

    def _told_apart(self) -> tuple[list[Arm], list[Arm]]:
        """The arms that run: those of rungs, and the A/A arm."""
        running = [arm for arm in self._arms if arm.running]
        return [arm for arm in running if not arm.twin], [arm for arm in running if arm.twin]

    @staticmethod
    def _drawn(processes: Sequence[ArmProcess]) -> list[ArmProcess]:
        """One process of each arm, drawn now that it has all of its samples: until then none knows whether it is the
        one that is asked what a quick run asks once, and whoever behaves in one alone is too far from the other.
        """
        by_arm: dict[str, list[ArmProcess]] = {}
        for process in processes:
            if process.running:
                by_arm.setdefault(process.name, []).append(process)
        return [random.SystemRandom().choice(each) for each in by_arm.values()]

    def _asked_once(self, processes: Sequence[ArmProcess]) -> list[ArmProcess]:
        """Without the A/A arm where both replicas of a quick run are measured: it has no source of its own, and claims
        nothing.
        """
        return [process for process in processes if not (self._plan.side_by_side and process.arm.twin)]

    def _building(self, rungs: Sequence[Arm], twins: Sequence[Arm]) -> list[tuple[list[Arm], int]]:
        """Arms of the second replica, and the A/A arm, that build an extension when they are imported, each with its
        replica; none where cores are short."""
        joined, repeated = self._besides(rungs, twins, self._builds)
        return [(joined, 0), (repeated, 1)]

    async def _compiled_ahead(
        self, early: Sequence[ArmProcess], twins: Sequence[Arm], building: Sequence[ArmProcess], *, patient: bool
    ) -> list[ArmProcess]:
        """Processes of the A/A arm and of the second replica that have compiled: all of them where who waits for the
        first figures is `patient`, else those of rungs that compile for seconds. None where cores or memory are short.
        `building` are there already.
        """
        rungs = [process.arm for process in early]
        joined, repeated = self._besides(rungs, twins, lambda arm: patient and arm.timed)
        if not repeated:
            joined, repeated = self._besides(rungs, twins, self._compiles_long)
        if not repeated or not self._side_by_side(len(early), self._guessed_bytes()):
            await gathered(self._crew.end_arm_process(process) for process in building)
            return []
        there = [(process.arm, process.replica) for process in building]
        lacking = [[arm for arm in arms if (arm, n) not in there] for n, arms in enumerate((joined, repeated))]
        processes = [*building, *await self._start(*((arms, n) for n, arms in enumerate(lacking)))]
        await self._crew.each(processes, self._verification.compile)
        return processes

    @staticmethod
    def _besides(
        rungs: Sequence[Arm], twins: Sequence[Arm], long: Callable[[Arm], bool]
    ) -> tuple[list[Arm], list[Arm]]:
        """Slow-building arms, as (A/A arm, second replica); both empty where cores are short."""
        joined = [arm for arm in twins if long(arm)]
        repeated = [arm for arm in rungs if long(arm)] + joined
        engine = not environment.slot_cores.get()  # else it has a core of its own
        needed = len(rungs) + len(joined) + len(repeated) + SPARE_CORES + engine
        return (joined, repeated) if environment.processors() >= needed else ([], [])

    def _builds(self, arm: Arm) -> bool:
        return arm.timed and builds(self._plan.files, arm.rung.name)

    def _compiles_long(self, arm: Arm) -> bool:
        long = arm.rung.kind is not Kind.TORCH or self._plan.compiles(arm.rung) or self._builds(arm)
        return arm.timed and long

    def _side_by_side(self, count: int, each_bytes: int | None) -> bool:
        """Whether half of the memory that is free has room for the second replica of so many arms and for the A/A arm,
        twice, where a process takes so many bytes; None where that is not known.
        """
        free = self.free_bytes
        if self._plan.device == "cuda":
            ready, used = self._crew.ready, self._services.nvml.used_bytes(self._services.gpu)
            free = ready.memory_bytes - used if ready and ready.memory_bytes and used is not None else 0
        return each_bytes is not None and 2 * (count + 2) * each_bytes <= free

    def _guessed_bytes(self) -> int:
        context = CONTEXT_BYTES if self._plan.device == "cuda" else 0
        return context + COPIES * self._verification.inputs_bytes()

    def _held_bytes(self, count: int) -> int | None:
        """Memory that each of `count` running processes takes: on a GPU, its share of all that is in use.
        A call's own peak would not do: inputs, and what PyTorch keeps for later, can be many times that."""
        if self._plan.device != "cuda":
            return self._guessed_bytes()
        used = self._services.nvml.used_bytes(self._services.gpu)
        return None if used is None else used // max(count, 1)

    async def _verify(self, processes: Sequence[ArmProcess]) -> None:
        """Compile and verify side by side: nothing is timed yet."""
        own = self._asked_once([process for process in processes if not process.replica])
        await self._crew.each(processes, lambda process: self._verification.verify(process, gate=process in own))
        await self._verification.ready()

    @contextlib.asynccontextmanager
    async def _quiet(self) -> AsyncIterator[None]:
        """While this lasts, nothing is made that would disturb what is measured."""
        with self._services.pool.quiet():
            await self._services.pool.settled()
            yield

    def _last_sample_taken(self) -> None:
        """Have the processes of the next job made, and those that this run still takes."""
        self.sampled = True
        own = len(naive.subjects(self._plan, self._arms)) * self._plan.target.ranks
        self._expect([*self._services.next_processes()[:1], (own, 0)])
        self._services.pool.end_run()

    def expect_next(self, *, over: bool) -> None:
        """Have the processes of the next job made: this run takes no more.

        A GPU makes contexts and ends them one at a time, so that many take seconds. Where there is room, the processes
        of the job behind the next are made too when this run is over, while the next one compiles: then it takes none
        that is being made, and none is made beside those that end.

        Args:
            over: none of this run's own are left.
        """
        wanted = self._services.next_processes()
        least = sum(count for count, _ in wanted[:1])
        self._expect(wanted if over and self._plan.device == "cuda" else wanted[:1], least)

    async def _start(self, *wanted: tuple[Sequence[Arm], int]) -> list[ArmProcess]:
        """Processes for arms in a replica, with their roles; before the first of them the verifier."""
        crew = self._crew
        await crew.lay_out()
        beside: list[Awaitable[None]] = []
        if crew.ready is None:
            await self._start_verifier()
            # It makes inputs and expected values while the processes of the arms become ready.
            beside.append(self._verification.make_inputs([arm.rung for arm in self._arms if arm.running]))
        started = await gathered([*beside, *(crew.start(arms, replica) for arms, replica in wanted if arms)])
        processes = [process for group in started[len(beside) :] for process in group]
        await crew.on_the_gpu(process.child for process in processes)
        return processes

    async def _start_verifier(self) -> None:
        async with self._reporter.step("verifier"):
            ready = await self._crew.start_verifier(self._listen)
        self._reporter.gpu_name = ready.gpu_name if self._plan.device == "cuda" else ""
        await self._running()
        self.environment = await self._crew.describe(ready)

    def _listen(self, verifier: Process) -> None:
        self._reporter.listen(verifier, "verifier")

    async def _close(self, processes: Sequence[ArmProcess], examined: Sequence[ArmProcess]) -> None:
        """What is asked of processes behind their last sample; then the end of each, and how the run stands.

        A process of several ranks is not asked beside one whose sensors make calls: in these ranks wait for each other.

        Args:
            examined: those that are asked for more than that.
        """
        answered = {process: asyncio.Event() for process in processes}
        entered = {process: asyncio.Event() for process in examined if self._plan.compiles(process.arm.rung)}
        if self._plan.target.ranks == 1:
            for process in processes:
                if process not in examined:
                    answered[process].set()

        async def enter(process: ArmProcess) -> None:
            if process.running:
                await self._crew.guarded(process, self._verification.enter_late)
            entered[process].set()

        async def try_values() -> None:
            """One after the other: what one process holds at the timed shape twice, several may not. Baselines first,
            which others are held against; last who compiles meanwhile."""
            for process in sorted(
                examined, key=lambda process: (process.arm.rung.role is not Role.BASELINE, process in entered)
            ):
                if process in entered:
                    await entered[process].wait()
                if process.running:
                    await self._crew.guarded(process, self._verification.try_values)
                if self._plan.target.ranks == 1:
                    answered[process].set()

        async def ask() -> None:
            try:
                await gathered([*map(enter, entered), try_values()])
            finally:
                for event in answered.values():
                    event.set()
            if self.sampled:
                await self._part_with_verifier()

        async def finish(process: ArmProcess) -> None:
            await answered[process].wait()
            if process.running:
                await self._crew.finish(process)

        await gathered([ask(), self._crew.each(processes, finish)])
        await self._reporter.report()

    async def _part_with_verifier(self) -> None:
        """Ask the verifier about the task, and end it: nothing is left to compare."""
        if self.task is None:
            with contextlib.suppress(ArmEnd):
                self.task = facts.task_facts(await self._crew.ask_verifier(jobs.Inspect(), reports.TaskInspected))
        await self._crew.end_verifier()

    def _over(self, replica: int) -> bool:
        """Whether this replica is the run's last: there are no more, or its look finds every comparison decided."""
        rule = self._plan.rule
        if replica + 1 >= rule.replicas:
            return True
        if not any(look.replicas == replica + 1 for look in rule.looks):
            return False
        compared, _ = self._reporter.compared()
        if verdicts.decided(compared):
            return True
        rungs = [
            arm.rung.name for arm in self._arms if arm.running and arm.timed and arm.rung.role is not Role.BASELINE
        ]
        newly = verdicts.settled(compared) & set(rungs) - self._settled
        if newly:
            self._settled |= newly
            self.notes.append(
                f"{len(newly)} of {len(rungs)} rungs decided after {replica + 1} of {rule.replicas} replicas"
            )
        return False

    def _expect_again(self, arms: Sequence[Arm]) -> None:
        """Have the processes of these arms made for the next replica, while those of this one end."""
        each = self._plan.target.ranks
        self._expect([(each * len(arms), each * sum(self._plan.compiles(arm.rung) for arm in arms))])

    def _expect(self, wanted: Sequence[tuple[int, int]], least: int = 0) -> None:
        """Have processes made: how many, and how many of them use torch's compiler. Beyond `least`, their CUDA
        contexts may take a quarter of the GPU memory that is free: the lessons come first.
        """
        count, compilers = sum(count for count, _ in wanted), sum(compilers for _, compilers in wanted)
        services, ready = self._services, self._crew.ready
        if self._plan.device == "cuda":
            whole, used = ready and ready.memory_bytes, services.nvml.used_bytes(services.gpu)
            count = min(count, int((whole - used) / 4 / CONTEXT_BYTES)) if whole and used is not None else 0
        elif self._crew.interpret and not services.pool.interpret:
            count = 0  # standbys would be of the wrong kind
        services.pool.expect(max(count, least), compilers)
