"""Carries the tasks' rows to the engine, a few at a time, and notes what comes of them.

The rest waits in the table, so that whoever sits before the app does not wait behind a thousand candidates. A row is
leased before the engine is asked, and its run's id noted behind that: whichever process dies, the row is found again. A
run that has ended meanwhile is read from the store, one that goes on is followed, one that the engine lost is run once
more, and a second time it is given up.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

from aisp.engine import client
from aisp.engine.client import Connection, EngineUnavailableError
from aisp.engine.doors import api, asking
from aisp.engine.doors.serve import evaluations, tasks
from aisp.engine.doors.serve.evaluations import Ended, Failure
from aisp.engine.doors.serve.feed import Feed
from aisp.engine.doors.serve.refusals import Kind, RefusalError
from aisp.engine.doors.serve.shelf import Shelf
from aisp.engine.doors.serve.tasks import PREFIX, Asked, Task, Tasks
from aisp.engine.protocol import events, requests
from aisp.store.candidates import Level, Row, owner_here
from aisp.store.errors import StoreError
from aisp.store.record import Run
from aisp.store.text import clean_line

log = logging.getLogger("aisp.serve")

MOST_OPEN = 1000
"""Workloads of tasks that wait or are under way; more are refused."""
PER_DEVICE = 2
"""Runs that the engine has of us for each device: one that is measured, and one behind it."""
MOST_TRIES = 2
"""Of a row whose engine was lost."""
TEND_S = 30.0
"""Between two looks at leases, ours and those of a server that is gone."""
LOOK_S = 5.0
"""Between two looks of a client that waits for a task which another server may end."""
BUSY_RETRY_S = 10.0
AGAIN_S = (0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
"""Pauses between attempts to reach an engine."""
T = TypeVar("T")


class Clerk:
    """One for the server.

    Attributes:
        engine: the connection; None while there is none.
        problem: why there is none.
        status: what the engine said of itself last.
    """

    def __init__(self, shelf: Shelf, feed: Feed, *, device: str = "auto", quick: bool = False) -> None:
        self.shelf, self.feed = shelf, feed
        self.device, self.quick = device, quick
        self.tasks = Tasks()
        self.engine: Connection | None = None
        self.problem = "the engine has not been asked yet"
        self.status: events.Status | None = None
        self.ending = asyncio.Event()
        self._owner = owner_here("serve")
        self._batches: deque[str] = deque()
        self._under_way: dict[str, list[Row]] = {}  # by run
        self._ends: deque[tuple[str, Run | None]] = deque()  # runs, as their ends were told
        self._lost = False  # events were
        self._wake = asyncio.Event()
        self._waiters: dict[int, set[asyncio.Event]] = {}  # by row
        self._connected = asyncio.Event()
        self._tended_s = -TEND_S

    # -- for the routes ------------------------------------------------------------------------------------------------

    async def submit(self, asked: Asked) -> Task:
        """The task of a request. Raises RefusalError where too many wait, or its id is taken."""
        if await self.open() + len(asked.cases) > MOST_OPEN:
            told = f"{MOST_OPEN} workloads wait already"
            raise RefusalError(Kind.TOO_MANY, told, "let some end first", retry_s=BUSY_RETRY_S)
        task, new = await asyncio.to_thread(self.tasks.put, asked)
        if new:
            self._batches.append(PREFIX + task.id)
            self._wake.set()
        return task

    async def task(self, task_id: str, timeout_s: float = 0.0) -> Task:
        """A task as it stands, or at its end where that comes within the timeout. Raises RefusalError for none."""
        until_s = time.monotonic() + timeout_s
        heard = asyncio.Event()
        watched: set[int] = set()
        try:
            while True:
                heard.clear()
                task = await asyncio.to_thread(self.tasks.find, task_id)
                left_s = until_s - time.monotonic()
                if task.ended or left_s <= 0 or self.ending.is_set():
                    return task
                for number in {row.number for row in task.rows.values()} - watched:
                    watched.add(number)
                    self._waiters.setdefault(number, set()).add(heard)
                    left_s = 0.0  # it may have ended before this
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(min(left_s, LOOK_S)):
                        await heard.wait()
        finally:
            for number in watched:
                self._waiters[number].discard(heard)
                if not self._waiters[number]:
                    del self._waiters[number]

    async def open(self) -> int:
        """Workloads of tasks that have not ended."""
        return await asyncio.to_thread(self.tasks.table.open_rows, PREFIX)

    async def ask(self, ask: Callable[[Connection], Any]) -> Any:
        """Ask the engine. Raises RefusalError where there is none."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(client.START_PATIENCE_S):
                await self._connected.wait()
        if self.engine is None:
            raise RefusalError(
                Kind.NO_ENGINE, self.problem, "try again; `aisp engine --start` says why it does not start"
            )
        try:
            return await ask(self.engine)
        except EngineUnavailableError as error:
            raise RefusalError(Kind.NO_ENGINE, clean_line(str(error), limit=500), "try again") from None

    async def placed(self) -> str:
        """ "cuda" where runs are on a GPU, else "cpu"."""
        if self.device != "auto":
            return self.device
        if self.status is None:
            self.status = await self.ask(lambda engine: engine.status())
        return "cpu" if self.status is None or self.status.gpu_note else "cuda"

    def end(self) -> None:
        """Let those who wait go: the server is being stopped."""
        self.ending.set()
        for waiting in self._waiters.values():
            for heard in waiting:
                heard.set()
        self.feed.end("the server is being stopped")

    # -- with the engine -----------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Work until cancelled; leases are given back then."""
        tries, said = 0, ""
        try:
            while True:
                try:
                    async with await client.connect_from_now(self._tell) as engine:
                        tries, said = 0, ""
                        await self._with(engine)
                    self.problem = "the engine went away"
                except EngineUnavailableError as error:
                    self.problem = clean_line(str(error), limit=500)
                except StoreError as error:
                    self.problem = f"the table of candidates: {clean_line(str(error), limit=500)}"
                except Exception as error:  # the server answers all the same, and tries again
                    self.problem = clean_line(f"the server failed ({type(error).__name__}: {error})", limit=500)
                    log.exception("the clerk failed")
                if self.problem != said:
                    log.warning("nothing can be run: %s", said := self.problem)
                await asyncio.sleep(AGAIN_S[min(tries, len(AGAIN_S) - 1)])
                tries += 1
        finally:
            with contextlib.suppress(StoreError):
                self.tasks.table.release(self._owner)
            self.tasks.close()

    def _tell(self, sentence: str) -> None:
        log.info("%s", sentence)

    async def _with(self, engine: Connection) -> None:
        """Work as long as this connection lives."""
        self.status = await engine.status()
        self.engine = engine
        self._connected.set()
        working = asyncio.create_task(self._work(engine))
        working.add_done_callback(lambda _: self._wake.set())
        listening = asyncio.create_task(self._listen(engine))
        try:
            done, _ = await asyncio.wait({working, listening}, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            self.engine = None
            self._connected.clear()
            working.cancel()
            listening.cancel()
            await asyncio.gather(working, listening, return_exceptions=True)

    async def _listen(self, engine: Connection) -> None:
        async for batch in engine.batches():
            for event in batch:
                self.feed.publish(event)
                if isinstance(event, events.RunFinished) and event.run_id in self._under_way:
                    self._ends.append((event.run_id, event.run))
                    self._wake.set()
                elif isinstance(event, events.Gap):
                    self._lost = True
                    self._wake.set()

    async def _work(self, engine: Connection) -> None:
        self._lost = True  # what ended while nobody listened
        self._tended_s = -TEND_S
        while True:
            self._wake.clear()
            if self._lost:
                self._lost = False
                waiting = {item.run_id for item in (await engine.status()).queue}
                self._ends.extend((run_id, None) for run_id in self._under_way if run_id not in waiting)
            while self._ends:
                await self._end(*self._ends.popleft())
            if time.monotonic() - self._tended_s >= TEND_S:
                await self._tend()
            await self._fill(engine)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(TEND_S):
                    await self._wake.wait()

    async def _tend(self) -> None:
        """Keep our leases, take over those of a server that is gone, and find what waits."""
        self._tended_s = time.monotonic()
        table = self.tasks.table
        await asyncio.to_thread(table.renew, self._owner)
        await asyncio.to_thread(table.requeue_expired)
        found = await asyncio.to_thread(table.waiting, PREFIX)
        self._batches.extend(batch for batch in found if batch not in set(self._batches))

    async def _fill(self, engine: Connection) -> None:
        """Give the engine as many rows as it may have of us."""
        devices = 1 if self.status is None else max(1, sum(not device.note for device in self.status.devices))
        while self._batches and (room := PER_DEVICE * devices - len(self._under_way)) > 0:
            rows = await asyncio.to_thread(self.tasks.table.lease, self._owner, room, batch=self._batches[0])
            if len(rows) < room:
                self._batches.popleft()
            for row in rows:
                await self._start(engine, row)

    async def _start(self, engine: Connection, row: Row) -> None:
        """Have one row's run made, or note why there is none."""
        if row.run_id:
            if any(item.run_id == row.run_id for item in (await engine.status()).queue):
                self._under_way.setdefault(row.run_id, []).append(row)
                return
            ended = await asyncio.to_thread(_read, row.run_id, None)
            if not ended.again:
                await self._note(row, ended)
                return
        try:
            request = await self._request(row)
            if isinstance(request, Ended):
                await self._note(row, request)
                return
            reply = await engine.request(request)
        except EngineUnavailableError as error:
            await self._note(row, evaluations.failed(Failure.ENGINE_LOST, str(error), again=True))
            raise
        if reply.error or not reply.run_ids:
            why = Failure.NOT_HERE if reply.refused else Failure.REFUSED
            await self._note(row, evaluations.failed(why, reply.error or "; ".join(reply.refused.values())))
            return
        run_id = reply.run_ids[0]
        self._under_way.setdefault(run_id, []).append(row)
        await asyncio.to_thread(self.tasks.table.begun, self._owner, [row.number], run_id)

    async def _request(self, row: Row) -> requests.StartRuns | Ended:
        """What the engine is asked for a row; or why it is not."""
        files = await asyncio.to_thread(self.tasks.table.files, row.candidate)
        try:
            definition = await self.shelf.definition(row.target)
            if told := await asyncio.to_thread(definition.misspelt, files):
                return evaluations.misspelt(told)
            if await asyncio.to_thread(definition.sources) != row.sources:
                return evaluations.failed(
                    Failure.CHANGED, f"{row.target} has changed since this was sent in; send it once more"
                )
            made = await asyncio.to_thread(definition.made, files)
        except RefusalError as error:
            return evaluations.failed(Failure.CHANGED, str(error))
        except api.RefusedError as error:
            return evaluations.failed(Failure.REFUSED, str(error))
        device, case = tasks.placed(row)
        return requests.StartRuns(
            seq=0 if self.engine is None else self.engine.next_seq(),
            roots=[str(made.folder)],
            targets=[made.id],
            rungs=[definition.rung],
            device=device,
            case=case,
            quick=row.level is Level.QUICK,
        )

    async def _end(self, run_id: str, told: Run | None) -> None:
        """Note what came of a run that is no longer under way."""
        rows = self._under_way.pop(run_id, [])
        if not rows:
            return
        ended = await asyncio.to_thread(_read, run_id, told)
        for row in rows:
            await self._note(row, ended)

    async def _note(self, row: Row, ended: Ended) -> None:
        """Keep what became of a row, then tell those who wait; or let it be tried again."""
        table = self.tasks.table
        if ended.again:
            reason = f"the engine was lost: {ended.reason}"
            standing = await asyncio.to_thread(
                table.fail, row.number, self._owner, reason, final=row.attempts >= MOST_TRIES
            )
            if not standing.ended:
                self._tended_s = -TEND_S  # look which task it is of
                self._wake.set()
        else:
            outcome = ended.outcome | {"workload": await self._workload(row)}
            await asyncio.to_thread(table.finish, row.number, outcome)
        for heard in self._waiters.get(row.number, ()):
            heard.set()

    async def _workload(self, row: Row) -> dict[str, Any]:
        _, name = tasks.placed(row)
        try:
            definition = await self.shelf.definition(row.target)
            known = await asyncio.to_thread(definition.workloads)
        except RefusalError:  # gone from the disk since
            known = []
        return next((one for one in known if one["case"] == name), {"case": name})


def _read(run_id: str, told: Run | None) -> Ended:
    """What the store, or else the engine, says of a run that should have ended."""
    try:
        answer = asking.read(run_id, told)
    except EngineUnavailableError as error:
        return evaluations.failed(Failure.ENGINE_LOST, str(error), again=True)
    if not answer.reading.record.state.final:
        return evaluations.failed(Failure.ENGINE_LOST, "the engine no longer knows of the run", again=True)
    return evaluations.of_run(answer)
