"""`aisp lint`: does the task itself ask enough? An operator on whose inputs zeros, a constant or half of the rows
would pass shows nothing about a kernel, and is told before any kernel is judged."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import click

from aisp.store.results.tables import Column, attributes, documents
from aisp.tui import plain
from aisp.tui.cli import common
from aisp.tui.cli.fuzz import Ask, Following, apart, find_target
from aisp.tui.cli.tree import EXIT_GOOD, EXIT_INTERRUPTED, EXIT_NO, EXIT_NOT_HERE

if TYPE_CHECKING:
    from aisp.engine.protocol import events

CASES = 12
OK, WEAK, UNKNOWN = "ok", "weak", "unknown"


@click.command()
@common.target_argument
@click.option(
    "--cases",
    type=click.IntRange(1, 10_000),
    default=CASES,
    show_default=True,
    metavar="N",
    help="How many drawn cases the answers are tried on.",
)
@common.seed_option
@common.device_option
@common.root_option
@common.again_option
@common.json_option
def command(target_id: str, seed: int | None, roots: tuple[str, ...], as_json: bool, **how: Any) -> int:
    """Ask whether careless answers would pass for TARGET, whether every input matters, and whether the tolerance fits.

    Exit status: 0 nothing is weak; 1 something is; 3 nothing could be found out here; 130 left by Ctrl-C.
    """
    from aisp.engine.protocol import events, requests  # msgspec: only once there is something to send

    root, target = find_target(target_id, roots)
    ask = Ask(requests.FuzzTarget(seq=0, root=root, target=target.id, seed=seed, lint=True, **how))
    interrupted = asyncio.run(Following([ask]).run())
    end = ask.end
    if interrupted or not isinstance(end, events.LintFinished):
        return EXIT_INTERRUPTED
    if as_json:
        seed = ask.planned.seed if ask.planned else seed
        head = {**attributes(end, "target", "device"), "seed": seed, "reason": end.reason}
        common.say_document({**head, "items": documents(ITEMS, end.items)})
    else:
        outcome = {EXIT_GOOD: "ok", EXIT_NOT_HERE: "undecided"}.get(exit_status(end), WEAK)
        common.say_result(lines(end, width=common.terminal_width()), outcome)
    if end.reason:
        common.note(end.reason)
    return exit_status(end)


def statuses(end: events.LintFinished) -> list[str]:
    """Status of each item."""
    return [str(item.get("status", UNKNOWN)) for item in end.items]


def exit_status(end: events.LintFinished) -> int:
    """1 where something is weak, 3 where nothing was found out, else 0."""
    found = statuses(end)
    if WEAK in found:
        return EXIT_NO
    return EXIT_NOT_HERE if end.reason or OK not in found else EXIT_GOOD


def lines(end: events.LintFinished, *, width: int | None) -> list[str]:
    """What was found for people; the last line is the outcome."""
    found = statuses(end)
    counts = ", ".join(f"{found.count(status)} {status}" for status in (WEAK, UNKNOWN, OK) if status in found)
    table = ["", *plain.listing(ITEMS, end.items, width=width, tabs=False), ""] if end.items else []
    return [apart(end.target, end.device), *table, f"=> {counts or 'nothing was found out'}"]


def _item(key: str, means: str, head: str, *, shrink: bool = False) -> Column[dict[str, Any]]:
    return Column(key, means, lambda item: item.get(key), head, shrink=shrink)


ITEMS = (
    _item("name", "what was asked of the task", "asked"),
    _item("status", "`ok`, `weak` or `unknown`", "answer"),
    _item("detail", "how that shows", "why", shrink=True),
)
