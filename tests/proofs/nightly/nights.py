"""Nights of a suite through the very rules of `store.results.regression`: rows, correction, turns.

Every night is a sitting: a factor of its own, 1 to 3 %, that a target's baseline and rung share, and a small one that
they do not. Code that is edited and does the same has another digest, so it can be measured in turns; code that is not
edited cannot.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from aisp.store.outcomes import Correctness, State, Timing, Trigger, Validity, Verdict
from aisp.store.record import Arm, Comparison, Run
from aisp.store.results.comparison import Side, side
from aisp.store.results.reading import Reading
from aisp.store.results.regression import Change, Row, corrected, row, to_turn, turns_wanted, with_turns
from tests.proofs.nightly.kernels import Kernel, Measured

SHARED = 0.015  # standard deviation of what a sitting does to baseline and rung alike; at most twice that
APART = 0.001  # of what it does to one of them alone
EDITED = 0.5  # share of nights before which somebody edits a target's rung, to no effect
LOOK_BACK = 30  # runs of a target that a night is held against
FIRST = datetime.datetime(2026, 1, 1, 2, tzinfo=datetime.UTC)
ENVIRONMENT = {
    "host": "gpu-box",
    "gpu": "NVIDIA H100 80GB HBM3",
    "driver": "580.159.04",
    "cuda": "13.0",
    "versions": {"torch": "2.11.0", "triton": "3.6.0"},
}


@dataclass(slots=True)
class Target:
    """A kernel with the nights that it has had, newest first. `version`: of its code."""

    kernel: Kernel
    version: int = 0
    sides: list[Side] = field(default_factory=list)


def run_of(kernel: Kernel, measured: Measured, shift: float, night: int, version: int) -> Run:
    """A full run as the store has it."""
    base_ms = kernel.time_ms * kernel.gain * math.exp(shift)

    def arm(rung: str, time_ms: float, sources: str) -> Arm:
        near = math.exp(measured.half_width)
        return Arm(
            rung,
            State.OK,
            Correctness.CORRECT,
            Timing.COLD_GRAPH,
            time_ms,
            time_ms / near,
            time_ms * near,
            sample_count=300,
            sm_clock_mhz=1980.0,
            sources=sources,
        )

    speedup, low, high = (math.exp(value) for value in (measured.log, measured.low, measured.high))
    verdict = Verdict(measured.verdict)
    if (verdict is Verdict.FASTER and low <= 1) or (verdict is Verdict.SLOWER and high >= 1):
        verdict = Verdict.UNDECIDED
    item = Comparison("optimized", "baseline", verdict, speedup, low, high, measured.floor, p_value=measured.p_value)
    code = f"{version:064x}"
    return Run(
        id=f"{night:026d}",
        target=kernel.name,
        folder=b"/lessons",
        title="",
        device="cuda",
        case="default",
        quick=False,
        trigger=Trigger.CLI,
        seed=1,
        epoch="",
        seq=night,
        wall=(FIRST + datetime.timedelta(days=night)).isoformat(timespec="milliseconds"),
        snapshot=code,
        state=State.OK,
        correctness=Correctness.CORRECT,
        validity=Validity.VALID,
        verdict=verdict,
        duration_ms=1.0,
        manifest={"code": code, "validity": "strict", "stop_rule": {"warm": False, "interleaved": True}},
        arms=(arm("baseline", base_ms, "b" * 64), arm("optimized", base_ms / speedup, code)),
        comparisons=(item,),
    )


def sit(target: Target, night: int, random: np.random.Generator, *, slowed: float = 0.0) -> Side:
    """Tonight's run of a target, its rung slowed by such a share."""
    shift = float(np.clip(random.normal(0.0, SHARED), -2 * SHARED, 2 * SHARED))
    log = math.log(target.kernel.gain) - math.log1p(slowed) + float(random.normal(0.0, APART))
    measured = target.kernel.measured(random, log)
    return side(Reading(run_of(target.kernel, measured, shift, night, target.version)), ENVIRONMENT)


