"""What is on its way already is not queued once more unasked: who asks for it again follows the one that there is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from aisp.engine.protocol import events, requests
from aisp.kernels.catalog.contracts import Cache
from aisp.store.outcomes import State
from tests.engine.harness import EngineUnderTest, Stream
from tests.proofs.evil import corpus
from tests.proofs.evil.watched import watching

pytestmark = [pytest.mark.xdist_group("engine"), pytest.mark.timeout(180)]

NAPS = corpus.when_timed("time.sleep(600)", imports="import time")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A collection with a target whose rung never ends its turn, and two that wait behind it."""
    for name in ("naps", "one", "two"):
        corpus.write(tmp_path / "mine" / name)
    (tmp_path / "mine" / "naps" / "optimized.py").write_text(NAPS)
    (tmp_path / "mine" / "one" / "optimized_other.py").write_text(corpus.OPTIMIZED)
    return tmp_path / "mine"


@pytest.fixture
async def busy(shared: EngineUnderTest, root: Path) -> AsyncIterator[tuple[Stream, str]]:
    """A client of an engine that is busy with a run, and that run; in the end nothing is on its way."""
    async with shared.stream() as stream:
        (run_id,) = await stream.plan(root, "mine:naps")
        await stream.until(events.Step, lambda e: (e.run_id, e.step.name) == (run_id, "measure"))
        yield stream, run_id
        await stream.ask(requests.Cancel(seq=stream.connection.next_seq()))
        for planned in [event.run_id for event in stream.seen if isinstance(event, events.RunPlanned)]:
            await stream.finish(planned)


async def asked(stream: Stream, root: Path, *targets: str, **options: Any) -> events.Reply:
    """What is answered to a request for quick runs."""
    options = {"quick": True, "replicas": 1} | options  # as Stream.plan asks
    seq = stream.connection.next_seq()
    return await stream.ask(requests.StartRuns(seq=seq, roots=[str(root)], targets=list(targets), **options))


@pytest.mark.slow
async def test_who_asks_for_what_waits_or_runs_follows_it_to_its_end(
    shared: EngineUnderTest, busy: tuple[Stream, str], root: Path
) -> None:
    stream, running = busy
    first = await asked(stream, root, "mine:one")
    assert (len(first.run_ids), first.joined) == (1, [])
    async with shared.stream() as other:
        # A whole collection: each target for itself.
        reply = await asked(other, root, "mine:two", "mine:one", "mine:naps", trigger="tui")
        new, *known = reply.run_ids
        assert known == reply.joined == [*first.run_ids, running]
        queue = [item.run_id for item in (await other.connection.status()).queue]
        assert queue == [running, *first.run_ids, new]
        await other.ask(requests.Cancel(seq=other.connection.next_seq(), run_id=running))
        assert (await other.finish(running)).state is State.CANCELLED
        assert (await other.finish(first.run_ids[0])).state is State.OK


async def test_what_differs_in_anything_that_was_asked_for_is_another_job(busy: tuple[Stream, str], root: Path) -> None:
    stream, _ = busy
    others: list[dict[str, Any]] = [
        {},
        {"quick": False},
        {"rungs": ["optimized"]},
        {"replicas": 2},
        {"cache": Cache.WARM},
        {"interleave": False},
        {"validity": "portable"},
        {"without": ["output.values"]},
        {"naive": True},
    ]
    replies = [await asked(stream, root, "mine:one", **options) for options in others]
    assert [reply.joined for reply in replies] == [[]] * len(others)
    spelled = await asked(
        stream, root, "mine:one", rungs=["optimized_other", "optimized"], device="cpu", case="default"
    )
    assert spelled.joined == replies[0].run_ids, "the same in other words"
    (root / "one" / "optimized.py").write_text("# edited\n" + corpus.OPTIMIZED)
    assert (await asked(stream, root, "mine:one")).joined == []
    assert (await asked(stream, root, "mine:one", again=True)).joined == []


async def test_of_two_that_ask_at_the_same_moment_one_follows_the_other(
    shared: EngineUnderTest, busy: tuple[Stream, str], root: Path
) -> None:
    stream, _ = busy
    async with shared.stream() as other:
        replies = await asyncio.gather(asked(stream, root, "mine:one"), asked(other, root, "mine:one"))
    assert replies[0].run_ids == replies[1].run_ids
    assert sorted(len(reply.joined) for reply in replies) == [0, 1]
    await stream.until(events.RunPlanned, lambda e: e.run_id == replies[0].run_ids[0])


