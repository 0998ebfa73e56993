"""What a night's run says against earlier ones: comparable or not, worse or not, whose fault it is. Rules alone."""

from __future__ import annotations

import math
from typing import Any

import pytest

from aisp.store.outcomes import State, Timing, Validity, Verdict
from aisp.store.record import Comparison, Quality, Run
from aisp.store.results.comparison import Cause, Side, cause, side
from aisp.store.results.reading import Held, Reading
from aisp.store.results.regression import (
    Change,
    Row,
    corrected,
    row,
    tally,
    to_turn,
    turns_wanted,
    with_turns,
)
from tests.replacing import replace
from tests.store.examples import finished, planned

HERE = {
    "host": "one",
    "gpu": "NVIDIA H100 80GB HBM3",
    "gpu_uuid": "GPU-1",
    "driver": "580",
    "cuda": "13.0",
    "cpu": "Xeon",
    "versions": {"torch": "2.11.0", "triton": "3.6.0", "python": "3.12.3"},
}
TARGET = "ch07:transpose"


def night(
    day: int,
    *,
    rung: float = 0.5,
    base: float = 1.0,
    within: float = 0.002,
    floor: float | None = 0.005,
    code: str = "",
    base_code: str = "b" * 64,
    clock: float | None = 1980.0,
    timing: Timing = Timing.COLD,
    there: dict[str, object] | None = None,
    manifest: dict[str, Any] | None = None,
    calls: int = 1,
    resolution_ms: float = 3.2e-5,
    **changes: Any,
) -> Side:
    """The run of a day in November: a baseline of 1 ms and a rung of 0.5 ms times a day's own factor."""
    code = code or "c" * 64
    began = planned(
        TARGET,
        id=f"{day:026d}",
        wall=f"2026-11-{day:02d}T03:00:00.000+00:00",
        snapshot=code,
        manifest={"code": code + base_code, "validity": "strict", "stop_rule": {"warm": False}, **(manifest or {})},
        quick=changes.pop("quick", False),
    )
    end = finished(began)
    near = 1 + within
    arms = tuple(
        replace(
            arm,
            median_ms=time_ms,
            low_ms=time_ms / near,
            high_ms=time_ms * near,
            timing=timing,
            sm_clock_mhz=clock,
            sources=sources,
            calls=calls,
            quality=Quality(resolution_ms=resolution_ms),
        )
        for arm, time_ms, sources in zip(end.arms, (base, rung), (base_code, code), strict=True)
    )
    speedup = base / rung
    figures = (speedup, speedup / near, speedup * near)
    item = Comparison("optimized", "baseline", Verdict.FASTER, *figures, floor, *figures, p_value=0.001)
    end = replace(end, arms=arms, comparisons=(item,), flags=("clocks=unlocked",))
    return side(Reading(replace(end, **changes)), there or HERE)


def last(*sides: Side) -> Row:
    return row(TARGET, sides)


def turns(verdict: Verdict, speedup: float = 0.97, *, floor: float = 0.005, state: State = State.OK) -> Reading:
    """A run of the old source as baseline against the new one as optimized."""
    end = night(29).run.record
    item = Comparison("optimized", "baseline", verdict, speedup, speedup / 1.002, speedup * 1.002, floor)
    reason = "" if state is State.OK else "it took too long"
    return Reading(replace(end, comparisons=(item,), verdict=verdict, state=state, reason=reason))


def with_swizzled(one: Side, time_ms: float) -> Side:
    """The same run with a second rung of so many ms."""
    record = one.run.record
    arm = replace(record.arms[1], rung="optimized_swizzled", median_ms=time_ms, low_ms=None, high_ms=None)
    speedup = 1.0 / time_ms
    figures = (speedup, speedup / 1.002, speedup * 1.002, 0.005)
    item = Comparison("optimized_swizzled", "baseline", Verdict.FASTER, *figures)
    run = replace(record, arms=(*record.arms, arm), comparisons=(*record.comparisons, item))
    return Side(Reading(run), one.environment, one.sm_clock_mhz)


# -- worse, better, the same -------------------------------------------------------------------------------------------


def test_a_day_that_slows_baseline_and_rung_alike_is_no_regression() -> None:
    for factor in (0.97, 0.99, 1.01, 1.03):
        found = last(night(21, base=factor, rung=0.5 * factor), night(20))
        assert found.last is not None
        assert (found.change, found.last.ratio) == (Change.SAME, pytest.approx(1.0)), factor
        assert found.last.control == pytest.approx(1 / factor)
        assert to_turn([found]) == []
    assert found.sentence() == "the same as on 20 Nov within 0.5 %"


