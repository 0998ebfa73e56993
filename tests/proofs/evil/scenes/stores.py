"""Rows 18 to 20 and 52: the disk is full, the database is locked, damaged, half migrated or of a newer aisp."""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

from aisp.engine import client, paths
from aisp.engine.client import EngineUnavailableError
from aisp.engine.protocol import events
from aisp.store import History, Store, migrations, upkeep
from aisp.store.outcomes import State
from tests.engine.harness import EngineUnderTest, Stream
from tests.proofs.evil.matrix import fault
from tests.proofs.evil.scenes.engines import refused, started_by
from tests.proofs.evil.stage import Stage, assert_timed, during_a_run, eventually, standing_still
from tests.store.examples import finished, planned, samples_of

SCHEMAS = Path(__file__).parents[3] / "store"


async def _until_stored(engine: EngineUnderTest, stream: Stream, run_ids: list[str]) -> None:
    """The banner is taken back, and every run is in the store as it was told."""
    over = await stream.until(events.Banner, lambda banner: banner.key == "store")
    assert over.text == ""
    for run_id in run_ids:
        result = await engine.result(stream, run_id)
        assert (result.finished.state, result.record.state) == (State.OK.value, State.OK), result.record.reason
        assert_timed(result, "baseline")


def limit_files(pid: int, limit_bytes: int) -> None:
    """No file may grow beyond that by a process's doing; its hard limit stays."""
    _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (hard if limit_bytes < 0 else limit_bytes, hard))


@fault(
    18,
    "no file of the engine may grow any more (a quota, RLIMIT_FSIZE) while a run ends",
    "the reserve is given up, a banner says so, results wait in memory and runs are paused; stored when there is room",
    own=True,
)
async def no_file_may_grow(stage: Stage) -> str:
    engine = await stage.started()
    root = stage.target("honest")
    earlier = (await engine.run(root, "mine:honest", rungs=["baseline"])).record
    with engine.use():
        reserve_file = upkeep.ballast_file(paths.database_file())
    await eventually(reserve_file.exists, "the engine keeps a reserve")
    async with engine.stream() as stream:
        async with during_a_run(engine, stream, root, lambda: standing_still(engine)) as (ending, waiting):
            limit_files(engine.ps.pid, 4096)
        reserve = await stream.until(events.Banner, lambda banner: banner.key == "disk")
        assert "a reserve of 16 MiB was given up for results" in reserve.text
        banner = await stream.until(events.Banner, lambda banner: banner.key == "store")
        assert banner.text.endswith("free some space on its disk; results wait in memory and runs are paused")
        queue = (await stream.connection.status()).queue
        assert [item.run_id for item in queue] == [ending, waiting] and queue[1].state == State.PLANNED.value
        assert engine.record(earlier.id) == earlier, "what is stored can be read"
        for process in (engine.ps, *engine.workers()):  # standbys that were started meanwhile inherited it
            limit_files(process.pid, -1)
        await _until_stored(engine, stream, [ending, waiting])
    return f"{banner.text!r}; earlier runs stayed readable; both runs stored once files could grow again"


ON_A_SMALL_DISK = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
NEW_MOUNTS, PRIVATE = 0x00020000, (1 << 14) | (1 << 18)
state = os.environ["AISP_STATE"].encode()
if libc.unshare(NEW_MOUNTS) or libc.mount(None, b"/", None, PRIVATE, None) \\
        or libc.mount(b"tmpfs", state, b"tmpfs", 0, b"size=4m,mode=700"):
    raise SystemExit(77)
"""


READ_THERE = """
import ctypes, os, sys
if ctypes.CDLL(None).setns(os.open(f"/proc/{sys.argv[1]}/ns/mnt", os.O_RDONLY), 0):
    raise SystemExit("another process's mounts cannot be entered")
from aisp.store import History
with History(sys.argv[2]) as history:
    print(history.run(sys.argv[3]).state.value, "whole" if history.verify(sys.argv[3]) else "damaged")
