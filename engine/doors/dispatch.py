"""The one loop that carries rows of the table of candidates to whoever runs them, whichever door planned them.

A row is leased before anybody is asked to run it, kept while somebody does, and given back with the connection: whoever
dies, the row waits again. `Dispatcher` knows leases, attempts and ends; `EngineDispatcher` has the engine of this
machine run the rows, and notes each run's id, so that a run which goes on is followed and one that has ended meanwhile
is read from the store. A door says which rows are its own, and what a run says of one.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from aisp.engine import client
from aisp.engine.doors import asking
from aisp.engine.protocol import events, requests
from aisp.store.candidates import MOST_ATTEMPTS, Candidates, Row
from aisp.store.outcomes import TWIN_SUFFIX

if TYPE_CHECKING:
    from aisp.engine.client import Connection
    from aisp.engine.doors.asking import Answer
    from aisp.store.record import Run
    from aisp.store.results.reading import Reading

MOST_EARLY = 16
"""Ends that are kept for whoever learns only then which run is his."""
TEND_S = 30.0
"""Between two looks at leases, ours and those of a process that is gone."""
T = TypeVar("T")
Document = Mapping[str, Any]


class StoppedError(Exception):
    """Somebody has cancelled what was asked for, the engine starts no process for anybody at present, or what is to be
    judged on a GPU has none."""


class NoRunError(Exception):
    """No run says anything of the rows: why, and what that means for one that is alone; None where it means nothing."""

    def __init__(self, why: str, outcome: Document | None = None) -> None:
        super().__init__(why)
        self.why, self.outcome = why, outcome


@dataclass(frozen=True, slots=True)
class RunOutcomes:
    """What one run says of rows.

    Attributes:
        run_id: the run; "" where there is none to name.
        outcomes: by the number of the row; None where it says nothing of one.
        why: why it does not.
        alone: no other candidate took part.
    """

    run_id: str
    outcomes: Mapping[int, Document | None]
    why: str = ""
    alone: bool = True


class Dispatcher(ABC):
    """Rows of one owner, from their lease to their outcome.

    Attributes:
        tries: attempts of a row, each without an outcome, after which it is given up.
        look_s: between two looks for rows, while none is under way.
    """

    tries = MOST_ATTEMPTS
    look_s = TEND_S

    def __init__(self, table: Candidates, owner: str) -> None:
        self._table, self._owner = table, owner
        self._ahead = 1  # runs that are asked for at once
        self._wake = asyncio.Event()

    # -- what a door says ----------------------------------------------------------------------------------------------

    @abstractmethod
    def _next(self, room: int) -> list[list[Row]]:
        """Rows that wait, leased, as groups that one run each can judge."""

    @abstractmethod
    async def _judged(self, rows: Sequence[Row], *, anew: bool) -> RunOutcomes:
        """Have these rows run, and wait for the end.

        Args:
            anew: a run that was asked for before says nothing of them.

        Raises:
            NoRunError: there is no run, or it says nothing for a reason of the door's own.
        """

    @abstractmethod
    async def _listen(self) -> None:
        """Hear of ends while the connection lives. Raises what ended it."""

    @abstractmethod
    def _more(self) -> bool:
        """Whether there is more to wait for, while nothing is under way."""

    @abstractmethod
    def _note(self, row: Row) -> None:
        """Hear of a row that has come to its end, or waits again."""

    # -- the loop ------------------------------------------------------------------------------------------------------

    async def _connected(self, work: Callable[[], Awaitable[T]]) -> T:
        """Do some work while the connection lives, and give the leases back then."""
        try:
            async with asyncio.TaskGroup() as beside:
                helpers = [beside.create_task(self._listen()), beside.create_task(self._tend())]
                try:
                    return await work()
                finally:
                    for helper in helpers:
                        helper.cancel()
        except* Exception as group:
            error: BaseException = group
            while isinstance(error, BaseExceptionGroup):
                error = error.exceptions[0]
            raise error from None
        finally:
            self._table.release(self._owner)

    async def _dispatch(self) -> None:
        """Bring rows to their ends until there are no more."""
        under_way: set[asyncio.Task[None]] = set()
        try:
            while True:
                self._wake.clear()
                while (room := self._ahead - len(under_way)) > 0:
                    if not (groups := await asyncio.to_thread(self._next, room)):
                        break
                    under_way |= {asyncio.create_task(self._group(rows)) for rows in groups}
                if not under_way and not self._more():
                    return
                waking = asyncio.ensure_future(self._wake.wait())
                timeout_s = None if under_way else self.look_s
                try:
                    done, _ = await asyncio.wait(
                        {*under_way, waking}, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED
                    )
                finally:
                    waking.cancel()
                for task in under_way & done:
                    under_way.discard(task)
                    task.result()
        finally:
            for task in under_way:
                task.cancel()
            await asyncio.gather(*under_way, return_exceptions=True)

    async def _group(self, rows: list[Row]) -> None:
        """Judge these rows in one run, and those of which it says nothing in one each."""
        for row in await self._run(rows):
            await self._run([row], anew=True)

    async def _run(self, rows: list[Row], *, anew: bool = False) -> list[Row]:
        """Judge these rows in one run; those of which it says nothing since another candidate took part. One that was
        alone in a run that says nothing has failed."""
        try:
            judged = await self._judged(rows, anew=anew)
        except NoRunError as error:
            if len(rows) > 1:
                return rows
            judged = RunOutcomes("", {rows[0].number: error.outcome}, error.why)
        silent = []
        for row in rows:
            outcome = judged.outcomes[row.number]
            if outcome is not None:
                await asyncio.to_thread(self._table.finish, row.number, outcome, run_id=judged.run_id)
            elif judged.alone:
                final = row.attempts >= self.tries
                await asyncio.to_thread(self._table.fail, row.number, self._owner, judged.why, final=final)
            else:
                silent.append(row)
                continue
            self._note(await asyncio.to_thread(self._table.row, row.number))
        return silent

    async def _tend(self) -> None:
        """Keep our leases, and let the rows of a process that is gone wait again."""
        while True:
            await asyncio.to_thread(self._table.renew, self._owner)
            await asyncio.to_thread(self._table.requeue_expired)
            self._wake.set()
            await asyncio.sleep(TEND_S)


class EngineDispatcher(Dispatcher):
    """Rows that the engine of this machine runs.

    Attributes:
        running: ids of the runs that are under way for them, which nobody else has asked for.
        hear: hears every event of the engine.
    """

    def __init__(
        self, table: Candidates, owner: str, hear: Callable[[events.Event], object] = lambda event: None
    ) -> None:
        super().__init__(table, owner)
        self.running: set[str] = set()
        self._hear = hear
        self._engine: Connection
        self._ends: dict[str, asyncio.Future[Run | None]] = {}
        self._early: dict[str, Run] = {}  # ends that nobody waited for yet
        self._asking = asyncio.Lock()  # the engine is asked in the order of the leases

    @abstractmethod
    async def _request(self, rows: Sequence[Row]) -> requests.StartRuns:
        """What the engine is asked for these rows. Raises NoRunError where it need not be asked."""

    @abstractmethod
    async def _refusal(self, reply: events.Reply, rows: Sequence[Row]) -> NoRunError:
        """What it means that the engine plans no run."""

    @abstractmethod
    async def _outcome(self, row: Row, answer: Answer, *, alone: bool) -> Document | None:
        """What a run says of a row; None where it says nothing. Raises NoRunError for a reason of the door's own.

        Args:
            alone: no other candidate took part in the run.
        """

    @abstractmethod
    def _earlier(self, rows: Sequence[Row]) -> Reading | None:
        """The stored run that was made of these rows before. Raises NoRunError where that was lost, and counts."""

    async def _judged(self, rows: Sequence[Row], *, anew: bool) -> RunOutcomes:
        """See Dispatcher."""
        answer = await self._answer(rows, anew=anew)
        record = answer.reading.record
        rungs = {arm.rung.removesuffix(TWIN_SUFFIX) for arm in record.arms} - {answer.reading.baseline}
        alone = len(rows) == 1 and len(rungs) <= 1
        outcomes = {row.number: await self._outcome(row, answer, alone=alone) for row in rows}
        return RunOutcomes(record.id, outcomes, record.reason or f"run {record.id} says nothing of it", alone)

    async def _answer(self, rows: Sequence[Row], *, anew: bool) -> Answer:
        """The run of these rows at its end: the one that was asked for before, or a new one."""
        row = rows[0]
        if (row.asked_as or row.run_id) and not anew:
            for item in (await self._engine.status()).queue:
                if item.run_id == row.run_id or (row.asked_as and item.target == row.asked_as):
                    return await self._read(item.run_id, await self._end(item.run_id))
            if (earlier := await asyncio.to_thread(self._earlier, rows)) is not None:
                return await self._read(earlier.id, earlier.record)
        async with self._asking:
            replied = asyncio.ensure_future(self._engine.request(await self._request(rows)))
            await asyncio.sleep(0)  # it is on its way
        reply = await replied
        if reply.error or not reply.run_ids:
            raise await self._refusal(reply, rows)
        run_id = reply.run_ids[0]
        if not reply.joined:
            self.running.add(run_id)
        await asyncio.to_thread(self._table.begun, self._owner, [row.number for row in rows], run_id)
        return await self._read(run_id, await self._end(run_id))

    async def _read(self, run_id: str, told: Run | None) -> Answer:
        return await asyncio.to_thread(asking.read, run_id, told)

    async def _end(self, run_id: str) -> Run | None:
        """Wait for a run's end: its record as it was reported; None where it ended unheard."""
        future = self._ends.setdefault(run_id, asyncio.get_running_loop().create_future())
        if (early := self._early.pop(run_id, None)) is not None:
            self._ended(run_id, early)
        elif all(item.run_id != run_id for item in (await self._engine.status()).queue):
            self._ended(run_id, None)  # before anybody listened for it
        try:
            return await asyncio.shield(future)
        finally:
            self._ends.pop(run_id, None)
            self.running.discard(run_id)

    def _ended(self, run_id: str, run: Run | None) -> None:
        future = self._ends.get(run_id)
        if future is not None and not future.done():
            future.set_result(run)
        elif run is not None:  # of somebody else, or the answer that names it has not been read yet
            self._early[run_id] = run
            while len(self._early) > MOST_EARLY:
                self._early.pop(next(iter(self._early)))

    async def _listen(self) -> None:
        async for batch in self._engine.batches():
            for event in batch:
                self._hear(event)
                if isinstance(event, events.RunFinished):
                    self._ended(event.run.id, event.run)
            if any(isinstance(event, events.Gap) for event in batch):
                queued = {item.run_id for item in (await self._engine.status()).queue}
                for run_id in self._ends.keys() - queued:
                    self._ended(run_id, None)
        raise client.EngineUnavailableError(
            "the engine went away before the end; what has an outcome keeps it: the same command goes on from there"
        )
