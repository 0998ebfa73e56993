"""From samples to records: what an arm's figures are, how arms compare, and the verdict of a run. Pure functions."""

from __future__ import annotations

import hashlib
import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec
import numpy as np

from aisp.checks.cuda import launches, span_ms
from aisp.engine import statistics
from aisp.engine.arms import TWIN_SUFFIX, Arm
from aisp.engine.quality import quality as samples_quality
from aisp.kernels.catalog.model import Role
from aisp.store import record as records
from aisp.store.outcomes import Correctness, State, Timing, TolerancePolicy, Verdict
from aisp.store.results import busy
from aisp.store.results.outside import JudgedTime
from aisp.store.samples import Samples, frozen
from aisp.store.text import clean_line

CLOCKS_DIFFER = 0.02  # median SM clocks of two arms that are further apart are named in the comparison


class RooflineBound(Protocol):
    """Holds an arm's time against the speed of light of its case; None where there is no bound."""

    def __call__(
        self,
        *,
        time_ms: float,
        base_ms: float | None,
        timing: Timing,
        host_ms: float | None,
        sm_clock_mhz: float | None,
    ) -> records.RooflineBound | None: ...


def arm_record(
    arm: Arm, *, source: bytes, roofline: RooflineBound | None, base_ms: float | None, prior: statistics.Prior
) -> records.Arm:
    """What is known of an arm, with its figures where they may be believed.

    Args:
        arm: so far, or at its end.
        source: the rung's own file as it ran.
        roofline: the roofline bound of the case, None where it is not known.
        base_ms: the first baseline's median, None where it has none or is this arm.
        prior: of how processes of the same code differ.
    """
    samples = frozen(Samples, arm.samples)
    kept = samples.discarded == 0
    summary = quality = bound = clock = None
    if arm.believable and arm.timing is not Timing.NONE and len(samples):
        quality = samples_quality(samples, resolution_ms=arm.resolution_ms, overhead_ms=arm.overhead_ms)
        quality = msgspec.structs.replace(quality, watch_us=sum(arm.cost_us.values()) if arm.cost_us else None)
        clock = _median_clock(samples)
        if kept.any():
            summary = statistics.summarise(samples.device_ms[kept], samples.replica[kept], samples.round[kept], prior)
    if arm.believable and arm.accepted:
        stated, derived = (arm.accepted[policy] for policy in TolerancePolicy)
        quality = msgspec.structs.replace(
            quality or records.Quality(), right_by_stated=stated, right_by_derived=derived
        )
    if arm.believable and (arm.inside or arm.outside_ms):
        quality = msgspec.structs.replace(quality or records.Quality(), **_outside(arm))
    if arm.believable and (span := span_ms(arm.sensed)) is not None:
        quality = msgspec.structs.replace(quality or records.Quality(), profiler_ms=span)
    if arm.believable and (met := arm.waits.members()):
        quality = msgspec.structs.replace(quality or records.Quality(), **met)
    if summary is not None and roofline is not None:
        host_ms = float(np.median(samples.host_ms[kept]))
        bound = roofline(
            time_ms=summary.median_ms,
            base_ms=base_ms,
            timing=arm.timing,
            host_ms=host_ms if math.isfinite(host_ms) else None,
            sm_clock_mhz=clock,
        )
    bound_ms = bound.bound_ms if bound else None
    return records.Arm(
        rung=arm.name,
        state=arm.state,
        correctness=arm.correctness,
        timing=arm.timing if summary else Timing.NONE,
        median_ms=summary.median_ms if summary else None,
        low_ms=summary.low_ms if summary else None,
        high_ms=summary.high_ms if summary else None,
        sample_count=int(kept.sum()),
        calls=arm.calls if summary else None,
        sm_clock_mhz=clock,
        sol=bound_ms / summary.median_ms if summary and bound_ms is not None else None,
        light=bound,
        quality=quality,
        naive=arm.naive,
        rule=arm.rule,
        ranks=_ranks(samples) if summary else None,
        max_error=arm.max_error,
        failing_case=arm.failing_case,
        peak_bytes=arm.peak_bytes,
        launches=launches(arm.sensed),
        exit_code=arm.exit_code,
        signal=arm.signal,
        signal_sent_by_us=arm.signal_sent_by_us,
        dirty_exit=arm.dirty_exit,
        reason=arm.reason,
        detail=arm.detail,
        sources=hashlib.sha256(source).hexdigest(),
        role=arm.rung.role,
        twin=arm.twin,
    )


