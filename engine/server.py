"""The engine process, started by engine.client. One per user and state directory; it outlives its clients.

It listens as soon as it has the lock. Until the store is known to be whole it only says what it is doing: it writes
nothing and starts no process.

One asyncio loop serves the clients, runs the queue, watches folders and owns the one writer of the store. One job runs
at a time, because whatever runs beside a measurement disturbs it. The engine never imports torch nor a lesson.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import errno
import functools
import logging
import math
import os
import resource
import signal
import socket
import sys
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from aisp.engine import (
    corpus,
    filesystem,
    guard,
    lock,
    nursery,
    paths,
    planning,
    silence,
    snapshots,
    spawner,
    workplaces,
)
from aisp.engine.affected import affected
from aisp.engine.caches import Caches
from aisp.engine.client import build_id
from aisp.engine.fuzzing import FuzzPlan
from aisp.engine.guarding import Guarding
from aisp.engine.installed import Installation, state_file
from aisp.engine.journal import ClientGoneError, Journal, Outbox
from aisp.engine.lease import leased
from aisp.engine.lock import Lock, LockGoneError
from aisp.engine.logfile import LogFile
from aisp.engine.plan import Plan
from aisp.engine.planning import Hardware, PlanError
from aisp.engine.pool import Pool
from aisp.engine.protocol import PROTOCOL, events, requests
from aisp.engine.protocol.framing import MAX_REQUEST_BYTES, Decoder, Encoder, FrameError
from aisp.engine.queue import AnyJob, AnyPlan, FuzzJob, PeakJob, PeakPlan, RunJob
from aisp.engine.services import Services, StoreCall
from aisp.engine.telemetry import Nvml
from aisp.engine.watch import Announce, Watch
from aisp.kernels import catalog
from aisp.kernels.catalog.model import Target
from aisp.kernels.catalog.sources import size_text
from aisp.store import upkeep
from aisp.store.errors import StoreError, StoreFullError, StoreGoneError, StoreLockedError
from aisp.store.outcomes import State, Trigger
from aisp.store.record import INSTALLED_CHECK, Arm
from aisp.store.text import clean_line
from aisp.store.ulid import new_ulid
from aisp.store.writer import Store

log = logging.getLogger("aisp.engine")
T = TypeVar("T")

WARM_PROCESSES = 3  # a baseline, a rung and the verifier
WARM_IDLE_S = 600.0
HOUSEKEEPING_S = paths.positive_setting("AISP_HOUSEKEEPING_S", 5.0)  # tests shorten it
REMEMBERED_REPLIES = 256
LOG_LINES = 2000
MOST_PLANNED = 1000
MOST_FUZZES = 64
MOST_CUT = 3  # runs of a watch in a row that later saves may end where rungs can write into the folder
MOST_WATCHES = 32  # each holds a thread that waits, of the 40 that the watcher may have, and an inotify instance
MOST_CONNECTIONS = 64  # of clients that have said hello; each may hold a frame of MAX_REQUEST_BYTES
MOST_GREETING = 128  # of those that have not; more than are accepted at once, so that a hello is read first
HANDSHAKE_LIMIT_S = 10.0
PULSE_S = 2.0  # client.SILENCE_S is several of these
STARTING_PULSE_S = 0.1  # a client that waits for the start hears of its end
LOCK_PAUSE_S = 0.5
MOST_FOLLOWED = 3  # stores that one call may follow at the path; then it waits as for a full disk
MOST_UNREAD = 16  # answered requests of a client that does not read; the next one waits
UNREAD_LIMIT_S = 60.0


_answer_awaited = contextvars.ContextVar("_answer_awaited", default=False)
"""Whether a client waits for the answer of a store call; results, which must not be lost, wait out every trouble."""


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
        self._store_waits = ""  # why results wait in memory, as it was reported
        self._followed = False  # whether the store is not the file that was opened first
        self._pool = Pool(
            interpret=not self._hardware.gpus, open_nursery=spawner.open_nursery if nursery.wanted() else None
        )
        self._waits_reported = False
        self._pool.report = self._report_wait
        self._installation = Installation(state_file())
        self._guarding = Guarding(
            self._installation,
            self._pool,
            self._banner,
            lambda: self._call_store(lambda store: store.release(INSTALLED_CHECK)),
        )
        self._queue: list[AnyJob] = []
        self._wake = asyncio.Event()
        self._planning = asyncio.Lock()  # from the look for the same run to its place in the queue
        self._watches: dict[str, tuple[Watch, asyncio.Task[None]]] = {}
        self._cut: Counter[str] = Counter()  # by target: runs in a row that a later save has ended
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
        # Held, so that its inode goes to no other folder.
        self._folder = os.open(paths.state_dir(), os.O_PATH | os.O_CLOEXEC)
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
            os.dup2(sink.fileno(), 2)  # the client that started us read it until now, and may go away
        loops = [loop.create_task(work) for work in (self._work_queue(), self._housekeeping(), guard.watch())]
        try:
            await self._stopping.wait()
        finally:
            await self._shut_down(loops)

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
        """Report what opening the store took. Returns the runs that were under way when the engine before was lost."""
        self._report_opened()
        lost = await self._call_store(lambda store: store.mark_lost(self.epoch))
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

    async def _shut_down(self, loops: list[asyncio.Task[None]]) -> None:
        log.info("engine %s is stopping", self.epoch)
        if self._server is not None:
            self._server.close()
        for _, task in self._watches.values():
            task.cancel()
        for loop in loops:
            loop.cancel()
        queue = self._in_order()
        running = [job.task for job in queue if job.task is not None]
        for task in running:
            task.cancel()
        await asyncio.gather(*running, *loops, *(t for _, t in self._watches.values()), return_exceptions=True)
        for job in queue:
            await self._conclude(job, "cancelled: the engine was stopped")
        await self._pool.close()
        await spawner.all_ended()
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
        """Listen on the socket. The holder of the lock may remove what lies at its path. Raises OSError."""
        try:
            self._socket_path, pointer = paths.socket_file(paths.identity(self._folder)), paths.pointer_file()
        except paths.UnsafePathError as error:
            raise OSError(str(error)) from None  # _bind_again goes on after an OSError
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
        """Listen on a socket of the folder that is at the path now. Present connections go on."""
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
        """Look every few seconds after lock, store, socket, standbys, backups and orphans.

        An orphan is a process that could not be killed at the time and has ended since.
        """
        chores = upkeep.Upkeep()
        while True:
            await asyncio.sleep(HOUSEKEEPING_S)
            await spawner.sweep_orphans()
            if not self._store_lock.locked():  # its holder looks itself
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

    # -- reporting -----------------------------------------------------------------------------------------------------

    def _publish(self, event: events.Event) -> None:
        self._journal.publish(event)
        if isinstance(event, events.RunState):
            for job in self._queue:
                if job.id == event.run_id:
                    job.state = event.state
        elif ended := _ended(event):
            # A client that has heard of the end must not find the job in the queue, nor follow it.
            self._queue = [job for job in self._queue if job.id != ended]

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

    async def _call_store(self, work: Callable[[Store], T]) -> T:
        """Let the one writer do some work, off the loop, one piece at a time.

        It waits out a full disk, a foreign lock, and a store that is not at its path and cannot be followed.
        """
        async with self._store_lock:
            while True:
                try:
                    result = await self._attempt(work)
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
                    return result

    async def _ask_store(self, work: Callable[[Store], T]) -> T:
        """`_call_store` for a client that waits for an answer. Where nothing can be stored it raises PlanError at once,
        and the reserve is kept for results.
        """
        if self._store_waits:
            raise PlanError(f"{self._store_waits}; nothing was planned")
        token = _answer_awaited.set(True)
        try:
            return await self._call_store(work)
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
        """Check once that lock and store are still ours, and mend what can be mended."""
        async with self._store_lock:
            try:
                await self._attempt(Store.look)
            except StoreError as error:
                self._report_waiting(error)
            else:
                self._report_waiting(None)

    async def _attempt(self, work: Callable[[Store], T]) -> T:
        """Let the writer do some work once, in the store that is at the path and under a lock that is ours.

        Raises StoreGoneError where there is no store and none can be made now, and what the writer raises.
        """

        def call() -> T:
            self._lock.look()
            return work(self._store)

        for _ in range(MOST_FOLLOWED):
            try:
                return await asyncio.to_thread(call)
            except LockGoneError:
                await self._retake_lock()
            except StoreGoneError:
                await self._follow_store()
        raise StoreGoneError(f"{self._store.path} changes all the time: let nobody but the engine write there")

    async def _retake_lock(self) -> None:
        """Lock the state folder again, made anew if need be. An engine whose place was taken ends."""

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
        self._pool.renew()  # a standby may have lost its folder

    async def _follow_store(self) -> None:
        """Part with a store that is not at its path, open the one that is, and journal there the runs that are on their
        way.

        Raises StoreFullError, StoreLockedError, StoreGoneError: it cannot be done now, and nothing is lost.
        """
        plans = [(job.plan, job.state) for job in self._runs]
        files = [job.plan.files for job in self._queue if isinstance(job, (RunJob, FuzzJob))]
        old = self._store

        def follow() -> tuple[str, Store, list[str]] | None:
            paths.make_private(paths.state_dir())
            parted = old.part()
            if parted is None:
                return None
            goes_on = "the one that is there now is used" if old.path.exists() else "a new store was begun there"
            store = Store.open(old.path, wal=not filesystem.network(old.path.parent))
            try:
                # Runs that are on their way for another engine are that engine's affair.
                lost = [] if self._lock.lost else store.mark_lost(self.epoch)
                for each in files:
                    store.put_snapshot(each)
                if old.environment:
                    store.put_environment(old.environment)
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
        """The error for a place without results. The engine ends where it would not be safe to make one."""
        if isinstance(error, paths.UnsafePathError) and not self._stopping.is_set():
            self._banner("lock", f"{error}; the engine ends", "error")
            self._stopping.set()
        return StoreGoneError(str(error))

    # -- queue ---------------------------------------------------------------------------------------------------------

    @property
    def _busy(self) -> bool:
        return bool(self._queue)

    def _in_order(self) -> list[AnyJob]:
        """Every job: the one under way, then the one whose turn is first."""
        return sorted(self._queue, key=lambda job: (job.task is None, job.order))

    @property
    def _runs(self) -> list[RunJob]:
        return [job for job in self._queue if isinstance(job, RunJob)]

    @functools.cached_property
    def _services(self) -> Services:
        return Services(
            publish=self._publish,
            store=self._call_store,
            pool=self._pool,
            nvml=self._nvml,
            snapshots_dir=paths.snapshots_dir(),
            gpu=self._hardware.index,
            on_lost_gpu=self._degrade,
            next_processes=self._next_processes,
            look_after=self._guarding.after,
            caches=Caches(paths.compiled_dir(), paths.cache_links_dir()),
        )

    def _next_processes(self) -> tuple[int, int]:
        """How many processes the run behind the present one will take, and how many of them use torch's compiler.

        They are those of its arms, of the A/A arm, and the verifier.
        """
        waiting = next((job.plan for job in self._runs[1:2] if not job.plan.problem), None)
        if waiting is None:
            return 0, 0
        arms = (*waiting.rungs, *waiting.rungs[:1])
        compilers = sum(map(waiting.compiles, arms))
        return len(arms) * waiting.target.ranks + 1, compilers * waiting.target.ranks

    async def _work_queue(self) -> None:
        """Carry out one job after the other. Nothing that a job does can end this loop."""
        while True:
            while not self._queue:
                self._wake.clear()
                await self._wake.wait()
            job = self._in_order()[0]
            job.refuse(await self._guarding.before(job.guarded))
            if job not in self._queue:  # cancelled, or superseded, meanwhile
                continue
            if self._degraded and job.plan.device == "cuda":
                job.refuse(f"the GPU is set aside: {self._degraded}")
            job.task = asyncio.create_task(self._in_slot(job))
            job.began_s = time.monotonic()
            try:
                await asyncio.wait({job.task})
                await self._conclude(job)
            finally:
                self._drop(job)
                self._last_activity = time.monotonic()
            if isinstance(job, RunJob):
                self._runs_done += 1
                await self._report_watch(job)

    async def _in_slot(self, job: AnyJob) -> None:
        """Carry out a job while no other engine of the machine uses the GPUs that it needs.

        Cancelled while it waits for them, it has not begun.
        """
        whose = job.guarded
        silence.banner.set(self._banner)
        try:
            if job.plan.problem or job.plan.device != "cuda":
                await job.carry_out()
                return
            async with leased(self._uuids(every=job.every_gpu), lambda text: self._banner("lease", text)):
                await self._guarding.before(whose)  # what was installed while it waited is none of its doing
                await job.carry_out()
        finally:
            if whose:
                await asyncio.shield(self._guarding.after(whose))

    async def _conclude(self, job: AnyJob, reason: str = "cancelled before it began") -> None:
        """Report the end of a job that could not report it itself; `reason` is for one that was never started."""
        try:
            if job.task is None:
                await self._end_unstarted(job, reason)
            elif job.task.cancelled():  # before its first step, or while it waited for a GPU
                await self._end_unstarted(job, "cancelled before it began")
            else:
                job.task.result()
        except Exception as error:  # whatever it is, the next job begins
            await job.failed(error)

    async def _end_unstarted(self, job: AnyJob, reason: str) -> None:
        self._drop(job)
        await job.unstarted(reason)

    def _drop(self, job: AnyJob) -> None:
        if job in self._queue:
            self._queue.remove(job)
        if not self._runs:
            self._pool.expect(0)  # the one before may have expected processes for this one, which was cancelled

    def _uuids(self, *, every: bool = False) -> list[str]:
        """UUIDs of the GPU that runs are placed on, or of every GPU, where the driver tells them."""
        wanted = [d for d in self._hardware.devices if every or d.index == self._hardware.index]
        return [device.uuid for device in wanted if device.uuid]

    async def _recall_peak(self) -> None:
        """Read the newest ceilings that were measured of this GPU before."""
        uuids = self._uuids() if self._hardware.gpus else []
        if uuids:
            self._services.peak = await self._call_store(lambda store: store.latest_peak(uuids[0]))

    def _degrade(self, reason: str) -> None:
        if not self._hardware.gpus:
            self._banner("process", f"{reason}; the engine goes on without it", "error")
            return
        if self._degraded:
            return
        self._degraded = reason
        self._banner("gpu", f"the GPU is set aside: {reason}; `aisp engine stop` and start looks again", "error")

    def _same(self, plan: AnyPlan, *, again: bool) -> str:
        """Id of the job that does what `plan` would; "" where there is none, or one more is wanted."""
        return next((job.id for job in self._queue if not again and job.same(plan)), "")

    def _add(self, job: AnyJob, *, warm: bool = True) -> None:
        """Let a job wait for its turn; `warm` keeps processes standing by for it."""
        self._queue.append(job)
        self._last_activity = time.monotonic()
        if warm and not job.plan.problem:
            self._pool.keep(WARM_PROCESSES)
        self._wake.set()

    async def _enqueue(self, plans: list[Plan], store: StoreCall, announce: Callable[[], None] = lambda: None) -> None:
        """Journal all by `store`, report what they are for and then each of them, and let them start."""
        records = [plan.record for plan in plans]

        def journal(writer: Store) -> list[float | None]:
            writer.plan(records)
            return [writer.last_duration_s(record) for record in records]

        expected_s = await store(journal)  # in one go: somebody waits for the first sample
        announce()
        for plan, seconds in zip(plans, expected_s, strict=True):
            job = RunJob(plan, self._services)
            job.expected_s = seconds
            self._add(job)
            arms = (Arm(rung.name, State.PLANNED, role=rung.role) for rung in plan.rungs)
            self._publish(events.RunPlanned(run=plan.record.announced(arms)))
        if self._followed:  # the store before may have their sources
            await self._call_store(lambda writer: [writer.put_snapshot(plan.files) for plan in plans])

    # -- watches -------------------------------------------------------------------------------------------------------

    async def _run_edit(
        self,
        target: Target,
        files: dict[str, bytes],
        number: int,
        changed: set[str] | None,
        announce: Announce,
        device: str,
    ) -> tuple[str, str]:
        """Store an edit's sources and plan its run. It ends those of the watch's earlier saves, waiting or running, and
        takes over their rungs. What people asked for goes on.

        A run that writes a source itself would end itself for ever where nothing keeps rungs from writing there: of
        MOST_CUT in a row the next one comes to its end, and says what it wrote.

        `number`, `changed`, `announce`: see watch.RunIt.
        """
        snapshot = await self._call_store(lambda store: store.put_snapshot(files))
        if changed is None:
            return snapshot, ""
        rungs = await asyncio.to_thread(affected, target, changed) if changed else ()
        known = {rung.name for rung in target.rungs}
        earlier = self._edits_of(target)
        if rungs:
            rungs += tuple(rung.name for job in earlier for rung in job.plan.rungs if rung.name in known)
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
            return snapshot, str(error)
        reason = f"superseded by edit {number}" if number else "superseded by a watch that began anew"
        for job in earlier:
            if job.task is None:
                job.supersede(reason)
                await self._end_unstarted(job, reason)
            elif not job.superseded and not (job.may_write and self._cut[target.id] >= MOST_CUT):
                job.supersede(reason)
        await self._enqueue([plan], self._call_store, lambda: announce(snapshot, plan.id))
        return snapshot, ""

    def _edits_of(self, target: Target) -> list[RunJob]:
        """Runs of a target that its watch has planned and that have not ended."""
        ours = [job for job in self._runs if job.plan.record.trigger is Trigger.WATCH]
        return [job for job in ours if (job.plan.target.id, job.plan.target.folder) == (target.id, target.folder)]

    async def _report_watch(self, ended: RunJob) -> None:
        """Report a run's end to the watch of its target. Drops runs that were planned only for files that this run
        wrote.
        """
        target, were = ended.plan.target, ended.plan.files
        self._cut[target.id] = self._cut[target.id] + 1 if ended.cut else 0
        found = self._watches.get(target.id)
        if found is None:
            return
        found[0].run_ended(ended.written)
        for job in self._edits_of(target):
            files = job.plan.files
            changed = {name for name in files.keys() | were.keys() if files.get(name) != were.get(name)}
            if changed and changed <= ended.written.keys():
                names = ", ".join(clean_line(os.fsencode(name)) for name in sorted(changed))
                await self._end_unstarted(job, f"{names} was written by the run before, not by a save")

    def _plan(self, target: Target, files: dict[str, bytes], snapshot: str, **options: Any) -> Plan:
        self._runs_planned += 1
        return planning.plan(
            target, files, snapshot, self._hardware, epoch=self.epoch, seq=self._runs_planned, **options
        )

    # -- connections ---------------------------------------------------------------------------------------------------

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._greeting) >= MOST_GREETING:
            # A client says hello at once; the oldest connection has been silent longest.
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
        """Serve one client, one request at a time, from its handshake to its end. Its faults end its own connection
        only.
        """
        outbox = Outbox()
        sender: asyncio.Task[None] | None = None
        warm = False
        stopping = False
        try:
            if not _same_user(writer):
                _warn_seldom("a connection of another user was refused")
                return
            if (pid := _started_by_us(writer)) is not None:
                # A process that runs a kernel must not ask the engine to end, nor to cancel its rivals.
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
                    # The sender gets its turn after every request. What it could not send, the client has not read.
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
            # The past in pieces, while new events go on; no event is missing or sent twice.
            while seq < self._journal.next_seq:
                data, seq = self._journal.piece(seq)
                writer.write(data)
                async with asyncio.timeout(30.0):
                    await writer.drain()
            self._journal.outboxes.add(outbox)

    async def _send(self, outbox: Outbox, writer: asyncio.StreamWriter, *, pulse: bool, starting: str) -> None:
        """Hand a client's queue to its socket at the pace at which it is read.

        With `pulse` it sends a Pulse where the queue is empty, and one at the end of `starting`, of which the client
        knows.
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
                    runs = len(self._runs)
                    waiting = f"{runs} run(s)" if runs else self._queue[0].ends
                    return events.Reply(to=request.seq, detail=f"stops after {waiting}")
                asyncio.get_running_loop().call_later(0.05, self._stopping.set)
                return events.Reply(to=request.seq, detail="stopping")
            case _:
                raise PlanError(f"{type(request).__name__} is not a request")

    async def _start_runs(self, request: requests.StartRuns) -> events.Reply:
        if not request.targets:
            raise PlanError("no targets were named; `aisp bench list-targets` shows them")
        runs = len(self._runs)
        if runs + len(request.targets) > MOST_PLANNED:
            raise PlanError(f"{runs} runs are planned already, {MOST_PLANNED} is the most")
        found = await asyncio.to_thread(planning.load_catalog, request.roots)
        async with self._planning:
            return await self._plan_runs(request, found)

    async def _plan_runs(self, request: requests.StartRuns, found: catalog.Catalog) -> events.Reply:
        """Plan a run of each target, and join those that are on their way; one request at a time."""
        trigger = Trigger.TUI if request.trigger == "tui" else Trigger.CLI
        plans: list[Plan] = []
        run_ids: list[str] = []
        joined: list[str] = []
        refused: dict[str, str] = {}
        for name in request.targets:
            target = found.find(name)
            if why := planning.cannot_run(
                target, self._hardware, rungs=request.rungs, device=request.device, case=request.case
            ):
                refused[target.id] = why
                continue
            files = await asyncio.to_thread(catalog.read_sources, target)
            snapshot = await self._ask_store(functools.partial(Store.put_snapshot, files=files))
            plan = self._plan(
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
            same = self._same(plan, again=request.again)
            run_ids.append(same or plan.id)
            if same:
                joined.append(same)
            else:
                plans.append(plan)
        if not run_ids:
            reasons = {why: [name for name, its in refused.items() if its == why] for why in refused.values()}
            raise PlanError(". ".join(f"{', '.join(names)} cannot run here: {why}" for why, names in reasons.items()))
        if plans:
            await self._enqueue(plans, self._ask_store)
        return events.Reply(to=request.seq, run_ids=run_ids, refused=refused, joined=joined)

    async def _start_fuzz(self, request: requests.FuzzTarget) -> events.Reply:
        root = str(corpus.root()) if request.root == corpus.NAME else request.root
        found = await asyncio.to_thread(planning.load_catalog, [root] if root else [])
        target = found.find(request.target)
        files = await asyncio.to_thread(catalog.read_sources, target)
        snapshot = await self._ask_store(lambda store: store.put_snapshot(files))
        return self._ask_fuzz(planning.plan_fuzz(target, files, snapshot, self._hardware, request), request)

    async def _start_replay(self, request: requests.ReplayFailure) -> events.Reply:
        failure = await self._call_store(lambda store: store.failure(request.failure))
        files = await self._call_store(lambda store: store.snapshot(failure.snapshot))
        name = failure.target.rpartition(":")[2]
        folder = await asyncio.to_thread(snapshots.lay_out, paths.snapshots_dir(), failure.snapshot, name, files)
        return self._ask_fuzz(planning.plan_replay(failure, files, folder, self._hardware), request)

    def _ask_fuzz(self, plan: FuzzPlan, request: requests.FuzzTarget | requests.ReplayFailure) -> events.Reply:
        if same := self._same(plan, again=request.again):
            return events.Reply(to=request.seq, run_ids=[same], joined=[same])
        planned = sum(isinstance(job, FuzzJob) for job in self._queue)
        if planned >= MOST_FUZZES:
            raise PlanError(f"{planned} fuzzes are planned already; wait, or cancel them")
        self._add(FuzzJob(plan, self._services))
        self._publish(plan.planned())
        return events.Reply(to=request.seq, run_ids=[plan.id])

    def _measure_peak(self, request: requests.MeasurePeak) -> events.Reply:
        """Queue a measurement of ceilings."""
        if not self._hardware.gpus:
            raise PlanError(f"ceilings need a GPU: {self._hardware.note}")
        if self._degraded:
            raise PlanError(f"the GPU is set aside: {self._degraded}")
        plan = PeakPlan(new_ulid())
        if same := self._same(plan, again=request.again):
            return events.Reply(to=request.seq, run_ids=[same], joined=[same])
        asked = PeakJob(plan, self._services)
        self._add(asked, warm=False)
        return events.Reply(to=request.seq, run_ids=[asked.id])

    async def _cancel(self, request: requests.Cancel) -> events.Reply:
        wanted = [job for job in self._queue if request.run_id in ("", job.id)]
        if request.run_id and not wanted:
            return events.Reply(to=request.seq, error=f"run {clean_line(request.run_id)} is not planned or running")
        for job in wanted:
            if job.task is None:
                await self._end_unstarted(job, "cancelled before it began")
            else:
                job.task.cancel()
        return events.Reply(to=request.seq, run_ids=[job.id for job in wanted])

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

        run_it = functools.partial(self._run_edit, device=request.device)

        def running() -> bool:
            return any(job.task is not None and job.plan.record.target == target.id for job in self._runs)

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
        kept = await self._call_store(lambda store: store.put_snapshot(present))
        wanted = await self._call_store(lambda store: store.snapshot(request.snapshot))
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
            queue=[job.item() for job in self._in_order()],
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
            not_forked=clean_line(self._pool.not_forked),
            clients=len(self._journal.outboxes),
            runs_done=self._runs_done,
            starting=self._starting,
            store_note=self._store_note(),
        )


def _ended(event: events.Event) -> str:
    """Id of the job whose end this tells; "" for any other event."""
    match event:
        case events.RunFinished():
            return event.run_id
        case events.FuzzFinished() | events.LintFinished() | events.ReplayFinished():
            return event.fuzz_id
        case events.PeakFinished():
            return event.peak_id
    return ""


def _same_user(writer: asyncio.StreamWriter) -> bool:
    connection: socket.socket | None = writer.get_extra_info("socket")
    if connection is None:
        return False
    return paths.peer_uid(connection) == os.getuid()


def _started_by_us(writer: asyncio.StreamWriter) -> int | None:
    """PID of a client that descends from this process; None for any other.

    A client that is gone already counts as one: nobody is left to read an answer, and a lesson may ask and leave.
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
    """Log what a stranger can cause at will, at most once a second, so that the log keeps what else happened."""
    now = time.monotonic()
    if now - _warned.get(text, -math.inf) >= 1.0:
        _warned[text] = now
        log.warning("%s", text)


def _write_back(folder: Path, wanted: dict[str, bytes], present: dict[str, bytes]) -> None:
    """Replace the files that differ, each at once. Files that the snapshot does not know stay."""
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
    """Tell the program that started us why there is no engine, even where the log could not be written."""
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
