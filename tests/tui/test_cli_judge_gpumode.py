"""`aisp judge` over gpu-mode's folders: listed, shown, and asked of the engine with a submission."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from aisp.engine.protocol import requests
from aisp.tui.cli.tree import cli
from tests.kernels.formats import gpumode as text
from tests.tui.fake_engine import FakeEngine, isolate


def judge(path: Path, *words: str) -> Result:
    return CliRunner().invoke(cli, ["judge", str(path), *words])


def test_a_checkout_is_listed_with_why_some_cannot_be_judged(tmp_path: Path) -> None:
    place = text.checkout(tmp_path / "kernels")
    shown = judge(place)
    assert f"{len(text.TASKS)} problems: gpu-mode {len(text.TASKS)}" in shown.output
    assert 'of_cuda: lang is "cu"' in shown.output
    document = json.loads(judge(place / "problems" / "ours.yaml", "--json").stdout)
    assert document["formats"] == {"gpumode": len(text.TASKS) + 1}
    assert document["problems"][-1]["reason"] == "there is no task.yml"


def test_a_task_is_shown_with_its_judge(tmp_path: Path) -> None:
    task = text.checkout(tmp_path / "kernels") / "problems" / "ours" / "gate_py"
    shown = judge(task).stdout
    assert "judge: the task's own check_implementation" in shown
    assert "shape: 0 is 'flat', 1 is 'peaked'" in shown
    assert json.loads(judge(task / "task.yml", "--json").stdout)["inputs"].keys() == {"data"}


def test_without_pyyaml_one_line_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    isolate(monkeypatch, tmp_path)
    place = text.checkout(tmp_path / "kernels") / "problems" / "ours"
    answer = tmp_path / "mine.py"
    answer.write_text(text.BLEND_RIGHT)
    monkeypatch.setitem(sys.modules, "yaml", None)
    said = "aisp: YAML needs PyYAML, which is not installed; `pip install 'aisp[yaml]'` brings it\n"
    for shown in (judge(place / "blend_py"), judge(answer, "--against", str(place / "blend_py"))):
        assert (shown.exit_code, shown.stderr) == (3, said)


def test_the_engine_is_asked_for_the_submissions_target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    isolate(monkeypatch, tmp_path)
    place = text.checkout(tmp_path / "kernels") / "problems" / "ours"
    answer = tmp_path / "mine.py"
    answer.write_text(text.BLEND_RIGHT)
    with FakeEngine() as engine:
        for problem in (place / "blend_py", place / "blend_py" / "task.yml"):
            assert judge(answer, "--against", str(problem), "--json").exit_code in (0, 1)
    asked = engine.asked(requests.StartRuns)
    assert [each.targets for each in asked] == [["blend_py:mine"]] * 2
    refused = judge(answer, "--against", str(place / "ranks_py"))
    assert (refused.exit_code, "multi_gpu is not run here yet" in refused.output) == (2, True)
