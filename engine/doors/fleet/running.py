"""The command's side of a fleet: rows planned, leased, given to a driver, and their ends written down.

What is known stands in `candidates.db` alone (store.candidates), so this process, the driver, the agents, the engines
and the cluster's head may each be killed at any time: the next `aisp fleet` of the same folder goes on with the
rows that have no outcome. Nothing here imports Ray.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import json
import os
import time
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from aisp.engine import client, paths, start
from aisp.engine.doors.dispatch import Dispatcher, NoRunError, RunOutcomes
from aisp.engine.doors.fleet import messages
from aisp.engine.doors.fleet.messages import AT_ONCE as AT_ONCE
from aisp.engine.doors.fleet.messages import MOST_BYTES, Agent, Broken, FromDriver, Give, Here, Lost, Result, Why
from aisp.engine.doors.many import Brought, Ended, Stages, Tell, Terms
from aisp.engine.protocol.framing import Decoder, Encoder, FrameError
from aisp.store import identity
from aisp.store.candidates import Candidates, Level, Row, TakenError, owner_here
from aisp.store.content import snapshot_hash
from aisp.store.results.candidate import refused
from aisp.store.text import clean_line

PATIENCE_S = 120.0
"""How long no agent at all is waited for, whether the cluster's head is gone or every GPU is somebody else's."""
BETWEEN_S = 3.0
"""Between two drivers, where the cluster does not answer."""
MISSING = "a fleet needs Ray: pip install 'aisp[fleet]' (or pip install ray), on every host"

_RAYS = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_gcs_rpc_server_reconnect_timeout_s": "20",  # it ends its client then, and we have another one
}


class NoFleetError(Exception):
    """There is no Ray, no cluster, or nobody in it to give a row to; the message says what would work.

    Attributes:
        final: another driver would meet the same.
    """

    def __init__(self, message: str, *, final: bool = True) -> None:
        super().__init__(message)
        self.final = final


def installed() -> bool:
    """Whether Ray is there; it is not imported."""
    return importlib.util.find_spec("ray") is not None


class Fleet(Stages, Dispatcher):
    """Candidates judged by the agents of a cluster, one driver at a time.

    Args:
        title: of the batch, whose name has what the candidates are as well: the same ones make the same batch.
        address: of the cluster; "" for the one of this machine.
        tell: hears of each candidate that has come to its end.
        say: hears what is waited for.
        patience_s: how long no agent at all is waited for.
    """

    def __init__(
        self,
        table: Candidates,
        title: str,
        brought: Sequence[Brought],
        terms: Terms,
        tell: Tell,
        *,
        address: str = "",
        say: Callable[[str], None],
        patience_s: float = PATIENCE_S,
    ) -> None:
        Stages.__init__(self, table, brought, terms, tell)
        Dispatcher.__init__(self, table, owner_here("fleet"))
        self._title, self._address, self._say, self._patience_s = title, address, say, patience_s
        self._notes: set[str] = set()  # of agents that take no rows
        self._had_s: float | None = None  # when an agent was ready, the last time
        self._agents: list[Agent] = []
        self._ends: dict[int, asyncio.Future[Result]] = {}  # by row
        self._give: Callable[[Give], Any]  # to the driver
        self._messages: AsyncIterator[FromDriver]  # from it
        given = {"device": terms.device, "case": terms.case, "patience_s": terms.patience_s}
        self._conditions = json.dumps({**given, "fleet": True, "build": client.build_id()}, sort_keys=True)

    async def work(self) -> list[Ended]:
        """Judge all of them; every candidate at every level at which it was judged.

        Raises:
            NoFleetError: there is nobody to run them; those that have no outcome wait.
            TakenError: a batch of other candidates has the digest of these.
            StoreError: the table cannot be written, or too many rows would wait.
        """
        return await self._judge()

    def _batch_of(self, wanted: Sequence[Brought], level: Level) -> str:
        content = sorted((one.name, snapshot_hash(one.files), one.common.sources) for one in wanted)
        digest = identity.of_words(*(word for each in content for word in each))
        batch = f"fleet: {clean_line(self._title, limit=300)} ({level}, {self._terms.device}) {digest}"
        ours = {(clean_line(name), candidate, sources) for name, candidate, sources in content}
        if any((name, row.candidate, row.sources) not in ours for name, row in self._table.rows(batch)):
            raise TakenError(f"another batch has the name {batch}; rename a candidate")
        return batch

    async def _carry(self, level: Level) -> None:
        while self._more():
            self._agents, self._ahead = [], 0
            try:
                async with driver(self._address) as (self._give, self._messages):
                    await self._connected(self._dispatch)
            except NoFleetError as error:
                if not self._more():
                    break
                now_s = time.monotonic()
                if any(agent.ready for agent in self._agents):
                    self._had_s = now_s
                if error.final or self._had_s is None or now_s - self._had_s > self._patience_s:
                    raise
                self._say(f"{error}; it is waited for, {self._patience_s:.0f} s at most")
                await asyncio.sleep(BETWEEN_S)

    async def _listen(self) -> None:
        """See Dispatcher: to the driver's end. Raises NoFleetError."""
        broken = Broken(why=Why.GONE, text=_ended_without_a_word())
        try:
            async with asyncio.timeout(self._patience_s) as nobody:
                async for message in self._messages:
                    if isinstance(message, Here):
                        self._see(message.agents, nobody)
                    elif isinstance(message, messages.Ended | Lost):
                        if (end := self._ends.pop(message.number, None)) is not None:
                            end.set_result(message)
                    elif isinstance(message, Broken):
                        broken = message
                    else:
                        self._say(message.text)
        except TimeoutError:
            notes = "; ".join(f"{agent.name}: {agent.note}" for agent in self._agents if agent.note)
            told = f"no agent was ready within {self._patience_s:.0f} s" + (f": {notes}" if notes else "")
            raise NoFleetError(told) from None
        raise NoFleetError(broken.text, final=broken.why is Why.NO_RAY)

    def _see(self, agents: list[Agent], nobody: asyncio.Timeout) -> None:
        """The agents as they are now; while none is ready, the patience runs out."""
        self._agents = agents
        ready = sum(agent.ready for agent in agents)
        if ready:
            self._had_s = time.monotonic()
            nobody.reschedule(None)
        elif nobody.when() is None:
            nobody.reschedule(asyncio.get_running_loop().time() + self._patience_s)
        for agent in agents:
            if agent.note and agent.note not in self._notes:
                self._notes.add(agent.note)
                self._say(f"{agent.name} takes no rows: {agent.note}")
        self._ahead = AT_ONCE * ready
        self._wake.set()

    def _next(self, room: int) -> list[list[Row]]:
        """See Dispatcher: each row goes to a host by itself."""
        return [[row] for row in self._table.lease(self._owner, room, batch=self.batch)]

    async def _judged(self, rows: Sequence[Row], *, anew: bool) -> RunOutcomes:
        """See Dispatcher: an agent has it run."""
        (row,), terms = rows, self._terms
        common = self._commons[row.sources]
        message = Give(
            number=row.number,
            stem=common.stem,
            name=common.name,
            files=self._files(rows),
            rung=self._rung(row),
            device=terms.device,
            case=terms.case,
            quick=row.level is Level.QUICK,
            patience_s=terms.patience_s,
            since_s=row.planned_s,
        )
        end = self._ends[row.number] = asyncio.get_running_loop().create_future()
        try:
            await self._give(message)
            result = await end
        except FrameError as error:
            raise NoRunError(str(error), refused(str(error)).document()) from None
        finally:
            self._ends.pop(row.number, None)
        if isinstance(result, Lost):
            raise NoRunError(result.reason)
        return RunOutcomes(result.run_id, {row.number: {**result.outcome, "where": result.where}})

    def _note(self, row: Row, *, known: bool = False) -> None:
        """See Dispatcher."""
        if not known and not row.state.ended:
            self._say(f"a row waits again: {row.reason}")
        super()._note(row, known=known)


