"""A ratio that may be chance never stands without its sign, wherever its verdict does not stand beside it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from aisp.engine import paths
from aisp.engine.doors import asking
from aisp.engine.doors.api import Compared
from aisp.engine.protocol import events
from aisp.kernels.catalog.model import Expectation
from aisp.store.outcomes import Correctness, State, Validity, Verdict
from aisp.store.record import Arm, Comparison, Naive
from aisp.store.results import audit, beside, regression
from aisp.store.results.audit import Kind
from aisp.store.results.candidate import Outcome, luck
from aisp.store.results.expected import of_run
from aisp.store.results.outcome import Stage
from aisp.store.results.overview import Lesson
from aisp.store.results.prediction import Answer, Measured, Says
from aisp.store.results.reading import Reading
from aisp.store.results.tables.lessons import PREDICTIONS
from aisp.store.results.tables.runs import Listed
from aisp.tui.cli import audit as audit_page
from aisp.tui.cli import beside as page
from aisp.tui.cli import follow, history, judge_many
from aisp.tui.plain import speedup
from tests.engine.test_mcp import agent
from tests.replacing import replace
from tests.store.examples import finished, planned
from tests.tui.app_support import keep, make_catalog, make_link, opened, screen_text, until
from tests.tui.fakes import FakeLink, quick_run_events
from tests.tui.live_support import isolate

CHANCE = Comparison("optimized", "baseline", Verdict.UNDECIDED, 929.0, 4e-08, 1.6e10, 0.41)
UNDECIDED: dict[str, Any] = {"verdict": Verdict.UNDECIDED, "comparisons": (CHANCE,)}


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    isolate(tmp_path, monkeypatch)


def undecided(**changes: Any) -> Reading:
    """A run whose one comparison may be chance."""
    return Reading(finished(planned(), **(UNDECIDED | changes)))


def test_the_sign_stands_before_what_may_be_chance_and_before_nothing_else() -> None:
    assert speedup(2.314, 2.2, 2.4, verdict=Verdict.UNDECIDED) == "? 2.31x [2.20..2.40]"
    assert speedup(None, verdict=Verdict.UNDECIDED) == "-"
    for verdict in set(Verdict) - {Verdict.UNDECIDED}:
        assert speedup(2.314, verdict=verdict) == "2.31x"


async def test_the_palette_shows_the_sign_of_a_run(tmp_path: Path) -> None:
    keep(tmp_path / "state", **UNDECIDED)
    async with opened(tmp_path, size=(120, 40), link=make_link(told=False)) as (app, pilot):
        await pilot.press("ctrl+p")
        await pilot.pause(0.2)
        await pilot.press(*"run of transpose 929")
        await until(pilot, lambda: "Run of ch07:transpose, ? 929×, " in screen_text(app))


async def test_the_best_edit_of_a_watch_shows_its_sign(tmp_path: Path) -> None:
    target = "ch05:collate"
    edit = events.WatchEdit(target=target, number=1, snapshot="01" * 32, files=["optimized.py"], run_id="W1")
    run = quick_run_events(target, run_id="W1", speedup=16.7, verdict="undecided", trigger="watch", rounds=1)
    watch = events.WatchChanged(target=target, folder="/home/ada/collate", active=True)
    async with opened(tmp_path, size=(120, 40), link=FakeLink([watch, edit, *run])) as (app, pilot):
        app.open_screen("watch", target_id=target)
        await until(pilot, lambda: "best: edit 1" in screen_text(app))
        assert ", ? 16.7× vs baseline" in screen_text(app)


async def test_a_prediction_that_no_run_answers_shows_the_sign_of_the_ratio_beside_it(tmp_path: Path) -> None:
    keep(tmp_path / "state", environment={"gpu": "NVIDIA H200"}, **UNDECIDED)
    async with opened(tmp_path, size=(120, 40), link=make_link(told=False)) as (app, pilot):
        app.screen.table.move_to("target ch07:transpose")  # type: ignore[attr-defined]
        said = "not measured there; ? 929x on NVIDIA H200"
        await until(pilot, lambda: said in " ".join(app.screen.copy_text().split()))  # type: ignore[attr-defined]


def test_tables_without_a_column_of_verdicts_show_it(tmp_path: Path) -> None:
    expect = Expectation((1.5, 3.0), "H100", "half the bytes")
    found = Measured("optimized", 17.2, 0.3, 2e7, verdict=Verdict.UNDECIDED)
    target = make_catalog(tmp_path).find("ch07:transpose")
    lesson = Lesson(replace(target, expect=expect), answer=Answer(Says.MET, undecided().record, found))
    cells = {column.key: column.cell(lesson) for column in PREDICTIONS}
    assert cells["measured"].startswith("? 17.2x [")
    outcome = Outcome(State.OK, Stage.QUICK, Verdict.UNDECIDED, 1.01, 0.9, 1.1)
    assert judge_many._ratio(outcome) == "? 1.01x [0.900..1.10]"
    run = undecided()
    base, arm = run.record.arms
    arms = (base, replace(arm, naive=Naive(1.0, 0.5, accepts=True)))
    assert "? 929x" in "\n".join(follow.naive_lines(undecided(arms=arms), arms))
    one = of_run(run, {}, target)
    (row,) = [row for row in beside.rows(target.id, one, one) if row.rung == "optimized"]
    assert page._cells(row)[-2:] == ["? 929x", "? 929x"]


def test_the_luckiest_of_many_and_what_an_audit_measured_show_it() -> None:
    quick = [Outcome(State.OK, Stage.QUICK, Verdict.UNDECIDED, ratio, 0.9, 30.0) for ratio in (17.2, 1.01)]
    lucky = luck(quick)
    assert lucky is not None and lucky.verdict is Verdict.UNDECIDED
    told = ("memory:a_cheat", "memory", "cheat", Kind.CHEAT, audit.Outcome.USELESS, (), "", 2.0, True, 17.2, 0.3, 2e7)
    row = audit.Row(*told, compared=Verdict.UNDECIDED)
    for width, ratio in ((None, "? 17.2x [0.300..>999]"), (80, "? 17.2x")):
        assert ratio in "\n".join(audit_page.lines("cpu", [row], width=width))


def test_a_run_of_which_another_rung_is_wrong_shows_the_sign_of_the_one_that_is_right() -> None:
    wrong = Arm("optimized_b", State.INCORRECT, Correctness.WRONG, reason="y[0] is 1, expected 2")
    arms = (*undecided().record.arms, wrong)
    run = undecided(arms=arms, state=State.INCORRECT, correctness=Correctness.WRONG, reason="optimized_b is wrong")
    assert "? 929x" in "\n".join(history.lines([Listed(run)], with_target=True, width=None))
    assert "? 929x" not in "\n".join(history.lines([Listed(undecided())], with_target=True, width=None))


@pytest.mark.parametrize("verdict", [Verdict.UNDECIDED, Verdict.FASTER])
def test_a_point_of_a_suites_history_knows_its_verdict(verdict: Verdict) -> None:
    item = replace(CHANCE, verdict=verdict, low=900.0, high=950.0)
    side = regression.Side(undecided(verdict=verdict, comparisons=(item,)), {}, None)
    assert [point.verdict for point in regression.row("ch07:transpose", [side]).past] == [verdict]


def test_a_notebooks_row_has_no_ratio_where_the_run_is_suspect() -> None:
    for run, cell in (
        (undecided(), "<td>929x ["),
        (undecided(validity=Validity.SUSPECT, reason="a busy machine"), "<td>-</td><td>suspect: a busy machine</td>"),
    ):
        found = Compared(asking.Answer(run), "optimized", {})
        assert cell in found._repr_html_()


async def test_an_agents_explanation_shows_it() -> None:
    keep(paths.state_dir(), id="01" + "Q" * 24, **UNDECIDED)
    async with agent() as one:
        why = await one.call("explain", run="01" + "Q" * 24)
    assert any(sentence.startswith("? 929x [") for sentence in why["sentences"]), why["sentences"]
