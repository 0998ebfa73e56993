"""The engine's own life: how it ends, where it refuses to live. How it dies: tests/proofs/evil/scenes/engines.py."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from aisp.engine import client, paths
from aisp.engine.connections import STOPPING
from aisp.engine.protocol import events, requests
from aisp.store.outcomes import State
from tests.engine.harness import EngineUnderTest, Stream
from tests.proofs.evil import corpus
from tests.proofs.evil.scenes.engines import LASTING, refused

pytestmark = [pytest.mark.xdist_group("engine"), pytest.mark.timeout(180)]

Own = Callable[..., EngineUnderTest]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A collection with an honest target and one whose timing stalls."""
    corpus.write(tmp_path / "mine" / "honest")
    corpus.write(tmp_path / "mine" / "lasting", [LASTING])
    return tmp_path / "mine"


# -- its end ---------------------------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_sigterm_ends_runs_as_cancelled_and_leaves_nothing(own: Own, root: Path) -> None:
    engine = own()
    await engine.start()
    async with engine.stream() as stream:
        running, waiting = await stream.plan(root, "mine:lasting", "mine:honest", rungs=["optimized"])
        await stream.until(events.Step, lambda step: step.step.name == "verify")
        workers = engine.workers()
        assert engine.terminate() == 0
        # Clients are told before the line goes.
        assert (await stream.finish(running)).state == "cancelled"
        assert (await stream.finish(waiting)).reason == "cancelled: the engine was stopped"
    assert len(workers) > 0
    assert not any(worker.is_running() for worker in workers)
    assert [engine.record(run_id).state for run_id in (running, waiting)] == [State.CANCELLED, State.CANCELLED]
    with engine.use():
        assert paths.find_socket() is None
    await engine.start()
    assert engine.record(running).state is State.CANCELLED, "the next engine does not call it lost"


@pytest.mark.parametrize("beats", range(4))
async def test_what_is_asked_for_while_an_engine_stops_is_refused_or_ended_and_never_left_planned(
    own: Own, root: Path, beats: int
) -> None:
    engine = own()
    await engine.start()
    async with engine.stream() as stream:
        asked = [
            requests.StartRuns(
                seq=stream.connection.next_seq(), roots=[str(root)], targets=["mine:honest"], quick=True, again=True
            )
            for _ in range(12)
        ]
        asking = [asyncio.create_task(stream.connection.request(request)) for request in asked]
        await asyncio.sleep(0.004 * beats)
        assert engine.process is not None
        os.kill(engine.process.pid, signal.SIGTERM)
        replies = await asyncio.gather(*asking, return_exceptions=True)
        assert await asyncio.to_thread(engine.process.wait, 30) == 0
    planned = [run_id for reply in replies if isinstance(reply, events.Reply) for run_id in reply.run_ids]
    refused = {reply.error for reply in replies if isinstance(reply, events.Reply) and not reply.run_ids}
    assert refused <= {STOPPING}
    with engine.history() as history:
        assert {record.state for record in history.newest(1 << 30)} <= {State.CANCELLED}
        assert {record.id for record in history.newest(1 << 30)} >= set(planned)


@pytest.mark.evil
async def test_a_run_that_lasts_too_long_as_a_whole_is_ended(own: Own, root: Path) -> None:
    engine = own(AISP_TOTAL_LIMIT_S="5", AISP_PROGRESS_LIMIT_S="60")
    await engine.start()
    await engine.steady()
    result = await engine.run(root, "mine:lasting", rungs=["optimized_lasting"])
    assert result.record.state is State.TIMEOUT_TOTAL
    assert result.record.reason == "the run took longer than 5 s; use smaller axes or --quick"
    assert {arm.median_ms for arm in result.record.arms} == {None}


@pytest.mark.slow
async def test_stop_when_idle_lets_the_queue_end_first(own: Own, root: Path) -> None:
    engine = own()
    await engine.start()
    async with engine.stream() as stream:
        (run_id,) = await stream.plan(root, "mine:honest", rungs=["baseline"])
        reply = await stream.ask(requests.Shutdown(seq=stream.connection.next_seq(), when_idle=True))
        assert reply.detail == "stops after 1 run(s)"
        assert (await stream.finish(run_id)).state == "ok"
        assert engine.process is not None
        assert await asyncio.to_thread(engine.process.wait, 30) == 0
    with engine.use():
        assert paths.find_socket() is None


# -- who may come in ---------------------------------------------------------------------------------------------------


async def test_a_state_directory_that_is_a_link_is_refused(own: Own, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    engine = own(AISP_STATE=str(tmp_path / "link"))
    said = refused(engine)
    assert f"{tmp_path / 'link'} is a symbolic link; remove it or set AISP_STATE to a folder of your own" in said
    assert list((tmp_path / "elsewhere").iterdir()) == []


@pytest.mark.skipif(os.getuid() != 0, reason="only root can make a folder that belongs to somebody else")
async def test_a_state_directory_of_somebody_else_is_refused(own: Own, tmp_path: Path) -> None:
    (tmp_path / "theirs").mkdir()
    os.chown(tmp_path / "theirs", 65534, 65534)
    engine = own(AISP_STATE=str(tmp_path / "theirs"))
    assert "belongs to uid 65534; set AISP_STATE to a folder of your own" in refused(engine)


async def test_a_state_directory_that_all_users_share_is_refused_and_left_as_it_is(
    own: Own,
    tmp_path: Path,
) -> None:
    place = tmp_path / "everybodys"
    place.mkdir()
    place.chmod(0o1777)
    engine = own(AISP_STATE=str(place))
    assert "is shared by all users; set AISP_STATE to a folder of your own below it" in refused(engine)
    assert (place.stat().st_mode & 0o7777) == 0o1777


# -- the line ----------------------------------------------------------------------------------------------------------


async def test_a_client_that_asks_for_another_engines_events_gets_all_of_this_ones(
    shared: EngineUnderTest,
) -> None:
    async with await client.connect(start=False, subscribe_from=10**9, epoch="01ARZ3NDEKTSV4RRFFQ69G5FAV") as other:
        first = await Stream(other).until(events.Event)
        assert (first.seq, isinstance(first, events.Gap)) in ((1, False), (0, True))
