"""`aisp compare`: two stored runs side by side, with a verdict only where one can be had.

The rule stands in store.results.comparison.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from aisp.store.results import repeating
from aisp.store.results.roofline import LOOK_BACK_RUNS
from aisp.store.results.standing import is_result
from aisp.store.results.tables import attributes, documents
from aisp.tui import comparing, plain
from aisp.tui.cli import common
from aisp.tui.comparing import DIFFERENCES, PAIRS, TURNS
from aisp.tui.earlier import newest_first

if TYPE_CHECKING:
    from aisp.store.results.comparison import Compared, Pair, Side
    from aisp.tui.cli.stored import Opened


ROOMY_COLUMNS = 110


@click.command()
@click.argument("first", metavar="RUN_A|TARGET", shell_complete=common.complete_groups_and_runs)
@click.argument("second", metavar="[RUN_B|TARGET]", required=False, shell_complete=common.complete_groups_and_runs)
@common.json_option
def command(first: str, second: str | None, as_json: bool) -> int:
    """Put the stored runs RUN_A and RUN_B side by side; how much faster is B?

    A run is named by its id or the beginning of it; a TARGET stands for its last result, and alone for its last
    two, the newest as B. Runs of other GPUs, drivers, clocks or hosts, a quick
    one beside a full one, and runs that did not end well are not comparable: it is said what to look at
    first, and a "?" stands before their ratios. Of two quick runs it is said what they cannot show.

    Exit status: 0 they can be compared; 1 they cannot; 2 no such run or target.
    """
    with common.history() as opened:
        found = comparing.read(opened, *ends(opened, first, second))
    common.answer(as_json, lambda: _as_json(found), lines, found)
    return 1 if found.refused else 0


def ends(opened: Opened, first: str, second: str | None) -> tuple[str, str]:
    """The ids of the two runs, A first."""
    if second is not None:
        return opened.one(first), opened.one(second)
    if isinstance(opened.meant(first, ()), str):
        raise click.UsageError(f"{first} is one run; name another one beside it, or a TARGET to compare its last two")
    names = opened.target(first, ())
    results = itertools.islice(filter(is_result, newest_first(opened, names, LOOK_BACK_RUNS)), 2)
    ids = [run.id for run in results][::-1]
    if len(ids) < 2:
        makes = repeating.shell("aisp", "run", first)
        raise click.UsageError(f"{'only one' if ids else 'no'} result of {names[0]} is stored; `{makes}` makes one")
    return ids[0], ids[1]


def lines(compared: Compared, *, width: int | None) -> list[str]:
    """Both runs for people; the intervals of the two times only where a line has room for them."""
    found = [f"{name}  {'  '.join(comparing.facts(one))}" for name, one in (("A", compared.a), ("B", compared.b))]
    columns = list(PAIRS)
    if width is not None and width < ROOMY_COLUMNS:

        def short(pair: Pair, place: int) -> str:
            return comparing.times(pair, interval=False)[place]

        texts = {name: partial(short, place=place) for place, name in enumerate("ab")}
        columns = [replace(c, head=f"{c.key.upper()} ms", text=texts[c.key]) if c.key in texts else c for c in columns]
    if all(pair.cycles is None for pair in compared.pairs):
        columns = [column for column in columns if column.key != "cycles"]
    found += ["", *plain.listing(columns, compared.pairs, width=width, tabs=False)]
    if compared.differences:
        found += ["", *plain.listing(DIFFERENCES, compared.differences, width=width, tabs=False)]
    turns = (
        plain.listing(TURNS, compared.turns, width=width, tabs=False)
        if compared.turns
        else [comparing.no_turns(compared)]
    )
    found += ["", *turns]
    if compared.conclusion:
        last = [f"=> {compared.conclusion}"]
        found += ["", *(last if width is None else plain.wrapped(last, width))]
    return found


def _as_json(compared: Compared) -> dict[str, Any]:
    def head(one: Side) -> dict[str, Any]:
        of_run = attributes(one.run.record, "target", "device", "case", "quick", "wall", "snapshot")
        return {"run_id": one.run.id, "status": one.run.record.state, **of_run, "sm_clock_mhz": one.sm_clock_mhz}

    return {
        "a": head(compared.a),
        "b": head(compared.b),
        "comparable": not compared.refused,
        "conclusion": compared.conclusion,
        "differences": documents(DIFFERENCES, compared.differences),
        "rungs": documents(PAIRS, compared.pairs),
        "checks": documents(TURNS, compared.turns),
    }
