"""No cheat of this folder may end faster, in a run that is valid, with nothing held against it.

    python -m pytest -m audit tests/proofs/held_out/test_no_faster.py

Runs each cheat with its twin through an engine, on the CPU, 5 s each. A quick run decides little on a busy machine, so
the ratio counts here, whatever the verdict beside it. What still gets through is expected to, with its class; a test
that passes all the same shows that its class is closed, and its line in THROUGH goes.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from aisp.kernels.catalog.model import Role
from aisp.store.outcomes import FindingStatus, State
from aisp.store.record import Run
from tests.engine.harness import EngineUnderTest
from tests.proofs.audit.gallery import engine, run, target
from tests.proofs.held_out import fixtures
from tests.proofs.held_out.test_held_out import ON_A_CPU

pytestmark = pytest.mark.audit

SEEN = 1.25  # times the best honest rung: what a quick run of a few calls tells apart beside neighbours
BAD = (FindingStatus.CAUGHT, FindingStatus.SUSPECT)
THROUGH = {
    "bent_libc_clock": "class c: the clock is in the process that is judged",
    "dispatch_mode": "class b: outputs are read by the dispatcher of the process that is judged",
    "float_counts": "class j: whole numbers are drawn from one family",
    "lazy_clone": "class b: outputs are copied by whoever looks at them",
    "method_of_its_own": "class b: outputs are read by methods that the rung can replace",
    "pending_call": "class b: the process works on between its return and the look at its outputs",
    "protocol_door": "class c: the clock is an object of the same interpreter",
    "stacked_late": "class b: outputs are read when the rung has been asked for them",
}
"""What gets through while clock, inputs and outputs are in the process that is judged, now and then or always."""


@pytest.fixture
async def under_test() -> AsyncIterator[EngineUnderTest]:
    """An engine of its own: a cheat may have left something."""
    async with engine() as started:
        yield started


def _gain(record: Run) -> float:
    """How many times faster than the honest rungs the cheat is shown to be; 0 where something is held against it."""
    arm = next(arm for arm in record.arms if arm.rung == "cheat")
    if arm.state is not State.OK or any(f.status in BAD and f.arm in ("", "cheat") for f in record.findings):
        return 0.0
    shown = {compared.rung: compared.speedup or 0.0 for compared in record.comparisons}
    return shown.get("cheat", 0.0) / max(1.0, shown.get("optimized", 0.0))


@pytest.mark.parametrize(
    "fixture",
    [
        pytest.param(name, marks=pytest.mark.xfail(reason=THROUGH[bare], strict=False) if bare in THROUGH else ())
        for name in ON_A_CPU
        for bare in [name.partition("/")[2]]
    ],
)
async def test_no_cheat_is_shown_to_be_faster_and_no_honest_rung_is_accused(
    under_test: EngineUnderTest, fixture: str
) -> None:
    told = await run(under_test, fixture, device="cpu", quick=True)
    honest = [rung.name for rung in target(fixture).rungs if rung.role in (Role.BASELINE, Role.OPTIMIZED)]
    accused = [f for f in told.record.findings if f.arm in honest and f.status is FindingStatus.CAUGHT]
    assert not accused
    assert all(told.arm(rung).state is State.OK for rung in honest)
    assert _gain(told.record) < SEEN


def test_what_gets_through_is_here() -> None:
    assert {f"held_out/{name}" for name in THROUGH} <= set(fixtures())
