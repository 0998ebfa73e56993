"""One state folder, its engine, an app on a terminal of its own, and a hand that ends any of them with SIGKILL.

The hand also moves, removes and copies the store, and lets no file of the engine grow.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import pty
import shutil
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

from aisp.engine import client, paths
from aisp.engine.client import Connection, EngineUnavailableError
from aisp.engine.connections import STOPPING
from aisp.engine.protocol import events, requests
from aisp.engine.worker.nursery import WORKER_NAME
from aisp.store import upkeep
from tests.engine import started
from tests.engine.harness import EngineUnderTest, nurseries
from tests.proofs.chaos.ledger import Ledger
from tests.proofs.evil import corpus
from tests.proofs.evil.scenes.stores import limit_files

PATIENCE_S = 240.0  # ten runs with real workers, on a machine that has other work
ROOT = "mine"
TARGETS = ("first", "second", "third")
WATCHED = "edited"
KEPT = {
    "aisp.db", "aisp.db.ballast", "aisp.db.closed", "caches", "compiled", "engine.lock", "engine.log", "engine.log.1",
    "installed.json", "journal", "snapshots", "work",
}  # fmt: skip
OF_STORES_BEFORE = ("aisp.db.replaced-", "aisp.db-wal.kept-")
LAYOUTS = 33  # what the engine keeps of them, and the one that it is about to make
REAL_APP = ["-c", "from aisp.tui.start import main; main()"]
WORKERS = {"aisp.engine.worker", "tests.proofs.chaos.stand_in"}  # one of these is among the words that start a worker
LIGHT_APP = ["-m", "tests.proofs.chaos.light", "app"]


class World:
    """See the module.

    Attributes:
        ledger: what was told.
        light: whether workers are stand-ins; to be changed only while no engine and no app runs.
        heard: how many events have arrived.
        slow_starts: how often an engine did not answer within the time that clients give it.
        last: what the newest event was, in a word: where a run stood when something was killed.
    """

    def __init__(self, home: Path) -> None:
        self.under_test = EngineUnderTest(home, AISP_FORK_LIMIT_S="1")  # a nursery that is stopped gives no answer
        self.root = home / ROOT
        for name in (*TARGETS, WATCHED):
            corpus.write(self.root / name)
        self.ledger = Ledger()
        self.ledger.watched.add(f"{ROOT}:{WATCHED}")
        self.ledger.written.add((self.root / WATCHED / "optimized.py").read_bytes())
        self.light = True
        self.heard = 0
        self.last = ""
        self.slow_starts = 0
        self.pid = 0
        self.epoch = ""
        self.app: int | None = None
        self._terminal = -1
        self._connection: Connection | None = None
        self._listening: asyncio.Task[None] | None = None
        self._asking: asyncio.Task[None] | None = None
        self._asked: list[str] = []
        self._saves = 0
        self._earlier: frozenset[str] = frozenset()  # runs whose engine is gone
        self._moved = 0  # banners that told of a store that is elsewhere now

    @property
    def store(self) -> Path:
        """The database."""
        return self.under_test.home / "state" / "aisp.db"

    @property
    def connected(self) -> bool:
        """Whether there is an engine that we hear."""
        return self._connection is not None and not self._connection.closed

    # -- engine ------------------------------------------------------------------------------------------------

    async def connect(self) -> None:
        """Find an engine or start one, hear all that it has told so far, and have it watch the watched target."""
        with self.under_test.use():
            deadline = time.monotonic() + PATIENCE_S
            while self._connection is None:
                try:
                    self._connection = await client.connect(subscribe_from=0)
                except EngineUnavailableError as error:
                    self.slow_starts += 1  # a busy machine; a client would say so and try again as we do
                    if time.monotonic() > deadline:
                        raise TimeoutError(f"{error}: {paths.log_tail(20)}") from None
        welcome = self._connection.welcome
        self.pid, self.epoch = welcome.pid, welcome.epoch
        self.ledger.begin()
        self.gather()
        self._listening = asyncio.create_task(self._listen(self._connection))
        await self._request(requests.StartWatch, root=str(self.root), target=f"{ROOT}:{WATCHED}")

    async def _listen(self, connection: Connection) -> None:
        async for batch in connection.batches():
            for event in batch:
                self.ledger.hear(event)
                if isinstance(event, events.Step):
                    self.last = event.step.name
                elif isinstance(event, events.Banner) and event.key == "moved":
                    self._moved += 1
                elif isinstance(event, (events.RunPlanned, events.RunFinished)):
                    self.last = type(event).__name__
            self.heard += len(batch)

    async def _request(self, kind: Any, **fields: object) -> events.Reply | None:
        """The answer, or None where the engine was killed before it came, or its disk is full.

        Any other refusal is broken.
        """
        connection = self._connection
        assert connection is not None
        message: Any = kind(seq=connection.next_seq(), **fields)
        try:
            reply = await connection.request(message)
        except EngineUnavailableError:
            assert connection.closed, "the engine is there and does not answer"
            return None
        if reply.error.endswith("nothing was planned") or reply.error == STOPPING:
            return None
        if reply.error and not isinstance(message, requests.Cancel):
            self.ledger.broken.append(f"{kind.__name__} was refused: {reply.error}")
            return None
        return reply

    def plan(self, names: list[str]) -> None:
        """Ask for quick runs without waiting for the answer; one question at a time."""
        if self._asking is None or self._asking.done():
            self._asked = [f"{ROOT}:{name}" for name in names]
            self._asking = asyncio.create_task(self._plan(self._asked))

    async def _plan(self, targets: list[str]) -> None:
        reply = await self._request(requests.StartRuns, roots=[str(self.root)], targets=targets, quick=True, again=True)
        if reply is not None:
            for run_id, target in zip(reply.run_ids, targets, strict=True):
                self.ledger.plan([run_id], target)
            self._asked = []

    async def answered(self) -> None:
        """Wait for the answer of the last `plan`."""
        if self._asking is not None:
            await self._asking

    async def cancel(self, run_id: str) -> None:
        """End a run."""
        await self._request(requests.Cancel, run_id=run_id)

    async def status(self) -> events.Status:
        """The engine's own account."""
        assert self._connection is not None
        return await self._connection.status()

    def save(self) -> None:
        """Save the watched file as an editor does: in place, or by a new file in its place."""
        self._saves += 1
        text = f"{corpus.OPTIMIZED}# {self._saves}\n".encode()
        self.ledger.written.add(text)
        path = self.root / WATCHED / "optimized.py"
        if self._saves % 2:
            path.write_bytes(text)
        else:
            fresh = path.with_name("optimized.py~")
            fresh.write_bytes(text)
            fresh.replace(path)

    async def finish(self, most: int = 0) -> None:
        """Wait until no more than `most` of the runs that this engine has planned are on their way."""
        await self.answered()
        await self.until(lambda: len(self.open) <= most or not self.connected, "the end of runs that were planned")

    @property
    def open(self) -> list[str]:
        """Runs of the engine that runs now whose end was not told."""
        return [run_id for run_id in self.ledger.open if run_id not in self._earlier]

    # -- the store ---------------------------------------------------------------------------------------------

    def move_store(self) -> None:
        """Give the store another name; its engine will find out, unless it is killed before."""
        moved = self.store.with_name(f"aisp.db.replaced-{len(self.ledger.before) + 1}")
        self.store.rename(moved)
        self.ledger.before.append(moved)

    async def remove_store(self) -> None:
        """Remove it with its log, and wait for the copy that its engine makes of it."""
        told = self._moved
        for side in ("", "-wal", "-shm"):
            Path(f"{self.store}{side}").unlink(missing_ok=True)
        await self.until(lambda: self._moved > told or not self.connected, "the word of a store that was removed")
        self.gather()

    async def copy_store(self) -> bool:
        """Copy the state folder while its engine writes there. Whether the copy is whole; then it must lack nothing."""
        ended = list(self.ledger.finished)
        copy = self.under_test.home / "copy"
        await asyncio.to_thread(subprocess.run, ["cp", "-a", str(self.store.parent), str(copy)], check=False)
        try:
            if not (copy / "aisp.db").exists():
                return False
            if not (await asyncio.to_thread(upkeep.verify, copy / "aisp.db")).whole:
                return False
            self.ledger.broken += await asyncio.to_thread(self.ledger.copied, copy / "aisp.db", ended)
            return True
        finally:
            await asyncio.to_thread(shutil.rmtree, copy)

    async def fill_disk(self, lasting_s: float) -> None:
        """For a while no file of the engine, or of what it starts, may grow."""
        limit_files(self.pid, 4096)
        await asyncio.sleep(lasting_s)
        limit_files(self.pid, -1)
        for process in (*self.workers(), *self.nurseries()):
            with contextlib.suppress(ProcessLookupError):  # it may have ended since
                limit_files(process.pid, -1)

    def gather(self) -> None:
        """Find what engines have kept of stores before, and put a log that was left alone beside its database."""
        state = self.store.parent
        for kept in sorted(state.glob("aisp.db.replaced-*")):
            if kept not in self.ledger.before and not kept.name.endswith(("-wal", "-shm")):
                self.ledger.before.append(kept)
        for log in state.glob("aisp.db-wal.kept-*"):
            log.replace(f"{self.ledger.before[-1]}-wal")

    # -- ends --------------------------------------------------------------------------------------------------

    async def kill_engine(self) -> tuple[float, list[str]]:
        """SIGKILL; hear what it still said. Returns how long its workers outlived it, and the runs that it lost."""
        workers = self.workers()
        os.kill(self.pid, signal.SIGKILL)
        started = time.monotonic()
        await self.until(lambda: not any(_lives(one.pid) for one in workers), "the end of a killed engine's workers")
        outlived_s = time.monotonic() - started
        await self.until(lambda: not self.workers(), "the end of workers that a killed engine had just started")
        await self._deafen()
        lost = self.open
        self._earlier = frozenset(self.ledger.open)
        return outlived_s, lost

    async def _deafen(self) -> None:
        """The engine is going: hear its last words and note what it never answered."""
        assert self._connection is not None
        assert self._listening is not None
        await self.until(lambda: self._connection is None or self._connection.closed, "the line's end")
        await self._listening
        await self.answered()
        self.ledger.in_flight[self.epoch] = self._asked
        self._asked, self._asking = [], None
        await self._connection.close()
        self._connection = None
        await self.until(lambda: not _lives(self.pid), "the engine's end")

    async def stop(self) -> None:
        """SIGTERM, and the end of everything that belongs to it; what is left is broken."""
        self.kill_app()
        self._request_stop()
        await self._deafen()
        await self.until(lambda: not self.under_test.strays(), "the end of every process")
        self._earlier = frozenset(self.ledger.open)
        broken = self.ledger.broken
        with self.under_test.use():
            if paths.find_socket() is not None:
                broken.append("the socket is still there")
        broken += [f"{path} was left behind" for path in self.under_test.litter()]
        state = self.under_test.home / "state"
        left = [path for path in state.iterdir() if not path.name.startswith(OF_STORES_BEFORE)]
        broken += [f"{path} was left in the state folder" for path in left if path.name not in KEPT]
        broken += [f"{path} was left in the journal" for path in (state / "journal").iterdir()]
        broken += [f"{path} was left of a process: {_below(path)}" for path in (state / "work").iterdir()]
        if (layouts := len(list((state / "snapshots").iterdir()))) > LAYOUTS:
            broken.append(f"{layouts} laid out snapshots were left")

    def _request_stop(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGTERM)

    def workers(self) -> list[psutil.Process]:
        """Workers and standbys of the engine that we know, oldest first; also of one that was killed."""
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                words = process.cmdline()
                made = process.name() == WORKER_NAME.decode() or WORKERS & set(words)  # forked, or started
                # The last word is the cores of its nursery, or its own place.
                if made and words[-2:-1] == [str(self.pid)] and process.status() != psutil.STATUS_ZOMBIE:
                    found.append((process.create_time(), process.pid, process))
        return [process for _, _, process in sorted(found, key=lambda entry: entry[:2])]

    def nurseries(self) -> list[psutil.Process]:
        """Nurseries of the engine that we know."""
        found = []
        with contextlib.suppress(psutil.Error):
            found = nurseries(psutil.Process(self.pid))
        return found

    async def until(self, holds: Callable[[], bool], what: str) -> None:
        """Wait until something holds.

        Raises:
            TimeoutError: it never did.
        """
        deadline = time.monotonic() + PATIENCE_S
        while not holds():
            reap()
            if time.monotonic() > deadline:
                raise TimeoutError(f"not within {PATIENCE_S:.0f} s: {what}")
            await asyncio.sleep(0.005)

    # -- app ---------------------------------------------------------------------------------------------------

    def start_app(self) -> None:
        """The app on a terminal of its own, whose output is read and forgotten."""
        pid, self._terminal = pty.fork()
        if pid == 0:  # this is the app
            environment = {**os.environ, **self.under_test.environment, "TERM": "xterm-256color"}
            environment = started.environment(environment)
            words = LIGHT_APP if self.light else REAL_APP
            os.execve(sys.executable, [sys.executable, *words, "--no-mouse", str(self.root)], environment)
        self.app = pid
        termios.tcsetwinsize(self._terminal, (24, 80))
        os.set_blocking(self._terminal, False)
        asyncio.get_running_loop().add_reader(self._terminal, self._read_terminal)

    def _read_terminal(self) -> None:
        try:
            os.read(self._terminal, 1 << 16)
        except OSError:  # nobody is at the other end any more
            asyncio.get_running_loop().remove_reader(self._terminal)

    def kill_app(self) -> None:
        """SIGKILL, and its terminal is closed."""
        if self.app is None:
            return
        if not _lives(self.app):
            self.ledger.broken.append("the app ended by itself")
        asyncio.get_running_loop().remove_reader(self._terminal)
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            os.kill(self.app, signal.SIGKILL)
            os.waitpid(self.app, 0)
        os.close(self._terminal)
        self.app = None


def reap() -> None:
    """Collect every child that has ended: what killed engines left behind becomes ours."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _lives(pid: int) -> bool:
    reap()
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def _below(folder: Path) -> str:
    """What is in a folder, for who looks for its maker."""
    return ", ".join(sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))) or "empty"
