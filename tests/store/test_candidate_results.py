"""What a run says of one candidate among others, which of them a full run is worth, and what the best of many is."""

from __future__ import annotations

import json
import math
import random
from typing import Any

import pytest

from aisp.store.outcomes import Correctness, FindingStatus, State, Timing, Validity, Verdict
from aisp.store.record import Arm, Comparison, Finding, Quality, RuleSaid, Step
from aisp.store.results import outcome
from aisp.store.results.best_of import best_of
from aisp.store.results.candidate import Outcome, luck, of_run, order, refused, worth
from aisp.store.results.outcome import Stage
from aisp.store.results.reading import Reading
from tests.replacing import replace
from tests.store.examples import planned

GOOD, BAD = "optimized_kaaaaaaaaaaaa", "optimized_kbbbbbbbbbbbb"


def right(rung: str, median_ms: float = 0.5, **changes: Any) -> Arm:
    """An arm with a time."""
    arm = Arm(rung, State.OK, Correctness.CORRECT, Timing.HOST, median_ms, median_ms, median_ms, sample_count=9)
    return replace(arm, **changes)


def ratio(rung: str = GOOD, verdict: Verdict = Verdict.FASTER) -> Comparison:
    return Comparison(rung, "baseline", verdict, 2.0, 1.9, 2.1, 0.01)


def run_of(*arms: Arm, **changes: Any) -> Reading:
    """A quick run that has ended as its worst arm did."""
    worst = next((arm.state for arm in arms if arm.state is not State.OK), State.OK)
    given: dict[str, Any] = {
        "quick": True,
        "state": worst,
        "correctness": Correctness.WRONG if worst is State.INCORRECT else Correctness.CORRECT,
        "validity": Validity.VALID,
        "reason": "" if worst is State.OK else "one of them did not end well",
        "arms": (right("baseline", 1.0), *arms),
        "comparisons": tuple(ratio(arm.rung) for arm in arms if arm.state is State.OK),
    }
    return Reading(replace(planned(), **{**given, **changes}))


def ended(state: State, correctness: Correctness = Correctness.UNKNOWN) -> Arm:
    """An arm that did not end well."""
    return Arm(BAD, state, correctness, reason=f"{BAD} did what it should not", detail="line 3")


CRASHED = Arm(BAD, State.CRASHED, signal=11, reason=f"{BAD} died of SIGSEGV")


def test_one_candidate_has_its_verdict_whatever_became_of_another() -> None:
    run = run_of(right(GOOD), CRASHED)
    assert not outcome.of_run(run).outcome.compared  # nothing is claimed of the run
    found = of_run(run, GOOD, alone=False)
    assert found == Outcome(State.OK, Stage.QUICK, Verdict.FASTER, 2.0, 1.9, 2.1, 0.01, 0.5, run_id=run.id, rung=GOOD)
    other = of_run(run, BAD, alone=False)
    assert other is not None
    assert (other.state, other.word, other.why, other.right) == (State.CRASHED, "crashed", "it died of SIGSEGV", False)


def test_a_rung_without_a_verdict_is_told_whose_suspicion_took_it() -> None:
    doubt = Finding("timing.wall_clock", BAD, FindingStatus.SUSPECT, "1 ms and 9 ms")
    run = run_of(right(GOOD), right(BAD), validity=Validity.SUSPECT, findings=(doubt,))
    assert run.why(GOOD) == f"suspect: {BAD} by timing.wall_clock"
    assert run.why(BAD) == "suspect: timing.wall_clock: 1 ms and 9 ms"
    left_out = run_of(right(GOOD), validity=Validity.SUSPECT)
    assert left_out.why(GOOD) == "suspect: checks were left out"


def test_where_a_candidate_was_judged_is_part_of_its_outcome() -> None:
    run = run_of(right(GOOD, quality=Quality(inside="no room")))
    found = of_run(run, GOOD, alone=True)
    assert found is not None and found.judged == "it judged inside (no room)"


