"""Commands that are printed to repeat a run: each is given to a shell's words and to the command line as it stands."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from aisp.engine.protocol import requests
from aisp.kernels.catalog import copy_target, list_ids, load, shipped_root
from aisp.store import History
from aisp.store.results import repeating
from aisp.tui import sharing
from aisp.tui.cli import judge
from aisp.tui.cli.tree import cli
from tests.kernels.formats import kernelbench
from tests.replacing import replace
from tests.store.examples import finished, planned
from tests.tui.app_support import keep
from tests.tui.fake_engine import FakeEngine, isolate, make_target

ODD = Path("my  kernels", "'of' `mine`, é\u202e\nnew")
FILE = """
def reference(x: "float32 [8] normal") -> "float32 [8]":
    return x


def baseline(x):
    return x


def optimized(x):
    return x
"""


@pytest.fixture
def state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    return isolate(monkeypatch, tmp_path)


def words_of(command: str) -> list[str]:
    """What a shell makes of a line; the line has nothing that a terminal would act upon."""
    assert command.isprintable() and "\n" not in command
    said = subprocess.run(["bash", "-c", f"printf '%s\\0' {command}"], capture_output=True, check=True).stdout
    return [os.fsdecode(word) for word in said.split(b"\0")[:-1]]


def asked(command: str) -> requests.StartRuns:
    """What the engine is asked for by a command that was printed."""
    first, *words = words_of(command)
    assert first == "aisp"
    with FakeEngine() as engine:
        done = CliRunner().invoke(cli, [*words, "--json"])
        assert done.exit_code == 0, done.output
        (request,) = engine.asked(requests.StartRuns)
    return request


def one_file(tmp_path: Path) -> Path:
    file = tmp_path / "softmax.py"
    file.write_text(FILE)
    return file


def odd_folder(tmp_path: Path) -> Path:
    return make_target(tmp_path / ODD, "one")


def copied(tmp_path: Path) -> Path:
    (source,) = (target for target in load().targets if target.id == "ch05:collate")
    return copy_target(source, "mine", tmp_path / "work")


def lab(tmp_path: Path) -> Path:
    return make_target(tmp_path / "labs" / "block", "block")


def answer(tmp_path: Path) -> Path:
    candidate, problem = kernelbench.written(tmp_path, kernelbench.MATMUL, kernelbench.MATMUL_NEW)
    return Path(judge.answer_root(str(candidate), str(problem)))


@pytest.mark.parametrize("make", [one_file, odd_folder, copied, lab, answer])
def test_the_again_line_of_ones_own_work_asks_for_that_work(make: Any, state: Path, tmp_path: Path) -> None:
    folder = make(tmp_path)
    (target,) = load([folder]).targets
    case = target.usual_case("cpu").name
    run = keep(state, target.id, folder=folder, quick=True, device="cpu", case=case)
    with History(state / "aisp.db") as history:
        told = sharing.read(history, run.id)
    command = repeating.again(told.run.record)
    request = asked(command)
    (root,) = request.roots
    assert load([Path(root)]).find(request.targets[0]).folder == folder
    assert (request.targets, request.case, request.quick, request.device) == ([target.id], case, True, "cpu")
    (line,) = (line for line in sharing.markdown(told).splitlines() if line.startswith("- again: "))
    assert command in line
    assert sharing._text(command) in sharing.page(told)


def test_a_shipped_lesson_is_repeated_by_its_id_and_as_it_ran() -> None:
    folder = list_ids()["ch07:transpose"]
    assert folder.is_relative_to(shipped_root())
    rule = {"cache": "warm"}
    run = replace(
        finished(planned()), folder=os.fsencode(folder), device="cuda", case="default",
        manifest={"stop_rule": rule, "without": ["timing.wall_clock"], "validity": "portable"},
    )  # fmt: skip
    typed = "aisp run ch07:transpose --case default"
    assert repeating.again(run) == f"{typed} --warm --validity portable --without timing.wall_clock"
    assert repeating.again(replace(run, folder=b"/elsewhere", manifest={})) == typed  # imported, or another checkout's
    cheats = tuple(replace(arm, rung="cheat_cache", role=None) if arm.rung == "optimized" else arm for arm in run.arms)
    assert "--rungs" in repeating.again(replace(run, arms=cheats)) and "cheat_cache" in repeating.again(
        replace(run, arms=cheats)
    )


def test_what_cannot_be_repeated_says_why_and_what_is_left(state: Path, tmp_path: Path) -> None:
    run = keep(state, "softmax:softmax", folder=tmp_path / "softmax.py")
    with History(state / "aisp.db") as history:
        told = sharing.read(history, run.id)
    said = f"softmax.py is not on this machine; `aisp diff {run.id}` shows the sources that ran"
    assert repeating.gone(told.run.record).endswith(said)
    assert said in sharing.page(told) and "aisp run softmax" not in sharing.page(told) + sharing.markdown(told)
