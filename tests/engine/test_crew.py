"""Who is asked beside whom."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from aisp.engine.crew import Crew
from aisp.engine.protocol import jobs, reports
from tests.engine.targets import write_target


class Asked:
    """Processes that take a moment to say what their sensors noted; how many were asked at once."""

    def __init__(self) -> None:
        self.now = self.most = self.answers = 0

    async def ask(self, job: jobs.AnyJob, patience_s: float) -> reports.Report:
        assert isinstance(job, jobs.Inspect) and patience_s == 5.0
        self.now += 1
        self.most = max(self.most, self.now)
        await asyncio.sleep(0.001)
        self.now -= 1
        self.answers += 1
        return reports.Inspected(sensed=[], cost_us={})


@pytest.mark.parametrize(("device", "ranks", "most"), [("cuda", 2, 1), ("cuda", 1, 4), ("cpu", 2, 4)])
async def test_calls_of_ranks_are_traced_alone_on_their_gpus(
    device: str, ranks: int, most: int, tmp_path: Path
) -> None:
    """Beside another's hold a rank was busy for 20 times as long as a call takes, waiting for the others."""
    shape = f"float32 [{ranks}, N]"
    target = write_target(
        tmp_path, {}, more=f"ranks = {ranks}\n", inputs=f'x = "{shape} normal"', outputs=f'y = "{shape}"'
    )
    services: Any = SimpleNamespace(caches=None)
    crew = Crew(services, target=target, files={}, snapshot="", device=device, interpret=False)
    asked: Any = Asked()
    try:
        await asyncio.gather(*(crew.inspected(asked, 5.0, f"rung {number}") for number in range(4)))
    finally:
        crew.arena.close()
    assert (asked.most, asked.answers) == (most, 4)
