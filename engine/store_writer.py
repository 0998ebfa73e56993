"""The one writer of the store, behind a lock: it waits for what passes, and follows a store that was moved.

Whatever writes to the store asks here, one piece of work at a time, off the loop. Results, which must not be lost, wait
out a full disk and a foreign lock; somebody who waits for an answer hears of them at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import logging
import os
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from aisp.engine import filesystem, paths
from aisp.engine.broadcast import Broadcast
from aisp.engine.life import Life
from aisp.engine.lock import Lock, LockGoneError
from aisp.engine.plan import Plan
from aisp.engine.planning import PlanError
from aisp.kernels.catalog.sources import size_text
from aisp.store import upkeep
from aisp.store.errors import StoreError, StoreFullError, StoreGoneError, StoreHeldError, StoreLockedError
from aisp.store.outcomes import State
from aisp.store.text import clean_line
from aisp.store.writer import Store

log = logging.getLogger("aisp.engine")
T = TypeVar("T")

LOCK_PAUSE_S = 0.5
MOST_FOLLOWED = 3  # stores that one call may follow at the path; then it waits as for a full disk


def _look(store: Store) -> None:
    """Look whether the store is the one that was opened, and put modes right that were changed."""
    with contextlib.suppress(OSError, paths.UnsafePathError):  # whoever wants to write there says what is wrong
        paths.keep_private()
    store.look()


_answer_awaited = contextvars.ContextVar("_answer_awaited", default=False)
"""Whether a client waits for the answer of a store call; results, which must not be lost, wait out every trouble."""


class StoreWriter:
    """The store of one engine.

    Attributes:
        waits: why results wait in memory, as it was reported; "" where they do not.
        note: "" for a store that keeps a write-ahead log; else what it keeps, and why.
        under_way: runs that have not ended, each with its state, and the sources of all jobs.
        moved: called when the state folder was locked anew.
    """

    def __init__(self, held: Lock, life: Life, broadcast: Broadcast) -> None:
        self.waits = ""
        self.under_way: Callable[[], tuple[Sequence[tuple[Plan, State]], Sequence[dict[str, bytes]]]] = lambda: ([], [])
        self.moved: Callable[[], Awaitable[None]]
        self._held, self._life, self._banner = held, life, broadcast.banner
        self._store: Store
        self._lock = asyncio.Lock()
        self._network = filesystem.network(paths.state_dir())
        self.note = self._network and (
            f"the store lies on a network file system ({self._network}) and keeps a rollback journal, since a "
            "write-ahead log needs memory that all of its readers share; AISP_STATE on a local disk is faster"
        )

    async def open(self) -> None:
        """Open the store, and wait where another program has locked it. Raises StoreError."""

        def examining(size_bytes: int) -> bool:
            self._life.starting = f"examining the store, {size_text(size_bytes)}"
            return self._life.stopping.is_set()

        if self._network:
            log.warning("%s lies on %s: %s", paths.state_dir(), self._network, self.note)
        while True:
            try:
                self._store = await asyncio.to_thread(
                    Store.open, paths.database_file(), wal=not self._network, examining=examining
                )
            except StoreLockedError as error:
                if self._life.stopping.is_set():
                    raise
                if self._life.starting != (why := clean_line(str(error))):
                    self._life.starting = why
                    log.warning("%s; waiting", why)
                await asyncio.sleep(LOCK_PAUSE_S)
            else:
                return

    async def take_stock(self) -> list[str]:
        """Report what opening the store took. Returns the runs that were under way when the engine before was lost."""
        self._report_opened()
        lost = await self.call(lambda store: store.mark_lost(self._life.epoch))
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

    async def call(self, work: Callable[[Store], T]) -> T:
        """Let the one writer do some work, off the loop, one piece at a time.

        It waits out a full disk, a foreign lock, and a store that is not at its path and cannot be followed.
        """
        async with self._lock:
            while True:
                try:
                    result = await self._attempt(work)
                except (StoreFullError, StoreLockedError, StoreGoneError) as error:
                    if _answer_awaited.get():
                        raise
                    full = isinstance(error, StoreFullError) and not isinstance(error, StoreHeldError)
                    if full and await asyncio.to_thread(upkeep.release_ballast, self._store.path):
                        self._banner("disk", f"{error}; a reserve of 16 MiB was given up for results", "error")
                        continue
                    if not self._life.ready.is_set():
                        self._life.starting = clean_line(str(error))
                    self._report_waiting(error)
                    if self._life.stopping.is_set():
                        raise
                    await asyncio.sleep(2.0)
                else:
                    self._report_waiting(None)
                    return result

    async def ask(self, work: Callable[[Store], T]) -> T:
        """`call` for a client that waits for an answer. Where nothing can be stored it raises PlanError at once,
        and the reserve is kept for results.
        """
        if self.waits:
            raise PlanError(f"{self.waits}; nothing was planned")
        token = _answer_awaited.set(True)
        try:
            return await self.call(work)
        except (StoreFullError, StoreLockedError, StoreGoneError) as error:
            raise PlanError(clean_line(f"{error}; nothing was planned", limit=2000)) from None
        finally:
            _answer_awaited.reset(token)

    def _report_waiting(self, error: StoreError | None) -> None:
        """Say once that nothing can be stored, and once that it can be again."""
        if error is not None and not self.waits:
            self.waits = f"{error}; results wait in memory and runs are paused"
            self._banner("store", self.waits, "error")
        elif error is None and self.waits:
            self.waits = ""
            self._banner("store", "")

    async def look(self) -> None:
        """Check once that lock and store are still ours, and mend what can be mended."""
        async with self._lock:
            try:
                await self._attempt(_look)
            except StoreError as error:
                self._report_waiting(error)
            else:
                self._report_waiting(None)

    async def _attempt(self, work: Callable[[Store], T]) -> T:
        """Let the writer do some work once, in the store that is at the path and under a lock that is ours.

        Raises StoreGoneError where there is no store and none can be made now, and what the writer raises.
        """

        def call() -> T:
            self._held.look()
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
            if not self._held.retake():
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
            self._life.stopping.set()
            return
        log.warning("the lock of %s was removed, or the folder with it; it is locked again", state)
        await self.moved()

    async def _follow_store(self) -> None:
        """Part with a store that is not at its path, open the one that is, and journal there the runs that are on their
        way.

        Raises StoreFullError, StoreLockedError, StoreGoneError: it cannot be done now, and nothing is lost.
        """
        plans, files = self.under_way()
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
                lost = [] if self._held.lost else store.mark_lost(self._life.epoch)
                for each in files:
                    store.put_snapshot(each)
                for described in old.environments.values():
                    store.put_environment(described)
                unknown = [(plan, state) for plan, state in plans if not store.knows(plan.record.id)]
                store.plan([plan.record for plan, _ in unknown])
                for plan, state in unknown:
                    if state is not State.PLANNED:
                        store.advance(plan.record.id, state)
            except BaseException:
                store.close()
                raise
            clauses = [parted.text]
            if not parted.in_place:
                clauses.append(goes_on)
            elif gone := sum(not store.knows(run_id) for run_id in old.finished):
                clauses.append(f"{gone} run(s) that were stored in it are gone")
            if unknown:
                clauses.append(f"{len(unknown)} run(s) that were on their way go into it")
            return "; ".join(clauses), store, lost

        try:
            outcome = await asyncio.to_thread(follow)
        except (StoreFullError, StoreLockedError, StoreGoneError):
            raise
        except (paths.UnsafePathError, OSError, StoreError) as error:
            raise self._homeless(error) from error
        if outcome is None:
            return
        text, self._store, lost = outcome
        self._report_opened()
        self._report_lost(lost)
        text += ". `aisp engine --stop` before files of its state are moved"
        self._banner("moved", clean_line(os.fsencode(text), limit=2000), "error")

    def _homeless(self, error: Exception) -> StoreGoneError:
        """The error for a place without results. The engine ends where it would not be safe to make one."""
        if isinstance(error, paths.UnsafePathError) and not self._life.stopping.is_set():
            self._banner("lock", f"{error}; the engine ends", "error")
            self._life.stopping.set()
        return StoreGoneError(str(error))

    async def tend(self, chores: upkeep.Upkeep, idle_s: float) -> None:
        """Backups and the like, while nobody wants anything. A run that is asked for meanwhile begins behind them."""
        async with self._lock:
            try:
                notices = await self._attempt(lambda store: chores.tend(store, idle_s))
            except StoreError as error:
                self._report_waiting(error)
                return
        for news in notices:
            self._banner(news.key, clean_line(news.text), news.severity)

    async def glance(self) -> None:
        """`look`, unless somebody is at work in the store, who looks himself."""
        if not self._lock.locked():
            await self.look()

    async def close(self) -> None:
        """What was written since the last look goes into the file at the path."""
        await self.look()
        await asyncio.to_thread(self._store.close)
