"""A suspicion by time alone is asked again in fresh processes before it is shown: the rule, and runs that meet one."""

from __future__ import annotations

import asyncio
import os
import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from aisp.engine import again
from aisp.engine.arms import Arm, ArmEnd, ArmProcess
from aisp.engine.measuring import Measuring
from aisp.engine.outside import Outside
from aisp.engine.ranks import Process
from aisp.engine.replicas import Replicas
from aisp.store.outcomes import Correctness, FindingStatus, State, Validity
from aisp.store.record import Finding, Run
from tests.engine.test_runs import NURSERIES, carried_out

pytestmark = pytest.mark.timeout(180)

CHECK, RHYTHMS = "timing.wall_clock", "statistical.hidden_slow_calls"
SLOW = "def run(x):\n    y = x * 2\n    for _ in range(40):\n        y = y * 1\n    return y\n"

# Three calls of four are quick, and the fourth pays for them.
RHYTHM = """
import time

calls = 0


def run(x):
    global calls
    calls += 1
    if calls % 4 == 0:
        time.sleep(0.004)
    return x * 2
"""


@pytest.fixture(autouse=True, scope="module")
def _closed_nurseries() -> Iterator[None]:
    yield
    NURSERIES.close()


def disturbed(monkeypatch: pytest.MonkeyPatch, *, times: int, whose: str = "optimized") -> list[str]:
    """Have a neighbour slow the first `times` processes of an arm while the judge's clock runs; the arms so timed.

    That clock is played, and says of all others what their samples say: this machine has neighbours of its own.
    """
    ordinary, timed = Outside.take, list[str]()

    async def take(self: Outside, processes: Sequence[ArmProcess]) -> None:
        await ordinary(self, processes)
        for process in processes:
            timed.append(process.name)
            slowed = process.name == whose and timed.count(whose) <= times
            time_ms = 90.0 if slowed else statistics.median(process.arm.samples.device_ms)
            before = [each for each in process.arm.outside_ms if each[0] != process.replica]
            process.arm.outside_ms[:] = [*before, *[(process.replica, time_ms)] * 2]
            process.arm.inside = ""

    monkeypatch.setattr(Outside, "take", take)
    monkeypatch.setattr(again, "AGREE", 5.0)  # on a busy machine a rung of two microseconds is no steady thing
    return timed


def said(run: Run, check: str = CHECK, arm: str = "optimized") -> Finding:
    return next(found for found in run.findings if (found.check, found.arm) == (check, arm))


@pytest.mark.slow
async def test_what_one_look_saw_and_fresh_processes_do_not_is_no_suspicion(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    timed = disturbed(monkeypatch, times=1)
    run, told = await carried_out(tmp_path, replicas=2, rungs={"optimized.py": SLOW})
    assert run.state is State.OK, run.reason
    assert timed.count("optimized") == timed.count("baseline") == 2, "in one of its processes, and in a fresh one"
    found = said(run)
    assert found.status is FindingStatus.PASSED, found
    assert found.evidence.startswith("seen once, not again in fresh processes: ")
    assert "; before: by time alone" in found.evidence and "90 ms by the judge's clock" in found.evidence
    assert run.validity is Validity.VALID, [f for f in run.findings if f.status is FindingStatus.SUSPECT]
    assert [event for event in told if event[0] == "again"] == [("again", "begins"), ("again", "ends")]


@pytest.mark.slow
async def test_figures_and_events_are_those_of_the_runs_own_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody hears of the third process of an arm as of one more, nor of a suspicion before the record."""
    disturbed(monkeypatch, times=1)
    heard: list[Any] = []
    run, _ = await carried_out(tmp_path, replicas=2, rungs={"optimized.py": SLOW}, heard=heard)
    batches = [event for event in heard if type(event).__name__ == "SampleBatch"]
    counted = sum(len(event.device_ms) for event in batches if event.arm == "optimized")
    arm = run.arm("optimized")
    assert arm is not None and counted == arm.sample_count
    assert {event.replica for event in batches} == {0, 1}
    assert [event.process for event in heard if type(event).__name__ == "RunState" and event.process] == [1, 2]
    begun = next(n for n, event in enumerate(heard) if type(event).__name__ == "Step" and event.step.name == "again")
    shown = [event.arm for event in heard[begun:] if type(event).__name__ == "ArmUpdate"]
    assert all(one.median_ms for one in shown), "an arm does not lose its figures meanwhile"


@pytest.mark.slow
async def test_what_every_process_shows_is_suspect_and_says_both(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disturbed(monkeypatch, times=99)
    run, _ = await carried_out(tmp_path, replicas=1, rungs={"optimized.py": SLOW})
    found = said(run)
    assert found.status is FindingStatus.SUSPECT and found.evidence.count("90 ms by the judge's clock") == 2
    assert "; again in fresh processes: by time alone" in found.evidence
    assert run.validity is Validity.SUSPECT


@pytest.mark.slow
async def test_a_rung_that_does_it_in_every_process_shows_it_again(tmp_path: Path) -> None:
    run, told = await carried_out(tmp_path, replicas=2, rungs={"optimized.py": RHYTHM})
    found = said(run, RHYTHMS)
    assert found.status is FindingStatus.SUSPECT and "again in fresh processes" in found.evidence, found
    assert ("again", "ends") in told


@pytest.mark.slow
async def test_where_nothing_is_suspected_nothing_is_asked_again(tmp_path: Path) -> None:
    run, told = await carried_out(tmp_path, replicas=1)
    assert run.state is State.OK, run.reason
    assert not [found for found in run.findings if "again in fresh" in found.evidence]
    assert not [name for name, _ in told if name == "again"]


# It counts its processes where it may write: the second is honest, and slow.
HONEST_WHEN_ASKED_AGAIN = """
import time
from pathlib import Path

counter = Path("/dev/shm/COUNTER")
with counter.open("a") as file:
    file.write("x")
honest = counter.stat().st_size > 1
calls = 0


def run(x):
    global calls
    calls += 1
    if honest or calls % 4 == 0:
        time.sleep(0.004)
    return x * 2
"""


@pytest.mark.slow
async def test_a_rung_that_is_honest_only_where_it_is_asked_again_stays_suspect(tmp_path: Path) -> None:
    counter = Path(f"/dev/shm/asked-again-{os.getpid()}")
    rung = HONEST_WHEN_ASKED_AGAIN.replace("/dev/shm/COUNTER", str(counter))
    try:
        run, _ = await carried_out(tmp_path, replicas=1, rungs={"optimized.py": rung})
    finally:
        counter.unlink(missing_ok=True)
    found = said(run, RHYTHMS)
    assert found.status is FindingStatus.SUSPECT, found
    assert "; not again in fresh processes (" in found.evidence and "), but optimized is" in found.evidence, found


# It counts its processes where it may write. Every other one takes one way of two, and SLOW says which are slow.
TUNED = """
import time
from pathlib import Path

counter = Path("/dev/shm/COUNTER")
with counter.open("a") as file:
    file.write("x")
number = counter.stat().st_size


class Tuner:
    configs, cache = ("one", "other"), {}
    best_config = configs[number % 2]


tuner, slow = Tuner(), SLOW


def run(x):
    if slow:
        time.sleep(0.004)
    return x * 2
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("slow", "status", "words"),
    [
        ("number == 2", FindingStatus.PASSED, "seen once, not again in fresh processes: "),
        ("number % 2 == 0", FindingStatus.SUSPECT, "; again in fresh processes: "),
    ],
    ids=["one process of a busy machine", "one way of two"],
)
async def test_an_autotuner_is_held_for_the_way_it_takes_and_not_for_one_slow_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, slow: str, status: FindingStatus, words: str
) -> None:
    monkeypatch.setattr(again, "AGREE", 5.0)
    counter = Path(f"/dev/shm/tuned-{os.getpid()}")
    rung = TUNED.replace("/dev/shm/COUNTER", str(counter)).replace("SLOW", slow)
    try:
        run, _ = await carried_out(tmp_path, replicas=3, rungs={"optimized.py": rung})
    finally:
        counter.unlink(missing_ok=True)
    found = said(run, "compile.choice")
    assert found.status is status and words in found.evidence, found


