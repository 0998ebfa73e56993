"""The table of a lesson that says what came of its predictions, copied from the finding that measured it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.proofs.pages.markers import put

ROOT = Path(__file__).resolve().parents[3]
FINDING = ROOT / "docs/findings/2026-11-28-what-overlap-costs-on-two-h200.md"
NAME = "measured"
NONE = "-"


@dataclass(frozen=True, slots=True)
class Row:
    """What a finding says of one rung: `ms` its median, `predicted` a range, `came` met, above, below or nothing."""

    ms: str
    predicted: str
    came: str


@cache
def rows(finding: Path = FINDING) -> Mapping[str, Mapping[str, Row]]:
    """By lesson and rung what was measured and predicted; the last sitting of several counts.

    Raises:
        ValueError: the finding has no row that was predicted.
    """
    found: dict[str, dict[str, Row]] = {}
    heads: list[str] = []
    for line in finding.read_text("utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("| ").split("|")]
        if not line.startswith("|"):
            heads = []
        elif not heads:
            heads = [cell.split(" [")[0] for cell in cells]
        elif {"lesson", "rung", "predicted, ms"} <= set(heads) and not set(line) <= set("|-"):
            row = dict(zip(heads, cells, strict=True))
            predicted, _, came = row["predicted, ms"].partition(": ")
            ms = row["ms"].split(" [")[0]
            found.setdefault(row["lesson"].strip("`"), {})[row["rung"].strip("`")] = Row(ms, predicted, came)
    if not any(row.came for rungs in found.values() for row in rungs.values()):
        raise ValueError(f"{finding} has no table with a lesson, a rung and what was predicted of it")
    return found


def table(lesson: str) -> str:
    """What came of one lesson's predictions, as Markdown with the finding's name below."""
    rungs = rows()[lesson]
    told = [row for row in rungs.values() if row.came]
    met = sum(row.came == "met" for row in told)
    lines = ["| rung | predicted, ms | measured, ms | came of it |", "|---|---|---|---|"]
    for rung, row in rungs.items():
        came = row.came if row.came in ("", "met") else f"missed, {row.came}"
        lines.append(f"| `{rung}` | {row.predicted} | {row.ms} | {came or NONE} |")
    day = re.match(r"\d{4}-\d\d-\d\d", FINDING.name)
    assert day is not None, FINDING.name
    where = FINDING.relative_to(ROOT)
    lines += ["", f"**{met} of {len(told)} rows met.** Two H200 of one host, {day[0]}, quick runs:", f"`{where}`."]
    return "\n".join(lines)


def path(lesson: str) -> Path:
    """Where a lesson of that name lies."""
    (found,) = ROOT.glob(f"kernels/*/{lesson}/lesson.md")
    return found


def written(lesson: str, text: str) -> str:
    """A lesson's text with its table in its place."""
    return put(text, NAME, table(lesson))
