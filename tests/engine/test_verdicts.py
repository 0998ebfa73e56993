"""From samples to a verdict: which arms have a number, what is compared with what, and what a dash is for."""

from __future__ import annotations

import hashlib
import math
from pathlib import Path

import numpy as np
import pytest

from aisp.engine import verdicts
from aisp.engine.arms import TWIN_SUFFIX, Arm
from aisp.engine.statistics import HELD, PRIORS, half_width
from aisp.engine.turns import StopRule
from aisp.kernels.catalog.model import Kind, Needs, Role, Rung
from aisp.store import record as records
from aisp.store.outcomes import Correctness, State, Timing, TolerancePolicy, Verdict

pytestmark = pytest.mark.filterwarnings("error::RuntimeWarning")

PRIOR = PRIORS["cuda"][HELD]


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
    clock_mhz: float = math.nan,
    bent: float = 1.0,
) -> Arm:
    """An arm that took `ms` per call, give or take 0.2 %, in 4 rounds of 5 samples per replica.

    Its event times are `bent` times what its SMs counted; the judge's clock says the same as the events.
    """
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
            clocks = clock_mhz * np.exp(random.normal(0, 0.001, 5))
            log.sm_clock_mhz += clocks.tolist()
            log.probe_ms += [math.nan if math.isnan(clock_mhz) else time for time in times]
            log.cycles += (np.array(times) * clocks * 1e3 / bent).tolist()
        made.outside_ms.append((replica, ms))
    return made


@pytest.mark.parametrize("timed", [True, False])
def test_an_arm_that_is_right_says_by_which_policy_and_a_wrong_one_says_nothing(timed: bool) -> None:
    right = arm("optimized", timing=Timing.COLD if timed else Timing.NONE, timed=timed)
    wrong = arm("wrong_sign", state=State.INCORRECT, correctness=Correctness.WRONG)
    for each in (right, wrong):
        each.accepted.update({TolerancePolicy.STATED: 5, TolerancePolicy.DERIVED: 2})
    told, none = (
        verdicts.arm_record(each, source=b"", roofline=None, base_ms=None, prior=PRIOR).quality
        for each in (right, wrong)
    )
    assert told is not None
    assert (told.right_by_stated, told.right_by_derived, told.drift is not None) == (5, 2, timed)
    assert none is None


def mixed(first: Arm, second: Arm) -> Arm:
    """The first arm with the second's samples as well."""
    for name in first.samples.__slots__:
        getattr(first.samples, name).extend(getattr(second.samples, name))
    return first


def record_of(arm: Arm, *, bound_ms: float | None = None) -> records.Arm:
    """Its record, under a roofline that knows one bound."""
    return verdicts.arm_record(
        arm,
        source=b"",
        roofline=None if bound_ms is None else lambda **_: records.RooflineBound(spec_ms=bound_ms),
        base_ms=None,
        prior=PRIOR,
    )


def verdict_of(arms: list[Arm], name: str, *, quick: bool = False, interleaved: bool = True) -> records.Comparison:
    found, _ = verdicts.comparisons(arms, quick=quick, interleaved=interleaved, prior=PRIOR)
    (only,) = [c for c in found if c.rung == name and c.baseline == "baseline"]
    return only


# -- an arm's figures --------------------------------------------------------------------------------------------------


def test_a_correct_arm_has_its_median_interval_and_share_of_the_speed_of_light() -> None:
    light = records.RooflineBound(spec_ms=1.2, measured_ms=1.5)
    found = verdicts.arm_record(
        arm("optimized", 2.0), source=b"def run(): ...", roofline=lambda **_: light, base_ms=3.0, prior=PRIOR
    )
    assert found.median_ms == pytest.approx(2.0, rel=2e-3)
    assert found.low_ms is not None
    assert found.high_ms is not None
    assert found.median_ms is not None
    assert found.low_ms <= found.median_ms <= found.high_ms
    assert (found.sample_count, found.timing) == (60, Timing.COLD)
    assert found.sol == pytest.approx(0.75, rel=2e-3)
    assert found.light is light
    assert found.sources == hashlib.sha256(b"def run(): ...").hexdigest()


