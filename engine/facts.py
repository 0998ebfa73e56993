"""From a run's parts to what the checks may look at, and what their findings mean for a run. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from aisp.checks import registry
from aisp.engine.arms import TWIN_SUFFIX, Arm
from aisp.engine.protocol import reports
from aisp.store import record as records
from aisp.store.outcomes import Correctness, FindingStatus, State, Timing, Validity
from aisp.store.samples import Samples, Telemetry, frozen
from aisp.store.text import clean_line

if TYPE_CHECKING:
    from aisp.engine.plan import Plan


def sensed(report: reports.Inspected, ranks: int, replica: int) -> list[registry.Sensed]:
    """What the sensors of an arm's processes noted in a replica, in the order of ranks; what cannot be read is marked.

    A report of more or fewer processes than there are counts as one that says nothing of any.
    """
    if len(report.sensed) != ranks:
        return [registry.Sensed(replica=replica)] * ranks
    return [registry.received(entry.facts, entry.failed, replica) for entry in report.sensed]


def task_facts(report: reports.TaskInspected) -> registry.TaskFacts | None:
    """What the verifier says of the task; None where it cannot be read."""
    try:
        return msgspec.msgpack.decode(report.facts, type=registry.TaskFacts)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return None


def arm_facts(arm: Arm, record: records.Arm, source: bytes) -> registry.ArmFacts:
    """One arm, after its end."""
    light, median_ms = record.light, record.median_ms

    def share(bound_ms: float | None) -> float | None:
        return bound_ms / median_ms if bound_ms is not None and median_ms else None

    return registry.ArmFacts(
        arm=arm.name,
        rung=arm.rung,
        device=arm.device,
        ended_well=arm.state is State.OK and arm.correctness is Correctness.CORRECT,
        state=arm.state,
        timing=arm.timing if arm.samples.device_ms else Timing.NONE,
        calls=arm.calls,
        sensed=tuple(arm.sensed),
        samples=frozen(Samples, arm.samples) if arm.samples.device_ms else None,
        judged_ms=tuple(arm.outside_ms),
        median_ms=median_ms,
        sol_spec=share(light.spec_ms) if light else None,
        sol_measured=share(light.measured_ms) if light else None,
        limiter=light.limiter if light else None,
        quality=record.quality,
        probe_step_ms=arm.probe_step_ms,
        probe_overhead_ms=arm.probe_overhead_ms,
        compared=tuple(arm.compared),
        sustained=tuple(arm.sustained),
        waited_share=arm.waits.share,
        others_cores=arm.waits.others_cores,
        pressure_share=arm.waits.pressure_share,
        stolen_share=arm.waits.stolen_share if arm.waits.cores else None,
        shapes=tuple(arm.shapes),
        families=tuple(arm.families),
        doubt=arm.doubt,
        refusal=arm.refusal,
        source=source.decode("utf-8", "replace"),
    )


def run_facts(
    plan: Plan,
    arms: Sequence[registry.ArmFacts],
    *,
    before: Mapping[str, Any],
    after: Mapping[str, Any],
    telemetry: Telemetry | None,
    task: registry.TaskFacts | None,
    files_intact: bool | None,
    drawn: registry.Drawn,
    history: Sequence[Mapping[str, Any]],
) -> registry.RunFacts:
    """The whole run, after its end."""
    return registry.RunFacts(
        target=plan.target,
        case=plan.case,
        device=plan.record.device,
        quick=plan.record.quick,
        arms=tuple(arms),
        before=before,
        after=after,
        telemetry=telemetry,
        task=task,
        files=plan.files,
        files_intact=files_intact,
        drawn=drawn,
        validity=plan.record.policy,
        manifest=plan.record.manifest,
        history=tuple(history),
    )


def overall(findings: Sequence[records.Finding], arms: Sequence[records.Arm], *, left_out: bool) -> Validity:
    """Whether the times of a run may be believed."""
    statuses = {finding.status for finding in findings}
    if FindingStatus.CAUGHT in statuses:
        return Validity.CAUGHT
    if not any(arm.median_ms for arm in arms):
        return Validity.UNKNOWN
    return Validity.SUSPECT if FindingStatus.SUSPECT in statuses or left_out else Validity.VALID


def doubted(
    findings: Sequence[records.Finding], quarantines: Mapping[str, records.Quarantine], code: str
) -> dict[str, str]:
    """Arms whose speed-up may not be shown, and why: those caught now, and those still in quarantine."""
    reasons = {
        finding.arm: f"caught by {finding.check}: {finding.evidence}"
        for finding in findings
        if finding.status is FindingStatus.CAUGHT
    }
    for rung, quarantine in quarantines.items():
        if quarantine.code == code:
            why = f"quarantined: {quarantine.check}: {quarantine.evidence}"
            reasons.setdefault(rung, why)
            reasons.setdefault(rung + TWIN_SUFFIX, why)
    return reasons


def without_doubted(
    comparisons: Sequence[records.Comparison], doubted_arms: Mapping[str, str]
) -> tuple[records.Comparison, ...]:
    """The comparisons, those of doubted arms without figures. A finding about the whole run doubts all of them."""
    result: list[records.Comparison] = []
    for comparison in comparisons:
        why = next((doubted_arms[arm] for arm in (comparison.rung, comparison.baseline, "") if arm in doubted_arms), "")
        if why:
            comparison = comparison.without_figures(clean_line(why, limit=registry.EVIDENCE_CHARS))
        result.append(comparison)
    return tuple(result)
