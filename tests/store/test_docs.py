"""docs/store.md tells the truth: every example is run, every table and column is named."""

from __future__ import annotations

import contextlib
import io
import os
import re
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from store import Store
from store.outcomes import State
from tests.store.examples import finished, planned, samples_of

PAGE = (Path(__file__).parents[2] / "docs" / "store.md").read_text()
EXAMPLES = re.findall(r"```(sh|python)\n(.*?)```\n```text\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The state folder that the page speaks of, as the working directory."""
    with Store.open(tmp_path / "aisp.db") as store:
        files = {"baseline.py": b"def run(x): return x\n", "optimized.py": b"def run(x): ...\n"}
        snapshot = store.put_snapshot(files)
        runs = [
            planned(id="01J00000000000000000000001", snapshot=snapshot),
            planned(id="01J00000000000000000000002", target="ch14:rmsnorm", seq=8),
        ]
        store.plan(runs)
        for run in runs:
            store.finish(finished(run, samples=6), {"baseline": samples_of(6), "optimized": samples_of(6, 1)})
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
    return tmp_path


def said(kind: str, code: str) -> str:
    if kind == "python":
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            exec(compile(code, "docs/store.md", "exec"), {})  # noqa: S102 - our own page, which is under test
        return output.getvalue()
    done = subprocess.run(["sh", "-e", "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(("kind", "code", "expected"), EXAMPLES, ids=range(len(EXAMPLES)))
def test_an_example_prints_what_the_page_says(state: Path, kind: str, code: str, expected: str) -> None:
    lines = [line.rstrip() for line in said(kind, code).strip().splitlines()]
    assert lines == [line.rstrip() for line in expected.strip().splitlines()]


def test_the_page_has_examples_for_a_shell_and_for_python() -> None:
    assert sorted(kind for kind, _, _ in EXAMPLES) == ["python", "python", "sh", "sh", "sh", "sh"]


def test_every_table_and_every_column_of_runs_is_explained(state: Path) -> None:
    with sqlite3.connect(state / "aisp.db") as connection:
        tables = {
            row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        }
        columns = {row[1] for row in connection.execute("PRAGMA table_info(runs)").fetchall()}
    connection.close()
    explained = {
        name.strip() for heading in re.findall(r"^### (.*)$", PAGE, re.MULTILINE) for name in heading.split(",")
    }
    assert explained == tables
    section = PAGE.split("### runs")[1].split("###")[0]
    assert columns <= set(re.findall(r"`(\w+)`", section))


def test_every_state_is_named() -> None:
    section = PAGE.split("## States")[1].split("##")[0]
    assert set(re.findall(r"[a-z_]+", section.split("```")[1])) - {"text"} == {state.value for state in State}
