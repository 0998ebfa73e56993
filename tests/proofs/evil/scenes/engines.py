"""Rows 14, 35 to 37 and 44 to 46: how an engine dies, is found again, shares the machine, and where it can live."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import psutil  # type: ignore[import-untyped]

from aisp.engine import client, paths
from aisp.engine.client import EngineUnavailableError
from aisp.engine.protocol import events, requests
from aisp.store.outcomes import State
from aisp.store.text import clean
from tests.engine import started
from tests.engine.fake_nvml import FakeNvml
from tests.engine.harness import EngineUnderTest, Stream
from tests.proofs.evil import corpus
from tests.proofs.evil.matrix import fault
from tests.proofs.evil.stage import Stage, assert_timed, eventually

LASTING = corpus.Row("lasting", corpus.on_call(40, "time.sleep(60)", imports="import time"), State.ENGINE_LOST)


@contextlib.contextmanager
def started_by(code: str) -> Iterator[None]:
    """Engines that are started meanwhile begin with this code, which may put something into the place of a part."""

    def start() -> subprocess.Popen[bytes]:
        program = f"{code}\nimport sys\nfrom aisp.engine import server\nsys.exit(server.main())\n"
        environment = started.environment()
        with paths.log_file().open("ab") as sink:
            return subprocess.Popen(
                [sys.executable, "-c", program], cwd="/", env=environment, stderr=sink, start_new_session=True
            )

    with mock.patch.object(client, "start_engine", start):
        yield


def refused(engine: EngineUnderTest) -> str:
    """What an engine that does not start says; it ends with status 1 and no traceback."""
    environment = os.environ | engine.environment | {"PYTHONPATH": str(Path(client.__file__).parents[2])}
    done = subprocess.run(
        [sys.executable, "-m", "aisp.engine.server"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1, f"it ended with {done.returncode}"
    assert "Traceback" not in done.stderr
    return done.stderr


# -- death -------------------------------------------------------------------------------------------------------------


async def _planned(stream: Stream) -> None:
    await stream.until(events.RunPlanned)


async def _verify(stream: Stream) -> None:
    await stream.until(events.Step, lambda step: step.step.name == "verify")


async def _samples(stream: Stream) -> None:
    await stream.until(events.SampleBatch)


async def _after_a_stored_run(stream: Stream) -> None:
    await stream.until(events.RunFinished)
    await stream.until(events.RunState)


@fault(
    14,
    "kill -9 of the engine",
    "its workers die with it, the store is whole, the next engine marks what was on its way engine_lost",
    own=True,
)
async def kill_9(stage: Stage) -> str:
    root = stage.target("lasting", LASTING)
    stage.target("honest")
    engine = stage.own()
    lost: list[str] = []
    kept: list[str] = []
    workers_ended = 0
    for moment in (_planned, _verify, _samples, _after_a_stored_run):
        await engine.start()
        async with engine.stream() as stream:
            wanted = [("mine:lasting", "optimized_lasting"), ("mine:honest", "baseline")]
            if moment is _after_a_stored_run:
                wanted.reverse()
            planned = [(await stream.plan(root, target, rungs=[rung]))[0] for target, rung in wanted]
            await moment(stream)
            # Anywhere in what follows that moment, and not only at its very beginning.
            await asyncio.sleep(random.uniform(0, 0.05))
            workers = engine.ps.children(recursive=True)
            engine.kill()
        assert len(workers) > 0, moment.__name__
        _, alive = await asyncio.to_thread(psutil.wait_procs, workers, 1.0)
        # In a container whose first process collects nobody, the dead stay as zombies.
        alive = [worker for worker in alive if worker.status() != psutil.STATUS_ZOMBIE]
        assert alive == [], f"{moment.__name__}: workers outlived the engine"
        workers_ended += len(workers)
        if moment is _after_a_stored_run:
            kept.append(planned.pop(0))
        lost += planned
        with contextlib.closing(sqlite3.connect(engine.home / "state" / "aisp.db")) as database:
            assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)], moment.__name__
    await engine.start()
    for run_id in lost:
        record = engine.record(run_id)
        assert (record.state, record.arms) == (State.ENGINE_LOST, ())
        assert "start the run again" in record.reason
    assert [engine.record(run_id).state for run_id in kept] == [State.OK]
    with engine.history() as history:
        assert history.count() == len(lost) + len(kept), "planned runs are journalled before they start"
    return (
        f"4 engines killed, at 4 stages of a run: {workers_ended} workers died with them within 1 s, integrity_check "
        f"ok each time, {len(lost)} runs engine_lost, the stored one kept"
    )


# -- one of them -------------------------------------------------------------------------------------------------------


@fault(35, "twenty engines are started at once", "one of them runs, the others leave and use it", own=True)
async def race(stage: Stage) -> str:
    engine = stage.own()
    with engine.use():
        starts = [client.start_engine() for _ in range(20)]
        async with await client.connect() as connection:
            pid = connection.welcome.pid
            losers = [process for process in starts if process.pid != pid]
            statuses = await asyncio.to_thread(lambda: [process.wait(60) for process in losers])
            assert (await connection.status()).pid == pid
        engine.process = next((process for process in starts if process.pid == pid), None)
        assert engine.process is not None, "the engine is one of those that were started"
        assert statuses == [paths.EXIT_ALREADY_RUNNING] * 19
        assert paths.lock_file().read_text().split()[0] == str(pid)
        assert engine.workers() == [], "nobody asked for warm workers yet"
    return f"19 of 20 left with status {paths.EXIT_ALREADY_RUNNING}, the twentieth holds the lock and answers"


HOLDER = """
import asyncio, sys
from aisp.engine.lease import leased