def test_the_roofline_bound_is_given_what_the_arm_measured() -> None:
    asked: list[dict[str, object]] = []

    def bound(**given: object) -> None:
        asked.append(given)

    measured = arm("optimized", 2.0, clock_mhz=1755.0, timing=Timing.COLD_GRAPH)
    measured.calls = 16
    found = verdicts.arm_record(measured, source=b"", roofline=bound, base_ms=3.0, prior=PRIOR)
    assert (found.light, found.sol, found.calls) == (None, None, 16)
    assert found.sm_clock_mhz == pytest.approx(1755.0, rel=1e-3)
    (given,) = asked
    assert given == {
        "time_ms": found.median_ms,
        "base_ms": 3.0,
        "timing": Timing.COLD_GRAPH,
        "host_ms": pytest.approx(2.0, rel=2e-3),
        "sm_clock_mhz": found.sm_clock_mhz,
    }


def test_an_arm_without_a_clock_has_none_and_the_roofline_bound_knows() -> None:
    asked: list[dict[str, object]] = []
    found = verdicts.arm_record(
        arm("optimized"), source=b"", roofline=lambda **given: asked.append(given), base_ms=None, prior=PRIOR
    )
    assert found.sm_clock_mhz is None
    assert (asked[0]["sm_clock_mhz"], asked[0]["base_ms"]) == (None, None)


def test_a_record_says_how_good_its_samples_are() -> None:
    measured = mixed(arm("optimized", 1.0), arm("optimized", 1.4, discarded=1))
    measured.resolution_ms, measured.overhead_ms = 3.2e-5, 1.28e-3
    found = record_of(measured).quality
    assert found is not None
    assert found.throttled_share == 0.5
    assert (found.resolution_ms, found.overhead_ms) == (3.2e-5, 1.28e-3)
    assert found.drift == pytest.approx(0.0, abs=0.004)
    assert found.low_mode_ms is None


def test_where_the_bound_is_not_known_the_share_is_a_dash() -> None:
    found = record_of(arm("optimized"))
    assert (found.sol, found.light) == (None, None)


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
    found = record_of(arm("optimized", state=state, correctness=correctness, clock_mhz=1500.0), bound_ms=1.0)
    assert (found.median_ms, found.low_ms, found.high_ms, found.sol) == (None, None, None, None)
    assert (found.timing, found.light, found.quality, found.calls, found.sm_clock_mhz) == (Timing.NONE, *[None] * 4)


@pytest.mark.parametrize("code", [1, 2])
def test_discarded_samples_do_not_count(code: int) -> None:
    measured = mixed(arm("optimized", 1.0), arm("optimized", 50.0, discarded=code))
    found = record_of(measured)
    assert found.median_ms == pytest.approx(1.0, rel=2e-3)
    assert found.high_ms is not None
    assert found.high_ms < 1.01
    assert found.sample_count == 60


def test_samples_set_aside_for_a_low_clock_move_no_comparison_and_no_clock() -> None:
    """Half of the rung's samples ran at 0.7 of the clock and took longer for it."""
    slow = arm("optimized", 1 / 0.7, discarded=1, clock_mhz=0.7 * 1980)
    arms = [arm("baseline", 1.0, clock_mhz=1980.0), mixed(arm("optimized", 1.0, clock_mhz=1980.0), slow)]
    found = verdict_of(arms, "optimized")
    assert found.verdict is Verdict.SAME
    assert found.speedup == pytest.approx(1.0, rel=3e-3)
    assert found.cycles == pytest.approx(1.0, rel=3e-3)
    assert found.note == ""
    assert record_of(arms[1]).sm_clock_mhz == pytest.approx(1980.0, rel=1e-3)


def test_an_arm_whose_samples_were_all_discarded_has_no_number_and_says_why() -> None:
    arms = [arm("baseline"), arm("optimized", discarded=1)]
    found = record_of(arms[1], bound_ms=1.0)
    assert (found.median_ms, found.sample_count, found.timing, found.light) == (None, 0, Timing.NONE, None)
    assert found.quality is not None
    assert found.quality.throttled_share == 1.0
    assert verdict_of(arms, "optimized").note == "optimized: every sample was discarded"


def test_an_arm_that_is_only_checked_has_no_number() -> None:
    found = record_of(arm("optimized", replicas=0, timing=Timing.NONE, timed=False), bound_ms=1.0)
    assert (found.median_ms, found.sample_count, found.quality) == (None, 0, None)


# -- comparisons -------------------------------------------------------------------------------------------------------


def test_a_rung_is_compared_with_every_baseline_and_a_further_baseline_with_the_first() -> None:
    arms = [arm("baseline", 4.0), arm("baseline_other", 3.0), arm("optimized", 2.0), arm("baseline" + TWIN_SUFFIX, 4.0)]
    found, _ = verdicts.comparisons(arms, quick=False, prior=PRIOR)
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


