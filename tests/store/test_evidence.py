"""The evidence object: what is told of a run to whoever wrote the kernel, how small it is, and what is kept from it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from aisp.store.outcomes import Correctness, Limiter, State, Validity, Verdict
from aisp.store.record import Arm, LinkUse, RooflineBound, Run
from aisp.store.results import evidence
from aisp.store.results.evidence import EVIDENCE_BYTES, Outcome, Stage
from aisp.store.results.reading import Reading
from tests.replacing import replace
from tests.store.examples import caught, examined, finding, finished, fuzz_of, measured, planned, run_records

SEED = 0x5EED_0123_4567_89AB
HELD_OUT = 1 << 40
SHAPE = {"M": 64}


def told(run: Run, rung: str = "optimized", **options: Any) -> evidence.Evidence:
    return evidence.of_run(Reading(run), rung, **options)


def ended(state: State, **changes: Any) -> Run:
    """A run whose optimized rung came to this end."""
    wrong = Correctness.WRONG if state is State.INCORRECT else Correctness.UNKNOWN
    signal = {"signal": 11} if state is State.CRASHED else {}
    arm = Arm("optimized", state, wrong, reason="said by the candidate", detail="its own words", **signal)
    end = {"state": state, "correctness": wrong, "reason": "said by the candidate", "arms": (arm,)}
    return replace(planned(), **{**end, **changes})


def test_a_faster_rung_is_told_with_its_interval_its_floor_and_what_bounds_it() -> None:
    said = told(measured(planned()))
    assert (said.verdict, said.stage, said.limiter) == (Outcome.FASTER, Stage.TIME, Limiter.BYTES)
    assert (said.speedup, said.floor) == (2.0, 0.004)
    assert said.interval is not None and (said.interval.lo, said.interval.hi) == (1.96, 2.04)
    assert said.counters["median_ms"] == 0.5 and said.counters["bound_ms"] == 0.45
    assert "fewer bytes" in said.next_move


def test_a_rung_over_a_link_is_told_with_what_it_carries_each_way_and_others_without() -> None:
    run = measured(planned())
    baseline, optimized = run.arms
    link = LinkUse(Limiter.NVLINK, in_bytes_per_s=3e11, in_share=0.8, measured=True)
    over = replace(optimized, light=RooflineBound(measured_ms=0.45, limiter=Limiter.NVLINK, link=link))
    counters = told(replace(run, arms=(baseline, over))).counters
    assert {name: value for name, value in counters.items() if name.startswith("link")} == {
        "link_in_bytes_per_s": 3e11, "link_in_share": 0.8,
    }  # fmt: skip
    assert not any(name.startswith("link") for name in told(run).counters)


def test_a_quick_run_is_sent_on_to_a_full_one() -> None:
    assert "level full" in told(measured(planned(quick=True))).next_move


def test_at_the_bound_there_is_nothing_left_to_do() -> None:
    run = measured(planned())
    baseline, optimized = run.arms
    run = replace(run, arms=(baseline, replace(optimized, sol=0.97)))
    assert told(run).next_move.startswith("stop: it is at 97")


def test_an_undecided_full_run_is_where_one_stops() -> None:
    item = replace(measured(planned()).comparisons[0], verdict=Verdict.UNDECIDED, low=0.9)
    run = measured(planned(), verdict=Verdict.UNDECIDED)
    said = told(replace(run, comparisons=(item,)))
    assert said.verdict is Outcome.UNDECIDED and said.next_move.startswith("stop")


def test_a_caught_rung_has_no_figure() -> None:
    said = told(caught(planned()))
    assert (said.verdict, said.reason_code) == (Outcome.CAUGHT, "timing.wall_clock")
    assert (said.speedup, said.interval, said.floor, dict(said.counters)) == (None, None, None, {})
    (check,) = said.checks
    assert check.id == "timing.wall_clock" and check.evidence_id == 2
    assert said.quoted is not None and "9.8 ms" in said.quoted.text


def test_a_time_that_is_not_to_be_believed_is_no_verdict() -> None:
    run = examined(planned(), validity=Validity.SUSPECT, verdict=Verdict.NONE, reason="the clock fell")
    said = told(run)
    assert said.verdict is Outcome.SUSPECT and said.speedup is None
    assert not said.verdict.settled  # measuring again may help


@pytest.mark.parametrize(
    ("state", "outcome", "stage"),
    [
        (State.INCORRECT, Outcome.WRONG, Stage.VALUES),
        (State.USER_ERROR, Outcome.FAILED, Stage.CODE),
        (State.CRASHED, Outcome.FAILED, Stage.PROCESS),
        (State.TIMEOUT_TOTAL, Outcome.FAILED, Stage.PROCESS),
        (State.OUTPUT_LIMIT, Outcome.FAILED, Stage.PROCESS),
        (State.UNAVAILABLE, Outcome.UNAVAILABLE, Stage.MACHINE),
        (State.INFRA_ERROR, Outcome.UNAVAILABLE, Stage.MACHINE),
        (State.CANCELLED, Outcome.UNAVAILABLE, Stage.MACHINE),
    ],
)
def test_every_end_has_its_outcome_its_stage_and_a_next_move(state: State, outcome: Outcome, stage: Stage) -> None:
    said = told(ended(state), shape=SHAPE)
    assert (said.verdict, said.stage, said.reason_code) == (outcome, stage, state.value)
    assert said.next_move and said.message


def test_every_state_can_be_told() -> None:
    for state in State:
        if state.final and state is not State.OK:
            assert told(ended(state)).message


def test_what_has_not_ended_is_pending() -> None:
    assert told(planned()).verdict is Outcome.PENDING
    assert told(replace(planned(), state=State.RUNNING)).stage is Stage.RUNNING


@pytest.mark.parametrize(
    ("case", "shape", "detail"),
    [
        ("default", SHAPE, "its own words"),
        ("ragged", {}, "wrong values (case ragged): y[0]"),
        (None, {}, "wrong values (case ragged): y[0]"),  # in runs of before it was kept, nobody knows
    ],
)
def test_wrong_values_are_told_as_a_failing_case(case: str | None, shape: dict[str, int], detail: str) -> None:
    run = ended(State.INCORRECT)
    reason = "wrong values (case ragged): y[0]"
    arms = tuple(replace(arm, reason=reason, failing_case=case) for arm in run.arms)
    said = told(replace(run, arms=arms), shape=SHAPE)
    assert said.failing_case is not None
    assert (said.failing_case.shape, said.failing_case.detail) == (shape, detail)


def test_wrong_values_come_before_whatever_else_was_caught() -> None:
    found = (finding("output.values", "optimized", "caught", "y[0]"), finding("memory.aliasing", "optimized", "caught"))
    said = told(ended(State.INCORRECT, findings=found), shape=SHAPE)
    assert (said.verdict, said.reason_code) == (Outcome.WRONG, "output.values")
    assert [check.id for check in said.checks] == ["output.values", "memory.aliasing"]
    assert said.quoted is None  # the failing case says it


def test_a_kept_case_is_told_without_what_it_was_drawn_from() -> None:
    record, failures = fuzz_of()
    failure = replace(failures[0], seed=SEED, detail=f"y[0]: got 1 of seed {SEED}")
    said = evidence.of_failure(failure).plain()
    assert said["failing_case"]["case"] == failure.id and said["run"] == failure.fuzz == record.id
    assert "seed" not in said["failing_case"] and str(SEED) not in json.dumps(said)


@pytest.mark.parametrize("state", [State.USER_ERROR, State.CRASHED, State.PREMATURE_EXIT, State.TIMEOUT_PROGRESS])
def test_the_candidates_own_words_stand_under_quoted_alone(state: State) -> None:
    said = told(ended(state)).plain()
    quoted = said.pop("quoted")
    assert "said by the candidate" in quoted["text"] and quoted["untrusted"] is True
    assert "said by" not in json.dumps(said) and "own words" not in json.dumps(said)


def test_what_a_check_saw_stands_under_quoted_alone() -> None:
    said = told(caught(planned(), check="evaluation.installed")).plain()
    quoted = said.pop("quoted")
    assert "9.8 ms" in quoted["text"] and "9.8 ms" not in json.dumps(said)


def test_seeds_and_numbers_of_held_out_sets_are_taken_out_of_every_text() -> None:
    words = f"seed {SEED}, {SEED:x} or {SEED:X}, set {HELD_OUT}"
    arm = Arm("optimized", State.USER_ERROR, reason=words, detail=words)
    run = ended(State.USER_ERROR, seed=SEED, manifest={"sets": [1, {"of": HELD_OUT}]}, arms=(arm,))
    run = replace(run, findings=(finding("output.values", "optimized", "suspect", words),))
    texts = [json.dumps(told(run).plain()), evidence.tell(words, run, 500), evidence.words(run.findings[0], run)]
    for text in texts:
        assert evidence.WITHHELD in text
        assert not any(secret in text.lower() for secret in (str(SEED), f"{SEED:x}", str(HELD_OUT)))
    assert evidence.tell("64 rows of 4096", run, 500) == "64 rows of 4096"  # what is no secret stays


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(run_records())
@pytest.mark.slow
def test_an_object_is_small_whatever_the_run(run: Run) -> None:
    for rung in [*(arm.rung for arm in run.arms), "nothing_of_this_name", ""]:
        document = evidence.of_run(Reading(run), rung).plain()
        assert evidence.size(document) <= EVIDENCE_BYTES
        json.loads(evidence.compact(document))


def test_floods_are_cut_and_say_so() -> None:
    flood = '"\\\n☃' * 2000
    findings = tuple(finding(f"check.number_{n}", "optimized", "suspect", flood) for n in range(300))
    arm = Arm("optimized", State.USER_ERROR, reason=flood, detail=flood)
    document = told(ended(State.USER_ERROR, arms=(arm,), findings=findings)).plain()
    assert evidence.size(document) <= EVIDENCE_BYTES
    assert document["verdict"] == "failed" and document["next_move"]


def test_what_cannot_be_cut_is_no_answer() -> None:
    assert evidence.fit({"text": "x" * 5000}) == {"text": evidence.fit({"text": "x" * 5000})["text"], "cut": True}
    with pytest.raises(ValueError, match="cannot be told in"):
        evidence.fit({str(number): number for number in range(2000)})


def test_a_run_without_a_rung_of_that_name_is_told_by_what_it_is_about() -> None:
    assert evidence.of_run(Reading(finished(planned()))).rung == "optimized"