def test_a_slowdown_of_one_per_cent_of_a_steady_kernel_is_put_in_turns() -> None:
    found = last(night(21, rung=0.505, code="d" * 64), night(20))
    assert found.last is not None
    assert found.last.ratio == pytest.approx(1 / 1.01)
    assert found.change is Change.WORSE
    assert to_turn(corrected([found])) == [found]


def test_what_is_within_the_interval_but_looks_slower_is_put_in_turns_too() -> None:
    found = last(night(21, rung=0.505, code="d" * 64, within=0.01), night(20, within=0.01))
    assert found.change is Change.UNDECIDED
    assert turns_wanted(found) == ("last",), "last and best are one run: one measurement answers both"
    inside = last(night(21, rung=0.502, code="d" * 64, within=0.01), night(20, within=0.01))
    assert to_turn([inside]) == [], "0.4 % are within the floor"


def test_the_interval_is_made_of_both_runs_own_on_the_log_scale() -> None:
    found = last(night(21, rung=0.52, within=0.004), night(20, within=0.003)).last
    assert found is not None
    assert found.low is not None
    assert found.high is not None
    half = math.hypot(math.log(1.004), math.log(1.003))
    assert math.log(found.high / found.low) / 2 == pytest.approx(half)
    assert math.sqrt(found.low * found.high) == pytest.approx(0.5 / 0.52)


def test_the_floor_is_the_greater_one_and_no_less_than_a_step_of_the_clock() -> None:
    assert _floor(last(night(21, floor=0.02), night(20))) == 0.02
    assert _floor(last(night(21), night(20, floor=0.03))) == 0.03
    short = {"base": 0.006, "rung": 0.003}
    coarse = last(night(21, **short), night(20, **short))
    assert _floor(coarse) == pytest.approx(3.2e-5 / 0.003), "one call of 3 us, by events that step in 32 ns"
    batched = last(night(21, calls=32, **short), night(20, calls=32, **short))
    assert _floor(batched) == 0.005, "32 calls in one sample: a thousandth of a step each"


def _floor(found: Row) -> float | None:
    assert found.last is not None
    return found.last.floor


def test_without_a_floor_there_is_no_verdict() -> None:
    found = last(night(21, rung=0.6, floor=None), night(20))
    assert found.change is Change.UNDECIDED
    assert found.last is not None
    assert "noise floor" in found.last.reason


def test_faster_is_better_and_says_by_how_much_and_why() -> None:
    found = last(night(21, rung=0.4, code="d" * 64), night(20))
    assert found.change is Change.BETTER
    assert found.sentence() == "25.0 % faster than on 20 Nov [24.6..25.4]: the source of optimized changed"


def test_without_a_control_the_times_are_compared_with_room_for_the_day() -> None:
    changed = {"base_code": "e" * 64}
    day = last(night(21, rung=0.51, base=0.9, **changed), night(20))
    assert day.change is Change.UNDECIDED
    assert day.last is not None
    assert day.last.ratio == pytest.approx(0.5 / 0.51), "the baseline is other code: its time is not in the ratio"
    assert day.last.control is None
    assert last(night(21, rung=0.6, base=0.9, **changed), night(20)).change is Change.WORSE


def test_a_rung_that_was_best_and_lost_is_not_hidden_by_the_one_that_is_best_now() -> None:
    found = last(with_swizzled(night(21), 0.6), with_swizzled(night(20), 0.25))
    assert found.last is not None
    assert (found.last.rung, found.change) == ("optimized_swizzled", Change.WORSE)
    assert last(with_swizzled(night(21), 0.25), night(20)).change is Change.SAME, "a new rung has no past of its own"


