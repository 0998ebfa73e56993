"""`aisp bench compare`: two stored runs side by side, with a verdict only where one can be had.

The rule stands in store.results.comparison.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from aisp.store.results.comparison import Difference, Pair, Side, compare, differing
from aisp.store.text import clean_line
from aisp.tui import plain
from aisp.tui.cli import common

if TYPE_CHECKING:
    from aisp.store.record import Arm, Run
    from aisp.tui.cli.stored import Opened


ROOMY_COLUMNS = 110


@click.command()
@click.argument("first", metavar="RUN_A", shell_complete=common.complete_runs)
@click.argument("second", metavar="RUN_B", shell_complete=common.complete_runs)
@common.json_option
@click.pass_context
def command(ctx: click.Context, first: str, second: str, as_json: bool) -> None:
    """Put the stored runs RUN_A and RUN_B side by side; how much faster is B?

    A run is named by its id or the beginning of it. There is no verdict where devices, clocks or hosts
    differ, for a quick run beside a full one, and for runs that did not end well. Of two quick runs it
    is said what they cannot show.

    Exit status: 0 they can be compared; 1 they cannot; 2 no such run.
    """
    from aisp.tui.cli import stored  # the store and numpy

    with stored.history() as opened:
        a, b = (_side(opened, opened.run(run_id)) for run_id in (first, second))
    differences = differing(a, b)
    refused = any(difference.refuses for difference in differences)
    pairs = compare(a.run, b.run, refused=refused)
    common.answer(as_json, lambda: as_document(a, b, differences, pairs), lines, a, b, differences, pairs)
    ctx.exit(1 if refused else 0)


def _side(opened: Opened, record: Run) -> Side:
    import numpy as np  # the store has it imported already

    clocks = [arm.sm_clock_mhz for arm in record.arms if arm.sm_clock_mhz is not None]
    clock = float(np.median(clocks)) if clocks else None
    telemetry = None if clocks else opened.telemetry(record.id)
    if telemetry is not None and np.isfinite(telemetry.sm_clock_mhz).any():
        clock = float(np.nanmedian(telemetry.sm_clock_mhz))
    return Side(opened.read(record), opened.facts(record), clock)


def _texts(found: Difference) -> list[str]:
    """What two runs differ in, and how; a dash for what is not known."""
    return [plain.DASH if v in (None, "") else clean_line(str(v)) for v in (found.what, found.a, found.b)]


def _mhz(clock: float | None) -> str:
    return plain.DASH if clock is None else f"{clock:.0f} MHz"


def _interval(arm: Arm | None) -> tuple[float | None, float | None, float | None]:
    return (arm.median_ms, arm.low_ms, arm.high_ms) if arm else (None, None, None)


def lines(a: Side, b: Side, differences: list[Difference], pairs: list[Pair], *, width: int | None) -> list[str]:
    """Both runs for people; the intervals of the two times only where a line has room for them."""
    found = []
    roomy = width is None or width >= ROOMY_COLUMNS
    for name, side in (("A", a), ("B", b)):
        run = side.run
        facts = [
            run.id,
            run.record.target,
            run.record.device,
            run.record.case,
            "quick" if run.record.quick else "",
            plain.local_time(run.record.wall),
            _mhz(side.sm_clock_mhz),
        ]
        found.append(f"{name}  " + clean_line("  ".join(fact for fact in facts if fact and fact != plain.DASH)))
    rows = [
        [
            clean_line(pair.rung),
            *(plain.milliseconds(*_interval(arm)[: 3 if roomy else 1]) for arm in (pair.a, pair.b)),
            _as_fast(pair),
            pair.verdict if pair.verdict.known else plain.DASH,
            clean_line(pair.note, limit=2000),
        ]
        for pair in pairs
    ]
    times = [f"{side} ms [low..high]" if roomy else f"{side} ms" for side in "AB"]
    heads = ["rung", *times, "B is", "verdict", ""]
    found += ["", *plain.table(heads, rows, width=width, shrink="rung", drop=[""])]
    if differences:
        table = plain.table(
            ["what", "A", "B", ""],
            [[*_texts(d), "no verdict because of it" if d.refuses else ""] for d in differences],
            width=width,
            shrink="B",
        )
        found += ["", *table]
    if any(difference.refuses for difference in differences):
        found += ["", "=> no verdict: these two runs cannot be compared"]
    elif a.run.record.quick and b.run.record.quick:
        caveat = "both runs were quick: two processes each show little of how processes differ; compare two full runs"
        found += ["", f"=> {caveat} before you rely on it"]
    return found


def _as_fast(pair: Pair) -> str:
    """ "2.00x as fast as A [1.96..2.04]"."""
    ratio, *interval = plain.speedup(pair.speedup, pair.low, pair.high).split(" ")
    return ratio if pair.speedup is None else " ".join([ratio, "as fast as A", *interval])


def as_document(a: Side, b: Side, differences: list[Difference], pairs: list[Pair]) -> dict[str, Any]:
    """Both runs for JSON; the schema is in docs/commands.md."""

    def head(side: Side) -> dict[str, Any]:
        run = side.run
        return {
            "run_id": run.id,
            "target": run.record.target,
            "device": run.record.device,
            "case": run.record.case,
            "quick": run.record.quick,
            "wall": run.record.wall,
            "status": run.record.state,
            "snapshot": run.record.snapshot,
            "sm_clock_mhz": side.sm_clock_mhz,
        }

    def times(arm: Arm | None) -> dict[str, float | None]:
        return dict(zip(("median_ms", "low_ms", "high_ms"), _interval(arm), strict=True))

    return {
        "a": head(a),
        "b": head(b),
        "comparable": not any(difference.refuses for difference in differences),
        "differences": [
            dict(zip(("what", "a", "b"), _texts(d), strict=True)) | {"refuses": d.refuses} for d in differences
        ],
        "rungs": [
            {
                "rung": pair.rung,
                "a": times(pair.a),
                "b": times(pair.b),
                "speedup": pair.speedup,
                "low": pair.low,
                "high": pair.high,
                "floor": pair.floor,
                "verdict": pair.verdict,
                "note": pair.note,
            }
            for pair in pairs
        ],
    }
