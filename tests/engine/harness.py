"""An engine of a test's own: its state, its runs, and a close look at what it leaves behind.

`shared` is one engine for all tests that do not kill it. `own` makes as many as a test wants: each start imports torch
in a nursery, some three CPU-seconds. Both are started as a client starts them, by `engine.client`, with state,
runtime and temporary directories of their own. The temporary one is below a folder that is the test's alone, in every
process of theirs; by that strays are found wherever they end up in the process tree.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar
from unittest import mock

import psutil
import pytest

from aisp.engine import client, paths
from aisp.engine.client import Connection, EngineUnavailableError
from aisp.engine.protocol import events, requests
from aisp.engine.worker.nursery import NURSERY_NAME
from aisp.store.reader import History
from aisp.store.record import Arm, Run
from tests.engine import started

PATIENCE_S = 150.0  # for what takes seconds on a machine that has nothing else to do
LOOKED_AFTER_S = 10.0  # what has reported its end stays in the queue while the engine looks at what is installed
WARM = 3
NURSERY = NURSERY_NAME.decode()


def nurseries(engine: psutil.Process) -> list[psutil.Process]:
    """Those of an engine, or of a process that is in its place, that live: a test's process may have been left a dead
    one by an engine that was killed.
    """
    found = [process for process in engine.children() if process.name() == NURSERY]
    return [process for process in found if process.status() != psutil.STATUS_ZOMBIE]


OUTPUT_LIMIT_BYTES = 256 << 20
LIMITS = {
    "AISP_COMPILE_LIMIT_S": "30",
    "AISP_PROGRESS_LIMIT_S": "15",  # beside other work a fork of hundreds, or an import of torch, takes more than 6 s
    "AISP_TOTAL_LIMIT_S": "120",
    "AISP_OUTPUT_LIMIT_BYTES": str(OUTPUT_LIMIT_BYTES),
    "AISP_HOUSEKEEPING_S": "0.2",
    "AISP_PROCESS_LIMIT": str(48 if (os.cpu_count() or 1) <= 8 else 300),  # a compiler's pool has one for each core
    "OMP_NUM_THREADS": "1",  # a dozen workers at once on two cores
}

AnyOne = TypeVar("AnyOne", bound=events.Event)


@dataclass
class Result:
    """Everything that one run left: its events in order, and its record as the store gives it."""

    record: Run
    told: list[events.Event]
    finished: Run  # as clients were told

    def arm(self, rung: str) -> Arm:
        """The record of one arm."""
        return next(arm for arm in self.record.arms if arm.rung == rung)

    def of(self, kind: type[AnyOne]) -> list[AnyOne]:
        """Events of one type."""
        return [event for event in self.told if isinstance(event, kind)]

    def printed(self, arm: str) -> list[str]:
        """Lines that an arm printed, as clients get them."""
        return [line for event in self.of(events.Output) if event.arm == arm for line in event.lines]


@dataclass
class Stream:
    """A subscribed connection, and everything it has received."""

    connection: Connection
    seen: list[events.Event] = field(default_factory=list)
    _mark: int = 0

    async def until(
        self, kind: type[AnyOne], wanted: Callable[[AnyOne], bool] = lambda _: True, *, patience_s: float = PATIENCE_S
    ) -> AnyOne:
        """The next event of that type that is wanted, after the one that the last call returned."""
        async with asyncio.timeout(patience_s):
            while True:
                while self._mark < len(self.seen):
                    event = self.seen[self._mark]
                    self._mark += 1
                    if isinstance(event, kind) and wanted(event):
                        return event
                await self._more()

    async def _more(self) -> None:
        await self.connection._arrived.wait()
        batch = self.connection.take()
        self.seen += batch
        if not batch and self.connection.closed:
            raise EngineUnavailableError("the engine closed the connection while an event was awaited")

    def of_run(self, run_id: str) -> list[events.Event]:
        """Events of one run so far."""
        return [event for event in self.seen if getattr(event, "run_id", "") == run_id]

    async def finish(self, run_id: str, *, patience_s: float = PATIENCE_S) -> Run:
        """The run at its end, as clients are told of it, which may have been seen already."""
        for event in self.seen:
            if isinstance(event, events.RunFinished) and event.run_id == run_id:
                return event.run
        return (await self.until(events.RunFinished, lambda e: e.run_id == run_id, patience_s=patience_s)).run

    async def ask(self, request: requests.AnyRequest) -> events.Reply:
        """A request that must succeed."""
        reply = await self.connection.request(request)
        assert reply.error == "", reply.error
        return reply

    async def plan(self, root: Path, *targets: str, **options: object) -> list[str]:
        """Plan quick runs of one replica, which decide nothing and take half as long; their ids."""
        options = {"quick": True, "replicas": 1} | options
        request = requests.StartRuns(
            seq=self.connection.next_seq(),
            roots=[str(root)],
            targets=list(targets),
            **options,  # type: ignore[arg-type]
        )
        return (await self.ask(request)).run_ids


class EngineUnderTest:
    """One engine process at a time over one state directory."""

    def __init__(self, home: Path, **settings: str) -> None:
        self.home = home
        self.temporary = home / "tmp"
        self.temporary.mkdir(parents=True)
        self.environment = {
            **LIMITS,
            "AISP_STATE": str(home / "state"),
            "XDG_RUNTIME_DIR": str(home / "run"),
            "TMPDIR": str(self.temporary),
        } | settings
        (home / "run").mkdir()
        self.process: subprocess.Popen[bytes] | None = None
        self.results: dict[str, Result] = {}  # of runs that several tests look at
        self._shared_memory = set(Path("/dev/shm").iterdir())

    @contextlib.contextmanager
    def use(self) -> Iterator[None]:
        """Have this process look for this engine; variables set to "" are unset."""
        unset = [name for name, value in self.environment.items() if value == ""]
        # tempfile looks at TMPDIR once in a process's life: a new process looks anew.
        with mock.patch.dict(os.environ, self.environment), mock.patch.object(tempfile, "tempdir", None):
            for name in unset:
                del os.environ[name]
            yield

    # -- life --------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Start it as a client does, and wait until it answers."""
        with self.use(), self._started():
            self.process = client.start_engine()
        await self.answers()

    async def answers(self) -> None:
        """Wait until it does."""
        assert self.process is not None
        with self.use():
            deadline = time.monotonic() + 60
            while True:
                with contextlib.suppress(EngineUnavailableError):
                    async with await client.connect(start=False):
                        return
                assert self.process.poll() is None, f"the engine ended at once: {paths.log_tail(20)}"
                assert time.monotonic() < deadline, "the engine did not answer"
                await asyncio.sleep(0.02)

    def _started(self) -> contextlib.AbstractContextManager[None]:
        site = self.environment.get(started.SITE)
        return started.with_site(site) if site else contextlib.nullcontext()

    def owns(self, process: psutil.Process) -> bool:
        """Whether a process has its temporary folder where all of this engine's have."""
        return process.environ().get("TMPDIR", "").startswith(f"{self.home}{os.sep}")

    @property
    def ps(self) -> psutil.Process:
        """The engine's process."""
        assert self.process is not None
        return psutil.Process(self.process.pid)

    def workers(self) -> list[psutil.Process]:
        """Every descendant of the engine, but its nurseries."""
        found = []
        for process in self.ps.children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                if process.name() != NURSERY:
                    found.append(process)
        return found

    def strays(self) -> list[psutil.Process]:
        """Processes of this engine's, wherever they hang in the process tree, but the engine itself and, while it
        lives, its nurseries.
        """
        found = []
        lives = self.process is not None and self.process.poll() is None
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if self.process is not None and process.pid == self.process.pid:
                    continue
                if lives and process.name() == NURSERY:
                    continue
                if self.owns(process) and process.status() != "zombie":
                    found.append(process)
        return found

    def kill(self) -> None:
        """kill -9."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def terminate(self) -> int:
        """SIGTERM, and its exit status."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(30)

    def close(self) -> None:
        """Stop it if it runs, and check that nothing at all is left of it."""
        if self.process is None:
            return
        stopped_by_us = self.process.poll() is None
        if stopped_by_us:
            status = self.terminate()
            assert status == 0, f"the engine ended with {status}"
        _, alive = psutil.wait_procs(self.strays(), timeout=20.0)
        for process in alive:
            process.kill()
        assert not alive, f"left behind: {[(p.pid, p.cmdline()) for p in alive]}"
        if stopped_by_us:
            with self.use():
                assert paths.find_socket() is None, "the socket is still there"
                assert not paths.pointer_file().exists()
            assert list((self.home / "state" / "journal").glob("*")) == []
        assert sorted(p.name for p in self.temporary.rglob("*.sock")) == []
        assert not (left := self.litter()), f"left behind: {left}"

    def litter(self) -> list[str]:
        """What lies in /dev/shm and in the temporary folder and is no part of a running engine.

        The folder in which torch keeps what it has compiled is torch's. What a test's own rung leaves in /dev/shm has
        neither name: other tests' engines run meanwhile.
        """
        made = set(Path("/dev/shm").iterdir()) - self._shared_memory
        ours = [str(path) for path in made if "aisp" in path.name or "torch" in path.name]
        named = ("aisp-", "torchinductor_")
        return sorted(ours + [str(p) for p in self.temporary.iterdir() if not p.name.startswith(named)])

    # -- talking -----------------------------------------------------------------------------------------------

    @contextlib.asynccontextmanager
    async def stream(self, *, start_at: int | None = None, client_id: str = "") -> AsyncIterator[Stream]:
        """A connection that receives all events from now on, or from a number on."""
        with self.use():
            if start_at is None:
                async with await client.connect(start=False) as probe:
                    start_at = probe.welcome.next_seq
            connection = await client.connect(start=False, subscribe_from=start_at, client=client_id)
        async with connection:
            yield Stream(connection)

    async def run(self, root: Path, target: str, *, patience_s: float = PATIENCE_S, **options: object) -> Result:
        """One quick run from planning to its stored record."""
        async with self.stream() as stream:
            (run_id,) = await stream.plan(root, target, **options)
            return await self.result(stream, run_id, patience_s=patience_s)

    async def result(self, stream: Stream, run_id: str, *, patience_s: float = PATIENCE_S) -> Result:
        """What a run left, once it has ended."""
        finished = await stream.finish(run_id, patience_s=patience_s)
        return Result(self.record(run_id), stream.of_run(run_id), finished)

    def record(self, run_id: str) -> Run:
        """What the store holds of a run; whole, bit for bit."""
        with self.history() as history:
            assert history.verify(run_id)
            return history.run(run_id)

    def history(self) -> History:
        """The store, read as a client reads it."""
        return History(Path(self.environment["AISP_STATE"]) / "aisp.db")

    async def steady(self) -> tuple[int, int]:
        """Wait until nothing runs and all standbys are warm; (open descriptors, resident bytes) of the engine."""
        with self.use():
            connection = await client.connect(start=False, warm=True)
        async with connection, asyncio.timeout(PATIENCE_S):
            while True:
                status = await connection.status()
                if not status.queue and status.warm_workers == WARM and len(self.workers()) == WARM:
                    return self.ps.num_fds(), status.rss_bytes
                await asyncio.sleep(0.05)


