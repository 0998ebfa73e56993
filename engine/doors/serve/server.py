"""The server's process: its token, its socket, and uvicorn within bounds.

The token is made once and stays in the state directory, for the owner alone. A connection that does not send a request,
or does not take its answer, is ended; so is one more than there may be, and one of a process that the engine started,
which is answered nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import secrets
import signal
import socket
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from aisp.engine import paths, peers
from aisp.engine.doors.serve import app
from aisp.engine.doors.serve.admission import PROVEN, SEND_S
from aisp.engine.doors.serve.clerk import Clerk
from aisp.engine.doors.serve.feed import Feed
from aisp.engine.doors.serve.problems import Problems
from aisp.engine.doors.serve.shelf import Shelf
from aisp.store.given import regular_bytes

TOKEN_BYTES = 32
MOST_CONNECTIONS = 512
IDLE_S = 15.0
"""Patience with a connection that has not sent a whole request."""
SWEEP_S = 1.0
STOP_S = 5.0
"""Patience with answers that are under way when the server is stopped."""
SELDOM_S = 1.0
"""Between two lines of the log about connections that were answered nothing."""

log = logging.getLogger("aisp.serve")


def token() -> str:
    """The token of this state directory, made where there is none. Raises OSError where its file cannot be used."""
    file = paths.token_file()
    with contextlib.suppress(FileExistsError):
        descriptor = os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "w") as sink:
            sink.write(secrets.token_urlsafe(TOKEN_BYTES) + "\n")
    file.chmod(0o600)
    found = regular_bytes(file, 1024).decode("ascii", "replace").strip()
    if len(found) < TOKEN_BYTES:
        raise OSError(f"{file} holds no token; remove it, and a new one is made")
    return found


def bind(host: str, port: int) -> socket.socket:
    """A listening socket. Raises OSError where the address cannot be had."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(128)
    except BaseException:
        listener.close()
        raise
    return listener


@dataclass(frozen=True, slots=True)
class Settings:
    """How the server is to be.

    Attributes:
        roots: collections whose targets are served; empty for the shipped one.
        problems: definitions of data sets that are served beside them.
        names: by which it may be called beside localhost and addresses.
        device, quick: of the runs, where the client does not say.
    """

    roots: Sequence[Path] = ()
    problems: Problems = field(default_factory=Problems)
    names: Collection[str] = ()
    device: str = "auto"
    quick: bool = False


async def serve(listener: socket.socket, secret: str, settings: Settings, ready: Callable[[], None]) -> None:
    """Serve until SIGINT or SIGTERM.

    Args:
        listener: from `bind`; closed at the end.
        ready: called once requests are answered.
    """
    settings.problems.tell()
    clerk = Clerk(Shelf(settings.roots, settings.problems), Feed(), device=settings.device, quick=settings.quick)
    looking = Lookout()
    config = uvicorn.Config(
        app.make(clerk, secret, settings.names),
        http=type("Watched", (Bounded,), {"lookout": looking}),
        loop="asyncio",
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        proxy_headers=False,
        timeout_keep_alive=5,
        timeout_graceful_shutdown=int(STOP_S),
        h11_max_incomplete_event_size=64 << 10,
    )
    server = Stopping(config, clerk.end)
    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)  # what a client does wrong is answered to it
    sweeping = asyncio.create_task(_sweep(server, ready))
    try:
        await server.serve([listener])
    finally:
        sweeping.cancel()
        looking.close()
        listener.close()


class Stopping(uvicorn.Server):
    """Lets go of those who wait for a task before it waits for them."""

    def __init__(self, config: uvicorn.Config, stopping: Callable[[], None]) -> None:
        super().__init__(config)
        self._stopping = stopping

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """See uvicorn; being stopped is how a server ends, and no failure."""
        loop = asyncio.get_running_loop()
        signals = (signal.SIGINT, signal.SIGTERM)
        for number in signals:
            loop.add_signal_handler(number, self.handle_exit, number, None)
        try:
            yield
        finally:
            for number in signals:
                loop.remove_signal_handler(number)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """See uvicorn."""
        self._stopping()
        await super().shutdown(sockets)


