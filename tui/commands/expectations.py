"""`aisp bench expectations`: what each lesson predicted before it was measured, beside what was measured
last.

A prediction names the hardware it is for. It is met when the measured speed-up of the best rung lies in the
predicted range, and where memory is the lesson also the peak memory that it saves. Where the lesson is that something
does not help, `optimized` is what was predicted: another rung may be faster by other means. Where it is what must be
refused, none is optimized, and the fastest of those that are not refused counts. A measurement on other hardware is
shown and answers nothing, and neither does one that is not to be believed, one with `--validity portable`, or one of a
target with a rung in quarantine.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from engine.clean import clean_line
from kernels.catalog.model import Goal
from store.outcomes import State, Validity, Verdict
from tui import plain
from tui.commands import common
from tui.commands.follow import A_A, OPTIMIZED, PORTABLE
from tui.commands.quarantine import Mark, Marks
from tui.results import is_meant

if TYPE_CHECKING:
    from kernels.catalog.model import Expectation, Target
    from store import History
    from tui.commands.follow import RunView

LOOK_BACK_RUNS = 200
"""How many of a target's runs are looked through for one on the predicted hardware."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A target's prediction and the run that speaks about it; `met` is None where nothing does, and `marks` are its
    rungs in quarantine."""

    target: Target
    run: RunView | None = None
    best: Measured | None = None
    measured_on: str = ""
    met: bool | None = None
    marks: tuple[Mark, ...] = ()


@dataclass(frozen=True, slots=True)
class Measured:
    """What a run says to a prediction: its best rung, that one's speed-up over the first baseline and the baseline's
    peak memory over the rung's. Where memory is the goal the best rung is the leanest, where nothing is to be gained it
    is `optimized` itself, where the goal is a refusal the fastest that is not refused, else the fastest optimized."""

    rung: str = ""
    speedup: float | None = None
    low: float | None = None
    high: float | None = None
    memory: float | None = None
    verdict: str = Verdict.NONE

    @classmethod
    def of(cls, run: RunView, goal: Goal) -> Measured:
        """Of a run that has ended."""
        peaks = {
            arm.rung: arm.known.peak_bytes
            for arm in run.arms.values()
            if arm.known is not None and arm.known.peak_bytes and run.mark(arm.rung) is None
        }
        lean = {rung: peak for rung, peak in peaks.items() if rung.startswith(OPTIMIZED)}
        best = run.best
        if goal is Goal.MEMORY and lean:
            best = run.comparisons.get((min(lean, key=lambda rung: lean[rung]), run.baseline))
        elif goal is Goal.NULL:
            best = run.comparisons.get((OPTIMIZED, run.baseline), best)
        elif goal is Goal.REFUSAL:
            honest = [c for c in run.comparisons.values() if c.baseline == run.baseline and not c.rung.endswith(A_A)]
            best = max((c for c in honest if c.speedup is not None), key=lambda c: c.speedup or 0.0, default=best)
        if best is None:
            return cls()
        memory = peaks[run.baseline] / peaks[best.rung] if {run.baseline, best.rung} <= peaks.keys() else None
        return cls(best.rung, best.speedup, best.low, best.high, memory, best.verdict)

    def meets(self, expect: Expectation) -> bool | None:
        """Whether everything that was predicted lies in its range; None where something was not measured."""
        pairs = [(self.speedup, expect.speedup)] + ([(self.memory, expect.memory)] if expect.memory else [])
        if any(value is None for value, _ in pairs):
            return None
        return all(low <= (value or 0.0) <= high for value, (low, high) in pairs)


@click.command()
@common.roots_option
@common.json_option
@click.pass_context
def command(ctx: click.Context, roots: tuple[str, ...], as_json: bool) -> None:
    """Show the predicted range of each target's speed-up beside what was measured last on that hardware.

    Exit status: 0 no prediction was missed; 1 one was.
    """
    from tui.commands import stored  # the store and numpy

    targets = [target for target in common.load_catalog(roots).targets if target.expect is not None]
    with stored.history() as opened:
        kept = stored.marks()
        findings = [look(opened, target, kept) for target in targets]
    if as_json:
        common.say_document([as_document(finding) for finding in findings])
    elif findings:
        common.say("\n".join(lines(findings, width=common.terminal_width())))
    else:
        common.say("no target predicts anything; `expect` in lesson.md does")
    ctx.exit(1 if any(finding.met is False for finding in findings) else 0)


def look(opened: History, target: Target, kept: Marks) -> Finding:
    """The newest timed run of the usual case of `target` on the hardware of its prediction that may answer it, else the
    newest that may not: on other hardware, or a portable one."""
    from tui.commands import stored

    assert target.expect is not None
    marks = tuple(kept.in_force(bytes(target.folder)).values())
    elsewhere: Finding | None = None
    for record in opened.newest(LOOK_BACK_RUNS, target.id, all_findings=False):
        if record.case != target.usual_case(record.device).name:
            continue
        run = stored.view(record, kept)
        best = Measured.of(run, target.goal)
        if run.state != State.OK or best.speedup is None:
            continue
        facts = stored.environment(opened, record)
        name = stored.ran_on(record, facts)
        meant = is_meant(target.expect.on, stored.hardware(record, facts, on_host=target.on_host))
        if not meant or run.policy == PORTABLE:
            elsewhere = elsewhere or Finding(target, run, best, name, marks=marks)
            continue
        believed = run.validity == Validity.VALID and not marks
        return Finding(target, run, best, name, best.meets(target.expect) if believed else None, marks)
    return elsewhere or Finding(target, marks=marks)


def lines(findings: list[Finding], *, width: int | None) -> list[str]:
    """The table for people."""
    rows = []
    for finding in findings:
        expect = finding.target.expect
        assert expect is not None
        best = finding.best
        row = [
            finding.target.id,
            f"{times(expect.speedup)}{f', {times(expect.memory)} less memory' if expect.memory else ''} on {expect.on}",
            _measured(best, expect) if best else plain.DASH,
            finding.measured_on or plain.DASH,
            answer(finding),
        ]
        rows.append([clean_line(cell) for cell in row])
    heads = ["target", "predicted", "measured [low..high]", "on", "met"]
    told = [f"{finding.target.id}: {mark.sentence}" for finding in findings for mark in finding.marks]
    return [
        *plain.table(heads, rows, width=width, shrink="on", drop=["on"]),
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


def answer(finding: Finding) -> str:
    """Whether a prediction was met, or in a word why that cannot be said."""
    if finding.marks:
        return "quarantined"
    if finding.met is not None:
        return "met" if finding.met else "not met"
    return PORTABLE if finding.run is not None and finding.run.policy == PORTABLE else plain.DASH


def as_document(finding: Finding) -> dict[str, Any]:
    """A finding for JSON; the schema is in docs/commands.md."""
    expect, run, best = finding.target.expect, finding.run, finding.best
    assert expect is not None
    measured = None
    if run is not None and best is not None:
        measured = {
            "run_id": run.id,
            "wall": run.wall,
            "on": finding.measured_on or None,
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
        "met": finding.met,
        "quarantined": [mark.as_json() for mark in finding.marks],
    }
