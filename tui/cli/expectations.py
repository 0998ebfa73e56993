"""`aisp bench expectations`: what each lesson predicted before it was measured, beside what was measured last.

What counts, and which run is looked at, is said in store.results.prediction. A measurement that answers nothing is
shown.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from aisp.store.results.prediction import LOOK_BACK_RUNS, PORTABLE, Answer, Measured, Says, answer
from aisp.store.results.reading import Bar
from aisp.store.text import clean_line
from aisp.tui import plain
from aisp.tui.cli import common

if TYPE_CHECKING:
    from aisp.kernels.catalog.model import Expectation, Target
    from aisp.tui.cli.stored import Opened


@dataclass(frozen=True, slots=True)
class Finding:
    """A target's prediction and what is known of it; `marks` are the target's rungs in quarantine."""

    target: Target
    answer: Answer
    marks: tuple[Bar, ...] = ()


@click.command()
@common.roots_option
@common.json_option
@click.pass_context
def command(ctx: click.Context, roots: tuple[str, ...], as_json: bool) -> None:
    """Show the predicted range of each target's speed-up beside what was measured last on that hardware.

    Exit status: 0 no prediction was missed; 1 one was.
    """
    from aisp.tui.cli import stored  # the store and numpy

    targets = [target for target in common.load_catalog(roots).targets if target.expect is not None]
    with stored.history() as opened:
        findings = [look(opened, target) for target in targets]
    if as_json:
        common.say_document({"targets": [as_document(finding) for finding in findings]})
    elif findings:
        common.say("\n".join(lines(findings, width=common.terminal_width())))
    else:
        common.say("no target predicts anything; `expect` in lesson.md does")
    ctx.exit(1 if any(finding.answer.met is False for finding in findings) else 0)


def look(opened: Opened, target: Target) -> Finding:
    """What the store knows of a target's prediction."""
    marks = tuple(opened.marks.in_force(bytes(target.folder)).values())
    runs = opened.newest(LOOK_BACK_RUNS, target.id, all_findings=False)
    found = answer(runs, target, opened.facts, quarantined=bool(marks))
    return Finding(target, found, marks)


def lines(findings: list[Finding], *, width: int | None) -> list[str]:
    """The table for people."""
    rows = []
    for finding in findings:
        expect = finding.target.expect
        assert expect is not None
        found = finding.answer
        row = [
            finding.target.id,
            f"{times(expect.speedup)}{f', {times(expect.memory)} less memory' if expect.memory else ''} on {expect.on}",
            _measured(found.measured, expect) if found.run else plain.DASH,
            found.on or plain.DASH,
            said_word(found.says),
        ]
        rows.append([clean_line(cell) for cell in row])
    heads = ["target", "predicted", "measured [low..high]", "on", "met"]
    told = [f"{finding.target.id}: {mark.sentence}" for finding in findings for mark in finding.marks]
    return [
        *common.table(heads, rows, width=width, shrink="on", drop=["on"]),
        *([""] if told else []),
        *(clean_line(line, limit=2000) for line in told),
    ]


def times(limits: tuple[float, float]) -> str:
    """A range of factors: "1.5x..3x"."""
    return f"{plain.number(limits[0], 3)}x..{plain.number(limits[1], 3)}x"


def _measured(best: Measured, expect: Expectation) -> str:
    text = plain.speedup(best.speedup, best.low, best.high)
    known = expect.memory and best.memory is not None
    return f"{text}, {plain.saved(best.memory)} memory" if known else text


def said_word(says: Says) -> str:
    """What is known of a prediction, in a word; a dash where no run can say."""
    return _WORDS.get(says, plain.DASH)


_WORDS = {
    Says.MET: "met",
    Says.MISSED: "not met",
    Says.PORTABLE: PORTABLE,
    Says.QUARANTINED: "quarantined",
}


def as_document(finding: Finding) -> dict[str, Any]:
    """A finding for JSON; the schema is in docs/commands.md."""
    expect, run, best = finding.target.expect, finding.answer.run, finding.answer.measured
    assert expect is not None
    measured = None
    if run is not None:
        measured = {
            "run_id": run.id,
            "wall": run.wall,
            "on": finding.answer.on or None,
            "quick": run.quick,
            "validity": run.validity,
            "policy": run.policy,
            "rung": best.rung,
            "speedup": best.speedup,
            "low": best.low,
            "high": best.high,
            "memory": best.memory,
            "verdict": best.verdict,
        }
    return {
        "target": finding.target.id,
        "predicted": {
            "low": expect.speedup[0],
            "high": expect.speedup[1],
            "memory": list(expect.memory) if expect.memory else None,
            "on": expect.on,
            "why": expect.why,
        },
        "measured": measured,
        "met": finding.answer.met,
        "quarantined": [mark.as_json() for mark in finding.marks],
    }
