"""Has the tasks' rows carried to the engine (doors.dispatch), a few at a time, and tells who waits for them.

The rest waits in the table, so that whoever sits before the app does not wait behind a thousand candidates. A run that
the engine lost is made once more, and a second time its row is given up.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from aisp.engine import client
from aisp.engine.client import Connection, EngineUnavailableError
from aisp.engine.doors import api, asking
from aisp.engine.doors.asking import Answer
from aisp.engine.doors.dispatch import EngineDispatcher, NoRunError
from aisp.engine.doors.serve import evaluations, tasks
from aisp.engine.doors.serve.evaluations import Ended, Failure
from aisp.engine.doors.serve.feed import Feed
from aisp.engine.doors.serve.refusals import Kind, RefusalError
from aisp.engine.doors.serve.shelf import Shelf
from aisp.engine.doors.serve.tasks import PREFIX, Asked, Task, Tasks
from aisp.engine.protocol import events, requests
from aisp.store.candidates import Level, Row, owner_here
from aisp.store.errors import StoreError
from aisp.store.results.reading import Reading
from aisp.store.text import clean_line

log = logging.getLogger("aisp.serve")

MOST_OPEN = 1000
"""Workloads of tasks that wait or are under way; more are refused."""
PER_DEVICE = 2
"""Runs that the engine has of us for each device: one that is measured, and one behind it."""
LOOK_S = 5.0
"""Between two looks of a client that waits for a task which another server may end."""
BUSY_RETRY_S = 10.0
AGAIN_S = (0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
"""Pauses between attempts to reach an engine."""


class Clerk(EngineDispatcher):
    """One for the server.

    Attributes:
        engine: the connection; None while there is none.
        problem: why there is none.
        status: what the engine said of itself last.
    """

    tries = 2  # of a row whose engine was lost

    def __init__(self, shelf: Shelf, feed: Feed, *, device: str = "auto", quick: bool = False) -> None:
        self.shelf, self.feed = shelf, feed
        self.device, self.quick = device, quick
        self.tasks = Tasks()
        super().__init__(self.tasks.table, owner_here("serve"), feed.publish)
        self.engine: Connection | None = None
        self.problem = "the engine has not been asked yet"
        self.status: events.Status | None = None
        self.ending = asyncio.Event()
        self._waiters: dict[int, set[asyncio.Event]] = {}  # by row
        self._reached = asyncio.Event()

    # -- for the routes ------------------------------------------------------------------------------------------------

    async def submit(self, asked: Asked) -> Task:
        """The task of a request. Raises RefusalError where too many wait, or its id is taken."""
        if await self.open() + len(asked.cases) > MOST_OPEN:
            told = f"{MOST_OPEN} workloads wait already"
            raise RefusalError(Kind.TOO_MANY, told, "let some end first", retry_s=BUSY_RETRY_S)
        task, new = await asyncio.to_thread(self.tasks.put, asked)
        if new:
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
                await self._reached.wait()
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
                    async with await client.connect_from_now(lambda sentence: log.info("%s", sentence)) as engine:
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
            self.tasks.close()

    async def _with(self, engine: Connection) -> None:
        """Work as long as this connection lives."""
        self.status = await engine.status()
        self._ahead = PER_DEVICE * max(1, sum(not device.note for device in self.status.devices))
        self.engine = self._engine = engine
        self._reached.set()
        try:
            await self._connected(self._dispatch)
        finally:
            self.engine = None
            self._reached.clear()

    def _more(self) -> bool:
        """See Dispatcher: until the server is stopped."""
        return True

    def _next(self, room: int) -> list[list[Row]]:
        """See Dispatcher: each workload has a run of its own."""
        return [[row] for row in self._table.lease(self._owner, room, conditions=PREFIX)]

    def _earlier(self, rows: Sequence[Row]) -> Reading | None:
        """See Dispatcher. What the engine lost counts as an attempt: it may be the candidate's doing."""
        with contextlib.suppress(LookupError, StoreError), asking.opened() as store:
            run = store.run(rows[0].run_id)
            if run.state.final:
                return store.read(run)
        raise NoRunError(_lost("it no longer knows of the run"))

    async def _request(self, rows: Sequence[Row]) -> requests.StartRuns:
        (row,) = rows
        files = await asyncio.to_thread(self._table.files, row.candidate)
        try:
            definition = await self.shelf.definition(row.target)
            if told := await asyncio.to_thread(definition.misspelt, files):
                raise await self._no_run(row, evaluations.misspelt(told))
            if await asyncio.to_thread(definition.sources) != row.sources:
                why = f"{row.target} has changed since this was sent in; send it once more"
                raise await self._no_run(row, evaluations.failed(Failure.CHANGED, why))
            made = await asyncio.to_thread(definition.made, files)
        except RefusalError as error:
            raise await self._no_run(row, evaluations.failed(Failure.CHANGED, str(error))) from None
        except api.RefusedError as error:
            raise await self._no_run(row, evaluations.failed(Failure.REFUSED, str(error))) from None
        device, case = tasks.placed(row)
        return api.request_of(made, [definition.rung], device=device, case=case, quick=row.level is Level.QUICK)

    async def _refusal(self, reply: events.Reply, rows: Sequence[Row]) -> NoRunError:
        why = Failure.NOT_HERE if reply.refused else Failure.REFUSED
        return await self._no_run(rows[0], evaluations.failed(why, reply.error or "; ".join(reply.refused.values())))

    async def _outcome(self, row: Row, answer: Answer, *, alone: bool) -> Mapping[str, Any]:
        if not answer.reading.record.state.final:
            raise NoRunError(_lost("it no longer knows of the run"))
        ended = evaluations.of_run(answer)
        if ended.again:
            raise NoRunError(_lost(ended.reason))
        return await self._document(row, ended)

    def _note(self, row: Row) -> None:
        """See Dispatcher: tell those who wait."""
        for heard in self._waiters.get(row.number, ()):
            heard.set()

    async def _no_run(self, row: Row, ended: Ended) -> NoRunError:
        return NoRunError(ended.reason, await self._document(row, ended))

    async def _document(self, row: Row, ended: Ended) -> dict[str, Any]:
        """For the table of candidates: the outcome, and the workload that it is of."""
        _, name = tasks.placed(row)
        try:
            definition = await self.shelf.definition(row.target)
            known = await asyncio.to_thread(definition.workloads)
        except RefusalError:  # gone from the disk since
            known = []
        workload = next((one for one in known if one["case"] == name), {"case": name})
        return ended.outcome | {"workload": workload}


def _lost(why: str) -> str:
    return f"the engine was lost: {why}"
