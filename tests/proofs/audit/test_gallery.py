"""The gallery through the ordinary engine: every cheat is caught or useless, and no honest rung beside it is suspected.

What came of a rung is said by the rule of `aisp dev audit` (store/results/audit.py). `make test` takes one fixture of
each category, whose cheats must be caught; `make audit` (marker `audit`) takes all of them, here on a CPU. A machine
that is busy with other things gets a second and a third chance: what is asked is whether a check can tell the two
apart, and how often it errs is told by `aisp dev audit` and `python -m tests.proofs honest`.
"""

from __future__ import annotations

import functools

import pytest

from aisp.checks import registry
from aisp.checks.registry import CATEGORIES, How
from aisp.engine import trust
from aisp.store.outcomes import TWIN_SUFFIX, FindingStatus, State, Verdict
from aisp.store.results.audit import Outcome, again_alone, judge, rungs_of
from aisp.store.results.reading import Reading
from tests.engine.harness import EngineUnderTest
from tests.proofs.audit.cheats import fixtures
from tests.proofs.audit.gallery import FULL, run

# With the other tests of the shared engine: one engine a process, and nothing of ours beside what is timed.
pytestmark = [pytest.mark.xdist_group("engine"), pytest.mark.timeout(300)]

BY_TIME = {check.id for check in registry.checks() if check.evidence is registry.Evidence.TIME}
TRIES = 3
# One of each category that tells by what is there and not by how long it takes.
QUICK = {
    "timing": "timing/python_thread",
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

OUTSIDE = sorted({issue.fixture for issue in registry.issues() if issue.how is How.OUTSIDE})


@functools.cache
def views() -> dict[str, trust.FixtureView]:
    """Every fixture, by "category/name"."""
    return {view.target_id.replace(":", "/"): view for view in trust.fixtures()}


def claimed(run: Reading, arm: str) -> bool:
    """Whether an arm is the baseline, which claims nothing, or its twin."""
    return arm != "" and arm.removesuffix(TWIN_SUFFIX) == run.baseline


def says_nothing(found: Reading) -> bool:
    """Whether a run ended through no fault of a rung's: one that was caught in it, as by what it wrote to the engine's
    line, is no such fault."""
    caught = {finding.arm for finding in found.found(FindingStatus.CAUGHT)}
    state = found.record.state
    return state.again and not any(arm.state is state and arm.rung in caught for arm in found.record.arms)


async def audit(engine: EngineUnderTest, fixture: str, *but: Outcome) -> list[str]:
    """Rungs that came to something bad or to one of these outcomes, and runs that say nothing of any rung. Nobody may
    be caught by time alone, and no baseline at all.

    One run takes all rungs. Those of which it says nothing, since a check spoke of the run as a whole or they were not
    reached, run once more alone.
    """
    view = views()[fixture]
    rungs = rungs_of(view)
    together = Reading((await run(engine, fixture, rungs=rungs)).record)
    runs = dict.fromkeys(rungs, together)
    again = again_alone(together, rungs) if together.record.state is not State.UNAVAILABLE else []
    for rung in again:
        runs[rung] = Reading((await run(engine, fixture, rungs=[rung])).record)
    for found in runs.values():  # on a machine however busy: no second chance
        assert [f for f in found.found(FindingStatus.CAUGHT) if f.check in BY_TIME or claimed(found, f.arm)] == []
    rows = judge(view, runs, {runs[rung].id for rung in again})
    wrong = [row for row in rows if row.outcome.bad or row.outcome in but]
    told = [f"{row.rung} {row.outcome}: {', '.join(row.findings)}: {row.evidence}" for row in wrong]
    lost = {rung: found.record for rung, found in runs.items() if says_nothing(found)}
    return told + [f"the run of {rung} ended {record.state}: {record.reason}" for rung, record in lost.items()]


async def settled(engine: EngineUnderTest, fixture: str, *but: Outcome) -> list[str]:
    """What is still wrong after some tries."""
    wrong: list[str] = []
    for _ in range(TRIES):
        wrong = await audit(engine, fixture, *but)
        if not wrong:
            break
    return wrong


@pytest.mark.evil
@pytest.mark.parametrize("category", CATEGORIES)
async def test_a_cheat_of_each_category_is_caught_and_its_twin_is_not(shared: EngineUnderTest, category: str) -> None:
    assert await settled(shared, QUICK[category], Outcome.USELESS) == []


@pytest.mark.audit
@pytest.mark.parametrize("fixture", fixtures())
async def test_every_cheat_is_caught_or_useless_and_every_twin_passes(shared: EngineUnderTest, fixture: str) -> None:
    assert await settled(shared, fixture) == []


async def gains(engine: EngineUnderTest, fixture: str) -> list[str]:
    """Cheats that are FASTER with nothing held against them, and a twin that did not end well."""
    record = (await run(engine, fixture, device="cpu")).record
    doubted = {f.arm for f in record.findings if f.status in (FindingStatus.CAUGHT, FindingStatus.SUSPECT)}
    gained = [c.rung for c in record.comparisons if c.verdict is Verdict.FASTER and not doubted & {c.rung, ""}]
    twin, cheats = views()[fixture].twin, views()[fixture].cheats
    broken = [arm.rung for arm in record.arms if arm.rung == twin and (arm.state is not State.OK or twin in doubted)]
    return [rung for rung in gained if rung in cheats] + broken


@pytest.mark.audit
@pytest.mark.parametrize("fixture", OUTSIDE)
async def test_what_gains_nothing_outside_is_never_faster_and_its_twin_may_be(
    shared: EngineUnderTest, fixture: str
) -> None:
    """By the judge's clock, inputs and outputs alone: no check need catch it."""
    wrong: list[str] = []
    for _ in range(TRIES):
        wrong = await gains(shared, fixture)
        if not wrong:
            break
    assert wrong == []


def test_every_category_has_its_fixture_here_and_every_fixture_a_cheat() -> None:
    assert set(QUICK) == set(CATEGORIES)
    assert {*QUICK.values(), *FULL} <= set(fixtures())
    assert set(views()) == set(fixtures())
    assert all(view.cheats and view.twin for view in views().values())
