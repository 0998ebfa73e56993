"""Asks the engine for a run and waits for its end, from a program that may have an event loop of its own.

The connection lives in a thread with a loop of its own, so that it works in a script, in a test and in a notebook
alike. Ctrl-C cancels the run, a second one leaves at once; a run that somebody else had asked for goes on.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import signal
import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from aisp.engine import client, paths
from aisp.engine.protocol import events, requests
from aisp.store.errors import StoreError
from aisp.store.results.reading import Reading
from aisp.store.text import clean_line
from aisp.store.ulid import made_s

if TYPE_CHECKING:
    from aisp.engine.client import Connection
    from aisp.engine.stored import Readings
    from aisp.store.record import Run

CANCEL_PATIENCE_S = 10.0
T = TypeVar("T")


class RefusedError(ValueError):
    """What was asked for cannot be measured; the message says why, and what would work."""


class NotHereError(Exception):
    """There is no GPU here, and one was asked for; the message says why there is none."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A run that has ended.

    Attributes:
        reading: its record, and what other runs hold against its rungs.
        facts: what it ran on; empty where that was not kept.
        processes: in how many fresh processes samples were taken; 0 where there are none.
    """

    reading: Reading
    facts: Mapping[str, object] = field(default_factory=dict)
    processes: int = 0


def ask(request: requests.StartRuns) -> Answer:
    """Have the one run of a request made, and wait for its end.

    Raises:
        RefusedError: it cannot be planned.
        NotHereError: a GPU was asked for, and there is none.
        EngineUnavailableError: no engine could be started, or it went away.
    """
    return read(*blocking(functools.partial(_made, request)))


def blocking(work: Callable[[Connection], Coroutine[Any, Any, T]]) -> T:
    """What is come to over a connection of its own. Ctrl-C cancels it, and is raised once it has ended.

    Raises:
        EngineUnavailableError: no engine could be started.
    """
    waiting = _Waiting(work)
    try:
        with _heard_at_once():  # before there can be a run
            # Not kept alive by it: a program that leaves leaves the run to the engine.
            threading.Thread(target=waiting.run, name="aisp", daemon=True).start()
            waiting.done.wait()
    except KeyboardInterrupt:
        waiting.cancel()
        waiting.done.wait(CANCEL_PATIENCE_S)
        raise
    if waiting.error is not None:
        raise waiting.error
    (result,) = waiting.results
    return result


@contextlib.contextmanager
def _heard_at_once() -> Iterator[None]:
    """Have Ctrl-C interrupt this thread also where asyncio.run has taken it, which would only cancel a task that waits
    for us."""
    taken = signal.getsignal(signal.SIGINT)
    in_main = threading.current_thread() is threading.main_thread()  # the only one that may say who hears it
    if not (in_main and _in_loop() and callable(taken)):  # not callable: somebody wants it ignored
        yield
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, taken)


def _in_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def read(run_id: str, told: Run | None) -> Answer:
    """A run that has ended as the store has it; where that cannot be read, as the engine told it.

    Raises:
        EngineUnavailableError: neither is there.
    """
    try:
        with opened() as store:
            record = store.run(run_id)
            run = store.read(record)
            taken = [some.processes for rung, some in store.samples(record.id).items() if run.bar(rung) is None]
            return Answer(run, store.facts(record), max(taken, default=0))
    except (LookupError, StoreError) as error:
        if told is None:
            raise client.EngineUnavailableError(
                f"the end of run {run_id} was not heard and cannot be read: {clean_line(str(error), limit=1000)}"
            ) from None
        return Answer(Reading(told))


def opened() -> Readings:
    """The store. Raises StoreError."""
    from aisp.engine.stored import Readings  # numpy: only once there is something to read

    return Readings(paths.database_file())


LOOK_BACK = 40
"""Runs of a target that are looked through for one that is known."""


def known(
    store: Readings,
    target: str,
    rungs: Sequence[str],
    *,
    quick: bool | None = None,
    device: str = "auto",
    since_s: float = 0.0,
    ended: bool = False,
) -> Reading | None:
    """The newest run of a target that has come to an end of its own with these rungs, or has not ended; None where
    there is none.

    Args:
        quick: of this mode only.
        since_s: made after this (time.time).
        ended: one that has ended and says something.

    Raises:
        StoreError: it cannot be read.
    """
    for record in store.newest(LOOK_BACK, target):
        state, whole = record.state, all(map(record.arm, rungs))
        if ended:
            fits = state.final and whole and not state.silent
        else:
            fits = not state.cut_short and (whole or not state.final)
        alike = quick in (None, record.quick) and (device == "auto" or record.device.startswith(device))
        if fits and alike and made_s(record.id) >= since_s - 1.0:
            return store.read(record)
    return None


class _Waiting(Generic[T]):
    """Some work over a connection, in a thread of its own.

    Attributes:
        done: set when the thread has come to its end, whichever.
        error: why there is no result.
        results: the one that there is, or none.
    """

    def __init__(self, work: Callable[[Connection], Coroutine[Any, Any, T]]) -> None:
        self.done = threading.Event()
        self.error: BaseException | None = None
        self.results: list[T] = []
        self._work = work
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._cancelled = False

    def run(self) -> None:
        """Do it; never raises."""
        try:
            asyncio.run(self._connected())
        except BaseException as error:  # whatever it is belongs to who waits
            self.error = error
        finally:
            self.done.set()

    def cancel(self) -> None:
        """Cancel the work, which comes to an end."""
        self._cancelled = True
        with contextlib.suppress(RuntimeError):  # it has just come to its end
            if self._loop is not None and self._task is not None:
                self._loop.call_soon_threadsafe(self._task.cancel)

    async def _connected(self) -> None:
        self._loop, self._task = asyncio.get_running_loop(), asyncio.current_task()
        if not self._cancelled:
            async with await client.connect_from_now() as engine:
                self.results.append(await self._work(engine))


async def _made(request: requests.StartRuns, engine: Connection) -> tuple[str, Run | None]:
    """The id of the run of a request, and its record as its end was told. Cancels it where it is cancelled itself."""
    await need_gpu(engine, request)
    replied = asyncio.ensure_future(engine.request(request))
    try:
        run_id = planned(await asyncio.shield(replied))
        return run_id, await ended(engine, run_id)
    except asyncio.CancelledError:
        with contextlib.suppress(client.EngineUnavailableError):
            reply = await replied  # a run that was asked for is known by its reply alone
            await cancel(engine, set(reply.run_ids) - set(reply.joined))  # somebody else may want the others
        raise


async def cancel(engine: Connection, run_ids: Iterable[str]) -> None:
    """Have runs cancelled. Raises EngineUnavailableError."""
    for run_id in sorted(run_ids):
        await engine.request(requests.Cancel(seq=0, run_id=run_id))


async def need_gpu(engine: Connection, request: requests.StartRuns) -> None:
    """Raise NotHereError where a request asks for a GPU and the engine has none."""
    if request.device == "cuda" and (why := no_gpu(await engine.status())):
        raise NotHereError(why)


def no_gpu(status: events.Status) -> str:
    """Why the engine has no GPU, as a sentence; "" where it has one."""
    return f"no GPU here: {clean_line(status.gpu_note, limit=1000)}" if status.gpu_note else ""


def planned(reply: events.Reply) -> str:
    """The id of the one run that was asked for. Raises RefusedError where it was not planned."""
    if reply.error or not reply.run_ids:
        raise RefusedError(clean_line(reply.error or "; ".join(reply.refused.values()), limit=2000))
    return reply.run_ids[0]


async def ended(engine: Connection, run_id: str) -> Run | None:
    """Wait for a run's end: its record as that is told; None where it ended unheard.

    Raises:
        EngineUnavailableError: the engine went away before.
    """
    async for batch in engine.batches():
        for event in batch:
            if isinstance(event, events.RunFinished) and event.run.id == run_id:
                return event.run
        if any(isinstance(event, events.Gap) for event in batch):
            queue = (await engine.status()).queue
            if all(item.run_id != run_id for item in queue):
                return None
    raise client.EngineUnavailableError(
        f"the engine went away before the end of run {run_id}; `aisp history` shows what it had finished"
    )