def _outside(arm: Arm) -> dict[str, Any]:
    """What the judge's clock says of an arm, as members of its quality."""
    time = _judged(arm)
    if not arm.outside_ms:
        return {"inside": arm.inside or "the time for batches was over"}
    if arm.inside or time is None:
        return {"inside": arm.inside or "its calls are too short beside what copies take"}
    read, sets = arm.outside_read, arm.outside_sets or None
    times = {"outside_ms": time.ms, "outside_error": time.error, "outside_copies_ms": time.copies_ms or None}
    return times | {"outside_read": read, "outside_sets": sets}


def _judged(arm: Arm) -> JudgedTime | None:
    figures = statistics.outside(arm.outside_ms)
    return None if figures is None else JudgedTime(*figures, arm.outside_copies_ms)


def _median_clock(samples: Samples) -> float | None:
    """Median SM clock of the kept samples, in MHz; None where no sample knows it."""
    clocks_mhz = samples.sm_clock_mhz[(samples.discarded == 0) & (samples.sm_clock_mhz > 0)]  # NaN is not above 0
    return float(np.median(clocks_mhz)) if len(clocks_mhz) else None


def _ranks(samples: Samples) -> records.Ranks | None:
    """What each rank did in the kept samples; None where one process is the arm, and where none is kept."""
    kept = samples.discarded == 0
    if samples.ranks < 2 or not kept.any():
        return None
    own_ms, late_us, clocks = samples.rank_ms[kept], samples.rank_late_us[kept], samples.rank_clock_mhz[kept]
    slowest = own_ms.argmax(axis=1)
    each: list[records.Rank] = []
    for rank in range(samples.ranks):
        clocks_mhz = clocks[clocks[:, rank] > 0, rank]  # NaN is not above 0
        each.append(
            records.Rank(
                median_ms=float(np.median(own_ms[:, rank])),
                slowest_share=float((slowest == rank).mean()),
                late_us=float(np.median(late_us[:, rank])),
                sm_clock_mhz=float(np.median(clocks_mhz)) if len(clocks_mhz) else None,
            )
        )
    skew_us = late_us.max(axis=1)
    return records.Ranks(
        each=tuple(each), skew_us=float(np.median(skew_us)), skew_most_us=float(np.quantile(skew_us, 0.95))
    )


# -- comparisons -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Side:
    """What a comparison needs of an arm: its turns in ms, in SM cycles (none where a clock is unknown), its clock."""

    arm: Arm
    times: statistics.ByRound
    cycles: statistics.ByRound
    clock_mhz: float | None

    @staticmethod
    def of(arm: Arm) -> _Side:
        """From the samples that count."""
        samples = frozen(Samples, arm.samples)
        kept = samples.discarded == 0
        # Counted by the SMs between two probes, and not event time x clock: whoever bends the events bends the product.
        counted = kept & np.isfinite(samples.cycles) & (samples.cycles > 0)
        return _Side(
            arm,
            statistics.by_round(samples.device_ms[kept], samples.replica[kept], samples.round[kept]),
            statistics.by_round(samples.cycles[counted], samples.replica[counted], samples.round[counted]),
            _median_clock(samples),
        )


@dataclass(frozen=True, slots=True)
class _Rules:
    """What holds for every comparison of a run: floors in time and in cycles, how arms ran.

    `measured`: an A/A arm found the floor, with whatever neighbours did in it.
    """

    floor: float
    cycles_floor: float
    measured: bool
    quick: bool
    interleaved: bool
    looks: Sequence[statistics.Look]


