"""Cancelling: at any moment, any number of times, a run ends as cancelled, is stored, and frees its place."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from aisp.engine.protocol import events, requests
from aisp.store.outcomes import State
from tests.engine.harness import EngineUnderTest, Stream
from tests.proofs.evil import corpus

pytestmark = [pytest.mark.xdist_group("engine"), pytest.mark.timeout(180)]

# Compiling or being timed for as long as one likes; the honest siblings are done long before.
STALLS = corpus.Row(
    "stalls",
    "import time\n\n\ndef prepare(x):\n    time.sleep(20)\n    return run\n\n\ndef run(x):\n    return x * 2\n",
    State.CANCELLED,
)
SLOW = corpus.Row("slow", corpus.when_timed("time.sleep(5)", imports="import time"), State.CANCELLED)


async def cancel(stream: Stream, run_id: str = "") -> events.Reply:
    """A request to cancel, and its answer."""
    return await stream.connection.request(requests.Cancel(seq=stream.connection.next_seq(), run_id=run_id))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A collection with an honest target and two that take their time."""
    corpus.write(tmp_path / "mine" / "honest")
    corpus.write(tmp_path / "mine" / "stalls", [STALLS])
    corpus.write(tmp_path / "mine" / "slow", [SLOW])
    return tmp_path / "mine"


async def assert_runs(engine: EngineUnderTest, root: Path) -> None:
    """The engine goes on with an honest run."""
    assert (await engine.run(root, "mine:honest", rungs=["baseline"])).record.state is State.OK


@pytest.mark.slow
async def test_cancel_while_a_rung_compiles(shared: EngineUnderTest, root: Path) -> None:
    await shared.steady()
    workers = {process.pid for process in shared.workers()}  # the next ones start while these compile
    async with shared.stream() as stream:
        (run_id,) = await stream.plan(root, "mine:stalls", rungs=["optimized_stalls"])
        await stream.until(events.Step, lambda step: (step.step.name, step.step.arm) == ("compile", "optimized_stalls"))
        reply = await cancel(stream, run_id)
        assert (reply.error, reply.run_ids) == ("", [run_id])
        result = await shared.result(stream, run_id)
    assert result.record.state is State.CANCELLED
    assert result.record.reason == "cancelled on request; nothing is lost of earlier runs"
    assert {arm.state for arm in result.record.arms} == {State.CANCELLED}
    assert {arm.median_ms for arm in result.record.arms} == {None}
    assert result.finished.state == "cancelled"
    await assert_runs(shared, root)
    assert workers.isdisjoint(process.pid for process in shared.workers()), "a worker outlived its run"


@pytest.mark.slow
async def test_cancel_while_measuring_keeps_no_number(shared: EngineUnderTest, root: Path) -> None:
    async with shared.stream() as stream:
        (run_id,) = await stream.plan(root, "mine:slow", rungs=["optimized_slow"], replicas=3, quick=False)
        timed = (await stream.until(events.SampleBatch)).arm
        # Twice, and then all: impatience must not cost the record.
        for wanted in (run_id, run_id, ""):
            await cancel(stream, wanted)
        result = await shared.result(stream, run_id)
    assert result.record.state is State.CANCELLED
    assert {arm.median_ms for arm in result.record.arms} == {None}
    assert {c.verdict for c in result.record.comparisons} <= {"none"}
    with shared.history() as history:
        assert len(history.samples(run_id)[timed]) > 0, "samples that were taken are kept, as samples"
    await assert_runs(shared, root)


async def test_cancel_at_the_moment_of_the_verdict_stores_the_run_all_the_same(
    shared: EngineUnderTest,
    root: Path,
) -> None:
    async with shared.stream() as stream:
        (run_id,) = await stream.plan(root, "mine:honest", rungs=["baseline"])
        await stream.until(events.Step, lambda step: step.step.name == "measure" and step.step.duration_ms is not None)
        for _ in range(4000):
            reply = await cancel(stream, run_id)
            if reply.error:
                break
            await asyncio.sleep(0.005)
        assert reply.error == f"run {run_id} is not planned or running"
        result = await shared.result(stream, run_id)
    assert result.record.state in (State.OK, State.CANCELLED)
    assert result.finished.state == result.record.state.value
    await assert_runs(shared, root)


async def test_cancel_of_a_planned_run_leaves_the_running_one_alone(
    shared: EngineUnderTest,
    root: Path,
) -> None:
    async with shared.stream() as stream:
        first, second = await stream.plan(root, "mine:honest", "mine:slow", rungs=["baseline"])
        await cancel(stream, second)
        ended = await shared.result(stream, second)
        assert ended.record.state is State.CANCELLED
        assert ended.record.reason == "cancelled before it began"
        assert ended.of(events.Step) == []
        assert (await shared.result(stream, first)).record.state is State.OK


async def test_cancel_all_ends_what_runs_and_what_waits(shared: EngineUnderTest, root: Path) -> None:
    async with shared.stream() as stream:
        planned = await stream.plan(root, "mine:stalls", "mine:slow", "mine:honest")
        await stream.until(events.RunState, lambda event: event.state == "running")
        reply = await cancel(stream)
        assert reply.run_ids == planned
        for run_id in planned:
            assert (await shared.result(stream, run_id)).record.state is State.CANCELLED
        assert (await stream.connection.status()).queue == []
    await shared.steady()  # what the first run had made for the second stands by no longer


async def test_cancel_of_an_unknown_run_says_so(shared: EngineUnderTest) -> None:
    async with shared.stream() as stream:
        reply = await cancel(stream, "01ARZ3NDEKTSV4RRFFQ69G5FAV")
    assert reply.error == "run 01ARZ3NDEKTSV4RRFFQ69G5FAV is not planned or running"
