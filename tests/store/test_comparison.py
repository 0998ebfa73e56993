"""What the ratio of two runs may claim, and in what they are said to differ: rules alone, without a store."""

from __future__ import annotations

from typing import Any

import pytest

from aisp.store.outcomes import FindingStatus, State, Timing, Verdict
from aisp.store.record import Run
from aisp.store.results.comparison import Compared, Pair, Side, compare, side
from aisp.store.results.reading import Reading
from tests.replacing import replace
from tests.store.examples import finding, finished, planned

HERE = {"host": "one", "gpu": "H100", "driver": "580", "torch": "2.13"}


def run(*, floor: float | None = 0.01, arms: dict[str, dict[str, Any]] | None = None, **changes: Any) -> Run:
    """A good run of a baseline of 1 ms and an optimized rung of 0.5 ms, each with 1 % around."""
    began = {name: changes.pop(name) for name in ("target", "quick", "manifest", "snapshot") if name in changes}
    end = finished(planned(**began), **changes)
    default = {"timing": Timing.COLD, "sm_clock_mhz": 1980.0}
    timed = []
    for arm in end.arms:
        more = {**default, **(arms or {}).get(arm.rung, {})}
        median_ms = more.pop("median_ms", arm.median_ms)
        timed.append(replace(arm, median_ms=median_ms, low_ms=0.99 * median_ms, high_ms=1.01 * median_ms, **more))
    return replace(end, arms=tuple(timed), comparisons=tuple(replace(c, floor=floor) for c in end.comparisons))


def compared(a: Run, b: Run, *, there: dict[str, object] | None = None) -> Compared:
    return compare(side(Reading(a), HERE), side(Reading(b), there or HERE))


def pair(found: Compared, rung: str = "optimized") -> Pair:
    return next(one for one in found.pairs if one.rung == rung)


def optimized(median_ms: float, **more: Any) -> dict[str, dict[str, Any]]:
    return {"optimized": {"median_ms": median_ms, **more}}


def test_the_interval_is_the_widest_that_both_allow_and_must_clear_the_larger_floor() -> None:
    found = pair(compared(run(), run(arms=optimized(0.4), floor=0.02)))
    assert found.speedup == pytest.approx(1.25)
    assert (found.low, found.high) == (pytest.approx(0.495 / 0.404), pytest.approx(0.505 / 0.396))
    assert (found.floor, found.verdict) == (0.02, Verdict.FASTER)
    noisy = pair(compared(run(), run(arms=optimized(0.4), floor=0.3)))
    assert noisy.verdict is Verdict.UNDECIDED
    assert pair(compared(run(), run(arms=optimized(0.4), floor=None))).verdict is Verdict.UNDECIDED


SAME_FILE = {"sources": "ab" * 32}


def test_what_the_same_baseline_differs_by_is_what_no_rung_may_be_said_to_gain() -> None:
    a = run(arms={"baseline": SAME_FILE})
    b = run(arms={"baseline": {"median_ms": 0.9, **SAME_FILE}, **optimized(0.46)})
    found = compared(a, b)
    assert pair(found).floor == pytest.approx(1 / 0.9 - 1)
    assert pair(found).verdict is Verdict.UNDECIDED
    assert pair(found).note == "the baseline, the same code in both, differs by 11.1%: so do the two sittings"
    assert pair(found, "baseline").verdict is Verdict.UNDECIDED, "the same code is not faster than itself"
    clear = run(arms={"baseline": {"median_ms": 0.9, **SAME_FILE}, **optimized(0.2)})
    assert pair(compared(a, clear)).verdict is Verdict.FASTER
    other_code = run(arms={"baseline": {"median_ms": 0.9, "sources": "cd" * 32}, **optimized(0.46)})
    assert pair(compared(a, other_code)).verdict is Verdict.FASTER, "then it is no control"


