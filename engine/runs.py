"""One run of one target, from the warm workers to the committed verdict.

Every arm is a process of its own; the verifier is another. Nothing is timed before its outputs were found right. The
outputs of timed calls are compared by fingerprint with the verified ones, and those of the last call in full.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import time
from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from typing import Any

import msgspec

from aisp.checks import registry
from aisp.checks.evaluation import Elsewhere
from aisp.checks.registry import TaskFacts
from aisp.engine import environment, facts, naive, snapshots, statistics, verdicts
from aisp.engine.arms import TWIN_SUFFIX, Arm, ArmEnd, Stint
from aisp.engine.crew import RunCrew, gathered
from aisp.engine.gpus import WallClock, conditions, neighbours
from aisp.engine.measuring import Measuring
from aisp.engine.plan import Plan
from aisp.engine.protocol import events, jobs, reports
from aisp.engine.reporting import Reporter
from aisp.engine.services import Services
from aisp.engine.verification import Verification
from aisp.kernels.catalog.model import Kind
from aisp.kernels.catalog.sources import SUFFIXES
from aisp.store import record as records
from aisp.store.outcomes import Correctness, FindingStatus, State, Validity, Verdict
from aisp.store.results import standing
from aisp.store.samples import Samples, Telemetry, frozen
from aisp.store.text import clean_line

log = logging.getLogger("aisp.runs")

REPORTED_BYTES = 4 << 20  # of a run's record in one event: a frame may have twice as many
REPORTED_FINDINGS = 1000
CONCLUDE_S = 2.0  # for what comes behind the last sample, where a newer save waits
CONTEXT_BYTES = 768 << 20  # of GPU memory, for a process that stands by
EARLY_ROUNDS = 2  # of a quick run's first figures
COPIES = 4  # of its inputs, that a process on a CPU may hold at once


class Execution:
    """Carries out one plan."""

    def __init__(self, plan: Plan, services: Services) -> None:
        self.plan = plan
        self._services = services
        self._device = plan.device
        self._arms: list[Arm] = []
        self._reporter = Reporter(plan, services, self._arms)
        self._crew = RunCrew(plan, services, self._reporter)
        self._verification = Verification(plan, services, self._crew, self._reporter)
        self._measuring = Measuring(plan, services, self._crew, self._verification, self._reporter)
        self._before: dict[str, Any] = {}  # engine.environment.observe
        self._after: dict[str, Any] = {}
        self._wall = WallClock()
        self._lost = ""  # what has become of the GPU
        self._task_facts: TaskFacts | None = None
        self._flags: list[str] = []
        self._replicas = 0  # taken
        self._environment = ""
        self._started = time.monotonic_ns()
        self._reason = ""
        self._state: State | None = None
        self._task: asyncio.Task[Any] | None = None  # what measures, while it does
        self._sampled = False  # the last sample is taken
        self._superseded = ""  # by what
        self._cut: asyncio.TimerHandle | None = None  # ends it soon
        self._doubted: Mapping[str, str] = {}

    # -- the whole -------------------------------------------------------------------------------------------------

    async def run(self) -> records.Run:
        """Carry it out; the final record, committed. Cancelling this task ends the run as `cancelled`."""
        self._started = time.monotonic_ns()
        self._task = asyncio.current_task()
        self._services.pool.begin_run()
        self._make_arms()
        sampler = self._reporter.sampler
        drain = asyncio.create_task(self._reporter.drain(self._task))
        try:
            if self.plan.problem:
                self._state, self._reason = State.UNAVAILABLE, self.plan.problem
            else:
                await self._advance(State.STARTING)
                if self._device == "cuda":
                    sampler.start()
                async with asyncio.timeout(self._services.limits.total_s):
                    if await self._may_begin():
                        await self._measure()
        except TimeoutError:
            self._state = State.TIMEOUT_TOTAL
            self._reason = (
                f"the run took longer than {self._services.limits.total_s:.0f} s; use smaller axes or --quick"
            )
        except asyncio.CancelledError:
            self._state = State.CANCELLED
            self._reason = self._superseded or "cancelled on request; nothing is lost of earlier runs"
            if self._superseded:
                self._flags.append(records.SUPERSEDED)
            self._lost = self._services.ownership.why_lost(sampler.lost)
        except ArmEnd as end:
            self._state, self._reason = end.state, end.reason
            for arm in self._arms:
                if arm.running:
                    self._crew.end_arm(arm, end)
        except Exception as error:
            log.exception("run %s failed in the engine", self.plan.id)
            self._state = State.INFRA_ERROR
            self._reason = f"the engine failed ({type(error).__name__}: {error}); `aisp engine logs` has the trace"
        finally:
            self._task = None
            if self._cut is not None:
                self._cut.cancel()
            sampler.stop()
            drain.cancel()
        # A task of its own: cancelled once more, or at its very end, a run is still cleaned up and stored.
        ending = asyncio.create_task(self._end())
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
        self._crew.hurries = True
        if self._sampled:
            self._cut = asyncio.get_running_loop().call_later(CONCLUDE_S, self._task.cancel)
        else:
            self._task.cancel()

    def _make_arms(self) -> None:
        made, plan = self._arms, self.plan
        for rung in plan.rungs:
            timed = not (self._device == "cpu" and rung.kind is Kind.TRITON)
            # The record's name of it, by which events, findings and samples name it too: a file may be called anything.
            arm = Arm(clean_line(rung.name), rung, self._device, timed, without=plan.without)
            made.append(arm)
            if rung.name in plan.obstacles:
                self._crew.end_arm(arm, ArmEnd(State.UNAVAILABLE, plan.obstacles[rung.name]))
        if plan.rule.replicas > 1 and made and made[0].running and made[0].timed:
            base = made[0]
            made.append(Arm(base.name + TWIN_SUFFIX, base.rung, self._device, True, without=plan.without))

    async def _may_begin(self) -> bool:
        """Whether there is something to run, and a GPU that is fit for it; otherwise why not is noted."""
        problem = ""
        if not any(arm.running for arm in self._arms):
            problem = "; ".join(sorted({arm.reason for arm in self._arms}))
        elif self._device == "cuda":
            problem = await self._services.look_at_gpu()
        if not problem:
            self._before = await asyncio.to_thread(self._observe)
            others = neighbours(self._before) if self._device == "cuda" and self._services.refuse_contended else []
            if others:
                problem = (
                    f"process {others[0]} uses the GPU ({len(others)} in all) and AISP_REFUSE_CONTENDED is set; "
                    "end it, or unset the variable and start the engine anew"
                )
        if problem:
            self._state, self._reason = State.UNAVAILABLE, problem
        return not problem

    async def _measure(self) -> None:
        """Take the replicas; then ask what does not belong to any."""
        if self.plan.record.quick and self.plan.rule.replicas == 2 and self.plan.rule.interleaved:
            await self._two_replicas()
        else:
            await self._all_replicas()
        await self._ask_naively()
        self._task_facts = await self._about_the_task()

    async def _all_replicas(self) -> None:
        """One replica after the other, until a look finds every comparison decided or there are no more."""
        rule = self.plan.rule
        for replica in range(rule.replicas):
            taking_part = [arm for arm in self._arms if arm.running and (arm.timed or not replica)]
            if rule.interleaved:
                groups = [taking_part] if taking_part else []
            else:
                groups = [[arm] for arm in self._measuring.turns.in_order(taking_part, replica)]
            over = False
            for arms in groups:
                over = await self._replica(arms, replica, closing=arms is groups[-1])
            self._replicas = replica + 1
            if over:
                if self._replicas < rule.replicas:
                    self._flags.append(f"decided after {self._replicas} of {rule.replicas} replicas")
                break

    async def _replica(self, arms: list[Arm], replica: int, *, closing: bool) -> bool:
        """One fresh process per arm: verified, warmed up, measured in turns, and thrown away.

        Args:
            closing: no other arms are taken in this replica.

        Returns:
            Whether the run has all that it needs.
        """
        stints = await self._start((arms, replica))
        if closing and replica + 1 == self.plan.rule.replicas:
            self._services.pool.expect(0)  # the next job's start behind the last sample, which would wait for them
        else:
            self._expect_processes(arms, max(1, self.plan.rule.until_look(replica + 1) - replica - 1))
        self._verification.prepare_held_out(replica)
        await self._verify(stints)
        timed = [stint for stint in stints if stint.running and stint.arm.timed]
        if timed:
            async with self._quiet():
                await self._measuring.warm_up(timed)
                await self._measuring.take_samples(timed, replica)
                await self._measuring.challenge(timed)
        over = closing and await asyncio.to_thread(self._over, replica)
        if over:
            self._last_sample_taken()
        elif closing and any(stint.running for stint in timed):
            self._verification.prepare_held_out(replica + 1)
        await self._close(stints)
        return over

    async def _two_replicas(self) -> None:
        """Both replicas of a quick run. Somebody waits for its first figures: they come from the rungs of the first
        replica alone. Then all other processes start and are verified side by side, and each replica is measured.
        """
        verification, measuring = self._verification, self._measuring
        rungs, twins = self._told_apart()
        self._services.pool.expect(0)  # nothing is made before the first figures
        early = await self._start((rungs, 0))
        await self._verify(early)
        first = [stint for stint in early if stint.running and stint.arm.timed]
        if not first:
            self._replicas = 1
            self._last_sample_taken()
            await self._close(early)
            return
        async with self._quiet():
            await measuring.warm_up(first)
            await measuring.take_samples(first, 0, most=EARLY_ROUNDS)
        both = self._side_by_side(first)
        again = [stint.arm for stint in first if stint.running] + twins
        verification.prepare_held_out(0)
        verification.prepare_held_out(1)
        late = await self._start((twins, 0), *([(again, 1)] if both else []))
        await self._verify(late)
        joining = [stint for stint in late if stint.replica == 0]
        second = [stint for stint in late if stint.replica == 1]
        async with self._quiet():
            await measuring.warm_up(joining, first)
            await measuring.take_samples([*first, *joining], 0, first=EARLY_ROUNDS)
            await measuring.challenge([*first, *joining])
            if both:
                await measuring.warm_up(second)
                await measuring.take_samples(second, 1)
                await measuring.challenge(second)
        if both:
            self._last_sample_taken()
        await self._close([*early, *late])
        if not both:
            await self._replica([arm for arm in again if arm.running], 1, closing=True)
        self._replicas = 2

    def _told_apart(self) -> tuple[list[Arm], list[Arm]]:
        """The arms that run: those of rungs, and the A/A arm."""
        running = [arm for arm in self._arms if arm.running]
        twins = [arm for arm in running if TWIN_SUFFIX in arm.name]
        return [arm for arm in running if arm not in twins], twins

    def _side_by_side(self, first: Sequence[Stint]) -> bool:
        """Whether half of the memory that is free has room for the second replica and the A/A arm, which take what the
        `first` processes took.
        """
        held = [stint.arm.peak_bytes for stint in first if stint.running]
        if self._device == "cuda":
            ready, used = self._crew.ready, self._services.nvml.used_bytes(self._services.gpu)
            free = ready.memory_bytes - used if ready and ready.memory_bytes and used is not None else 0
            each = [CONTEXT_BYTES + peak for peak in held if peak is not None]
            if len(each) < len(held):
                return False
        else:
            free = self._before.get("memory_available_bytes") or 0
            each = [COPIES * self._verification.inputs_bytes() for _ in held]
        return 2 * (sum(each) + 2 * max(each, default=0)) <= free

    async def _verify(self, stints: Sequence[Stint]) -> None:
        """Compile and verify side by side: nothing is timed yet."""
        await self._crew.each(stints, lambda stint: self._verification.verify(stint, gate=stint.replica == 0))
        await self._verification.rested()

    @contextlib.asynccontextmanager
    async def _quiet(self) -> AsyncIterator[None]:
        """While this lasts, nothing is made that would disturb what is measured."""
        with self._services.pool.quiet():
            await self._services.pool.settled()
            yield

    def _last_sample_taken(self) -> None:
        """Have the processes of the next job made."""
        self._sampled = True
        self._expect_processes((), 0)
        self._services.pool.end_run()

    async def _start(self, *wanted: tuple[Sequence[Arm], int]) -> list[Stint]:
        """Processes for arms in a replica, with their roles; before the first of them the verifier."""
        crew = self._crew
        await crew.lay_out()
        beside: list[Awaitable[None]] = []
        if crew.ready is None:
            await self._start_verifier()
            # It makes inputs and expected values while the processes of the arms become ready.
            beside.append(self._verification.make_inputs([arm.rung for arm in self._arms if arm.running]))
        started = await gathered([*beside, *(crew.start(arms, replica) for arms, replica in wanted)])
        stints = [stint for group in started[len(beside) :] for stint in group]
        await crew.on_the_gpu(stint.child for stint in stints)
        return stints

    async def _start_verifier(self) -> None:
        async with self._reporter.step("verifier"):
            ready = await self._crew.start_verifier(lambda child: self._reporter.listen(child, "verifier"))
        self._reporter.gpu_name = ready.gpu_name if self._device == "cuda" else ""
        await self._advance(State.RUNNING)
        self._environment = await self._crew.describe(ready)

    async def _close(self, stints: Sequence[Stint]) -> None:
        """What is asked of processes behind their last sample; then their end, and how the run stands."""
        # One after the other: what one process holds at the timed shape twice, several may not.
        for stint in stints:
            if stint.replica == 0 and stint.running:
                await self._crew.guarded(stint, self._verification.try_more)
        await self._crew.each(stints, self._crew.finish)
        await self._reporter.report()

    def _over(self, replica: int) -> bool:
        """Whether this replica is the run's last: there are no more, or its look finds every comparison decided."""
        rule = self.plan.rule
        if replica + 1 >= rule.replicas:
            return True
        if not any(look.replicas == replica + 1 for look in rule.looks):
            return False
        return verdicts.decided(self._reporter.compared(statistics.RESAMPLES))

    def _expect_processes(self, arms: Sequence[Arm], replicas: int) -> None:
        """Have the processes of later replicas made ahead, while the arms of this one compile.

        After the last replica the processes of the next job follow. Their CUDA contexts may take a quarter of the GPU
        memory that is free: the lessons come first.
        """
        services, ready = self._services, self._crew.ready
        if replicas:
            each = replicas * self.plan.target.ranks
            count, compilers = each * len(arms), each * sum(self.plan.compiles(arm.rung) for arm in arms)
        else:
            count, compilers = services.next_processes()
            count += len(naive.asked(self.plan, self._arms)) * self.plan.target.ranks
        if self._device == "cuda":
            whole, used = ready and ready.memory_bytes, services.nvml.used_bytes(services.gpu)
            count = min(count, int((whole - used) / 4 / CONTEXT_BYTES)) if whole and used is not None else 0
        elif self._crew.interpret and not services.pool.interpret:
            count = 0  # standbys would be of the wrong kind
        services.pool.expect(count, compilers)

    async def _ask_naively(self) -> None:
        """What the naive harness would have said of every rung."""
        inputs = self._verification.inputs.get((self.plan.case.name, 0))
        if inputs is None:
            return
        for arm in naive.asked(self.plan, self._arms):
            async with self._reporter.step("naive", arm):
                arm.naive = await naive.opinion(self.plan, self._crew, inputs, arm)

    async def _about_the_task(self) -> TaskFacts | None:
        """What the verifier says of the task itself; None where it cannot."""
        try:
            return facts.task_facts(await self._crew.ask_verifier(jobs.Inspect(), reports.TaskInspected))
        except ArmEnd:
            return None

    async def _advance(self, state: State) -> None:
        await self._services.store(lambda store: store.advance(self.plan.id, state, start_ns=self._started))
        self._services.publish(events.RunState(run_id=self.plan.id, state=state, at_ns=time.monotonic_ns()))

    # -- the end ---------------------------------------------------------------------------------------------------

    async def _end(self) -> records.Run:
        if self._device == "cuda" and self._before:
            await self._handle_lost_gpu()
        await self._clean_up()
        self._reporter.flush()
        try:
            return await self._conclude()
        finally:
            await self._crew.caches.settle({arm.name for arm in self._arms if self._is_good(arm)})

    async def _handle_lost_gpu(self) -> None:
        """If the GPU is lost, the run is lost too: what its processes said on the way down counts no more."""
        self._lost = self._lost or await self._services.ownership.lost()
        if self._lost:
            self._crew.hurries = True
            self._state = State.INFRA_ERROR
            self._reason = f"{self._lost}; `nvidia-smi` and the kernel's log say more, a restart may bring it back"
            self._services.on_lost_gpu(self._lost)

    async def _clean_up(self) -> None:
        """No process and no shared memory of this run is left, whatever happened."""
        self._services.pool.expect(*self._services.next_processes())
        self._services.pool.end_run()
        await self._verification.stop()
        await self._crew.end_all(self._arms)
        await self._crew.close()

    def _is_good(self, arm: Arm) -> bool:
        """Whether what this arm compiled may be used again."""
        ended_well = arm.state is State.OK and arm.correctness is Correctness.CORRECT
        return ended_well and arm.name not in self._doubted and "" not in self._doubted

    async def _conclude(self) -> records.Run:
        start = time.monotonic_ns()
        for arm in self._arms:
            if arm.running:
                if self._state in (None, State.OK) and arm.correctness is Correctness.CORRECT:
                    arm.state = State.OK
                else:
                    arm.state = self._state or State.INFRA_ERROR
                    arm.reason = self._reason or "not reached"
        arms, comparisons = await asyncio.to_thread(self._reporter.figures)
        state, reason = self._final_state(arms)
        correctness = verdicts.overall(arms)
        if state is State.OK and correctness is not Correctness.CORRECT:
            state, reason = State.UNAVAILABLE, "no rung could run here"
        telemetry = self._reporter.telemetry()
        findings = await self._examine(arms, telemetry)
        validity = facts.overall(findings, arms, left_out=bool(self.plan.without))
        code = self.plan.record.code
        quarantines = await self._services.store(lambda store: store.quarantines(self.plan.record.folder, code))
        self._doubted = facts.doubted(findings, quarantines, code)
        comparisons = facts.without_doubted(comparisons, self._doubted)
        verdict = standing.verdict(arms, comparisons) if validity is Validity.VALID else Verdict.NONE
        steps = (*self._reporter.steps, records.Step("verdict", "", start, (time.monotonic_ns() - start) / 1e6))
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
            flags=tuple(self._all_flags(arms)),
            arms=arms,
            comparisons=comparisons,
            steps=steps,
            findings=findings,
        )
        samples = {arm.name: frozen(Samples, arm.samples) for arm in self._arms if arm.samples.device_ms}
        await self._services.store(lambda store: store.finish(record, samples, telemetry))
        self._services.publish(events.RunFinished(run=reported(record)))
        return record

    def _all_flags(self, arms: Sequence[records.Arm]) -> list[str]:
        """What a reader must know of the conditions under which the run took place."""
        flags = [*self._verification.notes, *self._flags]
        if self.plan.without:
            flags.append(f"without {', '.join(sorted(self.plan.without))}")
        if any(arm.dirty_exit for arm in arms):
            flags.append("dirty_exit")
        flags += self._measuring.turns.notes
        if self._device == "cuda" and self._before:
            flags += conditions(self._before, self._after, self._reporter.readings.throttle)
        return flags + self._wall.flags()

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
            self._after["installed"] = await self._services.look_after(self.plan.id)

        def work() -> tuple[records.Finding, ...]:
            folder = self._crew.folder
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
                drawn=self._verification.drawn(),
                history=history,
            )
            return tuple(registry.examine(known, without=self.plan.without))

        return await asyncio.to_thread(work)

    # -- what its processes may have written -----------------------------------------------------------------------

    @property
    def may_write(self) -> bool:
        """Whether processes of its rungs have begun and are not kept from writing into the target's own folder."""
        return self._crew.ready is not None and not self._crew.ready.confined

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