@pytest.fixture(scope="session")
def shared_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineUnderTest]:
    """The one engine behind `shared`; started by the first test that wants it, since starting needs a loop."""
    engine = EngineUnderTest(tmp_path_factory.getbasetemp() / "engine")
    yield engine
    engine.close()


@contextlib.asynccontextmanager
async def sharing(engine: EngineUnderTest) -> AsyncIterator[EngineUnderTest]:
    """The engine that tests share. A test that finds it dead fails, as does the one that leaves a run behind."""
    if engine.process is None:
        await engine.start()
    assert engine.process is not None
    assert engine.process.poll() is None, f"an earlier test ended the shared engine: {engine.process.poll()}"
    with engine.use():
        yield engine
        assert engine.process.poll() is None, "the engine died"
        async with await client.connect(start=False) as connection:
            status = await connection.status()
            deadline = time.monotonic() + LOOKED_AFTER_S
            while any(item.began_ns is not None for item in status.queue) and time.monotonic() < deadline:
                status = await connection.status()
            for item in status.watches:
                await connection.request(requests.StopWatch(seq=connection.next_seq(), target=item.target))
            await connection.request(requests.Cancel(seq=connection.next_seq()))
            assert [item.run_id for item in status.queue] == []
            assert [item.target for item in status.watches] == []


@pytest.fixture
async def shared(shared_process: EngineUnderTest) -> AsyncIterator[EngineUnderTest]:
    """See `sharing`."""
    async with sharing(shared_process) as engine:
        yield engine


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Callable[..., EngineUnderTest]]:
    """Makes engines of the test's own, not yet started; each is closed and looked after at the end."""
    made: list[EngineUnderTest] = []

    def make(**settings: str) -> EngineUnderTest:
        made.append(EngineUnderTest(tmp_path / f"e{len(made)}", **settings))
        return made[-1]

    yield make
    for engine in made:
        engine.close()
