"""KernelBench's generations from the command line: listed with their claims, judged, and written as it writes them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from aisp.kernels.catalog.formats import kernelbench_runs
from aisp.store.outcomes import Validity
from aisp.tui.cli.tree import cli
from tests.engine.harness import EngineUnderTest
from tests.kernels.formats import kernelbench as text
from tests.store.examples import finding
from tests.tui.app_support import keep
from tests.tui.fake_engine import aisp, isolate

RIGHT, WRONG = text.MATMUL_NEW, text.MATMUL_NEW.replace("B.t() @ A.t()", "B.t() @ A.t() * 2")
SOFTMAX_NEW = text.ZEROS_NEW.replace("torch.zeros_like(x)", "torch.log_softmax(x, dim=1).exp()")


def claimed(sample: int, correct: bool, **more: object) -> dict[str, object]:
    return {"sample_id": sample, "compiled": True, "correctness": correct, "metadata": {}, "runtime": 2.0, **more}


def checkout(folder: Path, answers: dict[tuple[int, int], str], claims: object) -> Path:
    """A checkout with problem 12 of level 1, and one run of these answers by problem and sample; the run's folder."""
    text.written(folder, text.MATMUL, RIGHT)
    run = folder / "runs" / "a_model"
    run.mkdir(parents=True)
    for (problem, sample), source in answers.items():
        (run / f"level_1_problem_{problem}_sample_{sample}_kernel.py").write_text(source)
    (run / "eval_results.json").write_text(json.dumps(claims))
    return run


def judge(*words: str | Path) -> Result:
    return CliRunner().invoke(cli, ["judge", *map(str, words)])


def test_a_folder_of_generations_is_listed_with_what_was_claimed(tmp_path: Path) -> None:
    run = checkout(tmp_path, {(12, 0): RIGHT, (12, 1): WRONG}, {"12": [claimed(0, True, ref_runtime=3.0)]})
    for place in (run, run.parent):
        first, second = json.loads(judge(place, "--json").stdout)["generations"]
        times = {"runtime_ms": 2.0, "reference_ms": 3.0, "speedup": 1.5}
        assert first["claimed"] == {"compiled": True, "correct": True} | times
        assert (first["run"], first["level"], first["problem"], first["sample"]) == ("a_model", 1, 12, 0)
        assert second["claimed"] is None
    shown = judge(run).stdout
    assert "right 1.50x" in shown
    assert "2 answers; claimed to be right: 1" in shown


@pytest.mark.slow
async def test_each_is_judged_against_its_problem_once_and_a_broken_one_ends_alone(
    shared: EngineUnderTest, tmp_path: Path
) -> None:
    answers = {(12, 0): text.ZEROS_NEW, (12, 1): SOFTMAX_NEW, (12, 2): "class ModelNew(:\n", (99, 0): RIGHT}
    run = checkout(tmp_path, answers, {"12": [claimed(0, True), claimed(1, True), claimed(2, False)]})
    text.written(tmp_path, text.SOFTMAX, RIGHT)
    environment = {name: value for name, value in (os.environ | shared.environment).items() if value}
    words = ("judge", str(run), "--against", str(tmp_path), "--device", "cpu")
    with shared.history() as history:
        before = history.count()
    shown = aisp(*words, "--json", env=environment)
    found = {(one["problem"], one["sample"]): one for one in map(json.loads, shown.stdout.splitlines())}
    assert {key: (one["ours"]["correct"], one["agrees"]) for key, one in found.items()} == {
        (12, 0): (False, False),
        (12, 1): (True, True),
        (12, 2): (False, True),
        (99, 0): (None, None),
    }
    zeros, right = found[12, 0]["ours"], found[12, 1]["ours"]
    assert (zeros["state"], zeros["rule"]["right"], right["rule"]["right"]) == ("incorrect", True, True)
    assert zeros["run_id"] == right["run_id"]  # whose inputs, truth and baseline they share
    assert "not Python" in found[12, 2]["ours"]["reason"]
    assert found[99, 0]["ours"]["reason"] == "there is no problem 99 in level 1"
    assert shown.returncode == 3  # one could not be judged
    again = aisp(*words, env=environment)
    rows = [line.split("\t") for line in again.stdout.splitlines() if line.startswith("a_model")]
    assert [(row[2], row[3], row[4], row[6]) for row in rows] == [
        ("12", "0", "right 2.000 ms", "NO"),
        ("12", "1", "right 2.000 ms", "yes"),
        ("12", "2", "wrong 2.000 ms", "yes"),
        ("99", "0", "-", "-"),
    ]
    assert "4 judged: 1 right, 2 claimed to be; claims that are not ours: 1" in again.stdout
    assert "KernelBench's own rule was asked of 2; it differs from ours on 1" in again.stdout
    with shared.history() as history:
        made = [each.id for each in history.newest(history.count() - before)]
    assert made == [zeros["run_id"]]  # what was judged is known


def test_what_is_no_checkout_and_options_of_one_file_are_wrong_usage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    isolate(monkeypatch, tmp_path)
    run = checkout(tmp_path, {(12, 0): RIGHT}, {})
    shown = judge(run, "--against", run)
    assert (shown.exit_code, "holds no problems by level and number" in shown.output) == (2, True)
    assert judge(run, "--against", tmp_path, "--rungs", "optimized").exit_code == 2


# -- out again ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    return isolate(monkeypatch, tmp_path)


def written(state: Path, target: str, **changes: Any) -> Any:
    """The claims that a run of the store makes where KernelBench's readers read it, by problem and sample."""
    run = keep(state, target=target, **changes)
    shown = CliRunner().invoke(cli, ["export", run.id, "--kernelbench"])
    assert shown.exit_code == 0, shown.output
    return json.loads(shown.stdout)


def test_a_run_is_written_as_samples_that_kernelbenchs_readers_read(state: Path, tmp_path: Path) -> None:
    document = written(state, "a_model_level_1_problem_12:sample_3")
    (sample,) = document["12"]
    assert sample["metadata"]["aisp"]["verdict"] == "faster"
    assert sample["runtime_stats"]["num_trials"] > 0
    run = checkout(tmp_path, {(12, 3): RIGHT}, document)
    (found,) = kernelbench_runs.generations(run)
    assert found.claimed is not None
    assert (found.claimed.compiled, found.claimed.correct) == (True, True)
    assert (found.claimed.runtime_ms, found.claimed.reference_ms) == (sample["runtime"], sample["ref_runtime"])
    assert list(written(state, "ch07:transpose")) == ["ch07:transpose"]


def test_what_is_no_result_is_no_claim(state: Path) -> None:
    suspect = written(state, "1_Square:answer", validity=Validity.SUSPECT)
    (sample,) = suspect["1"]
    assert (sample["correctness"], sample["runtime"], sample["runtime_stats"]) == (True, -1.0, {})
    found = finding("timing.wall_clock", "optimized", "caught", "0.4 ms by events, 9 ms by the clock")
    caught = written(
        state, "1_Square:answer", validity=Validity.CAUGHT, findings=(found,), comparisons=(), verdict="none"
    )
    (sample,) = caught["1"]
    assert (sample["correctness"], sample["runtime"]) == (False, -1.0)
    assert "0.4 ms by events" in sample["metadata"]["aisp"]["why"]
