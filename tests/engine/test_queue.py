"""In which order jobs go, and what is said of one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast
from unittest.mock import AsyncMock, MagicMock
from unittest.mock import call as call_of

import pytest

from aisp.engine import planning
from aisp.engine.job import AnyJob, FuzzJob, PeakJob, PeakPlan, RunJob
from aisp.engine.protocol import requests
from aisp.engine.queue import Queue
from aisp.engine.services import Services
from aisp.store.outcomes import Trigger
from tests.engine.targets import write_target

NO_SERVICES = cast("Services", None)  # nothing is carried out here


@pytest.fixture
def waiting(tmp_path: Path) -> dict[str, AnyJob]:
    """A job of each kind, in the order in which they were asked for."""
    target = write_target(tmp_path / "mine", {}, inputs='x = "float32 [N] normal cpu"')
    files = {path.name: path.read_bytes() for path in target.folder.iterdir()}
    here = planning.Hardware((), 0, None, "none", 0)

    def run(trigger: Trigger) -> RunJob:
        plan = planning.plan(target, files, "ab" * 32, here, epoch="E", seq=1, quick=True, trigger=trigger)
        return RunJob(plan, NO_SERVICES)

    asked = requests.FuzzTarget(seq=1, target=target.id, lint=True)
    fuzz = FuzzJob(planning.plan_fuzz(target, files, "ab" * 32, here, asked), NO_SERVICES)
    peak = PeakJob(PeakPlan("P"), NO_SERVICES)
    return {"fuzz": fuzz, "batch": run(Trigger.CLI), "app": run(Trigger.TUI), "save": run(Trigger.WATCH), "peak": peak}


def test_ceilings_go_first_then_the_run_of_a_save_then_other_runs_then_fuzzes(waiting: dict[str, AnyJob]) -> None:
    ordered = sorted(waiting.values(), key=lambda job: job.order)
    names = {id(job): name for name, job in waiting.items()}
    assert [names[id(job)] for job in ordered] == ["peak", "save", "batch", "app", "fuzz"]


def test_a_job_says_what_it_is_when_it_began_and_how_long_it_may_go_on(waiting: dict[str, AnyJob]) -> None:
    job = waiting["save"]
    item = job.item()
    assert (item.kind, item.trigger, item.began_ns, item.expected_s) == ("run", "watch", None, None)
    job.began_ns, job.expected_s = 100, 12.5
    item = job.item()
    assert (item.began_ns, item.expected_s) == (100, 12.5)
    assert [waiting[name].item().kind for name in ("peak", "fuzz")] == ["peak", "lint"]


async def test_how_processes_differ_is_read_once_a_run_and_only_when_its_slot_is_free(
    waiting: dict[str, AnyJob], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody waits for the store then; and a fuzz shows nothing of it, so nothing is read."""
    slot, store = MagicMock(**{"pool.share.cores": ()}), MagicMock(**{"spreads.return_value": []})
    asked: list[bool] = []

    async def call(question: Callable[[Any], Any]) -> Any:
        asked.append(slot.job is None)
        return question(store)

    slots = MagicMock(pools=[], gpus=[])
    slots.__iter__.side_effect = lambda: iter([slot])
    guarding = MagicMock(before=AsyncMock(return_value=""), over=AsyncMock())
    here = planning.Hardware((), 0, None, "none", 0)
    queue = Queue(MagicMock(), MagicMock(), MagicMock(call=call), guarding, slots, here, MagicMock())
    queue.run_ended = AsyncMock()
    for name, questions in (("batch", 1), ("fuzz", 0), ("app", 1)):
        job = slot.job = waiting[name]
        monkeypatch.setattr(job, "carry_out", AsyncMock())
        queue.add(job, warm=False)
        asked.clear()
        await queue._follow(job, slot)
        assert asked == [True] * questions
    assert store.spreads.call_args_list == [call_of("cpu", "", False)] * 2
