"""Who is timed how, who is next, when it ends, and what a hot GPU gets: with processes that answer by a script."""

from __future__ import annotations

import asyncio
import itertools
import math
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aisp.engine.arms import Arm, ArmEnd, ArmProcess
from aisp.engine.protocol import events, jobs, reports
from aisp.engine.turns import (
    AGAIN,
    BATCH_BELOW_MS,
    CALLS,
    KINDS,
    SHORT_MS,
    TRIES,
    UNKNOWN,
    Alternation,
    StintFailure,
    StopRule,
    Turns,
    drawn_sets,
)
from aisp.kernels.catalog.contracts import Cache
from aisp.kernels.catalog.model import Kind, Needs, Role, Rung
from aisp.store.outcomes import State, Timing
from aisp.store.record import DISCARDED, Step


class Scripted:
    """A worker process that measures what it is told to.

    Attributes:
        ms: per call.
        strongest: the best kind of launch batch it can be timed as.
        always: the kind that it makes whatever it is asked for, "" for what it is asked for.
        clocks: SM clock of the samples to come, in MHz; the last one for ever.
        leaks: what `discarded` says of the samples to come that are at no low clock; 0 after these.
    """

    def __init__(self, ms: float = 1.0, strongest: str = "graph", timing: str = "cold") -> None:
        self.ms = ms
        self.strongest = strongest
        self.always = ""
        self.timing = timing
        self.clocks = [1980.0]
        self.leaks: list[int] = []
        self.reference_mhz = 1980.0
        self.asked: list[Any] = []
        self.calls = 1

    async def ask(self, job: jobs.AnyJob, patience_s: float) -> reports.Report:
        self.asked.append(job)
        match job:
            case jobs.WarmUp():
                return reports.WarmedUp(
                    per_call_ms=self.ms,
                    per_sample_ms=self.ms,
                    calls=10,
                    timing=self.timing,
                    reference_mhz=self.reference_mhz,
                    resolution_ms=3.2e-5,
                    overhead_ms=1.28e-3,
                )
            case jobs.Group():
                kind = self.always or KINDS[max(KINDS.index(job.kind), KINDS.index(self.strongest))]
                self.calls = 1 if kind == "single" else job.calls
                return reports.Grouped(
                    kind=kind,
                    calls=self.calls,
                    per_sample_ms=self.ms * self.calls,
                    timing="cold" if kind == "single" else f"cold {kind}",
                    note="" if kind == job.kind else f"only {kind}",
                )
            case jobs.Measure():
                return self._measure(job)
        raise AssertionError(job)

    def _measure(self, job: jobs.Measure) -> reports.Samples:
        clocks: list[float] = []
        for _ in range(len(job.sets) // self.calls):
            clocks.append(self.clocks.pop(0) if len(self.clocks) > 1 else self.clocks[0])
            if clocks[-1] < job.least_mhz:
                break
        return reports.Samples(
            round=job.round,
            calls=self.calls,
            sets=job.sets[: len(clocks) * self.calls],
            device_ms=[self.ms] * len(clocks),
            host_ms=[0.01] * len(clocks),
            end_ns=[time.monotonic_ns()] * len(clocks),
            discarded=[int(mhz < job.least_mhz) or (self.leaks.pop(0) if self.leaks else 0) for mhz in clocks],
            sm_clock_mhz=clocks,
            probe_ms=[self.ms] * len(clocks),
            cycles=[self.ms * mhz * 1e3 for mhz in clocks],
            fingerprints=[0.0] * 3 * self.calls * len(clocks),
            width=3,
            last=True,
        )


def arm_of(name: str) -> Arm:
    rung = Rung(name.removesuffix(" (A/A)"), Role.BASELINE, Kind.TORCH, Path("x.py"), Needs())
    return Arm(name, rung, "cuda", True, State.RUNNING)


class Scene:
    """Arms over scripted processes, and the Turns that serve them."""

    def __init__(self, *children: Scripted, rule: StopRule | None = None) -> None:
        self.told: list[events.Event] = []
        self.children = children
        self.steps: list[Step] = []
        self.arms = [arm_of(f"arm{n}") for n in range(len(children))]
        self.processes: list[ArmProcess] = []
        self.rule = rule or StopRule.of(quick=False, replicas=0)
        self.turns = Turns("run", "default", self.rule, random.Random(1), self.told.append, self.steps.append, 5.0)
        self.turns.pair_ms = 0.0025

    async def warmed(self) -> Scene:
        known = {number: [0.0, 0.0, 0.0] for number in range(9)}
        self.processes = [
            ArmProcess(arm, 0, child, jobs.Blob(name="out"), dict(known))  # type: ignore[arg-type]
            for arm, child in zip(self.arms, self.children, strict=True)
        ]
        for process in self.processes:
            await self.turns.warm_up(process)
        return self

    async def chosen(self) -> list[tuple[Timing, int]]:
        await self.warmed()
        await self.turns.choose(self.processes)
        return [(arm.timing, arm.calls) for arm in self.arms]

    async def turn(self, number: int = 0) -> list[jobs.Measure]:
        (process,) = self.processes
        await self.turns.turn(process, number)
        return [job for job in self.children[0].asked if isinstance(job, jobs.Measure)]


@pytest.fixture
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Pauses are noted instead of waited for."""
    waited: list[float] = []

    async def note(seconds: float) -> None:
        waited.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", note)
    return waited


# -- how a sample is taken ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("quick", "expected"), [(True, [8, 3, 1]), (False, [16, 3, 3])])
async def test_in_a_quick_run_an_arm_that_is_ten_times_as_slow_as_the_fastest_takes_one_sample_a_turn(
    quick: bool, expected: list[int]
) -> None:
    scene = await Scene(*map(Scripted, (2.5, 24.0, 25.0)), rule=StopRule.of(quick=quick, replicas=0)).warmed()
    for process in scene.processes:
        await scene.turns.turn(process, 0)
    assert [len(arm.samples.device_ms) for arm in scene.arms] == expected


@pytest.mark.parametrize("sets", [1, 2, 3])
def test_a_timed_call_seldom_gets_the_values_of_the_call_before(sets: int) -> None:
    calls = 8000
    found = drawn_sets(random.Random(5), sets, calls)
    assert len(found) == calls
    assert all(abs(found.count(number) - calls / sets) < 0.05 * calls for number in range(sets))
    again = sum(now == before for before, now in itertools.pairwise(found)) / (calls - 1)
    assert again == pytest.approx(1.0 if sets == 1 else AGAIN, abs=0.02)


async def test_short_calls_are_timed_as_a_graph_of_as_many_as_fill_a_sample() -> None:
    found = await Scene(Scripted(0.002), Scripted(0.02), Scripted(0.05)).chosen()
    assert found == [(Timing.COLD_GRAPH, CALLS[1]), (Timing.COLD_GRAPH, 16), (Timing.COLD_GRAPH, CALLS[0])]


async def test_calls_that_are_long_enough_are_timed_alone_and_nothing_is_asked() -> None:
    scene = Scene(Scripted(SHORT_MS), Scripted(4.0))
    assert await scene.chosen() == [(Timing.COLD, 1)] * 2
    assert not any(isinstance(job, jobs.Group) for child in scene.children for job in child.asked)


async def test_a_pair_of_which_nothing_is_known_makes_longer_calls_short() -> None:
    scene = Scene(Scripted(0.05), Scripted(0.19), Scripted(UNKNOWN[1]))
    scene.turns.pair_ms = None
    assert await scene.chosen() == [(Timing.COLD_GRAPH, 8), (Timing.COLD_GRAPH, 8), (Timing.COLD, 1)]
    scene = Scene(Scripted(UNKNOWN[0]), Scripted(0.19))
    scene.turns.pair_ms = None
    assert await scene.chosen() == [(Timing.COLD, 1)] * 2


async def test_a_long_rival_of_a_short_call_stays_alone() -> None:
    found = await Scene(Scripted(BATCH_BELOW_MS), Scripted(0.005), Scripted(0.05)).chosen()
    assert found == [(Timing.COLD, 1), (Timing.COLD_GRAPH, 32), (Timing.COLD_GRAPH, 8)]


async def test_one_that_cannot_be_captured_keeps_the_others_back() -> None:
    scene = Scene(Scripted(0.005), Scripted(0.005, "batch"))
    assert await scene.chosen() == [(Timing.COLD_BATCH, 32)] * 2
    assert scene.turns.notes == ["short calls timed as batch; arm1: only batch"]


async def test_nobody_is_asked_again_for_what_it_has() -> None:
    scene = Scene(Scripted(0.005, "batch"), Scripted(0.005), Scripted(0.005, "batch"))
    await scene.chosen()
    asked = [[job.kind for job in child.asked if isinstance(job, jobs.Group)] for child in scene.children]
    assert asked == [["graph"], ["batch"], ["batch"]]


async def test_an_arm_that_makes_more_than_it_was_asked_for_is_ended() -> None:
    scene = Scene(Scripted(0.005, "batch"), Scripted(0.005))
    scene.children[1].always = "graph"
    await scene.warmed()
    with pytest.raises(StintFailure, match="arm1") as failed:
        await scene.turns.choose(scene.processes)
    assert failed.value.end.state is State.INFRA_ERROR
    assert failed.value.end.reason == "arm1 was asked for a batch, and made a graph"


async def test_one_that_can_only_be_timed_alone_leaves_all_alone() -> None:
    scene = Scene(Scripted(0.005, "batch"), Scripted(0.005, "single"))
    assert await scene.chosen() == [(Timing.COLD, 1)] * 2
    assert scene.turns.notes == ["short calls timed as single; arm0: only batch; arm1: only single"]


async def test_a_call_that_waits_for_the_gpu_leaves_all_alone() -> None:
    scene = Scene(Scripted(0.005, timing="cold+host"), Scripted(0.005))
    assert await scene.chosen() == [(Timing.COLD_SYNC, 1), (Timing.COLD, 1)]


async def test_the_next_replica_is_timed_like_the_first_whatever_it_warms_up_to() -> None:
    scene = Scene(Scripted(0.005))
    assert await scene.chosen() == [(Timing.COLD_GRAPH, 32)]
    scene.children[0].ms = 0.5
    assert await scene.chosen() == [(Timing.COLD_GRAPH, 32)]
    long = Scene(Scripted(0.5))
    assert await long.chosen() == [(Timing.COLD, 1)]
    long.children[0].ms = 0.005
    assert await long.chosen() == [(Timing.COLD, 1)]


async def test_arms_that_run_one_after_the_other_are_timed_alone() -> None:
    rule = StopRule.of(quick=False, replicas=0, interleaved=False)
    assert await Scene(Scripted(0.005), rule=rule).chosen() == [(Timing.COLD, 1)]


async def test_an_arm_that_dies_while_this_is_settled_is_named() -> None:
    scene = Scene(Scripted(0.005), Scripted(0.005))

    async def fail(job: jobs.AnyJob, patience_s: float) -> reports.Report:
        return reports.Failed(job="Group", kind="user", summary="no", traceback="")

    await scene.warmed()
    scene.children[1].ask = fail  # type: ignore[method-assign]
    with pytest.raises(StintFailure) as failed:
        await scene.turns.choose(scene.processes)
    assert (failed.value.process.name, failed.value.end.state) == ("arm1", State.USER_ERROR)


async def test_a_process_that_waits_for_the_gpu_in_one_replica_marks_the_arm_for_good() -> None:
    scene = await Scene(Scripted(1.0)).warmed()
    await scene.turn()
    scene.children[0].timing = "cold+host"
    await scene.warmed()
    assert scene.arms[0].timing is Timing.COLD_SYNC
    scene.children[0].timing = "cold"
    await scene.warmed()
    assert scene.arms[0].timing is Timing.COLD_SYNC


async def test_warm_caches_and_what_pairs_read_are_asked_of_the_process() -> None:
    scene = Scene(Scripted(), rule=StopRule.of(quick=True, replicas=0, cache=Cache.WARM))
    await scene.warmed()
    job = scene.children[0].asked[0]
    assert (job.cache, job.pair_ms) == (Cache.WARM, 0.0025)


# -- a turn ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("ms", "samples"), [(0.001, 128), (1.0, 40), (8.0, 5), (500.0, 3)])
async def test_a_turn_fills_its_time_with_three_to_128_samples(ms: float, samples: int) -> None:
    scene = await Scene(Scripted(ms)).warmed()
    (job,) = await scene.turn()
    assert len(job.sets) == samples
    assert job.budget_ms == max(160.0, 4 * ms)  # the slowest call still gets three of them


async def test_every_call_of_a_sample_has_a_set_of_its_own() -> None:
    scene = Scene(Scripted(0.005))
    await scene.chosen()
    (job,) = await scene.turn()
    assert len(job.sets) == 128 * 32
    assert set(job.sets) == {0, 1, 2}
    assert scene.arms[0].samples.inputs == [-1] * 128


async def test_clients_hear_of_every_sample_with_its_clock() -> None:
    scene = await Scene(Scripted(10.0)).warmed()
    scene.children[0].clocks = [1980.0, 1965.0]
    await scene.turn(4)
    (batch,) = [event for event in scene.told if isinstance(event, events.SampleBatch)]
    assert (batch.round, batch.sm_clock_mhz) == (4, [1980.0, 1965.0, 1965.0, 1965.0])
    assert scene.arms[0].samples.sm_clock_mhz == batch.sm_clock_mhz


def test_rounds_are_shuffled_and_each_is_reversed_by_the_next() -> None:
    order = Alternation(random.Random(1))
    arms = [Scripted() for _ in range(4)]
    orders = [order.of(arms, number) for number in range(40)]
    assert all(set(map(id, found)) == set(map(id, arms)) and len(found) == 4 for found in orders)
    assert all(later == earlier[::-1] for earlier, later in zip(orders[::2], orders[1::2], strict=True))
    assert len({tuple(map(id, found)) for found in orders[::2]}) > 8  # of 24
    order.of(arms, 0)
    assert set(map(id, order.of(arms[:2], 1))) == set(map(id, arms[:2])), "the others failed meanwhile"


# -- a GPU that gets hot -----------------------------------------------------------------------------------------------


async def test_throttled_samples_are_set_aside_and_the_next_one_waits(no_waiting: list[float]) -> None:
    scene = await Scene(Scripted(8.0)).warmed()
    await scene.turn()
    scene.children[0].clocks = [1980.0, 1484.0, 1400.0, 1486.0]
    asked = await scene.turn(1)
    assert [job.least_mhz for job in asked[1:]] == [1485.0] * 3  # three quarters of the usual one
    assert scene.arms[0].samples.discarded[5:] == [0, 1, 1, 0, 0]
    assert scene.arms[0].samples.device_ms == [8.0] * 10  # nothing is thrown away
    assert DISCARDED[1] == "clock below 75 % of its usual"
    assert no_waiting == [0.1, 0.2]
    assert [(step.name, step.detail) for step in scene.steps] == [("cooling", "SM clock under 1485 MHz")] * 2


async def test_a_gpu_that_never_gets_cool_is_waited_for_so_long_and_no_longer(no_waiting: list[float]) -> None:
    scene = await Scene(Scripted(8.0)).warmed()
    for _ in range(40):
        await scene.turn()
    scene.children[0].clocks = [900.0]
    for number in range(30):
        await scene.turn(number)
    assert sum(no_waiting) == pytest.approx(scene.rule.cooling_s)
    assert set(scene.arms[0].samples.discarded[200:]) == {1}


@pytest.mark.parametrize(("mhz", "aside"), [(1480.0, 0), (991.0, 0), (989.0, 5)])
async def test_a_clock_that_the_power_limit_holds_is_the_usual_one_of_its_arm(
    no_waiting: list[float], mhz: float, aside: int
) -> None:
    """A matrix product that an H200 runs at 1480 MHz, three quarters of the clock under light load, lost its samples by
    it and was suspect."""
    scene = await Scene(Scripted(8.0)).warmed()
    scene.children[0].clocks = [mhz]
    for number in range(4):
        await scene.turn(number)
    assert sum(scene.arms[0].samples.discarded) == aside
    assert bool(no_waiting) is bool(aside)


async def test_a_turn_of_which_no_sample_counts_is_taken_again() -> None:
    """Of an arm that takes one sample in a turn, a hold that was once too short would leave a round without it."""
    scene = await Scene(*map(Scripted, (2.5, 25.0)), rule=StopRule.of(quick=True, replicas=0)).warmed()
    scene.children[1].leaks = [2, 2, 0, 2]
    slow = scene.arms[1].samples
    await scene.turns.turn(scene.processes[1], 0)
    assert (slow.discarded, slow.round) == ([2, 2, 0], [0, 0, 0])
    await scene.turns.turn(scene.processes[1], 1)
    assert slow.discarded[3:] == [2, 0]
    scene.children[1].leaks = [2] * 9
    await scene.turns.turn(scene.processes[1], 2)
    assert slow.discarded[5:] == [2] * TRIES


async def test_the_reference_is_the_highest_clock_that_any_process_saw() -> None:
    cool, hot = Scripted(), Scripted()
    hot.reference_mhz = 1400.0
    scene = await Scene(cool, hot).warmed()
    assert scene.turns.reference_mhz == 1980.0
    scene = await Scene(hot, cool).warmed()
    assert scene.turns.reference_mhz == 1980.0


async def test_where_the_clock_is_unknown_nothing_is_set_aside() -> None:
    scene = Scene(Scripted(8.0))
    scene.children[0].reference_mhz = math.nan
    scene.children[0].clocks = [math.nan]
    await scene.warmed()
    (job,) = await scene.turn()
    assert job.least_mhz == 0.0
    assert scene.arms[0].samples.discarded == [0] * 5


# -- when it ends ------------------------------------------------------------------------------------------------------


def over(done: int, widest: float | None, elapsed_s: float = 0.0, *, quick: bool = False) -> bool:
    scene = Scene(rule=StopRule.of(quick=quick, replicas=0))
    return scene.turns.over(done, time.monotonic() - elapsed_s, widest)


def test_least_rounds_are_made_whatever_happened_before() -> None:
    rule = StopRule.of(quick=False, replicas=0)
    assert not any(over(done, 0.0, elapsed_s=1e6) for done in range(rule.least_rounds))


def test_it_ends_when_the_widest_interval_is_narrow_enough_after_whole_pairs_of_rounds() -> None:
    rule = StopRule.of(quick=False, replicas=0)
    assert over(rule.least_rounds, 0.01)
    assert not over(rule.least_rounds, 0.0101)
    assert not over(rule.least_rounds + 1, 0.001)  # its reverse is still to come
    assert over(rule.least_rounds + 2, 0.001)
    assert not over(rule.least_rounds, None)  # nothing to compare


def test_it_ends_with_its_budget_or_the_most_rounds() -> None:
    rule = StopRule.of(quick=False, replicas=0)
    assert over(rule.most_rounds, 1.0)
    assert not over(rule.most_rounds - 1, 1.0)
    assert over(rule.least_rounds + 1, 1.0, elapsed_s=rule.budget_s + 1)


def test_the_rule_is_plain_data_for_the_manifest() -> None:
    manifest = StopRule.of(quick=True, replicas=3, cache=Cache.DIRTY, interleaved=False, device="cuda").manifest()
    assert [manifest[name] for name in ("replicas", "cache", "interleaved", "method")] == [3, "dirty", False, 3]
    assert manifest["half_width"] == 0.01


@pytest.mark.parametrize("tear", ["sets", "sm_clock_mhz", "probe_ms", "cycles", "fingerprints"])
async def test_a_torn_batch_is_refused(tear: str) -> None:
    scene = await Scene(Scripted(8.0)).warmed()
    measure: Callable[[jobs.Measure], reports.Samples] = scene.children[0]._measure

    async def torn(job: jobs.Measure, patience_s: float) -> reports.Report:
        whole = measure(job)
        fields = {name: getattr(whole, name) for name in whole.__struct_fields__}
        return reports.Samples(**{**fields, tear: getattr(whole, tear)[:-1]})

    scene.children[0].ask = torn  # type: ignore[assignment, method-assign]
    with pytest.raises(ArmEnd, match="torn"):
        await scene.turn()
