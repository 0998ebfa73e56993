"""What a run came to: its findings, its verdict, its record.

Every check is asked once all processes of the run have ended. Nothing is asked of a run that never began.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from aisp.checks import registry
from aisp.checks.registry import Drawn
from aisp.engine import environment, facts, snapshots, verdicts
from aisp.engine.again import Again
from aisp.engine.arms import Arm
from aisp.engine.gpus import WallClock, conditions
from aisp.engine.plan import Plan
from aisp.engine.protocol import events
from aisp.engine.replicas import Replicas
from aisp.engine.reporting import Reporter
from aisp.engine.services import Services
from aisp.store import record as records
from aisp.store.outcomes import Correctness, FindingStatus, State, Validity, Verdict
from aisp.store.results import standing
from aisp.store.samples import Samples, Telemetry, frozen
from aisp.store.text import clean_line

log = logging.getLogger("aisp.engine")

REPORTED_BYTES = 4 << 20  # of a run's record in one event: a frame may have twice as many
REPORTED_FINDINGS = 1000


class Conclusion:
    """The end of one run: its verdict, and the record that is stored.

    Attributes:
        state, reason: why the engine ended the run; None where its arms came to their own ends.
        flags: what a reader must know of the conditions under which it took place.
        before: engine.environment.observe, of the moment before it began; empty where it never did.
        started_ns: CLOCK_MONOTONIC.
    """

    def __init__(self, plan: Plan, services: Services, reporter: Reporter, again: Again) -> None:
        self._plan, self._services, self._reporter, self._again = plan, services, reporter, again
        self._arms: Sequence[Arm] = reporter.arms
        self.state: State | None = None
        self.reason = ""
        self.flags: list[str] = []
        self.before: dict[str, Any] = {}
        self.started_ns = time.monotonic_ns()
        self._after: dict[str, Any] = {}
        self._wall = WallClock()
        self._doubted: Mapping[str, str] = {}
        self._suspect: frozenset[str] = frozenset()

    async def observe(self) -> None:
        """Look at the machine before the run begins."""
        self.before = await asyncio.to_thread(self._observe)

    def _observe(self) -> dict[str, object]:
        services = self._services
        return environment.observe(services.nvml, services.gpu, folder=self._plan.target.folder)

    def end(self, state: State, reason: str) -> None:
        """The engine ends the run for this."""
        self.state, self.reason = state, reason

    async def committed(self, replicas: Replicas, drawn: Drawn) -> records.Run:
        """Come to the verdict. Returns the record, stored and reported."""
        start_ns = time.monotonic_ns()
        for arm in self._arms:
            if arm.running:
                if self.state in (None, State.OK) and arm.correctness is Correctness.CORRECT:
                    arm.state = State.OK
                else:
                    arm.state = self.state or State.INFRA_ERROR
                    arm.reason = self.reason or "not reached"
        arms, comparisons = await asyncio.to_thread(self._reporter.figures)
        state, reason = self._final_state(arms)
        correctness = verdicts.overall(arms)
        if state is State.OK and correctness is not Correctness.CORRECT:
            state, reason = State.UNAVAILABLE, "no rung could run here"
        telemetry = self._reporter.telemetry()
        findings = await self._examine(arms, telemetry, replicas, drawn)
        self._suspect = frozenset(finding.arm for finding in findings if finding.status is FindingStatus.SUSPECT)
        validity = facts.overall(findings, arms, left_out=bool(self._plan.without))
        run = self._plan.record
        judged = msgspec.structs.replace(
            run, state=state, correctness=correctness, validity=validity, reason=reason, arms=arms, findings=findings
        )
        quarantines, forgiven = await self._services.store(
            lambda store: (store.quarantines(run.folder, run.code), store.forgiven(judged))
        )
        quarantines = {rung: held for rung, held in quarantines.items() if rung not in forgiven}
        self.flags += [
            f"quarantine of {rung} ended by two clean runs {first}, {run.id}" for rung, first in forgiven.items()
        ]
        self._doubted = facts.doubted(findings, quarantines, run.code)
        comparisons = facts.without_doubted(comparisons, self._doubted)
        verdict = standing.verdict(arms, comparisons) if validity is Validity.VALID else Verdict.NONE
        last = records.Step("verdict", "", start_ns, (time.monotonic_ns() - start_ns) / 1e6)
        ended = msgspec.structs.replace(
            run,
            state=state,
            correctness=correctness,
            validity=validity,
            verdict=verdict,
            start_ns=self.started_ns,
            duration_ms=(time.monotonic_ns() - self.started_ns) / 1e6,
            reason=reason,
            environment=replicas.environment,
            flags=tuple(self._all_flags(arms)),
            arms=arms,
            comparisons=comparisons,
            steps=(*self._reporter.steps, last),
            findings=findings,
        )
        record = self._plan.secrets.shown(ended)
        samples = {arm.name: frozen(Samples, arm.samples) for arm in self._arms if arm.samples.device_ms}
        await self._services.store(lambda store: store.finish(record, samples, telemetry))
        if state is State.INFRA_ERROR:
            log.error("run %s: %s", run.id, reason)
        self._services.publish(events.RunFinished(run=reported(record)))
        return record

    def good(self) -> set[str]:
        """Arms that may give what they compiled to later runs."""
        if "" in self._doubted:
            return set()
        well = (arm for arm in self._arms if arm.state is State.OK and arm.correctness is Correctness.CORRECT)
        return {arm.name for arm in well if arm.name not in self._suspect.union(self._doubted)}

    def _all_flags(self, arms: Sequence[records.Arm]) -> list[str]:
        flags = list(self.flags)
        if self._plan.without:
            flags.append(f"without {', '.join(sorted(self._plan.without))}")
        if any(arm.dirty_exit for arm in arms):
            flags.append("dirty_exit")
        if self._plan.device == "cuda" and self.before:
            flags += conditions(self.before, self._after, self._reporter.readings.throttle)
        return flags + self._wall.flags()

    def _final_state(self, arms: Sequence[records.Arm]) -> tuple[State, str]:
        """The run's state: our own if we ended it, else that of the first arm that did not end well."""
        if self.state is not None:
            return self.state, clean_line(self.reason)
        for arm in arms:
            if not arm.state.spares_the_run:
                named = arm.reason.startswith(arm.rung)
                return arm.state, clean_line(arm.reason if named else f"{arm.rung}: {arm.reason}")
        if not any(arm.state is State.OK for arm in arms):
            return State.UNAVAILABLE, clean_line("; ".join(sorted({arm.reason for arm in arms})))
        return State.OK, ""

    async def _examine(
        self, arms: Sequence[records.Arm], telemetry: Telemetry | None, replicas: Replicas, drawn: Drawn
    ) -> tuple[records.Finding, ...]:
        """Ask every check."""
        if not self.before:
            return ()
        history = await self._services.store(lambda store: store.earlier(self._plan.record))
        self._after = await asyncio.to_thread(self._observe)
        if self._services.look_after is not None:
            self._after["installed"] = await self._services.look_after(self._plan.id)

        def work() -> tuple[records.Finding, ...]:
            folder, source = replicas.folder, self._plan.source
            run_facts = facts.run_facts(
                self._plan,
                [facts.arm_facts(a, r, source(a.rung)) for a, r in zip(self._arms, arms, strict=True)],
                before=self.before,
                after=self._after,
                telemetry=telemetry,
                task=replicas.task,
                files_intact=snapshots.intact(folder, self._plan.files) if folder is not None else None,
                drawn=drawn,
                history=history,
            )
            return tuple(self._again.settled(registry.examine(run_facts, without=self._plan.without)))

        return await asyncio.to_thread(work)


def reported(record: records.Run) -> records.Run:
    """The record as clients hear of it: whole, unless it would hardly fit into a frame.

    Then the long texts of arms and minor findings are left out, and a flag says so.
    """
    if len(msgspec.msgpack.encode(record)) <= REPORTED_BYTES:
        return record
    grave = [finding for finding in record.findings if finding.status in (FindingStatus.CAUGHT, FindingStatus.SUSPECT)]
    return msgspec.structs.replace(
        record,
        arms=tuple(msgspec.structs.replace(arm, detail="") for arm in record.arms),
        findings=tuple(grave[:REPORTED_FINDINGS]),
        flags=(*record.flags, f"reported in part: `aisp history {record.id}` shows all of it"),
    )
