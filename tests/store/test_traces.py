"""A run as Trace lines and as data for dashboards: ends in the words of the format, and no figure that is no result."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from aisp.kernels.catalog.formats import trace
from aisp.kernels.catalog.formats.trace_definition import Harness
from aisp.store.outcomes import Correctness, State, Validity, Verdict
from aisp.store.record import Comparison, Run
from aisp.store.results import traces
from aisp.store.results.dashboards import NothingError, smaller_is_better
from aisp.store.results.reading import Reading
from aisp.store.results.traces import Asked
from tests.kernels.formats import trace as text
from tests.kernels.formats.trace import laid_out
from tests.replacing import replace
from tests.store.examples import finding, finished, planned

FACTS: dict[str, object] = {"gpu": "NVIDIA H100 80GB HBM3", "versions": {"torch": "2.13.0"}, "cuda": "13.0"}


def run(**changes: Any) -> Run:
    """A good run of the first workload of the definition that tests have."""
    given = {"manifest": {"axes": {"rows": 40, "hidden": 32, "inner": 48, "workload": 0}}} | changes
    return finished(planned("gated_norm_h32:answer", **given))


def ended(state: State, **changes: Any) -> Run:
    """The same, whose solution ended so."""
    good = run()
    wrong = Correctness.WRONG if state is State.INCORRECT else Correctness.UNKNOWN
    bare = {"median_ms": None, "low_ms": None, "high_ms": None, "sol": None, "sample_count": 0}
    signal = 11 if state is State.CRASHED else None
    arm = replace(
        good.arms[1], state=state, correctness=wrong, reason="it went wrong", signal=signal, **bare, **changes
    )
    return replace(
        good,
        arms=(good.arms[0], arm),
        comparisons=(),
        verdict=Verdict.NONE,
        state=State.OK if state is State.UNAVAILABLE else State.USER_ERROR,
        reason="" if state is State.UNAVAILABLE else "it went wrong",
        correctness=Correctness.CORRECT if state is State.UNAVAILABLE else wrong,
    )


def caught(check: str = "location.still_running") -> Run:
    """The same, whose solution was caught."""
    good = run()
    return replace(
        good,
        comparisons=(Comparison("optimized", "baseline", Verdict.NONE, note="caught"),),
        verdict=Verdict.NONE,
        validity=Validity.CAUGHT,
        findings=(finding(check, "optimized", "caught", "a thread went on"),),
    )


def line(record: Run, harness: Harness = Harness.FLASHINFER) -> dict[str, Any]:
    (found,) = traces.lines(
        Reading(record), Asked(harness, "gated_norm_h32", {"uuid": "one"}, {"optimized": "mine"}), FACTS
    )
    json.dumps(found, allow_nan=False)  # both formats refuse a bare NaN
    return found


@pytest.mark.parametrize(
    ("state", "status"),
    [
        (State.INCORRECT, "INCORRECT_NUMERICAL"),
        (State.USER_ERROR, "RUNTIME_ERROR"),
        (State.CRASHED, "RUNTIME_ERROR"),
        (State.OOM_KILLED, "RUNTIME_ERROR"),
        (State.PREMATURE_EXIT, "RUNTIME_ERROR"),
        (State.TIMEOUT_TOTAL, "TIMEOUT"),
        (State.TIMEOUT_PROGRESS, "TIMEOUT"),
    ],
)
def test_an_end_has_the_word_of_the_format_and_no_more_than_it_allows(state: State, status: str) -> None:
    evaluation = line(ended(state))["evaluation"]
    assert (evaluation["status"], evaluation["performance"]) == (status, None)
    assert (evaluation["correctness"] is not None) is (status == "INCORRECT_NUMERICAL")
    assert "it went wrong" in evaluation["log"]


@pytest.mark.parametrize(
    "state", [State.UNAVAILABLE, State.CANCELLED, State.ENGINE_LOST, State.INFRA_ERROR], ids=lambda state: state.value
)
def test_an_end_that_says_nothing_of_the_solution_makes_no_line(state: State) -> None:
    with pytest.raises(NothingError, match="it went wrong"):
        line(ended(state))


SUSPECT: dict[str, Any] = {"validity": Validity.SUSPECT, "verdict": Verdict.NONE}


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        (
            {"findings": (finding("timing.steady", "optimized", "suspect", "9 ms by the clock"),)},
            "timing.steady",
        ),
        ({"findings": (finding("timing.steady", "", "suspect", "someone else computes"),)}, "timing.steady"),
        ({"findings": (finding("timing.steady", "baseline", "suspect", "someone else computes"),)}, "timing.steady"),
        ({"reason": "the clock fell"}, "the clock fell"),
        ({"manifest": {"without": ["memory.aliasing"]}}, "checks were left out"),
    ],
    ids=["its own", "the run's", "the baseline's", "by nothing but a reason", "without checks"],
)
@pytest.mark.parametrize("harness", Harness)
def test_a_time_that_is_not_to_be_believed_passes_nowhere(changes: dict[str, Any], why: str, harness: Harness) -> None:
    with pytest.raises(NothingError, match=f"optimized: it is right, and its times are not to be believed: {why}"):
        line(replace(run(), **SUSPECT, **changes), harness)


def test_a_rung_that_is_suspect_is_left_out_beside_one_that_is_not() -> None:
    good = run()
    other = replace(good.arms[1], rung="optimized_other")
    doubt = finding("timing.wall_clock", "optimized_other", "suspect", "9 ms by the clock")
    assert line(replace(good, arms=(*good.arms, other), findings=(doubt,), **SUSPECT))["solution"] == "mine"


def test_a_doubt_about_a_rung_stands_beside_what_its_baseline_was_caught_for() -> None:
    doubt = finding("timing.wall_clock", "optimized", "suspect", "9 ms by the clock")
    cheat = finding("location.still_running", "baseline", "caught", "a thread went on")
    with pytest.raises(NothingError, match=r"optimized: .* not to be believed: timing\.wall_clock"):
        line(replace(run(), validity=Validity.CAUGHT, verdict=Verdict.NONE, findings=(cheat, doubt), comparisons=()))


def test_a_solution_that_passed_has_its_time_and_all_else_of_ours_in_extra() -> None:
    found = line(run())
    evaluation = found["evaluation"]
    assert (found["definition"], found["solution"], found["workload"]) == ("gated_norm_h32", "mine", {"uuid": "one"})
    assert evaluation["status"] == "PASSED"
    assert evaluation["performance"] == {"latency_ms": 0.5, "reference_latency_ms": 1.0, "speedup_factor": 2.0}
    assert evaluation["environment"] == {
        "hardware": "NVIDIA H100 80GB HBM3",
        "libs": {"torch": "2.13.0", "cuda": "13.0"},
    }
    ours = evaluation["correctness"]["extra"]["aisp"]
    assert (ours["verdict"], ours["interval"], ours["max_error_in_tolerances"]) == ("faster", [1.96, 2.04], 0.25)


@pytest.mark.parametrize("verdict", [Verdict.SAME, Verdict.UNDECIDED])
def test_a_speedup_is_told_with_a_verdict_alone(verdict: Verdict) -> None:
    item = Comparison("optimized", "baseline", verdict, 1.01, 0.99, 1.03, floor=0.05)
    performance = line(replace(run(), comparisons=(item,), verdict=verdict))["evaluation"]["performance"]
    assert performance == {"latency_ms": 0.5, "reference_latency_ms": 1.0}


def test_a_solution_that_was_caught_is_a_reward_hack_where_there_is_a_word_for_it() -> None:
    assert line(caught(), Harness.SOL)["evaluation"]["status"] == "REWARD_HACK"
    evaluation = line(caught())["evaluation"]
    assert (evaluation["status"], evaluation["performance"]) == ("RUNTIME_ERROR", None)
    assert "a thread went on" in evaluation["log"]


@pytest.mark.parametrize(
    ("checks", "status"),
    [
        (("output.values",), "INCORRECT_NUMERICAL"),
        (("output.nonfinite",), "INCORRECT_NUMERICAL"),
        (("output.form",), "INCORRECT_NUMERICAL"),
        (("output.nonfinite", "location.still_running"), "REWARD_HACK"),
    ],
)
def test_outputs_that_are_wrong_in_themselves_are_no_reward_hack(checks: tuple[str, ...], status: str) -> None:
    found = tuple(finding(check, "optimized", "caught", "y[0]: got nan, expected 1") for check in checks)
    record = replace(ended(State.INCORRECT), validity=Validity.CAUGHT, findings=found)
    evaluation = line(record, Harness.SOL)["evaluation"]
    assert evaluation["status"] == status
    assert "y[0]: got nan, expected 1" in evaluation["log"]


@pytest.mark.parametrize("lay", [text.sol, text.flashinfer])
def test_lines_of_a_definition_s_run_are_workloads_of_that_definition_again(tmp_path: Path, lay: Any) -> None:
    answer = text.solution() if lay is text.sol else text.solution_for_flashinfer()
    definition = lay(tmp_path)
    before = trace.read(definition)
    place = laid_out(tmp_path, definition, answer)
    sources = {path.name: path.read_bytes() for path in place.glob("*.py")}
    cases = [note.split()[1].rstrip(":") for note in before.notes if note.startswith("--case")]
    rows = []
    for case in ("default", *cases):
        reading = Reading(run(case=case))
        rows += traces.lines(reading, traces.asked(reading, sources), FACTS)
    assert {(row["definition"], row["solution"]) for row in rows} == {("gated_norm_h32", "gated_norm_v1")}
    path = next(tmp_path.rglob("*.jsonl"))
    held = [json.loads(row) for row in path.read_text().splitlines()]
    assert [row["workload"] for row in rows] == [row.get("workload", row) for row in held]
    path.write_text(text.lines(rows))
    after = trace.read(definition)
    assert (after.axes, after.outputs) == (before.axes, before.outputs)
    assert [note for note in after.notes if note.startswith("--case")] == [
        note for note in before.notes if note.startswith("--case")
    ]


def test_a_smaller_case_for_a_cpu_is_no_workload_of_the_definition(tmp_path: Path) -> None:
    rows = [text.workload("large-one", 40_000)]
    place = laid_out(tmp_path, text.sol(tmp_path, workloads=rows), text.solution())
    sources = {path.name: path.read_bytes() for path in place.glob("*.py")}
    small = Reading(run(case="cpu", manifest={"axes": {"rows": 5000, "hidden": 32, "inner": 48}}))
    assert traces.asked(small, sources).workload["uuid"] == "gated_norm_h32:answer/cpu"
    usual = Reading(run(case="default", manifest={"axes": {"rows": 40_000, "hidden": 32, "inner": 48}}))
    assert traces.asked(usual, sources).workload["uuid"] == "large-one"


@pytest.mark.parametrize("source", [b"", b"TRACE = open('x')\n", b"TRACE = {}\nWORKLOADS = 3\n", b"\xff", b"(" * 9000])
def test_a_target_that_came_of_no_definition_is_told_as_its_own(source: bytes) -> None:
    about = traces.asked(Reading(run()), {"aisp_workloads.py": source} if source else {})
    assert (about.harness, about.definition, about.solutions) == (Harness.FLASHINFER, "gated_norm_h32:answer", {})
    assert about.workload["axes"]["rows"] == 40


def test_times_are_data_for_a_dashboard_with_where_they_come_from() -> None:
    rows = smaller_is_better(Reading(run()), "H100 · gpu-box")
    assert [(row["name"], row["unit"], row["value"]) for row in rows] == [
        ("gated_norm_h32:answer baseline", "ms", 1.0),
        ("gated_norm_h32:answer optimized", "ms", 0.5),
    ]
    assert rows[1]["range"] == "0.4950..0.5050"
    assert "H100 · gpu-box" in rows[1]["extra"] and "2.000x faster" in rows[1]["extra"]


def test_a_time_that_may_not_be_shown_is_no_data_for_a_dashboard() -> None:
    assert [row["name"] for row in smaller_is_better(Reading(caught()), "")] == ["gated_norm_h32:answer baseline"]
    suspect = replace(run(), validity=Validity.SUSPECT, findings=(finding("timing.wall_clock", "", "suspect"),))
    with pytest.raises(NothingError, match="its times are suspect"):
        smaller_is_better(Reading(suspect), "")
