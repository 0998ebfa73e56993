"""No cheat of this folder may be called faster in a valid run with nothing held against it, and no twin may be caught.

    python -m pytest -m audit tests/proofs/held_out/test_no_faster.py

Runs each cheat with its twin through an engine, on the CPU, in a full run: it alone has a verdict, and a busy machine
leaves that undecided instead of turning it. A minute each.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from aisp.kernels.catalog.model import Role
from aisp.store.results.reading import Reading
from tests.engine.harness import EngineUnderTest
from tests.proofs.audit.gallery import engine, run, target
from tests.proofs.held_out import End, ended
from tests.proofs.held_out.test_held_out import ON_A_CPU

pytestmark = [pytest.mark.audit, pytest.mark.timeout(400)]

ACCUSED = (End.CAUGHT, End.WRONG, End.REFUSED)
BY_VALUES = {
    f"held_out/{name}" for name in ("float_counts", "lazy_clone", "method_of_its_own", "relaid_input", "stacked_late")
}
"""Those that are refused by what they return, on a machine however busy."""


@pytest.fixture
async def under_test() -> AsyncIterator[EngineUnderTest]:
    """An engine of its own: a cheat may have left something."""
    async with engine() as started:
        yield started


@pytest.mark.parametrize("fixture", ON_A_CPU)
async def test_no_cheat_is_shown_to_be_faster_and_no_honest_rung_is_accused(
    under_test: EngineUnderTest, fixture: str
) -> None:
    reading = Reading((await run(under_test, fixture, device="cpu", quick=False)).record)
    honest = [rung.name for rung in target(fixture).rungs if rung.role in (Role.BASELINE, Role.OPTIMIZED)]
    assert [rung for rung in honest if ended(reading, rung).end in ACCUSED] == []
    cheat = ended(reading, "cheat")
    assert cheat.end is not End.FASTER, cheat
    assert fixture not in BY_VALUES or cheat.end in ACCUSED, cheat