def test_a_quick_run_has_a_floor_of_one_per_cent_and_needs_both_replicas() -> None:
    first, both = (
        verdict_of([arm("baseline", replicas=n), arm("optimized", 0.5, replicas=n)], "optimized", quick=True)
        for n in (1, 2)
    )
    assert (first.verdict, both.verdict, both.floor) == (Verdict.UNDECIDED, Verdict.FASTER, 0.01)
    assert both.note == ""


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


def test_how_many_calls_a_sample_holds_is_told_where_the_arms_differ_in_it() -> None:
    graph, single = arm("optimized", 0.5, timing=Timing.COLD_GRAPH), arm("baseline")
    graph.calls = 16
    found = verdict_of([single, graph], "optimized")
    assert found.note == "optimized is timed cold graph (16 calls a sample), baseline cold"
    single.calls, single.timing = 16, Timing.COLD_GRAPH
    assert verdict_of([single, graph], "optimized").note == ""
    single.calls = 8
    assert verdict_of([single, graph], "optimized").note == (
        "optimized is timed cold graph (16 calls a sample), baseline cold graph (8 calls a sample)"
    )


# -- clocks ------------------------------------------------------------------------------------------------------------


def test_a_speed_up_in_time_and_in_cycles_is_faster_and_both_are_told() -> None:
    arms = [arm("baseline", 2.0, clock_mhz=1800.0), arm("optimized", 1.0, clock_mhz=1791.0)]
    found = verdict_of(arms, "optimized")
    assert found.verdict is Verdict.FASTER
    assert found.speedup == pytest.approx(2.0, rel=3e-3)
    assert found.cycles == pytest.approx(2.0 * 1800 / 1791, rel=3e-3)
    assert found.cycles is not None
    assert found.cycles_low is not None
    assert found.cycles_high is not None
    assert found.cycles_low <= found.cycles <= found.cycles_high
    assert found.note == ""


def test_what_only_a_higher_clock_made_faster_is_undecided_and_both_clocks_are_named() -> None:
    """The same number of cycles, at 1890 and 1800 MHz."""
    arms = [arm("baseline", 1.05, clock_mhz=1800.0), arm("optimized", 1.0, clock_mhz=1890.0)]
    found = verdict_of(arms, "optimized")
    assert found.speedup == pytest.approx(1.05, rel=3e-3)
    assert found.cycles == pytest.approx(1.0, rel=3e-3)
    assert found.verdict is Verdict.UNDECIDED
    assert found.p_value is not None
    assert found.p_value > 0.5
    clocks, _, reason = found.note.partition("; ")
    words = clocks.split()
    assert [words[0], *words[2:4], words[4], words[-1]] == ["optimized", "at", words[3], "MHz,", "MHz"]
    assert abs(int(words[3]) - 1890) <= 2
    assert abs(int(words[-2]) - 1800) <= 2
    assert reason.startswith("faster in time, but not in SM cycles (")
    assert reason.endswith("): the clock may have done it")


def test_event_times_that_are_bent_below_python_decide_nothing_alone() -> None:
    """Clock times event time would say FASTER in cycles too: whoever bends the one bends the product."""
    arms = [arm("baseline", 1.0, clock_mhz=1800.0), arm("optimized", 0.5, clock_mhz=1800.0, bent=0.5)]
    found = verdict_of(arms, "optimized")
    assert found.speedup == pytest.approx(2.0, rel=3e-3)
    assert found.cycles == pytest.approx(1.0, rel=3e-3)
    assert found.verdict is Verdict.UNDECIDED


def test_a_difference_beyond_what_the_clocks_differ_stands_and_the_clocks_are_still_named() -> None:
    arms = [arm("baseline", 2.0, clock_mhz=1600.0), arm("optimized", 1.0, clock_mhz=1800.0)]
    found = verdict_of(arms, "optimized")
    assert found.verdict is Verdict.FASTER
    assert found.note.startswith("optimized ran at 1")
    assert ", baseline at 1" in found.note


def test_clocks_within_two_per_cent_are_not_worth_a_word() -> None:
    arms = [arm("baseline", 2.0, clock_mhz=1800.0), arm("optimized", 1.0, clock_mhz=1830.0)]
    assert verdict_of(arms, "optimized").note == ""


def test_arms_without_a_clock_have_no_cycles_and_time_alone_decides() -> None:
    for other in (math.nan, 1800.0):
        found = verdict_of([arm("baseline", 2.0), arm("optimized", 1.0, clock_mhz=other)], "optimized")
        assert (found.cycles, found.cycles_low, found.cycles_high) == (None, None, None)
        assert (found.verdict, found.note) == (Verdict.FASTER, "")


