"""docs/store.md tells the truth: every example is run, every table and column is named."""

from __future__ import annotations

import contextlib
import io
import os
import re
import sqlite3
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from aisp.store import Store
from aisp.store.outcomes import State
from aisp.store.record import LinkUse, Naive, Quality, RooflineBound
from tests.replacing import replace
from tests.store.examples import caught, finding, fuzz_of, measured, peak_of, planned, samples_of, telemetry_of

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
            taken = {"baseline": samples_of(6), "optimized": samples_of(6, 1)}
            end = measured(run, samples=6)
            naive = Naive(base_ms=1.02, time_ms=0.49, accepts=True)
            findings = tuple(finding("timing.wall_clock", arm.rung, evidence="0.50 ms and 0.52 ms") for arm in end.arms)
            end = replace(end, arms=(end.arms[0], replace(end.arms[1], naive=naive)), findings=findings)
            store.finish(end, taken, telemetry_of(3))
        store.finish(
            caught(planned(id="01J00000000000000000000003", target="mine:softmax", folder=b"/home/ada/mine")), {}
        )
        store.put_peak(peak_of(id="01J00000000000000000000000"))
        fuzz, failures = fuzz_of("01J00000000000000000000010")
        named = {failure.id: f"01J000000000000000000000{number}" for number, failure in enumerate(failures, 11)}
        rungs = tuple(replace(rung, failures=tuple(named[each] for each in rung.failures)) for rung in fuzz.rungs)
        store.put_fuzz(replace(fuzz, rungs=rungs), [replace(failure, id=named[failure.id]) for failure in failures])
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
    assert Counter(kind for kind, _, _ in EXAMPLES) == {"python": 8, "sh": 10}


def test_every_table_and_every_column_is_explained(state: Path) -> None:
    with sqlite3.connect(state / "aisp.db") as connection:
        tables = {
            row[0]
            for row in connection.execute("SELECT name FROM sqlite_master WHERE type IN ('table', 'view')").fetchall()
        }
        columns = {
            table: {row[1] for row in connection.execute(f"PRAGMA table_info({table})").fetchall()} for table in tables
        }
    connection.close()
    parts = re.split(r"^#{2,3} (.*)$", PAGE, flags=re.MULTILINE)
    sections = {
        name.strip(): text
        for heading, text in zip(parts[1::2], parts[2::2], strict=True)
        for name in heading.split(",")
    }
    headings = re.findall(r"^### (.*)$", PAGE, re.MULTILINE)
    assert {name.strip() for heading in headings for name in heading.split(",")} == tables
    for table in tables:
        named = set(re.findall(r"`([a-z_0-9]+)`", sections[table]))
        assert columns[table] - named == set(), table


def test_every_member_of_light_quality_and_naive_is_explained() -> None:
    section = PAGE.split("### arms")[1].split("###")[0]
    members = {*RooflineBound.__slots__, *LinkUse.__slots__, *Quality.__slots__, *Naive.__slots__}
    assert members <= set(re.findall(r"`(\w+)`", section))


def test_every_state_is_named() -> None:
    section = PAGE.split("## States")[1].split("##")[0]
    assert set(re.findall(r"[a-z_]+", section.split("```")[1])) - {"text"} == {
        state.value for state in State if state.stored
    }
