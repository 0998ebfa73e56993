"""One importable name: aisp. Every other name is the user's, in a rung as in an environment."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from aisp.engine import start
from aisp.store.outcomes import State
from tests.engine.harness import EngineUnderTest
from tests.engine.targets import write_target

CPU = '[[cases]]\nname = "cpu"\naxes = { N = 65536 }\n'
FOLDERS = ("checks", "engine", "kernels", "store", "tui")


@pytest.mark.xdist_group("engine")
@pytest.mark.parametrize("name", FOLDERS)
@pytest.mark.slow
async def test_a_file_beside_a_rung_may_bear_the_name_of_a_folder_of_ours(
    shared: EngineUnderTest, tmp_path: Path, name: str
) -> None:
    files = {
        "optimized.py": f"import {name}\n\n\ndef run(x):\n    return {name}.twice(x)\n",
        f"{name}.py": "def twice(x):\n    return x + x\n",
    }
    target = write_target(tmp_path / "mine", files, cases=CPU)
    result = await shared.run(target.root, target.id)
    assert result.record.state is State.OK, [arm.reason for arm in result.record.arms]


@pytest.mark.xdist_group("engine")
@pytest.mark.slow
async def test_a_rung_imports_the_installed_package_kernels(
    own: Callable[..., EngineUnderTest], tmp_path: Path
) -> None:
    site = tmp_path / "site"
    (site / "kernels").mkdir(parents=True)
    (site / "kernels" / "__init__.py").write_text("def get_kernel(name):\n    return lambda x: x + x\n")
    (site / "sitecustomize.py").write_text("")
    engine = own(AISP_TEST_SITE=str(site))
    await engine.start()
    source = "from kernels import get_kernel\n\ntwice = get_kernel('twice')\n\n\ndef run(x):\n    return twice(x)\n"
    target = write_target(tmp_path / "mine", {"optimized.py": source}, cases=CPU)
    result = await engine.run(target.root, target.id)
    assert result.record.state is State.OK, [arm.reason for arm in result.record.arms]


@pytest.mark.xdist_group("engine")
@pytest.mark.slow
async def test_who_asks_for_our_helpers_by_their_earlier_name_is_told_the_new_one(
    shared: EngineUnderTest, tmp_path: Path
) -> None:
    source = "from kernels import cuda\n\n\ndef run(x):\n    return cuda.twice(x)\n"
    target = write_target(tmp_path / "mine", {"optimized.py": source}, cases=CPU)
    result = await shared.run(target.root, target.id)
    arm = result.arm("optimized")
    assert arm.state is State.USER_ERROR
    assert "No module named 'kernels'" in arm.reason
    assert "from aisp.kernels import cuda" in arm.reason


@pytest.mark.parametrize("name", FOLDERS)
def test_a_package_of_such_a_name_on_the_import_path_is_not_run(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    (tmp_path / name / "__init__.py").write_text("raise SystemExit('somebody else was imported')\n")
    done = subprocess.run(
        [sys.executable, "-c", "from aisp.tui.cli.tree import main; main()", "list", "--json"],
        env=os.environ | {"PYTHONPATH": os.pathsep.join((str(tmp_path), str(start.FOLDER.parent)))},
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "somebody else" not in done.stdout + done.stderr