# -- what is comparable ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("there", "what"),
    [
        ({"driver": "590"}, "driver: 580 then, 590 now"),
        ({"gpu": "NVIDIA H200"}, "GPU: NVIDIA H100 80GB HBM3 then, NVIDIA H200 now"),
        ({"versions": {**HERE["versions"], "torch": "2.12"}}, "versions.torch: 2.11.0 then, 2.12 now"),  # type: ignore[dict-item]
        ({"versions": {**HERE["versions"], "triton": "3.7"}}, "versions.triton: 3.6.0 then, 3.7 now"),  # type: ignore[dict-item]
        ({"cuda": "13.1"}, "cuda: 13.0 then, 13.1 now"),
        (
            {"driver": "590", "gpu": "NVIDIA H200"},
            "GPU: NVIDIA H100 80GB HBM3 then, NVIDIA H200 now; driver: 580 then, 590 now",
        ),
    ],
)
def test_another_gpu_driver_or_version_is_not_comparable_and_is_the_cause_to_look_at(
    there: dict[str, object], what: str
) -> None:
    found = last(night(21, rung=0.6, there={**HERE, **there}), night(20))
    assert found.change is Change.NOT_COMPARABLE
    assert found.last is not None
    assert found.last.reason == what
    assert found.last.causes
    assert found.sentence() == f"not comparable with the run on 20 Nov: {what} (20.0 % slower beside it)"


@pytest.mark.parametrize(
    ("now", "what"),
    [
        ({"manifest": {"stop_rule": {"warm": True}}}, "cache: cold then, warm now"),
        ({"manifest": {"stop_rule": {"cache": "dirty"}}}, "cache: cold then, dirty now"),
        ({"manifest": {"stop_rule": {"method": 2}}}, "timing method: 1 then, 2 now"),
        ({"manifest": {"stop_rule": {"interleaved": False}}}, "turns: interleaved then, apart now"),
        ({"manifest": {"validity": "portable"}}, "policy: strict then, portable now"),
        ({"manifest": {"axes": {"N": 4096}}}, "axes.N: unknown then, 4096 now"),
        ({"quick": True}, "mode: full run then, quick now"),
        ({"timing": Timing.COLD_GRAPH}, "optimized was timed as cold then, as cold graph now"),
    ],
)
def test_another_way_of_measuring_is_not_comparable(now: dict[str, Any], what: str) -> None:
    found = last(night(21, **now), night(20))
    assert found.change is Change.NOT_COMPARABLE
    assert found.last is not None
    assert found.last.reason == what


def test_the_newest_comparable_run_is_the_last_one_whatever_came_between() -> None:
    other_driver = night(20, rung=0.1, there={**HERE, "driver": "570"})
    failed = night(19, state=State.TIMEOUT_TOTAL, reason="too long")
    doubted = night(18, validity=Validity.SUSPECT)
    found = last(night(21), other_driver, failed, doubted, night(17), night(16))
    assert found.last is not None
    assert found.last.earlier.run.id.endswith("17")
    assert [point.comparable for point in found.past] == [True, True, False, False, False, True]


def test_another_card_or_host_of_the_same_model_is_a_cause_and_no_obstacle_where_host_time_is_kept_out() -> None:
    there = {**HERE, "host": "two", "gpu_uuid": "GPU-2", "cpu": "EPYC"}
    found = last(night(21, there=there), night(20)).last
    assert found is not None
    assert found.change is Change.SAME
    assert [(one.what, cause(one)) for one in found.causes] == [
        ("cpu", Cause.MACHINE),
        ("gpu_uuid", Cause.MACHINE),
        ("host", Cause.MACHINE),
    ]
    on_host = {"timing": Timing.COLD_SYNC}
    assert last(night(21, there=there, **on_host), night(20, **on_host)).change is Change.NOT_COMPARABLE


def test_where_clocks_differ_cycles_are_compared() -> None:
    slow = night(21, base=2.0, rung=1.0, clock=990.0)
    found = last(slow, night(20)).last
    assert found is not None
    assert (found.change, found.in_cycles, found.ratio) == (Change.SAME, True, pytest.approx(1.0))
    assert found.causes[0].what == "SM clock"
    alone = last(night(21, base=2.0, rung=1.0, clock=990.0, base_code="e" * 64), night(20)).last
    assert alone is not None
    assert (alone.in_cycles, alone.ratio) == (True, pytest.approx(1.0)), "time times clock where there is no control"
    assert last(night(21, clock=None), night(20)).change is Change.NOT_COMPARABLE, "an unknown clock says nothing"


def test_the_first_run_and_one_that_failed_say_so() -> None:
    assert (last(night(21)).change, last(night(21)).last) == (Change.FIRST, None)
    failed = last(night(21, state=State.TIMEOUT_TOTAL, reason="too long"), night(20))
    assert (failed.change, failed.left_out, failed.last) == (Change.LEFT_OUT, "timeout_total", None)
    assert failed.sentence() == "left out: timeout_total"
    told = row(TARGET, [night(21), night(20)], left_out="it breaks its contract: replicas")
    assert (told.change, told.sentence()) == (Change.LEFT_OUT, "left out: it breaks its contract: replicas")
    assert (row(TARGET, []).change, row(TARGET, []).left_out) == (Change.LEFT_OUT, "no run")


