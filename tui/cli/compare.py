"""`aisp compare`: two stored runs side by side, with a verdict only where one can be had.

The rule stands in store.results.comparison.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from aisp.store.text import clean_line
from aisp.tui import comparing, plain
from aisp.tui.cli import common

if TYPE_CHECKING:
    from aisp.store.record import Arm
    from aisp.store.results.comparison import Compared, Side


ROOMY_COLUMNS = 110


@click.command()
@click.argument("first", metavar="RUN_A", shell_complete=common.complete_runs)
@click.argument("second", metavar="RUN_B", shell_complete=common.complete_runs)
@common.json_option
@click.pass_context
def command(ctx: click.Context, first: str, second: str, as_json: bool) -> None:
    """Put the stored runs RUN_A and RUN_B side by side; how much faster is B?

    A run is named by its id or the beginning of it. Runs of other GPUs, drivers, clocks or hosts, a quick
    one beside a full one, and runs that did not end well are not comparable: it is said what to look at
    first, and a "?" stands before their ratios. Of two quick runs it is said what they cannot show.

    Exit status: 0 they can be compared; 1 they cannot; 2 no such run.
    """
    from aisp.tui.cli import stored  # the store and numpy

    with stored.history() as opened:
        found = comparing.read(opened, first, second)
    common.answer(as_json, lambda: as_document(found), lines, found)
    ctx.exit(1 if found.refused else 0)


def lines(compared: Compared, *, width: int | None) -> list[str]:
    """Both runs for people; the intervals of the two times only where a line has room for them."""
    found = []
    pairs, differences = compared.pairs, compared.differences
    roomy = width is None or width >= ROOMY_COLUMNS
    for name, one in (("A", compared.a), ("B", compared.b)):
        found.append(f"{name}  " + "  ".join(comparing.facts(one)))
    cycles = any(pair.cycles is not None for pair in pairs)
    rows = [
        [
            clean_line(pair.rung),
            *comparing.times(pair, interval=roomy),
            comparing.as_fast(pair),
            *([comparing.cycles(pair)] if cycles else []),
            pair.verdict if pair.verdict.known else plain.DASH,
            clean_line(pair.note, limit=2000),
        ]
        for pair in pairs
    ]
    times = [f"{side} ms [low..high]" if roomy else f"{side} ms" for side in "AB"]
    heads = ["rung", *times, "B is", *(["in cycles"] if cycles else []), "verdict", ""]
    found += ["", *plain.table(heads, rows, width=width, shrink="rung", drop=["", "in cycles"])]
    if differences:
        table = plain.table(
            ["what", "A", "B", ""],
            [[*comparing.difference(d), comparing.REFUSES if d.refuses else ""] for d in differences],
            width=width,
            shrink="B",
        )
        found += ["", *table]
    if compared.turns:
        heads = ["check", "rung", "A", "B", "evidence"]
        told = [comparing.turn(turn) for turn in compared.turns]
        found += ["", *plain.table(heads, told, width=width, shrink="evidence")]
    else:
        found += ["", comparing.no_turns(compared)]
    if compared.conclusion:
        last = [f"=> {compared.conclusion}"]
        found += ["", *(last if width is None else plain.wrapped(last, width))]
    return found


def as_document(compared: Compared) -> dict[str, Any]:
    """Both runs for JSON; the schema is in docs/commands.md."""

    def head(one: Side) -> dict[str, Any]:
        run = one.run
        return {
            "run_id": run.id,
            "target": run.record.target,
            "device": run.record.device,
            "case": run.record.case,
            "quick": run.record.quick,
            "wall": run.record.wall,
            "status": run.record.state,
            "snapshot": run.record.snapshot,
            "sm_clock_mhz": one.sm_clock_mhz,
        }

    def times(arm: Arm | None) -> dict[str, float | None]:
        found = (arm.median_ms, arm.low_ms, arm.high_ms) if arm is not None else (None, None, None)
        return dict(zip(("median_ms", "low_ms", "high_ms"), found, strict=True))

    return {
        "a": head(compared.a),
        "b": head(compared.b),
        "comparable": not compared.refused,
        "conclusion": compared.conclusion,
        "differences": [
            {**dict(zip(("what", "a", "b"), comparing.difference(one), strict=True)), "refuses": one.refuses}
            for one in compared.differences
        ],
        "rungs": [
            {
                "rung": pair.rung,
                "a": times(pair.a),
                "b": times(pair.b),
                **pair.claims(),
                "floor": pair.floor,
                "verdict": pair.verdict,
                "note": pair.note,
            }
            for pair in compared.pairs
        ],
        "checks": [
            dict(zip(("check", "rung", "a", "b", "evidence"), (t.check, t.arm, t.a, t.b, t.evidence), strict=True))
            for t in compared.turns
        ],
    }
