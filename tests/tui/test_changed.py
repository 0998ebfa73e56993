"""A record that was rewritten behind the store's back is shown as changed by every command and every screen."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner

from aisp.engine import paths
from aisp.tui.cli.tree import cli
from tests.tui.app_support import fill_store, make_link, opened, screen_name, screen_text, until
from tests.tui.fake_engine import remember
from tests.tui.test_app_screens import highlight

WORDS = "changed since it was written"
FIGURES = ("3.00x", "0.3333", "0.000001", "98.3", "1.000", "1.00e-06")


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AISP_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("AISP_CONFIG", str(tmp_path / "settings.toml"))
    monkeypatch.setenv("TZ", "UTC")


def rewrite(run_id: str) -> None:
    """Make a stored run a million times as fast, by other means than the store's."""
    with closing(sqlite3.connect(paths.database_file())) as connection, connection:
        for column in ("median_ms", "low_ms", "high_ms"):
            connection.execute(
                f"UPDATE arms SET {column} = 0.000001 WHERE run = (SELECT number FROM runs WHERE id = ?)", [run_id]
            )


def bench(*words: str, status: int = 0) -> str:
    """What a command says; its exit status is `status`."""
    done = CliRunner().invoke(cli, [*words], terminal_width=200)
    assert done.exit_code == status, done.output
    return str(done.stdout)


def test_commands_show_a_changed_run_without_its_figures() -> None:
    *_, newest = fill_store("ch07:transpose", runs=1)
    rewrite(newest)
    for words, status in (
        (("history", "ch07:transpose"), 0),
        (("history", newest), 0),
        (("compare", newest, newest), 1),
        (("score",), 1),
    ):
        said = CliRunner().invoke(cli, [*words])
        assert said.exit_code == status, said.output
        assert WORDS in said.output, words
        assert not [figure for figure in FIGURES if figure in said.output], said.output


def test_json_says_so_in_its_status() -> None:
    *_, newest = fill_store("ch07:transpose", runs=1)
    rewrite(newest)
    (listed,) = json.loads(bench("history", "ch07:transpose", "--json"))["runs"]
    whole = json.loads(bench("history", newest, "--json"))
    for run in (listed, whole):
        assert (run["status"], run["verdict"], run["validity"]) == (WORDS, "none", "unknown")
        assert "`aisp store --verify`" in run["reason"]
        assert (run["arms"], run["comparisons"]) == ([], [])
    compared = json.loads(bench("compare", newest, newest, "--json", status=1))
    assert compared["a"]["status"] == compared["b"]["status"] == WORDS


def test_a_list_of_targets_and_a_page_of_results_show_it_too() -> None:
    state = paths.database_file().parent
    rewrite(remember(state, "ch01:batching", speedup=3.0).id)
    listed = json.loads(bench("list", "--json"))["targets"]
    last = next(one["last"] for one in listed if one["id"] == "ch01:batching")
    assert (last["status"], last["median_ms"], last["speedup"], last["verdict"]) == (WORDS, None, None, "none")
    (line,) = [line for line in bench("list").splitlines() if "ch01:batching" in line]
    assert WORDS in line
    document = json.loads(bench("dev", "results", "--json"))
    (run,) = document["targets"][0]["runs"]
    assert (run["state"], run["rungs"], run["speedup"]) == (WORDS, [], None)
    page = bench("dev", "results")
    assert page.count(WORDS) == 2 and not [figure for figure in FIGURES if figure in page]


@pytest.mark.slow
async def test_screens_show_a_changed_run_without_its_figures(tmp_path: Path) -> None:
    *_, newest = fill_store(runs=4)
    rewrite(newest)
    async with opened(tmp_path, size=(200, 50), link=make_link(told=False)) as (app, pilot):
        highlight(app)
        await until(pilot, lambda: f"{WORDS}: its digest" in screen_text(app))
        assert "3.00x" not in screen_text(app)
        await pilot.press("enter")
        await until(pilot, lambda: screen_name(app) == "LessonScreen" and "optimized" in screen_text(app))
        await until(pilot, lambda: "the last run was changed since" in screen_text(app))
        assert not [figure for figure in FIGURES if figure in screen_text(app)]
        await pilot.press("escape", "t")
        await until(pilot, lambda: "2026-05-04" in screen_text(app))
        (line,) = [line for line in screen_text(app).splitlines() if "2026-05-04" in line]
        assert "changed" in line and WORDS in screen_text(app)
        assert not [figure for figure in FIGURES if figure in line]
        await pilot.press("enter")
        await until(pilot, lambda: f"{WORDS}: its digest" in screen_text(app))
        assert "0.000" not in screen_text(app)
        await pilot.press("v")
        await until(pilot, lambda: screen_name(app) == "TrustScreen" and f"{WORDS}: its digest" in screen_text(app))