"""


async def read_there(engine: EngineUnderTest, run_id: str) -> str:
    """What a client that sees the engine's disk reads of a run."""
    done = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-c", READ_THERE, str(engine.ps.pid), f"{engine.environment['AISP_STATE']}/aisp.db", run_id],
        env=os.environ | {"PYTHONPATH": str(Path(client.__file__).parents[2])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return str(done.stdout).strip()


@fault(
    18,
    "the disk of the state folder is full (a tmpfs of 4 MB) while a run ends",
    "a banner says so, the result waits in memory; stored when there is room",
    own=True,
)
async def disk_full(stage: Stage) -> str:
    engine = stage.own()
    root = stage.target("honest")
    with started_by(ON_A_SMALL_DISK), engine.use():
        engine.process = client.start_engine()
    disk = Path(f"/proc/{engine.process.pid}/root{engine.environment['AISP_STATE']}")

    def identity(descriptor: int | None = None) -> str:
        """Of the folder as the engine sees it, which others do not."""
        found = disk.stat()
        return f"{found.st_dev:x}-{found.st_ino:x}"

    async def there(run_id: str) -> str:
        return (await read_there(engine, run_id)).split()[0]

    with mock.patch.object(paths, "identity", identity):
        with engine.use():
            while engine.process.poll() is None:
                with contextlib.suppress(EngineUnavailableError, OSError):
                    async with await client.connect(start=False):
                        break
                await asyncio.sleep(0.02)
        if engine.process.poll() == 77:
            return "not played: this machine lets nobody mount a disk of his own; the other scene of this row is"
        assert engine.process.poll() is None, paths.log_tail(5)
        async with engine.stream() as stream:
            (earlier,) = await stream.plan(root, "mine:honest", rungs=["baseline"])
            assert (await stream.finish(earlier)).state == State.OK.value
            filler = disk / "filler"
            async with during_a_run(engine, stream, root, lambda: standing_still(engine), there) as held:
                with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
                    while True:
                        file.write(bytes(4096))
            banner = await stream.until(events.Banner, lambda banner: banner.key == "store")
            assert "free some space on its disk; results wait in memory and runs are paused" in banner.text
            assert await read_there(engine, earlier) == "ok whole", "what is stored can be read"
            filler.unlink()
            over = await stream.until(events.Banner, lambda banner: banner.key == "store")
            assert over.text == ""
            for run_id in held:
                assert (await stream.finish(run_id)).state == State.OK.value
                assert await read_there(engine, run_id) == "ok whole"
    assert await asyncio.to_thread(engine.terminate) == 0
    return f"{banner.text!r}; the run was stored whole after the file that filled the disk was deleted"


@contextlib.contextmanager
def locked_by_another() -> Iterator[None]:
    """The engine's database with a lock that another program has."""
    with contextlib.closing(sqlite3.connect(paths.database_file(), isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        yield
        other.execute("ROLLBACK")


@fault(
    19,
    "another program locks the database while a run ends",
    "after 5 s a banner; results wait in memory and nothing is dropped; stored when the lock is gone",
)
async def locked(stage: Stage) -> str:
    engine = stage.engine
    root = stage.target("honest")
    async with engine.stream() as stream:
        async with during_a_run(engine, stream, root, locked_by_another) as (ending, waiting):
            banner = await stream.until(events.Banner, lambda banner: banner.key == "store")
            assert banner.text.endswith("close it there; results wait in memory and runs are paused")
            queue = (await stream.connection.status()).queue
            assert [item.run_id for item in queue] == [ending, waiting]
            with engine.history() as history:
                assert history.run(ending).state in (State.STARTING, State.RUNNING)
        await _until_stored(engine, stream, [ending, waiting])
    return f"{banner.text!r}; both runs stored after the lock was gone"


@fault(
    20,
    "the database is damaged when the engine starts",
    "it is set aside, the last whole backup takes its place, what is missing is named, the engine serves",
    own=True,
)
async def damaged(stage: Stage) -> str:
    engine = stage.own()
    with engine.use():
        place = paths.database_file()
        kept, lost = [planned() for _ in range(20)], planned(target="after:backup")
        with Store.open(place) as store:
            store.plan(kept)
            for number, run in enumerate(kept):
                store.finish(finished(run), {"baseline": samples_of(200, number)})
            backup = store.backup()
            store.plan([lost])
            store.finish(finished(lost), {})
        data = bytearray(place.read_bytes())
        data[4096 * 3 : 4096 * 4] = bytes(4096)
        place.write_bytes(data)
    await engine.start()
    async with engine.stream(start_at=1) as stream:
        banner = await stream.until(events.Banner, lambda banner: banner.key == "store")
        log = await stream.connection.log(2000)
    (aside,) = place.parent.glob("aisp.db.corrupt-*")
    assert aside.read_bytes() == bytes(data), "never thrown away"
    assert banner.text.startswith(
        f"the database was damaged and set aside as {aside}; {backup} was restored; 1 run(s) are missing, the log names"
    )
    assert any(f"run {lost.id} is missing" in line for line in log)
    with engine.history() as history:
        assert history.count() == len(kept)
        assert all(history.verify(run.id) for run in kept)
    return f"set aside, {len(kept)} runs of the backup are whole, the log names the one that is missing"


KILLED_IN_STEP = """
import os, signal
from aisp.store import migrations
whole = migrations.STEPS[{step} - 1]
def killed(db):
    whole(db)
    os.kill(os.getpid(), signal.SIGKILL)
migrations.STEPS = (*migrations.STEPS[:{step} - 1], killed)
"""


def version_of(path: Path) -> int:
    """The schema version that the file says it has."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        return int(connection.execute("PRAGMA user_version").fetchone()[0])


@fault(
    52,
    "the engine is killed in the middle of a migration",
    "that step has not happened; the next engine migrates whole and every earlier run is there",
    own=True,
)
async def migration_killed(stage: Stage) -> str:
    engine = stage.own()
    with engine.use():
        place = paths.database_file()
        with contextlib.closing(sqlite3.connect(place)) as connection:
            connection.executescript((SCHEMAS / "schema_v1.sql").read_text())
        with History(place) as history:
            earlier = [run.id for run in history.newest()]
        for step in range(2, migrations.LATEST + 1):
            with started_by(KILLED_IN_STEP.format(step=step)):
                dying = client.start_engine()
            assert await asyncio.to_thread(dying.wait, 30) == -signal.SIGKILL
            assert version_of(place) == step - 1, "a step that was killed has not happened"
    await engine.start()
    assert version_of(place) == migrations.LATEST
    with engine.history() as history:
        assert sorted(run.id for run in history.newest()) == sorted(earlier) and len(earlier) > 0
    return (
        f"killed in each of steps 2 to {migrations.LATEST}; then migrated whole, {len(earlier)} runs of schema 1 there"
    )


@fault(
    52,
    "the database is of a newer aisp",
    "the engine ends with a sentence and leaves it as it is; clients go on reading it",
    own=True,
)
async def newer_schema(stage: Stage) -> str:
    engine = stage.own()
    with engine.use():
        place = paths.database_file()
        with Store.open(place) as store:
            run = planned()
            store.plan([run])
            store.finish(finished(run), {})
        with contextlib.closing(sqlite3.connect(place, isolation_level=None)) as connection:
            connection.execute(f"PRAGMA user_version = {migrations.LATEST + 1}")
        said = await asyncio.to_thread(refused, engine)
        sentence = (
            f"schema version {migrations.LATEST + 1} and this aisp knows {migrations.LATEST}: "
            "update aisp, or set AISP_STATE to another folder"
        )
        assert sentence in said
        told = ""
        try:
            await client.connect()
        except EngineUnavailableError as error:
            told = str(error)
        assert "the engine ended at once with status 1" in told and sentence in told
        assert version_of(place) == migrations.LATEST + 1
        shown = await asyncio.to_thread(
            subprocess.run,
            [
                sys.executable,
                "-c",
                "from aisp.tui.cli.tree import main; main()",
                "history",
                run.target,
                "--json",
            ],
            cwd=Path(client.__file__).parents[2],
            capture_output=True,
            text=True,
            check=False,
        )
        assert shown.returncode == 0 and run.id in shown.stdout, shown.stderr
    return f"{said.strip().splitlines()[-1]!r}, status 1; its run is still read"
