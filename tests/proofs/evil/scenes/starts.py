"""Rows 59 to 65: whose state folder it is, how long a start takes, and an engine that does not answer."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

from aisp.engine import client, connections, filesystem, paths
from aisp.engine.client import EngineUnavailableError
from aisp.engine.protocol import events, requests
from aisp.store.outcomes import State
from aisp.store.writer import Store
from aisp.tui.cli import machine
from aisp.tui.facts import Facts, Health
from tests.engine.harness import EngineUnderTest
from tests.proofs.evil import corpus
from tests.proofs.evil.matrix import fault
from tests.proofs.evil.scenes.clients import Raw, environment
from tests.proofs.evil.scenes.engines import refused, started_by
from tests.proofs.evil.stage import Stage, eventually
from tests.store.examples import finished, planned, samples_of

AISP = [sys.executable, "-c", "from aisp.tui.cli.tree import main; main()"]
AT_ONCE_S = 8.0  # on a busy machine; the patience with an engine that starts is longer, and was used up before


def aisp(engine: EngineUnderTest, *words: str) -> subprocess.CompletedProcess[str]:
    """A command of the command line, as a person types it who has this engine's state folder."""
    return subprocess.run(
        [*AISP, *words],
        cwd=Path(client.__file__).parents[2],
        env=environment(engine),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


# -- whose folder it is ------------------------------------------------------------------------------------------------


@fault(
    59,
    "the state folder is copied while its engine runs, and the copy is used",
    "the copy has an engine, and results, of its own; no command with the copy reaches the engine of the original",
    own=True,
)
async def copied_folder(stage: Stage) -> str:
    root = stage.target("honest")
    original = await stage.started()
    run_id = (await original.run(root, "mine:honest", rungs=["baseline"])).record.id
    state = Path(original.environment["AISP_STATE"])
    copied = stage.own(XDG_RUNTIME_DIR=original.environment["XDG_RUNTIME_DIR"])
    # As a person does it: links as links, and what goes away meanwhile is left out.
    await asyncio.to_thread(subprocess.run, ["cp", "-a", str(state), copied.environment["AISP_STATE"]], check=False)
    with copied.use():
        assert paths.pointer_file().read_bytes() == os.fsencode(next(Path(paths.runtime_dir()).iterdir()))
    stopped = await asyncio.to_thread(aisp, copied, "engine", "--stop")
    assert (stopped.returncode, stopped.stdout) == (0, "no engine was running\n"), stopped.stderr
    status = await asyncio.to_thread(aisp, copied, "engine")
    assert status.returncode == 1, status.stdout
    await copied.start()
    assert copied.process is not None and original.process is not None
    assert original.process.poll() is None, "a command with the copy ended the engine of the original"
    other_id = (await copied.run(root, "mine:honest", rungs=["baseline"])).record.id
    with original.history() as history:
        assert [run.id for run in history.newest()] == [run_id]
    with copied.history() as history:
        assert [run.id for run in history.newest()] == [other_id, run_id]
    stopped = await asyncio.to_thread(aisp, copied, "engine", "--stop")
    assert stopped.stdout == f"engine stopped (pid {copied.process.pid})\n", stopped.stderr
    return "'no engine was running' before the copy had one; its run is in its own store; its stop ended its own engine"


@contextlib.contextmanager
def held_elsewhere(line: str) -> Iterator[None]:
    """The lock as a process has it that cannot be seen from here, as on another host of a shared home."""
    with paths.lock_file().open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        lock.write(line)
        lock.flush()
        yield


NO_LOCKS = """
import errno, fcntl
def flock(descriptor, kind):
    raise OSError(errno.ENOLCK, "No locks available")
fcntl.flock = flock
"""


@fault(
    60,
    "an engine on another host of a shared home has the lock; or the file system has no locks",
    "every command says so at once, with host, process and the next move; nothing is started",
    own=True,
    stubbed="the other host: a process that holds the lock, with another boot id in its file",
)
async def locked_elsewhere(stage: Stage) -> str:
    engine = stage.own()
    root = stage.target("honest")
    commands = (
        ("engine", "--start"),
        ("engine",),
        ("engine", "--stop"),
        ("engine", "--stop", "--force"),
        ("store", "--vacuum"),
        ("run", "--targets", "mine:honest", "--root", str(root), "--quick"),
    )
    with engine.use():
        Store.open(paths.database_file()).close()
        said = f"{paths.state_dir()} is in use by the engine with pid 4242 on login7 since 2026-11-20T08:00:00+00:00; "
        said += "`aisp engine --stop` ends it there; or set AISP_STATE to another folder here"
        with held_elsewhere("4242 another-boot 2026-11-20T08:00:00+00:00 login7 the engine\n"):
            slowest_s = 0.0
            for words in commands:
                began = time.monotonic()
                shown = await asyncio.to_thread(aisp, engine, *words)
                slowest_s = max(slowest_s, time.monotonic() - began)
                assert (shown.returncode, said in shown.stderr) == (3, True), (words, shown)
            assert slowest_s < AT_ONCE_S
            (check,) = await asyncio.to_thread(lambda: list(machine.engine(Facts())))
            assert (check.verdict, check.value) == (Health.PROBLEM, said)
        with held_elsewhere("4242\n"):
            shown = await asyncio.to_thread(aisp, engine, "engine")
            assert "with pid 4242, which cannot be seen from here; `aisp engine --stop` ends it" in shown.stderr
        assert not paths.log_file().exists(), "no engine was started"
        told = ""
        with started_by(NO_LOCKS):
            try:
                await client.connect()
            except EngineUnavailableError as error:
                told = str(error)
    sentence = "cannot be locked (No locks available), so two engines could write to one store"
    assert sentence in told and "set AISP_STATE to a folder on a local disk" in told, told
    return f"{said[said.index('is in use') :]!r} by {len(commands)} commands and doctor; without locks: {sentence!r}"


MOUNTED = "1 0 0:1 / {} rw shared:1 - nfs4 server:/home rw\n"
ON_NFS = """
from pathlib import Path
from aisp.engine import filesystem
filesystem.MOUNTS = Path({!r})
"""


@fault(
    61,
    "the state folder lies on a network file system",
    "the store keeps a rollback journal, which is safe there; status and doctor say so; kill -9 loses nothing",
    own=True,
    stubbed="the network file system: a list of mounts that names one",
)
async def network_file_system(stage: Stage) -> str:
    engine = stage.own()
    root = stage.target("honest")
    mounts = stage.home / "mounts"
    mounts.write_text("24 1 8:1 / / rw - ext4 /dev/sda1 rw\n" + MOUNTED.format(engine.home))
    with engine.use():
        database = paths.database_file()
        Store.open(database).close()  # by an engine that kept a write-ahead log
        with mock.patch.object(filesystem, "MOUNTS", mounts):
            checks = await asyncio.to_thread(lambda: list(machine.state_folder(Facts())))
        (check,) = [check for check in checks if check.id == "file_system"]
        assert check.verdict is Health.WARNING and check.value.startswith("nfs4, a network file system"), check
        with started_by(ON_NFS.format(str(mounts))):
            await engine.start()
            run_id = (await engine.run(root, "mine:honest", rungs=["baseline"])).record.id
            shown = await asyncio.to_thread(aisp, engine, "engine")
            note = "the store lies on a network file system (nfs4) and keeps a rollback journal"
            assert note in shown.stdout, shown
            assert journal_mode(database) == "delete", "to another connection, which keeps none, truncate is delete"
            assert not Path(f"{database}-wal").exists() and not Path(f"{database}-shm").exists()
            engine.kill()
            await engine.start()
        assert engine.record(run_id).state is State.OK
        assert await asyncio.to_thread(engine.terminate) == 0
    await engine.start()  # on a disk again
    assert journal_mode(database) == "wal"
    assert engine.record(run_id).state is State.OK
    return f"doctor: {check.value!r}; no write-ahead log, a run stored, kept over kill -9; wal again on a disk"


def journal_mode(database: Path) -> str:
    """How the file says that it is written."""
    with contextlib.closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
        return str(connection.execute("PRAGMA journal_mode").fetchone()[0])


# -- a start that takes a while ----------------------------------------------------------------------------------------

EXAMINED_S = 2.0
LARGE = f"""
import time
from aisp.store import upkeep, writer
writer.EXAMINED_BYTES = 0
whole = upkeep.quick_check
def quick_check(connection, path):
    with open(f"{{path}}.examined", "a") as sink:
        sink.write("x")
    time.sleep({EXAMINED_S})
    whole(connection, path)
upkeep.quick_check = quick_check
"""


def fill(database: Path) -> tuple[list[str], Path]:
    """Twenty runs and a backup of them."""
    runs = [planned() for _ in range(20)]
    with Store.open(database) as store:
        store.plan(runs)
        for number, run in enumerate(runs):
            store.finish(finished(run), {"baseline": samples_of(200, number)})
        backup = store.backup()
    return [run.id for run in runs], backup


@fault(
    62,
    "the store is so large that it takes a while to examine it",
    "it is examined where the last engine did not close it, or it is another file; the engine says so and is waited "
    "for; nothing is written before it is known to be whole; a damaged one gives way to its backup",
    own=True,
    stubbed="the size: every store counts as large, and an examination takes 2 s longer",
)
async def large_store(stage: Stage) -> str:
    engine = stage.own()
    root = stage.target("honest")
    with engine.use():
        database = paths.database_file()
        kept, backup = fill(database)
        with started_by(LARGE):
            await engine.start()
            assert not Path(f"{database}.examined").exists(), "it is as it was closed"
            engine.kill()
            left = database.read_bytes()
            engine.process = client.start_engine()
            async with await listening() as early:
                await eventually(lambda: early.starting.startswith("examining the store"), "it says what it does")
                said = early.starting
                await early.status()
                waits = asyncio.create_task(ask(early, root))
                await asyncio.sleep(0.05)  # it is sent
                assert not waits.done(), waits.result()
                assert database.read_bytes() == left, "nothing is written before it is known to be whole"
            told: list[str] = []
            with mock.patch.object(client, "QUIET_S", 0.0):
                async with await client.connect(tell=told.append):
                    assert told[-1] == f"the engine (pid {engine.process.pid}) is starting: {said}"
            assert await asyncio.to_thread(engine.terminate) == 0
            assert await waits == "the engine went away", "it was closed with the connection that had asked"
            data = bytearray(database.read_bytes())
            data[4096 * 3 : 4096 * 4] = bytes(4096)
            database.write_bytes(data)
            await engine.start()
        async with engine.stream(start_at=1) as stream:
            banner = await stream.until(events.Banner, lambda banner: banner.key == "store")
        assert f"{backup} was restored" in banner.text
        with engine.history() as history:
            assert all(history.verify(run_id) for run_id in kept)
    return (
        f"as it was closed: not examined; after kill -9: {said!r}, status answered and a run waited; "
        f"written over while closed: set aside, {len(kept)} runs of the backup whole"
    )


async def listening() -> client.Connection:
    """A connection to an engine that listens, and may not yet carry out requests."""
    async with asyncio.timeout(30):
        while True:
            with contextlib.suppress(EngineUnavailableError):
                return await client.connect(start=False, wait=False)
            await asyncio.sleep(0.02)


async def ask(connection: client.Connection, root: Path) -> str:
    """Ask for a run; why it was not planned."""
    try:
        reply = await connection.request(
            requests.StartRuns(seq=connection.next_seq(), roots=[str(root)], targets=["mine:honest"], quick=True)
        )
    except EngineUnavailableError as error:
        return str(error)
    return reply.error


@fault(
    62,
    "another program has the store locked while the engine starts",
    "the engine says so and is waited for; it goes on when the lock is gone",
    own=True,
)
async def locked_store(stage: Stage) -> str:
    engine = stage.own()
    root = stage.target("honest")
    with engine.use():
        database = paths.database_file()
        fill(database)
        with contextlib.closing(sqlite3.connect(database, isolation_level=None)) as other:
            other.execute("PRAGMA locking_mode = EXCLUSIVE")
            other.execute("BEGIN EXCLUSIVE")
            engine.process = client.start_engine()
            async with await listening() as early:
                await eventually(lambda: "is locked by another program" in early.starting, "it says what it waits for")
                said = early.starting
        async with await client.connect(start=False):
            pass
        assert (await engine.run(root, "mine:honest", rungs=["baseline"])).record.state is State.OK
    return f"{said!r} to whoever waited; then it went on, and a run was stored"


# -- where the socket lies ---------------------------------------------------------------------------------------------


@fault(
    63,
    "the runtime folder in the temporary directory was made by somebody else",
    "it is left alone; the socket lies below the state folder",
    own=True,
)
async def squatted_runtime_folder(stage: Stage) -> str:
    engine = stage.own(XDG_RUNTIME_DIR="")
    squatted = engine.temporary / f"aisp-{os.getuid()}"
    theirs = stage.home / "theirs"
    theirs.mkdir()
    squatted.symlink_to(theirs)  # without more rights than one has, a link is the nearest to a folder of somebody else
    if os.getuid() == 0:
        squatted.unlink()
        squatted.mkdir()
        os.chown(squatted, 65534, 65534)
    await engine.start()
    with engine.use():
        found = paths.find_socket()
        assert found is not None
        assert found.parent == paths.state_dir() / "run"
        assert found.parent.stat().st_mode & 0o777 == 0o700
        assert list(squatted.iterdir()) == []
    # Another client may have a runtime folder: the pointer leads it there.
    elsewhere = engine.environment | {"XDG_RUNTIME_DIR": str(engine.home / "run")}
    with mock.patch.dict(os.environ, elsewhere):
        async with await client.connect(start=False) as connection:
            assert engine.process is not None and connection.welcome.pid == engine.process.pid
    deep = stage.own(XDG_RUNTIME_DIR="", AISP_STATE=str(stage.home / ("s" * 200)), TMPDIR=str(engine.temporary))
    said = await asyncio.to_thread(refused, deep)
    assert f"{squatted} " in said and "set XDG_RUNTIME_DIR to a folder of your own" in said, said
    return "the socket lies in run/ below the state folder, 0700; where its name is too long: set XDG_RUNTIME_DIR"


# -- an engine that does not answer ------------------------------------------------------------------------------------

SLOW = corpus.Row("slow", corpus.on_call(3, "time.sleep(6)", imports="import time"), State.OK)
NOTICED_S = 10.0


@fault(
    64,
    "the engine is halted (SIGSTOP) while a client waits for a run; then it goes on",
    "within 10 s clients say since when it has not answered; nothing ends by itself; the run ends well",
    own=True,
)
async def frozen_engine(stage: Stage) -> str:
    engine = await stage.started()
    root = stage.target("slow", SLOW)
    told: list[str] = []
    run = await asyncio.create_subprocess_exec(
        *(*AISP, "run", "--targets", "mine:slow", "--root", str(root), "--quick"),
        cwd=Path(client.__file__).parents[2],
        env=environment(engine),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    with engine.use():
        async with engine.stream(start_at=1) as stream:
            await stream.until(events.Step, lambda step: step.step.name == "verify")
            async with await client.connect(start=False, tell=told.append) as watching:
                engine.ps.send_signal(signal.SIGSTOP)
                try:
                    noticed_s = await eventually(lambda: bool(told), "it is noticed")
                    await asyncio.sleep(1.5)  # the other client has looked as well
                    assert not watching.closed
                finally:
                    engine.ps.send_signal(signal.SIGCONT)
                await eventually(lambda: len(told) > 1, "it answers again")
    stdout, stderr = await asyncio.wait_for(run.communicate(), 60)
    assert noticed_s < NOTICED_S
    assert told[0].startswith(f"the engine (pid {engine.ps.pid}) has not answered since ")
    assert told[1] == f"the engine (pid {engine.ps.pid}) answers again"
    lines = stderr.decode().splitlines()
    assert [line for line in lines if "answer" in line] == [f"aisp: {sentence}" for sentence in told], lines
    assert b"slow" in stdout and run.returncode in (0, 1), stderr
    return f"{told[0]!r} after {noticed_s:.1f} s, by `aisp run` too; {told[1]!r} after SIGCONT; the run ended"


@fault(
    65,
    "connections that never say hello fill all places and are renewed at once",
    "they have places of their own, and the oldest gives way; whoever says hello is served",
)
async def half_open_connections(stage: Stage) -> str:
    found = str(paths.find_socket())
    over = threading.Event()
    made = 0

    def renew() -> None:
        nonlocal made
        lines: list[socket.socket] = []
        try:
            while not over.is_set():
                line = socket.socket(socket.AF_UNIX)
                line.connect(found)
                lines.append(line)
                made += 1
                if len(lines) > 2 * connections.MOST_GREETING:
                    lines.pop(0).close()
                time.sleep(0.001)
        finally:
            for line in lines:
                line.close()

    flood = asyncio.create_task(asyncio.to_thread(renew))
    try:
        await eventually(lambda: made > 2 * connections.MOST_GREETING, "all places are taken")

        def greet() -> bool:
            with Raw() as raw:
                raw.hello(client_id="welcome")
                return isinstance(raw.hear(), events.Welcome)

        served = [await asyncio.to_thread(greet) for _ in range(50)]
    finally:
        over.set()
        await flood
    assert all(served), f"{served.count(False)} of {len(served)} were shut out"
    most = 2 * connections.MOST_GREETING
    return f"{made} connections without a hello, up to {most} open at a time; 50 of 50 clients served"