@pytest.mark.parametrize("state", [State.CANCELLED, State.ENGINE_LOST, State.INFRA_ERROR, State.USER_ERROR])
def test_a_run_that_was_never_timed_is_not_the_last_one(state: State) -> None:
    lost = night(20, state=state, reason="Ctrl-C", there={})
    alone = last(night(21), lost)
    assert (alone.change, alone.last, alone.best) == (Change.FIRST, None, None)
    driver = last(night(21), lost, night(19, there={**HERE, "driver": "570"}))
    assert driver.last is not None
    assert (driver.change, driver.last.reason) == (Change.NOT_COMPARABLE, "driver: 570 then, 580 now")


def test_one_tally_counts_all_rows_and_what_is_left_out_is_not_called_not_comparable() -> None:
    rows = [
        last(night(21)),
        last(night(21, state=State.CANCELLED, reason="Ctrl-C")),
        row(TARGET, []),
        last(night(21), night(20)),
    ]
    assert {change: count for change, count in tally(rows).items() if count} == {
        Change.SAME: 1,
        Change.FIRST: 1,
        Change.LEFT_OUT: 2,
    }


class Mark:
    """A quarantine of the optimized rung."""

    rung, check, evidence = "optimized", "timing.wall_clock", "0.4 ms by events"
    run_id, wall = "0" * 26, "2026-11-01T00:00:00+00:00"


def barred(one: Side) -> Side:
    """The same run with its optimized rung in quarantine."""
    held: dict[str, Held] = {"optimized": Mark()}
    return Side(Reading(one.run.record, held), one.environment, one.sm_clock_mhz)


def test_figures_of_a_rung_in_quarantine_are_in_no_ratio_and_no_point() -> None:
    found = last(night(21), barred(night(20)))
    assert found.change is Change.NOT_COMPARABLE
    assert (found.past[0].median_ms, found.past[0].speedup) == (None, None)
    assert found.past[1].median_ms == 0.5
    beside = last(with_swizzled(night(21, rung=0.5), 0.6), barred(with_swizzled(night(20, rung=0.4), 0.6))).last
    assert beside is not None
    assert (beside.rung, beside.change) == ("optimized_swizzled", Change.SAME), "the other rung's time stands"


# -- causes and turns --------------------------------------------------------------------------------------------------


def test_slower_in_turns_confirms_and_the_sentence_says_when_how_much_and_why() -> None:
    found = last(night(25, rung=0.516, code="d" * 64), night(21))
    after = with_turns(found, "last", turns(Verdict.SLOWER))
    assert (after.change, after.outcome, to_turn([after])) == (Change.WORSE, Change.WORSE, [])
    assert after.sentence() == (
        "3.1 % slower than on 21 Nov [2.9..3.3], confirmed in turns: the source of optimized changed"
    )
    assert after.best is not None
    assert after.best.turns is not None, "last and best are the same run"


@pytest.mark.parametrize("verdict", [Verdict.SAME, Verdict.FASTER])
def test_what_turns_do_not_find_was_the_sitting_and_not_the_code(verdict: Verdict) -> None:
    found = last(night(25, rung=0.516, code="d" * 64), night(21))
    assert found.change is Change.WORSE
    after = with_turns(found, "last", turns(verdict, 1.0 if verdict is Verdict.SAME else 1.03))
    assert (after.change, after.outcome) == (Change.SAME, Change.SAME)
    seen = "0.0 % faster [-0.2..0.2]" if verdict is Verdict.SAME else "3.0 % faster [2.8..3.2]"
    assert after.sentence() == (
        f"the same as on 21 Nov within 0.5 %: in turns the new source is {verdict} ({seen}): "
        "the sitting differed, and not the code"
    )


