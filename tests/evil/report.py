"""docs/reliability.md, from what `python -m tests.evil`, `tests.chaos` and `tests.fuzz` measured."""

from __future__ import annotations

import json
import platform
import sqlite3
from pathlib import Path
from typing import Any

MAIN = Path(__file__).parents[2]
DATA = MAIN / "docs" / "reliability"
PAGE = MAIN / "docs" / "reliability.md"


def write(folder: Path, name: str, data: dict[str, Any]) -> Path:
    """Put figures into FOLDER/NAME.json with the versions that they hold for."""
    folder.mkdir(parents=True, exist_ok=True)
    versions = {"python": platform.python_version(), "sqlite": sqlite3.sqlite_version, "system": platform.system()}
    path = folder / f"{name}.json"
    path.write_text(json.dumps({"versions": versions} | data, indent=1) + "\n", "utf-8")
    return path


def load(folder: Path) -> dict[str, Any]:
    """Every file of figures by its name."""
    return {path.stem: json.loads(path.read_text("utf-8")) for path in sorted(folder.glob("*.json"))}


def page(data: dict[str, Any]) -> str:
    """The page."""
    raise NotImplementedError
