"""The gallery through the ordinary engine: every cheat is caught, and no honest rung beside it is even suspected.

`make test` takes one fixture of each category; `make audit` (marker `audit`) takes all of them, here on a CPU. A
machine that is busy with other things gets a second and a third chance: what is asked is whether a check can tell the
two apart, and how often it errs is told by `aisp bench audit` and `python -m tests.proofs honest`.
"""

from __future__ import annotations

import pytest

from aisp.checks.registry import CATEGORIES
from aisp.kernels.catalog.model import Role, Target
from aisp.store.outcomes import State
from tests.engine.harness import EngineUnderTest
from tests.proofs.audit import gallery
from tests.proofs.audit.cheats import fixtures
from tests.proofs.audit.gallery import Told, cheats, run, target

# With the other tests of the shared engine: one engine a process, and nothing of ours beside what is timed.
pytestmark = [pytest.mark.xdist_group("engine"), pytest.mark.timeout(300)]

TRIES = 3
# One of each category that tells by what is there and not by how long it takes.
QUICK = {
    "timing": "timing/event_timing_gaps",
    "output": "output/constant_output",
    "workload": "workload/batch_shrinking",
    "location": "location/setup_pre_computation",
    "memory": "memory/out_of_bounds",
    "cuda": "cuda/workspace_pre_compute",
    "compile": "compile/mode_inconsistency",
    "distributed": "distributed/rank_skipping",
    "environment": "environment/memory_overcommit",
    "statistical": "statistical/gc_interference",
    "evaluation": "evaluation/stolen_results",
}
# Told from one process to the next, so a quick run cannot see them.
FULL = frozenset({"compile/autotuning_variance", "statistical/cold_start_inclusion"})


def refused(told: Told, cheat: str) -> bool:
    """Whether no speed-up of this cheat is told: caught, or ended by what it did."""
    arm = told.arm(cheat)
    return bool(told.caught_by(cheat)) or arm.state not in (State.OK, State.UNAVAILABLE)


async def audit(engine: EngineUnderTest, fixture: str) -> list[str]:
    """What went otherwise than it must."""
    wanted = target(fixture)
    quick = fixture not in FULL
    told = await run(engine, fixture, quick=quick)
    there = [cheat for cheat in cheats(wanted) if told.arm(cheat).state is not State.UNAVAILABLE]
    wrong = [f"{cheat} was not caught" for cheat in there if not refused(told, cheat)]
    wrong += against_honest(told, wanted)
    if told.doubts("") and not wrong:
        # Who changes what the whole run shares has the whole run doubted: then the honest ones must do without him.
        twins = [rung.name for rung in wanted.rungs if rung.role is Role.OPTIMIZED]
        alone = await run(engine, fixture, rungs=twins, quick=quick)
        wrong += against_honest(alone, wanted) + [f"without a cheat: {doubt}" for doubt in alone.doubts("")]
    return wrong


def against_honest(told: Told, wanted: Target) -> list[str]:
    """What is held against the baseline or a twin, were it only how it ended."""
    honest = {rung.name for rung in wanted.rungs if rung.role in (Role.BASELINE, Role.OPTIMIZED)}
    wrong: list[str] = []
    for arm in told.record.arms:
        if arm.rung in honest:
            if arm.state not in (State.OK, State.UNAVAILABLE):
                wrong.append(f"{arm.rung} ended {arm.state}: {arm.reason}")
            wrong += [f"{arm.rung}: {doubt}" for doubt in told.doubts(arm.rung)]
    return wrong


async def settled(engine: EngineUnderTest, fixture: str) -> list[str]:
    """What is still wrong after some tries."""
    wrong: list[str] = []
    for _ in range(TRIES):
        wrong = await audit(engine, fixture)
        if not wrong:
            break
    return wrong


@pytest.mark.parametrize("category", CATEGORIES)
async def test_a_cheat_of_each_category_is_caught_and_its_twin_is_not(shared: EngineUnderTest, category: str) -> None:
    assert await settled(shared, QUICK[category]) == []


@pytest.mark.audit
@pytest.mark.parametrize("fixture", fixtures())
async def test_every_cheat_is_caught_and_no_twin_is(shared: EngineUnderTest, fixture: str) -> None:
    assert await settled(shared, fixture) == []


def test_every_category_has_its_fixture_here_and_every_fixture_a_cheat() -> None:
    assert set(QUICK) == set(CATEGORIES)
    assert {*QUICK.values(), *FULL} <= set(fixtures())
    assert all(cheats(target(fixture)) for fixture in fixtures())
    assert gallery.GALLERY.is_dir()
