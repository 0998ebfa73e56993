"""The rules of store.results, one by one, and the SQL of the store held against them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from aisp.kernels.catalog.model import Case, Expectation, Flag, Goal, Target, TensorSpec
from aisp.store import History, Store
from aisp.store.outcomes import Correctness, Held, State, Timing, Validity, Verdict
from aisp.store.record import Arm, Comparison, Quality, Run
from aisp.store.results import edits, evidence, hardware, prediction, roofline, standing, telling
from aisp.store.results.prediction import Says
from aisp.store.results.reading import Reading
from tests.replacing import replace
from tests.store.examples import caught, examined, finding, finished, planned
from tests.tui.app_support import write_target

H100 = {"gpu": "NVIDIA H100 80GB HBM3"}


def arm(rung: str, median_ms: float | None = None, peak_bytes: int | None = None) -> Arm:
    if median_ms is None:
        return Arm(rung, State.UNAVAILABLE, reason="needs sm_100")
    times = {"median_ms": median_ms, "low_ms": 0.99 * median_ms, "high_ms": 1.01 * median_ms}
    right: dict[str, Any] = {"correctness": Correctness.CORRECT, "timing": Timing.COLD, "sample_count": 9}
    return Arm(rung, State.OK, peak_bytes=peak_bytes, **times, **right)


def ratio(rung: str, speedup: float | None, baseline: str = "baseline", verdict: Verdict = Verdict.UNDECIDED) -> Any:
    if speedup is None:
        return Comparison(rung, baseline, Verdict.NONE)
    return Comparison(rung, baseline, verdict, speedup, speedup * 0.99, speedup * 1.01)


# -- the rung that a run is about --------------------------------------------------------------------------------------

BASE = arm("baseline", 1.0)
ONE, TWO = "optimized", "optimized_b"


@pytest.mark.parametrize(
    ("arms", "comparisons", "hidden", "leads"),
    [
        # the greatest paired speed-up, also beside a lesser median
        ([BASE, arm(ONE, 0.5), arm(TWO, 0.51)], [(ONE, 1.9), (TWO, 2.0)], (), TWO),
        # ties by the rung's order
        ([BASE, arm(ONE, 0.5), arm(TWO, 0.4)], [(TWO, 2.0), (ONE, 2.0)], (), ONE),
        # one that was compared goes before one that was not
        ([BASE, arm(ONE, 0.5), arm(TWO, 0.1)], [(ONE, 2.0), (TWO, None)], (), ONE),
        # where none was compared, the least median
        ([BASE, arm(ONE, 0.5), arm(TWO, 0.4)], [], (), TWO),
        ([BASE, arm(ONE, 0.5), arm(TWO, 0.5)], [], (), ONE),
        # figures that may not be shown lead nowhere, nor do those against a baseline whose figures may not
        ([BASE, arm(ONE, 0.5), arm(TWO, 0.6)], [(ONE, 2.0), (TWO, 1.7)], (ONE,), TWO),
        ([BASE, arm(ONE, 0.5), arm(TWO, 0.4)], [(ONE, 3.0), (TWO, 2.0)], ("baseline",), TWO),
        ([BASE, arm(ONE, 0.5), arm(TWO, 0.4)], [(TWO, 2.0)], ("",), ONE),
        # without any figure the first
        ([BASE, arm(ONE), arm(TWO)], [], (), ONE),
        # what a run is about where nothing is optimized; never what must be refused, never the A/A arm
        ([BASE, arm("peer_lib", 0.1), arm("honest", 0.9)], [("peer_lib", 9.0), ("honest", 1.1)], (), "honest"),
        ([BASE, arm("peer_lib", 0.7), arm("cheat", 0.1)], [("peer_lib", 1.4), ("cheat", 10.0)], (), "peer_lib"),
        ([BASE, arm("baseline (A/A)", 0.9)], [("baseline (A/A)", 1.1)], (), "baseline"),
        ([], [], (), None),
    ],
)  # fmt: skip
def test_the_lead_of_a_run(
    arms: Sequence[Arm], comparisons: Sequence[tuple[str, float | None]], hidden: Sequence[str], leads: str | None
) -> None:
    found = standing.lead(arms, [ratio(*pair) for pair in comparisons], hidden)
    assert (found.rung if found else None) == leads


def test_the_runs_verdict_is_that_of_its_lead_against_the_first_baseline_where_that_is_optimized() -> None:
    arms = [BASE, *(arm(rung, 0.5) for rung in ("baseline_other", "optimized", "optimized_late", "peer_lib"))]
    found = [
        ratio("optimized", 0.5, verdict=Verdict.SLOWER),
        ratio("optimized_late", 1.0, verdict=Verdict.SAME),
        ratio("optimized_late", 3.0, baseline="baseline_other", verdict=Verdict.FASTER),
        ratio("peer_lib", 9.0, verdict=Verdict.FASTER),
    ]
    assert standing.verdict(arms, found) is Verdict.SAME
    assert standing.verdict(arms, found[:1]) is Verdict.SLOWER
    assert standing.verdict(arms, found[2:]) is Verdict.NONE
    assert standing.verdict(arms, [ratio("optimized", None)]) is Verdict.NONE
    assert standing.verdict([], []) is Verdict.NONE
    headline = standing.headline(arms, found)
    assert headline is not None and (headline.rung, headline.baseline) == ("optimized_late", "baseline")
    assert standing.headline([BASE, arm("cheat", 0.1)], [ratio("cheat", 10.0)]) == ratio("cheat", 10.0)


# -- the last result ---------------------------------------------------------------------------------------------------


def ended(state: State, arms: Sequence[Arm] = (), target: str = "ch07:transpose") -> Run:
    correct = {State.OK: Correctness.CORRECT, State.INCORRECT: Correctness.WRONG}.get(state, Correctness.UNKNOWN)
    reason = "" if state is State.OK else "as the test wants it"
    return replace(planned(target), state=state, correctness=correct, reason=reason, arms=tuple(arms))


JUDGED = replace(arm("optimized"), state=State.CANCELLED, correctness=Correctness.CORRECT)
WRONG = replace(arm("optimized"), state=State.INCORRECT, correctness=Correctness.WRONG)
PARTS: dict[str, tuple[Arm, ...]] = {
    "none": (),
    "nothing": (arm("baseline"), arm("optimized")),
    "judged": (arm("baseline"), JUDGED),
    "wrong": (arm("baseline"), WRONG),
    "timed": (BASE, arm("optimized")),
}
FINAL = [state for state in State if state.final and state.stored]


@pytest.mark.parametrize(
    ("state", "parts", "expected"),
    [
        (State.UNAVAILABLE, "none", False),
        (State.UNAVAILABLE, "nothing", False),
        (State.INFRA_ERROR, "nothing", False),
        (State.INFRA_ERROR, "judged", True),
        (State.INFRA_ERROR, "wrong", True),
        (State.INFRA_ERROR, "timed", True),
        (State.CANCELLED, "none", False),
        (State.CANCELLED, "timed", False),  # cut short
        (State.ENGINE_LOST, "wrong", False),
        (State.OK, "timed", True),
        (State.INCORRECT, "wrong", True),
        (State.USER_ERROR, "nothing", True),  # a fault of the target's own
        (State.TIMEOUT_PROGRESS, "none", True),
    ],
)
def test_a_result_says_something_of_its_target(state: State, parts: str, expected: bool) -> None:
    assert standing.is_result(ended(state, PARTS[parts])) is expected


def test_the_last_result_stays_whatever_was_tried_since_and_the_newest_attempt_is_told() -> None:
    wrong, result = ended(State.INCORRECT), finished(planned())
    first, second, going = ended(State.UNAVAILABLE), ended(State.CANCELLED), planned()
    assert standing.last([wrong, result, first, second, going]) == (result, second)
    assert standing.last([first, wrong]) == (wrong, None)
    assert standing.last([first]) == (None, first)
    assert standing.last([going]) == (None, None)


@pytest.mark.slow
def test_the_stores_sql_says_what_the_rule_says(tmp_path: Path) -> None:
    """Every end with every kind of part, alone and after every other kind of run."""
    stories = [[ended(state, PARTS[parts])] for state, parts in product(FINAL, PARTS) if _possible(state, parts)]
    stories += [[finished(planned()), *story] for story in stories]
    stories += [[*story[:1], ended(State.UNAVAILABLE), planned()] for story in stories]
    with Store.open(tmp_path / "aisp.db") as store:
        for number, story in enumerate(stories):
            story[:] = [replace(run, id=planned().id, target=f"ch:{number:03d}") for run in story]
            for run in story:
                store.plan([replace(planned(run.target), id=run.id)])
                if run.state.final:
                    store.finish(run, {})
        with History(store.path) as history:
            board, attempts = history.board(), history.attempts()
            names = [story[0].target for story in stories[::2]]
            few = [history.board(names), history.attempts(names)]
            assert few == [{name: known[name] for name in names if name in known} for known in (board, attempts)]
            assert [history.last_result(name) for name in names] == [
                few[0][name].id if name in few[0] else "" for name in names
            ]
    for story in stories:
        result, attempt = standing.last(story)
        found = board.get(story[0].target), attempts.get(story[0].target)
        assert [run.id if run else None for run in found] == [run.id if run else None for run in (result, attempt)]


def _possible(state: State, parts: str) -> bool:
    return not (state is State.OK and parts in ("nothing", "judged", "wrong"))


# -- predictions -------------------------------------------------------------------------------------------------------


@pytest.fixture
def target(tmp_path: Path) -> Target:
    cases = (Case("default", {"M": 8}), Case("cpu", {"M": 4}))
    return write_target(tmp_path, "ch07", "transpose", cases=cases, expect=Expectation((1.5, 3.0), "H100", "why"))


def say(target: Target, *runs: Run, quarantined: bool = False, **facts: object) -> prediction.Answer:
    return prediction.answer(runs, target, lambda run: facts or H100, quarantined=quarantined)


def test_a_prediction_is_answered_by_the_newest_run_that_may(target: Target) -> None:
    good = finished(planned())
    assert say(target).says is Says.NOTHING
    assert say(target, good) == prediction.Answer(
        Says.MET, good, prediction.Measured("optimized", 2.0, 1.96, 2.04, None, Verdict.FASTER), H100["gpu"]
    )
    passed_over = [
        ended(State.USER_ERROR),
        finished(planned(case="large"), speedup=9.0),
        finished(planned(device="cpu", case="cpu"), speedup=9.0),
        finished(planned(manifest={"validity": "portable"}), speedup=9.0),
    ]
    assert say(target, *passed_over, good).run is good
    assert [say(target, run).says for run in passed_over] == [
        Says.NOTHING, Says.NOTHING, Says.ELSEWHERE, Says.PORTABLE
    ]  # fmt: skip
    assert say(target, finished(planned(), speedup=1.2), good).met is False
    suspect = finished(planned(), validity=Validity.SUSPECT, verdict=Verdict.NONE)
    assert (say(target, suspect, good).says, say(target, suspect, good).met) == (Says.DOUBTED, None)
    assert say(target, good, gpu="NVIDIA H200").says is Says.ELSEWHERE
    assert (say(target, good, quarantined=True).says, say(target, quarantined=True).met) == (Says.QUARANTINED, None)


def test_a_run_of_some_rungs_answers_nothing_where_the_prediction_speaks_of_the_best_of_all(target: Target) -> None:
    (plain,) = (rung for rung in target.rungs if rung.name == "optimized")
    more = replace(target, rungs=(*target.rungs, replace(plain, name="optimized_more")))
    some = finished(planned(), speedup=1.2)
    found = say(more, some)
    assert (found.says, found.met, found.run) == (Says.SOME_RUNGS, None, some)
    arms = (arm("baseline", 1.0), arm("optimized", 0.9), arm("optimized_more", 0.5))
    every = finished(planned(), arms=arms, comparisons=(ratio("optimized", 1.1), ratio("optimized_more", 2.0)))
    assert (say(more, some, every).says, say(more, some, every).measured.rung) == (Says.MET, "optimized_more")
    renamed = replace(more, rungs=(*target.rungs, replace(plain, name="optimized_best", formerly="optimized_more")))
    assert say(renamed, every).says is Says.MET
    null = replace(more, goal=Goal.NULL, expect=Expectation((0.9, 1.1), "H100", "why"))
    assert say(null, finished(planned(), speedup=1.05)).says is Says.MET, "it speaks of `optimized` itself"


def test_a_prediction_for_the_host_of_a_gpu_is_met_on_the_cpu_beside_it(target: Target) -> None:
    inputs = (TensorSpec("x", "float32", ("N",), "normal", (), frozenset({Flag.CPU})),)
    host = replace(target, inputs=inputs, expect=Expectation((1.0, 3.0), "the host of an H100", "why"))
    run = finished(planned(device="cpu", case="default"))
    assert say(host, run).says is Says.MET
    assert say(host, run, cpu="AMD EPYC").says is Says.ELSEWHERE


def test_a_prediction_of_memory_is_held_against_the_leanest_rung_and_not_the_fastest(target: Target) -> None:
    lean = replace(target, goal=Goal.MEMORY, expect=Expectation((0.5, 1.5), "H100", "why", (3.0, 10.0)))
    arms = (arm("baseline", 1.0, 800), arm("optimized", 0.5, 700), arm("optimized_lean", 1.25, 100))
    run = finished(planned(), arms=arms, comparisons=(ratio("optimized", 2.0), ratio("optimized_lean", 0.8)))
    found = say(lean, run)
    assert (found.says, found.measured.rung, found.measured.memory) == (Says.MET, "optimized_lean", 8.0)
    unknown = replace(run, arms=(arm("baseline", 1.0), *arms[1:]))
    assert (say(lean, unknown).says, say(lean, unknown).met) == (Says.UNMEASURED, None)
    fast = replace(run, arms=tuple(replace(one, peak_bytes=None) for one in arms))
    assert (say(lean, fast).says, say(lean, fast).measured.rung) == (Says.UNMEASURED, "optimized")


@pytest.mark.parametrize(
    ("goal", "comparisons", "rung"),
    [
        (Goal.NULL, [("optimized", 1.0), ("optimized_otherwise", 1.7)], "optimized"),
        (Goal.SPEED, [("optimized", 1.0), ("optimized_otherwise", 1.7)], "optimized_otherwise"),
        (Goal.REFUSAL, [("baseline (A/A)", 3.0), ("baseline_a", 1.2), ("baseline_b", 2.0)], "baseline_b"),
        (Goal.SPEED, [("baseline (A/A)", 3.0), ("baseline_a", 1.2), ("baseline_b", 2.0)], ""),
    ],
)
def test_the_rung_that_a_prediction_speaks_of(goal: Goal, comparisons: list[tuple[str, float]], rung: str) -> None:
    arms = [BASE, *(arm(name, 1.0) for name, _ in comparisons)]
    assert prediction.measured(arms, [ratio(*pair) for pair in comparisons], goal).rung == rung


def test_a_caught_rung_answers_no_prediction(target: Target) -> None:
    caught = finding("timing.wall_clock", "optimized_b", "caught")
    arms = (BASE, arm("optimized", 0.5), arm("optimized_b", 0.4))
    run = finished(planned(), arms=arms, comparisons=(ratio("optimized", 2.0), ratio("optimized_b", None)))
    assert say(target, replace(run, findings=(caught,))).measured.rung == "optimized"


OUTSIDE, INSIDE = Quality(outside_ms=0.5, outside_error=0.01), Quality(inside="no room")


@pytest.mark.parametrize(
    ("baseline", "optimized", "words"),
    [
        (None, OUTSIDE, ""),
        (Quality(), OUTSIDE, ""),
        (OUTSIDE, OUTSIDE, "judged outside"),
        (INSIDE, INSIDE, "judged inside (no room)"),
        (OUTSIDE, INSIDE, "optimized judged inside (no room)"),
        (Quality(inside="late"), INSIDE, "optimized judged inside (no room); baseline judged inside (late)"),
    ],
)
def test_where_a_comparison_was_judged_stands_beside_its_verdict(
    baseline: Quality | None, optimized: Quality | None, words: str
) -> None:
    arms = (replace(BASE, quality=baseline), replace(arm("optimized", 0.5), quality=optimized))
    run = Reading(finished(planned(), arms=arms, comparisons=(ratio("optimized", 2.0),)))
    assert run.judged(run.comparisons[0]) == words
    assert telling.line(run, {}).count("judged") == words.count("judged") and words in telling.line(run, {})
    assert evidence.of_run(run).judged == words


@pytest.mark.parametrize(
    ("facts", "line"),
    [
        ({}, ""),
        ({"confined": "files"}, ""),
        ({"confined": []}, "not confined: its processes could reach whatever this account can"),
        ({"confined": ["reading", "files", "later"]}, "confined: files, reading; not network, signals, scheduling"),
        ({"confined": list(Held)}, "confined: files, reading, network, signals, scheduling"),
    ],
)
def test_what_a_run_was_held_from_is_said_and_what_not(facts: dict[str, object], line: str) -> None:
    assert hardware.confined(facts) == line
    assert evidence.of_run(Reading(finished(planned())), facts=facts).confined == line


@pytest.mark.parametrize(
    ("on", "names", "expected"),
    [
        ("H100", ["NVIDIA H100 80GB HBM3", "cuda"], True),
        ("H100", ["NVIDIA H200", "cuda"], False),
        ("the host of an H100", ["AMD EPYC", "cpu", "NVIDIA H100 80GB HBM3"], True),
        ("the host of an H100", ["AMD EPYC", "cpu", ""], False),
        ("CPU", ["a CPU", "cpu"], True),
    ],
)
def test_predicted_hardware_is_told_from_other_hardware(on: str, names: list[str], expected: bool) -> None:
    assert hardware.is_meant(on, names) is expected


# -- edits -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("state", "validity", "lead", "hidden", "believed"),
    [
        (State.OK, Validity.VALID, BASE, (), True),
        (State.RUNNING, Validity.UNKNOWN, BASE, (), True),
        (State.OK, Validity.SUSPECT, BASE, (), False),
        (State.OK, Validity.CAUGHT, BASE, (), False),
        (State.USER_ERROR, Validity.UNKNOWN, BASE, (), False),
        (State.OK, Validity.VALID, BASE, ("baseline",), False),
        (State.OK, Validity.VALID, BASE, ("",), False),
        (State.OK, Validity.VALID, arm("optimized"), (), False),
        (State.OK, Validity.VALID, None, (), False),
    ],
)
def test_the_time_of_an_edit_is_its_leads_where_that_may_be_believed(
    state: State, validity: Validity, lead: Arm | None, hidden: tuple[str, ...], believed: bool
) -> None:
    assert edits.believed(state, validity, lead, hidden) is (lead if believed else None)


def test_the_best_edit_is_the_first_with_the_shortest_time_and_a_change_needs_intervals_apart() -> None:
    slow, fast, near = arm("optimized", 1.0), arm("optimized", 0.5), arm("optimized", 0.505)
    assert edits.best([(0, slow), (1, None), (2, fast), (3, fast)]) == 2
    assert edits.best([(0, None)]) is None
    assert edits.change(fast, slow) == edits.Change(-0.5, apart=True)
    assert edits.change(near, fast) == edits.Change(pytest.approx(0.01), apart=False)
    assert edits.change(fast, None) is None
    assert edits.change(replace(fast, high_ms=None), slow) == edits.Change(-0.5, apart=False)


def test_no_roof_stands_over_a_rung_that_was_caught_and_none_over_the_arm_against_itself() -> None:
    honest, cheating = Reading(examined(planned())), Reading(caught(planned()))
    assert [arm.rung for arm in roofline.timed(honest)] == ["baseline", "optimized"]
    assert [arm.rung for arm in roofline.timed(cheating)] == ["baseline"]
    records = [replace(run, device=device) for device in ("cpu", "cuda") for run in (honest.record, cheating.record)]
    found = roofline.newest(records, Reading)
    assert found is not None and found.record is records[2]


def test_an_edit_is_told_against_the_last_one_before_it_whose_time_is_believed() -> None:
    first, second, third = (arm("optimized", ms) for ms in (0.5, 0.6, 0.4))
    found = edits.before_each([first, None, second, None, third])
    assert found == [None, first, first, second, second]


def test_an_edits_ratio_is_shown_only_with_a_time_that_is_believed() -> None:
    honest, cheating = Reading(examined(planned())), Reading(caught(planned()))
    found = edits.against_baseline(honest)
    assert found is not None and (found.rung, found.baseline) == ("optimized", "baseline")
    assert edits.against_baseline(cheating) is None
    doubted = replace(honest.record, validity=Validity.SUSPECT, verdict=Verdict.NONE)
    assert edits.against_baseline(Reading(doubted)) is None
    cut = replace(planned(), state=State.CANCELLED, reason="superseded by edit 4", arms=honest.record.arms)
    assert edits.against_baseline(Reading(cut)) is None
