"""Every program can be started by its name, and says what it is for."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.proofs.__main__ import PROGRAMS, main

ROOT = Path(__file__).resolve().parents[2]
STARTED_BY_OTHERS = {  # child processes of the programs: started by module name, with arguments of no use to a person
    "tests.proofs.agreement.cost_script",
    "tests.proofs.agreement.truth",
    "tests.proofs.agreement.timing_worker",
    "tests.proofs.bench.cold_pair",
    "tests.proofs.bench.flood_engine",
    "tests.proofs.bench.probed_app",
    "tests.proofs.chaos.light",
    "tests.proofs.chaos.stand_in",
    "tests.proofs.oracle.asking",
}


def _module(path: Path) -> str:
    """The name that `python -m` starts this file by."""
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__main__")


def test_what_can_be_started_has_a_name() -> None:
    files = Path(__file__).parent.rglob("*.py")
    runnable = {_module(path) for path in files if '\nif __name__ == "__main__":' in path.read_text("utf-8")}
    named = {module for module, _ in PROGRAMS.values()}
    assert runnable - STARTED_BY_OTHERS - {"tests.proofs"} == named
    assert runnable >= STARTED_BY_OTHERS


@pytest.mark.parametrize("name", ["bench", "gallery", "held_out", "aa"])
def test_a_program_answers_to_its_name(name: str) -> None:
    found = subprocess.run(
        [sys.executable, "-m", "tests.proofs", name, "--help"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert found.returncode == 0, found.stderr
    assert found.stdout.startswith(f"usage: python -m tests.proofs {name} ")


def test_an_unknown_name_is_answered_with_those_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bensh"]) == 2
    told = capsys.readouterr().err
    assert "no program 'bensh'" in told
    assert all(f"\n  {name} " in told for name in PROGRAMS)
    assert all(importlib.util.find_spec(module) for module, _ in PROGRAMS.values())


def test_every_mark_that_make_asks_for_is_found_where_it_looks() -> None:
    verb = r"-m pytest -m '?(\w+)(?: and not \w+)*'?(?: -\S.*| (\S+))?$"
    asked = re.findall(verb, (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    assert {mark for mark, _ in asked} == {"audit", "evil", "slow"}
    for mark, folder in asked:
        files = (ROOT / (folder or "tests")).rglob("test_*.py")
        assert any(f"mark.{mark}" in path.read_text("utf-8") for path in files), mark
