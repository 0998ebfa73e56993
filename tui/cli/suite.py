"""`aisp score`: one number over many targets, from the last full run of each: the geometric mean of their
speed-ups with its interval, and which verdicts stay when so many are looked at together.

What counts is said in store.results.suite. Every target that is left out is named with the reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from aisp.store.results import repeating, suite
from aisp.store.results.prediction import LOOK_BACK_RUNS
from aisp.store.results.tables import documents
from aisp.store.results.tables.suites import TOGETHER, Together
from aisp.store.text import clean_line
from aisp.tui import plain
from aisp.tui.cli import common, resolve
from aisp.tui.earlier import newest_first

if TYPE_CHECKING:
    from aisp.kernels.catalog.model import Target
    from aisp.store.record import Run
    from aisp.store.results.suite import Full, Part, Score
    from aisp.tui.cli.stored import Opened


@click.command()
@common.selectors_argument
@common.hardware_option
@common.roots_option
@common.json_option
def command(selectors: tuple[str, ...], hardware: str | None, roots: tuple[str, ...], as_json: bool) -> int:
    """Put the last full run of each target together: geometric mean, and the verdicts that stay.

    The speed-up of a target is that of its best optimized rung over the first baseline. Which FASTER and SLOWER stay
    is Benjamini and Hochberg's question: of all that is called different at most 5 % may be chance.

    TARGET is an id, a name, a path, a chapter (ch07), a glob, or a run, which then speaks for its target; all that were
    run where none is given.

    Exit status: 0; 1 no target has a full run that counts; 2 no such target.
    """
    words = [word for text in selectors for word in resolve.words(text)] or ["all"]
    known = {target.id: target for target in common.load_catalog(roots).targets}
    with common.history() as opened:
        named, parts = gather(opened, chosen(opened, words, roots), hardware, known)
    score = suite.together(parts)
    if score.count or as_json:
        common.answer(as_json, lambda: _as_json(named, parts, score), lines, named, parts, score)
    else:
        for line in left_out_lines(parts, score):
            common.tell(line)
        common.note(f"no full run that counts is stored; `{repeating.shell('aisp', 'run', *words)}` makes some")
    return 0 if score.count else 1


def chosen(opened: Opened, words: Iterable[str], roots: Sequence[str]) -> dict[str, Iterable[Run]]:
    """By target the runs that may speak for it, newest first: its newest under all its names, or the one named."""
    ran: dict[str, Iterable[Run]] = {}
    for word in words:
        if isinstance(meant := opened.meant(word, roots), str):
            run = opened.run(meant)
            ran[run.target] = [run]
        else:
            ran |= {names[0]: newest_first(opened, names, LOOK_BACK_RUNS) for names in meant}
    return ran


def gather(
    opened: Opened, ran: Mapping[str, Iterable[Run]], hardware: str | None, known: Mapping[str, Target]
) -> tuple[str, list[Part]]:
    """The hardware that the runs must be on, and per target the first full one of its runs there of its usual case; of
    any case where the target is not `known` any more."""
    full: dict[str, list[Full]] = {}
    of_another: set[str] = set()  # targets with full runs of other cases
    for target, records in ran.items():
        lesson = known.get(target)
        on_host = lesson is not None and lesson.on_host
        runs = suite.full_runs(records, opened.read, opened.facts, on_host=on_host)
        full[target] = [one for one in runs if not one.run.unusual_case(lesson)]
        if len(full[target]) < len(runs):
            of_another.add(target)
    named = hardware or suite.newest_hardware(one for runs in full.values() for one in runs)
    parts = []
    for target, runs in full.items():
        there = suite.on_hardware(runs, hardware, named)
        what = "no full run of its usual case" if target in of_another else "no full run"
        none = suite.Part(target, left_out=f"{what} on {named}" if named else what)
        parts.append(suite.part_of(there[0].run) if there else none)
    return named, parts


def summary_lines(score: Score, *, head: str = "", tail: str = "") -> list[str]:
    """ "=> geometric mean 1.84x [1.62..2.09] over 12 targets", and which verdicts stay. `head` and `tail` stand around
    the first line's text."""
    mean = plain.speedup(score.geometric_mean, score.low, score.high)
    found = [f"=> {head}geometric mean {mean} over {plain.counted(score.count, 'target')}{tail}"]
    called = len(score.confirmed) + len(score.not_confirmed)
    if called:
        how = f"Benjamini-Hochberg, {plain.percent(score.level)}"
        found.append(f"   {len(score.confirmed)} of {called} FASTER or SLOWER confirmed ({how})")
    return found


def left_out_lines(parts: Iterable[Part], score: Score) -> list[str]:
    """A line per reason, with the targets that it leaves out."""
    return common.by_reason((target, f"left out, {reason}") for target, reason in suite.left_out(parts, score).items())


def lines(named: str, parts: Sequence[Part], score: Score, *, width: int | None) -> list[str]:
    rows = [Together(*one) for one in suite.counted(parts, score)]
    return [
        f"last full runs on {clean_line(named)}",
        "",
        *plain.listing(TOGETHER, rows, width=width),
        "",
        *left_out_lines(parts, score),
        *summary_lines(score),
    ]


def _as_json(named: str, parts: Sequence[Part], score: Score) -> dict[str, Any]:
    return {
        "on": named or None,
        **score.as_json(),
        "level": score.level,
        "confirmed": list(score.confirmed),
        "not_confirmed": list(score.not_confirmed),
        "left_out": [{"target": target, "reason": reason} for target, reason in suite.left_out(parts, score).items()],
        "results": documents(TOGETHER, [Together(*one) for one in suite.counted(parts, score)]),
    }
