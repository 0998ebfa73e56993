"""The engine process, started by engine.client. One per user and state directory, and it survives its clients.

It listens as soon as it has the lock, and says what it does until the store is known to be whole: nothing is written,
and no process started, before that.

One asyncio loop serves the clients, runs the queue (one run at a time: whatever runs beside a measurement disturbs it),
watches folders and owns the one writer of the store. It never imports torch nor a lesson.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import errno
import logging
import math
import os
import resource
import signal
import socket
import sys
import time
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from aisp.engine import corpus, filesystem, guard, lock, paths, peaks, planning, snapshots, spawner, workplaces
from aisp.engine.affected import affected
from aisp.engine.caches import Caches
from aisp.engine.client import build_id
from aisp.engine.fuzzing import Fuzzing, FuzzPlan, unstarted
from aisp.engine.guarding import Guarding
from aisp.engine.installed import Installation, state_file
from aisp.engine.journal import ClientGoneError, Journal, Outbox
from aisp.engine.lease import leased
from aisp.engine.lock import Lock, LockGoneError
from aisp.engine.logfile import LogFile
from aisp.engine.planning import Hardware, PlanError
from aisp.engine.pool import Pool
from aisp.engine.protocol import PROTOCOL, events, requests
from aisp.engine.protocol.framing import MAX_REQUEST_BYTES, Decoder, Encoder, FrameError
from aisp.engine.runs import Execution, Plan, Services
from aisp.engine.telemetry import Nvml
from aisp.engine.watch import Watch
from aisp.kernels import catalog
from aisp.kernels.catalog.model import Target
from aisp.kernels.catalog.sources import size_text
from aisp.store import upkeep
from aisp.store.errors import StoreError, StoreFullError, StoreGoneError, StoreLockedError
from aisp.store.outcomes import State, Trigger
from aisp.store.record import INSTALLED_CHECK, Arm, Peak
from aisp.store.text import clean_line
from aisp.store.ulid import new_ulid
from aisp.store.writer import Store

log = logging.getLogger("aisp.engine")

WARM_PROCESSES = 3  # a baseline, a rung and the verifier
WARM_IDLE_S = 600.0
HOUSEKEEPING_S = paths.positive_setting("AISP_HOUSEKEEPING_S", 5.0)  # tests shorten it
REMEMBERED_REPLIES = 256
LOG_LINES = 2000
MOST_PLANNED = 1000
MOST_FUZZES = 64
MOST_WATCHES = 32  # each holds a thread that waits, of the 40 that the watcher may have, and an inotify instance
MOST_CONNECTIONS = 64  # of clients that have said hello; each may hold a frame of MAX_REQUEST_BYTES
MOST_GREETING = 128  # of those that have not; more than are accepted at once, so that a hello is read first
HANDSHAKE_LIMIT_S = 10.0
PULSE_S = 2.0  # client.SILENCE_S is a few of them
STARTING_PULSE_S = 0.1  # who waits for the start hears of its end
LOCK_PAUSE_S = 0.5
MOST_FOLLOWED = 3  # files at the store's path that one call may follow; then it waits as for a full disk
MOST_UNREAD = 16  # answered requests of a client that does not read; the next one waits
UNREAD_LIMIT_S = 60.0


_answer_awaited = contextvars.ContextVar("_answer_awaited", default=False)
"""Whether a call of the store is for somebody who waits for an answer, and not for a result that must not be lost."""


@dataclass(slots=True)
class Queued:
    """A run that is planned or under way."""

    plan: Plan
    state: State
    task: asyncio.Task[Any] | None = None


@dataclass(slots=True)
class QueuedPeak:
    """A measurement of ceilings that is asked for or under way."""

    id: str
    task: asyncio.Task[Peak | None] | None = None


@dataclass(slots=True)
class QueuedFuzz:
    """A fuzz, lint or replay that is asked for or under way."""

    plan: FuzzPlan
    task: asyncio.Task[None] | None = None

    def item(self) -> events.QueueItem:
        """As an entry of the queue: it has the slot of a run."""
        return events.QueueItem(
            run_id=self.plan.id,
            target=self.plan.target.id,
            title=f"{self.plan.what}: {clean_line(self.plan.target.title)}",
            state=(State.PLANNED if self.task is None else State.RUNNING).value,
            quick=False,
            trigger=self.plan.trigger,
            device=self.plan.device,
        )


class Engine:
    """Everything that one engine process is."""

    def __init__(self, held: Lock) -> None:
        self.epoch = new_ulid()
        self._lock = held
        self._started = time.monotonic()
        self._nvml = Nvml()
        self._hardware = Hardware.find(self._nvml)
        self._journal = Journal(paths.journal_dir())
        self._store: Store
        self._store_lock = asyncio.Lock()
        self._store_waits = ""  # why results wait in memory, as it was told
        self._followed = False  # whether the store is another file than the one that was opened first
        self._environment: tuple[Any, ...] = ()  # what was put last
        self._pool = Pool(interpret=not self._hardware.gpus)
        self._waits_reported = False
        self._pool.report = self._report_wait
        self._installation = Installation(state_file())
        self._guarding = Guarding(
            self._installation, self._pool, self._banner, lambda: self._call_store("release", INSTALLED_CHECK)
        )
        self._queue: list[Queued] = []
        self._fuzzes: list[QueuedFuzz] = []
        self._peak_asked: QueuedPeak | None = None
        self._peak: Peak | None = None  # the newest one of the GPU that runs are placed on
        self._wake = asyncio.Event()
        self._watches: dict[str, tuple[Watch, asyncio.Task[None]]] = {}
        self._runs_planned = 0
        self._runs_done = 0
        self._warm_clients = 0
        self._last_activity = time.monotonic()
        self._replies: OrderedDict[tuple[str, int], asyncio.Future[events.Event]] = OrderedDict()
        self._stopping = asyncio.Event()
        self._stop_when_idle = False
        self._starting = "reading the store"
        self._ready = asyncio.Event()
        self._server: asyncio.Server | None = None
        self._folder = os.open(paths.state_dir(), os.O_PATH | os.O_CLOEXEC)  # its inode goes to no other while we live
        self._socket_path = paths.socket_file()
        self._socket_inode = 0
        self._log_lines: deque[str] = deque(maxlen=LOG_LINES)
        self._network = filesystem.network(paths.state_dir())
        self._connections: set[asyncio.Task[None]] = set()
        self._clients: set[asyncio.Task[None]] = set()  # those of them that have said hello
        self._greeting: dict[asyncio.Task[None], asyncio.WriteTransport] = {}  # those that may yet, the oldest first
        self._degraded = ""

    # -- life --------------------------------------------------------------------------------------------------------

    async def serve(self) -> None:
        """Run until told to stop; leaves no process, socket or lock behind."""
        loop = asyncio.get_running_loop()
        logging.getLogger().addHandler(_LogToClients(self._publish_log))
        spawner.become_subreaper()
        await asyncio.to_thread(workplaces.sweep)
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stopping.set)
        loop.add_signal_handler(signal.SIGHUP, lambda: log.info("a terminal hung up; the engine goes on"))
        try:
            await self._bind()
            await self._open_store()
            lost = await self._report_store()
            await self._guarding.begin(lost)
            self._installation.read_in_background(lambda: self._busy)
            await self._recall_peak()
        except BaseException as error:
            await self._hang_up()
            self._journal.close()
            if self._stopping.is_set() and isinstance(error, StoreError):
                return
            raise
        self._starting = ""
        self._ready.set()
        if self._warm_clients:
            self._pool.keep(WARM_PROCESSES)
        log.info(
            "engine %s is up: pid %d, state %s, %s",
            self.epoch,
            os.getpid(),
            paths.state_dir(),
            self._hardware.note or f"{self._hardware.gpus} GPU(s)",
        )
        with contextlib.suppress(OSError), paths.log_file().open("ab") as sink:
            os.dup2(sink.fileno(), 2)  # until now the client that started us reads it, which may go away
        jobs = [loop.create_task(work) for work in (self._work_queue(), self._housekeeping(), guard.watch())]
        try:
            await self._stopping.wait()
        finally:
            await self._shut_down(jobs)

    async def _open_store(self) -> None:
        """Open the store, and wait where another program has locked it. Raises StoreError."""

        def examining(size_bytes: int) -> bool:
            self._starting = f"examining the store, {size_text(size_bytes)}"
            return self._stopping.is_set()

        if self._network:
            log.warning("%s lies on %s: %s", paths.state_dir(), self._network, self._store_note())
        while True:
            try:
                self._store = await asyncio.to_thread(
                    Store.open, paths.database_file(), wal=not self._network, examining=examining
                )
            except StoreLockedError as error:
                if self._stopping.is_set():
                    raise
                if self._starting != (why := clean_line(str(error))):
                    self._starting = why
                    log.warning("%s; waiting", why)
                await asyncio.sleep(LOCK_PAUSE_S)
            else:
                return

    def _store_note(self) -> str:
        if not self._network:
            return ""
        return (
            f"the store lies on a network file system ({self._network}) and keeps a rollback journal, since a "
            "write-ahead log needs memory that all of its readers share; AISP_STATE on a local disk is faster"
        )

    async def _report_store(self) -> list[str]:
        """Say what the store was opened with; the runs in the middle of which the engine before was lost."""
        self._report_opened()
        lost: list[str] = await self._call_store("mark_lost", self.epoch)
        self._report_lost(lost)
        return lost

    def _report_opened(self) -> None:
        opened = self._store.opened
        if opened.set_aside is not None:
            kept = clean_line(os.fsencode(opened.set_aside))
            source = f"; {clean_line(os.fsencode(opened.restored_from))} was restored" if opened.restored_from else ""
            lacking = opened.missing or upkeep.Missing()
            gone = f"; {len(lacking.runs)} run(s) are missing, the log names them" if lacking.runs else ""
            more = "" if lacking.certain else "; it could not be read to its end, so more may be missing"
            self._banner("store", f"the database was damaged and set aside as {kept}{source}{gone}{more}", "error")
            for run_id in lacking.runs:
                log.warning("run %s is missing: it was in the database that was set aside", run_id)
        if paths.state_is_temporary():
            self._banner(
                "state",
                f"no lasting place could be written to: results are in {paths.state_dir()} until a reboot",
            )
        if opened.log_kept is not None:
            kept = clean_line(os.fsencode(opened.log_kept))
            self._banner("log", f"a log without its database was kept as {kept}: put it beside that one, as NAME-wal")

    def _report_lost(self, lost: list[str]) -> None:
        if lost:
            log.warning("%d run(s) of an earlier engine ended as engine_lost: %s", len(lost), ", ".join(lost))

    async def _shut_down(self, jobs: list[asyncio.Task[None]]) -> None:
        log.info("engine %s is stopping", self.epoch)
        if self._server is not None:
            self._server.close()
        for _, task in self._watches.values():
            task.cancel()
        for job in jobs:
            job.cancel()
        queue, fuzzes = list(self._queue), list(self._fuzzes)
        running: list[asyncio.Task[Any]] = [queued.task for queued in queue if queued.task is not None]
        running += [asked.task for asked in fuzzes if asked.task is not None]
        if self._peak_asked is not None:
            if self._peak_asked.task is None:
                self._drop_peak("the engine was stopped before it began")
            else:
                running.append(self._peak_asked.task)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, *jobs, *(t for _, t in self._watches.values()), return_exceptions=True)
        for queued in queue:
            try:
                if queued.task is None:
                    await self._end_unstarted(queued, "cancelled: the engine was stopped")
                elif queued.task.cancelled():  # it waited for a GPU
                    await self._end_unstarted(queued, "cancelled before it began")
                else:
                    queued.task.result()
            except Exception as error:  # the others still have to be told
                self._report_unstored(queued, error)
        for asked in fuzzes:
            if asked.task is None or asked.task.cancelled():
                self._report_unstarted(asked, "cancelled: the engine was stopped")
        await self._pool.close()
        await spawner.sweep_orphans()
        await workplaces.cleared()
        await self._hang_up()
        await asyncio.to_thread(self._installation.close)
        await self._look_at_store()  # what was written since the last look belongs into the file at the path
        await asyncio.to_thread(self._store.close)
        self._journal.close()

    async def _hang_up(self) -> None:
        """Let the last events leave, end all connections, and take socket and pointer away."""
        if self._server is None:
            return
        self._server.close()
        await asyncio.sleep(0.05)
        for connection in list(self._connections):
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        self._unbind()
        if not self._lock.lost:
            paths.pointer_file().unlink(missing_ok=True)

    async def _bind(self) -> None:
        """Listen on the socket. Whoever holds the lock may remove what lies at its path. Raises OSError."""
        try:
            self._socket_path, pointer = paths.socket_file(paths.identity(self._folder)), paths.pointer_file()
        except paths.UnsafePathError as error:
            raise OSError(str(error)) from None  # whoever binds again, later, goes on after an OSError
        try:
            self._socket_path.unlink(missing_ok=True)
        except (IsADirectoryError, PermissionError):
            raise OSError(f"{self._socket_path} is in the way of the engine's socket; remove it") from None
        old_mask = os.umask(0o177)
        try:
            self._server = await asyncio.start_unix_server(self._accept, str(self._socket_path))
        finally:
            os.umask(old_mask)
        self._socket_inode = self._socket_path.stat().st_ino
        partial = pointer.with_suffix(".new")
        partial.unlink(missing_ok=True)
        with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as sink:
            sink.write(os.fsencode(self._socket_path))
        partial.rename(pointer)

    async def _bind_again(self) -> None:
        """Listen on a socket of the folder that is at the path now; connections that there are go on."""
        if self._server is not None:
            self._server.close()
        self._unbind()
        try:
            folder = os.open(paths.state_dir(), os.O_PATH | os.O_CLOEXEC)
            os.close(self._folder)
            self._folder = folder
            await self._bind()
        except (paths.UnsafePathError, OSError) as error:
            log.error("binding again failed: %s", error)

    def _unbind(self) -> None:
        with contextlib.suppress(OSError):
            if self._socket_path.stat().st_ino == self._socket_inode:
                self._socket_path.unlink()

    async def _housekeeping(self) -> None:
        """Every few seconds: are lock, store and socket still ours? Are warm processes still wanted?

        Is the store backed up? And is there an orphan of a process that could not be killed at the time and has ended
        since?
        """
        chores = upkeep.Upkeep()
        while True:
            await asyncio.sleep(HOUSEKEEPING_S)
            await spawner.sweep_orphans()
            if not self._store_lock.locked():  # whoever has it looks itself
                await self._look_at_store()
            try:
                inode = self._socket_path.stat().st_ino
            except OSError:
                inode = 0
            if inode != self._socket_inode and not self._lock.lost:
                log.warning("the socket %s was taken away; binding again", self._socket_path)
                await self._bind_again()
            await self._guarding.between(lambda: self._busy)
            idle = time.monotonic() - self._last_activity
            if not self._warm_clients and not self._busy and idle > WARM_IDLE_S and self._pool.target:
                self._pool.keep(0)
            if not self._busy and not self._store_waits and chores.wanted(idle):
                async with self._store_lock:  # a run that is asked for meanwhile begins when the disk is quiet again
                    told = await asyncio.to_thread(chores.tend, self._store, idle)
                for news in told:
                    self._banner(news.key, clean_line(news.text), news.severity)
            if self._stop_when_idle and not self._busy:
                self._stopping.set()

    # -- telling -------------------------------------------------------------------------------------------------------

    def _publish(self, event: events.Event) -> None:
        self._journal.publish(event)
        if isinstance(event, events.RunState):
            for queued in self._queue:
                if queued.plan.record.id == event.run_id:
                    queued.state = event.state
        elif isinstance(event, events.RunFinished):
            # Whoever has heard of the end must not find the run in the queue.
            self._queue = [queued for queued in self._queue if queued.plan.record.id != event.run_id]

    def _banner(self, key: str, text: str, severity: str = "warning") -> None:
        if text:
            log.warning("%s", text)
        self._publish(events.Banner(key=key, text=text, severity=severity))

    def _report_wait(self, text: str) -> None:
        if text or self._waits_reported:
            self._banner("start", text)
        self._waits_reported = bool(text)

    def _publish_log(self, level: str, text: str) -> None:
        self._log_lines.append(f"{level:7} {text}")
        self._publish(events.LogLine(level=level, text=text))

    # -- store ---------------------------------------------------------------------------------------------------------

    async def _call_store(self, name: str, *arguments: Any, **named: Any) -> Any:
        """One call of the writer, off the loop, one at a time. Waits out a full disk, a foreign lock, and a store that
        is not at its path and cannot be followed."""
        async with self._store_lock:
            while True:
                try:
                    result = await self._attempt(name, *arguments, **named)
                except (StoreFullError, StoreLockedError, StoreGoneError) as error:
                    if _answer_awaited.get():
                        raise
                    full = isinstance(error, StoreFullError)
                    if full and await asyncio.to_thread(upkeep.release_ballast, self._store.path):
                        self._banner("disk", f"{error}; a reserve of 16 MiB was given up for results", "error")
                        continue
                    if not self._ready.is_set():
                        self._starting = clean_line(str(error))
                    self._report_waiting(error)
                    if self._stopping.is_set():
                        raise
                    await asyncio.sleep(2.0)
                else:
                    self._report_waiting(None)
                    if name == "put_environment":
                        self._environment = arguments
                    return result

    async def _ask_store(self, name: str, *arguments: Any) -> Any:
        """One call of the writer for whoever waits for an answer: that nothing can be stored is said at once, and the
        reserve is kept for results. Raises PlanError.
        """
        if self._store_waits:
            raise PlanError(f"{self._store_waits}; nothing was planned")
        token = _answer_awaited.set(True)
        try:
            return await self._call_store(name, *arguments)
        except (StoreFullError, StoreLockedError, StoreGoneError) as error:
            raise PlanError(clean_line(f"{error}; nothing was planned", limit=2000)) from None
        finally:
            _answer_awaited.reset(token)

    def _report_waiting(self, error: StoreError | None) -> None:
        """Say once that nothing can be stored, and once that it can be again."""
        if error is not None and not self._store_waits:
            self._store_waits = f"{error}; results wait in memory and runs are paused"
            self._banner("store", self._store_waits, "error")
        elif error is None and self._store_waits:
            self._store_waits = ""
            self._banner("store", "")

    async def _look_at_store(self) -> None:
        """Whether lock and store are ours still; where they are not, what can be done about it, once."""
        async with self._store_lock:
            try:
                await self._attempt("look")
            except StoreError as error:
                self._report_waiting(error)
            else:
                self._report_waiting(None)

    async def _attempt(self, name: str, *arguments: Any, **named: Any) -> Any:
        """One call of the writer, in the store that is at the path and under a lock that is ours.

        Raises StoreGoneError where there is none and none can be made now, and what the writer raises.
        """

        def call() -> Any:
            self._lock.look()
            return getattr(self._store, name)(*arguments, **named)

        for _ in range(MOST_FOLLOWED):
            try:
                return await asyncio.to_thread(call)
            except LockGoneError:
                await self._retake_lock()
            except StoreGoneError:
                await self._follow_store()
        raise StoreGoneError(f"{self._store.path} changes all the time: let nobody but the engine write there")

    async def _retake_lock(self) -> None:
        """Make the state folder anew where it is not there, and lock it; an engine whose place was taken ends."""

        def retake() -> bool:
            paths.make_private(paths.state_dir())
            if not self._lock.retake():
                return False
            for folder in (paths.work_dir, paths.snapshots_dir, paths.journal_dir):
                folder()
            return True

        state = clean_line(os.fsencode(paths.state_dir()))
        try:
            ours = await asyncio.to_thread(retake)
        except (paths.UnsafePathError, OSError) as error:
            raise self._homeless(error) from error
        if not ours:
            self._banner("lock", f"another engine serves {state}, whose lock was removed: this one ends", "error")
            self._stopping.set()
            return
        log.warning("the lock of %s was removed, or the folder with it; it is locked again", state)
        await self._bind_again()
        self._pool.renew()  # whoever stands by may have lost its folder

    async def _follow_store(self) -> None:
        """Part with a store that is not at the path, open the one that is, and journal there what is on its way.

        Raises StoreFullError, StoreLockedError, StoreGoneError: not now; nothing is lost.
        """
        plans = [(queued.plan, queued.state) for queued in self._queue]
        files = [plan.files for plan, _ in plans] + [asked.plan.files for asked in self._fuzzes]
        old = self._store

        def follow() -> tuple[str, Store, list[str]] | None:
            paths.make_private(paths.state_dir())
            parted = old.part()
            if parted is None:
                return None
            goes_on = "the one that is there now is used" if old.path.exists() else "a new store was begun there"
            store = Store.open(old.path, wal=not filesystem.network(old.path.parent))
            try:
                # What is on its way for another engine is that one's affair.
                lost = [] if self._lock.lost else store.mark_lost(self.epoch)
                for each in files:
                    store.put_snapshot(each)
                if self._environment:
                    store.put_environment(*self._environment)
                unknown = [(plan, state) for plan, state in plans if not store.knows(plan.record.id)]
                store.plan([plan.record for plan, _ in unknown])
                for plan, state in unknown:
                    if state is not State.PLANNED:
                        store.advance(plan.record.id, state)
            except BaseException:
                store.close()
                raise
            said = [parted.text]
            if not parted.in_place:
                said.append(goes_on)
            elif gone := sum(not store.knows(run_id) for run_id in old.finished):
                said.append(f"{gone} run(s) that were stored in it are gone")
            if unknown:
                said.append(f"{len(unknown)} run(s) that were on their way go into it")
            return "; ".join(said), store, lost

        try:
            found = await asyncio.to_thread(follow)
        except (StoreFullError, StoreLockedError, StoreGoneError):
            raise
        except (paths.UnsafePathError, OSError, StoreError) as error:
            raise self._homeless(error) from error
        if found is None:
            return
        text, self._store, lost = found
        self._followed = True
        self._report_opened()
        self._report_lost(lost)
        text += ". `aisp engine stop` before files of its state are moved"
        self._banner("moved", clean_line(os.fsencode(text), limit=2000), "error")

    def _homeless(self, error: Exception) -> StoreGoneError:
        """There is no place for results. Where it would not be safe to make one, the engine ends."""
        if isinstance(error, paths.UnsafePathError) and not self._stopping.is_set():
            self._banner("lock", f"{error}; the engine ends", "error")
            self._stopping.set()
        return StoreGoneError(str(error))

    # -- queue ---------------------------------------------------------------------------------------------------------

    @property
    def _busy(self) -> bool:
        return bool(self._queue) or bool(self._fuzzes) or self._peak_asked is not None

    def _next_processes(self) -> tuple[int, int]:
        """How many the run behind the one that is being carried out will take, its arms, the A/A arm and the verifier,
        and how many of them use torch's compiler."""
        waiting = next((queued.plan for queued in self._queue[1:2] if not queued.plan.problem), None)
        if waiting is None:
            return 0, 0
        arms = (*waiting.rungs, *waiting.rungs[:1])
        compilers = sum(map(waiting.compiles, arms))
        return len(arms) * waiting.target.ranks + 1, compilers * waiting.target.ranks

    async def _work_queue(self) -> None:
        """Carry out one plan after the other. Nothing that a run does can end this loop."""
        services = Services(
            publish=self._publish,
            store=self._call_store,
            pool=self._pool,
            nvml=self._nvml,
            snapshots_dir=paths.snapshots_dir(),
            gpu=self._hardware.index,
            on_lost_gpu=self._degrade,
            peak=lambda: self._peak,
            next_processes=self._next_processes,
            look_after=self._guarding.after,
            caches=Caches(paths.compiled_dir(), paths.cache_links_dir()),
        )
        while True:
            while not self._busy:
                self._wake.clear()
                await self._wake.wait()
            if self._peak_asked is not None:
                if problem := await self._guarding.before(""):
                    self._drop_peak(problem)
                else:
                    await self._work_peak(self._peak_asked, services)
                continue
            if not self._queue:  # runs go first: somebody waits for the number after a save
                asked = self._fuzzes[0]
                problem = await self._guarding.before("" if asked.plan.problem else asked.plan.id)
                if problem and not asked.plan.problem:
                    asked.plan = replace(asked.plan, problem=problem)
                if asked in self._fuzzes:  # nobody has cancelled it meanwhile
                    await self._work_fuzz(asked, services)
                continue
            queued = self._queue[0]
            problem = await self._guarding.before("" if queued.plan.problem else queued.plan.record.id)
            if queued not in self._queue:  # cancelled, or superseded, meanwhile
                continue
            if problem and not queued.plan.problem:
                queued.plan = replace(queued.plan, problem=problem)
            if self._degraded and queued.plan.record.device == "cuda" and not queued.plan.problem:
                queued.plan = replace(queued.plan, problem=f"the GPU is set aside: {self._degraded}")
            execution = Execution(queued.plan, services)
            queued.task = asyncio.create_task(self._on_leased_gpus(queued.plan, execution.run))
            try:
                await asyncio.wait({queued.task})
                if queued.task.cancelled():  # before its first step: it had no chance to conclude itself
                    await self._end_unstarted(queued, "cancelled before it began")
                elif (error := queued.task.exception()) is not None:
                    self._report_unstored(queued, error)
            finally:
                if queued in self._queue:
                    self._queue.remove(queued)
                self._runs_done += 1
                self._last_activity = time.monotonic()
            await self._report_watch(queued.plan, execution)

    def _report_unstored(self, queued: Queued, error: BaseException) -> None:
        """The end of a run that the store does not have as it was."""
        log.error("run %s could not be concluded: %s", queued.plan.record.id, error, exc_info=error)
        reason = clean_line(f"the result could not be stored: {error}")
        self._publish(
            events.RunFinished(run=msgspec.structs.replace(queued.plan.record, state=State.INFRA_ERROR, reason=reason))
        )

    async def _work_fuzz(self, asked: QueuedFuzz, services: Services) -> None:
        """Carry out one fuzz, in the slot of a run."""
        if self._degraded and asked.plan.device == "cuda" and not asked.plan.problem:
            asked.plan = replace(asked.plan, problem=f"the GPU is set aside: {self._degraded}")
        asked.task = asyncio.create_task(self._on_leased_gpus(asked.plan, Fuzzing(asked.plan, services).run))
        try:
            await asyncio.wait({asked.task})
            if asked.task.cancelled():  # before its first step
                self._report_unstarted(asked, "cancelled before it began")
            elif (error := asked.task.exception()) is not None:
                log.error("fuzz %s could not be concluded: %s", asked.plan.id, error, exc_info=error)
                self._report_unstarted(asked, clean_line(f"the engine failed: {error}"))
        finally:
            if asked in self._fuzzes:
                self._fuzzes.remove(asked)
            self._last_activity = time.monotonic()

    def _report_unstarted(self, asked: QueuedFuzz, reason: str) -> None:
        """The end of a fuzz that could not tell it itself; it is not stored."""
        if asked in self._fuzzes:
            self._fuzzes.remove(asked)
        for event in unstarted(asked.plan, reason):
            self._publish(event)

    async def _on_leased_gpus(self, plan: Plan | FuzzPlan, carry_out: Callable[[], Awaitable[Any]]) -> Any:
        """Carry out a plan while no other engine of the machine uses the GPUs that it needs.

        Cancelled while it waits for them, it has not begun.
        """
        device, whose = (plan.record.device, plan.record.id) if isinstance(plan, Plan) else (plan.device, plan.id)
        if plan.problem:
            return await carry_out()
        try:
            if device != "cuda":
                return await carry_out()
            async with leased(self._uuids(every=plan.target.ranks > 1), lambda text: self._banner("lease", text)):
                await self._guarding.before(whose)  # what was installed while it waited is none of its doing
                return await carry_out()
        finally:
            await asyncio.shield(self._guarding.after(whose))

    def _uuids(self, *, every: bool = False) -> list[str]:
        """Of the GPU that runs are placed on, or of every one; without those whose driver does not tell."""
        wanted = [d for d in self._hardware.devices if every or d.index == self._hardware.index]
        return [device.uuid for device in wanted if device.uuid]

    async def _work_peak(self, asked: QueuedPeak, services: Services) -> None:
        """Measure the ceilings, in the slot of a run: before the next one, since runs are held against them."""

        async def measure() -> Peak | None:
            async with leased(self._uuids(), lambda text: self._banner("lease", text)):
                return await peaks.measure(services, asked.id)

        asked.task = asyncio.create_task(measure())
        asked.task.add_done_callback(lambda task: self._peak_ended(asked, task))
        await asyncio.wait({asked.task})

    def _peak_ended(self, asked: QueuedPeak, task: asyncio.Task[Peak | None]) -> None:
        if task.cancelled():
            self._publish(events.PeakFinished(peak_id=asked.id, gpu="", reason="cancelled; nothing was stored"))
        elif (error := task.exception()) is not None:
            log.error("the ceilings could not be concluded: %s", error, exc_info=error)
        elif (found := task.result()) is not None:
            self._peak = found
        self._peak_asked = None
        self._last_activity = time.monotonic()

    def _drop_peak(self, reason: str) -> None:
        """End a measurement of ceilings that has not begun."""
        if self._peak_asked is not None:
            self._publish(events.PeakFinished(peak_id=self._peak_asked.id, gpu="", reason=reason))
            self._peak_asked = None

    async def _recall_peak(self) -> None:
        """What was measured of this GPU in earlier lives."""
        if self._hardware.gpus:
            for uuid in self._uuids():
                self._peak = await self._call_store("latest_peak", uuid)

    def _degrade(self, reason: str) -> None:
        if not self._hardware.gpus:
            self._banner("process", f"{reason}; the engine goes on without it", "error")
            return
        if self._degraded:
            return
        self._degraded = reason
        self._banner("gpu", f"the GPU is set aside: {reason}; `aisp engine stop` and start looks again", "error")

    async def _enqueue(self, plans: list[Plan], store: Callable[..., Awaitable[Any]]) -> None:
        """Journal all by `store`, tell all, then let them start."""
        await store("plan", [plan.record for plan in plans])
        for plan in plans:
            record = plan.record
            self._queue.append(Queued(plan, State.PLANNED))
            self._publish(
                events.RunPlanned(
                    run=record.announced(Arm(rung.name, State.PLANNED, role=rung.role) for rung in plan.rungs)
                )
            )
        self._last_activity = time.monotonic()
        if any(not plan.problem for plan in plans):
            self._pool.keep(WARM_PROCESSES)
        self._wake.set()
        if self._followed:  # their sources may be in the store before
            for plan in plans:
                await self._call_store("put_snapshot", plan.files)

    async def _end_unstarted(self, queued: Queued, reason: str) -> None:
        if queued in self._queue:
            self._queue.remove(queued)
        record = msgspec.structs.replace(queued.plan.record, state=State.CANCELLED, reason=reason)
        await self._call_store("finish", record, {}, None)
        self._publish(events.RunFinished(run=record))

    # -- watches -------------------------------------------------------------------------------------------------------

    async def _run_edit(
        self, target: Target, files: dict[str, bytes], changed: set[str] | None, device: str
    ) -> tuple[str, str, str]:
        """Store an edit's sources and plan its run; what was planned for the same target and not begun is dropped.

        `changed`: see watch.RunIt. The run takes over the rungs of the one that it replaces.
        """
        snapshot: str = await self._call_store("put_snapshot", files)
        if changed is None:
            return snapshot, "", ""
        rungs = await asyncio.to_thread(affected, target, changed) if changed else ()
        known = {rung.name for rung in target.rungs}
        for queued in list(self._queue):
            record = queued.plan.record
            if queued.task is None and record.target == target.id and record.trigger is Trigger.WATCH:
                await self._end_unstarted(queued, "superseded by a later save")
                if rungs:
                    rungs += tuple(rung.name for rung in queued.plan.rungs if rung.name in known)
        try:
            plan = self._plan(
                target,
                files,
                snapshot,
                rungs=rungs,
                device=device,
                quick=True,
                trigger=Trigger.WATCH,
            )
        except PlanError as error:
            return snapshot, "", str(error)
        await self._enqueue([plan], self._call_store)
        return snapshot, plan.record.id, ""

    async def _report_watch(self, ended: Plan, execution: Execution) -> None:
        """Let the watch of a target know of a run's end, and drop what is planned for nothing but what that wrote."""
        found = self._watches.get(ended.record.target)
        if found is None:
            return
        written = execution.written()
        found[0].run_ended(written)
        for queued in list(self._queue):
            record, files = queued.plan.record, queued.plan.files
            if queued.task is None and record.target == ended.record.target and record.trigger is Trigger.WATCH:
                names = files.keys() | ended.files.keys()
                changed = {name for name in names if files.get(name) != ended.files.get(name)}
                if changed and changed <= written.keys():
                    told = ", ".join(clean_line(os.fsencode(name)) for name in sorted(changed))
                    await self._end_unstarted(queued, f"{told} was written by the run before, not by a save")

    def _plan(self, target: Target, files: dict[str, bytes], snapshot: str, **options: Any) -> Plan:
        self._runs_planned += 1
        return planning.plan(
            target, files, snapshot, self._hardware, epoch=self.epoch, seq=self._runs_planned, **options
        )

    # -- connections ---------------------------------------------------------------------------------------------------

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._greeting) >= MOST_GREETING:
            # Whoever has something to say says it at once: the oldest has not for longest.
            _warn_seldom(f"a connection was closed: {MOST_GREETING} others have not said hello either")
            self._greeting.pop(next(iter(self._greeting))).abort()
        task = asyncio.get_running_loop().create_task(self._converse(reader, writer))
        self._connections.add(task)
        self._greeting[task] = writer.transport
        task.add_done_callback(self._connection_ended)

    def _connection_ended(self, task: asyncio.Task[None]) -> None:
        self._connections.discard(task)
        self._clients.discard(task)
        self._greeting.pop(task, None)

    def _admit(self) -> bool:
        """Give the connection of this task a place among those that have said hello; False where there is none."""
        if len(self._clients) >= MOST_CONNECTIONS:
            _warn_seldom(f"a connection was refused: {MOST_CONNECTIONS} are open; close a client that is not needed")
            return False
        task = asyncio.current_task()
        assert task is not None
        self._greeting.pop(task, None)
        self._clients.add(task)
        return True

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One client, from its handshake to its end: one request at a time. Its faults end its connection only."""
        outbox = Outbox()
        sender: asyncio.Task[None] | None = None
        warm = False
        stopping = False
        try:
            if not _same_user(writer):
                _warn_seldom("a connection of another user was refused")
                return
            if (pid := _started_by_us(writer)) is not None:
                # What runs a kernel has nothing to ask of the engine: not to end, nor to cancel its rivals.
                _warn_seldom(
                    f"a connection of process {pid} was refused: it was started by the engine or by a worker; "
                    "look for a rung that speaks to the engine's socket"
                )
                return
            decoder: Decoder[requests.AnyRequest] = Decoder(requests.AnyRequest, limit=MAX_REQUEST_BYTES)
            hello: requests.Hello | None = None
            greeted_by = asyncio.get_running_loop().time() + HANDSHAKE_LIMIT_S
            unread = 0
            while True:
                try:
                    async with asyncio.timeout_at(greeted_by if hello is None else None):
                        data = await reader.read(1 << 16)
                except TimeoutError:
                    raise FrameError(f"no hello within {HANDSHAKE_LIMIT_S:g} s") from None
                if not data:
                    break
                for request in decoder.feed(data):
                    # The sender has its turn after every request; what it could not hand on has not been read.
                    await asyncio.sleep(0)
                    unread = unread + 1 if writer.transport.get_write_buffer_size() else 0
                    if unread > MOST_UNREAD:
                        unread = 0
                        try:
                            async with asyncio.timeout(UNREAD_LIMIT_S):
                                await writer.drain()
                        except TimeoutError:
                            raise FrameError(f"answers were not read for {UNREAD_LIMIT_S:g} s") from None
                    if hello is None:
                        if not isinstance(request, requests.Hello):
                            raise FrameError("the first frame must be a hello")
                        if not self._admit():
                            return
                        hello = request
                        warm = request.warm and request.protocol == PROTOCOL
                        starting = self._starting
                        await self._welcome(hello, outbox, writer)
                        pulse = hello.protocol == PROTOCOL
                        sender = asyncio.create_task(self._send(outbox, writer, pulse=pulse, starting=starting))
                        if warm:
                            self._warm_clients += 1
                            if self._ready.is_set():
                                self._pool.keep(WARM_PROCESSES)
                    elif isinstance(request, requests.Hello):
                        raise FrameError("a second hello")
                    elif hello.protocol != PROTOCOL and not isinstance(request, requests.Shutdown):
                        outbox.reply(
                            events.Reply(
                                to=request.seq,
                                error=f"protocol {hello.protocol}; this engine speaks {PROTOCOL}",
                            )
                        )
                    else:
                        await self._answer(request, hello.client, outbox)
        except FrameError as error:
            log.warning("a connection was closed: %s", error)
        except ClientGoneError as error:
            log.warning("a connection was closed: %s", error)
        except (ConnectionError, TimeoutError):
            log.debug("a client went away")
        except asyncio.CancelledError:
            stopping = True
            raise
        finally:
            self._journal.outboxes.discard(outbox)
            if warm:
                self._warm_clients -= 1
                self._last_activity = time.monotonic()
            if sender is not None:
                sender.cancel()
            if stopping:
                writer.close()
            else:
                # A closed connection would stay until its last byte is read, which may be never.
                writer.transport.abort()

    async def _welcome(self, hello: requests.Hello, outbox: Outbox, writer: asyncio.StreamWriter) -> None:
        compatible = hello.protocol == PROTOCOL
        outbox.reply(
            events.Welcome(
                protocol=PROTOCOL,
                build=build_id(),
                pid=os.getpid(),
                epoch=self.epoch,
                next_seq=self._journal.next_seq,
                compatible=compatible,
                state_dir=clean_line(os.fsencode(paths.state_dir())),
                folder=paths.identity(self._folder),
                starting=self._starting,
            )
        )
        if compatible and hello.subscribe_from is not None:
            first = hello.subscribe_from if hello.epoch in ("", self.epoch) else 0
            writer.write(await outbox.next_bytes())
            seq = max(first, 1)
            # Pieces of the past while the present goes on; joined without a hole or a double.
            while seq < self._journal.next_seq:
                data, seq = self._journal.piece(seq)
                writer.write(data)
                async with asyncio.timeout(30.0):
                    await writer.drain()
            self._journal.outboxes.add(outbox)

    async def _send(self, outbox: Outbox, writer: asyncio.StreamWriter, *, pulse: bool, starting: str) -> None:
        """Hand a client's queue to its socket at the pace at which it is read.

        With `pulse` a Pulse where there is nothing in it, and one at the end of `starting`, which it was told.
        """
        encoder = Encoder()
        try:
            while True:
                try:
                    async with asyncio.timeout((STARTING_PULSE_S if self._starting else PULSE_S) if pulse else None):
                        data = await outbox.next_bytes()
                except TimeoutError:
                    data = encoder.frame(events.Pulse(starting=self._starting))
                if pulse and starting and not self._starting:
                    starting = ""
                    data += encoder.frame(events.Pulse())
                writer.write(data)
                await writer.drain()
        except ConnectionError:
            writer.close()

    async def _answer(self, request: requests.AnyRequest, client: str, outbox: Outbox) -> None:
        """Carry out a request once, however often it arrives."""
        assert not isinstance(request, requests.Hello)
        if isinstance(request, requests.GetStatus):
            outbox.reply(self._status(request.seq))
            return
        if isinstance(request, requests.GetLog):
            count = max(1, min(request.lines, LOG_LINES))
            outbox.reply(events.EngineLog(to=request.seq, lines=list(self._log_lines)[-count:]))
            return
        if not isinstance(request, requests.Shutdown):
            await self._ready.wait()
        key = (client, request.seq)
        known = self._replies.get(key)
        if known is not None:
            # It may still be under way, for a connection that has gone meanwhile.
            outbox.reply(await asyncio.shield(known))
            return
        answered: asyncio.Future[events.Event] = asyncio.get_running_loop().create_future()
        self._replies[key] = answered
        try:
            reply = await self._carry_out(request)
        except PlanError as error:
            reply = events.Reply(to=request.seq, error=str(error))
        except LookupError as error:
            reply = events.Reply(to=request.seq, error=clean_line(str(error.args[0] if error.args else error)))
        except Exception as error:  # whatever it is, the client hears of it and goes on
            log.exception("request %s failed", type(request).__name__)
            reply = events.Reply(to=request.seq, error=clean_line(f"{type(error).__name__}: {error}"))
        except BaseException:
            self._replies.pop(key, None)
            answered.cancel()
            raise
        answered.set_result(reply)
        while len(self._replies) > REMEMBERED_REPLIES:
            self._replies.popitem(last=False)
        outbox.reply(reply)

    async def _carry_out(self, request: requests.AnyRequest) -> events.Reply:
        match request:
            case requests.StartRuns():
                return await self._start_runs(request)
            case requests.MeasurePeak():
                return self._measure_peak(request)
            case requests.FuzzTarget():
                return await self._start_fuzz(request)
            case requests.ReplayFailure():
                return await self._start_replay(request)
            case requests.Cancel():
                return await self._cancel(request)
            case requests.StartWatch():
                return await self._start_watch(request)
            case requests.StopWatch():
                return self._stop_watch(request)
            case requests.Restore():
                return await self._restore(request)
            case requests.AcceptInstalled():
                return events.Reply(to=request.seq, detail=await self._guarding.accept())
            case requests.Shutdown():
                if request.when_idle and self._busy:
                    self._stop_when_idle = True
                    waiting = f"{len(self._queue)} run(s)" if self._queue else "the ceilings are measured"
                    return events.Reply(to=request.seq, detail=f"stops after {waiting}")
                asyncio.get_running_loop().call_later(0.05, self._stopping.set)
                return events.Reply(to=request.seq, detail="stopping")
            case _:
                raise PlanError(f"{type(request).__name__} is not a request")

    async def _start_runs(self, request: requests.StartRuns) -> events.Reply:
        if not request.targets:
            raise PlanError("no targets were named; `aisp bench list-targets` shows them")
        if len(self._queue) + len(request.targets) > MOST_PLANNED:
            raise PlanError(f"{len(self._queue)} runs are planned already, {MOST_PLANNED} is the most")
        trigger = Trigger.TUI if request.trigger == "tui" else Trigger.CLI
        found = await asyncio.to_thread(planning.load_catalog, request.roots)
        plans: list[Plan] = []
        refused: dict[str, str] = {}
        for name in request.targets:
            target = found.find(name)
            if why := planning.cannot_run(
                target, self._hardware, rungs=request.rungs, device=request.device, case=request.case
            ):
                refused[target.id] = why
                continue
            files = await asyncio.to_thread(catalog.read_sources, target)
            snapshot = await self._ask_store("put_snapshot", files)
            plans.append(
                self._plan(
                    target,
                    files,
                    snapshot,
                    rungs=request.rungs,
                    device=request.device,
                    case=request.case,
                    quick=request.quick,
                    replicas=request.replicas,
                    warm=request.warm,
                    interleave=request.interleave,
                    trigger=trigger,
                    validity=request.validity,
                    without=request.without,
                    naive=request.naive,
                )
            )
        if not plans:
            reasons = {why: [name for name, its in refused.items() if its == why] for why in refused.values()}
            raise PlanError(". ".join(f"{', '.join(names)} cannot run here: {why}" for why, names in reasons.items()))
        await self._enqueue(plans, self._ask_store)
        return events.Reply(to=request.seq, run_ids=[plan.record.id for plan in plans], refused=refused)

    async def _start_fuzz(self, request: requests.FuzzTarget) -> events.Reply:
        root = str(corpus.root()) if request.root == corpus.NAME else request.root
        found = await asyncio.to_thread(planning.load_catalog, [root] if root else [])
        target = found.find(request.target)
        files = await asyncio.to_thread(catalog.read_sources, target)
        snapshot = await self._ask_store("put_snapshot", files)
        return self._ask_fuzz(planning.plan_fuzz(target, files, snapshot, self._hardware, request), request.seq)

    async def _start_replay(self, request: requests.ReplayFailure) -> events.Reply:
        failure = await self._call_store("failure", request.failure)
        files = await self._call_store("snapshot", failure.snapshot)
        name = failure.target.rpartition(":")[2]
        folder = await asyncio.to_thread(snapshots.lay_out, paths.snapshots_dir(), failure.snapshot, name, files)
        return self._ask_fuzz(planning.plan_replay(failure, files, folder, self._hardware), request.seq)

    def _ask_fuzz(self, plan: FuzzPlan, seq: int) -> events.Reply:
        if len(self._fuzzes) >= MOST_FUZZES:
            raise PlanError(f"{len(self._fuzzes)} fuzzes are planned already; wait, or cancel them")
        self._fuzzes.append(QueuedFuzz(plan))
        self._publish(plan.planned())
        self._last_activity = time.monotonic()
        if not plan.problem:
            self._pool.keep(WARM_PROCESSES)
        self._wake.set()
        return events.Reply(to=seq, run_ids=[plan.id])

    def _measure_peak(self, request: requests.MeasurePeak) -> events.Reply:
        """Ask for it; whoever asks while it is asked for already follows the same one."""
        if not self._hardware.gpus:
            raise PlanError(f"ceilings need a GPU: {self._hardware.note}")
        if self._degraded:
            raise PlanError(f"the GPU is set aside: {self._degraded}")
        if self._peak_asked is not None:
            return events.Reply(to=request.seq, run_ids=[self._peak_asked.id], detail="under way already")
        self._peak_asked = QueuedPeak(new_ulid())
        self._last_activity = time.monotonic()
        self._wake.set()
        return events.Reply(to=request.seq, run_ids=[self._peak_asked.id])

    async def _cancel(self, request: requests.Cancel) -> events.Reply:
        peak = self._peak_asked
        if peak is not None and request.run_id in ("", peak.id):
            if peak.task is None:
                self._drop_peak("cancelled before it began")
            else:
                peak.task.cancel()
            if request.run_id:
                return events.Reply(to=request.seq, run_ids=[peak.id])
        stopped = [asked for asked in self._fuzzes if request.run_id in ("", asked.plan.id)]
        for asked in stopped:
            if asked.task is None:
                self._report_unstarted(asked, "cancelled before it began")
            else:
                asked.task.cancel()
        if request.run_id and stopped:
            return events.Reply(to=request.seq, run_ids=[request.run_id])
        wanted = [q for q in self._queue if request.run_id in ("", q.plan.record.id)]
        for queued in wanted:
            if queued.task is None:
                await self._end_unstarted(queued, "cancelled before it began")
            else:
                queued.task.cancel()
        if request.run_id and not wanted:
            return events.Reply(to=request.seq, error=f"run {clean_line(request.run_id)} is not planned or running")
        return events.Reply(to=request.seq, run_ids=[q.plan.record.id for q in wanted])

    async def _start_watch(self, request: requests.StartWatch) -> events.Reply:
        if request.target in self._watches:
            return events.Reply(to=request.seq, detail="already watched")
        roots = [request.root] if request.root else []
        found = await asyncio.to_thread(planning.load_catalog, roots)
        target = found.find(request.target)
        if target.id in self._watches:  # by somebody else, while the files were read
            return events.Reply(to=request.seq, detail="already watched")
        # What the target itself needs may be added to it while it is watched; a device that was asked for may not.
        why = planning.cannot_run(target, self._hardware, device=request.device)
        if why and request.device != "auto":
            raise PlanError(f"{target.id} cannot run here: {why}")
        if len(self._watches) >= MOST_WATCHES:
            raise PlanError(f"{len(self._watches)} targets are watched already, which is the most; end a watch first")

        async def run_it(now: Target, files: dict[str, bytes], changed: set[str] | None) -> tuple[str, str, str]:
            return await self._run_edit(now, files, changed, request.device)

        def running() -> bool:
            return any(q.task is not None and q.plan.record.target == target.id for q in self._queue)

        watch = Watch(target, self._publish, run_it, running)
        task = asyncio.create_task(watch.run())
        self._watches[target.id] = (watch, task)
        task.add_done_callback(lambda done: self._watch_ended(target.id, done))
        self._pool.keep(WARM_PROCESSES)
        self._publish(watch.changed(active=True))
        return events.Reply(to=request.seq, refused={target.id: why} if why else {})

    def _watch_ended(self, target_id: str, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("the watch of %s ended: %s", target_id, error, exc_info=error)
            watch, _ = self._watches.pop(target_id)
            self._publish(watch.changed(active=False))

    def _stop_watch(self, request: requests.StopWatch) -> events.Reply:
        if request.target in self._watches:
            watch, task = self._watches.pop(request.target)
            task.cancel()
            self._publish(watch.changed(active=False))
        return events.Reply(to=request.seq)

    async def _restore(self, request: requests.Restore) -> events.Reply:
        """Write an earlier snapshot back; what stands there now is stored first."""
        roots = [request.root] if request.root else []
        found = await asyncio.to_thread(planning.load_catalog, roots)
        target = found.find(request.target)
        present = await asyncio.to_thread(catalog.read_sources, target)
        kept = await self._call_store("put_snapshot", present)
        wanted: dict[str, bytes] = await self._call_store("snapshot", request.snapshot)
        await asyncio.to_thread(_write_back, target.folder, wanted, present)
        return events.Reply(to=request.seq, detail=kept)

    def _status(self, to: int) -> events.Status:
        note = self._degraded or self._hardware.note
        cpu = events.Device(index=-1, name=f"CPU, {os.cpu_count() or '?'} cores")
        return events.Status(
            to=to,
            pid=os.getpid(),
            uptime_s=time.monotonic() - self._started,
            rss_bytes=_rss_bytes(),
            devices=[*self._hardware.devices, cpu],
            gpu_note=note,
            queue=[
                *self._peak_item(),
                *(
                    events.QueueItem(
                        run_id=q.plan.record.id,
                        target=q.plan.record.target,
                        title=q.plan.record.title,
                        state=q.state.value,
                        quick=q.plan.record.quick,
                        trigger=q.plan.record.trigger.value,
                        device=q.plan.record.device,
                    )
                    for q in self._queue
                ),
                *(asked.item() for asked in self._fuzzes),
            ],
            watches=[
                events.WatchItem(
                    target=name,
                    folder=clean_line(os.fsencode(watch.target.folder)),
                    edits=watch.edits,
                    polling=watch.polling,
                )
                for name, (watch, _) in self._watches.items()
            ],
            warm_workers=self._pool.warm,
            clients=len(self._journal.outboxes),
            runs_done=self._runs_done,
            starting=self._starting,
            store_note=self._store_note(),
        )

    def _peak_item(self) -> list[events.QueueItem]:
        """The measurement of ceilings as an entry of the queue: it has the slot of a run."""
        asked = self._peak_asked
        if asked is None:
            return []
        state = State.PLANNED if asked.task is None else State.RUNNING
        return [
            events.QueueItem(
                run_id=asked.id,
                target="peak",
                title="The ceilings of the GPU",
                state=state.value,
                quick=False,
                trigger="",
                device="cuda",
            )
        ]


def _same_user(writer: asyncio.StreamWriter) -> bool:
    connection: socket.socket | None = writer.get_extra_info("socket")
    if connection is None:
        return False
    return paths.peer_uid(connection) == os.getuid()


def _started_by_us(writer: asyncio.StreamWriter) -> int | None:
    """The pid of a client that this process started itself, or that was started by such; None for any other.

    Who is gone already counts as one: nobody is left to read an answer, and a lesson may ask and leave.
    """
    connection: socket.socket | None = writer.get_extra_info("socket")
    pid = 0 if connection is None else paths.peer_pid(connection)
    above = pid
    while above > 1:
        if above == os.getpid():
            return pid if pid != above else None
        try:
            above = int(Path(f"/proc/{above}/stat").read_bytes().rpartition(b")")[2].split()[1])
        except (OSError, IndexError):
            return pid
    return None


_warned: dict[str, float] = {}


def _warn_seldom(text: str) -> None:
    """Log what a stranger can cause at will: at most once a second, so that the log keeps what else happened."""
    now = time.monotonic()
    if now - _warned.get(text, -math.inf) >= 1.0:
        _warned[text] = now
        log.warning("%s", text)


def _write_back(folder: Path, wanted: dict[str, bytes], present: dict[str, bytes]) -> None:
    """Replace what differs, file by file, each at once. Files that the snapshot does not know stay."""
    real = folder.resolve()
    for name, data in wanted.items():
        if present.get(name) == data:
            continue
        path = folder / name
        if not path.resolve().is_relative_to(real):
            raise ValueError(f"{clean_line(name)} would lie outside of {clean_line(os.fsencode(folder))}")
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(f".{path.name}.restoring~")
        partial.write_bytes(data)
        if path.exists():
            partial.chmod(path.stat().st_mode & 0o777)
        partial.replace(path)


def _rss_bytes() -> int:
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
    except (OSError, ValueError, IndexError):
        return 0


class _LogToClients(logging.Handler):
    """Sends the engine's own log lines into the event stream."""

    def __init__(self, publish: Callable[[str, str], None]) -> None:
        super().__init__(logging.INFO)
        self._publish = publish

    def emit(self, record: logging.LogRecord) -> None:
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return  # from a thread: it is in the file
        text = clean_line(record.getMessage(), limit=2000)
        loop.call_soon(self._publish, record.levelname, text)


