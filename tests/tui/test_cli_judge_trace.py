"""`aisp judge` with SOL-ExecBench and FlashInfer trace: a folder is listed, and a solution finds its problem."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from aisp.engine.protocol import requests
from aisp.tui.cli.tree import cli
from tests.engine.harness import EngineUnderTest
from tests.kernels.formats import trace as text
from tests.tui.fake_engine import FakeEngine, aisp, isolate
from tests.tui.test_cli_judge import environment


def judge(*words: object) -> Result:
    return CliRunner().invoke(cli, ["judge", *map(str, words)])


def test_a_solution_is_judged_against_a_folder_of_problems(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    isolate(monkeypatch, tmp_path)
    text.sol(tmp_path / "sol")
    answer = text.written_to(tmp_path, text.solution(), "mine.json")
    with FakeEngine() as engine:
        done = judge(answer, "--against", tmp_path / "sol", "--case", "33333333", "--device", "cpu")
    assert done.exit_code == 0, done.output
    (asked,) = engine.asked(requests.StartRuns)
    assert (asked.targets, asked.case) == (["gated_norm_h32:mine"], "33333333")
    (root,) = map(Path, asked.roots)
    assert (root / "lesson.md").is_file()
    with FakeEngine():
        assert "no case 'absent'" in judge(answer, "--against", tmp_path / "sol", "--case", "absent").output


def test_a_folder_is_listed_and_a_problem_is_shown_with_what_to_mind(tmp_path: Path) -> None:
    definition, other = text.sol(tmp_path / "sol"), text.flashinfer(tmp_path / "data")
    for folder, path in ((tmp_path / "sol", definition), (tmp_path / "data", other)):
        (one,) = json.loads(judge(folder, "--json").stdout)["problems"]
        assert (one["name"], one["path"], one["reason"]) == ("gated_norm_h32", str(path), None)
    shown = json.loads(judge(definition.parent, "--json").stdout)
    assert shown["outputs"]["out"] == "bfloat16 [rows * inner]"
    notes = "\n".join(shown["notes"])
    assert "norm_weight is exactly 1 in every set" in notes
    assert "--case 22222222: rows=24" in notes


def test_a_solution_whose_problem_is_not_there_is_wrong_usage(tmp_path: Path) -> None:
    definition = text.sol(tmp_path / "sol")
    answer = text.written_to(tmp_path, text.solution(definition="another"))
    done = judge(answer, "--against", definition)
    assert (done.exit_code, "it answers 'another', and the problem is 'gated_norm_h32'" in done.output) == (2, True)
    done = judge(answer, "--against", tmp_path / "sol")
    assert (done.exit_code, f"answers 'another', which is not among the problems in {tmp_path}" in done.output) == (
        2,
        True,
    )
    alone = judge(answer)
    assert (alone.exit_code, " --against PROBLEM`" in alone.output) == (2, True)


@pytest.mark.slow
async def test_a_folder_of_solutions_is_judged_one_by_one_and_a_run_is_written_as_a_trace(
    shared: EngineUnderTest, tmp_path: Path
) -> None:
    text.sol(tmp_path / "sol")
    answers = tmp_path / "answers"
    for name in ("right", "zeros"):
        text.written_to(answers / "norm", text.solution(text.ANSWERS[name], name=name), f"{name}.json")
    text.written_to(answers, text.solution(definition="elsewhere"), "lost.json")
    words = ("--against", str(tmp_path / "sol"), "--quick", "--device", "cpu", "--json")
    shown = aisp("judge", str(answers), *words, env=environment(shared))
    rows = {row["candidate"]: row for row in map(json.loads, shown.stdout.splitlines()) if "candidate" in row}
    assert set(rows) == {"norm/right.json", "norm/zeros.json", "lost.json"}, shown.stderr
    assert [rows[f"norm/{name}.json"]["right"] for name in ("right", "zeros")] == [True, False]
    assert "it names a problem that is not in" in rows["lost.json"]["outcome"]["why"]
    run_id = rows["norm/zeros.json"]["outcome"]["run_id"]
    written = aisp("export", run_id, "--trace", env=environment(shared))
    lines = {line["solution"]: line for line in map(json.loads, written.stdout.splitlines())}
    line = lines["zeros"]
    assert (line["definition"], line["workload"]["uuid"]) == ("gated_norm_h32", "11111111-aaaa")
    assert line["evaluation"]["status"] == "INCORRECT_NUMERICAL"