@pytest.mark.parametrize(
    ("state", "steps", "stage"),
    [
        (State.USER_ERROR, (), Stage.LOAD),
        (State.USER_ERROR, ("compile",), Stage.LOAD),
        (State.TIMEOUT_PROGRESS, ("compile", "verify"), Stage.VALUES),
        (State.USER_ERROR, ("compile", "verify", "values"), Stage.VALUES),
        (State.OUTPUT_LIMIT, ("compile", "verify", "gate", "warm-up"), Stage.QUICK),
        (State.INCORRECT, ("compile", "verify", "warm-up"), Stage.VALUES),
    ],
)
def test_the_stage_is_the_last_that_it_came_to(state: State, steps: tuple[str, ...], stage: Stage) -> None:
    correctness = Correctness.WRONG if state is State.INCORRECT else Correctness.UNKNOWN
    arm = ended(state, correctness=correctness)
    run = run_of(arm, steps=(Step("verifier", "", 1, 1.0), *(Step(name, BAD, 1, 1.0) for name in steps)))
    found = of_run(run, BAD, alone=True)
    assert found is not None and (found.state, found.stage, found.detail) == (state, stage, "line 3")


def test_a_run_that_says_nothing_of_it_is_no_outcome() -> None:
    for state in (State.CANCELLED, State.ENGINE_LOST, State.INFRA_ERROR):
        assert of_run(run_of(ended(state)), BAD, alone=True) is None
    assert of_run(run_of(right(GOOD)), BAD, alone=True) is None
    lacking = Arm("baseline", State.UNAVAILABLE, reason="no process is started")
    assert of_run(run_of(ended(State.UNAVAILABLE), arms=(lacking, ended(State.UNAVAILABLE))), BAD, alone=True) is None
    own = of_run(run_of(right(GOOD), ended(State.UNAVAILABLE)), BAD, alone=False)
    assert own is not None and own.state is State.UNAVAILABLE  # "needs sm_90": of the rung alone
    cut = run_of(right(GOOD), state=State.TIMEOUT_TOTAL, reason="too long", comparisons=())
    assert of_run(cut, GOOD, alone=False) is None
    baseline = Finding("timing.wall_clock", "baseline", FindingStatus.CAUGHT, "0.1 ms and 9 ms")
    bent = run_of(right(GOOD), findings=(baseline,), comparisons=())
    assert of_run(bent, GOOD, alone=False) is None


def test_who_is_caught_has_no_figures_and_the_others_keep_theirs() -> None:
    caught = Finding("timing.wall_clock", BAD, FindingStatus.CAUGHT, "0.1 ms and 9 ms")
    run = run_of(right(GOOD), right(BAD), findings=(caught,), comparisons=(ratio(),), validity=Validity.CAUGHT)
    found, other = of_run(run, BAD, alone=False), of_run(run, GOOD, alone=False)
    assert found is not None and other is not None
    assert (found.word, found.check, found.speedup, found.right) == ("caught", "timing.wall_clock", None, False)
    assert (other.verdict, other.right) == (Verdict.FASTER, True)


def test_what_is_held_against_the_whole_run_is_its_doing_only_where_it_was_alone() -> None:
    whole = Finding("environment.clocks", "", FindingStatus.CAUGHT, "clocks were changed")
    run = run_of(right(GOOD), findings=(whole,), comparisons=(), validity=Validity.CAUGHT)
    assert of_run(run, GOOD, alone=False) is None
    found = of_run(run, GOOD, alone=True)
    assert found is not None and found.check == "environment.clocks"


@pytest.mark.parametrize(("arm", "verdict"), [(GOOD, Verdict.NONE), ("", Verdict.NONE), (BAD, Verdict.FASTER)])
def test_a_doubt_takes_the_verdict_of_whom_it_is_about(arm: str, verdict: Verdict) -> None:
    doubt = Finding("timing.steady", arm, FindingStatus.SUSPECT, "times rise by 40 %")
    found = of_run(run_of(right(GOOD), findings=(doubt,), validity=Validity.SUSPECT), GOOD, alone=False)
    assert found is not None and (found.verdict, found.right) == (verdict, True)
    assert ("times rise" in found.why) == (verdict is Verdict.NONE)