def comparisons(
    arms: Sequence[Arm],
    *,
    quick: bool,
    interleaved: bool = True,
    looks: Sequence[statistics.Look] = (),
    prior: statistics.Prior,
) -> tuple[list[records.Comparison], dict[str, float]]:
    """Every rung against every baseline that has times; and how processes of the same code differed, as members of the
    first baseline's quality: by its A/A arm alone, since a rung that had a say would have it in every later run.

    Args:
        arms: of a run, so far or at their end.
        quick: there were two replicas, or one.
        interleaved: arms took turns; else ratios are not made within rounds, and each comparison says so.
        looks: of the stop rule.
        prior: of how processes of the same code differ.
    """
    baselines = [arm for arm in arms if arm.rung.role is Role.BASELINE and not arm.twin]
    if not baselines:
        return [], {}
    sides = {arm.name: _Side.of(arm) for arm in arms}
    first, twin = baselines[0].name, baselines[0].name + TWIN_SUFFIX
    made = {base.name: _estimates(sides, base.name, (first, twin), interleaved, prior) for base in baselines}
    twins = made[first].get(twin, (None, None))
    times_floor, cycles_floor = (statistics.noise_floor(estimate, quick=quick) for estimate in twins)
    rules = _Rules(times_floor, cycles_floor, any(twins), quick, interleaved, looks)
    compared = [
        _comparison(sides[arm.name], sides[base.name], made[base.name].get(arm.name, (None, None)), rules)
        for arm in arms
        if not arm.twin
        for base in baselines
        if arm is not base and (arm.rung.role is not Role.BASELINE or base is baselines[0])
    ]
    seen = twins[0]
    if seen is None or seen.replicas < 2:
        return compared, {}
    return compared, {"between": math.sqrt(seen.apart), "between_freedom": float(seen.replicas - 1)}


def agreeing(arms: Sequence[records.Arm], compared: Sequence[records.Comparison]) -> tuple[records.Arm, ...]:
    """The arms with intervals that allow what those of their ratios say.

    A ratio leaves out what a replica or a round did to both, and an arm's time does not, so its interval is the wider
    one as a rule. But the ratio's knows of the A/A arm's processes too: where those differ more than a rung's own, the
    rung's time is not known better than its ratio.
    """
    by_rung = {arm.rung: arm for arm in arms}
    for one in compared:
        rung, base = by_rung[one.rung], by_rung[one.baseline]
        if one.low and one.high and rung.low_ms and rung.high_ms and base.low_ms and base.high_ms:
            low, high = min(rung.low_ms, base.high_ms / one.high), max(rung.high_ms, base.low_ms / one.low)
            by_rung[one.rung] = msgspec.structs.replace(rung, low_ms=low, high_ms=high)
    return tuple(by_rung[arm.rung] for arm in arms)


_Pair = tuple[statistics.Estimate | None, statistics.Estimate | None]
"""A log ratio in time and in SM cycles."""


def _estimates(
    sides: Mapping[str, _Side], base: str, same: Sequence[str], paired: bool, prior: statistics.Prior
) -> dict[str, _Pair]:
    """How every arm whose times may be believed compares with this one."""
    arms = {name: side for name, side in sides.items() if side.arm.believable and name != base}
    if not sides[base].arm.believable:
        return {}
    times, cycles = (
        statistics.estimates(
            getattr(sides[base], kind),
            {name: getattr(side, kind) for name, side in arms.items()},
            prior,
            same=same,
            paired=paired,
        )
        for kind in ("times", "cycles")
    )
    return {name: (times[name], cycles[name]) for name in arms}


def _comparison(rung: _Side, base: _Side, estimates: _Pair, rules: _Rules) -> records.Comparison:
    names = (rung.arm.name, base.arm.name)
    for side in (rung.arm, base.arm):
        if not side.believable or not len((rung if side is rung.arm else base).times):
            unkept = "every sample was discarded" if side.samples.device_ms else "no time yet"
            why = side.reason or (unkept if side.timed else "checked, not timed here")
            note = why if why.startswith(side.name) else f"{side.name}: {why}"
            return records.Comparison(*names, Verdict.NONE, note=clean_line(note))
    floor, neighbours = _beside_neighbours(rung.arm, base.arm, rules)
    ratio, cycles = (
        None if estimate is None else statistics.decide(estimate, least, quick=rules.quick, looks=rules.looks)
        for estimate, least in zip(estimates, (floor, rules.cycles_floor), strict=True)
    )
    if ratio is None:
        missing = "no round has both arms" if rules.interleaved else "no replica has both arms"
        return records.Comparison(*names, Verdict.NONE, note=missing)
    ratio = statistics.confirmed(ratio, cycles)
    if not (base.arm.excused or rung.arm.excused):
        ratio = statistics.confirmed_outside(ratio, _judged(base.arm), _judged(rung.arm))
    notes = [*neighbours, *_ways(rung.arm, base.arm), *_clocks(rung, base)]
    if not rules.interleaved:
        notes.append("arms ran one after the other")
    return records.Comparison(
        *names,
        ratio.verdict,
        ratio.speedup,
        ratio.low,
        ratio.high,
        ratio.floor,
        cycles.speedup if cycles else None,
        cycles.low if cycles else None,
        cycles.high if cycles else None,
        ratio.p_value,
        "; ".join([*notes, ratio.note] if ratio.note else notes),
    )


