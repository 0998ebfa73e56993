"""A forked worker of the engine that tests share is to everybody what one is that the product starts."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import psutil
import pytest

from aisp.store.outcomes import State
from tests.engine.harness import PATIENCE_S, EngineUnderTest
from tests.proofs.evil import corpus

pytestmark = [pytest.mark.xdist_group("engine"), pytest.mark.timeout(180)]


def forked(worker: psutil.Process) -> bool:
    return "tests.engine.forked" in worker.cmdline()


async def test_a_forked_worker_is_the_engines_child_with_a_session_and_a_line_of_its_own(
    shared: EngineUnderTest, tmp_path: Path
) -> None:
    if not shared.forks:
        pytest.skip("workers are started anew here")
    corpus.write(tmp_path / "mine" / "doubling")
    await shared.steady()
    async with asyncio.timeout(PATIENCE_S):
        while not all(forked(worker) for worker in shared.workers()):  # those before the forker was ready are none
            result = await shared.run(tmp_path / "mine", "mine:doubling")
            assert result.record.state is State.OK, result.record.reason
            await shared.steady()
    for worker in shared.workers():
        assert worker.ppid() == shared.ps.pid
        assert os.getpgid(worker.pid) == os.getsid(worker.pid) == worker.pid
        assert shared.owns(worker)
        place = Path(worker.cwd())
        assert place.parent.parent == shared.home / "state" / "work" and list(place.iterdir()) == []
        held = {int(file.name): str(file.readlink()) for file in Path(f"/proc/{worker.pid}/fd").iterdir()}
        assert held.pop(0) == "/dev/null"
        assert held.pop(1).startswith("pipe:") and held.pop(2).startswith("pipe:")
        assert [line.startswith("socket:") for line in held.values()] == [True], "only the line to the engine"
        assert Path(f"/proc/{worker.pid}/oom_score_adj").read_text().strip() == "800"