async def main():
    async with leased([sys.argv[1]], lambda text: None):
        print("held", flush=True)
        await asyncio.sleep(600)

asyncio.run(main())
"""
# A build of torch without CUDA would keep runs off the GPU that the driver library below makes up.
WITH_CUDA = """
import importlib.metadata as metadata
told = metadata.version
metadata.version = lambda name: "2.11.0" if name == "torch" else told(name)
"""


@fault(
    35,
    "an engine with another state folder measures on the same GPU",
    "a run on that GPU waits and a banner says for whom; it goes on when the GPU is free, kill -9 included",
    own=True,
)
async def another_engine_on_the_gpu(stage: Stage) -> str:
    driver = FakeNvml(stage.home)
    found = driver.environment()
    engine = stage.own(LD_LIBRARY_PATH=found["LD_LIBRARY_PATH"], AISP_FAKE_NVML=found["AISP_FAKE_NVML"])
    uuid = "GPU-0"
    root = stage.target("honest", lesson=corpus.GPU_LESSON)
    other = await asyncio.create_subprocess_exec(
        sys.executable, "-c", HOLDER, uuid, cwd=Path(client.__file__).parents[2], stdout=asyncio.subprocess.PIPE
    )
    try:
        assert other.stdout is not None
        assert await other.stdout.readline() == b"held\n"
        with started_by(WITH_CUDA):
            await engine.start()
        async with engine.stream() as stream:
            waiting, cancelled = await stream.plan(root, "mine:honest", "mine:honest", device="cuda")
            banner = await stream.until(events.Banner, lambda told: told.key == "lease")
            waits = f"{uuid} is in use by the engine with pid {other.pid}; runs on it wait until it is free"
            assert banner.text == waits
            assert [item.state for item in (await stream.connection.status()).queue] == ["planned", "planned"]
            await stream.ask(requests.Cancel(seq=stream.connection.next_seq(), run_id=cancelled))
            other.kill()
            over = await stream.until(events.Banner, lambda told: told.key == "lease")
            assert over.text == ""
            ended = await stream.finish(waiting)
            assert ended.state == State.UNAVAILABLE.value, "there is no GPU but in the driver's words"
            assert ended.reason.startswith("torch cannot use the GPU")
            assert (await stream.finish(cancelled)).state == State.CANCELLED.value
        # Stopped while it waits for the GPU: a run that never began, and none that was lost.
        again = await asyncio.create_subprocess_exec(
            sys.executable, "-c", HOLDER, uuid, cwd=Path(client.__file__).parents[2], stdout=asyncio.subprocess.PIPE
        )
        try:
            assert again.stdout is not None
            assert await again.stdout.readline() == b"held\n"
            async with engine.stream() as stream:
                (stopped,) = await stream.plan(root, "mine:honest", device="cuda")
                await stream.until(events.Banner, lambda told: told.key == "lease" and str(again.pid) in told.text)
            assert await asyncio.to_thread(engine.terminate) == 0
            assert engine.record(stopped).state is State.CANCELLED
        finally:
            again.kill()
            await again.wait()
    finally:
        if other.returncode is None:
            other.kill()
        await other.wait()
        for path in Path("/tmp").glob(f"aisp-{uuid}.*"):
            path.unlink(missing_ok=True)
    return f"{banner.text!r}, the run stayed planned; the holder was killed and the run went on at once"


@fault(36, "a killed engine's socket lies in the way", "the next engine replaces it; clients are told", own=True)
async def stale_socket(stage: Stage) -> str:
    engine = await stage.started()
    with engine.use():
        engine.kill()
        stale = paths.find_socket()
        assert stale is not None and stale.is_socket(), "kill -9 leaves the socket behind"
        told = ""
        try:
            await client.connect(start=False)
        except EngineUnavailableError as error:
            told = str(error)
        assert told == f"nothing listens on {stale}"
        await engine.start()
        assert paths.find_socket() == stale
        async with await client.connect(start=False) as connection:
            assert engine.process is not None
            assert connection.welcome.pid == engine.process.pid
    return "a client heard 'nothing listens on' it; the next engine bound the same path"


@fault(
    37,
    "the runtime folder is wiped, as at a logout",
    "the engine binds its socket again; clients with another runtime folder find it by the pointer in the state folder",
)
async def socket_taken_away(stage: Stage) -> str:
    engine = stage.engine
    async with engine.stream() as stream:
        bound = paths.socket_file()
        shutil.rmtree(bound.parent)
        told = await stream.until(events.LogLine, lambda line: "was taken away" in line.text)
        assert told.level == "WARNING"
        took_s = await eventually(bound.is_socket, "the socket is bound again")
        assert (bound.stat().st_mode & 0o777, bound.parent.stat().st_mode & 0o777) == (0o600, 0o700)
        async with await client.connect(start=False) as connection:
            assert (await connection.status()).pid == (await stream.connection.status()).pid
    with mock.patch.dict(os.environ, {"XDG_RUNTIME_DIR": str(stage.home)}):
        async with await client.connect(start=False) as connection:
            assert engine.process is not None
            assert connection.welcome.pid == engine.process.pid
    return f"bound again {took_s:.2f} s after it was noticed, 0600 in 0700; found from another XDG_RUNTIME_DIR too"


# -- places ------------------------------------------------------------------------------------------------------------

NAMES = {
    b"bad_\xff": "bad_\\xff",
    "тест🚀".encode(): "тест🚀",
    "abc\u202edef".encode(): "abc\\u202edef",
    b"two\nlines": "two\\nlines",
}


@fault(
    44,
    "collections, targets and files with names that are not UTF-8, turn the text around or break the line",
    "they run; bytes are stored as they are, clients get clean labels",
)
async def names(stage: Stage) -> str:
    root = stage.home / "mine\u202e\n"
    for name in NAMES:
        folder = corpus.write(root / os.fsdecode(name))
        (folder / os.fsdecode(b"optimized_" + name + b".py")).write_text(corpus.OPTIMIZED)
    collection = "mine\\u202e\\n"
    async with stage.engine.stream() as stream:
        targets = [f"{collection}:{label}" for label in NAMES.values()]
        planned = await stream.plan(root, *targets, rungs=["baseline"])
        results = [await stage.engine.result(stream, run_id) for run_id in planned]
        refusal = ""
        try:
            await stream.plan(stage.home / os.fsdecode(b"mine_\xff"), "x")
        except EngineUnavailableError as error:
            refusal = str(error)
        assert "mine_\\xff is not UTF-8 and cannot be asked for; rename it, or make a link to it" in refusal
    for name, target, result in zip(NAMES, targets, results, strict=True):
        assert result.record.state is State.OK, result.record.reason
        assert_timed(result, "baseline")
        assert result.record.folder == os.fsencode(root) + b"/" + name
        assert result.record.target == target
        with stage.engine.history() as history:
            assert os.fsdecode(b"optimized_" + name + b".py") in history.snapshot(result.record.snapshot)
        (told,) = result.of(events.RunPlanned)
        for text in (told.run.target, told.run.title):
            assert text == clean(text) and "\n" not in text
    return f"{len(results)} targets ran; clients read {', '.join(targets)}"


CACHES = corpus.Row(
    "caches",
    "import os\nimport pathlib\n\n\n"
    "for name in ('TRITON_CACHE_DIR', 'TORCHINDUCTOR_CACHE_DIR', 'XDG_CACHE_HOME'):\n"
    "    folder = pathlib.Path(os.environ.get(name, '/nowhere'))\n"
    "    print(name, folder, flush=True)\n"
    "    if name in os.environ:\n"
    "        folder.mkdir(parents=True, exist_ok=True)\n        (folder / 'kernel').write_text('compiled')\n\n\n"
    "def run(x):\n    return x * 2\n",
    State.OK,
)


@fault(
    45,
    "HOME is not set, does not exist or is read-only",
    "state goes to a private temporary folder with a banner, and workers get a folder for what they compile",
    own=True,
)
async def no_home(stage: Stage) -> str:
    root = stage.target("caches", CACHES)
    # Root could make the missing one, were it not for /proc.
    for home in ("/proc/nonexistent", "/sys", ""):
        engine = stage.own(HOME=home, AISP_STATE="", XDG_STATE_HOME="", TRITON_CACHE_DIR="", XDG_CACHE_HOME="")
        await engine.start()
        expected = engine.temporary / f"aisp-{os.getuid()}" / "state"
        with engine.use():
            assert (paths.state_dir(), paths.state_is_temporary()) == (expected, True)
            async with await client.connect(start=False, subscribe_from=0) as connection:
                banner = await Stream(connection).until(events.Banner)
        said = "no lasting place could be written to: results are in {} until a reboot"
        assert banner.text == said.format(expected)
        if home == "/sys":
            with engine.use():
                async with engine.stream() as stream:
                    (run_id,) = await stream.plan(root, "mine:caches", rungs=["optimized_caches"])
                    ended = await stream.finish(run_id)
                    assert ended.state == State.OK.value, ended.reason
                    told = [event for event in stream.of_run(run_id) if isinstance(event, events.Output)]
            printed = [line for event in told for line in event.lines]
            folders = dict(line.split(" ", 1) for line in printed if "_CACHE_" in line)
            assert {Path(folder).parents[1] for folder in folders.values()} == {expected / "caches"}
            assert {Path(folder).name for folder in folders.values()} == {"triton", "inductor", "xdg"}
        assert await asyncio.to_thread(engine.terminate) == 0
        if home == "/sys":  # taken over behind the verdict, before the engine ends
            (stored,) = (expected / "compiled").iterdir()
            assert b"compiled" in [file.read_bytes() for file in stored.iterdir()]
            assert stored.stat().st_mode & 0o777 == 0o700
    return f"{said.format('<tmp>/aisp-UID/state')!r} in all three; a run ended ok and its caches lie there"


@fault(
    46,
    "there is no XDG_RUNTIME_DIR, or its and the state folder's names are longer than a socket's may be",
    "the socket lies in a private folder in the temporary directory, under a name short enough",
    own=True,
)
async def no_runtime_folder(stage: Stage) -> str:
    engine = await stage.started(XDG_RUNTIME_DIR="")
    with engine.use():
        found = paths.find_socket()
        assert found is not None
        assert found.parent == engine.temporary / f"aisp-{os.getuid()}"
        assert found.parent.stat().st_mode & 0o777 == 0o700
        async with await client.connect(start=False) as connection:
            assert (await connection.status()).queue == []
    await asyncio.to_thread(engine.close)
    deep = stage.home / ("s" * 200)
    engine = await stage.started(AISP_STATE=str(deep), XDG_RUNTIME_DIR=str(stage.home / ("r" * 200)))
    with engine.use():
        found = paths.find_socket()
        assert found is not None
        assert len(os.fsencode(found)) <= paths.MAX_SOCKET_PATH_BYTES
        async with await client.connect(start=False) as connection:
            assert connection.welcome.state_dir == str(deep)
        assert await asyncio.to_thread(engine.terminate) == 0
    return f"private folder in TMPDIR; with names of 200 bytes a socket path of {len(os.fsencode(found))} bytes"
