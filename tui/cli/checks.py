"""`aisp checks`: every check by category, what it answers and what proves it, and what each said of a run; with
`--issues` every way in which a result can be invalid, and how it is answered.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from aisp.store.outcomes import FindingStatus
from aisp.store.results import busy, trust
from aisp.store.results.reading import Reading
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
        common.answer(as_json, lambda: {"issues": [issue_json(issue) for issue in told]}, issue_lines, told)
        return
    run = look(wanted, roots)
    listed = registry.listing()
    common.answer(as_json, lambda: {"checks": [check_json(check, run) for check in listed]}, lines, listed, run)


def look(wanted: str | None, roots: Sequence[str]) -> Reading | None:
    """The run that was asked for, else the newest that was checked; None where nothing is stored yet.

    Raises click.UsageError for a target without such a run, and for an unknown run.
    """
    from aisp.tui.cli import stored  # the store and numpy

    with stored.history() as opened:
        named = [None] if wanted is None else opened.meant(wanted, roots)
        if isinstance(named, str):
            return opened.read(opened.run(named))
        ran = [run for target in named for run in opened.newest(trust.LOOK_BACK_RUNS, target)]
        found = trust.newest_checked(sorted(ran, key=lambda run: run.wall, reverse=True))
        if found is not None:
            return opened.read(found)
    if wanted is not None:
        raise click.UsageError(
            f"no run of {clean_line(wanted)!r} that was checked is stored; `aisp run TARGET` makes one"
        )
    return None


def lines(checks: Sequence[CheckView], run: Reading | None, *, width: int | None) -> list[str]:
    """The checks for people: a table per category, and below it what was caught, suspect, or could not be asked."""
    said = trust.by_check(run.record.findings) if run is not None else {}
    found: list[str] = []
    for category, here in _by_category(checks):
        rows = []
        told: dict[str, None] = {}
        for check in here:
            answers = said.get(check.id)
            rows.append(
                [
                    clean_line(check.id.partition(".")[2]),
                    clean_line(check.title),
                    clean_line(str(check.how)),
                    clean_line(str(check.when)),
                    clean_line(", ".join(str(need) for need in check.needs)) or plain.DASH,
                    f"{len(check.cheats)}/{len(check.twins)}",
                    WORDS[answers.status] if answers is not None else plain.DASH,
                ]
            )
            for one in answers.findings if answers is not None else ():
                if one.status in TOLD:
                    told.setdefault(
                        clean_line(
                            f"{check.id}: {WORDS[one.status]}, {one.arm or 'the run'}: {one.evidence}", limit=2000
                        )
                    )
        heads = [category, "what", "how", "looks", "needs", "cheats/twins", "last run"]
        if width is not None and width < WIDE:
            heads, rows = _narrow(heads), [_narrow(row) for row in rows]
        drop = ["cheats/twins", "how"]
        found += [*common.table(heads, rows, width=width, shrink="what", drop=drop), *told, ""]
    counts = trust.counts(said[check.id] for check in checks if check.id in said)
    what = f"{len(checks)} checks"
    if run is None:
        return [*found, f"=> {what}; no run that was checked is stored yet"]
    numbers = ", ".join(f"{counts[status]} {WORDS[status]}" for status in WORDS if counts[status])
    where = clean_line(f"run {run.id} of {run.record.target}, {plain.local_time(run.record.wall)}")
    where += f", {busy.MACHINE}" if busy.of_run(run.record) else ""
    return [*found, f"=> {what}; {where}: {numbers or 'was not checked'}"]


def _narrow(row: Sequence[str]) -> list[str]:
    """Without when a check looks and what it needs, which leaves room for what it is about."""
    return [*row[:3], *row[5:]]


def _by_category(checks: Sequence[CheckView]) -> list[tuple[str, list[CheckView]]]:
    grouped: dict[str, list[CheckView]] = {}
    for check in checks:
        grouped.setdefault(check.category, []).append(check)
    return list(grouped.items())


def check_json(check: CheckView, run: Reading | None) -> dict[str, Any]:
    """A check for JSON; the schema is in docs/commands.md."""
    answers = trust.by_check(run.record.findings).get(check.id) if run is not None else None
    last: Mapping[str, Any] | None = None
    if run is not None and answers is not None:
        last = {
            "run_id": run.id,
            "target": run.record.target,
            "wall": run.record.wall,
            "status": answers.status,
            "said": [
                {"arm": f.arm, "status": f.status, "evidence": f.evidence}
                for f in run.record.findings
                if f.check == check.id
            ],
        }
    return {**asdict(check), "last": last}


def issue_lines(issues: Sequence[IssueView], *, width: int | None) -> list[str]:
    """The issues for people: each with how it is answered, by what, and what proves it."""
    rows = [
        [
            clean_line(issue.id) + ("" if issue.listed else " *"),
            clean_line(str(issue.how)),
            clean_line(issue.fixture) or plain.DASH,
            clean_line(", ".join(issue.checks)) or plain.DASH,
            clean_line(issue.answer, limit=2000),
        ]
        for issue in issues
    ]
    hows: dict[str, int] = {}
    for issue in issues:
        hows[str(issue.how)] = hows.get(str(issue.how), 0) + 1
    beyond = sum(not issue.listed for issue in issues)
    heads = ["issue", "how", "gallery", "checks", "answer"]
    numbers = ", ".join(f"{number} {how}" for how, number in hows.items())
    return [
        *common.table(heads, rows, width=width, shrink="answer", drop=["checks", "gallery"]),
        "",
        f"=> {len(issues)} issues, {beyond} of them (*) beyond the field's list: {numbers or 'none'}",
    ]


def issue_json(issue: IssueView) -> dict[str, Any]:
    """An issue for JSON; the schema is in docs/commands.md."""
    return {**asdict(issue), "category": issue.category, "fixture": issue.fixture or None}