def _beside_neighbours(rung: Arm, base: Arm, rules: _Rules) -> tuple[float, list[str]]:
    """The floor of a comparison on a CPU, and what neighbours did, where that raises it.

    Where an A/A arm met the same neighbours, the floor that it found holds.
    """
    worst = max(rung.waits, base.waits, key=lambda waits: waits.factor)
    floor = worst.factor - 1.0
    if floor <= max(rules.floor, records.BUSY):
        return rules.floor, []
    notes = [busy.sentence(records.Quality(**worst.members()))]
    return (rules.floor if rules.measured else floor), notes


def _ways(rung: Arm, base: Arm) -> list[str]:
    """A clause that the two were timed in different ways; "" where they were not."""
    if (rung.timing, rung.calls) == (base.timing, base.calls):
        return []
    rung_way, base_way = (f"{arm.timing}{_calls(arm)}" for arm in (rung, base))
    return [f"{rung.name} is timed {rung_way}, {base.name} {base_way}"]


def _calls(arm: Arm) -> str:
    return f" ({arm.calls} calls a sample)" if arm.calls > 1 else ""


def _clocks(rung: _Side, base: _Side) -> list[str]:
    """A clause that the two ran at different clocks; "" where they did not."""
    if rung.clock_mhz is None or base.clock_mhz is None:
        return []
    low, high = sorted((rung.clock_mhz, base.clock_mhz))
    if high <= low * (1 + CLOCKS_DIFFER):
        return []
    return [f"{rung.arm.name} ran at {rung.clock_mhz:.0f} MHz, {base.arm.name} at {base.clock_mhz:.0f} MHz"]


def decided(compared: Sequence[records.Comparison]) -> bool:
    """Whether there is something to compare, and nothing of it is open: NONE is of an arm without a time."""
    return bool(compared) and all(one.verdict is not Verdict.UNDECIDED for one in compared)


def settled(compared: Sequence[records.Comparison]) -> set[str]:
    """Names of arms of which a comparison was made, and none is open."""
    return {one.rung for one in compared} - {one.rung for one in compared if one.verdict is Verdict.UNDECIDED}


def widest(arms: Sequence[Arm], replica: int, clear: float = 0.0) -> float | None:
    """The greatest half-width of a running rung against the first baseline within one replica, relative; of those that
    are not `clear` (statistics.half_width).

    None as long as one of these comparisons has fewer than three rounds, and where there is none. Only the newest
    replica's samples are looked at, so `replica` is the one that runs.
    """
    measured = [arm for arm in arms if arm.running and arm.timed and not arm.twin]
    if len(measured) < 2 or measured[0].rung.role is not Role.BASELINE:
        return None
    base, *rungs = measured
    # Who is settled takes no part in this one.
    turns = [newest for arm in rungs if len(newest := _newest(arm, replica)) or not arm.samples.replica]
    if not turns:
        return None
    by_rung = [statistics.log_ratios(_newest(base, replica), rung) for rung in turns]
    widths = [statistics.half_width(ratios[0], clear) if ratios else math.inf for ratios in by_rung]
    greatest = max(widths)
    return greatest if math.isfinite(greatest) else None


def _newest(arm: Arm, replica: int) -> statistics.ByRound:
    """The turns of a replica whose samples are the last of the log."""
    log = arm.samples
    start = bisect_left(log.replica, replica)
    kept = np.array(log.discarded[start:], np.int64) == 0
    return statistics.by_round(
        np.array(log.device_ms[start:], np.float64)[kept],
        np.array(log.replica[start:], np.int64)[kept],
        np.array(log.round[start:], np.int64)[kept],
    )


# -- the whole run -----------------------------------------------------------------------------------------------------


def overall(arms: tuple[records.Arm, ...]) -> Correctness:
    """WRONG where any arm is, CORRECT where all that ran are."""
    ran = [arm.correctness for arm in arms if arm.state is not State.UNAVAILABLE]
    if Correctness.WRONG in ran:
        return Correctness.WRONG
    if ran and all(correctness is Correctness.CORRECT for correctness in ran):
        return Correctness.CORRECT
    return Correctness.UNKNOWN
