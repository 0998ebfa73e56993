"""Builds the fake driver library (fake_nvml.c) and the movable wall clock (wall_clock.c), and asks `engine.telemetry`
about the driver in a process of its own. gpu_stand_in/ lets whole runs "on the GPU" go without one."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.engine.started import SITE

SOURCE = Path(__file__).with_name("fake_nvml.c")
MAIN = Path(__file__).parents[2]
STAND_IN = Path(__file__).with_name("gpu_stand_in")
WALL_CLOCK = Path(__file__).with_name("wall_clock.c")
COMPILER = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")

_PRELUDE = """
import json, math, sys, time
from aisp.engine.telemetry import Nvml, Readings, Sampler
def control(text):
    open(__import__("os").environ["AISP_FAKE_NVML"], "w").write(text)
def plain(value):
    if isinstance(value, float) and math.isnan(value): return "NaN"
    if isinstance(value, list): return [plain(item) for item in value]
    return value
def shown(readings):
    return {name: plain(getattr(readings, name)) for name in readings.__slots__}
def devices(nvml):
    return [{f: getattr(d, f) for f in d.__struct_fields__} for d in nvml.devices()]
told = {}
"""


class FakeNvml:
    """A folder with the library and its control file."""

    def __init__(self, folder: Path, *, old_driver: bool = False) -> None:
        if COMPILER is None:
            pytest.skip("no C compiler here: the fake driver library cannot be built")
        self.folder = folder
        self.control = folder / "control"
        self.control.write_text("")
        self.uuid = f"GPU-{secrets.token_hex(8)}"  # of `answers`: engines of one machine lease a GPU by its uuid
        flags = ["-DOLD_DRIVER"] if old_driver else []
        subprocess.run(
            [COMPILER, "-shared", "-fPIC", "-O1", "-w", *flags, "-o", str(folder / "libnvidia-ml.so.1"), str(SOURCE)],
            check=True,
            timeout=60,
        )

    def environment(self) -> dict[str, str]:
        """Variables with which a process finds this library."""
        return {**os.environ, "LD_LIBRARY_PATH": str(self.folder), "AISP_FAKE_NVML": str(self.control)}

    def settings(self) -> dict[str, str]:
        """Variables with which an engine sees this library's GPU, and its workers say that they have one."""
        return {"LD_LIBRARY_PATH": str(self.folder), "AISP_FAKE_NVML": str(self.control), SITE: str(STAND_IN)}

    def answers(self, *lines: str) -> None:
        """From now on the driver answers so; at once for every call."""
        fresh = self.control.with_suffix(".new")
        fresh.write_text("".join(f"{line}\n" for line in (f"uuid {self.uuid}", *lines)))
        fresh.replace(self.control)

    def ask(self, code: str, control: str = "") -> dict[str, Any]:
        """Run `code`, which fills `told`, where the driver answers as `control` says; what it told."""
        self.control.write_bytes(control.encode("utf-8", "surrogateescape"))
        return ask(code, self.environment())


def wall_clock(folder: Path) -> tuple[dict[str, str], Path]:
    """Builds a library that moves the wall clock; variables that load it, and the file that says how far, in s."""
    if COMPILER is None:
        pytest.skip("no C compiler here: the library that moves the wall clock cannot be built")
    library, ahead = folder / "wall_clock.so", folder / "ahead_s"
    subprocess.run([COMPILER, "-shared", "-fPIC", "-O1", "-o", str(library), str(WALL_CLOCK), "-ldl"], check=True)
    ahead.write_text("0")
    return {"LD_PRELOAD": str(library), "AISP_WALL_CLOCK": str(ahead)}, ahead


def ask(code: str, environment: dict[str, str]) -> dict[str, Any]:
    """Run `code`, which fills `told`, in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", f"{_PRELUDE}{code}\nprint(json.dumps(told))"],
        cwd=MAIN,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert isinstance(told, dict)
    return told