def test_where_clocks_differ_there_is_no_verdict_and_the_ratio_of_cycles_too() -> None:
    slow = {"sm_clock_mhz": 990.0}
    found = compared(run(), run(arms={"baseline": {"median_ms": 2.0, **slow}, **optimized(1.0, **slow)}))
    assert found.refused and "SM clock" in found.conclusion
    told = pair(found)
    assert (told.speedup, told.cycles, told.verdict) == (pytest.approx(0.5), pytest.approx(1.0), Verdict.NONE)
    assert told.note == "clocks differ: 1980 and 990 MHz"
    assert (told.cycles_low, told.cycles_high) == (pytest.approx(0.99 / 1.01), pytest.approx(1.01 / 0.99))
    assert pair(compared(run(), run())).cycles is None


@pytest.mark.parametrize("rules", [({}, {}), ({"replicas": 2}, {"replicas": 2}), ({"replicas": 2}, {})])
def test_two_quick_runs_do_not_differ_in_mode(rules: tuple[dict[str, int], dict[str, int]]) -> None:
    a, b = (run(quick=True, manifest={"stop_rule": rule}) for rule in rules)
    found = compared(a, b)
    assert "mode" not in [one.what for one in found.differences]
    assert not found.refused
    assert found.conclusion.startswith("both runs were quick: few processes each show little")
    assert ("replicas" in [one.what for one in found.differences]) is (rules[0] != rules[1])


def test_a_quick_run_beside_a_full_one_has_no_verdict_and_says_which_is_which() -> None:
    found = compared(run(quick=True, manifest={"stop_rule": {"replicas": 2}}), run())
    (mode,) = (one for one in found.differences if one.what == "mode")
    assert (mode.a, mode.b, mode.refuses) == ("quick", "full run", True)
    assert found.conclusion == "not comparable: mode: quick and full run"


def test_times_taken_by_two_methods_are_not_comparable_and_those_of_before_are_of_the_first() -> None:
    old, first, second = (run(manifest={"stop_rule": rule}) for rule in ({}, {"method": 1}, {"method": 2}))
    assert not compared(old, first).refused
    found = compared(first, second)
    (method,) = (one for one in found.differences if one.what == "timing method")
    assert (method.a, method.b, method.refuses) == (1, 2, True)
    assert all(one.verdict is Verdict.NONE for one in found.pairs)
    assert found.conclusion.startswith("not comparable: timing method: 1 and 2")


def test_a_run_of_another_machine_has_ratios_what_differs_and_no_verdict() -> None:
    there = {"host": "two", "gpu": "H200", "driver": "590", "torch": "2.14"}
    found = compared(run(), run(arms=optimized(0.25)), there=there)
    assert [(one.what, one.refuses) for one in found.differences] == [
        ("gpu", True),
        ("driver", True),
        ("host", True),
        ("torch", False),
    ]
    assert (pair(found).speedup, pair(found).verdict) == (pytest.approx(2.0), Verdict.NONE)
    assert found.conclusion == "not comparable: GPU: H100 and H200, and 2 more differences"
    assert set(pair(found).claims().values()) == {None}, "a document has no figure that reads like a verdict"


@pytest.mark.parametrize(
    ("there", "changes", "first"),
    [
        ({"gpu": "H200", "driver": "590"}, {"clock": 1500.0}, "GPU: H100 and H200, and 2 more differences"),
        ({"driver": "590"}, {"clock": 1500.0}, "driver: 580 and 590, and 1 more difference"),
        ({"host": "two"}, {"clock": 1500.0}, "SM clock: 1980 MHz and 1500 MHz, and 1 more difference"),
        ({"host": "two"}, {}, "host: one and two"),
        ({"gpu": "H200"}, {"target": "timing:other"}, "target: ch07:transpose and timing:other, and 1 more difference"),
        ({"driver": ""}, {"quick": True}, "driver: 580 and unknown, and 1 more difference"),
        ({"gpu\x1b": "t\x1bwo"}, {}, "gpu\u241b: unknown and t\u241bwo"),
    ],
)
def test_the_one_thing_to_look_at_first_is_told_with_its_two_values(
    there: dict[str, object], changes: dict[str, Any], first: str
) -> None:
    clock = changes.pop("clock", 1980.0)
    arms = {name: {"sm_clock_mhz": clock} for name in ("baseline", "optimized")}
    found = compared(run(device="cuda"), run(device="cuda", arms=arms, **changes), there={**HERE, **there})
    assert found.conclusion == f"not comparable: {first}"