def _say_last(error: Exception) -> None:
    """Tell whoever started us why there is no engine, whether or not the log could be written."""
    told = str(error)
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        with contextlib.suppress(paths.UnsafePathError):
            told = f"{error.strerror} in {paths.state_dir()}: free some, or set AISP_STATE to a folder on another disk"
    with contextlib.suppress(OSError):
        print(f"aisp engine: {told}", file=sys.stderr)  # noqa: T201  the client that started us reads it


def main() -> int:
    """Be the engine of this state directory, unless there is one."""
    logging.raiseExceptions = False  # a log that cannot be written is no reason to say so line by line
    try:
        descriptor = lock.take()
    except (paths.UnsafePathError, OSError) as error:
        _say_last(error)
        return 1
    if descriptor is None:
        return paths.EXIT_ALREADY_RUNNING
    held = Lock(descriptor)
    handler = LogFile(paths.log_file())
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)-7s %(name)s: %(message)s"))
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    logging.getLogger("watchfiles").setLevel(logging.WARNING)  # it logs every change it sees
    try:
        asyncio.run(_serve(held))
    except (StoreError, paths.UnsafePathError, OSError) as error:
        log.error("%s", error)
        _say_last(error)
        return 1
    finally:
        held.close()
    return 0


async def _serve(held: Lock) -> None:
    await Engine(held).serve()


if __name__ == "__main__":
    sys.exit(main())
