"""The driver: Ray's client. Places an agent on each GPU, hands rows to them and passes on what they answer.

    python -I engine/start.py aisp.engine.doors.fleet.driver [ADDRESS]

Reads `Give` frames from stdin, writes the others to stdout (fleet.messages). It keeps nothing: where it dies, whoever
started it has the rows still. At the end of stdin it leaves at once, and Ray ends its agents; runs of engines go on.
"""

from __future__ import annotations

import os
import queue
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, BinaryIO

import msgspec

from aisp.engine import client
from aisp.engine.doors.fleet.agent import HostAgent
from aisp.engine.doors.fleet.messages import AT_ONCE as AT_ONCE
from aisp.engine.doors.fleet.messages import (
    MOST_BYTES,
    Agent,
    Broken,
    FromDriver,
    Give,
    Here,
    Lost,
    Result,
    Told,
    Why,
)
from aisp.engine.protocol.framing import Decoder, Encoder
from aisp.store.text import clean_line

PLACE_S = 60.0
"""Patience with Ray until an agent runs: its host's GPU may be somebody else's."""
OPEN_S = 180.0
"""Patience with an agent that starts its host's engine."""
ROW_S = 2 * 3600.0
"""After this a row's agent is ended: the engine itself ends whatever hangs long before."""
LOOK_S = 5.0
"""Between two looks at which hosts there are."""
AGAIN_S = 60.0
"""Before a host whose agent could not be had is asked again."""
WAIT_S = 0.05
ASK_S = 0.5
"""Between two questions to an agent that is being started again."""
PROBE_S = 5.0
"""Patience with the head until it takes a connection."""
MOST_MISSES = 6
"""Rows that an agent loses one after the other before it is done without for a while: its host is not in order."""


@dataclass(frozen=True, slots=True)
class Node:
    """One host of the cluster, as Ray tells it.

    Attributes:
        id: Ray's.
        name: its name, for people.
        gpus: how many Ray shares out there.
    """

    id: str
    name: str
    gpus: int

    @property
    def places(self) -> list[str]:
        """What its agents are called before they say which GPU they were given."""
        return [f"{self.name}, agent {which + 1} of {self.gpus}" for which in range(self.gpus)] or [self.name]


@dataclass(slots=True, eq=False)
class Held:
    """One agent as the driver sees it.

    Attributes:
        node: where it is.
        name: what it is called before it says which GPU it was given (Node.places).
        handle: Ray's, of the actor.
        agent: what it has told of itself; None before.
        since_s: when it was last asked who it is (time.monotonic).
        rows: numbers of those that it has, with when they were given.
        asked: it was asked who it is, or to open the engine, and has not answered.
        misses: rows that it lost, one after the other.
        ask_at_s: when to ask once more who it is; 0 where that is not due.
    """

    node: Node
    name: str
    handle: Any
    agent: Agent | None = None
    since_s: float = field(default_factory=time.monotonic)
    rows: dict[int, float] = field(default_factory=dict)
    asked: bool = True
    misses: int = 0
    ask_at_s: float = 0.0

    @property
    def room(self) -> int:
        """How many more rows it may be given."""
        ready = self.agent is not None and self.agent.ready and not self.asked
        return AT_ONCE - len(self.rows) if ready else 0