async def test_nobody_follows_a_run_that_is_being_ended_nor_that_of_a_save(
    shared: EngineUnderTest, busy: tuple[Stream, str], root: Path
) -> None:
    stream, running = busy
    await stream.ask(requests.Cancel(seq=stream.connection.next_seq(), run_id=running))
    fresh = await asked(stream, root, "mine:naps")
    assert fresh.joined == []
    await stream.until(events.Step, lambda e: (e.run_id, e.step.name) == (fresh.run_ids[0], "measure"))
    async with watching(shared, root, "mine:one") as watched:
        saved = await watched.save("optimized.py", "# saved\n" + corpus.OPTIMIZED)
        reply = await asked(stream, root, "mine:one", rungs=["optimized"])
        assert reply.run_ids != [saved.run_id] and reply.joined == []
        await stream.ask(requests.Cancel(seq=stream.connection.next_seq(), run_id=reply.run_ids[0]))


async def test_fuzzes_and_lints_are_followed_too_unless_their_seeds_differ(
    busy: tuple[Stream, str], root: Path
) -> None:
    stream, _ = busy

    async def fuzz(**options: Any) -> events.Reply:
        seq = stream.connection.next_seq()
        return await stream.ask(requests.FuzzTarget(seq=seq, root=str(root), target="mine:one", **options))

    first = await fuzz()
    again = await fuzz(trigger="tui")
    assert (first.joined, again.run_ids, again.joined) == ([], first.run_ids, first.run_ids)
    others: list[dict[str, Any]] = [
        {"lint": True},
        {"seed": 7},
        {"cases": 3},
        {"rungs": ["optimized"]},
        {"again": True},
    ]
    assert [(await fuzz(**options)).joined for options in others] == [[]] * len(others)
    assert len((await fuzz(seed=7)).joined) == len((await fuzz(lint=True)).joined) == 1


async def test_a_request_that_cannot_be_planned_joins_nothing(busy: tuple[Stream, str], root: Path) -> None:
    stream, _ = busy
    await asked(stream, root, "mine:one")
    for bad in ({"rungs": ["none"]}, {"case": "none"}, {"without": ["none"]}, {"replicas": -1}):
        options: dict[str, Any] = {"targets": ["mine:one"], "roots": [str(root)], "quick": True, **bad}
        reply = await stream.connection.request(requests.StartRuns(seq=stream.connection.next_seq(), **options))
        assert reply.error and (reply.run_ids, reply.joined) == ([], [])


# -- moving up ---------------------------------------------------------------------------------------------------------


async def up(stream: Stream, job: str) -> events.Reply:
    """A request to move a job up, and its answer."""
    return await stream.connection.request(requests.MoveUp(seq=stream.connection.next_seq(), run_id=job))


@pytest.mark.slow
async def test_a_job_that_waits_is_moved_up_and_everybody_hears_of_it(
    shared: EngineUnderTest, busy: tuple[Stream, str], root: Path
) -> None:
    stream, running = busy
    one, two, other = (
        *(await asked(stream, root, "mine:one", "mine:two")).run_ids,
        *(await asked(stream, root, "mine:one", again=True)).run_ids,
    )
    reply = await up(stream, other)
    assert (reply.error, reply.detail) == ("", "number 2 of those that wait")
    await stream.until(
        events.QueueChanged, lambda event: [job.run_id for job in event.jobs] == [running, one, other, two]
    )
    assert (await up(stream, other)).detail == "number 1 of those that wait"
    status = await stream.connection.status()
    assert [job.run_id for job in status.queue] == [running, other, one, two]
    assert [job.began_ns is None for job in status.queue] == [False, True, True, True]
    await stream.ask(requests.Cancel(seq=stream.connection.next_seq(), run_id=running))
    for run_id in (other, one, two):
        assert (await stream.finish(run_id)).state is State.OK
    begun = [event.run_id for event in stream.seen if isinstance(event, events.RunState)]
    assert list(dict.fromkeys(begun)) == [running, other, one, two]
    await stream.until(events.QueueChanged, lambda event: event.jobs == [])


async def test_what_may_not_be_moved_up_is_refused_with_the_reason(busy: tuple[Stream, str], root: Path) -> None:
    stream, running = busy
    (one,) = (await asked(stream, root, "mine:one")).run_ids
    seq = stream.connection.next_seq()
    (fuzz,) = (await stream.ask(requests.FuzzTarget(seq=seq, root=str(root), target="mine:one", lint=True))).run_ids
    assert (await up(stream, running)).error == "it is under way already"
    assert (await up(stream, one)).error == "it is the first of those that wait already"
    assert (await up(stream, fuzz)).error == "runs go before fuzzes"
    assert (await up(stream, "01NOBODY")).error == "no job 01NOBODY is queued or under way"


async def test_the_run_of_a_save_stays_before_a_run_that_is_moved_up(
    shared: EngineUnderTest, busy: tuple[Stream, str], root: Path
) -> None:
    stream, running = busy
    async with watching(shared, root, "mine:two") as watched:
        (one,) = (await asked(stream, root, "mine:one")).run_ids
        saved = await watched.save("optimized.py", "# saved\n" + corpus.OPTIMIZED)
        assert [job.run_id for job in (await stream.connection.status()).queue] == [running, saved.run_id, one]
        assert (await up(stream, one)).error == "the run of a save goes before all others"
