"""A rung that was caught stays marked, and its figures hidden, until other code passes, or the same code twice."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from aisp.store import History, Store, StoreError
from aisp.store.outcomes import Correctness, FindingStatus, State, Validity, Verdict
from aisp.store.record import Arm, Comparison, Quarantine, Run
from tests.replacing import replace
from tests.store.examples import caught, examined, finding, planned

FOLDER = b"/home/ada/kernels/caf\xe9"
EVIDENCE = "0.41 ms by events, 9.8 ms by the engine's clock"
HIDDEN = Comparison("optimized", "baseline", Verdict.NONE, note=f"quarantined: timing.wall_clock: {EVIDENCE}")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "aisp.db") as opened:
        yield opened


@pytest.fixture
def history(tmp_path: Path) -> Iterator[History]:
    with History(tmp_path / "aisp.db") as opened:
        yield opened


def finish(store: Store, run: Run) -> Run:
    store.finish(run, {})
    return run


def marked(history: History) -> list[tuple[str, str]]:
    return [(q.rung, q.code) for q in history.quarantines()]


def test_a_rung_that_was_caught_is_marked_with_what_was_seen(store: Store, history: History) -> None:
    run = finish(store, caught(planned()))
    wanted = Quarantine("ch07:transpose", FOLDER, "optimized", "c0de", run.id, "timing.wall_clock", EVIDENCE, run.wall)
    assert history.quarantines() == [wanted]
    assert store.quarantines(FOLDER) == {"optimized": wanted}
    assert store.quarantines(b"/elsewhere") == {}
    assert history.run(run.id) == run  # it shows no figures, and says why in its own words


def test_the_first_check_that_caught_it_is_named(store: Store, history: History) -> None:
    run = caught(planned())
    run = replace(run, findings=(*run.findings, finding("output.values", "optimized", "caught", "wrong too")))
    finish(store, run)
    assert [q.check for q in history.quarantines()] == ["timing.wall_clock"]


@pytest.mark.parametrize("rung", ["cheat", "cheat_pool", "wrong_axis", "baseline", "baseline (A/A)", ""])
def test_what_is_there_to_be_caught_and_what_is_no_rung_is_not_marked(
    store: Store, history: History, rung: str
) -> None:
    run = finish(store, caught(planned(), rung))
    assert history.quarantines() == []
    assert history.run(run.id) == run


@pytest.mark.parametrize("status", ["suspect", "unavailable", "not_applicable", "passed"])
def test_no_other_finding_marks_a_rung(store: Store, history: History, status: str) -> None:
    finish(store, examined(planned(), findings=(finding("timing.wall_clock", "optimized", status),)))
    assert history.quarantines() == []


# -- figures -----------------------------------------------------------------------------------------------------------


def test_earlier_runs_of_the_same_code_show_no_figures_any_more(store: Store, history: History) -> None:
    before, other = finish(store, examined(planned())), finish(store, examined(planned(), "0ther"))
    elsewhere = finish(store, examined(planned(target="mine:transpose", folder=b"/elsewhere")))
    assert history.run(before.id) == before
    end = finish(store, caught(planned()))
    shown = replace(before, comparisons=(HIDDEN,), verdict=Verdict.NONE)
    assert history.run(before.id) == shown
    assert history.newest(target="ch07:transpose") == [end, other, shown]
    assert history.history("ch07:transpose") == [shown, other, end]
    assert history.run(elsewhere.id) == elsewhere  # another folder
    for run in (before, other, end, elsewhere):
        assert history.verify(run.id)


def test_a_later_run_of_the_same_code_that_was_not_caught_shows_none_either(store: Store, history: History) -> None:
    finish(store, caught(planned()))
    after = finish(store, examined(planned()))
    shown = replace(after, comparisons=(HIDDEN,), verdict=Verdict.NONE)
    assert history.board() == {"ch07:transpose": shown}
    assert history.board(all_findings=False) == {"ch07:transpose": replace(shown, findings=())}
    assert history.verify(after.id)
    assert marked(history) == [("optimized", "c0de")]


def two_rungs(code: str) -> Run:
    run = examined(planned(), code)
    second = replace(run.arms[1], rung="optimized_b")
    ratios = (run.comparisons[0], replace(run.comparisons[0], rung="optimized_b", speedup=1.97))
    return replace(run, arms=(*run.arms, second), comparisons=ratios)


def test_the_other_rungs_keep_their_figures_and_the_run_loses_its_verdict(store: Store, history: History) -> None:
    run = finish(store, two_rungs("c0de"))
    finish(store, caught(planned()))
    shown = history.run(run.id)
    assert shown.comparisons == (HIDDEN, run.comparisons[1])
    assert shown.verdict is Verdict.NONE
    assert shown.arms == run.arms


def test_undecided_figures_are_hidden_and_reasons_without_figures_are_kept(store: Store, history: History) -> None:
    run = examined(planned(), verdict=Verdict.UNDECIDED)
    undecided = replace(run.comparisons[0], verdict=Verdict.UNDECIDED, low=0.9)
    nothing = Comparison("optimized", "baseline", Verdict.NONE, note="needs sm_90")
    run = finish(store, replace(run, comparisons=(undecided, nothing)))
    finish(store, caught(planned()))
    assert history.run(run.id).comparisons == (HIDDEN, nothing)


def test_code_that_nobody_knows_hides_no_run(store: Store, history: History) -> None:
    unknown = [finish(store, replace(examined(planned()), manifest=said)) for said in ({}, {"code": ""}, {"code": 7})]
    finish(store, replace(caught(planned()), manifest={}))
    assert marked(history) == [("optimized", "")]
    assert [history.run(run.id) for run in unknown] == unknown
    finish(store, examined(planned(), "fixed"))
    assert marked(history) == []


def test_a_shell_sees_what_must_not_be_shown(store: Store, tmp_path: Path) -> None:
    run = finish(store, examined(planned()))
    finish(store, caught(planned()))
    connection = sqlite3.connect(tmp_path / "aisp.db")
    found = connection.execute("SELECT id, position, hidden.* FROM hidden JOIN runs ON number = run").fetchall()
    connection.close()
    assert found == [(run.id, 0, 1, 0, "optimized", "timing.wall_clock", EVIDENCE)]


# -- release -----------------------------------------------------------------------------------------------------------


def test_other_code_that_passes_is_released_and_the_old_code_stays_hidden(store: Store, history: History) -> None:
    before = finish(store, examined(planned()))
    finish(store, caught(planned()))
    after = finish(store, examined(planned(), "fixed"))
    assert history.quarantines() == []
    assert store.quarantines(FOLDER) == {}
    assert history.run(after.id) == after
    assert history.run(before.id).comparisons == (HIDDEN,)


def with_finding(arm: str, status: str, check: str = "memory.margins") -> dict[str, Any]:
    end = examined(planned())
    found = (*end.findings, finding(check, arm, status))
    if status == "caught":
        return {"findings": found, "comparisons": (), "verdict": Verdict.NONE}
    return {"findings": found}


def failed(state: State, correctness: Correctness) -> dict[str, Any]:
    end = examined(planned())
    arm = replace(
        end.arms[1], state=state, correctness=correctness, median_ms=None, low_ms=None, high_ms=None, reason="so"
    )
    return {
        "state": state,
        "correctness": correctness,
        "arms": (end.arms[0], arm),
        "comparisons": (),
        "verdict": Verdict.NONE,
        "reason": "so",
    }


@pytest.mark.parametrize(
    "changes",
    [
        {"manifest": {"code": "fixed", "without": ["timing.wall_clock"]}},
        {"manifest": {"without": []}},
        {"manifest": {"code": "c0de", "without": []}},
        {"device": "cpu"},
        {"folder": b"/elsewhere"},
        {"findings": ()},
        with_finding("optimized", "suspect"),
        with_finding("", "caught"),
        with_finding("optimized", "unavailable", "timing.wall_clock"),
        failed(State.USER_ERROR, Correctness.UNKNOWN),
        failed(State.INCORRECT, Correctness.WRONG),
        {"arms": examined(planned()).arms[:1], "comparisons": (), "verdict": Verdict.NONE},
    ],
    ids=[
        *("a check was left out", "unknown code", "the same code", "another device", "another folder", "not judged"),
        *("suspect", "the run was caught", "the check that caught it could not be asked", "failed", "wrong", "not run"),
    ],
)
def test_nothing_less_releases_it(store: Store, history: History, changes: dict[str, Any]) -> None:
    finish(store, caught(planned()))
    finish(store, examined(planned(), "fixed", **changes))
    assert marked(history) == [("optimized", "c0de")]


@pytest.mark.parametrize(
    ("arm", "status"),
    [("optimized", "unavailable"), ("optimized", "not_applicable"), ("", "suspect"), ("baseline", "suspect")],
)
def test_what_is_said_of_others_or_cannot_be_asked_here_does_not_hold_it(
    store: Store, history: History, arm: str, status: str
) -> None:
    finish(store, caught(planned()))
    finish(store, examined(planned(), "fixed", **with_finding(arm, status)))
    assert history.quarantines() == []


def test_two_clean_runs_of_the_same_code_end_it_and_show_its_figures(store: Store, history: History) -> None:
    before = finish(store, examined(planned()))
    finish(store, caught(planned()))
    first = finish(store, examined(planned()))
    assert marked(history) == [("optimized", "c0de")]
    second = examined(planned())
    assert store.forgiven(second) == {"optimized": first.id}
    finish(store, second)
    assert history.quarantines() == []
    assert store.quarantines(FOLDER, "c0de") == {}
    assert [history.run(run.id) for run in (before, first, second)] == [before, first, second]
    finish(store, caught(planned()))
    assert marked(history) == [("optimized", "c0de")]


@pytest.mark.parametrize(
    "changes",
    [
        {"validity": Validity.SUSPECT, "verdict": Verdict.NONE},
        {"manifest": {"code": "c0de", "without": ["timing.wall_clock"]}},
        {"device": "cpu"},
        {"findings": ()},
        with_finding("optimized", "unavailable", "timing.wall_clock"),
        failed(State.USER_ERROR, Correctness.UNKNOWN),
    ],
    ids=["suspect", "a check was left out", "another device", "not judged", "not asked", "failed"],
)
def test_two_runs_of_which_one_is_not_clean_end_nothing(
    store: Store, history: History, changes: dict[str, Any]
) -> None:
    finish(store, caught(planned()))
    finish(store, examined(planned()))
    finish(store, examined(planned(), **changes))
    assert marked(history) == [("optimized", "c0de")]


def test_a_catch_between_two_clean_runs_begins_the_count_anew(store: Store, history: History) -> None:
    for run in (caught(planned()), examined(planned()), caught(planned()), examined(planned())):
        finish(store, run)
    assert marked(history) == [("optimized", "c0de")]
    finish(store, examined(planned()))
    assert history.quarantines() == []


def test_code_that_was_caught_and_comes_back_is_marked_again(store: Store, history: History) -> None:
    finish(store, caught(planned()))
    finish(store, examined(planned(), "fixed"))
    assert store.quarantines(FOLDER) == {}
    assert store.quarantines(FOLDER, "c0de")["optimized"].code == "c0de"
    assert store.quarantines(FOLDER, "fixed") == {}
    back = finish(store, examined(planned()))
    assert marked(history) == [("optimized", "c0de")]
    assert history.run(back.id).comparisons == (HIDDEN,)


def test_caught_again_with_other_code_there_is_one_mark_and_both_codes_are_hidden(
    store: Store, history: History
) -> None:
    first, second = finish(store, examined(planned(), "one")), finish(store, examined(planned(), "two"))
    finish(store, caught(planned(), code="one"))
    finish(store, caught(planned(), code="two", check="output.values"))
    assert marked(history) == [("optimized", "two")]
    assert store.quarantines(FOLDER)["optimized"].code == "two"
    assert store.quarantines(FOLDER, "one")["optimized"].code == "one"
    assert [history.run(run.id).comparisons[0].speedup for run in (first, second)] == [None, None]
    finish(store, examined(planned(), "one"))  # it passes this time, and is the code that was caught
    assert marked(history) == [("optimized", "one")]
    finish(store, caught(planned(), code="two"))
    assert marked(history) == [("optimized", "two")]


def test_marks_come_newest_first(store: Store, history: History) -> None:
    for number in range(3):
        finish(store, caught(planned(target=f"ch01:t{number}", folder=b"/t%d" % number)))
    finish(store, caught(planned(target="ch01:t0", folder=b"/t0"), "optimized_b"))
    assert [(q.target, q.rung) for q in history.quarantines()] == [
        ("ch01:t0", "optimized_b"),
        ("ch01:t2", "optimized"),
        ("ch01:t1", "optimized"),
        ("ch01:t0", "optimized"),
    ]


# -- with the run, or not at all ---------------------------------------------------------------------------------------


def test_finishing_again_changes_nothing(store: Store, history: History) -> None:
    end = finish(store, caught(planned()))
    finish(store, examined(planned(), "fixed"))
    finish(store, end)
    assert history.quarantines() == []


def test_the_mark_is_written_with_the_run_or_not_at_all(
    store: Store, history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise sqlite3.OperationalError("disk I/O error")

    monkeypatch.setattr(Store, "_quarantine", full)
    end = caught(planned())
    with pytest.raises((StoreError, sqlite3.Error)):
        store.finish(end, {})
    assert history.count() == 0
    monkeypatch.undo()
    store.finish(end, {})
    assert marked(history) == [("optimized", "c0de")]


def test_where_there_is_no_store_nothing_is_marked(history: History) -> None:
    assert history.quarantines() == []
    assert not history.path.exists()


def test_a_rung_whose_name_is_no_text_is_marked_under_the_name_that_it_has_in_the_store(
    store: Store, history: History
) -> None:
    run = caught(planned(), "bad_\udcff")
    finish(store, run)
    assert marked(history) == [("bad_\\udcff", "c0de")]
    assert history.run(run.id).caught("bad_\\udcff") == finding(
        "timing.wall_clock", "bad_\\udcff", FindingStatus.CAUGHT, EVIDENCE
    )


# -- what outlasts a run -----------------------------------------------------------------------------------------------


def left_behind(run: Run, code: str = "c0de") -> Run:
    """A run during which something appeared where later processes import from."""
    end = examined(run, code)
    told = finding("evaluation.installed", "", "suspect", "evil.pth appeared")
    return replace(end, validity=Validity.SUSPECT, verdict=Verdict.NONE, findings=(*end.findings, told))


def test_all_rungs_of_a_run_that_left_something_behind_are_marked(store: Store, history: History) -> None:
    run = finish(store, left_behind(planned()))
    assert marked(history) == [("optimized", "c0de")]
    assert {q.check for q in history.quarantines()} == {"evaluation.installed"}
    assert history.run(run.id).comparisons[0].speedup is None


def test_where_it_is_known_who_left_it_the_others_are_not_marked(store: Store, history: History) -> None:
    run = caught(planned(), check="evaluation.edits")
    told = finding("evaluation.installed", "", "suspect", "evil.pth appeared")
    finish(store, replace(run, findings=(*run.findings, told)))
    assert [(q.rung, q.check) for q in history.quarantines()] == [("optimized", "evaluation.edits")]


def test_what_a_person_accepts_frees_these_rungs_and_shows_their_figures(store: Store, history: History) -> None:
    run = finish(store, left_behind(planned()))
    assert store.release("evaluation.installed") == 1
    assert history.quarantines() == []
    assert history.run(run.id) == run


def test_nothing_else_that_a_rung_was_caught_for_is_forgiven_with_it(store: Store, history: History) -> None:
    finish(store, caught(planned()))
    finish(store, left_behind(planned()))
    store.release("evaluation.installed")
    assert [(q.rung, q.check) for q in history.quarantines()] == [("optimized", "timing.wall_clock")]
    finish(store, left_behind(planned(), code="other"))
    finish(store, caught(planned(), code="other"))
    store.release("evaluation.installed")
    assert {(q.rung, q.check) for q in history.quarantines()} == {("optimized", "timing.wall_clock")}
    assert store.quarantines(FOLDER, "c0de")["optimized"].check == "timing.wall_clock"


# -- what is asked again -----------------------------------------------------------------------------------------------


def refused(seed: int, code: str = "c0de", rung: str = "optimized", **changes: Any) -> Run:
    """A run of that seed in which the rung was caught for a drawn shape."""
    run = caught(planned(seed=seed, **changes), rung, code, "evaluation.held_out")
    wrong = Arm(rung, State.INCORRECT, Correctness.WRONG, reason="wrong values")
    arms = tuple(wrong if arm.rung == rung else arm for arm in run.arms)
    return replace(run, state=State.INCORRECT, correctness=Correctness.WRONG, reason="wrong", arms=arms)


def test_seeds_of_runs_that_caught_a_rung_stay_until_it_is_right(store: Store) -> None:
    def asked(**where: Any) -> list[int]:
        return store.unforgiven(planned(**where), "evaluation.held_out", 3)

    assert asked() == []
    finish(store, caught(planned(seed=6)))
    for seed, code in ((1, "a"), (2, "b"), (3, "c"), (1, "a"), (4, "d")):
        finish(store, refused(seed, code))
    assert asked() == [1, 2, 3], "the first ones, so that all are asked the same"
    assert asked(device="cpu") == asked(target="mine:transpose", folder=b"/elsewhere") == []
    finish(store, refused(5, "e"))
    finish(store, refused(7, "a"))
    assert asked() == [1, 2, 3], "code that is caught again was caught at first by the first"
    left_out = examined(planned(), "f", validity=Validity.SUSPECT)
    finish(store, replace(left_out, comparisons=()))
    assert asked() == [1, 2, 3]
    finish(store, replace(examined(planned(), "f"), arms=examined(planned()).arms[:1], comparisons=()))
    assert asked() == [1, 2, 3], "the baseline is no news of it"
    finish(store, examined(planned(), "f"))
    assert asked() == []
    finish(store, refused(2**64 - 1, "g"))
    assert asked() == [2**64 - 1]