def test_turns_too_coarse_for_what_was_seen_do_not_clear_the_code() -> None:
    found = last(night(25, rung=0.505, code="d" * 64), night(21))
    assert found.change is Change.WORSE, "1 % slower, with a floor of 0.5 %"
    after = with_turns(found, "last", turns(Verdict.SAME, 0.991, floor=0.012))
    assert (after.change, after.outcome, to_turn([after])) == (Change.UNDECIDED, Change.UNDECIDED, [])
    assert after.sentence() == (
        "1.0 % slower than on 21 Nov [0.7..1.3], undecided: in turns it is 0.9 % slower [0.7..1.1], "
        "no more than that run's noise floor of 1.2 %"
    )
    cleared = with_turns(found, "last", turns(Verdict.SAME, 0.998, floor=0.012))
    assert (cleared.change, "within 1.2 %" in cleared.sentence()) == (Change.SAME, True)


@pytest.mark.parametrize(
    "run", [turns(Verdict.UNDECIDED), turns(Verdict.SLOWER, state=State.TIMEOUT_TOTAL)], ids=["undecided", "failed"]
)
def test_turns_that_decide_nothing_call_nothing_a_regression(run: Reading) -> None:
    after = with_turns(last(night(25, rung=0.516, code="d" * 64), night(21)), "last", run)
    assert after.change is Change.UNDECIDED
    assert "the turns did not decide it" in after.sentence()
    assert to_turn([after]) == [], "once is enough"


def test_the_same_code_needs_no_turns_and_the_sentence_says_where_to_look() -> None:
    found = last(night(25, rung=0.55, there={**HERE, "host": "two"}), night(21))
    assert (found.change, to_turn([found])) == (Change.WORSE, [])
    assert found.sentence().endswith(
        "and it cannot be the code, which is the same: host: one then, two now; "
        "look at driver, clocks and machine first"
    )
    edited = last(night(25, rung=0.55, code="d" * 64), night(21))
    assert edited.sentence().endswith("], not measured in turns; look first: the source of optimized changed")


def test_turns_against_a_run_that_the_row_is_not_held_to_are_refused() -> None:
    with pytest.raises(ValueError, match="not held against a 'last' run"):
        with_turns(last(night(21)), "last", turns(Verdict.SAME))
    with pytest.raises(ValueError, match="one of last, best"):
        with_turns(last(night(21), night(20)), "first", turns(Verdict.SAME))


def test_causes_stand_in_the_order_in_which_to_look_at_them() -> None:
    there = {**HERE, "host": "two", "versions": {**HERE["versions"], "python": "3.13"}}  # type: ignore[dict-item]
    now = night(21, code="d" * 64, there=there, manifest={"contract": {"name": "nightly", "sha256": "ab" * 32}})
    found = last(now, night(20)).last
    assert found is not None
    assert [cause(one) for one in found.causes] == [Cause.VERSIONS, Cause.CODE, Cause.INPUTS, Cause.MACHINE]
    prose = last(night(21, manifest={"code": "c" * 64 + "b" * 64}, snapshot="f" * 64), night(20)).last
    assert prose is not None
    assert (prose.causes, prose.same_code) == ((), True), "another lesson text is no other code"
    helper = last(night(21, manifest={"code": "e" * 64}), night(20)).last
    assert helper is not None
    assert ([one.what for one in helper.causes], helper.same_code) == (["code of other files"], False)


# -- the best of many --------------------------------------------------------------------------------------------------


def test_the_best_of_unchanged_code_is_taken_for_no_better_than_all_of_it() -> None:
    times = [0.500, 0.503, 0.497, 0.502, 0.495, 0.501, 0.499, 0.504]
    past = [night(20 - number, rung=time, within=0.01) for number, time in enumerate(times)]
    found = row(TARGET, [night(25, rung=0.5005, within=0.01), *past])
    assert found.best is not None
    assert found.best.earlier.run.record.arms[1].median_ms == 0.495
    mean = math.exp(math.fsum(map(math.log, times)) / len(times))
    assert found.best.ratio == pytest.approx(mean / 0.5005, rel=1e-6), "luck is taken off whole"
    assert found.best.luck == pytest.approx(1 - 0.495 / mean, rel=1e-3)
    assert found.best.best_of == 8
    assert found.outcome is not Change.WORSE


