"""Batches of calls that the judge times from its own process: which arm is next, and what becomes of what it saw.

In each round every arm makes one pair of batches, in random order, so that drift falls on all alike. The calls of both
processes go past the engine (engine.protocol.batches).
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Sequence

from aisp.checks.oracle.schema import Case as PosedCase
from aisp.engine.arms import GONE_PATIENCE_S, ArmEnd, Stint, ask, explain, wrong
from aisp.engine.crew import RunCrew
from aisp.engine.plan import Plan
from aisp.engine.protocol import jobs, reports
from aisp.engine.reporting import Reporter
from aisp.engine.services import Services
from aisp.engine.spawner import ChildTimeoutError
from aisp.store.outcomes import State
from aisp.store.text import clean_line

ROUNDS = 2  # of a replica; one where a quick run has two of them
BUDGET_S = 12.0  # of a replica, beyond which no pair begins
PAIR_CALLS = 4  # of the shortest pair: a batch of one call, and one of three
FRESH_VALUES = "output.fresh_values"  # the check in whose name an answer on inputs of a batch is refused


class Outside:
    """Of one run."""

    def __init__(self, plan: Plan, services: Services, crew: RunCrew, reporter: Reporter) -> None:
        self._plan, self._limits, self._crew, self._reporter = plan, services.limits, crew, reporter
        self._round = 0
        self._case = PosedCase.of_set(plan.case).plain()

    async def take(self, stints: Sequence[Stint]) -> None:
        """All rounds of a replica. A failure ends its arm."""
        async with self._reporter.step("outside"):
            until = time.monotonic() + BUDGET_S
            for _ in range(1 if self._plan.side_by_side else ROUNDS):
                self._round += 1
                left = random.sample(stints, len(stints))
                for stint in sorted(left, key=lambda stint: len(stint.arm.outside_ms)):  # none is left out twice
                    if stint.running and not stint.arm.inside and time.monotonic() < until:
                        await self._crew.guarded(stint, self._pair)

    async def _pair(self, stint: Stint) -> None:
        arm = stint.arm
        if self._plan.target.ranks > 1:
            arm.inside = "its rungs are several processes each"
            arm.excused = True
            return
        patience_s = float(self._limits.progress_s)
        most_s = min(BUDGET_S, patience_s)
        if PAIR_CALLS * stint.per_call_ms / 1e3 > most_s:
            arm.inside = f"a pair of its batches takes longer than {most_s:.0f} s"
            return
        theirs, ours = self._crew.arena.line()
        serving = jobs.ServeBatches(case=self._plan.case.name, line=theirs)
        timing = jobs.TimeBatches(
            case=self._case,
            line=ours,
            pid=stint.child.pid,
            pairs=1,
            per_call_ms=stint.per_call_ms,
            calls=arm.batch_calls,
            round=self._round,
            held=arm.batch_held,
            clones=arm.batch_clones,
            patience_s=patience_s,
        )
        try:
            timed = await self._timed(stint, serving, timing)
        finally:
            self._crew.arena.free(theirs)
            self._crew.arena.free(ours)
        if timed.judged is not None and not timed.judged.right:
            if FRESH_VALUES in self._plan.without:
                arm.inside = f"{FRESH_VALUES} was left out"
                arm.excused = True
                return
            raise wrong(timed.judged, [], FRESH_VALUES, " in a batch whose inputs the judge had made for it")
        if timed.gone:
            told = f"{arm.name} did not serve the judge: {clean_line(timed.gone)}"
            raise ArmEnd(State.INFRA_ERROR, told, check="evaluation.result_channel")
        if timed.inside:
            arm.inside, arm.excused = clean_line(timed.inside), timed.task
            return
        arm.outside_read += timed.read
        arm.outside_sets = min(filter(None, (arm.outside_sets, timed.sets)), default=0)
        arm.batch_calls, arm.batch_held, arm.batch_clones = timed.calls, timed.held, timed.clones
        arm.outside_ms += [(stint.replica, slope) for slope in timed.slopes_ms]

    async def _timed(self, stint: Stint, serving: jobs.ServeBatches, timing: jobs.TimeBatches) -> reports.BatchesTimed:
        """What the judge saw. Where both fail, it is for what the worker came to. Raises ArmEnd.

        A worker that hangs is ended soon after the judge has given it up: its own limit is that of a verifier.
        """
        worker = asyncio.create_task(
            ask(stint.child, serving, reports.BatchesServed, self._limits.verifier_s, stint.name)
        )
        judge = asyncio.create_task(self._crew.ask_verifier(timing, reports.BatchesTimed))
        await asyncio.wait([worker, judge], return_when=asyncio.FIRST_COMPLETED)
        for task in (worker, judge):
            if task.done() and task.exception() is not None:
                self._crew.arena.hang_up(serving.line)  # the other one would wait for it
        if judge.done():
            given_up = judge.exception() is None and judge.result().gone
            await asyncio.wait([worker], timeout=GONE_PATIENCE_S if given_up else timing.patience_s)
            if not worker.done():
                worker.cancel()
                await asyncio.wait([worker])
                silent = ChildTimeoutError(f"no sign of progress for {timing.patience_s:.0f} s")
                raise await explain(stint.child, silent, stint.name)
        await asyncio.wait([worker, judge])
        worker.result()
        timed: reports.BatchesTimed = judge.result()
        return timed
