"""What a run says of one candidate among others: how it ended, at which stage, and whether it is worth a full run.

A run of several candidates ends as its worst one does. What is said of one here depends on that one, on the baseline
and on the run as a whole, and on no other candidate.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from aisp.store.outcomes import Fault, State, Validity, Verdict
from aisp.store.results import outcome, telling
from aisp.store.results.best_of import best_of
from aisp.store.results.outcome import Stage
from aisp.store.results.suite import NORMAL_95

if TYPE_CHECKING:
    from aisp.store.record import Run
    from aisp.store.results.outcome import Ended
    from aisp.store.results.reading import Reading

FINALISTS = 3
"""Candidates that get a full run where nobody says how many."""


DETAIL_CHARS = 4000


REACHED = (Stage.PARSE, Stage.LOAD, Stage.VALUES, Stage.QUICK, Stage.FULL)
"""How far a candidate came, the cheapest first."""
_STAGES = {
    "compile": Stage.LOAD,
    "verify": Stage.VALUES,
    "gate": Stage.VALUES,
    "values": Stage.VALUES,
    "warm-up": Stage.QUICK,
    "measure": Stage.QUICK,
    "challenge": Stage.QUICK,
    "trace": Stage.QUICK,
    "inspect": Stage.QUICK,
}
"""By a step of a run (store.record.Step): the stage that it belongs to."""
_WORDS = {**outcome.STATE_WORDS, State.OK: "right"}


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a candidate at one level.

    Attributes:
        state: how it ended. OK: its outputs are right.
        stage: where it came to its end, or the last one that it passed.
        verdict: against the baseline; NONE where there is nothing to compare.
        speedup, low, high: baseline time over its time with the 95 % interval; None where there is none to be shown.
        floor: the noise floor as a ratio - 1.
        median_ms: of a call.
        judged: where it and the baseline were judged (results.outside); "" where that is not known.
        check: which check caught it; "" where none did.
        why: what happened, or why there is no verdict; "" for nothing.
        detail: a trace, or the mismatch, cut to `DETAIL_CHARS`; printed by the candidate in part, so not to be trusted.
        own_rule: what the problem's own rule says of it, in a sentence; "" where it has none.
        shared: whether that is what we say too; None where it has none, or could not be asked.
        run_id, rung: where the store has it; "" where no run was needed.
        suspect: its outputs are right and its times are not to be believed; `why` says by what.
    """

    state: State
    stage: Stage
    verdict: Verdict = Verdict.NONE
    speedup: float | None = None
    low: float | None = None
    high: float | None = None
    floor: float | None = None
    median_ms: float | None = None
    judged: str = ""
    check: str = ""
    why: str = ""
    detail: str = ""
    own_rule: str = ""
    shared: bool | None = None
    run_id: str = ""
    rung: str = ""
    suspect: bool = False

    @property
    def right(self) -> bool:
        """Whether its outputs are right and nothing was held against it."""
        return self.state.fault is Fault.NOBODY and not self.check

    @property
    def word(self) -> str:
        """How it ended, for a narrow column."""
        if self.check and self.stage is not Stage.VALUES:
            return Validity.CAUGHT.value
        if self.suspect:
            return Validity.SUSPECT.value
        return self.verdict.value if self.verdict.known else _WORDS[self.state]

    def document(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

    @staticmethod
    def of_document(found: Mapping[str, Any]) -> Outcome:
        """The inverse. Raises ValueError or TypeError for what is none."""
        told = {each.name: found[each.name] for each in fields(Outcome) if each.name in found}
        stage = REACHED[REACHED.index(told["stage"])]
        return Outcome(**told | {"state": State(told["state"]), "stage": stage, "verdict": Verdict(told["verdict"])})


def refused(why: str) -> Outcome:
    """Of a candidate that is not even parsed, or has nothing to run."""
    return Outcome(State.USER_ERROR, Stage.PARSE, why=why)


def of_run(run: Reading, rung: str, *, alone: bool) -> Outcome | None:
    """What a run that has ended says of a rung, beside it what the problem's own rule says; None where it says nothing,
    and another attempt might.

    Args:
        alone: no other candidate took part, so that what is wrong with the run as a whole is this one's doing.
    """
    record, arm, ended = run.record, run.arm(rung), outcome.of(run, rung)
    of_whole = alone and not ended.by and ended.bar is not None
    if ended.outcome is outcome.Outcome.PENDING or ended.again or not (ended.own or of_whole):
        return None
    shown, bar, timed = ended.item if ended.outcome.compared else None, ended.bar, ended.item is not None
    why = (arm.reason if arm is not None else "") or (record.reason if bar is None else bar.evidence)
    if ended.outcome.right:
        why = (
            ended.item.note if ended.item is not None else "it was checked and not timed here"
        )  # in Triton's interpreter
    if ended.outcome is outcome.Outcome.SUSPECT:
        why = outcome.doubt(run, ended)
    stage = _stage(record, rung, ended)
    found = Outcome(
        ended.state,
        stage,
        check="" if bar is None or bar.mistake else bar.check,
        why=why if ended.outcome.right else _by_itself(why, rung),
        detail="" if arm is None or ended.outcome.right else arm.detail[:DETAIL_CHARS],
        run_id=record.id,
        rung=rung,
        suspect=ended.outcome is outcome.Outcome.SUSPECT,
        median_ms=arm.median_ms if arm is not None and timed and ended.outcome.believed else None,
    )
    if shown is not None:
        figures = {name: getattr(shown, name) for name in ("verdict", "speedup", "low", "high", "floor")}
        found = replace(found, **figures, judged=_by_itself(run.judged(shown), rung))
    if arm is None or arm.rule is None:
        return found
    known = arm.rule.right is not None and not arm.rule.alone and arm.correctness.known
    shared = arm.rule.right is not arm.correctness.wrong if known else None
    return replace(found, own_rule=_by_itself(telling.by_own_rule(arm), rung), shared=shared)


def _by_itself(why: str, rung: str) -> str:
    """A reason without the rung's name, which nobody gave it."""
    return why.replace(rung, "it")


def _stage(record: Run, rung: str, ended: Ended) -> Stage:
    """Where a rung came to its end."""
    if ended.outcome is outcome.Outcome.WRONG:
        return Stage.VALUES
    if ended.outcome.right:
        return Stage.VALUES if ended.item is None else Stage.QUICK if record.quick else Stage.FULL
    reached = [_STAGES[step.name] for step in record.steps if step.arm == rung and step.name in _STAGES]
    last = reached[-1] if reached else Stage.LOAD
    return Stage.FULL if last is Stage.QUICK and not record.quick else last


def order(outcome: Outcome) -> tuple[bool, float, float]:
    """Sorts outcomes, the best first: right ones, the fastest of them first, then those that came furthest."""
    return not outcome.right, -(outcome.speedup or 0.0), -REACHED.index(outcome.stage)


def worth(outcomes: Mapping[int, Outcome], most: int = FINALISTS) -> list[int]:
    """Which of them a full run is worth, by their keys, the fastest first: right ones whose interval reaches the
    fastest of them, and that were not found slower than the baseline; at most `most`."""
    timed = {key: found for key, found in outcomes.items() if found.right and found.speedup is not None}
    best = max((found.speedup or 0.0 for found in timed.values()), default=0.0)
    reach = [key for key, found in timed.items() if found.verdict is not Verdict.SLOWER and (found.high or 0.0) >= best]
    return sorted(reach, key=lambda key: (-(timed[key].speedup or 0.0), key))[:most]


@dataclass(frozen=True, slots=True)
class Luck:
    """The fastest of several in their quick runs, taken for what is left of its lead (store.results.best_of).

    Attributes:
        shown: the speed-up that it showed.
        taken: the speed-up that it is taken for.
        of: how many it is the best of.
        verdict: of that run.
    """

    shown: float
    taken: float
    of: int
    verdict: Verdict


def luck(outcomes: Sequence[Outcome]) -> Luck | None:
    """What the fastest of these is taken for; None where fewer than two have a time."""
    timed = [found for found in outcomes if found.right and found.speedup]
    if len(timed) < 2:
        return None
    errors = [
        math.log(found.high / found.low) / (2 * NORMAL_95) if found.low and found.high else None for found in timed
    ]
    best = best_of([math.log(found.speedup or 1.0) for found in timed], errors)
    first = timed[best.index]
    return Luck(first.speedup or 1.0, math.exp(best.lead), len(timed), first.verdict)