def test_a_run_that_was_truly_better_stays_the_best_and_a_slow_creep_is_worse_than_it() -> None:
    times = [0.5 * 1.004**number for number in range(10)]  # 0.4 % a night: under every night's floor
    sides = [night(10 + number, rung=time, code=f"{number:064x}") for number, time in enumerate(times)]
    (found,) = corrected([row(TARGET, sides[::-1])])
    assert found.last is not None
    assert found.last.change is Change.SAME
    assert found.best is not None
    assert found.best.earlier.run.id.endswith("10")
    assert (found.change, found.outcome) == (Change.SAME, Change.WORSE)
    assert turns_wanted(found) == ("best",)
    confirmed = with_turns(found, "best", turns(Verdict.SLOWER, 1 / 1.036))
    assert confirmed.sentence() == (
        "3.6 % slower than the best of 9, on 10 Nov [3.4..3.8], confirmed in turns: the source of optimized changed"
    )
    refuted = with_turns(found, "best", turns(Verdict.SAME, 1.0))
    assert (refuted.outcome, refuted.last) == (Change.SAME, found.last)


def test_what_unchanged_code_differed_by_before_is_in_the_interval() -> None:
    """Intervals of 0.2 % and nights that differ by 2 %, of the same code: something else is at work."""
    times = [0.50, 0.51, 0.495, 0.505, 0.49]
    past = [night(20 - number, rung=time) for number, time in enumerate(times)]
    found = row(TARGET, [night(21, rung=0.512, code="d" * 64), *past])
    assert found.change is Change.UNDECIDED
    assert last(night(21, rung=0.512, code="d" * 64), past[0]).change is Change.WORSE, "of which one run knows nothing"


def test_many_nights_of_unchanged_code_are_believed_over_wide_intervals() -> None:
    past = [night(20 - number, rung=0.5 * (1 + 0.0005 * (-1) ** number), within=0.05) for number in range(12)]
    steady = row(TARGET, [night(21, rung=0.5, within=0.05), *past])
    assert steady.change is Change.SAME
    assert last(night(21, rung=0.5, within=0.05), past[0]).change is Change.UNDECIDED


# -- many targets ------------------------------------------------------------------------------------------------------


def test_one_lucky_row_among_many_is_undecided_and_a_sure_one_stays() -> None:
    idle = [last(night(21), night(20)) for _ in range(30)]
    idle = [replace(one, target=f"idle{number}") for number, one in enumerate(idle)]
    lucky = replace(last(night(21, rung=0.5042), night(20)), target="lucky")
    sure = replace(last(night(21, rung=0.55), night(20)), target="sure")
    assert (lucky.change, sure.change) == (Change.WORSE, Change.WORSE)
    found = {one.target: one for one in corrected([*idle, lucky, sure])}
    assert (found["lucky"].change, found["sure"].change) == (Change.UNDECIDED, Change.WORSE)
    assert found["lucky"].last is not None
    assert "does not stand among 32 comparisons (Benjamini-Hochberg, 5%)" in found["lucky"].last.reason
    assert corrected([lucky]) == [lucky]
    assert corrected([]) == []


def test_what_was_measured_in_turns_is_not_taken_back() -> None:
    idle = [replace(last(night(21), night(20)), target=f"idle{number}") for number in range(30)]
    found = with_turns(
        last(night(21, rung=0.505, code="d" * 64, within=0.01), night(20)), "last", turns(Verdict.SLOWER)
    )
    assert corrected([*idle, found])[-1].change is Change.WORSE


# -- history -----------------------------------------------------------------------------------------------------------


def test_points_go_from_the_oldest_run_to_the_present_one() -> None:
    found = last(night(21, rung=0.4), night(20), night(19, base=1.2))
    assert [(point.run_id[-2:], point.median_ms, point.speedup) for point in found.past] == [
        ("19", 0.5, pytest.approx(2.4)),
        ("20", 0.5, pytest.approx(2.0)),
        ("21", 0.4, pytest.approx(2.5)),
    ]
    assert {point.rung for point in found.past} == {"optimized"}


def test_the_hour_is_told_for_the_same_day_and_the_year_for_another() -> None:
    def at(wall: str, **changes: Any) -> Side:
        one = night(20, **changes)
        return Side(Reading(replace(one.run.record, wall=wall)), one.environment, one.sm_clock_mhz)

    present = night(21, rung=0.4)
    assert " than on 21 Nov 01:30 UTC [" in last(present, at("2026-11-21T02:30:00+01:00")).sentence()
    assert " than on 3 Dec 2025 [" in last(present, at("2025-12-03T02:30:00+00:00")).sentence()


def test_a_run_without_any_environment_is_comparable_with_none() -> None:
    bare: Run = night(20).run.record
    found = last(night(21), side(Reading(bare), {}))
    assert found.change is Change.NOT_COMPARABLE
    assert found.last is not None
    assert found.last.reason == "machine: unknown then, known now"
