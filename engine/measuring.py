"""Timing one replica of a run: warm-up, turns, and what an arm is put through after its samples.

Arms take turns in random order, and each round is reversed by the next (ABBA), so that drift falls on all alike.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence

from aisp.engine import challenges, contention, verdicts
from aisp.engine.arms import Stint, ask
from aisp.engine.crew import RunCrew
from aisp.engine.outside import Outside
from aisp.engine.plan import Plan
from aisp.engine.protocol import jobs, reports
from aisp.engine.reporting import Reporter
from aisp.engine.services import Services
from aisp.engine.turns import Alternation, StintFailure, Turns
from aisp.engine.verification import Verification


class Measuring:
    """Of one run.

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

    async def warm_up(self, stints: Sequence[Stint], warm: Sequence[Stint] = ()) -> None:
        """Bring each process to a steady state, then choose how samples are taken, alike for these and the `warm`."""
        self.turns.pair_ms = await self._crew.pair_ms(self._plan.rule.cache)
        for stint in stints:
            await self._crew.guarded(stint, self._warm_up)
        left = [stint for stint in (*warm, *stints) if stint.running]
        while left:
            try:
                await self.turns.choose(left)
            except StintFailure as failed:
                # The others get one more try without it.
                await self._crew.fail(failed.stint, failed.end)
                left = [stint for stint in left if stint.running]
            else:
                return

    async def _warm_up(self, stint: Stint) -> None:
        async with self._reporter.step("warm-up", stint.arm):
            await self.turns.warm_up(stint)

    async def take_samples(self, stints: Sequence[Stint], replica: int, *, first: int = 0, most: int = 1 << 16) -> None:
        """Rounds until the stop rule is met, told after the first and then after every second one.

        Args:
            first: number of the first of them.
            most: how many of them there are at most; the first figures need no more than a pair.
        """
        running = [stint for stint in stints if stint.running]
        async with self._reporter.step("measure"):
            with contention.around([stint.arm.waits for stint in running]):
                await self._rounds(running, replica, first, most)

    async def _rounds(self, stints: Sequence[Stint], replica: int, first: int, most: int) -> None:
        done, started_s, clear = 0, time.monotonic(), self._plan.rule.clear
        while done < most and not self.turns.over(
            done, started_s, verdicts.widest(self._reporter.arms, replica, clear)
        ):
            number = first + done
            for stint in self._rounds_order.of(stints, number):
                if stint.running:
                    await self._crew.guarded(stint, lambda s, n=number: self.turns.turn(s, n))  # type: ignore[misc]
            if not any(stint.running for stint in stints):
                return
            if number == 0 or number % 2 == 1:
                await self._reporter.report()
            done += 1

    async def challenge(self, stints: Sequence[Stint], clocked: Collection[Stint], judged: Collection[Stint]) -> None:
        """One after the other: the last timed call's outputs in full, and the engine's own clock; then batches by the
        judge's clock, on inputs that are new; then records of what calls have a GPU do.

        Args:
            clocked, judged: those of them that the engine's clock and the records, and the judge's clock, are for.
        """
        async with self._reporter.step("challenge"):
            for stint in stints:
                if stint.running:
                    await self._crew.guarded(stint, self._verification.verify_last)
                if stint.running and stint in clocked:
                    await self._crew.guarded(stint, self._sustain)
        await self._outside.take([stint for stint in stints if stint.running and stint in judged])
        if self._plan.device == "cuda":
            async with self._reporter.step("trace"):
                for stint in stints:
                    if stint.running and stint in clocked:
                        await self._crew.guarded(stint, self._trace)

    async def _trace(self, stint: Stint) -> None:
        await ask(stint.child, jobs.Trace(), reports.Traced, self._limits.progress_s, stint.name)

    async def _sustain(self, stint: Stint) -> None:
        sustained = await challenges.sustain(stint, self._plan.case.name, self._limits.progress_s)
        stint.arm.sustained.append(sustained)
