"""Timing one replica of a run: warm-up, turns, and what an arm is put through after its samples.

Arms take turns in random order, and each round is reversed by the next (ABBA), so that drift falls on all alike.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence

from aisp.engine import challenges, contention, verdicts
from aisp.engine.arms import ArmProcess, ask
from aisp.engine.crew import RunCrew
from aisp.engine.outside import Outside
from aisp.engine.plan import Plan
from aisp.engine.protocol import jobs, reports
from aisp.engine.reporting import Reporter
from aisp.engine.services import Services
from aisp.engine.turns import Alternation, StintFailure, Turns
from aisp.engine.verification import Verification


class Measuring:
    """Warm-up, rounds and challenges of one run.

    Attributes:
        turns: decides who is next and how a sample is taken.
    """

    def __init__(
        self, plan: Plan, services: Services, crew: RunCrew, verification: Verification, reporter: Reporter
    ) -> None:
        self._plan, self._limits = plan, services.limits
        self._crew, self._verification, self._reporter = crew, verification, reporter
        self._outside = Outside(plan, services, crew, reporter)
        chance = plan.chance("measuring")
        self._rounds_order = Alternation(chance)
        self.turns = Turns(
            plan.id,
            plan.case.name,
            plan.rule,
            chance,
            services.publish,
            reporter.report_step,
            services.limits.progress_s,
        )

    async def warm_up(self, processes: Sequence[ArmProcess], warm: Sequence[ArmProcess] = ()) -> None:
        """Bring each process to a steady state, then choose how samples are taken, alike for these and the `warm`."""
        self.turns.pair_ms = await self._crew.pair_ms(self._plan.rule.cache)
        for process in processes:
            await self._crew.guarded(process, self._warm_up)
        left = [process for process in (*warm, *processes) if process.running]
        while left:
            try:
                await self.turns.choose(left)
            except StintFailure as failed:
                # The others get one more try without it.
                await self._crew.fail(failed.process, failed.end)
                left = [process for process in left if process.running]
            else:
                return

    async def _warm_up(self, process: ArmProcess) -> None:
        async with self._reporter.step("warm-up", process.arm):
            await self.turns.warm_up(process)

    async def take_samples(
        self, processes: Sequence[ArmProcess], replica: int, *, first: int = 0, most: int = 1 << 16
    ) -> None:
        """Rounds until the stop rule is met, reported after the first and then after every second one.

        Args:
            first: number of the first of them.
            most: how many of them there are at most; the first figures need no more than a pair.
        """
        running = [process for process in processes if process.running]
        async with self._reporter.step("measure"):
            with contention.around([process.arm.waits for process in running]):
                await self._rounds(running, replica, first, most)

    async def _rounds(self, processes: Sequence[ArmProcess], replica: int, first: int, most: int) -> None:
        done, started_s, clear = 0, time.monotonic(), self._plan.rule.clear
        while done < most and not self.turns.over(
            done, started_s, verdicts.widest(self._reporter.arms, replica, clear)
        ):
            number = first + done
            for process in self._rounds_order.of(processes, number):
                if process.running:
                    await self._crew.guarded(process, lambda s, n=number: self.turns.turn(s, n))  # type: ignore[misc]
            if not any(process.running for process in processes):
                return
            if number == 0 or number % 2 == 1:
                await self._reporter.report()
            done += 1

    async def challenge(
        self, processes: Sequence[ArmProcess], clocked: Collection[ArmProcess], judged: Collection[ArmProcess]
    ) -> None:
        """One after the other: the last timed call's outputs in full, and the engine's own clock; then batches by the
        judge's clock, on inputs that are new; then records of what calls have a GPU do.

        Args:
            clocked, judged: those of them that the engine's clock and the records, and the judge's clock, are for.
        """
        async with self._reporter.step("challenge"):
            for process in processes:
                if process.running:
                    await self._crew.guarded(process, self._verification.verify_last)
                if process.running and process in clocked:
                    await self._crew.guarded(process, self._sustain)
        await self._outside.take([process for process in processes if process.running and process in judged])
        if self._plan.device == "cuda":
            async with self._reporter.step("trace"):
                for process in processes:
                    if process.running and process in clocked:
                        await self._crew.guarded(process, self._trace)

    async def _trace(self, process: ArmProcess) -> None:
        await ask(process.child, jobs.Trace(), reports.Traced, self._limits.progress_s, process.name)

    async def _sustain(self, process: ArmProcess) -> None:
        sustained = await challenges.sustain(process, self._plan.case.name, self._limits.progress_s)
        process.arm.sustained.append(sustained)
