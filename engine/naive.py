"""What the naive harness would have said of a run's rungs, each asked in a process of its own, beside the arms."""

from __future__ import annotations

import os
from collections.abc import Sequence

import msgspec

from aisp.checks.oracle import values
from aisp.checks.oracle.schema import Case as PosedCase
from aisp.engine.arms import Arm, ArmEnd, ask
from aisp.engine.crew import Crew
from aisp.engine.plan import Plan
from aisp.engine.protocol import jobs, reports
from aisp.kernels.catalog.model import Role
from aisp.store.outcomes import State
from aisp.store.record import Naive
from aisp.store.text import clean_line

PATIENCE_S = 60.0


def subjects(plan: Plan, arms: Sequence[Arm]) -> list[Arm]:
    """The arms that it is asked about."""
    roles = (Role.OPTIMIZED, Role.PEER, Role.CHEAT, Role.WRONG)
    return [arm for arm in arms if plan.naive and arm.rung.role in roles and arm.state is not State.UNAVAILABLE]


async def opinion(plan: Plan, crew: Crew, inputs: jobs.Blob, arm: Arm) -> Naive:
    """Its times of the baseline and of this arm's rung, and whether it accepts the outputs.

    Args:
        inputs: set 0 of the timed case.
    """
    if not arm.timed:
        return Naive(note="not timed: Triton's interpreter says nothing of a GPU's time")
    if crew.folder is None:
        return Naive(note="the sources were never laid out")
    job = jobs.Naive(
        folder=os.fsencode(crew.folder),
        root=os.fsencode(plan.target.root),
        chapter=plan.target.chapter,
        device=plan.device,
        case=plan.case.name,
        made_seed=values.made_seed(plan.target, PosedCase.of_set(plan.case), plan.seed),
        sets=[inputs],
        baseline=plan.rungs[0].name,
        rung=arm.rung.name,
        ranks=plan.target.ranks,
        rendezvous=crew.rendezvous() if plan.target.ranks > 1 else "",
    )
    try:
        process = await crew.take_ranks(arm.name)
    except ArmEnd as end:
        return Naive(note=clean_line(end.reason))
    try:
        job = msgspec.structs.replace(job, caches=await crew.caches.prepare(process, arm.rung.name, arm.rung.name))
        report = await ask(process, job, reports.NaiveMeasured, PATIENCE_S, arm.rung.name)
    except ArmEnd as end:
        return Naive(note=clean_line(end.reason))
    finally:
        await process.end(gently=False)
    note = clean_line(report.note) or ("" if report.time_ms and report.base_ms else "its clock did not advance")
    return Naive(report.base_ms, report.time_ms, report.accepts, note)
