"""A failure as a script, and what has changed since it was kept. No torch."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from aisp.checks.oracle.schema import Case


def script(folder: Path, target: str, rung: str, device: str, seed: int, case: Case, detail: str) -> str:
    """Python that poses one case to one rung again and prints the judgement; runs wherever aisp is installed."""
    interpret = (
        "" if device == "cuda" else '\nos.environ.setdefault("TRITON_INTERPRET", "1")  # before Triton is imported'
    )
    return f'''"""{_line(target)}, {_line(rung)}: {_line(detail)}"""
import os
{interpret}
from aisp.checks.oracle.reproduce import show

show(
    folder={os.fspath(folder)!r},
    rung={rung!r},
    device={device!r},
    seed={seed},
    case={_pretty(case.plain())},
)
'''.replace("\n\n\n", "\n\n")


def differs(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """What is not as it was: "torch 2.13.0, was 2.11.0"."""
    return [
        f"{name} {now.get(name) or 'missing'}, was {before.get(name) or 'missing'}"
        for name in sorted({*before, *now})
        if before.get(name) != now.get(name)
    ]


def _pretty(data: Mapping[str, Any]) -> str:
    lines = [
        f"        {name!r}: {value!r}," for name, value in data.items() if value not in ("", {}) and name != "text"
    ]
    return "\n".join(["{", *lines, "    }"])


def _line(text: str) -> str:
    """On one line, without what would end a docstring or what a file cannot hold."""
    shown = "".join(c if c.isprintable() else " " for c in text)
    return " ".join(shown.replace("\\", "/").replace('"', "'").split())[:200]
