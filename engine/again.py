"""A suspicion that rests on time alone is asked again, in fresh processes, before anybody hears of it.

A neighbour makes times, so what was seen once may be the machine's doing. One more replica is taken, of the baseline
and of whoever is suspected, and the same checks are asked about it alone. The run's figures stay as the stop rule made
them. A suspicion that does not come again is dropped, unless the arm is not as fast there as these figures say: then
they are the machine's, or the arm was honest only where it was looked at once more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import replace

import msgspec

from aisp.checks import registry
from aisp.engine import facts
from aisp.engine.arms import Arm, ArmEnd
from aisp.engine.crew import RunCrew
from aisp.engine.plan import Plan
from aisp.engine.replicas import Replicas
from aisp.engine.reporting import Reporter
from aisp.kernels.catalog.model import Role
from aisp.store.outcomes import Correctness, FindingStatus
from aisp.store.record import Finding

BUDGET_S = 60.0  # for the replica, from its first process on
LEAST_S = 5.0  # of a run's time: with less left nothing is asked again
AGREE = 1.15  # speed-ups of the run and of the replica may be this much apart


class Again:
    """A second look, in fresh processes, at the arms of one run that checks suspect.

    Attributes:
        arms: fresh ones, for the replica; none where nothing is suspected.
    """

    def __init__(self, plan: Plan, crew: RunCrew, replicas: Replicas, reporter: Reporter) -> None:
        self._plan, self._crew, self._replicas, self._reporter = plan, crew, replicas, reporter
        self.arms: list[Arm] = []
        self._second: dict[tuple[str, str], Finding] = {}  # what checks say of the replica, by check and arm
        self._unasked: dict[str, str] = {}  # by arm: why it could not be asked
        self._apart: dict[str, str] = {}  # by arm: how its speed-up there is another one; "" where it is not

    async def ask(self, left_s: float) -> None:
        """Take the replica where an arm is suspected, in the `left_s` that are left of the run's time."""
        own = [arm for arm in self._reporter.arms if arm.running and arm.timed]
        first = await asyncio.to_thread(self._findings, own)
        suspected = {finding.arm for finding in first if finding.status is FindingStatus.SUSPECT}
        if not suspected:
            return
        # Every speed-up hangs on the baseline: where that is suspected, all arms are asked again.
        everyone = any(arm.rung.role is Role.BASELINE for arm in own if arm.name in suspected)
        own = [arm for arm in own if everyone or arm is own[0] or arm.name in suspected]
        self.arms = [Arm(arm.name, arm.rung, arm.device, True, without=arm.without, again=True) for arm in own]
        if why := await self._replica(min(BUDGET_S, left_s - LEAST_S)):
            self._unasked = dict.fromkeys(suspected, why)
            return
        seconds = await asyncio.to_thread(self._findings, self.arms, own)
        self._second = {(finding.check, finding.arm): finding for finding in seconds}
        pairs = list(zip(own, self.arms, strict=True))
        apart = [self._contradiction(*pairs[0], *pair) for pair in pairs]
        for (arm, fresh), differs in zip(pairs, apart, strict=True):
            # All speed-ups are a baseline's.
            self._apart[arm.name] = next(filter(None, apart), "") if arm.rung.role is Role.BASELINE else differs
            if fresh.reason:
                self._unasked[arm.name] = fresh.reason
            if fresh.refusal is not None:  # for what stands there, and not for a time
                self._crew.end_arm(arm, _same_end(fresh, fresh.refusal.check))

    async def _replica(self, budget_s: float) -> str:
        """Take it; why it could not be taken, or ""."""
        why = ""
        if budget_s <= 0:
            return "the run had no time left"
        try:
            async with asyncio.timeout(budget_s), self._reporter.step("again"):
                await self._replicas.again(self.arms)
        except TimeoutError:
            why = f"it took more than {budget_s:.3g} s"
        except ArmEnd as end:
            why = end.reason
        if why:
            await self._crew.end_all(self.arms)
            await self._crew.end_verifier()
        return why

    def _findings(self, arms: Sequence[Arm], earlier: Sequence[Arm] = ()) -> list[Finding]:
        """What checks whose suspicions may be asked again say of these arms; asked again about the `earlier` ones."""
        plan = self._plan
        run_facts = registry.RunFacts(
            plan.target,
            plan.case,
            plan.device,
            plan.record.quick,
            tuple(map(self._facts, arms)),
            telemetry=self._reporter.telemetry(),
            files=plan.files,
            validity=plan.record.policy,
            manifest=plan.record.manifest,
            earlier=tuple(map(self._facts, earlier)),
        )
        return registry.examine(run_facts, without=plan.without, only=_repeatable)

    def _facts(self, arm: Arm) -> registry.ArmFacts:
        """Facts of the arm where it ends as it is now."""
        arm_facts = facts.arm_facts(arm, self._reporter.record(arm), self._plan.source(arm.rung))
        return replace(arm_facts, ended_well=arm.running and arm.correctness is Correctness.CORRECT)

    def _contradiction(self, base: Arm, fresh_base: Arm, arm: Arm, fresh: Arm) -> str:
        """How the fresh process contradicts the arm's speed-up; "" where it does not."""
        times = [self._reporter.record(one).median_ms for one in (base, arm, fresh_base, fresh)]
        if not all(times):
            return "there is no time to hold against its figure"
        base_ms, arm_ms, fresh_base_ms, fresh_ms = (time for time in times if time)
        run_ratio, fresh_ratio = base_ms / arm_ms, fresh_base_ms / fresh_ms
        if max(run_ratio, fresh_ratio) <= AGREE * min(run_ratio, fresh_ratio):
            return ""
        there = f"{arm.name} is {fresh_ratio:.3g} times as fast as {base.name}"
        return f"{there} there, and {run_ratio:.3g} times by the run's figures"

    def settled(self, findings: Iterable[Finding]) -> list[Finding]:
        """What is shown of these findings: a suspicion that did not come again is none."""
        ids = {check.id for check in registry.checks() if _repeatable(check)}
        suspect = FindingStatus.SUSPECT
        return [self._settled(one) if one.status is suspect and one.check in ids else one for one in findings]

    def _settled(self, first: Finding) -> Finding:
        second, apart = self._second.get((first.check, first.arm)), self._apart.get(first.arm)
        unasked = self._unasked.get(first.arm, "" if second else "its part in the run had ended")
        if second is None or (unasked and second.status is not FindingStatus.SUSPECT):
            note = f"not asked again: {unasked}"
        elif second.status is FindingStatus.SUSPECT:
            note = f"again in fresh processes: {second.evidence}"
        elif second.status is not FindingStatus.PASSED:
            note = f"fresh processes could not say: {second.evidence}"
        elif apart:
            note = f"not again in fresh processes ({second.evidence}), but {apart}"
        else:
            note = f"seen once, not again in fresh processes: {second.evidence}; before: {first.evidence}"
            return msgspec.structs.replace(first, status=FindingStatus.PASSED, evidence=note)
        return msgspec.structs.replace(first, evidence=f"{first.evidence}; {note}")


def _repeatable(check: registry.Check) -> bool:
    return check.repeatable


def _same_end(fresh: Arm, check: str) -> ArmEnd:
    return ArmEnd(
        fresh.state,
        fresh.reason,
        fresh.detail,
        correctness=fresh.correctness if fresh.correctness.wrong else None,
        signal_number=fresh.signal,
        exit_code=fresh.exit_code,
        max_error=fresh.max_error,
        failing_case=fresh.failing_case,
        check=check,
    )
