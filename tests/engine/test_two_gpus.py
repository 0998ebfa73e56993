"""What only two GPUs can show: runs side by side that do not disturb each other, each on the GPU that it says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from aisp.engine.protocol import events, requests
from aisp.engine.telemetry import Nvml
from aisp.store.outcomes import State, Validity
from aisp.store.record import Run
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


async def test_a_run_of_two_ranks_has_both_gpus(own: Callable[..., EngineUnderTest], tmp_path: Path) -> None:
    engine = own(AISP_SLOT_CORES="2")
    await engine.start()
    folder = tmp_path / "mine" / "ranks"
    folder.mkdir(parents=True)
    for name, text in {
        "lesson.md": RANKS, "reference.py": HONEST, "baseline.py": SLOW, "optimized.py": HONEST,
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
    assert peaks[0] is not None and peaks[0].ceiling("peer copy") is not None
