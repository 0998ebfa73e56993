"""What a person reads of the same runs in the app and on the command line: the last result, the rung that a run is
about, whether a prediction came true, the best edit."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from aisp.engine.protocol import events, requests
from aisp.store.outcomes import Correctness, State, Validity, Verdict
from aisp.store.record import Run
from aisp.tui.cli.tree import cli
from aisp.tui.results import state_words
from tests import heard
from tests.replacing import replace
from tests.store.examples import finished, planned
from tests.tui.app_support import (
    NOT_HERE,
    keep,
    keep_nothing,
    make_catalog,
    make_link,
    opened,
    screen_name,
    screen_text,
    told,
    until,
)
from tests.tui.fake_engine import FakeEngine, isolate, make_target, start_aisp, wait_for
from tests.tui.fakes import quick_run_events

TARGET = "ch07:transpose"


@pytest.fixture(autouse=True)
def state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("TZ", "UTC")
    return isolate(monkeypatch, tmp_path)


def bench(*words: str) -> Result:
    return CliRunner().invoke(cli, [*words])


def document(*words: str) -> Any:
    return json.loads(bench(*words, "--json").stdout)


def close_run(home: Path, target: str = TARGET, **changes: Any) -> Run:
    """A run of two rungs: `optimized` has the least median, and `optimized_wide` the greatest speed-up within turns."""
    run = finished(planned(target))
    base, arm = run.arms
    ratio = run.comparisons[0]
    arms = (
        base,
        replace(arm, median_ms=0.5, low_ms=0.49, high_ms=0.51),
        replace(arm, rung="optimized_wide", median_ms=0.501, low_ms=0.49, high_ms=0.51),
    )
    same = {"verdict": Verdict.SAME, "speedup": 1.99, "low": 1.9, "high": 2.1}
    comparisons = (replace(ratio, **same), replace(ratio, rung="optimized_wide", speedup=2.02, low=2.0, high=2.1))
    return keep(home, target, arms=arms, comparisons=comparisons, **changes)


# -- the last result ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", [State.UNAVAILABLE, State.INFRA_ERROR, State.CANCELLED, State.ENGINE_LOST])
def test_a_run_that_says_nothing_leaves_the_last_result_in_the_list_and_is_told_beside_it(
    how: State, tmp_path: Path, state: Path
) -> None:
    make_target(tmp_path / "mine", "one")
    good = keep(state, "mine:one", device="cpu", case="cpu", speedup=8.32)
    tried = keep_nothing(state, "mine:one", how)
    root = str(tmp_path / "mine")
    shown = bench("list", "--root", root)
    assert f"faster 8.32x (last try: {state_words(how)})" in shown.stdout
    (listed,) = document("list", "--root", root)["targets"]
    assert (listed["last"]["run_id"], listed["last"]["speedup"]) == (good.id, 8.32)
    last_try = {key: listed["last_try"][key] for key in ("run_id", "status", "reason")}
    assert last_try == {"run_id": tried.id, "status": how, "reason": NOT_HERE}


def test_of_a_target_that_never_began_the_list_says_what_was_tried(tmp_path: Path, state: Path) -> None:
    make_target(tmp_path / "mine", "one")
    keep_nothing(state, "mine:one")
    shown = bench("list", "--root", str(tmp_path / "mine"))
    assert "- (last try: not here)" in shown.stdout


def test_a_wrong_run_is_the_last_result_and_so_is_one_of_which_one_arm_was_judged(tmp_path: Path, state: Path) -> None:
    make_target(tmp_path / "mine", "one")
    make_target(tmp_path / "mine", "two")
    for target in ("mine:one", "mine:two"):
        keep(state, target, speedup=8.32)
    wrong: dict[str, Any] = {"correctness": Correctness.WRONG, "validity": Validity.UNKNOWN}
    keep_nothing(state, "mine:one", State.INCORRECT, **wrong)
    judged = finished(planned()).arms[:1]
    keep_nothing(state, "mine:two", State.INFRA_ERROR, arms=judged)
    last = {
        item["id"]: item["last"]["status"] for item in document("list", "--root", str(tmp_path / "mine"))["targets"]
    }
    assert last == {"mine:one": "incorrect", "mine:two": "infra_error"}


def test_a_run_that_never_began_takes_nobody_out_of_the_suite_or_the_page(tmp_path: Path, state: Path) -> None:
    make_target(tmp_path / "mine", "one")
    root = str(tmp_path / "mine")
    good = keep(state, "mine:one", device="cpu", case="cpu", speedup=2.0)
    keep_nothing(state, "mine:one", device="cuda")
    suite = document("score", "--root", root)
    assert [result["run_id"] for result in suite["results"]] == [good.id]
    page = document("dev", "results", "--root", root)
    assert (page["on"], [run["run_id"] for run in page["targets"][0]["runs"]]) == ("a CPU", [good.id])


async def test_a_run_that_never_began_leaves_the_last_result_on_the_first_screen(tmp_path: Path, state: Path) -> None:
    keep(state, speedup=8.32, wall="2026-05-04T10:00:00+00:00")
    keep_nothing(state, wall="2026-05-05T10:00:00+00:00")
    async with opened(tmp_path, size=(120, 40), link=make_link(told=False)) as (app, pilot):
        await until(pilot, lambda: app.board)
        app.screen.table.move_to(f"target {TARGET}")  # type: ignore[attr-defined]
        await pilot.pause()
        assert "▲ 8.32" in screen_text(app)
        about = app.screen.copy_text()  # type: ignore[attr-defined]
        assert "Last run 2026-05-04" in about
        assert f"Last try 2026-05-05 10:00: not here: {NOT_HERE}" in about
        await pilot.press("enter")
        await until(pilot, lambda: "82 %" in screen_text(app))
        assert "last try: not here" in screen_text(app)


@pytest.mark.parametrize("how", ["unavailable", "cancelled"])
async def test_a_live_run_that_never_began_leaves_the_last_result_on_the_first_screen(how: str, tmp_path: Path) -> None:
    link = make_link(told=False)
    async with opened(tmp_path, size=(120, 40), link=link) as (app, pilot):
        link.push(*quick_run_events(target="ch05:collate", run_id="09A"))
        await until(pilot, lambda: "▲ 2.31" in screen_text(app))
        began, *_, end = quick_run_events(target="ch05:collate", run_id="09B")
        assert isinstance(end, events.RunFinished)
        link.push(*heard.whole([began, heard.finished(run_id="09B", state=how, duration_ms=1.0, reason=NOT_HERE)]))
        app.screen.table.move_to("target ch05:collate")  # type: ignore[attr-defined]
        await until(pilot, lambda: "Last try" in screen_text(app))
        assert "▲ 2.31" in screen_text(app)
        assert NOT_HERE in " ".join(app.screen.copy_text().split())  # type: ignore[attr-defined]


async def test_what_could_not_run_here_is_told_and_the_others_of_the_chapter_go_on(tmp_path: Path) -> None:
    def answer(request: Any) -> events.Reply:
        return events.Reply(to=request.seq, run_ids=["NEW1"], refused={"ch07:scan": "needs sm_100"})

    link = make_link(told=False, replies={requests.StartRuns: answer})
    async with opened(tmp_path, size=(120, 40), link=link) as (app, pilot):
        app.screen.table.move_to("chapter ch07")  # type: ignore[attr-defined]
        await pilot.press("r")
        await until(pilot, lambda: screen_name(app) == "ConfirmScreen")
        await pilot.press("enter")
        await until(pilot, lambda: "not run: needs sm_100" in told(app))
        assert "ch07:scan" in told(app)


def test_a_target_of_several_that_cannot_run_here_is_named_and_a_named_one_ends_with_3(tmp_path: Path) -> None:
    for name in ("one", "two"):
        make_target(tmp_path / "mine", name)
    root = str(tmp_path / "mine")
    with FakeEngine() as engine:
        engine.not_here["mine:two"] = "needs sm_100; here is a CPU"
        everything = bench("run", "--root", root, "--targets", "all")
        by_name = bench("run", "--root", root, "--targets", "mine:one,mine:two")
    assert (everything.exit_code, by_name.exit_code) == (0, 3)
    for shown in (everything, by_name):
        assert "aisp: mine:two: not run: needs sm_100; here is a CPU" in shown.stderr
        assert "=> faster" in shown.stdout


# -- the rung that a run is about --------------------------------------------------------------------------------------


async def test_the_app_and_the_command_line_say_the_same_rung_of_a_close_run(tmp_path: Path, state: Path) -> None:
    catalog = make_catalog(tmp_path)
    run = close_run(state)
    (row,) = [line for line in bench("history", TARGET).stdout.splitlines() if run.id in line]
    assert "optimized_wide" in row and "2.02x" in row
    assert "=> faster 2.02x [2.00..2.10] by optimized_wide" in bench("history", run.id).stdout
    async with opened(tmp_path / "app", size=(120, 40), catalog=catalog, link=make_link(told=False)) as (app, pilot):
        await until(pilot, lambda: app.board)
        assert "▲ 2.02" in screen_text(app)
        app.open_screen("run", run_id=run.id)
        await until(pilot, lambda: "optimized_wide ▲ 2.02× faster" in screen_text(app))


def test_the_list_of_targets_says_the_rung_of_the_greatest_speed_up(tmp_path: Path, state: Path) -> None:
    make_target(tmp_path / "mine", "one")
    close_run(state, "mine:one")
    (listed,) = document("list", "--root", str(tmp_path / "mine"))["targets"]
    assert (listed["last"]["rung"], listed["last"]["speedup"]) == ("optimized_wide", 2.02)


# -- predictions -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "met", "here"),
    [
        ({}, True, "met, 2.00x"),
        ({"speedup": 1.2, "verdict": Verdict.FASTER}, False, "missed, 1.20x is less"),
        ({"validity": Validity.SUSPECT, "verdict": Verdict.NONE}, None, "not answered, 2.00x is suspect"),
        ({"manifest": {"validity": "portable"}}, None, "not answered, 2.00x with the policy portable"),
    ],
    ids=["valid", "missed", "suspect", "portable"],
)
async def test_the_app_the_command_and_the_page_agree_whether_a_prediction_came_true(
    changes: dict[str, Any], met: bool | None, here: str, tmp_path: Path, state: Path
) -> None:
    make_target(tmp_path / "ch07", "transpose", on="H100")
    keep(state, folder=tmp_path / "ch07" / "transpose", **changes)
    root = str(tmp_path / "ch07")
    (found,) = document("dev", "expectations", "--root", root)["targets"]
    (page,) = document("dev", "results", "--on", "H100", "--root", root)["targets"]
    assert (found["met"], page["met"]) == (met, met)
    catalog = make_catalog(tmp_path / "app")
    async with opened(tmp_path, size=(120, 40), catalog=catalog, link=make_link(told=False)) as (app, pilot):
        await until(pilot, lambda: app.board)
        app.screen.table.move_to(f"target {TARGET}")  # type: ignore[attr-defined]
        await until(pilot, lambda: here in " ".join(app.screen.copy_text().split()))  # type: ignore[attr-defined]


async def test_the_app_looks_at_the_runs_that_the_command_looks_at(tmp_path: Path, state: Path) -> None:
    """A failed run, one of another case and one on the CPU do not take back what a run on that hardware has said."""
    keep(state)
    keep(state, case="large", speedup=9.0)
    keep(state, device="cpu", case="cpu", speedup=7.0)
    keep_nothing(state, how=State.USER_ERROR)
    make_target(tmp_path / "ch07", "transpose", on="H100")
    (found,) = document("dev", "expectations", "--root", str(tmp_path / "ch07"))["targets"]
    assert (found["met"], found["measured"]["speedup"]) == (True, 2.0)
    catalog = make_catalog(tmp_path / "app")
    async with opened(tmp_path, size=(120, 40), catalog=catalog, link=make_link(told=False)) as (app, pilot):
        await until(pilot, lambda: app.board)
        app.screen.table.move_to(f"target {TARGET}")  # type: ignore[attr-defined]
        await until(pilot, lambda: "met, 2.00x" in " ".join(app.screen.copy_text().split()))  # type: ignore[attr-defined]


# -- edits -------------------------------------------------------------------------------------------------------------


def test_a_suspect_edit_is_never_the_best_and_an_overlap_is_no_change(tmp_path: Path) -> None:
    make_target(tmp_path / "mine", "one")
    with FakeEngine() as engine:
        process = start_aisp("watch", "mine:one", "--root", str(tmp_path / "mine"), "--json")
        wait_for(lambda: bool(engine.asked(requests.StartWatch)), "the watch")
        assert process.stdout is not None
        edits = []
        for number, outcome in enumerate(("ok", "suspect", "ok")):
            engine.edit("mine:one", number, files=["optimized.py"], outcome=outcome)
            edits.append(json.loads(process.stdout.readline()))
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    good, suspect, again = edits
    assert good["best_ms"] is not None
    assert (suspect["best_ms"], suspect["change_to_best"]) == (None, None)
    assert (again["change_to_previous"], again["change_to_best"]) == (0.0, 0.0)
    assert (again["differs_from_previous"], again["differs_from_best"]) == (False, False)
