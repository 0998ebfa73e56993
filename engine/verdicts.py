"""From samples to records: what an arm's figures are, how arms compare, and the verdict of a run. Pure functions."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from engine import statistics
from engine.arms import TWIN_SUFFIX, Arm
from engine.clean import clean_line
from kernels.catalog.model import Role, Rung
from store import records
from store.outcomes import Correctness, State, Timing, Verdict


def arm_record(arm: Arm, *, bound_ms: float | None, source: bytes) -> records.ArmRecord:
    """What is known of an arm, with its figures where they may be believed.

    Args:
        arm: so far, or at its end.
        bound_ms: the speed of light of the case, None where it is not known.
        source: the rung's own file as it ran.
    """
    frozen = arm.samples.freeze()
    kept = frozen.discarded == 0
    summary = None
    sol = None
    timed_well = arm.believable and arm.timing is not Timing.NONE
    if timed_well and kept.any():
        summary = statistics.summarise(frozen.device_ms[kept], frozen.replica[kept], frozen.round[kept])
        if bound_ms is not None:
            sol = bound_ms / summary.median_ms
    return records.ArmRecord(
        rung=arm.name,
        state=arm.state,
        correctness=arm.correctness,
        timing=arm.timing if summary else Timing.NONE,
        median_ms=summary.median_ms if summary else None,
        low_ms=summary.low_ms if summary else None,
        high_ms=summary.high_ms if summary else None,
        sample_count=int(kept.sum()),
        sol=sol,
        max_error=arm.max_error,
        peak_bytes=arm.peak_bytes,
        exit_code=arm.exit_code,
        signal=arm.signal,
        signal_sent_by_us=arm.signal_sent_by_us,
        dirty_exit=arm.dirty_exit,
        reason=arm.reason,
        detail=arm.detail,
        sources=hashlib.sha256(source).hexdigest(),
    )


def comparisons(arms: Sequence[Arm], *, quick: bool) -> list[records.ComparisonRecord]:
    """Every rung against every baseline that has times; `quick` where there was one replica."""
    by_name = {arm.name: arm for arm in arms}
    medians = {
        name: statistics.cells(
            (frozen := arm.samples.freeze()).device_ms[frozen.discarded == 0],
            frozen.replica[frozen.discarded == 0],
            frozen.round[frozen.discarded == 0],
        )
        for name, arm in by_name.items()
    }
    baselines = [arm for arm in arms if arm.rung.role is Role.BASELINE and TWIN_SUFFIX not in arm.name]
    if not baselines:
        return []
    twin = medians.get(baselines[0].name + TWIN_SUFFIX, {})
    twins = statistics.log_ratios(medians[baselines[0].name], twin) if twin else []
    floor = statistics.noise_floor(twins, quick=quick)
    found: list[records.ComparisonRecord] = []
    for arm in arms:
        if TWIN_SUFFIX in arm.name:
            continue
        for base in baselines:
            if arm is base or (arm.rung.role is Role.BASELINE and base is not baselines[0]):
                continue
            found.append(_comparison(arm, base, medians, floor, quick))
    return found


def _comparison(
    arm: Arm,
    base: Arm,
    medians: dict[str, dict[int, dict[int, float]]],
    floor: float,
    quick: bool,
) -> records.ComparisonRecord:
    for side in (arm, base):
        if not side.believable or not medians[side.name]:
            unkept = "every sample was discarded" if side.samples.device_ms else "no time yet"
            why = side.reason or (unkept if side.timed else "checked, not timed here")
            note = why if why.startswith(side.name) else f"{side.name}: {why}"
            return records.ComparisonRecord(arm.name, base.name, Verdict.NONE, note=clean_line(note))
    ratio = statistics.compare(statistics.log_ratios(medians[base.name], medians[arm.name]), floor, quick=quick)
    if ratio is None:
        return records.ComparisonRecord(arm.name, base.name, Verdict.NONE, note="no round has both arms")
    note = ratio.note
    if arm.timing is not base.timing:
        note = f"{arm.name} is timed {arm.timing}, {base.name} {base.timing}; {note}".rstrip("; ")
    return records.ComparisonRecord(
        arm.name, base.name, ratio.verdict, ratio.speedup, ratio.low, ratio.high, ratio.floor, note
    )


def overall(arms: tuple[records.ArmRecord, ...]) -> Correctness:
    """WRONG where any arm is, CORRECT where all that ran are."""
    ran = [arm.correctness for arm in arms if arm.state is not State.UNAVAILABLE]
    if Correctness.WRONG in ran:
        return Correctness.WRONG
    if ran and all(found is Correctness.CORRECT for found in ran):
        return Correctness.CORRECT
    return Correctness.UNKNOWN


def best(comparisons: tuple[records.ComparisonRecord, ...], rungs: tuple[Rung, ...]) -> Verdict:
    """The verdict of the fastest optimized rung against the first baseline."""
    roles = {rung.name: rung.role for rung in rungs}
    first = rungs[0].name
    known = [
        c for c in comparisons if c.baseline == first and roles.get(c.rung) is Role.OPTIMIZED and c.speedup is not None
    ]
    if not known:
        return Verdict.NONE
    return max(known, key=lambda c: c.speedup or 0.0).verdict
