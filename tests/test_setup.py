"""The two verbs of the README do all the set-up, also on a machine that brings its own torch."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent


def make(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["make", "--no-print-directory", *arguments],
        cwd=ROOT,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=170,
    )


@pytest.mark.slow
def test_a_machine_keeps_the_torch_that_it_has(tmp_path: Path) -> None:
    """Offline: everything but the project itself must be found where this Python's torch lies."""
    found = importlib.util.find_spec("torch")
    assert found is not None and found.origin is not None
    venv = tmp_path / "venv"
    made = make(
        "env",
        "TORCH=system",
        f"PYTHON={sys.executable}",
        f"VENV={venv}",
        PIP_NO_INDEX="1",
        PYTHONPATH=str(Path(found.origin).parent.parent),  # the build's own setuptools; not what is tested
        PIP_NO_BUILD_ISOLATION="0",  # pip reads this switch upside down: 0 turns the isolation off
    )
    assert made.returncode == 0, made.stdout + made.stderr
    asked = subprocess.run(
        [venv / "bin/python", "-c", "import importlib.util as u, sys; print(sys.prefix, u.find_spec('torch').origin)"],
        capture_output=True,
        text=True,
        check=True,
    )
    prefix, origin = asked.stdout.split()
    assert Path(prefix) == venv
    assert Path(origin) == Path(found.origin)
    names = "import importlib.metadata as m; print(m.distribution('aisp').read_text('top_level.txt'))"
    brought = subprocess.run([venv / "bin/python", "-c", names], capture_output=True, text=True, check=True)
    assert brought.stdout.split() == ["aisp"], "every other name belongs to who installs it"
    told = subprocess.run([venv / "bin/aisp", "--help"], capture_output=True, text=True, check=True)
    assert "watch" in told.stdout


def test_the_constraints_have_a_version_of_all_that_is_asked_for() -> None:
    """Of what a CPU installs: `make test CONSTRAINTS=constraints.txt`."""
    pins = [Requirement(line) for line in (ROOT / "constraints.txt").read_text().splitlines() if line[:1] != "#"]
    version = {canonicalize_name(pin.name): next(iter(pin.specifier)).version for pin in pins}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    for line in [*project["dependencies"], *(line for name in ("cpu", "cuda", "dev") for line in extras[name])]:
        wanted = Requirement(line)
        assert wanted.specifier.contains(version[canonicalize_name(wanted.name)]), line


def test_every_dependency_has_an_upper_bound_or_one_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = [line for name, lines in project["optional-dependencies"].items() if name != "dev" for line in lines]
    for line in [*project["dependencies"], *extras]:
        assert any(each.operator in ("<", "==") for each in Requirement(line).specifier), line


def test_a_machine_without_torch_is_told_what_would_work(tmp_path: Path) -> None:
    bare = tmp_path / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", bare], check=True)
    made = make("env", "TORCH=system", f"PYTHON={bare / 'bin/python'}", f"VENV={tmp_path / 'venv'}")
    assert made.returncode != 0
    assert "PYTHON=/path/to/python3" in made.stderr
    assert not (tmp_path / "venv").exists()


def test_without_cuda_in_torch_the_pinned_cpu_build_is_installed() -> None:
    shown = make("-n", "env", f"PYTHON={sys.executable}", "VENV=/nonexistent/venv", "TORCH=cpu")
    pinned = re.search(r'"(torch==[^"]+)"', (ROOT / "pyproject.toml").read_text("utf-8"))
    assert pinned is not None
    assert f"install -q --disable-pip-version-check {pinned[1]}\n" in shown.stdout
    assert '-e ".[cpu,cuda]"' in shown.stdout


@pytest.mark.parametrize("torch", ["cpu", "system"])
def test_what_tests_and_lint_need_is_installed_by_them_alone_and_each_step_is_named(torch: str) -> None:
    given = (f"PYTHON={sys.executable}", "VENV=/nonexistent/venv", f"TORCH={torch}")
    running, testing = (make("-n", verb, *given).stdout for verb in ("env", "test"))
    assert "dev" not in running
    assert '-e ".[dev]"' in testing
    steps = re.findall(r"aisp: (\d) of (\d): ", running)
    assert steps == [(str(number), str(len(steps))) for number in range(1, len(steps) + 1)]
    assert len(steps) == {"cpu": 3, "system": 2}[torch]
