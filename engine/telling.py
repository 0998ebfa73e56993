"""Records as events: what the store keeps, in the words in which faces are told of it, live or from the store."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from aisp.engine.protocol import events

if TYPE_CHECKING:
    from aisp.store import records  # its arrays need numpy, which faces do without


def arm_event(run_id: str, arm: records.ArmRecord) -> events.ArmUpdate:
    """An arm's record as an event."""
    return events.ArmUpdate(
        run_id=run_id,
        arm=arm.rung,
        state=arm.state.value,
        correctness=arm.correctness.value,
        timing=arm.timing.value,
        median_ms=arm.median_ms,
        low_ms=arm.low_ms,
        high_ms=arm.high_ms,
        samples=arm.sample_count,
        calls=arm.calls,
        sm_clock_mhz=arm.sm_clock_mhz,
        sol=arm.sol,
        light=light_event(arm.light),
        quality=quality_event(arm.quality),
        naive=naive_event(arm.naive),
        max_error=arm.max_error,
        peak_bytes=arm.peak_bytes,
        reason=arm.reason,
        detail=arm.detail,
    )


def light_event(light: records.Light | None) -> events.ArmLight | None:
    """An arm's bounds as they travel."""
    if light is None:
        return None
    return events.ArmLight(**{**dataclasses.asdict(light), "limiter": light.limiter.value if light.limiter else ""})


def quality_event(quality: records.Quality | None) -> events.ArmQuality | None:
    """What an arm's samples say of themselves, as it travels."""
    return None if quality is None else events.ArmQuality(**dataclasses.asdict(quality))


def naive_event(naive: records.Naive | None) -> events.ArmNaive | None:
    """What a careless evaluator says, as it travels."""
    return None if naive is None else events.ArmNaive(**dataclasses.asdict(naive), speedup=naive.speedup)


def findings_event(record: records.RunRecord) -> events.Findings:
    """What every check said of a run, as an event."""
    return events.Findings(
        run_id=record.id,
        items=[
            events.FindingItem(check=f.check, arm=f.arm, status=f.status.value, evidence=f.evidence)
            for f in record.findings
        ],
    )


def ceiling_event(peak_id: str, gpu: str, position: int, count: int, ceiling: records.Ceiling) -> events.PeakCeiling:
    """A measured ceiling as an event."""
    return events.PeakCeiling(peak_id=peak_id, gpu=gpu, position=position, count=count, **dataclasses.asdict(ceiling))


def finished_event(record: records.RunRecord) -> events.RunFinished:
    """A run's end as an event."""
    return events.RunFinished(
        run_id=record.id,
        target=record.target,
        state=record.state.value,
        correctness=record.correctness.value,
        validity=record.validity.value,
        verdict=record.verdict.value,
        duration_ms=record.duration_ms,
        reason=record.reason,
        flags=list(record.flags),
    )


def comparison_event(run_id: str, comparison: records.ComparisonRecord) -> events.ComparisonUpdate:
    """A comparison's record as an event."""
    return events.ComparisonUpdate(
        run_id=run_id,
        rung=comparison.rung,
        baseline=comparison.baseline,
        verdict=comparison.verdict.value,
        speedup=comparison.speedup,
        low=comparison.low,
        high=comparison.high,
        floor=comparison.floor,
        cycles=comparison.cycles,
        cycles_low=comparison.cycles_low,
        cycles_high=comparison.cycles_high,
        p_value=comparison.p_value,
        note=comparison.note,
    )
