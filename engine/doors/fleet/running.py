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
from dataclasses import dataclass, field
from typing import Any

from aisp.engine import client, paths, start
from aisp.engine.doors.fleet import messages
from aisp.engine.doors.fleet.messages import MOST_BYTES, Agent, Broken, FromDriver, Give, Here, Lost, Why
from aisp.engine.doors.many import ENTRY, Brought, Ended, Stages, Tell, Terms, rung_of
from aisp.engine.protocol.framing import Decoder, Encoder, FrameError
from aisp.store import identity
from aisp.store.candidates import Candidates, CandidateState, Level, Row, TakenError, owner_here
from aisp.store.content import snapshot_hash
from aisp.store.results.candidate import refused
from aisp.store.text import clean_line

AT_ONCE = 2
"""Rows for each agent that the driver has at once: one under way, and the next."""
PATIENCE_S = 120.0
"""How long no agent at all is waited for, whether the cluster's head is gone or every GPU is somebody else's."""
BETWEEN_S = 3.0
"""Between two drivers, where the cluster does not answer."""
TICK_S = 1.0
RENEW_S = 60.0
MISSING = "a fleet needs Ray: pip install 'aisp[fleet]' (or pip install ray), on every host"

_RAYS = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_gcs_rpc_server_reconnect_timeout_s": "20",  # it ends its client then, and we have another one
}


class NoFleetError(Exception):
    """There is no Ray, no cluster, or nobody in it to give a row to; the message says what would work."""


@dataclass(slots=True)
class Seen:
    """What a driver has told so far.

    Attributes:
        agents: the last that it said of them; None before.
        broken: its last words.
    """

    agents: Here | None = None
    broken: Broken | None = None
    given: dict[int, Row] = field(default_factory=dict)


def installed() -> bool:
    """Whether Ray is there; it is not imported."""
    return importlib.util.find_spec("ray") is not None


class Fleet(Stages):
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
        super().__init__(table, brought, terms, tell)
        self._title, self._address, self._say, self._patience_s = title, address, say, patience_s
        self._owner = owner_here("fleet")
        self._notes: set[str] = set()  # of agents that take no rows
        self._had = False  # an agent, ever
        self.agents: list[Agent] = []
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
        since_s = time.monotonic()
        try:
            while self._left():
                seen = Seen()
                try:
                    await self._drive(seen)
                finally:
                    # They are as good as before: a driver has no part in what becomes of a row.
                    self._table.release(self._owner)
                if not self._left():
                    return
                broken = seen.broken or Broken(why=Why.GONE, text=_ended_without_a_word())
                if broken.why is Why.NO_RAY:
                    raise NoFleetError(broken.text)
                if seen.agents is not None and any(agent.ready for agent in seen.agents.agents):
                    since_s = time.monotonic()
                if time.monotonic() - since_s > self._patience_s or not self._had:
                    raise NoFleetError(broken.text)
                self._say(f"{broken.text}; it is waited for, {self._patience_s:.0f} s at most")
                await asyncio.sleep(BETWEEN_S)
        finally:
            self._table.release(self._owner)

    def _left(self) -> bool:
        counts = self._table.counts(self.batch)
        return any(counts[standing] for standing in counts if not standing.ended)

    async def _drive(self, seen: Seen) -> None:
        """One driver's life, until it has nothing more to do or ends."""
        self.agents = []
        self._table.requeue_expired()
        async with driver(self._address) as (give, told):
            pending: asyncio.Future[FromDriver | None] = asyncio.ensure_future(anext(told, None))
            renewed_s = alone_s = time.monotonic()
            try:
                while self._left():
                    done, _ = await asyncio.wait([pending], timeout=TICK_S)
                    if done:
                        message = pending.result()
                        if message is None:
                            return
                        self._take(message, seen)
                        pending = asyncio.ensure_future(anext(told, None))
                    now_s = time.monotonic()
                    if any(agent.ready for agent in self.agents):
                        alone_s, self._had = now_s, True
                    elif now_s - alone_s > self._patience_s:
                        raise NoFleetError(self._nobody())
                    if now_s - renewed_s > RENEW_S:
                        renewed_s = now_s
                        self._table.renew(self._owner)
                    if not done:
                        self._table.requeue_expired()
                    await self._give(give, seen)
            finally:
                pending.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await pending

    def _nobody(self) -> str:
        notes = "; ".join(f"{agent.name}: {agent.note}" for agent in self.agents if agent.note)
        return f"no agent was ready within {self._patience_s:.0f} s" + (f": {notes}" if notes else "")

    def _take(self, message: FromDriver, seen: Seen) -> None:
        if isinstance(message, Here):
            seen.agents = message
            self.agents = message.agents
            for agent in message.agents:
                if agent.note and agent.note not in self._notes:
                    self._notes.add(agent.note)
                    self._say(f"{agent.name} takes no rows: {agent.note}")
        elif isinstance(message, messages.Ended):
            seen.given.pop(message.number, None)
            outcome = {**message.outcome, "where": message.where}
            self._table.finish(message.number, outcome, run_id=message.run_id)
            self._note(self._table.row(message.number))
        elif isinstance(message, Lost):
            seen.given.pop(message.number, None)
            if self._table.fail(message.number, self._owner, message.reason) is CandidateState.DEAD:
                self._note(self._table.row(message.number))
            else:
                self._say(f"a row waits again: {message.reason}")
        elif isinstance(message, Broken):
            seen.broken = message
        else:
            self._say(message.text)

    async def _give(self, give: Callable[[Give], Any], seen: Seen) -> None:
        """Lease as many rows as the agents have room for, and hand them over."""
        ready = sum(agent.ready for agent in self.agents)
        if (room := AT_ONCE * ready - len(seen.given)) <= 0:
            return
        for row in self._table.lease(self._owner, room, batch=self.batch):
            seen.given[row.number] = row
            common, terms, rung = self._commons[row.sources], self._terms, rung_of(row.candidate)
            own = self._table.files(row.candidate)
            message = Give(
                number=row.number,
                stem=common.stem,
                name=common.name,
                files={**common.files, **{f"{rung}.py" if name == ENTRY else name: own[name] for name in own}},
                rung=rung,
                device=terms.device,
                case=terms.case,
                quick=row.level is Level.QUICK,
                patience_s=terms.patience_s,
                since_s=row.planned_s,
            )
            try:
                await give(message)
            except FrameError as error:
                self._table.finish(row.number, refused(str(error)).document())
                seen.given.pop(row.number)
                self._note(self._table.row(row.number))


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
