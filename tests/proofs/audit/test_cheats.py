"""Each check by the cheat that it catches: without it the cheat passes, with it alone it is caught.

What `python -m tests.proofs cheats --json FILE` found stands in docs/audit/proofs_cpu.json; `make audit` repeats it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from aisp.checks import registry
from aisp.store.outcomes import Correctness, FindingStatus, State
from aisp.store.record import Arm, Finding
from tests.engine.harness import EngineUnderTest
from tests.proofs.audit import cheats
from tests.proofs.audit.cheats import Proof, fixtures, proven
from tests.proofs.audit.gallery import Told
from tests.replacing import replace
from tests.store.examples import planned

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


async def test_a_proof_is_kept_with_the_checks_left_out_that_catch_its_cheat_in_some_runs_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ran: list[list[str]] = []

    async def alone(_: object, fixture: str, cheat: str, without: Sequence[str], device: str) -> Told:
        ran.append(list(without))
        seen = ["output.nonfinite", *(["evaluation.held_out"] if len(ran) % 4 == 0 else [])]
        findings = tuple(Finding(check, cheat, FindingStatus.CAUGHT, "seen") for check in seen if check not in without)
        arms = (Arm(cheat, State.OK, correctness=Correctness.CORRECT),)
        ended = {"state": State.OK, "correctness": Correctness.CORRECT, "duration_ms": 1.0}
        return Told(planned(fixture, device=device, arms=arms, findings=findings, **ended))

    monkeypatch.setattr(cheats, "_alone", alone)
    never = EngineUnderTest.__new__(EngineUnderTest)
    proof = Proof("output.nonfinite", "output/invalid_values_nan", "cheat", (), "cpu")
    wrong, kept = await cheats.held(never, proof)
    assert (wrong, kept) == ("", replace(proof, others=("evaluation.held_out",)))
    assert ran[-2 * cheats.IN_A_ROW :] == [["evaluation.held_out", "output.nonfinite"], ["evaluation.held_out"]] * 5

    unseen = replace(proof, check="output.values", others=("output.nonfinite", "evaluation.held_out"))
    wrong, kept = await cheats.held(never, unseen)
    assert (wrong, kept) == ("without output.nonfinite, evaluation.held_out it was caught by nothing", unseen)
