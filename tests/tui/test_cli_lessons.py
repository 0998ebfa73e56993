"""`aisp list --predictions`: the page of all lessons for scripts and plain terminals, and its picture."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from aisp.store.outcomes import State, Validity
from aisp.tui.cli.tree import cli
from tests.tui.fake_engine import isolate, make_target, remember

H100: dict[str, object] = {"host": "atlas", "gpu": "NVIDIA H100 80GB HBM3", "gpu_uuid": "GPU-1"}


@pytest.fixture(autouse=True)
def state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    return isolate(monkeypatch, tmp_path)


@pytest.fixture
def root(tmp_path: Path, state: Path) -> str:
    """A collection of three lessons: one fast, one doubted, one that never ran."""
    folder = tmp_path / "mine"
    for name in ("fast", "doubted", "fresh"):
        make_target(folder, name)
    on_h100 = {"device": "cuda", "environment": H100, "case": "default"}
    remember(state, "mine:fast", speedup=4.0, **on_h100)
    remember(state, "mine:doubted", speedup=9.0, validity=Validity.SUSPECT, **on_h100)
    return str(folder)


def lessons(root: str, *words: str) -> Result:
    return CliRunner().invoke(cli, ["list", "--predictions", "--root", root, *words])


def test_every_lesson_has_a_row_and_no_figure_stands_where_it_is_no_result(root: str) -> None:
    found = {row["target"]: row for row in json.loads(lessons(root, "--json").stdout)["lessons"]}
    assert [found[f"mine:{name}"]["outcome"] for name in ("fast", "doubted", "fresh")] == [
        "faster",
        "suspect",
        "not run",
    ]
    assert found["mine:fast"]["speedup"] == 4.0
    assert (found["mine:doubted"]["speedup"], found["mine:doubted"]["sol"]) == (None, None)
    table = lessons(root).stdout
    assert "4.00x [3.92..4.08]" in table
    assert "9.00" not in table


def test_order_choice_and_words(root: str) -> None:
    def shown(*words: str) -> list[str]:
        return [row["target"] for row in json.loads(lessons(root, "--json", *words).stdout)["lessons"]]

    assert shown("--sort", "speed-up")[0] == "mine:fast"
    assert shown("--only", "not-run") == ["mine:fresh"]
    assert shown("--only", "failed-or-doubted") == ["mine:doubted"]
    assert shown("--filter", "H100 faster") == ["mine:fast"]


def test_nothing_left_is_status_1_and_says_what_shows_all(root: str) -> None:
    found = lessons(root, "--filter", "nonesuch")
    assert found.exit_code == 1
    assert "`aisp list --predictions` shows all" in found.stdout


@pytest.mark.parametrize(
    ("option", "form", "begins"),
    [("-o", "svg", b"<?xml"), ("-o", "png", b"\x89PNG"), ("--svg", "svg", b"<?xml"), ("--png", "png", b"\x89PNG")],
)
def test_the_picture_is_drawn_beside_the_table(
    root: str, tmp_path: Path, option: str, form: str, begins: bytes
) -> None:
    pytest.importorskip("matplotlib")
    file = tmp_path / f"all.{form}"
    assert lessons(root, option, str(file)).exit_code == 0
    assert file.read_bytes().startswith(begins)
    assert len(file.read_bytes()) > 10_000
    refused = lessons(root, option, str(tmp_path / "none" / file.name))
    assert refused.exit_code == 2
    assert "cannot be written" in refused.stderr


def test_a_renamed_lesson_keeps_its_results_in_every_list(root: str, state: Path) -> None:
    (Path(root) / "fast").rename(Path(root) / "quick")
    lesson = Path(root) / "quick" / "lesson.md"
    lesson.write_text(lesson.read_text().replace("+++\n", '+++\nformerly = ["mine:fast"]\n', 1))
    (found,) = json.loads(lessons(root, "--json", "--filter", "quick faster").stdout)["lessons"]
    assert (found["target"], found["speedup"]) == ("mine:quick", 4.0)

    def listed() -> dict[str, Any]:
        rows = json.loads(CliRunner().invoke(cli, ["list", "--root", root, "--json"]).stdout)["targets"]
        return next(row for row in rows if row["id"] == "mine:quick")

    assert listed()["last"]["speedup"] == 4.0
    again = remember(state, "mine:quick", speedup=3.0)
    assert listed()["last"]["run_id"] == again.id
    assert listed()["last_try"] is None
    remember(state, "mine:fast", state=State.UNAVAILABLE)
    assert listed()["last_try"]["status"] == "unavailable"
