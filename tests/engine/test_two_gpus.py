"""What only two GPUs can show: runs side by side that do not disturb each other, each on the GPU that it says."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path

import pytest

from aisp.engine.protocol import events, requests
from aisp.engine.telemetry import Nvml
from aisp.engine.worker import peak as worker
from aisp.store.outcomes import State, Timing, Validity
from aisp.store.record import Run
from aisp.store.results.datasheets import datasheet
from aisp.store.results.speed_of_light import (
    ALL_REDUCE,
    PEER,
    PEER_COPY,
    PEER_COPY_BOTH,
    PEER_SM_COPY,
    PEER_SM_COPY_BOTH,
)
from tests.engine.harness import EngineUnderTest
from tests.engine.test_gpu import HONEST, LESSON, SLOW, write

NVML = Nvml()
UUIDS = [device.uuid for device in NVML.devices()]
DISTURBED = 1.05  # a median beside another run, over that of a run alone
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(NVML.count < 2, reason=f"there are {NVML.count} GPUs here: {NVML.note}"),
    pytest.mark.xdist_group("gpu"),
    pytest.mark.timeout(600),
]
RANKS = LESSON.replace("[inputs]", "ranks = 2\n[inputs]").replace("gpus = 1", "gpus = 2").replace("[N]", "[2, N]")


def facts(engine: EngineUnderTest, run: Run) -> dict[str, object]:
    """The environment that a run was remembered with."""
    with engine.history() as history:
        return dict(history.environment(run.environment))


async def test_runs_side_by_side_have_a_gpu_and_cores_each_and_the_times_of_a_run_alone(
    own: Callable[..., EngineUnderTest], tmp_path: Path
) -> None:
    engine = own(AISP_SLOT_CORES="2")
    await engine.start()
    for name in ("one", "two"):
        write(tmp_path / "mine" / name, f"{LESSON}\n{name}\n")  # runs of the very same sources take turns
    alone = (await engine.run(tmp_path / "mine", "mine:one", quick=False, replicas=2, patience_s=300)).record
    assert alone.state is State.OK, alone.reason
    async with engine.stream() as stream:
        run_ids = await stream.plan(tmp_path / "mine", "mine:one", "mine:two", quick=False, replicas=2, again=True)
        for run_id in run_ids:
            await stream.finish(run_id, patience_s=300)
    runs = [engine.record(run_id) for run_id in run_ids]
    first, second = sorted(runs, key=lambda run: run.start_ns or 0)
    assert first.start_ns is not None and second.start_ns is not None and first.duration_ms is not None
    assert second.start_ns < first.start_ns + first.duration_ms * 1e6, "they were not under way at the same time"
    found = [facts(engine, run) for run in runs]
    assert sorted(str(each["gpu_uuid"]) for each in found) == sorted(UUIDS[:2])
    cores = [set(each["worker_cores"]) for each in found]  # type: ignore[call-overload]
    assert len(cores[0]) >= 2 and not cores[0] & cores[1]
    for run in runs:
        assert (run.state, run.validity) == (State.OK, Validity.VALID), [f for f in run.findings if f.evidence]
        assert not any(flag.startswith("contended") for flag in run.flags)
        for arm, before in zip(run.arms, alone.arms, strict=True):
            assert arm.median_ms is not None and before.median_ms is not None
            assert arm.median_ms < DISTURBED * before.median_ms, (arm.rung, arm.median_ms, before.median_ms)


GRAPH = """
import torch
import torch.distributed as dist


def prepare(x):
    dist.all_reduce(torch.zeros(1, device=x.device))  # connects, which capture forbids
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        y = x + x
        dist.all_reduce(torch.zeros(1, device=x.device))

    def replay(x):
        graph.replay()
        return y

    return replay


def run(x):
    return prepare(x)(x)
