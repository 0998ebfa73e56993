"""One run of one target, from its plan to its committed record, whatever happens to it.

Every arm is a process of its own; the verifier is another. Nothing is timed before its outputs were found right. The
outputs of timed calls are compared by fingerprint with the verified ones, and those of the last call in full.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import time
from typing import Any

from aisp.checks.evaluation import Elsewhere
from aisp.engine import naive
from aisp.engine.again import Again
from aisp.engine.arms import TO_FIX, TWIN_SUFFIX, Arm, ArmEnd
from aisp.engine.conclusion import Conclusion
from aisp.engine.crew import RunCrew
from aisp.engine.gpus import neighbours
from aisp.engine.measuring import Measuring
from aisp.engine.plan import Plan
from aisp.engine.protocol import events
from aisp.engine.replicas import Replicas
from aisp.engine.reporting import Reporter
from aisp.engine.services import Services
from aisp.engine.verification import Verification
from aisp.kernels.catalog.model import Kind, Role
from aisp.kernels.catalog.parsing import misspelt
from aisp.kernels.catalog.sources import SUFFIXES
from aisp.store import record as records
from aisp.store.outcomes import SUPERSEDED, State
from aisp.store.text import clean, clean_line

log = logging.getLogger("aisp.runs")

CONCLUDE_S = 2.0  # for what comes behind the last sample, where a newer save waits


class Execution:
    """Carries out one plan."""

    def __init__(self, plan: Plan, services: Services) -> None:
        self.plan = plan
        services = services.patient(plan.patience_s)
        self._services = services
        self._arms: list[Arm] = []
        self._reporter = Reporter(plan, services, self._arms)
        self._crew = RunCrew(plan, services, self._reporter)
        self._verification = Verification(plan, services, self._crew, self._reporter)
        self._measuring = Measuring(plan, services, self._crew, self._verification, self._reporter)
        self._replicas = Replicas(
            plan, services, self._crew, self._verification, self._measuring, self._reporter, self._running
        )
        self._again = Again(plan, self._crew, self._replicas, self._reporter)
        self._conclusion = Conclusion(plan, services, self._reporter, self._again)
        self._lost = ""  # what has become of the GPU
        self._task: asyncio.Task[Any] | None = None  # what measures, while it does
        self._superseded = ""  # by what
        self._cut: asyncio.TimerHandle | None = None  # ends it soon

    async def run(self) -> records.Run:
        """Carry it out; the final record, committed. Cancelling this task ends the run as `cancelled`."""
        conclusion, limits, sampler = self._conclusion, self._services.limits, self._reporter.sampler
        conclusion.started_ns = time.monotonic_ns()
        self._task = asyncio.current_task()
        self._services.pool.begin_run()
        self._make_arms()
        drain = asyncio.create_task(self._reporter.drain(self._task))
        try:
            if self.plan.problem:
                conclusion.end(State.UNAVAILABLE, self.plan.problem)
            else:
                await self._advance(State.STARTING)
                if self.plan.device == "cuda":
                    sampler.start()
                async with asyncio.timeout(limits.total_s):
                    await self._measure()
        except TimeoutError:
            reason = f"the run took longer than {limits.total_s:.0f} s; use smaller axes or --quick"
            conclusion.end(State.TIMEOUT_TOTAL, reason)
        except asyncio.CancelledError:
            reason = "cancelled on request; nothing is lost of earlier runs"
            conclusion.end(State.CANCELLED, self._superseded or reason)
            if self._superseded:
                conclusion.flags.append(SUPERSEDED)
            self._lost = self._services.ownership.why_lost(sampler.lost)
        except ArmEnd as end:
            conclusion.end(end.state, end.reason)
            for arm in self._arms:
                if arm.running:
                    self._crew.end_arm(arm, end)
        except Exception as error:
            log.exception("run %s failed in the engine", self.plan.id)
            reason = f"the engine failed ({type(error).__name__}: {error}); `aisp engine --logs` has the trace"
            conclusion.end(State.INFRA_ERROR, reason)
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
        if self._replicas.sampled:
            self._cut = asyncio.get_running_loop().call_later(CONCLUDE_S, self._task.cancel)
        else:
            self._task.cancel()

    # -- what is measured ------------------------------------------------------------------------------------------

    def _make_arms(self) -> None:
        made, plan = self._arms, self.plan
        for rung in plan.rungs:
            timed = not (plan.device == "cpu" and rung.kind is Kind.TRITON)
            # The record's name of it, by which events, findings and samples name it too: a file may be called anything.
            arm = Arm(clean_line(rung.name), rung, plan.device, timed, without=plan.without)
            made.append(arm)
            if rung.name in plan.obstacles:
                self._crew.end_arm(arm, ArmEnd(State.UNAVAILABLE, plan.obstacles[rung.name]))
        if plan.rule.replicas > 1 and made and made[0].running and made[0].timed:
            base = made[0]
            made.append(Arm(base.name + TWIN_SUFFIX, base.rung, plan.device, True, without=plan.without))

    async def _measure(self) -> None:
        """Take the replicas, where the machine is fit for them; then ask what does not belong to any."""
        await self._compile()
        if not any(arm.running for arm in self._arms) and any(arm.state is State.USER_ERROR for arm in self._arms):
            return
        if problem := await self._obstacle():
            self._conclusion.end(State.UNAVAILABLE, problem)
            return
        self._replicas.free_bytes = self._conclusion.before.get("memory_available_bytes") or 0
        await self._replicas.take()
        passed_s = (time.monotonic_ns() - self._conclusion.started_ns) / 1e9
        await self._again.ask(self._services.limits.total_s - passed_s)
        await self._ask_naively()

    async def _compile(self) -> None:
        """End the arms whose file is no Python, before anything is timed: all of them are reported.

        Where only baselines are left of what was to be compared, they end too.
        """
        broken = False
        for arm in self._arms:
            name = f"{arm.rung.name}.py"
            fault = await asyncio.to_thread(misspelt, self.plan.source(arm.rung), name) if arm.running else None
            if fault is not None:
                broken = True
                reason = f"{fault.kind}: {fault.message} ({name}, line {fault.line})"
                detail = f"  {name}:{fault.line}\n      {fault.text}\n{fault.kind}: {fault.message}"
                self._crew.end_arm(arm, ArmEnd(State.USER_ERROR, f"{arm.name}: {reason}{TO_FIX}", clean(detail)))
        if broken and all(arm.rung.role is Role.BASELINE for arm in self._arms if arm.running):
            for arm in (arm for arm in self._arms if arm.running):
                self._crew.end_arm(arm, ArmEnd(State.UNAVAILABLE, "not timed: there is nothing to compare it with"))

    async def _obstacle(self) -> str:
        """Why nothing can be measured; "" where it can."""
        if not any(arm.running for arm in self._arms):
            return "; ".join(sorted({arm.reason for arm in self._arms}))
        if self.plan.device == "cuda" and (problem := await self._services.look_at_gpu()):
            return problem
        await self._conclusion.observe()
        if self.plan.device != "cuda" or not self._services.refuse_contended:
            return ""
        others = neighbours(self._conclusion.before)
        if not others:
            return ""
        return (
            f"process {others[0]} uses the GPU ({len(others)} in all) and AISP_REFUSE_CONTENDED is set; "
            "end it, or unset the variable and start the engine anew"
        )

    async def _ask_naively(self) -> None:
        """What the naive harness would have said of every rung."""
        inputs = self._verification.inputs.get((self.plan.case.name, 0))
        if inputs is None:
            return
        for arm in naive.subjects(self.plan, self._arms):
            async with self._reporter.step("naive", arm):
                arm.naive = await naive.opinion(self.plan, self._crew, inputs, arm)

    async def _running(self) -> None:
        await self._advance(State.RUNNING)

    async def _advance(self, state: State) -> None:
        start_ns = self._conclusion.started_ns
        await self._services.store(lambda store: store.advance(self.plan.id, state, start_ns=start_ns))
        self._services.publish(events.RunState(run_id=self.plan.id, state=state, at_ns=time.monotonic_ns()))

    # -- the end ---------------------------------------------------------------------------------------------------

    async def _end(self) -> records.Run:
        conclusion = self._conclusion
        if self.plan.device == "cuda" and conclusion.before:
            await self._handle_lost_gpu()
        await self._clean_up()
        self._reporter.flush(last=True)
        conclusion.flags += [*self._verification.notes, *self._replicas.notes, *self._measuring.turns.notes]
        try:
            return await conclusion.committed(self._replicas, self._verification.drawn())
        finally:
            await self._crew.caches.settle(conclusion.good())

    async def _handle_lost_gpu(self) -> None:
        """If the GPU is lost, the run is lost too: what its processes said on the way down counts no more."""
        self._lost = self._lost or await self._services.ownership.lost()
        if self._lost:
            self._crew.hurries = True
            reason = f"{self._lost}; `nvidia-smi` and the kernel's log say more, a restart may bring it back"
            self._conclusion.end(State.INFRA_ERROR, reason)
            self._services.on_lost_gpu(self._lost)

    async def _clean_up(self) -> None:
        """No process and no shared memory of this run is left, whatever happened."""
        self._replicas.expect_next(over=False)
        self._services.pool.end_run()
        await self._verification.stop()
        await self._crew.end_all([*self._arms, *self._again.arms])
        await self._crew.close()
        self._replicas.expect_next(over=True)

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
        by_name: dict[str, str] = {}
        for arm in self._arms:
            for elsewhere in filter(None, (sensed.of(Elsewhere) for sensed in arm.sensed)):
                for path in elsewhere.paths:
                    if path.startswith(own) and path.endswith(SUFFIXES):
                        by_name.setdefault(path.removeprefix(own), arm.rung.name)
        return by_name