WRONG_WHEN_ASKED_AGAIN = HONEST_WHEN_ASKED_AGAIN.replace("return x * 2", "return x * 2 + honest")


@pytest.mark.slow
async def test_an_output_that_is_wrong_in_a_fresh_process_is_wrong(tmp_path: Path) -> None:
    counter = Path(f"/dev/shm/asked-again-{os.getpid()}")
    rung = WRONG_WHEN_ASKED_AGAIN.replace("/dev/shm/COUNTER", str(counter))
    try:
        run, _ = await carried_out(tmp_path, replicas=1, rungs={"optimized.py": rung})
    finally:
        counter.unlink(missing_ok=True)
    arm = run.arm("optimized")
    assert arm is not None and arm.state is State.INCORRECT and arm.correctness is Correctness.WRONG, run.reason
    assert said(run, "output.values").status is FindingStatus.CAUGHT
    assert run.arm("baseline").state is State.OK  # type: ignore[union-attr]


@pytest.mark.slow
async def test_where_there_is_no_time_no_process_or_too_little_of_either_the_suspicion_stands_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def none(self: Replicas, arms: object) -> None:
        raise ArmEnd(State.INFRA_ERROR, "no process can be started")

    for number, (member, value, why) in enumerate(
        (
            ("LEAST_S", 1e6, "the run had no time left"),
            ("BUDGET_S", 0.1, "it took more than 0.1 s"),
            ("again", none, "no process can be started"),
        )
    ):
        with monkeypatch.context() as patch:
            disturbed(patch, times=1)
            patch.setattr(Replicas if member == "again" else again, member, value)
            run, _ = await carried_out(tmp_path / str(number), replicas=1, rungs={"optimized.py": SLOW})
        assert run.state is State.OK, run.reason
        assert said(run).status is FindingStatus.SUSPECT
        assert said(run).evidence.endswith(f"; not asked again: {why}"), said(run)


@pytest.mark.slow
async def test_a_run_that_is_cancelled_while_it_asks_again_leaves_no_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disturbed(monkeypatch, times=1)
    ordinary, arms = Measuring.warm_up, list[Arm]()

    async def warm_up(self: Measuring, processes: Sequence[ArmProcess], warm: Sequence[ArmProcess] = ()) -> None:
        await ordinary(self, processes, warm)
        if processes[0].arm.again:
            arms.extend(process.arm for process in processes)
            children.extend(process.child for process in processes)
            running = asyncio.current_task()
            assert running is not None
            running.cancel()
            await asyncio.sleep(60)

    children: list[Process] = []
    monkeypatch.setattr(Measuring, "warm_up", warm_up)
    run, _ = await carried_out(tmp_path, replicas=1, rungs={"optimized.py": SLOW})
    assert run.state is State.CANCELLED
    assert len(children) == 2 and not any(child.alive for child in children)
    assert not any(arm.processes for arm in arms)
