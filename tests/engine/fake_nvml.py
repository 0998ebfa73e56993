"""Builds the fake driver library (fake_nvml.c), and asks `engine.telemetry` about it in a process of its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SOURCE = Path(__file__).with_name("fake_nvml.c")
MAIN = Path(__file__).parents[2]
COMPILER = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")

_PRELUDE = """
import json, math, sys, time
from engine.telemetry import Nvml, Readings, Sampler
def control(text):
    open(__import__("os").environ["FAKE_NVML"], "w").write(text)
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
        flags = ["-DOLD_DRIVER"] if old_driver else []
        subprocess.run(
            [COMPILER, "-shared", "-fPIC", "-O1", "-w", *flags, "-o", str(folder / "libnvidia-ml.so.1"), str(SOURCE)],
            check=True,
            timeout=60,
        )

    def environment(self) -> dict[str, str]:
        """Variables with which a process finds this library."""
        return {**os.environ, "LD_LIBRARY_PATH": str(self.folder), "FAKE_NVML": str(self.control)}

    def ask(self, code: str, control: str = "") -> dict[str, Any]:
        """Run `code`, which fills `told`, where the driver answers as `control` says; what it told."""
        self.control.write_text(control)
        return ask(code, self.environment())


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
