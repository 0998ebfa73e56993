"""The result of a suite's run for people: a line a target, then what is worse and why, then the suite in one number."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from aisp.store.results import suite, suite_documents, tables
from aisp.store.results.regression import Change, Row
from aisp.store.results.tables.suites import TARGETS, Target, targets_of
from aisp.store.text import clean_line
from aisp.tui import plain
from aisp.tui.cli import common
from aisp.tui.cli.suite import left_out_lines, summary_lines

if TYPE_CHECKING:
    from aisp.tui.cli.suite_rows import Result


def lines(result: Result, launch_count: Sequence[str], *, name: str, quick: bool, width: int | None) -> list[str]:
    """All of it. `launch_count`: targets whose gain is that fewer kernels are launched."""
    rows = result.rows
    shown = [row for row in rows if row.now is not None and not row.left_out]
    columns = tables.shown(TARGETS, "sentence", "wall")
    found = [*plain.listing(columns, [Target(row) for row in shown], width=width), ""]
    text: list[str] = []
    for change, heading in ((Change.LOST, "lost"), (Change.WORSE, "worse"), (Change.BETTER, "better")):
        here = [row for row in rows if row.outcome is change]
        text += [heading, *(f"  {_sentence(row)}" for row in here), ""] if here else []
    slower = [row for row in shown if row.outcome is Change.UNDECIDED and row.told and row.told.looks_slower]
    text += ["may be worse", *(f"  {_sentence(row)}" for row in slower), ""] if slower else []
    for target, why in result.unturned.items():
        text.append(f"not measured in turns, {clean_line(target)}: {why}")
    apart = [row for row in shown if row.outcome is Change.NOT_COMPARABLE]
    text += common.by_reason((row.target, f"not comparable, {row.last.reason if row.last else ''}") for row in apart)
    _, parts, score = targets_of([row for row in rows if not row.lost])
    text += left_out_lines(parts, score)
    if score.count:
        text += summary_lines(score, head=f"{clean_line(name)}: ", tail=", quick" if quick else "")
        text += _without_launches(parts, launch_count)
    found += plain.wrapped(text, width) if width is not None else text
    return [*found, f"=> against earlier runs: {suite_documents.counts_line(rows)}"]


def _sentence(row: Row) -> str:
    rung = f" ({row.told.rung})" if row.told is not None and row.told.rung else ""
    return clean_line(f"{row.target}{rung}: {row.sentence()}", limit=2000)


def _without_launches(parts: Sequence[suite.Part], launch_count: Sequence[str]) -> list[str]:
    without = suite.together(part for part in parts if part.target not in launch_count)
    left = [part.target for part in parts if part.target in launch_count and part.best is not None]
    if not left or not without.count:
        return []
    mean = plain.speedup(without.geometric_mean, without.low, without.high)
    whose = ", ".join(map(clean_line, left))
    return [f"   {mean} over the {without.count} without those that save launches ({whose})"]
