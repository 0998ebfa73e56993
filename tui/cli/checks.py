"""`aisp checks`: every check by category, what it answers and what proves it, and what each said of a run; with
`--issues` every way in which a result can be invalid, and how it is answered.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from aisp.store.outcomes import FindingStatus
from aisp.store.results import busy, trust
from aisp.store.results.reading import Reading
from aisp.store.results.tables import Column, at, attributes, documents, fields
from aisp.store.text import clean_line
from aisp.tui import plain
from aisp.tui.cli import common

if TYPE_CHECKING:
    from aisp.engine.trust import CheckView, IssueView

WORDS = {
    FindingStatus.CAUGHT: "CAUGHT",
    FindingStatus.SUSPECT: "SUSPECT",
    FindingStatus.UNAVAILABLE: "unavailable",
    FindingStatus.PASSED: "passed",
    FindingStatus.NOT_APPLICABLE: "n/a",
}
WIDE = 110
"""Cells from which on there is room for every column."""
TOLD = (FindingStatus.CAUGHT, FindingStatus.SUSPECT, FindingStatus.UNAVAILABLE)
"""What is told with its evidence below the table; the rest is in the JSON."""


@click.command()
@click.argument("wanted", metavar="[RUN|TARGET]", required=False, shell_complete=common.complete_targets_and_runs)
@click.option("--issues", is_flag=True, help="List the ways in which a result can be invalid instead.")
@common.roots_option
@common.json_option
def command(wanted: str | None, issues: bool, roots: tuple[str, ...], as_json: bool) -> None:
    """List every check by category, and what each said of RUN, of TARGET's last run, or of the newest run.

    A check is proven by the cheats that it catches and by the honest twins that it passes; `aisp dev audit` runs
    them.

    Exit status: 0; 2 no such run, or TARGET has none that was checked; 3 the store cannot be read.
    """
    from aisp.engine import trust as registry  # every category's file and the gallery: only where they are listed

    if issues:
        if wanted is not None:
            raise click.UsageError("--issues are of no run; leave RUN out")
        told = registry.issues()
        common.answer(as_json, lambda: {"issues": documents(ISSUES, told)}, issue_lines, told)
        return
    run = look(wanted, roots)
    rows = rows_of(registry.listing(), run)
    common.answer(as_json, lambda: {"checks": documents(CHECKS, rows)}, lines, rows, run)


def look(wanted: str | None, roots: Sequence[str]) -> Reading | None:
    """The run that was asked for, else the newest that was checked; None where nothing is stored yet.

    Raises click.UsageError for a target without such a run, and for an unknown run.
    """
    with common.history() as opened:
        meant = [(None,)] if wanted is None else opened.meant(wanted, roots)
        if isinstance(meant, str):
            return opened.read(opened.run(meant))
        named = [name for names in meant for name in names]
        ran = [run for name in named for run in opened.newest(trust.LOOK_BACK_RUNS, name)]
        found = trust.newest_checked(sorted(ran, key=lambda run: run.wall, reverse=True))
        if found is not None:
            return opened.read(found)
    if wanted is not None:
        raise click.UsageError(f"no run of {wanted!r} that was checked is stored; `aisp run TARGET` makes one")
    return None


class Row(NamedTuple):
    """A check, and what a run said to it."""

    check: CheckView
    run: Reading | None
    said: trust.Said | None


def rows_of(checks: Sequence[CheckView], run: Reading | None) -> list[Row]:
    """Every check with what this run said."""
    said = trust.by_check(run.record.findings) if run is not None else {}
    return [Row(check, run, said.get(check.id)) for check in checks]


def _last(row: Row) -> Mapping[str, Any] | None:
    if row.run is None or row.said is None:
        return None
    findings = [one for one in row.run.record.findings if one.check == row.check.id]
    return {
        "run_id": row.run.id,
        "target": row.run.record.target,
        "wall": row.run.record.wall,
        "status": row.said.status,
        "said": [attributes(one, "arm", "status", "evidence") for one in findings],
    }


CHECKS: tuple[Column[Row], ...] = (
    Column("id", "the check", at("check.id"), "", lambda row: row.check.id.partition(".")[2]),
    *fields("check", {"category": "what it belongs to"}),
    Column("title", "what it asks, in a few words", at("check.title"), "what", shrink=True),
    *fields("check", {"about": "what it asks, in a sentence", "issues": "the issues that it answers"}),
    Column("how", "`detected`, `prevented` (the design leaves no room), `outside`, or `unavailable`", at("check.how"),
           "how", drop=2),
    Column("when", "when it looks", at("check.when"), "looks", drop=3),
    Column("needs", "what it needs", at("check.needs"),
           "needs", lambda row: ", ".join(map(str, row.check.needs)), drop=4),
    *fields("check", {"evidence": "what its accusation rests on"}),
    Column("cheats", "the cheats of the gallery that it catches", at("check.cheats"),
           "cheats/twins", lambda row: f"{len(row.check.cheats)}/{len(row.check.twins)}", drop=1),
    *fields("check", {"twins": "the honest twins that it passes"}),
    Column("last", "what was `said` in that run, and its gravest `status`", _last,
           "last run", lambda row: WORDS[row.said.status] if row.said is not None else ""),
)  # fmt: skip


def lines(rows: Sequence[Row], run: Reading | None, *, width: int | None) -> list[str]:
    """The checks for people: a table per category, and below it what was caught, suspect, or could not be asked."""
    columns = list(CHECKS)
    if width is not None and width < WIDE:  # room for what it is about
        columns = [column for column in columns if column.key not in ("when", "needs")]
    found: list[str] = []
    for category, group in groupby(rows, key=lambda row: row.check.category):
        here = list(group)
        told = {
            clean_line(f"{row.check.id}: {WORDS[one.status]}, {one.arm or 'the run'}: {one.evidence}", limit=2000): None
            for row in here
            for one in (row.said.findings if row.said is not None else ())
            if one.status in TOLD
        }
        found += [*plain.listing([replace(columns[0], head=category), *columns[1:]], here, width=width), *told, ""]
    counts = trust.counts(row.said for row in rows if row.said is not None)
    what = f"{len(rows)} checks"
    if run is None:
        return [*found, f"=> {what}; no run that was checked is stored yet"]
    numbers = ", ".join(f"{counts[status]} {WORDS[status]}" for status in WORDS if counts[status])
    where = clean_line(f"run {run.id} of {run.record.target}, {plain.local_time(run.record.wall)}")
    where += f", {busy.MACHINE}" if busy.of_run(run.record) else ""
    return [*found, f"=> {what}; {where}: {numbers or 'was not checked'}"]


ISSUES: tuple[Column[IssueView], ...] = (
    Column("id", "the issue", at("id"), "issue", lambda issue: issue.id + ("" if issue.listed else " *")),
    *fields("", {"category": "what it belongs to", "what": "what goes wrong"}),
    Column("how", "`prevented`, `detected`, `outside` or `unavailable`", at("how"), "how"),
    Column("fixture", "the lesson of the gallery that does it, `null` where none can",
           lambda issue: issue.fixture or None, "gallery", drop=2),
    Column("checks", "the checks that answer it", at("checks"),
           "checks", lambda issue: ", ".join(issue.checks), drop=1),
    Column("answer", "how it is answered", at("answer"), "answer", shrink=True),
    *fields("", {"listed": "whether it is one of the field's list of 95"}),
)  # fmt: skip


def issue_lines(issues: Sequence[IssueView], *, width: int | None) -> list[str]:
    """The issues for people: each with how it is answered, by what, and what proves it."""
    hows = Counter(str(issue.how) for issue in issues)
    beyond = sum(not issue.listed for issue in issues)
    numbers = ", ".join(f"{number} {how}" for how, number in hows.items())
    told = f"=> {len(issues)} issues, {beyond} of them (*) beyond the field's list: {numbers or 'none'}"
    return [*plain.listing(ISSUES, issues, width=width), "", told]