"""


async def test_a_run_of_two_ranks_has_both_gpus(own: Callable[..., EngineUnderTest], tmp_path: Path) -> None:
    engine = own(AISP_SLOT_CORES="2")
    await engine.start()
    folder = tmp_path / "mine" / "ranks"
    folder.mkdir(parents=True)
    for name, text in {
        "lesson.md": RANKS, "reference.py": HONEST, "baseline.py": SLOW, "optimized.py": HONEST,
        "optimized_graph.py": GRAPH,
    }.items():  # fmt: skip
        (folder / name).write_text(text)
    write(tmp_path / "mine" / "one", LESSON)
    async with engine.stream() as stream:
        ranks, one = await stream.plan(tmp_path / "mine", "mine:ranks", "mine:one", quick=True)
        for run_id in (ranks, one):
            ended = await stream.finish(run_id, patience_s=300)
            assert ended.state is State.OK, ended.reason
        states = [event for event in stream.seen if isinstance(event, events.RunState)]
    assert {event.device for event in states if event.run_id == ranks} == {"cuda"}
    for arm in engine.record(ranks).arms:
        # The kernels of the ranks wait for one another: their hosts would leave them tens of microseconds apart.
        assert arm.ranks is not None and arm.timing is Timing.COLD
        print(f"{arm.rung}: ranks begin {arm.ranks.skew_us:.1f} us apart, 95 % within {arm.ranks.skew_most_us:.1f} us")
        assert arm.ranks.skew_us < 10
    assert {event.device for event in states if event.run_id == one} <= {"cuda:0", "cuda:1"}


async def test_the_ceilings_of_both_gpus_are_measured_the_first_with_its_link(
    own: Callable[..., EngineUnderTest],
) -> None:
    engine = own(AISP_PROGRESS_LIMIT_S="60", AISP_TOTAL_LIMIT_S="600")
    await engine.start()
    async with engine.stream() as stream:
        reply = await stream.ask(requests.MeasurePeak(seq=stream.connection.next_seq()))
        assert len(reply.run_ids) == NVML.count
        for _ in reply.run_ids:
            end = await stream.until(events.PeakFinished, patience_s=540)
            assert end.reason == ""
    with engine.history() as history:
        peaks = [history.peak(peak_id) for peak_id in reply.run_ids]
    assert [peak and peak.gpu_uuid for peak in peaks] == UUIDS
    first, second = peaks[:2]
    assert first is not None and second is not None
    for c in first.ceilings:
        if c.name in (*PEER, ALL_REDUCE):
            print(f"{c.name:26} {c.footprint_bytes or 0:>12} {c.value} {c.unit} SM {c.sm_clock_mhz} {c.note}")
    best = {name: top.value or 0.0 for name in (*PEER, ALL_REDUCE) if (top := first.ceiling(name)) is not None}
    assert set(best) == {*PEER, ALL_REDUCE}, [c.note for c in first.ceilings if c.value is None]
    assert all("could not be used" not in c.note for c in first.ceilings if c.name in PEER)
    for one_way, both_ways in ((PEER_COPY, PEER_COPY_BOTH), (PEER_SM_COPY, PEER_SM_COPY_BOTH)):
        assert 0.4 * best[one_way] < best[both_ways] < 1.05 * best[one_way]  # each way; PCIe may share one path
    fastest = max(best[PEER_COPY], best[PEER_SM_COPY])
    sheet = datasheet(first.gpu)
    if sheet is not None and sheet.nvlink_bytes_per_s is not None:
        assert 0.5 < fastest / sheet.nvlink_bytes_per_s < 1.0
    reduced = {c.footprint_bytes or 0: c for c in first.ceilings if c.name == ALL_REDUCE}
    assert tuple(reduced) == worker.ALL_REDUCE_BYTES
    rates = [c.value or 0.0 for c in reduced.values()]
    assert rates == sorted(rates) and rates[-1] < 1.05 * fastest
    assert all(f"over {NVML.count} GPUs" in c.note and "µs a call" in c.note for c in reduced.values())
    alone = {c.name: c.note for c in second.ceilings if c.value is None}
    assert {name: alone[name] for name in best} == dict.fromkeys(best, "needs 2 GPUs")


def test_the_kernels_between_two_gpus_copy_what_their_ceilings_count() -> None:
    import torch

    bench = worker._bench()
    count = worker.THREADS * 8 * 4 * 3  # whole tiles of every kernel
    sources = [torch.arange(count, device=f"cuda:{gpu}", dtype=torch.float32) + gpu for gpu in range(2)]
    goals = [torch.zeros_like(source) for source in sources]
    for gpu in range(2):
        goals[1 - gpu].copy_(sources[gpu])  # lets this GPU reach the other's memory
    for gpus in (1, 2):
        ways = list(bench._sm_copies(sources, goals, gpus))
        assert len(ways) == len({way.name for way in ways}) >= 2 * len(worker.VARIANTS)
        for way in ways:
            for goal in goals:
                goal.zero_()
            bench._synchronize(range(2))
            way.call()
            bench._synchronize(range(2))
            # GPU 0 alone writes into GPU 1's memory, or reads from it into its own.
            filled = (0, 1) if gpus == 2 else (1,) if "writing" in way.name else (0,)
            for gpu, goal in enumerate(goals):
                assert torch.equal(goal.cpu(), sources[1 - gpu].cpu()) == (gpu in filled), (way.name, gpu)


def test_a_time_of_two_gpus_covers_the_work_of_both() -> None:
    import torch

    bench = worker._bench()
    there = torch.cuda.current_stream(1)

    def sleep(gpus: tuple[int, ...]) -> None:
        for gpu in gpus:
            with torch.cuda.device(gpu):
                torch.cuda._sleep(4_000_000)  # 2 ms at 2 GHz

    def seconds(*gpus: int) -> float:
        call = functools.partial(sleep, gpus)
        return bench._best_together([worker.Way("sleep", call, lambda: None)], [there]).seconds

    one, other, both = seconds(0), seconds(1), seconds(0, 1)
    assert 1e-3 < one < 10e-3 and 1e-3 < other < 10e-3
    assert max(one, other) * 0.9 < both < max(one, other) * 1.3  # at the same time, not one after the other