def test_samples_whose_clock_is_unknown_count_in_time_and_not_in_cycles() -> None:
    part = mixed(arm("optimized", 1.0, clock_mhz=1800.0), arm("optimized", 1.0, seed=1))
    found = verdict_of([arm("baseline", 2.0, clock_mhz=1800.0), part], "optimized")
    assert found.speedup == pytest.approx(2.0, rel=3e-3)
    assert found.cycles == pytest.approx(2.0, rel=3e-3)
    assert record_of(part).sample_count == 120


# -- arms that did not take turns --------------------------------------------------------------------------------------


def test_arms_that_ran_one_after_the_other_are_compared_by_replica_and_it_is_said() -> None:
    late = arm("optimized", 0.5)
    late.samples.round = [number + 100 for number in late.samples.round]
    assert verdict_of([arm("baseline"), late], "optimized").note == "no round has both arms"
    found = verdict_of([arm("baseline"), late], "optimized", interleaved=False)
    assert found.speedup == pytest.approx(2.0, rel=3e-3)
    assert (found.verdict, found.note) == (Verdict.FASTER, "arms ran one after the other")
    apart = arm("optimized")
    apart.samples.replica = [number + 10 for number in apart.samples.replica]
    assert verdict_of([arm("baseline"), apart], "optimized", interleaved=False).note == "no replica has both arms"


# -- p-values ----------------------------------------------------------------------------------------------------------


def test_a_comparison_has_the_p_value_of_a_difference_beyond_the_floor() -> None:
    arms = [arm("baseline", 2.0), arm("optimized", 1.0), arm("optimized_same", 2.0)]
    sure = verdict_of(arms, "optimized").p_value
    assert sure is not None
    assert sure < 1e-4
    same = verdict_of(arms, "optimized_same").p_value
    assert same is not None
    assert same > 0.5
    none = verdict_of([arm("baseline"), arm("optimized", replicas=0, state=State.RUNNING)], "optimized")
    assert none.p_value is None


# -- the stop rule -----------------------------------------------------------------------------------------------------


def running(name: str, rounds: int, spread: float, *, replica: int = 0) -> Arm:
    """An arm with three samples in each round of one replica; odd rounds are slower by `spread`."""
    made = Arm(name, rung(name.removesuffix(TWIN_SUFFIX)), "cuda", True, state=State.RUNNING)
    for number in range(rounds):
        made.samples.device_ms += [math.exp(spread * number)] * 3
        made.samples.round += [number] * 3
        made.samples.replica += [replica] * 3
        made.samples.discarded += [0, 0, 0]
    return made


def test_the_widest_interval_is_that_of_the_rung_that_varies_most() -> None:
    arms = [
        running("baseline", 6, 0.0),
        running("optimized", 6, 0.002),
        running("optimized_late", 6, 0.004),
        running("baseline" + TWIN_SUFFIX, 6, 0.9),
    ]
    assert verdicts.widest(arms, 0) == pytest.approx(half_width(0.004 * np.arange(6)))
    assert verdicts.widest(arms[:2], 0) == pytest.approx(half_width(0.002 * np.arange(6)))


def test_of_a_quick_run_only_those_intervals_count_that_are_not_clear_of_one() -> None:
    arms = [running("baseline", 6, 0.0), running("optimized", 6, 0.002), running("optimized_late", 6, 0.9)]
    arms[2].samples.device_ms = [50.0 * ms**0.1 for ms in arms[2].samples.device_ms]
    clear = StopRule.of(quick=True, replicas=0).clear
    assert verdicts.widest(arms, 0, clear) == pytest.approx(half_width(0.002 * np.arange(6)))
    assert verdicts.widest(arms, 0) == pytest.approx(half_width(0.09 * np.arange(6)))


def test_who_takes_no_part_in_a_replica_keeps_nobody_in_its_rounds() -> None:
    arms = [running("baseline", 6, 0.0), running("optimized", 6, 0.002), running("optimized_early", 6, 0.09)]
    for arm in arms[:2]:
        arm.samples.replica = [1] * len(arm.samples.replica)
    assert verdicts.widest(arms, 2) is None, "nobody has a round of it"
    assert verdicts.widest(arms, 1) == pytest.approx(half_width(0.002 * np.arange(6)))
    assert verdicts.widest([arms[0], arms[2]], 1) is None


