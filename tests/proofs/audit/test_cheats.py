"""Each check by the cheat that it catches: without it the cheat passes, with it alone it is caught.

What `python -m tests.proofs cheats --json FILE` found stands in docs/audit/proofs_cpu.json; `make audit` repeats it.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from aisp.checks import registry
from tests.engine.harness import EngineUnderTest
from tests.proofs.audit.cheats import Proof, fixtures, proven

pytestmark = [pytest.mark.xdist_group("engine"), pytest.mark.timeout(300)]

PAGES = Path(__file__).resolve().parents[3] / "docs" / "audit"


def told(name: str) -> list[Proof]:
    """The proofs of one machine."""
    found = json.loads((PAGES / name).read_text())["proofs"]
    return [Proof(**{**one, "others": tuple(one["others"])}) for one in found]


CPU = told("proofs_cpu.json")


@pytest.mark.audit
@pytest.mark.parametrize("proof", CPU, ids=lambda proof: f"{proof.check}-{proof.fixture}")
async def test_a_check_alone_catches_its_cheat_and_without_it_the_cheat_passes(
    shared: EngineUnderTest, proof: Proof
) -> None:
    wrong = ""
    for _ in range(2):
        wrong, _ = await proven(shared, proof)
        if not wrong:
            break
    assert wrong == ""


def test_what_was_proven_is_about_checks_and_fixtures_that_there_are() -> None:
    known = {check.id for check in registry.checks()}
    assert len(CPU) > 20
    assert len({proof.check for proof in CPU}) == len(CPU)
    for proof in CPU:
        assert {proof.check, *proof.others} <= known
        assert proof.fixture in fixtures()
