"""Rows 53 to 58: the store, its log, its lock or its folder is moved, removed or overwritten under a running engine."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from aisp.engine import client, lock, paths
from aisp.engine.client import EngineUnavailableError
from aisp.engine.protocol import events
from aisp.store import History, Store, upkeep
from aisp.store.outcomes import FindingStatus, State
from tests.engine.harness import EngineUnderTest, Stream
from tests.proofs.evil.matrix import fault
from tests.proofs.evil.stage import BESIDE_OTHERS_S, Stage, assert_timed, during_a_run, eventually, standing_still
from tests.store.examples import finished, planned, samples_of


def whole(path: Path) -> list[str]:
    """Ids of the runs in a store of which every record is what was written."""
    assert upkeep.verify(path).damage == [], path
    with History(path) as history:
        return [run.id for run in history.newest()]


async def held_and_stored(stage: Stage, engine: EngineUnderTest, harm: Callable[[Path], None]) -> tuple[str, str]:
    """Do harm to the state folder while a run goes on and one waits, after one was stored.

    What is on its way must end in the store at the path, and not before the banner that says what happened; then that
    store must take a run that is asked for afterwards. Returns the id of the run that was stored before, and the
    banner.
    """
    root = stage.target("honest")
    earlier = (await engine.run(root, "mine:honest", rungs=["baseline"])).record
    state = Path(engine.environment["AISP_STATE"])
    async with engine.stream() as stream:
        async with during_a_run(engine, stream, root, lambda: standing_still(engine)) as (ending, waiting):
            await asyncio.to_thread(harm, state)
        banner = await stream.until(events.Banner, lambda told: told.key == "moved", patience_s=BESIDE_OTHERS_S)
        ended = {event.run_id for event in stream.seen if isinstance(event, events.RunFinished)}
        assert not ended & {ending, waiting}
        for run_id in (ending, waiting):
            await _ended_as_told(engine, stream, run_id)
        (later,) = await stream.plan(root, "mine:honest", rungs=["baseline"])
        await _ended_as_told(engine, stream, later)
    assert set(whole(state / "aisp.db")) >= {ending, waiting, later}
    with engine.history() as history:
        for run_id in (ending, waiting, later):
            record = history.run(run_id)
            assert set(history.snapshot(record.snapshot)) >= {"baseline.py", "lesson.md"}
            assert history.environment(record.environment)
    return earlier.id, banner.text


async def _ended_as_told(engine: EngineUnderTest, stream: Stream, run_id: str) -> None:
    """The store at the path has the run at the moment at which its end is told.

    What happened to the folder may have happened to the run's own files: that is told as well.
    """
    result = await engine.result(stream, run_id)
    assert (result.finished.state, result.record.state) == (State.OK.value, State.OK), result.record.reason
    caught = {found.check for found in result.record.findings if found.status is FindingStatus.CAUGHT}
    assert caught <= {"evaluation.files"}, caught
    assert_timed(result, "baseline")


@fault(
    53,
    "the store is moved away while a run goes on (mv aisp.db old.db)",
    "a banner says where to; what it had opens there, whole; what is on its way is stored at the path, then told",
    own=True,
)
async def store_moved(stage: Stage) -> str:
    engine = await stage.started()
    earlier, told = await held_and_stored(stage, engine, lambda state: (state / "aisp.db").rename(state / "old.db"))
    old = Path(engine.environment["AISP_STATE"]) / "old.db"
    assert f"was moved to {old}: what it had is there, whole; a new store was begun there" in told
    assert earlier in whole(old)
    with engine.history() as history:
        assert earlier not in [run.id for run in history.newest()]
    return f"{told!r}; old.db opens by itself"


@fault(
    53,
    "the log and the shared memory of the store are removed (rm aisp.db-wal aisp.db-shm)",
    "a banner says so; nothing is lost: the log is folded into the store from memory",
    own=True,
)
async def log_removed(stage: Stage) -> str:
    def harm(state: Path) -> None:
        for side in ("-wal", "-shm"):
            (state / f"aisp.db{side}").unlink()

    engine = await stage.started()
    earlier, told = await held_and_stored(stage, engine, harm)
    assert "was removed: what it held was written into the store" in told
    assert earlier in whole(Path(engine.environment["AISP_STATE"]) / "aisp.db")
    return f"{told!r}"


@fault(
    54,
    "everything in the state folder is removed while a run goes on (rm -rf $AISP_STATE/*)",
    "a banner; the store that was removed is kept as a copy, a new one is begun, locked and logged anew",
    own=True,
)
async def folder_emptied(stage: Stage) -> str:
    def harm(state: Path) -> None:
        subprocess.run(["sh", "-c", f"rm -rf {state}/*"], check=False)

    engine = await stage.started()
    earlier, told = await held_and_stored(stage, engine, harm)
    state = Path(engine.environment["AISP_STATE"])
    (kept,) = state.glob("aisp.db.replaced-*")
    assert f"was removed or replaced: what it had was kept as {kept}; a new store was begun there" in told
    assert earlier in whole(kept)
    with engine.use():
        second = client.start_engine()
        assert await asyncio.to_thread(second.wait, 60) == paths.EXIT_ALREADY_RUNNING, "it is locked again"
        assert "what it had was kept as" in paths.log_tail(50)
        assert paths.pointer_file().exists()
    return f"{told!r}; a second engine left with status {paths.EXIT_ALREADY_RUNNING}"


@fault(
    55,
    "another store is put into the place of the one that is open (mv other.db aisp.db)",
    "what is on its way is stored in that one, which takes no page of the other's log; what was there is kept",
    own=True,
)
async def store_replaced(stage: Stage) -> str:
    other = stage.home / "other.db"
    theirs = store_of(other, 40)
    engine = await stage.started()
    earlier, told = await held_and_stored(stage, engine, lambda state: other.rename(state / "aisp.db") and None)
    state = Path(engine.environment["AISP_STATE"])
    (kept,) = state.glob("aisp.db.replaced-*")
    assert "the one that is there now is used; 2 run(s) that were on their way go into it" in told
    assert earlier in whole(kept)
    found = whole(state / "aisp.db")
    assert set(found) >= set(theirs) and earlier not in found
    return f"{told!r}; its {len(theirs)} runs are whole"


def store_of(place: Path, count: int) -> list[str]:
    """Add so many runs with samples to the store at `place`; their ids."""
    runs = [planned() for _ in range(count)]
    with Store.open(place) as store:
        store.plan(runs)
        for number, run in enumerate(runs):
            store.finish(finished(run), {"baseline": samples_of(200, number)})
    return [run.id for run in runs]


@fault(
    56,
    "a backup is copied over the store that is open (cp backup aisp.db: the same inode, other content)",
    "a banner says what is gone; the backup is whole, takes no page of the log, and what is on its way goes into it",
    own=True,
)
async def restored_by_hand(stage: Stage) -> str:
    engine = stage.own()
    with engine.use():
        place = paths.database_file()
    early = store_of(place, 5)
    backup = upkeep.copy_beside(place, stage.home / "backup.db")
    late = store_of(place, 60)
    await engine.start()
    inode = place.stat().st_ino
    earlier, told = await held_and_stored(stage, engine, lambda state: shutil.copyfile(backup, place) and None)
    assert place.stat().st_ino == inode
    assert "was overwritten by another program: its log, of before, was dropped" in told
    assert "1 run(s) that were stored in it are gone" in told
    found = whole(place)
    assert set(found) >= set(early) and not {earlier, *late} & set(found)
    return f"{told!r}; the backup's {len(early)} runs are whole"


@fault(
    56,
    "a backup is copied over a store whose log has all of it still",
    "a banner; nothing is lost: with its log the store is as it was",
    own=True,
)
async def restored_under_its_log(stage: Stage) -> str:
    engine = await stage.started()
    place = Path(engine.environment["AISP_STATE"]) / "aisp.db"
    backup = await asyncio.to_thread(upkeep.copy_beside, place, stage.home / "backup.db")
    earlier, told = await held_and_stored(stage, engine, lambda state: shutil.copyfile(backup, place) and None)
    assert "was written by another program: it is whole with its log" in told
    assert "gone" not in told
    assert earlier in whole(place)
    return f"{told!r}"


@fault(
    57,
    "the state folder is moved away while a run goes on",
    "it is made anew, private; what it had lies whole where it was moved to; what is on its way is stored at the path",
    own=True,
)
async def folder_moved(stage: Stage) -> str:
    elsewhere = stage.home / "elsewhere"
    engine = await stage.started()
    earlier, told = await held_and_stored(stage, engine, lambda state: state.rename(elsewhere) and None)
    state = Path(engine.environment["AISP_STATE"])
    assert f"was moved to {elsewhere}/aisp.db: what it had is there, whole; a new store was begun there" in told
    assert state.stat().st_mode & 0o777 == 0o700
    assert earlier in whole(elsewhere / "aisp.db")
    return f"{told!r}"


@fault(
    57,
    "the state folder is moved away and its path belongs to somebody else",
    "a banner says so and the engine ends; nothing is written there, what was stored lies whole where it was moved to",
    own=True,
)
async def folder_taken(stage: Stage) -> str:
    if os.getuid() != 0:
        return "not played: only root can make a folder of another user"
    engine = await stage.started()
    root = stage.target("honest")
    earlier = (await engine.run(root, "mine:honest", rungs=["baseline"])).record.id
    state = Path(engine.environment["AISP_STATE"])
    elsewhere = stage.home / "elsewhere"
    stranger = stage.home / "stranger"
    stranger.mkdir()
    os.chown(stranger, 65534, 65534)
    async with engine.stream() as stream:
        state.rename(elsewhere)
        stranger.rename(state)
        banner = await stream.until(events.Banner, lambda told: told.key == "lock", patience_s=BESIDE_OTHERS_S)
    assert engine.process is not None
    assert await asyncio.to_thread(engine.process.wait, 60) == 0
    assert [str(path) for path in state.rglob("*")] == []
    assert earlier in whole(elsewhere / "aisp.db")
    shutil.rmtree(state)
    state.mkdir(mode=0o700)
    await engine.start()
    return f"{banner.text!r}"


@fault(
    58,
    "the lock is removed and a second engine is started while a run goes on",
    "the first sees it and ends, the second serves; every run has an end, as it was told",
    own=True,
)
async def lock_removed(stage: Stage) -> str:
    engine = await stage.started()
    root = stage.target("honest")
    earlier = (await engine.run(root, "mine:honest", rungs=["baseline"])).record.id
    first = engine.process
    assert first is not None
    async with engine.stream() as stream:
        # Else the first would have taken its lock again long before.
        async with during_a_run(engine, stream, root, lambda: standing_still(engine)) as (ending, waiting):
            with engine.use():
                paths.lock_file().unlink()
                engine.process = second = client.start_engine()
                await eventually(
                    lambda: (found := lock.holder()) is not None and found.pid == second.pid,
                    "the second engine has the lock",
                )
        banner = await stream.until(events.Banner, lambda told: told.key == "lock", patience_s=BESIDE_OTHERS_S)
        with contextlib.suppress(EngineUnavailableError):
            for run_id in (ending, waiting):
                await stream.finish(run_id)
        planned = {event.run_id for event in stream.seen if isinstance(event, events.RunPlanned)}
        told = {event.run_id: event.run.state for event in stream.seen if isinstance(event, events.RunFinished)}
    assert banner.text.endswith("whose lock was removed: this one ends")
    assert await asyncio.to_thread(first.wait, 60) == 0
    await engine.answers()
    place = Path(engine.environment["AISP_STATE"]) / "aisp.db"
    assert set(whole(place)) == {earlier} | planned >= {earlier, ending, waiting}
    stored = {run_id: engine.record(run_id).state for run_id in (ending, waiting)}
    assert all(state.final for state in stored.values())
    for run_id in (ending, waiting):
        assert told[run_id] in (stored[run_id].value, State.INFRA_ERROR.value), "what could not be stored is told so"
    return f"{banner.text!r}; runs ended {', '.join(sorted({state.value for state in stored.values()}))}"


@fault(
    58,
    "the lock is removed and nobody else has it",
    "it is taken anew: a second engine leaves",
)
async def lock_taken_anew(stage: Stage) -> str:
    engine = stage.engine
    with engine.use():
        lock = paths.lock_file()
        lock.unlink()
        took_s = await eventually(lambda: lock.exists() and lock.read_text() != "", "the lock is there again")
        second = client.start_engine()
        assert await asyncio.to_thread(second.wait, 60) == paths.EXIT_ALREADY_RUNNING
    return f"locked again after {took_s:.2f} s; a second engine left with status {paths.EXIT_ALREADY_RUNNING}"
