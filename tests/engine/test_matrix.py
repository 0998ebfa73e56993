"""Every row of the fault matrix through the real engine: its typed outcome, and nobody else harmed.

The scenes are in tests/proofs/evil/scenes. `make evil` plays them, `python -m tests.proofs evil matrix` writes what was
seen.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from aisp.engine.telemetry import Nvml
from tests.engine.harness import EngineUnderTest, sharing
from tests.proofs.evil import matrix
from tests.proofs.evil.matrix import Fault
from tests.proofs.evil.stage import BESIDE_OTHERS_S, Stage, play

NVML = Nvml()


def marked(fault: Fault) -> object:
    """A fault as a parameter."""
    marks = [pytest.mark.evil, pytest.mark.timeout(300)]
    if fault.gpu:
        marks += [pytest.mark.gpu, pytest.mark.skipif(not NVML.count, reason=f"no GPU here: {NVML.note}")]
    return pytest.param(fault, id=fault.id, marks=marks)


@pytest.mark.parametrize("fault", [marked(fault) for fault in matrix.load()])
async def test_a_fault_ends_in_its_own_state_and_harms_nobody_else(
    shared_process: EngineUnderTest, own: Callable[..., EngineUnderTest], tmp_path: Path, fault: Fault
) -> None:
    stage = Stage(tmp_path / "scene", shared_process, own, patience_s=BESIDE_OTHERS_S)
    stage.home.mkdir()
    if fault.own:
        outcome = await play(fault, stage)
    else:
        async with sharing(shared_process):
            outcome = await play(fault, stage)
    assert outcome.seen, "a scene says what it saw"


def test_every_row_of_the_matrix_has_a_scene() -> None:
    assert {fault.row for fault in matrix.load()} == set(range(1, matrix.ROWS + 1))