class Lookout:
    """Looks who has connected, one after the other in a thread of its own, and lets the connection go on or ends it."""

    def __init__(self) -> None:
        self._peers = peers.Peers()
        self._thread = ThreadPoolExecutor(1, "peers")
        self._tasks: set[asyncio.Task[None]] = set()
        self._said_s = -SELDOM_S

    def close(self) -> None:
        """Look no more."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    def watch(self, connection: Bounded) -> None:
        """Look who is at the other end of a new connection."""
        task = asyncio.get_running_loop().create_task(self._look(connection))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _look(self, connection: Bounded) -> None:
        ours, theirs = (connection.transport.get_extra_info(name) for name in ("sockname", "peername"))
        if ours and theirs:
            loop = asyncio.get_running_loop()
            why = await loop.run_in_executor(self._thread, self._peers.refusal, ours[:2], theirs[:2])
            if why:
                if time.monotonic() - self._said_s >= SELDOM_S:
                    self._said_s = time.monotonic()
                    log.warning("a connection was answered nothing: %s", why)
                connection.transport.abort()
                return
        connection.let_in()


class Bounded(H11Protocol):
    """A connection that takes the place of a stranger where there are too many, waits until it is known who asks, and
    knows since when it owes a request.

    Attributes:
        lookout: of the server.
        owing_s: since when, on the monotonic clock; None while a request is being answered.
        made_s: when it was made.
    """

    lookout: Lookout
    owing_s: float | None = None
    made_s: float = 0.0
    _proven: bool = False
    _early: bytearray | None = None  # what came before it was known who asks; None since

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """See uvicorn."""
        super().connection_made(transport)
        self.owing_s = self.made_s = time.monotonic()
        if len(self.connections) > MOST_CONNECTIONS and not self._make_way():
            transport.write(_BUSY)
            transport.close()
            return
        self._early = bytearray()
        self.lookout.watch(self)

    @property
    def proven(self) -> bool:
        """Whether it has brought the token."""
        return self._proven or bool(self.scope and PROVEN in self.scope)

    def _make_way(self) -> bool:
        """End the oldest connection that has not brought the token: whoever has it needs no more than a moment, and no
        crowd of strangers keeps its place. Returns whether there is one."""
        others = (one for one in self.connections if isinstance(one, Bounded) and one is not self and not one.proven)
        strangers = [one for one in others if not one.transport.is_closing()]
        if strangers:
            min(strangers, key=lambda one: one.made_s).transport.abort()
        return bool(strangers)

    def let_in(self) -> None:
        """Answer what has come, and what comes."""
        early, self._early = self._early, None
        if early and not self.transport.is_closing():
            self.transport.resume_reading()
            self.data_received(bytes(early))

    def data_received(self, data: bytes) -> None:
        """See uvicorn. What comes behind a refusal is passed over."""
        if self._early is not None:
            self._early += data
            self.transport.pause_reading()
        elif not self.transport.is_closing():
            super().data_received(data)
            if self.cycle is not None and not self.cycle.response_complete:
                self.owing_s = None

    def on_response_complete(self) -> None:
        """See uvicorn."""
        self.owing_s = time.monotonic()
        self._proven = self.proven
        super().on_response_complete()

    def send_400_response(self, msg: str) -> None:
        """What is no HTTP is answered as everything else is."""
        self.transport.write(_NO_HTTP)
        self.transport.close()


def _raw(status: str, body: bytes, more: bytes = b"") -> bytes:
    head = f"HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n".encode()
    return head + more + b"connection: close\r\n\r\n" + body


_BUSY = _raw(
    "429 Too Many Requests",
    b'{"error":"too many connections","fix":"close some of them","kind":"too_many"}',
    b"retry-after: 5\r\n",
)
_NO_HTTP = _raw("400 Bad Request", b'{"error":"this is no HTTP","fix":"send a request of HTTP/1.1","kind":"invalid"}')


async def _sweep(server: uvicorn.Server, ready: Callable[[], None]) -> None:
    """End connections that owe a request for too long, and those that are closed and do not take what is left."""
    closing: dict[Any, float] = {}
    told = False
    while True:
        if server.started and not told:
            told = True
            ready()
        await asyncio.sleep(SWEEP_S if told else 0.02)
        now_s = time.monotonic()
        for connection in list(server.server_state.connections):
            if not isinstance(connection, Bounded):
                continue
            if connection.transport.is_closing():
                if now_s - closing.setdefault(connection, now_s) > SEND_S:
                    connection.transport.abort()
            elif connection.owing_s is not None and now_s - connection.owing_s > IDLE_S:
                connection.transport.abort()
        closing = {one: since_s for one, since_s in closing.items() if one in server.server_state.connections}