def test_what_was_checked_and_not_timed_is_right_and_says_so() -> None:
    untimed = right(GOOD, median_ms=None, low_ms=None, high_ms=None, timing=Timing.NONE, sample_count=0)
    found = of_run(run_of(untimed, comparisons=()), GOOD, alone=False)
    assert found is not None and (found.word, found.stage, found.right) == ("right", Stage.VALUES, True)


def test_an_outcome_is_the_same_after_it_was_written_down() -> None:
    for run, rung in ((run_of(right(GOOD)), GOOD), (run_of(CRASHED), BAD)):
        found = of_run(run, rung, alone=True)
        assert found is not None
        assert Outcome.of_document(json.loads(json.dumps(found.document()))) == found
    with pytest.raises(ValueError, match="nonsense"):
        Outcome.of_document({**refused("no").document(), "state": "nonsense"})
    with pytest.raises(ValueError, match="not in tuple"):
        Outcome.of_document({**refused("no").document(), "stage": "machine"})  # which no candidate reaches


@pytest.mark.parametrize(
    ("rule", "shared", "told"),
    [
        (RuleSaid("allclose", right=True), True, "right by its own rule too"),
        (RuleSaid("allclose", right=False, detail="3 of 9"), False, "which we do not share: 3 of 9"),
        (RuleSaid("allclose", detail="it raised"), None, "could not be asked: it raised"),
        (RuleSaid("property", right=True, alone=True), None, "judged by its own rule alone"),
    ],
)
def test_the_problems_own_rule_is_told_beside_ours(rule: RuleSaid, shared: bool | None, told: str) -> None:
    found = of_run(run_of(right(GOOD, rule=rule)), GOOD, alone=True)
    assert found is not None and (found.right, found.shared) == (True, shared)
    assert told in found.own_rule
    assert Outcome.of_document(json.loads(json.dumps(found.document()))) == found


def timed(speedup: float, low: float, high: float, verdict: Verdict = Verdict.FASTER) -> Outcome:
    return Outcome(State.OK, Stage.QUICK, verdict, speedup, low, high, 0.01)


def test_a_full_run_is_worth_it_where_the_interval_reaches_the_best() -> None:
    found = {
        1: timed(1.5, 1.45, 1.55),
        2: timed(2.0, 1.9, 2.1),
        3: timed(1.9, 1.7, 2.05),
        4: timed(1.4, 0.5, 4.0, Verdict.UNDECIDED),
        5: replace(timed(9.0, 8.0, 9.9), check="timing.wall_clock"),
        6: refused("no run"),
    }
    assert worth(found, 10) == [2, 3, 4]
    assert worth(found, 2) == [2, 3]
    assert worth(found, 0) == []
    assert worth({1: timed(0.9, 0.85, 0.95, Verdict.SLOWER)}) == []
    assert worth({}) == []
    assert [key for key, _ in sorted(found.items(), key=lambda item: order(item[1]))] == [2, 3, 1, 4, 5, 6]


def test_the_best_of_many_alike_is_taken_for_what_all_are() -> None:
    """Forty candidates of the same true speed-up 1.3, each measured to 5 %."""
    chance = random.Random(7)
    shown = [1.3 * math.exp(chance.gauss(0.0, 0.05)) for _ in range(40)]
    spread = math.exp(1.96 * 0.05)
    found = luck([timed(each, each / spread, each * spread) for each in shown])
    assert found is not None
    assert (found.of, found.shown) == (40, pytest.approx(max(shown)))
    assert found.shown > 1.4 and abs(found.taken / 1.3 - 1) < 0.03


def test_a_true_best_keeps_its_lead() -> None:
    found = luck([timed(each, each * 0.999, each * 1.001) for each in (1.0, 1.2, 2.0)])
    assert found is not None and found.taken == pytest.approx(2.0, rel=1e-3)
    assert luck([timed(2.0, 1.9, 2.1), refused("no")]) is None
    alone = best_of([0.5], [0.1])
    assert (alone.index, alone.lead, alone.error, alone.luck) == (0, 0.5, 0.1, 0.0)
