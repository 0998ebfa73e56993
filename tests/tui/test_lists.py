"""A list is a table of columns: JSON, terminal, screen, copies and docs draw the same ones."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from aisp.store.results.reading import Reading
from aisp.store.results.tables import as_json
from aisp.store.results.tables.runs import Listed
from aisp.tui.cli.tree import cli
from aisp.tui.screens import lessons as lessons_screen
from aisp.tui.screens.jobs import columns_for
from tests.lists import LISTS, page
from tests.tui.fake_engine import MAIN, FakeEngine, isolate, make_target, remember

HOMES = (
    *("list_targets", "expectations", "agreed", "beside", "jobs", "checks", "compare", "results"),
    *("roofline", "suite", "suite_history", "suite_rows"),
    *("suite_run", "fuzz", "history", "audit", "contract", "doctor", "fleet", "judge", "judge_many", "judge_runs"),
    *("lint", "mcp", "store", "tune"),
)


def keys_of(place: str) -> list[str]:
    return [column.key for column in LISTS[place] if column.value is not None]


def test_the_page_of_keys_is_what_the_columns_say() -> None:
    assert (MAIN / "docs/lists.md").read_text("utf-8") == "\n".join(page()) + "\n"


@pytest.mark.parametrize("place", LISTS)
def test_each_key_of_a_list_is_one_column_with_a_meaning(place: str) -> None:
    keys = [column.key for column in LISTS[place]]
    assert len(keys) == len(set(keys))
    assert [column.key for column in LISTS[place] if column.value is not None and not column.means] == []


@pytest.mark.parametrize("place", ["list: targets", "list --predictions: lessons", "dev expectations: targets"])
def test_a_row_of_json_has_the_keys_of_the_columns(place: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    state = isolate(monkeypatch, tmp_path)
    make_target(tmp_path / "mine", "one", on="H100")
    remember(state, "mine:one", device="cuda", case="default", environment={"gpu": "NVIDIA H100 80GB HBM3"})
    words, _, key = place.partition(": ")
    shown = CliRunner().invoke(cli, [*words.split(), "--root", str(tmp_path / "mine"), "--json"])
    (row,) = json.loads(shown.stdout)[key]
    assert list(row) == keys_of(place)


def test_a_run_of_the_history_has_in_json_what_its_columns_say(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    run = remember(isolate(monkeypatch, tmp_path), "mine:one", environment={"gpu": "NVIDIA H100 80GB HBM3"})
    (row,) = json.loads(CliRunner().invoke(cli, ["history", "mine:one", "--json"]).stdout)["runs"]
    assert {key: row[key] for key in keys_of("history: runs")} == as_json(LISTS["history: runs"], Listed(Reading(run)))


def test_a_rung_of_a_fuzz_has_in_json_what_its_columns_say(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    isolate(monkeypatch, tmp_path)
    make_target(tmp_path / "mine", "one")
    with FakeEngine() as engine:
        engine.fuzzes["mine:one"] = "wrong"
        found = json.loads(CliRunner().invoke(cli, ["fuzz", str(tmp_path / "mine" / "one"), "--json"]).stdout)
    assert [list(row) for row in found["rungs"]] == [keys_of("fuzz: rungs")]
    assert set(keys_of("fuzz: failures")) < found["failures"][0].keys()


def test_a_screen_draws_columns_of_its_list() -> None:
    drawn = {column.key for column in lessons_screen.columns_for(250, 20)[0]}
    assert drawn - {"bar", "interval"} <= {column.key for column in LISTS["list --predictions: lessons"]}
    assert {column.key for column in columns_for(250)} <= {column.key for column in LISTS["jobs: jobs"]}


@pytest.mark.parametrize("home", HOMES)
def test_no_list_has_a_document_written_by_hand(home: str) -> None:
    text = (MAIN / f"tui/cli/{home}.py").read_text("utf-8")
    assert re.findall(r"def \w*_document\(", text) == []


def test_nothing_of_the_app_imports_the_command_line() -> None:
    files = [path for path in (MAIN / "tui").rglob("*.py") if "cli" not in path.parts and path.name != "start.py"]
    assert len(files) > 50
    for path in files:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            assert not any(name.startswith("aisp.tui.cli") for name in names), path