def in_turns(kernel: Kernel, slowed: float, random: np.random.Generator) -> Reading:
    """Old source against new in one run: `optimized` is slower by such a share."""
    measured = kernel.measured(random, -math.log1p(slowed))
    return Reading(run_of(kernel, measured, 0.0, 0, 0))


def judged(rows: Sequence[Row], turns: Callable[[Row], Reading]) -> tuple[list[Row], int]:
    """A night's rows after the correction and after what must be measured in turns was; how many runs that took."""
    found = {one.target: one for one in corrected(rows)}
    taken = 0
    for one in to_turn(found.values()):
        for which in turns_wanted(one):
            found[one.target] = with_turns(found[one.target], which, turns(one))
            taken += 1
    return list(found.values()), taken


@dataclass(frozen=True, slots=True)
class Nights:
    """What nights of unchanged code came to.

    Attributes:
        alarms: (night, target, sentence) of everything that was called worse.
        false_better: how many rows were called better.
        changes: rows by what they came to.
        turns: runs of old against new that were asked for.
        rows: the rows of every night, as they were before the correction.
    """

    alarms: list[tuple[int, str, str]]
    false_better: int
    changes: dict[Change, int]
    turns: int
    rows: list[list[Row]]


def unchanged(kernels: Sequence[Kernel], nights: int, random: np.random.Generator, *, before: int = 5) -> Nights:
    """So many nights of code that does the same, after a few that are not counted: there is no history yet."""
    targets = [Target(kernel) for kernel in kernels]
    by_name = {target.kernel.name: target for target in targets}
    alarms, changes, turns, kept = [], dict.fromkeys(Change, 0), 0, []
    for night in range(nights + before):
        for target in targets:
            if random.random() < EDITED:
                target.version += 1
            target.sides = [sit(target, night, random), *target.sides[:LOOK_BACK]]
        if night < before:
            continue
        rows = [row(target.kernel.name, target.sides) for target in targets]
        kept.append(rows)
        found, taken = judged(rows, lambda one: in_turns(by_name[one.target].kernel, 0.0, random))
        turns += taken
        for one in found:
            changes[one.outcome] += 1
            if one.outcome is Change.WORSE:
                alarms.append((night, one.target, one.sentence()))
    return Nights(alarms, changes[Change.BETTER], changes, turns, kept)


@dataclass(frozen=True, slots=True)
class Planted:
    """What a slowdown of one kernel came to over many nights: shares of them."""

    kernel: str
    time_ms: float
    slowed: float
    found: float
    measured_in_turns: float
    missed: float
    sentence: str


def planted(
    kernel: Kernel, slowed: float, others: Sequence[Sequence[Row]], random: np.random.Generator, *, history: int = 14
) -> Planted:
    """A slowdown that comes with an edit, after `history` nights without; once beside each of these nights' rows."""
    found = measured = missed = 0
    sentence = ""
    for rows in others:
        target = Target(kernel)
        for night in range(history):
            target.version += int(random.random() < EDITED)
            target.sides.insert(0, sit(target, night, random))
        target.version += 1
        target.sides.insert(0, sit(target, history, random, slowed=slowed))
        own = row(kernel.name, target.sides)
        beside = [one for one in rows if one.target != kernel.name]
        after, _ = judged(
            [*beside, own], lambda one: in_turns(kernel, slowed if one.target == kernel.name else 0.0, random)
        )
        last = next(one for one in after if one.target == kernel.name)
        if last.outcome is Change.WORSE:
            found += 1
            sentence = sentence or last.sentence()
        asked = any(one is not None and one.turns is not None for one in (last.last, last.best))
        measured += asked
        missed += not asked and last.outcome is not Change.WORSE
    count = len(others)
    return Planted(kernel.name, kernel.time_ms, slowed, found / count, measured / count, missed / count, sentence)
