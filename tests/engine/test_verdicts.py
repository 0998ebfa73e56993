"""From samples to a verdict: which arms have a number, what is compared with what, and what a dash is for."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest

from engine import verdicts
from engine.arms import TWIN_SUFFIX, Arm
from kernels.catalog.model import Kind, Needs, Role, Rung
from store.outcomes import Correctness, State, Timing, Verdict
from store.records import ArmRecord, ComparisonRecord


def rung(name: str) -> Rung:
    role = Role(name.split("_")[0])
    return Rung(name, role, Kind.TORCH, Path(f"{name}.py"), Needs())


def arm(
    name: str,
    ms: float = 1.0,
    *,
    seed: int = 0,
    state: State = State.OK,
    correctness: Correctness = Correctness.CORRECT,
    timing: Timing = Timing.COLD,
    replicas: int = 3,
    discarded: int = 0,
    timed: bool = True,
) -> Arm:
    """An arm that took `ms` per call, give or take 0.2 %, in 4 rounds of 5 samples per replica."""
    made = Arm(name, rung(name.removesuffix(TWIN_SUFFIX)), "cuda", timed, state=state, correctness=correctness)
    made.timing = timing
    random = np.random.default_rng(seed + sum(map(ord, name)))
    for replica in range(replicas):
        for number in range(4):
            times = (ms * np.exp(random.normal(0, 0.002, 5))).tolist()
            log = made.samples
            log.device_ms += times
            log.host_ms += times
            log.end_ns += [0] * 5
            log.round += [number] * 5
            log.replica += [replica] * 5
            log.inputs += [0] * 5
            log.discarded += [discarded] * 5
    return made


def verdict_of(arms: list[Arm], name: str, *, quick: bool = False) -> ComparisonRecord:
    (found,) = [c for c in verdicts.comparisons(arms, quick=quick) if c.rung == name and c.baseline == "baseline"]
    return found


# -- an arm's figures --------------------------------------------------------------------------------------------------


def test_a_correct_arm_has_its_median_interval_and_share_of_the_speed_of_light() -> None:
    found = verdicts.arm_record(arm("optimized", 2.0), bound_ms=1.5, source=b"def run(): ...")
    assert found.median_ms == pytest.approx(2.0, rel=2e-3)
    assert found.low_ms is not None
    assert found.high_ms is not None
    assert found.median_ms is not None
    assert found.low_ms <= found.median_ms <= found.high_ms
    assert (found.sample_count, found.timing) == (60, Timing.COLD)
    assert found.sol == pytest.approx(0.75, rel=2e-3)
    assert found.sources == hashlib.sha256(b"def run(): ...").hexdigest()


def test_where_the_bound_is_not_known_the_share_is_a_dash() -> None:
    assert verdicts.arm_record(arm("optimized"), bound_ms=None, source=b"").sol is None


@pytest.mark.parametrize(
    ("state", "correctness"),
    [
        (State.INCORRECT, Correctness.WRONG),
        (State.TIMEOUT_PROGRESS, Correctness.CORRECT),
        (State.CANCELLED, Correctness.CORRECT),
        (State.PREMATURE_EXIT, Correctness.CORRECT),
        (State.USER_ERROR, Correctness.UNKNOWN),
    ],
)
def test_an_arm_that_failed_has_no_number_however_many_samples_it_took(state: State, correctness: Correctness) -> None:
    found = verdicts.arm_record(arm("optimized", state=state, correctness=correctness), bound_ms=1.0, source=b"")
    assert (found.median_ms, found.low_ms, found.high_ms, found.sol) == (None, None, None, None)
    assert found.timing is Timing.NONE


def test_discarded_samples_do_not_count() -> None:
    mixed = arm("optimized", 1.0)
    spoiled = arm("optimized", 50.0, discarded=2)
    for name in mixed.samples.__slots__:
        getattr(mixed.samples, name).extend(getattr(spoiled.samples, name))
    found = verdicts.arm_record(mixed, bound_ms=None, source=b"")
    assert found.median_ms == pytest.approx(1.0, rel=2e-3)
    assert found.sample_count == 60


def test_an_arm_whose_samples_were_all_discarded_has_no_number_and_says_why() -> None:
    arms = [arm("baseline"), arm("optimized", discarded=2)]
    found = verdicts.arm_record(arms[1], bound_ms=1.0, source=b"")
    assert (found.median_ms, found.sample_count, found.timing) == (None, 0, Timing.NONE)
    assert verdict_of(arms, "optimized").note == "optimized: every sample was discarded"


def test_an_arm_that_is_only_checked_has_no_number() -> None:
    found = verdicts.arm_record(arm("optimized", replicas=0, timing=Timing.NONE, timed=False), bound_ms=1.0, source=b"")
    assert (found.median_ms, found.sample_count) == (None, 0)


# -- comparisons -------------------------------------------------------------------------------------------------------


def test_a_rung_is_compared_with_every_baseline_and_a_further_baseline_with_the_first() -> None:
    arms = [arm("baseline", 4.0), arm("baseline_other", 3.0), arm("optimized", 2.0), arm("baseline" + TWIN_SUFFIX, 4.0)]
    found = verdicts.comparisons(arms, quick=False)
    assert [(c.rung, c.baseline) for c in found] == [
        ("baseline_other", "baseline"),
        ("optimized", "baseline"),
        ("optimized", "baseline_other"),
    ]
    assert [c.speedup for c in found] == pytest.approx([4 / 3, 2.0, 1.5], rel=3e-3)
    assert {c.verdict for c in found} == {Verdict.FASTER}


def test_the_floor_is_what_the_twin_reached() -> None:
    close = [arm("baseline", 1.00), arm("optimized", 0.95), arm("baseline" + TWIN_SUFFIX, 1.00)]
    apart = [*close[:2], arm("baseline" + TWIN_SUFFIX, 1.10)]
    assert verdict_of(close, "optimized").verdict is Verdict.FASTER
    found = verdict_of(apart, "optimized")
    assert found.floor == pytest.approx(0.10, abs=0.01)
    assert found.verdict is Verdict.UNDECIDED


def test_a_quick_run_has_no_twin_and_a_floor_of_one_per_cent() -> None:
    found = verdict_of([arm("baseline", replicas=1), arm("optimized", 0.5, replicas=1)], "optimized", quick=True)
    assert (found.verdict, found.floor, found.note) == (Verdict.FASTER, 0.01, "quick: one replica")


def test_a_side_without_a_time_is_a_dash_with_its_own_reason() -> None:
    wrong = arm("optimized", state=State.INCORRECT, correctness=Correctness.WRONG)
    wrong.reason = "wrong values: y[3]: got\x1b[2J 1"
    found = verdict_of([arm("baseline"), wrong], "optimized")
    assert (found.verdict, found.speedup, found.floor) == (Verdict.NONE, None, None)
    assert found.note == "optimized: wrong values: y[3]: got␛[2J 1"
    checked = arm("optimized", replicas=0, timing=Timing.NONE, timed=False)
    assert verdict_of([arm("baseline"), checked], "optimized").note == "optimized: checked, not timed here"
    early = arm("optimized", replicas=0, state=State.RUNNING)
    assert verdict_of([arm("baseline"), early], "optimized").note == "optimized: no time yet"


def test_where_the_baseline_failed_nothing_is_faster_than_it() -> None:
    failed = arm("baseline", state=State.USER_ERROR, correctness=Correctness.UNKNOWN)
    failed.reason = "baseline: ValueError: no"
    found = verdict_of([failed, arm("optimized", 0.1)], "optimized")
    assert (found.verdict, found.note) == (Verdict.NONE, "baseline: ValueError: no")


def test_arms_that_were_timed_in_different_ways_are_told_apart() -> None:
    found = verdict_of([arm("baseline"), arm("optimized", 0.5, timing=Timing.COLD_SYNC)], "optimized")
    assert found.verdict is Verdict.FASTER
    assert found.note == "optimized is timed cold+host, baseline cold"


def test_without_a_baseline_there_is_nothing_to_compare() -> None:
    assert verdicts.comparisons([arm("optimized")], quick=False) == []
    assert verdicts.comparisons([], quick=False) == []


# -- the whole run -----------------------------------------------------------------------------------------------------


def record(state: State, correctness: Correctness) -> ArmRecord:
    return ArmRecord("r", state, correctness, signal=11 if state is State.CRASHED else None)


RIGHT = record(State.OK, Correctness.CORRECT)
WRONG = record(State.INCORRECT, Correctness.WRONG)
ABSENT = record(State.UNAVAILABLE, Correctness.UNKNOWN)
CRASHED = record(State.CRASHED, Correctness.UNKNOWN)


@pytest.mark.parametrize(
    ("arms", "expected"),
    [
        ((RIGHT, RIGHT), Correctness.CORRECT),
        ((RIGHT, ABSENT), Correctness.CORRECT),
        ((RIGHT, WRONG), Correctness.WRONG),
        ((CRASHED, WRONG), Correctness.WRONG),
        ((RIGHT, CRASHED), Correctness.UNKNOWN),
        ((ABSENT,), Correctness.UNKNOWN),
        ((), Correctness.UNKNOWN),
    ],
)
def test_a_run_is_correct_only_if_all_that_ran_are(arms: tuple[ArmRecord, ...], expected: Correctness) -> None:
    assert verdicts.overall(arms) is expected


def compared(name: str, verdict: Verdict, speedup: float | None, baseline: str = "baseline") -> ComparisonRecord:
    if speedup is None:
        return ComparisonRecord(name, baseline, verdict)
    return ComparisonRecord(name, baseline, verdict, speedup, speedup * 0.99, speedup * 1.01, 0.005)


def test_the_runs_verdict_is_that_of_the_fastest_optimized_rung_against_the_first_baseline() -> None:
    rungs = tuple(map(rung, ("baseline", "baseline_other", "optimized", "optimized_late", "peer_lib", "wrong_sign")))
    found = (
        compared("optimized", Verdict.SLOWER, 0.5),
        compared("optimized_late", Verdict.SAME, 1.0),
        compared("optimized_late", Verdict.FASTER, 3.0, baseline="baseline_other"),
        compared("peer_lib", Verdict.FASTER, 9.0),
        compared("wrong_sign", Verdict.FASTER, 99.0),
    )
    assert verdicts.best(found, rungs) is Verdict.SAME
    assert verdicts.best(found[:1], rungs) is Verdict.SLOWER
    assert verdicts.best(found[2:], rungs) is Verdict.NONE
    assert verdicts.best((compared("optimized", Verdict.NONE, None),), rungs) is Verdict.NONE
