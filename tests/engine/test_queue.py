"""In which order jobs go, and what is said of one."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from aisp.engine import planning
from aisp.engine.job import AnyJob, FuzzJob, PeakJob, PeakPlan, RunJob
from aisp.engine.protocol import requests
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
