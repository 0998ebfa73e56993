"""The table of a lesson that says what it was measured at and what came of its predictions: of several GPUs from the
finding that measured it, of one from the results that are kept."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from aisp.store.outcomes import State, Verdict
from aisp.tui import plain
from tests.proofs.pages.markers import put

ROOT = Path(__file__).resolve().parents[3]
FINDING = ROOT / "docs/findings/2026-11-28-what-overlap-costs-on-two-h200.md"
RESULTS = ROOT / "docs/results/h200.json"
NAME = "measured"
NONE = "-"
EARLIER = """What the text says of an
earlier date was measured by an earlier method (`docs/measurement.md`)."""


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


@cache
def results() -> Mapping[str, Mapping[str, Any]]:
    """By lesson the entry of the results that are kept, of those that a finding does not speak of."""
    targets = json.loads(RESULTS.read_text("utf-8"))["targets"]
    return {name: one for one in targets if (name := one["target"].partition(":")[2]) not in rows()}


def measured(entry: Mapping[str, Any]) -> str:
    """What one lesson was measured at, as Markdown with the document's page below."""
    run = entry["runs"][0]
    lines = ["| rung | predicted ms | measured ms | speed-up |", "|---|---|---|---|"]
    told = []
    for rung in run["rungs"]:
        low, high = (rung.get("expect") or {}).get("ms") or (None, None)
        time = plain.number(rung["median_ms"], 3)  # short, since a lesson's pane is narrow; the page has intervals
        if low is not None and (ms := rung["median_ms"]) is not None:
            told.append(low <= ms <= high)
            time += ", met" if told[-1] else ", above" if ms > high else ", below"
        cells = [f"`{rung['rung']}`", NONE if low is None else f"{low:g} to {high:g}"]
        cells += [time if rung["state"] == State.OK else rung["state"]]
        cells += [plain.speedup(rung["speedup"], verdict=rung["verdict"] or Verdict.NONE)]
        lines.append(f"| {' | '.join(cells)} |")
    met = f"**{sum(told)} of {len(told)} rows met.** " if told else ""
    where = RESULTS.with_suffix(".md").relative_to(ROOT)
    last = f"{met}One H200, {run['wall'][:10]}, two processes a rung: `{where}`."
    return "\n".join([*lines, "", f"{last} {EARLIER}"])


def path(lesson: str) -> Path:
    """Where a lesson of that name lies."""
    (found,) = ROOT.glob(f"kernels/**/{lesson}/lesson.md")
    return found


def written(lesson: str, text: str) -> str:
    """A lesson's text with its table in its place."""
    return put(text, NAME, table(lesson) if lesson in rows() else measured(results()[lesson]))