def test_a_rung_with_an_open_comparison_is_not_settled() -> None:
    ratio = {"speedup": 2.0, "low": 1.9, "high": 2.1}
    compared = [
        records.Comparison(rung="a", baseline="baseline", verdict=Verdict.FASTER, **ratio),
        records.Comparison(rung="b", baseline="baseline", verdict=Verdict.SAME, **ratio),
        records.Comparison(rung="b", baseline="baseline_torch", verdict=Verdict.UNDECIDED, **ratio),
    ]
    assert verdicts.settled(compared) == {"a"}


def test_there_is_no_widest_interval_before_three_rounds_or_without_a_rung() -> None:
    assert verdicts.widest([running("baseline", 2, 0.0), running("optimized", 2, 0.0)], 0) is None
    assert verdicts.widest([running("baseline", 6, 0.0)], 0) is None
    assert verdicts.widest([running("baseline", 6, 0.0), running("optimized", 6, 0.0)], 1) is None
    half = [running("baseline", 6, 0.0), running("optimized", 6, 0.0), running("optimized_late", 0, 0.0)]
    assert verdicts.widest(half, 0) is None


def test_only_the_replica_that_runs_counts_and_only_arms_that_still_run() -> None:
    old, new = running("optimized", 6, 0.1), running("optimized", 6, 0.001, replica=1)
    base_old, base_new = running("baseline", 6, 0.0), running("baseline", 6, 0.0, replica=1)
    ended = running("optimized_late", 2, 0.0, replica=1)
    ended.state = State.INCORRECT
    arms = [mixed(base_old, base_new), mixed(old, new), ended]
    assert verdicts.widest(arms, 1) == pytest.approx(half_width(0.001 * np.arange(6)))


def test_samples_set_aside_do_not_widen_it() -> None:
    wild = running("optimized", 6, 0.0)
    wild.samples.device_ms += [9.0] * 12
    wild.samples.round += [0, 1, 2, 3] * 3
    wild.samples.replica += [0] * 12
    wild.samples.discarded += [1] * 12
    assert verdicts.widest([running("baseline", 6, 0.0), wild], 0) == 0.0


def test_without_a_baseline_there_is_nothing_to_compare() -> None:
    assert verdicts.comparisons([arm("optimized")], quick=False, prior=PRIOR) == ([], {})
    assert verdicts.comparisons([], quick=False, prior=PRIOR) == ([], {})


@pytest.mark.parametrize(
    ("found", "over"),
    [
        ([Verdict.FASTER, Verdict.SAME, Verdict.NONE], True),
        ([Verdict.FASTER, Verdict.UNDECIDED], False),
        ([], False),  # a baseline alone: its median is what is asked for
    ],
)
def test_a_run_is_decided_where_nothing_is_open(found: list[Verdict], over: bool) -> None:
    at = {Verdict.FASTER: (1.2, 1.1, 1.3)}
    made = [
        records.Comparison(f"optimized_{place}", "baseline", verdict, *at.get(verdict, (1.0, 0.9, 1.1)))
        for place, verdict in enumerate(found)
    ]
    assert verdicts.decided(made) is over


# -- the whole run -----------------------------------------------------------------------------------------------------


def record(state: State, correctness: Correctness) -> records.Arm:
    return records.Arm("r", state, correctness, signal=11 if state is State.CRASHED else None)


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
def test_a_run_is_correct_only_if_all_that_ran_are(arms: tuple[records.Arm, ...], expected: Correctness) -> None:
    assert verdicts.overall(arms) is expected


# -- what no rung has a say in -----------------------------------------------------------------------------------------


def constant(name: str) -> Arm:
    """An arm that bends its own times to one number."""
    made = arm(name, 0.9)
    made.samples.device_ms = [0.9] * len(made.samples.device_ms)
    return made


def test_rungs_of_constant_time_change_no_siblings_figures_and_nothing_that_is_kept_for_later_runs() -> None:
    honest = [arm("baseline"), arm("optimized", 0.9), arm("baseline" + TWIN_SUFFIX)]
    bent = [constant(f"optimized_bent_{number}") for number in range(10)]
    without, with_them = (verdicts.comparisons(arms, quick=False, prior=PRIOR) for arms in (honest, honest + bent))
    assert [one for one in with_them[0] if one.rung == "optimized"] == without[0]
    assert with_them[1] == without[1]
    assert without[1]["between_freedom"] == 2.0 and 0.0 <= without[1]["between"] < 0.002
    assert verdicts.comparisons(bent + honest[:1], quick=False, prior=PRIOR)[1] == {}, "there was no A/A arm"
