"""`aisp doctor`: looks at this machine and says how to fix what is not right. Changes nothing."""

from __future__ import annotations

import click

from aisp.store.results.tables import Column, at, documents, fields
from aisp.store.text import clean_line
from aisp.tui import plain
from aisp.tui.cli import common, imports, machine
from aisp.tui.cli.tree import EXIT_GOOD
from aisp.tui.facts import Check, Facts, Health

SIGNS = {
    Health.OK: "ok",
    Health.WARNING: "warning",
    Health.PROBLEM: "PROBLEM",
    Health.UNKNOWN: "cannot tell",
}
_COLOURS = {Health.WARNING: "yellow", Health.PROBLEM: "red"}


@click.command()
@click.option(
    "--accept",
    is_flag=True,
    help="Accept what appeared on the import path while a run went on: it was you. Nothing else is done.",
)
@common.json_option
def command(accept: bool, as_json: bool) -> int:
    """Check this machine: Python, torch, driver, GPUs, SQLite, folders, engine, system limits, terminal.

    A line for each thing: ok, warning, problem or cannot tell, what was found, and the fix. Nothing is changed,
    clocks and power limits included. Asking torch for CUDA takes a few seconds.

    Exit status: 0 no problem (there may be warnings); 1 a problem.
    """
    if accept:
        told = imports.accept()
        common.answer(as_json, lambda: {"accepted": told}, lambda width: [told])
        return EXIT_GOOD
    found = examine(Facts())
    if as_json:
        counts = {verdict.value: sum(c.verdict is verdict for c in found) for verdict in Health}
        common.say_document({"checks": documents(CHECKS, found), "counts": counts})
    else:
        for check, line in zip(found, lines(found), strict=True):
            colour = _COLOURS.get(check.verdict)
            click.echo(click.style(line, fg=colour) if colour else line)
        common.say(f"\n{summary(found)}")
    return 1 if any(check.verdict is Health.PROBLEM for check in found) else 0


def examine(facts: Facts) -> list[Check]:
    """Run every check. One that fails itself is a value too: unknown, with its error."""
    progress = common.Progress()
    found: list[Check] = []
    for look in machine.CHECKS:
        progress.show(f"looking at {look.__name__.replace('_', ' ')}", now=True)
        try:
            found.extend(look(facts))
        except Exception as error:
            # A machine is stranger than any list of exceptions; the other checks must still be shown.
            reason = f"could not be looked at: {type(error).__name__}: {error}"
            found.append(Check(look.__name__, look.__name__.replace("_", " "), Health.UNKNOWN, reason))
    progress.clear()
    return found


def lines(found: list[Check]) -> list[str]:
    """One text per check: sign, title, value, and the fix on a line of its own."""
    sign = max(len(text) for text in SIGNS.values())
    title = max((plain.cells(check.title) for check in found), default=0)
    shown = []
    for check in found:
        head = f"{SIGNS[check.verdict]:<{sign}}  {check.title:<{title}}  "
        line = head + _VALUE.cell(check)
        if check.fix:
            line += "\n" + " " * len(head) + f"-> {_FIX.cell(check)}"
        shown.append(line)
    return shown


def summary(found: list[Check]) -> str:
    """How many of which."""
    counts = {verdict: sum(check.verdict is verdict for check in found) for verdict in Health}
    return ", ".join(f"{count} {SIGNS[verdict].lower()}" for verdict, count in counts.items() if count)


_VALUE: Column[Check] = Column("value", "what there is", lambda check: clean_line(check.value, limit=2000))
_FIX: Column[Check] = Column("fix", "what helps", lambda check: clean_line(check.fix, limit=2000))
CHECKS: tuple[Column[Check], ...] = (
    *fields("", {"id": "of the check", "title": "what it looks at"}),
    Column("state", "`ok`, `warning` (it works, but not as well as it could), `problem` (something will not work) or "
           "`unknown`", at("verdict")),
    _VALUE,
    _FIX,
)  # fmt: skip