class Driver:
    """Everything that one driver does, over Ray's client.

    Args:
        ray: the module, connected.
        tell: takes what is to be told.
        rows: what comes in; None where nothing more will.
    """

    def __init__(self, ray: Any, tell: Callable[[FromDriver], None], rows: queue.SimpleQueue[Give | None]) -> None:
        self._ray, self._tell, self._rows = ray, tell, rows
        self._actor = ray.remote(num_cpus=1, num_gpus=0, max_restarts=-1, max_task_retries=0, max_concurrency=1)(
            HostAgent
        )
        self._held: list[Held] = []
        self._waiting: list[Give] = []  # given, and no agent has room
        self._refs: dict[Any, tuple[Held, str, int]] = {}
        self._nodes: list[Node] | None = None
        self._refused: dict[tuple[str, str], tuple[float, Agent]] = {}
        self._told: Here | None = None
        self._done = threading.Event()
        self._lost_by: dict[int, set[str]] = {}  # by row: the agents that have lost it

    def look(self) -> None:
        """Ask Ray which hosts there are, now and then, in a thread of its own: without the head it does not answer."""
        while not self._done.is_set():
            found = [
                Node(node["NodeID"], clean_line(node["NodeManagerHostname"]), int(node["Resources"].get("GPU", 0)))
                for node in self._ray.nodes()
                if node["Alive"]
            ]
            self._nodes = found
            self._done.wait(LOOK_S)

    def work(self) -> None:
        """Do it until there is nothing more to read."""
        threading.Thread(target=self.look, daemon=True).start()
        while True:
            self._place()
            try:
                while True:
                    row = self._rows.get(timeout=0 if self._refs or self._waiting else WAIT_S)
                    if row is None:
                        self._done.set()
                        return
                    self._waiting.append(row)
            except queue.Empty:
                pass
            self._hand_out()
            if self._refs:
                ready, _ = self._ray.wait(list(self._refs), num_returns=1, timeout=WAIT_S)
                for ref in ready:
                    self._take(ref)
            else:
                time.sleep(WAIT_S)
            self._end_what_hangs()
            self._say_who_is_here()

    # -- agents ----------------------------------------------------------------------------------------------------

    def _place(self) -> None:
        """Put an agent on every GPU that has none; on a host without GPUs one."""
        now_s = time.monotonic()
        there = {(held.node.id, held.name) for held in self._held}
        for node in self._nodes or ():
            for name in node.places:
                refused_s, _ = self._refused.get((node.id, name), (-AGAIN_S, None))
                if (node.id, name) not in there and now_s - refused_s >= AGAIN_S:
                    self._refused.pop((node.id, name), None)
                    self._held.append(self._put(node, name))

    def _put(self, node: Node, name: str) -> Held:
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy  # Ray: where there is a cluster alone

        handle = self._actor.options(
            num_gpus=1 if node.gpus else 0,
            scheduling_strategy=NodeAffinitySchedulingStrategy(node_id=node.id, soft=False),
        ).remote(name, node.id, node.gpus > 0)
        held = Held(node, name, handle)
        self._refs[handle.describe.remote()] = (held, "describe", 0)
        return held

    def _open(self, node: Node) -> None:
        """Ask the agents of a host to open its engine, once it is known which GPUs they hold together."""
        there = [held for held in self._held if held.node.id == node.id]
        if any(held.agent is None for held in there):
            return
        for held in there:
            if held.agent is not None and not held.agent.devices and not held.asked:
                held.asked, held.since_s = True, time.monotonic()
                self._refs[held.handle.open.remote(self._gpus(node))] = (held, "open", 0)

    def _gpus(self, node: Node) -> list[str]:
        """Those that the agents of a host hold."""
        agents = [held.agent for held in self._held if held.node.id == node.id and held.agent is not None]
        return sorted({gpu for agent in agents for gpu in agent.gpus}, key=lambda word: (len(word), word))

    def _drop(self, held: Held, note: str) -> None:
        """Do without an agent; it is tried again after a while, if its host is still there."""
        if held not in self._held:
            return
        self._held.remove(held)
        self._refs = {ref: entry for ref, entry in self._refs.items() if entry[0] is not held}
        for number in held.rows:
            self._tell(Lost(number=number, reason=f"the agent {held.name} is gone: {note}"))
        known = held.agent or Agent(name=held.name, node=held.node.id)
        refused = msgspec.structs.replace(known, note=note, pid=0)
        alive = {node.id for node in self._nodes or ()}
        self._refused = {key: entry for key, entry in self._refused.items() if key[0] in alive}
        self._refused[held.node.id, held.name] = (time.monotonic(), refused)
        self._ray.kill(held.handle, no_restart=True)
        self._open(held.node)

    def _end_what_hangs(self) -> None:
        now_s = time.monotonic()
        alive = {node.id for node in self._nodes or ()}
        for held in list(self._held):
            if held.ask_at_s and now_s >= held.ask_at_s:
                held.ask_at_s = 0.0
                self._refs[held.handle.describe.remote()] = (held, "describe", 0)
            if held.node.id not in alive:
                self._drop(held, "its host has left the cluster")
            elif held.asked and now_s - held.since_s > (PLACE_S if held.agent is None else OPEN_S):
                what = "Ray has not placed it" if held.agent is None else "the engine there was not up"
                self._drop(held, f"{what} within {now_s - held.since_s:.0f} s; `ray status` shows who holds what")
            elif any(now_s - given_s > ROW_S for given_s in held.rows.values()):
                self._drop(held, f"a row had no end within {ROW_S:.0f} s")

    def _say_who_is_here(self) -> None:
        """Tell of the agents where that has changed."""
        nodes = self._nodes
        if nodes is None:
            return
        agents = [held.agent for held in self._held if held.agent is not None and not held.asked]
        alive = {node.id for node in nodes}
        agents += [agent for _, agent in self._refused.values() if agent.node in alive]
        known = {(held.node.id, held.name) for held in self._held if not held.asked} | set(self._refused)
        whole = all((node.id, name) in known for node in nodes for name in node.places)
        here = Here(agents=sorted(agents, key=lambda agent: (agent.name, agent.node)), whole=whole)
        if here != self._told:
            self._told = here
            self._tell(here)

    # -- rows ------------------------------------------------------------------------------------------------------

    def _hand_out(self) -> None:
        for row in list(self._waiting):
            able = [held for held in self._fit(row.device) if held.agent is not None and held.agent.ready]
            # One that has lost it before gets it again only where there is no other: it would lose it at once.
            others = [held for held in able if held.name not in self._lost_by.get(row.number, ())]
            found = max(others or able, key=lambda held: held.room, default=None)
            if found is None or found.room <= 0:
                continue
            self._waiting.remove(row)
            found.rows[row.number] = time.monotonic()
            ref = found.handle.judge.remote(msgspec.msgpack.encode(row), self._gpus(found.node))
            self._refs[ref] = (found, "judge", row.number)

    def _fit(self, device: str) -> list[Held]:
        """Agents that a row may go to: on GPUs alone where there are any, unless it is for a CPU."""
        with_gpu = [held for held in self._held if held.node.gpus]
        return self._held if device == "cpu" or (device == "auto" and not with_gpu) else with_gpu

    def _take(self, ref: Any) -> None:
        """One answer of an agent, or its end."""
        held, what, number = self._refs.pop(ref)
        try:
            answer = self._ray.get(ref)
        except Exception as error:  # whatever Ray has for an actor that died, or whose host did
            self._failed(held, what, number, error)
            return
        if what == "judge":
            held.rows.pop(number, None)
            result: Result = msgspec.msgpack.decode(answer, type=Result)
            self._tell(result)
            if isinstance(result, Lost):
                self._lost_by.setdefault(number, set()).add(held.name)
                held.misses += 1
                if held.misses >= MOST_MISSES:
                    self._drop(held, f"it lost {held.misses} rows one after the other, the last: {result.reason}")
            else:
                self._lost_by.pop(number, None)
                held.misses = 0
            return
        told = msgspec.msgpack.decode(answer, type=Agent)
        held.asked = False
        if told.note or told.build != client.build_id():
            other = f"its aisp is of another build ({told.build}) than ours ({client.build_id()}); install the same one"
            self._drop(held, told.note or other)
            return
        if what == "describe":
            held.agent = told
            self._open(held.node)
        else:
            held.agent = told

    def _failed(self, held: Held, what: str, number: int, error: Exception) -> None:
        why = clean_line(str(error).partition("\n")[0] or type(error).__name__, limit=500)
        if what == "judge":
            held.rows.pop(number, None)
            self._lost_by.setdefault(number, set()).add(held.name)
            self._tell(Lost(number=number, reason=f"the agent {held.name} ended before the row did: {why}"))
            if not held.asked and held in self._held:  # Ray starts it again: ask until it answers
                held.asked, held.since_s, held.agent = True, time.monotonic(), None
                self._refs[held.handle.describe.remote()] = (held, "describe", 0)
            return
        if held.agent is None and isinstance(error, self._ray.exceptions.ActorUnavailableError):
            held.ask_at_s = time.monotonic() + ASK_S  # it is being started again
            return
        self._drop(held, _why_not(error))


