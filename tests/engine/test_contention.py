"""What neighbours can have done to a comparison on a CPU is in its floor, and what they did not do is not."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from aisp.engine import contention, verdicts
from aisp.engine.contention import Waits
from aisp.engine.environment import ProcessorTime
from aisp.engine.statistics import HOST, PRIORS
from aisp.store.outcomes import Timing, Verdict
from aisp.store.results import busy
from tests.engine.test_verdicts import TWIN_SUFFIX, arm, verdict_of


def waits(lost: float, *, others_cores: float | None = 0.5, cores: int = 64, stolen: float = 0.0) -> Waits:
    """An arm that lost this share of its turns to the queue, beside others on a large machine."""
    return Waits(100.0, 100.0 * (1 - lost), 50.0, cores, others_cores, stolen)


@pytest.mark.parametrize("side", ["baseline", "optimized"])
def test_a_quick_comparison_on_a_busy_machine_is_decided_only_beyond_what_waiting_can_have_done(side: str) -> None:
    for ms, verdict in ((1 / 1.16, Verdict.UNDECIDED), (1.16, Verdict.UNDECIDED), (0.5, Verdict.FASTER)):
        arms = [arm("baseline", replicas=2, timing=Timing.HOST), arm("optimized", ms, replicas=2, timing=Timing.HOST)]
        next(one for one in arms if one.name == side).waits = waits(0.18)
        found = verdict_of(arms, "optimized", quick=True)
        assert found.verdict is verdict
        assert found.floor == pytest.approx(1 / 0.82 - 1)
        assert found.note.startswith(
            "the machine was busy (threads waited 18% of the time, others kept 0.5 of 64 processors busy)"
        )


@pytest.mark.parametrize(
    "quiet",
    [
        pytest.param(Waits(), id="nothing is known"),
        pytest.param(
            Waits(cores=4, others_cores=3.0, stolen_share=0.5, pressure_share=1.0), id="its turns were a GPU's"
        ),
        pytest.param(waits(0.0), id="nobody waited"),
        pytest.param(waits(0.5, others_cores=0.01), id="its own threads are in each other's way"),
        pytest.param(waits(0.009), id="less than the least floor"),
    ],
)
def test_on_a_quiet_machine_a_quick_run_finds_fifteen_per_cent(quiet: Waits) -> None:
    arms = [arm("baseline", replicas=2, timing=Timing.HOST), arm("optimized", 1 / 1.15, replicas=2, timing=Timing.HOST)]
    for one in arms:
        one.waits = quiet
    found = verdict_of(arms, "optimized", quick=True)
    assert (found.verdict, found.floor, found.note) == (Verdict.FASTER, 0.01, "")


def test_an_arms_record_keeps_what_it_met_and_nothing_of_a_gpus() -> None:
    made = arm("optimized", timing=Timing.HOST)
    made.waits = waits(0.835, others_cores=1.67, cores=2)
    met = verdicts.arm_record(made, source=b"", roofline=None, base_ms=None, prior=PRIORS["cpu"][HOST]).quality
    assert met is not None
    assert (met.waited_share, met.others_cores, met.cores) == (pytest.approx(0.835), 1.67, 2)
    assert met.busy_factor == pytest.approx(made.waits.factor)
    assert busy.sentence(met) == (
        "the machine was busy (threads waited 84% of the time, others kept 1.7 of 2 processors busy)"
    )
    made.waits = Waits(cores=4, others_cores=3.0)
    met = verdicts.arm_record(made, source=b"", roofline=None, base_ms=None, prior=PRIORS["cpu"][HOST]).quality
    assert met is not None and met.busy_factor is None


def test_where_the_baseline_took_part_twice_its_floor_holds_and_the_neighbours_are_told() -> None:
    arms = [arm("baseline"), arm("optimized", 1 / 1.15), arm("baseline" + TWIN_SUFFIX)]
    for one in arms:
        one.waits = waits(0.3)
    found = verdict_of(arms, "optimized")
    assert found.verdict is Verdict.FASTER
    assert found.floor == 0.005
    assert "threads waited 30% of the time" in found.note
    alone = verdict_of(arms[:2], "optimized")
    assert (alone.verdict, alone.floor) == (Verdict.UNDECIDED, pytest.approx(1 / 0.7 - 1))


def test_what_a_kernel_does_not_count_by_thread_is_taken_from_the_pressure_on_the_machine() -> None:
    uncounted = Waits(100.0, 100.0, 0.0, 4, 0.5, 0.0, 0.4)
    assert uncounted.share == 0.4
    assert uncounted.factor == pytest.approx(1 / 0.6)
    assert Waits(100.0, 100.0, 0.0, 4, 0.5, 0.0, None).share is None
    assert Waits().share is None


def test_the_hypervisor_and_shared_caches_count_as_well_and_nothing_is_without_bound() -> None:
    assert waits(0.0, stolen=0.2).factor == pytest.approx(1.25)
    assert waits(0.5, stolen=0.5).factor == pytest.approx(4.0)
    assert waits(0.0, others_cores=1.0, cores=4).factor == pytest.approx(1.25)
    assert waits(0.999).factor == contention.MOST_FACTOR
    assert waits(0.0, others_cores=99.0).factor == 2.0


def test_the_machine_is_asked_before_and_after_and_our_own_work_is_none_of_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told = iter([ProcessorTime(100.0, 5.0), ProcessorTime(103.0, 6.0)])
    pressed = iter([10.0, 11.0])
    wall = iter([0.0, 2.0])
    monkeypatch.setattr(contention, "processor_time", lambda: next(told))
    monkeypatch.setattr(contention, "pressure_s", lambda: next(pressed))
    monkeypatch.setattr(contention.time, "monotonic", lambda: next(wall))
    monkeypatch.setattr(contention.time, "process_time", lambda: 0.0)
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    both = [Waits(), Waits()]
    with contention.around(both):
        both[0].ran_ms += 800.0
        both[1].ran_ms += 200.0
    for each in both:
        assert each.others_cores == pytest.approx(1.0)  # 3 s less ours, in 2 s
        assert each.stolen_share == pytest.approx(0.25)
        assert each.pressure_share == pytest.approx(0.5)
        assert each.cores == 4


@pytest.fixture
def beside() -> Iterator[subprocess.Popen[bytes]]:
    """A process that runs for a while and is then asked to stop."""
    work = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        yield work
    finally:
        work.kill()
        work.wait()


@pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="this kernel keeps no count")
def test_turns_are_added_up_with_what_the_process_ran(beside: subprocess.Popen[bytes]) -> None:
    found = Waits()
    for _ in range(2):
        with contention.Crowd(beside.pid) as crowd:
            until = contention.Scheduled.of(beside.pid).ran_ms + 20.0
            while contention.Scheduled.of(beside.pid).ran_ms < until:
                pass
        found.add(crowd)
    assert found.ran_ms >= 40.0
    assert found.wall_ms >= found.alone_ms > 0
    assert found.share is not None and 0.0 <= found.share < 1.0