def _ended_without_a_word() -> str:
    return f"the driver has ended: no head answers it, or it was killed; {paths.state_dir() / 'fleet.log'} may say why"


@contextlib.asynccontextmanager
async def driver(address: str) -> AsyncIterator[tuple[Callable[[Give], Any], AsyncIterator[FromDriver]]]:
    """A driver process; what gives it a row, and what it tells until it ends. Leaving the block ends it.

    What Ray prints goes to `fleet.log` in the state directory.
    """
    log = paths.state_dir() / "fleet.log"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    with log.open("wb") as sink:
        process = await asyncio.create_subprocess_exec(
            *start.command("aisp.engine.doors.fleet.driver", *([address] if address else [])),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=sink,
            env=environment | _RAYS,
            start_new_session=True,  # Ctrl-C is ours to answer
        )
    assert process.stdin is not None
    assert process.stdout is not None
    pipe, out, encoder = process.stdin, process.stdout, Encoder(limit=MOST_BYTES)

    async def give(row: Give) -> None:
        pipe.write(encoder.frame(row))
        with contextlib.suppress(ConnectionError):  # it has ended, and its stdout says so
            await pipe.drain()

    async def telling() -> AsyncIterator[FromDriver]:
        decoder: Decoder[FromDriver] = Decoder(FromDriver, limit=MOST_BYTES)
        with contextlib.suppress(FrameError):  # it was killed in the middle of one
            while data := await out.read(1 << 18):
                for message in decoder.feed(data):
                    yield message

    stream = telling()
    try:
        yield give, stream
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def agents(address: str, *, patience_s: float = PATIENCE_S) -> list[Agent]:
    """All agents that can be had, and those that cannot, with the reason. Engines are started where none runs.

    Raises:
        NoFleetError: there is no cluster.
    """
    found: list[Agent] = []
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(patience_s), driver(address) as (_, told):
            async for message in told:
                if isinstance(message, Broken):
                    raise NoFleetError(message.text)
                if isinstance(message, Here):
                    found = message.agents
                    if message.whole:
                        return found
            raise NoFleetError(_ended_without_a_word())
    return found