def _why_not(error: Exception) -> str:
    """Why an agent could not be had, with what would work."""
    text = str(error)
    if "No module named 'aisp'" in text:
        return "aisp is not installed on that host, for the Python that `ray start` was run with; install it there"
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return clean_line(lines[-1] if lines else type(error).__name__, limit=500)


def read(source: BinaryIO, rows: queue.SimpleQueue[Give | None]) -> None:
    """Read rows until the pipe is closed; then this process ends, whatever it waits for."""
    decoder: Decoder[Give] = Decoder(Give, limit=MOST_BYTES)
    while data := os.read(source.fileno(), 1 << 18):
        for row in decoder.feed(data):
            rows.put(row)
    os._exit(0)  # nothing is lost with it, and Ray's own farewell waits for a head that may be gone


def probe(address: str) -> None:
    """Raise OSError where nobody listens there: Ray itself would try for long, and then end this process.

    Raises ValueError for what is no HOST:PORT. Nothing is looked at where `address` is "" or "auto".
    """
    if address in ("", "auto"):
        return
    host, colon, port = address.rpartition(":")
    if not colon or "://" in address or not port.isdigit():
        raise ValueError("an address is HOST:PORT, of the cluster's head")
    socket.create_connection((host.strip("[]"), int(port)), timeout=PROBE_S).close()


