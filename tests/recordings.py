"""Recordings: what programs measured, kept as JSON below docs/, one line for each entry, so that a difference is read.

`python -m tests.recordings < DOCUMENT > FILE` lays out what another program printed.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any


def text(document: Any) -> str:
    """The document with a line for every entry of the lists and tables that it holds, and for every other value."""
    return _laid_out(document, 2, "") + "\n"


def write(path: Path, document: Any) -> None:
    """Keep the document."""
    path.write_text(text(document), "utf-8")


def _laid_out(value: Any, levels: int, margin: str) -> str:
    if not levels or not _holds_entries(value):
        return json.dumps(value)
    inner = margin + " "
    if isinstance(value, list):
        lines = [inner + _laid_out(item, 0, inner) for item in value]
        opened, closed = "[", "]"
    else:
        lines = [f"{inner}{json.dumps(key)}: {_laid_out(item, levels - 1, inner)}" for key, item in value.items()]
        opened, closed = "{", "}"
    return "\n".join((opened, ",\n".join(lines), margin + closed))


def _holds_entries(value: Any) -> bool:
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return any(isinstance(item, (dict, list)) for item in items)


if __name__ == "__main__":
    sys.stdout.write(text(json.load(sys.stdin)))
