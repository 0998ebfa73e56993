"""`aisp bench history`: a target's earlier runs, or everybody's newest, from the store."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from engine.clean import clean_line
from store.outcomes import State
from tui import plain
from tui.commands import common
from tui.commands.follow import RunView, run_json

if TYPE_CHECKING:
    from collections.abc import Sequence


DROPPED = ("best rung", "mode", "on", "ms [low..high]", "when")
"""Columns that a narrow terminal goes without; run, outcome and speed-up stay."""


@click.command()
@click.argument("target_id", metavar="[TARGET]", required=False)
@click.option("--limit", type=click.IntRange(1), default=20, show_default=True, help="At most so many runs.")
@common.json_option
@click.pass_context
def command(ctx: click.Context, target_id: str | None, limit: int, as_json: bool) -> None:
    """Show the newest runs of TARGET, or of all targets, newest first.

    The store is asked, not the catalogue: a target that was deleted keeps its history.

    Exit status: 0; 1 nothing was run yet.
    """
    from tui.commands import stored  # the store and numpy

    with stored.history() as opened:
        runs = [stored.view(record) for record in opened.newest(limit, target_id)]
    if as_json:
        common.say_document([run_json(run) for run in runs])
    elif runs:
        common.say("\n".join(lines(runs, with_target=target_id is None, width=common.terminal_width())))
    else:
        what = f"no run of {clean_line(target_id)}" if target_id else "no run"
        common.note(f"aisp: {what} is stored yet; `aisp bench run --targets ID` makes one")
    ctx.exit(0 if runs else 1)


def lines(runs: Sequence[RunView], *, with_target: bool, width: int | None) -> list[str]:
    """The table for people."""
    heads = [
        "when",
        "run",
        "target",
        "on",
        "mode",
        "outcome",
        "best rung",
        "ms [low..high]",
        "speed-up [low..high]",
    ]
    rows = []
    for run in runs:
        best = run.best
        arm = run.arms.get(best.rung) if best else None
        known = arm.known if arm else None
        outcome = (run.finished.verdict if run.finished else run.state) if run.state == State.OK else run.state
        if run.finished and run.finished.validity in ("suspect", "caught"):
            outcome += f" ({run.finished.validity})"
        row = [
            plain.local_time(run.wall),
            run.id,
            run.target,
            f"{run.device} {run.case}".rstrip(),
            "quick" if run.quick else "full",
            outcome,
            best.rung if best else plain.DASH,
            plain.milliseconds(known.median_ms, known.low_ms, known.high_ms)
            if known
            else plain.milliseconds(run.best_ms),
            plain.speedup(best.speedup, best.low, best.high) if best else plain.DASH,
        ]
        rows.append([clean_line(cell) for cell in row])
    if not with_target:
        heads.remove("target")
        rows = [[*row[:2], *row[3:]] for row in rows]
    return plain.table(heads, rows, width=width, shrink="best rung", drop=DROPPED)