def connect(address: str) -> Any:
    """Ray's module, connected to a cluster; what went wrong, as a Broken, where there is none."""
    try:
        import ray
    except ImportError as error:
        return Broken(why=Why.NO_RAY, text=f"Ray cannot be imported ({error}); pip install 'aisp[fleet]'")
    where = f"at {clean_line(address)}" if address else "here"
    try:
        probe(address or os.environ.get("RAY_ADDRESS", ""))
        ray.init(address=address or "auto", namespace="aisp", log_to_driver=False, logging_level="ERROR")
    except Exception as error:  # a name that does not resolve, a head that is gone, another version of Ray
        why = clean_line(str(error).partition("\n")[0] or type(error).__name__, limit=500)
        return Broken(why=Why.NO_CLUSTER, text=f"no Ray cluster answers {where} ({why}); `ray start --head` starts one")
    return ray


def main(words: Iterable[str]) -> None:
    """Serve whoever started this."""
    pipe = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)  # whatever Ray prints goes to the log
    encoder, lock = Encoder(limit=MOST_BYTES), threading.Lock()

    def tell(message: FromDriver) -> None:
        with lock:
            pipe.write(encoder.frame(message))

    rows: queue.SimpleQueue[Give | None] = queue.SimpleQueue()
    threading.Thread(target=read, args=(sys.stdin.buffer, rows), daemon=True).start()
    ray = connect(next(iter(words), ""))
    if isinstance(ray, Broken):
        tell(ray)
        return
    tell(Told(text=f"connected to Ray {ray.__version__} at {clean_line(ray.get_runtime_context().gcs_address)}"))
    try:
        Driver(ray, tell, rows).work()
    except Exception as error:
        tell(Broken(why=Why.GONE, text=clean_line(f"{type(error).__name__}: {error}", limit=1000)))
        raise


if __name__ == "__main__":
    main(sys.argv[1:])