def test_of_two_runs_on_cpus_the_cpu_comes_before_a_gpu_beside_it() -> None:
    a, b = ({**HERE, "cpu": cpu, "gpu": gpu} for cpu, gpu in (("Xeon", "H100"), ("EPYC", "H200")))
    found = compare(*(side(Reading(run(device="cpu")), where) for where in (a, b)))
    assert found.conclusion == "not comparable: CPU: Xeon and EPYC, and 1 more difference"


def test_both_runs_without_a_result_are_not_told_twice() -> None:
    failed = run(state=State.TIMEOUT_TOTAL, reason="too long")
    assert compared(failed, failed).conclusion == "not comparable: outcome: timeout_total in both"


def test_other_sources_are_told_and_refuse_nothing() -> None:
    found = compared(run(snapshot="ab" * 32), run(snapshot="cd" * 32))
    assert [(one.what, one.a, one.b, one.refuses) for one in found.differences] == [
        ("sources", "abababab", "cdcdcdcd", False)
    ]


def test_of_two_targets_the_leads_stand_first_whatever_they_are_called() -> None:
    a = run()
    b = run(target="timing:other")
    b = replace(
        b,
        arms=tuple(replace(arm, rung="optimized_wide") if arm.rung == "optimized" else arm for arm in b.arms),
        comparisons=tuple(replace(one, rung="optimized_wide") for one in b.comparisons),
    )
    found = compared(a, b)
    assert [one.rung for one in found.pairs] == [
        "optimized / optimized_wide",
        "baseline",
        "optimized",
        "optimized_wide",
    ]
    assert found.pairs[0].speedup == pytest.approx(1.0)
    assert found.refused and "target" in found.conclusion


def test_checks_that_came_out_otherwise_are_told_the_gravest_first() -> None:
    a = run(
        findings=(
            finding("memory.margins", "optimized"),
            finding("timing.two_clocks", "optimized", "unavailable", "no GPU"),
            finding("statistical.steady", "", "suspect", "5 %"),
            finding("compile.mode", "baseline"),
            finding("environment.comparable", "", "not_applicable", "the first run"),
        )
    )
    b = run(
        findings=(
            finding("memory.margins", "optimized", "suspect", "it wrote beside y"),
            finding("timing.two_clocks", "optimized"),
            finding("compile.mode", "baseline"),
            finding("compile.mode", "optimized_new"),
            finding("environment.comparable"),
        )
    )
    told = [(turn.check, turn.arm, turn.a, turn.b, turn.evidence) for turn in compared(a, b).turns]
    passed, suspect, unavailable = FindingStatus.PASSED, FindingStatus.SUSPECT, FindingStatus.UNAVAILABLE
    assert told == [
        ("memory.margins", "optimized", passed, suspect, "it wrote beside y"),
        ("statistical.steady", "", suspect, None, "5 %"),
        ("timing.two_clocks", "optimized", unavailable, passed, "no GPU"),
    ]


def test_it_is_told_in_which_run_no_check_has_said_anything() -> None:
    asked, silent = run(findings=(finding("memory.margins", "optimized"),)), run(findings=())
    pairs = [(asked, asked), (asked, silent), (silent, asked), (silent, silent)]
    assert [compared(*pair).unasked for pair in pairs] == ["", "B", "A", "either"]


def test_a_clock_is_taken_during_the_samples_else_from_the_drivers_readings() -> None:
    with_clock, without = run(), run(arms={name: {"sm_clock_mhz": None} for name in ("baseline", "optimized")})
    readings = [1500.0, float("nan"), 1600.0, 1700.0]
    found: list[Side] = [side(Reading(one), HERE, readings) for one in (with_clock, without)]
    assert [one.sm_clock_mhz for one in found] == [1980.0, 1600.0]
    assert side(Reading(without), HERE).sm_clock_mhz is None
