"""`aisp judge`: one Python file from the command line to its verdict, by the real engine on the CPU."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from aisp.engine.protocol import events, requests
from aisp.tui.cli.tree import cli
from tests.engine.harness import EngineUnderTest
from tests.kernels.formats import kernelbench, robust
from tests.tui.fake_engine import FakeEngine, aisp, isolate

SUMS = '''\
"""Sums of rows."""

import torch

axes = {"M": 4096, "N": 8192}
cases = [{"name": "cpu", "axes": {"M": 512, "N": 512}}]


def in_order(x):
    total = torch.zeros(x.shape[0], dtype=x.dtype)
    for column in range(x.shape[1]):
        total += x[:, column]
    return total


def reference(x: "float32 [M, N] normal") -> "float32 [M]":
    return x.sum(-1)


def baseline(x):
    return in_order(x)


def optimized(x):
    return x.sum(-1)


def optimized_last(x):
    last = x[:, -1]
    return x[:, :-1].sum(-1) + last
'''


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "sums.py"
    path.write_text(SUMS)
    return path


def judge(file: Path, *words: str) -> Result:
    return CliRunner().invoke(cli, ["judge", str(file), *words])


# -- with an engine that plays a script --------------------------------------------------------------------------------


def test_the_engine_is_asked_for_the_target_that_the_file_is(
    file: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    isolate(monkeypatch, tmp_path)
    with FakeEngine() as engine:
        shown = judge(file, "--quick", "--rungs", "optimized_last", "--device", "cpu", "--json")
    assert shown.exit_code == 0, shown.output
    (found,) = map(json.loads, shown.stdout.splitlines())
    assert (found["target"], found["status"], found["verdict"]) == ("sums:sums", "ok", "faster")
    (asked,) = engine.asked(requests.StartRuns)
    assert (asked.roots, asked.targets, asked.rungs) == ([str(file)], ["sums:sums"], ["optimized_last"])
    assert (asked.quick, asked.device, asked.trigger) == (True, "cpu", "cli")


def test_a_folder_of_problems_is_listed_and_a_problem_is_shown(tmp_path: Path) -> None:
    answer, problem = kernelbench.written(tmp_path, kernelbench.LAYER, kernelbench.REORDERED)
    listed = judge(tmp_path, "--json")
    document = json.loads(listed.stdout)
    (one,) = document["problems"]
    where = {"format": "kernelbench", "path": str(problem), "reason": None}
    assert one == {"level": 1, "number": 12, "name": "Of ours"} | where
    assert document["formats"] == {"kernelbench": 1}
    assert "1 problem: KernelBench 1" in judge(tmp_path).stdout
    shown = json.loads(judge(problem, "--json").stdout)
    assert (shown["weights"], shown["inputs"]["x"]) == (
        True,
        "what get_inputs makes; a run sees it when it makes the first",
    )
    assert f"aisp judge CANDIDATE --against {problem}" in judge(problem).stdout
    alone = judge(answer)
    assert (alone.exit_code, f"`aisp run {answer} --against PROBLEM`" in alone.output) == (2, True)


def test_a_pair_that_cannot_be_judged_is_wrong_usage_with_its_lines(
    tmp_path: Path, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    isolate(monkeypatch, tmp_path)
    answer, problem = kernelbench.written(tmp_path, kernelbench.SIDE_EFFECT, kernelbench.MATMUL_NEW)
    shown = judge(answer, "--against", str(problem))
    assert (shown.exit_code, "line 5: print('loaded') has an effect of its own" in shown.output) == (2, True)
    assert "has an effect" in judge(file, "--against", str(problem)).output
    problem.write_text(kernelbench.MATMUL)
    assert "sums.py: has no class ModelNew" in judge(file, "--against", str(problem)).output
    told = judge(answer, "--against", str(answer)).output
    assert "answer.py is no problem; formats that are read: " in told
    empty = tmp_path / "empty"
    empty.mkdir()
    assert "holds no targets" in judge(empty).output


def test_a_file_that_is_no_target_is_wrong_usage_with_its_lines(file: Path) -> None:
    file.write_text(SUMS.replace(' -> "float32 [M]"', "").replace("import torch\n", "import torch\nprint()\n"))
    shown = judge(file)
    assert shown.exit_code == 2
    assert "sums.py: line 4: print() has an effect of its own" in shown.output
    file.write_text(SUMS.replace(' -> "float32 [M]"', ""))
    done = aisp("judge", str(file), "--json")
    (told,) = map(json.loads, done.stdout.splitlines())
    assert (done.returncode, told["error"]["kind"]) == (2, "broken")
    assert "line 16: reference does not say what it returns; write def reference(" in told["error"]["text"]


@pytest.mark.parametrize(("words", "told"), [(["--rungs", "fast"], "has no rung 'fast'"), (["--case", "x"], "no case")])
def test_a_rung_or_case_that_is_not_there_is_wrong_usage(file: Path, words: list[str], told: str) -> None:
    shown = judge(file, *words)
    assert (shown.exit_code, told in shown.output) == (2, True)


def test_a_diff_of_two_rungs_of_a_file_shows_the_idea_alone(file: Path) -> None:
    shown = CliRunner().invoke(cli, ["diff", str(file), "optimized", "optimized_last"])
    assert shown.exit_code == 0
    lines = [line for line in shown.stdout.splitlines() if re.match(r"[-+](?![-+])", line)]
    assert lines == ["-    return x.sum(-1)", "+    last = x[:, -1]", "+    return x[:, :-1].sum(-1) + last"]


# -- with the real one -------------------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_a_file_of_three_functions_gets_a_verdict(shared: EngineUnderTest, file: Path) -> None:
    shown = aisp("judge", str(file), "--quick", "--device", "cpu", "--json", env=environment(shared))
    (found,) = map(json.loads, shown.stdout.splitlines())
    arms = {arm["rung"]: arm for arm in found["arms"]}
    assert (found["target"], found["case"], found["status"], found["correctness"]) == (
        "sums:sums",
        "cpu",
        "ok",
        "correct",
    )
    assert arms["optimized"]["median_ms"] < arms["baseline"]["median_ms"]  # one kernel against 512
    assert arms["optimized"]["sol"] is None
    with shared.history() as history:
        record = history.run(found["run_id"])
        assert Path(bytes(record.folder).decode()) == file
        files = history.snapshot(record.snapshot)
    assert set(files) == {"lesson.md", "reference.py", "baseline.py", "optimized.py", "optimized_last.py"}
    assert b"in_order" not in files["reference.py"]
    assert shown.returncode in (0, 1)  # 1 where a busy machine made the times suspect


@pytest.mark.slow
async def test_this_folder_and_a_file_in_it_run_by_their_paths_and_again_as_the_export_says(
    shared: EngineUnderTest, file: Path
) -> None:
    for word in (".", file.name):
        shown = aisp("run", word, "--quick", "--device", "cpu", "--json", env=environment(shared), cwd=file.parent)
        (found,) = map(json.loads, shown.stdout.splitlines())
        assert (found["target"], found["correctness"]) == ("sums:sums", "correct"), shown.stderr
    page = aisp("export", found["run_id"], env=environment(shared)).stdout
    assert f"again: `aisp run {file} --case cpu --quick --device cpu`" in page


@pytest.mark.slow
async def test_a_kernelbench_candidate_gets_a_verdict_against_its_problem(
    shared: EngineUnderTest, tmp_path: Path
) -> None:
    answer, problem = kernelbench.written(tmp_path, kernelbench.MATMUL, kernelbench.MATMUL_NEW)
    words = ("--against", str(problem), "--quick", "--device", "cpu", "--json")
    shown = aisp("judge", str(answer), *words, env=environment(shared))
    (found,) = map(json.loads, shown.stdout.splitlines())
    assert (found["target"], found["case"], found["correctness"]) == ("12_Of_ours_:answer", "cpu", "correct")
    assert all(arm["median_ms"] > 0 for arm in found["arms"])
    with shared.history() as history:
        files = history.snapshot(history.run(found["run_id"]).snapshot)
    assert bytes(files["optimized.py"]).decode().startswith(kernelbench.MATMUL_NEW)
    assert shown.returncode in (0, 1)  # 1 where a busy machine made the times suspect


@pytest.mark.slow
async def test_a_candidate_that_could_not_be_run_here_is_not_called_correct(
    shared: EngineUnderTest, tmp_path: Path
) -> None:
    problem = robust.task(tmp_path) / "func_forward.py"
    candidate = robust.answer(tmp_path, robust.CUDA, "forward.cu")
    compiler = tmp_path / "bin" / "nvcc"  # it is not asked: the rung needs a GPU
    compiler.parent.mkdir()
    compiler.write_text("#!/bin/sh\nexit 1\n")
    compiler.chmod(0o755)
    known = environment(shared)
    known["PATH"] = f"{compiler.parent}{os.pathsep}{os.environ['PATH']}"
    words = ("--against", str(problem), "--quick", "--device", "cpu")
    shown = aisp("judge", str(candidate), *words, env=known)
    assert shown.returncode in (1, 3), shown.stdout  # 1 where a busy machine made the baseline's times suspect
    assert "=> not here: optimized needs a GPU; the baseline is right" in shown.stdout


@pytest.mark.slow
async def test_a_wrong_one_is_refused_and_an_error_names_the_files_own_line(
    shared: EngineUnderTest, file: Path
) -> None:
    text = SUMS.replace("    return x[:, :-1].sum(-1) + last", "    return last.no_such_thing")
    file.write_text(
        text.replace(
            "    return x.sum(-1)\n\n\ndef optimized_last", "    return x[:, 1:].sum(-1)\n\n\ndef optimized_last"
        )
    )
    shown = aisp("judge", str(file), "--quick", "--device", "cpu", env=environment(shared))
    assert shown.returncode == 1, shown.stderr
    line = text[: text.index("last.no_such_thing")].count("\n") + 1
    assert f"optimized_last.py:{line} in run" in shown.stdout
    rows = {
        cells[0]: cells for row in shown.stdout.splitlines() if (cells := row.split("  "))[0].startswith("optimized")
    }
    assert rows["optimized"][-1].strip() == "wrong"


@pytest.mark.slow
async def test_a_watch_follows_the_file_and_runs_the_rung_that_a_save_changed(
    shared: EngineUnderTest, file: Path
) -> None:
    async with shared.stream() as stream:
        await stream.ask(
            requests.StartWatch(seq=stream.connection.next_seq(), root=str(file), target="sums:sums", device="cpu")
        )
        await stream.until(events.WatchEdit, lambda edit: edit.number == 0)
        file.write_text(SUMS.replace("    return x[:, :-1].sum(-1) + last", "    return last + x[:, :-1].sum(-1)"))
        edit = await stream.until(events.WatchEdit, lambda edit: edit.number == 1)
        assert (edit.files, edit.error) == (["optimized_last.py"], "")
        await stream.finish(edit.run_id)
        file.write_text(SUMS + "def (\n")
        broken = await stream.until(events.WatchEdit, lambda edit: edit.number == 2)
        assert f"sums.py:{SUMS.count(chr(10)) + 1}: invalid syntax" in broken.error
        await stream.ask(requests.StopWatch(seq=stream.connection.next_seq(), target="sums:sums"))


@pytest.mark.slow
async def test_a_file_is_not_written_over_by_its_parts(shared: EngineUnderTest, file: Path) -> None:
    async with shared.stream() as stream:
        connection = stream.connection
        (run_id,) = await stream.plan(file, "sums:sums", device="cpu", rungs=["optimized"])
        record = await stream.finish(run_id)
        changed = SUMS.replace("total +=", "total = total +")
        file.write_text(changed)
        reply = await connection.request(
            requests.Restore(seq=connection.next_seq(), root=str(file), target="sums:sums", snapshot=record.snapshot)
        )
    assert "is one file, of which runs keep the parts" in reply.error
    assert file.read_text() == changed


def environment(engine: EngineUnderTest) -> dict[str, str]:
    """Variables with which a command finds that engine."""
    return {name: value for name, value in (os.environ | engine.environment).items() if value}
