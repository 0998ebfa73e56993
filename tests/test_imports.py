"""What may be imported by whom, proven in processes of their own: torch and triton only inside workers.

Each case says how it is started and which modules it must have done without. The process reports its modules when
it has done its work, so that a lazy import on the way counts too.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kernels.formats import kernelbench
from tests.tui.fake_engine import MAIN, make_target, remember

HEAVY = ("torch", "triton")

_REPORT = """
import atexit, json, os, sys
def report():
    with open(os.environ["MODULES_FILE"], "w") as sink:
        json.dump(sorted({name.split(".")[0] for name in sys.modules}), sink)
atexit.register(report)
"""


def modules_of(code: str, tmp_path: Path, *arguments: str) -> set[str]:
    """Top-level modules that a process has imported by its end."""
    file = tmp_path / "modules.json"
    environment = {**os.environ, "MODULES_FILE": str(file), "AISP_STATE": str(tmp_path / "state")}
    done = subprocess.run(
        [sys.executable, "-c", _REPORT + code, *arguments],
        cwd=MAIN,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return set(json.loads(file.read_text()))


_AISP = "from aisp.tui.cli.tree import main\nsys.argv[0] = 'aisp'\nmain()"


def test_help_costs_click_and_nothing_else(tmp_path: Path) -> None:
    found = modules_of(_AISP, tmp_path, "--help")
    assert "click" in found
    assert not found & {
        *HEAVY,
        "textual",
        "rich",
        "numpy",
        "sqlite_utils",
        "sqlite3",
        "msgspec",
        "asyncio",
        "watchfiles",
    }


def test_list_targets_needs_no_numpy_no_textual_and_no_torch_with_results_to_show(tmp_path: Path) -> None:
    make_target(tmp_path / "mine", "one")
    remember(tmp_path / "state", "mine:one")
    found = modules_of(_AISP, tmp_path, "list", "--root", str(tmp_path / "mine"))
    assert "sqlite3" in found  # the results were read
    assert not found & {*HEAVY, "textual", "rich", "numpy", "sqlite_utils", "asyncio", "watchfiles"}


def test_listing_the_shipped_lessons_imports_none_of_them(tmp_path: Path) -> None:
    found = modules_of(_AISP, tmp_path, "list", "--json")
    assert not found & {*HEAVY, "textual", "numpy"}


def test_listing_problems_of_others_imports_nothing_heavy_and_none_of_them(tmp_path: Path) -> None:
    _, problem = kernelbench.written(tmp_path, kernelbench.MATMUL, kernelbench.MATMUL_NEW)
    for path in (tmp_path, problem):
        found = modules_of(_AISP, tmp_path, "judge", str(path), "--json")
        assert not found & {*HEAVY, "textual", "rich", "numpy", "sqlite_utils", "sqlite3", problem.stem}


def test_history_reads_the_store_without_its_writers_library(tmp_path: Path) -> None:
    remember(tmp_path / "state", "mine:one")
    found = modules_of(_AISP, tmp_path, "history", "mine:one")
    assert "sqlite3" in found
    assert not found & {*HEAVY, "textual", "numpy", "sqlite_utils"}


def test_asking_for_the_engine_needs_neither_numpy_nor_textual(tmp_path: Path) -> None:
    code = _AISP.replace("main()", "try:\n    main()\nexcept SystemExit as end:\n    assert end.code == 1")
    found = modules_of(code, tmp_path, "engine")
    assert not found & {*HEAVY, "textual", "numpy", "sqlite_utils"}


@pytest.mark.parametrize(
    ("module", "without"),
    [
        ("aisp", {"numpy", "asyncio", "typing", "msgspec", "sqlite3"}),
        ("aisp.engine.doors.api", {"numpy", "textual", "click", "rich", "sqlite_utils", "pytest"}),
        ("aisp.engine.doors.pytest_plugin", {"numpy", "msgspec", "textual", "click", "sqlite3"}),
        ("aisp.engine.doors.serve.server", {"textual", "rich", "pytest", "sqlite_utils"}),
        ("aisp.engine.doors.openevolve", {"numpy", "textual", "click", "rich", "mcp", "pydantic", "openevolve"}),
        ("aisp.engine.doors.tuning", {"numpy", "textual", "click", "rich", "optuna"}),
        ("aisp.engine.doors.mcp_tools", {"textual", "click", "rich", "mcp", "pydantic"}),
        ("aisp.engine.doors.mcp", {"textual"}),
        ("aisp.engine.client", {"numpy", "textual", "sqlite_utils", "pynvml"}),
        ("aisp.kernels.catalog", {"numpy", "textual"}),
        ("aisp.store", {"numpy", "sqlite_utils"}),
        *(
            (
                f"aisp.store.results.{file.stem}",
                {"numpy", "sqlite3", "sqlite_utils", "msgspec", "click", "rich", "textual"},
            )
            for file in sorted((MAIN / "store/results").glob("*.py"))
            if file.stem != "__init__"
        ),
        ("aisp.tui.app", {"numpy", "sqlite_utils", "watchfiles"}),
        ("aisp.engine.server", {"textual"}),
    ],
)
@pytest.mark.slow
def test_importing_a_module_stays_within_its_budget(module: str, without: set[str], tmp_path: Path) -> None:
    file = MAIN / (module.replace(".", "/") + ".py")
    if not file.exists() and not file.with_suffix("").is_dir():
        pytest.skip(f"{module} is not written yet")
    found = modules_of(f"import {module}", tmp_path)
    assert not found & {*HEAVY, *without}


def test_every_command_module_can_be_imported_without_torch(tmp_path: Path) -> None:
    names = sorted(path.stem for path in (MAIN / "tui/cli").glob("*.py") if path.stem != "__init__")
    assert "run" in names
    found = modules_of("\n".join(f"import aisp.tui.cli.{name}" for name in names), tmp_path)
    assert not found & {*HEAVY, "textual"}
