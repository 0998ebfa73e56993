"""Clients: the socket they find, one conversation each, every request carried out once however often it arrives.

A client's faults end its own connection and nothing else. What the engine started may not speak to it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import os
import socket
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable

from msgspec import structs

from aisp.engine import paths, peers
from aisp.engine.client import build_id
from aisp.engine.journal import ClientGoneError, Journal, Outbox
from aisp.engine.life import Life
from aisp.engine.lock import Lock
from aisp.engine.planning import PlanError
from aisp.engine.protocol import PROTOCOL, events, requests
from aisp.engine.protocol.framing import MAX_REQUEST_BYTES, Decoder, Encoder, FrameError
from aisp.store.given import write_whole
from aisp.store.text import clean_line

log = logging.getLogger("aisp.engine")

REMEMBERED_REPLIES = 256
MOST_CONNECTIONS = 64  # of clients that have said hello; each may hold a frame of MAX_REQUEST_BYTES
MOST_GREETING = 128  # of those that have not; more than are accepted at once, so that a hello is read first
HANDSHAKE_LIMIT_S = 10.0
PULSE_S = 2.0  # client.SILENCE_S is several of these
STARTING_PULSE_S = 0.1  # a client that waits for the start hears of its end
MOST_UNREAD = 16  # answered requests of a client that does not read; the next one waits
UNREAD_LIMIT_S = 60.0
STOPPING = "the engine is stopping; ask again, and the next one starts"


class Connections:
    """The engine's socket and all that speak on it.

    Attributes:
        warm: how many clients want processes to stand by.
        wanted: called when one more does, and the engine is ready.
        now: answers what changes nothing, and may be asked while the engine starts; None for any other request.
        carry_out: answers all else. Raises PlanError or LookupError for what cannot be done.
    """

    def __init__(self, held: Lock, life: Life, journal: Journal) -> None:
        self.warm = 0
        self.wanted: Callable[[], None] = lambda: None
        self.now: Callable[[requests.AnyRequest], events.Event | None]
        self.carry_out: Callable[[requests.AnyRequest], Awaitable[events.Event]]
        self._held, self._life, self._journal = held, life, journal
        self._server: asyncio.Server | None = None
        # Held, so that its inode goes to no other folder.
        self._folder = os.open(paths.state_dir(), os.O_PATH | os.O_CLOEXEC)
        self._path = paths.socket_file()
        self._inode = 0
        self._all: set[asyncio.Task[None]] = set()
        self._clients: set[asyncio.Task[None]] = set()  # those of them that have said hello
        self._greeting: dict[asyncio.Task[None], asyncio.WriteTransport] = {}  # those that may yet, the oldest first
        self._replies: OrderedDict[tuple[str, int], asyncio.Future[events.Event]] = OrderedDict()

    # -- the socket --------------------------------------------------------------------------------------------------

    def stop_listening(self) -> None:
        """Let nobody else in."""
        if self._server is not None:
            self._server.close()

    async def answered(self) -> None:
        """Wait until every request that came before the engine was to end has been carried out."""
        under_way = [reply for reply in self._replies.values() if not reply.done()]
        if under_way:
            await asyncio.wait(under_way, timeout=UNREAD_LIMIT_S)

    async def hang_up(self) -> None:
        """Let the last events leave, end all connections, and take socket and pointer away."""
        if self._server is None:
            return
        self._server.close()
        await asyncio.sleep(0.05)
        for connection in list(self._all):
            connection.cancel()
        await asyncio.gather(*self._all, return_exceptions=True)
        self._unbind()
        if not self._held.lost:
            paths.pointer_file().unlink(missing_ok=True)

    async def bind(self) -> None:
        """Listen on the socket. The holder of the lock may remove what lies at its path. Raises OSError."""
        try:
            self._path, pointer = paths.socket_file(paths.identity(self._folder)), paths.pointer_file()
        except paths.UnsafePathError as error:
            raise OSError(str(error)) from None  # bind_again goes on after an OSError
        try:
            self._path.unlink(missing_ok=True)
        except (IsADirectoryError, PermissionError):
            raise OSError(f"{self._path} is in the way of the engine's socket; remove it") from None
        old_mask = os.umask(0o177)
        try:
            self._server = await asyncio.start_unix_server(self._accept, str(self._path))
        finally:
            os.umask(old_mask)
        self._inode = self._path.stat().st_ino
        write_whole(pointer, os.fsencode(self._path), 0o600)

    async def bind_again(self) -> None:
        """Listen on a socket of the folder that is at the path now. Present connections go on."""
        if self._server is not None:
            self._server.close()
        self._unbind()
        try:
            folder = os.open(paths.state_dir(), os.O_PATH | os.O_CLOEXEC)
            os.close(self._folder)
            self._folder = folder
            await self.bind()
        except (paths.UnsafePathError, OSError) as error:
            log.error("binding again failed: %s", error)

    def _unbind(self) -> None:
        with contextlib.suppress(OSError):
            if self._path.stat().st_ino == self._inode:
                self._path.unlink()

    async def look(self) -> None:
        """Listen again where the socket was taken away."""
        try:
            inode = self._path.stat().st_ino
        except OSError:
            inode = 0
        if inode != self._inode and not self._held.lost:
            log.warning("the socket %s was taken away; binding again", self._path)
            await self.bind_again()

    # -- conversations ----------------------------------------------------------------------------------------------

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._greeting) >= MOST_GREETING:
            # A client says hello at once; the oldest connection has been silent longest.
            _warn_seldom(f"a connection was closed: {MOST_GREETING} others have not said hello either")
            self._greeting.pop(next(iter(self._greeting))).abort()
        task = asyncio.get_running_loop().create_task(self._converse(reader, writer))
        self._all.add(task)
        self._greeting[task] = writer.transport
        task.add_done_callback(self._connection_ended)

    def _connection_ended(self, task: asyncio.Task[None]) -> None:
        self._all.discard(task)
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
                        starting = self._life.starting
                        await self._welcome(hello, outbox, writer)
                        pulse = hello.protocol == PROTOCOL
                        sender = asyncio.create_task(self._send(outbox, writer, pulse=pulse, starting=starting))
                        if warm:
                            self.warm += 1
                            if self._life.ready.is_set():
                                self.wanted()
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
                self.warm -= 1
                self._life.note()
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
                epoch=self._life.epoch,
                next_seq=self._journal.next_seq,
                compatible=compatible,
                state_dir=clean_line(os.fsencode(paths.state_dir())),
                folder=paths.identity(self._folder),
                starting=self._life.starting,
            )
        )
        if compatible and hello.subscribe_from is not None:
            first = hello.subscribe_from if hello.epoch in ("", self._life.epoch) else 0
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
                    async with asyncio.timeout(
                        (STARTING_PULSE_S if self._life.starting else PULSE_S) if pulse else None
                    ):
                        data = await outbox.next_bytes()
                except TimeoutError:
                    data = encoder.frame(events.Pulse(starting=self._life.starting, gpus=self._life.gpus))
                if pulse and starting and not self._life.starting:
                    starting = ""
                    data += encoder.frame(events.Pulse())
                writer.write(data)
                await writer.drain()
        except ConnectionError:
            writer.close()

    async def _answer(self, request: requests.AnyRequest, client: str, outbox: Outbox) -> None:
        """Carry out a request once, however often it arrives."""
        assert not isinstance(request, requests.Hello)
        if (answer := self.now(request)) is not None:
            outbox.reply(answer)
            return
        if not isinstance(request, requests.Shutdown):
            await self._life.ready.wait()
        key = (client, request.seq)
        earlier = self._replies.get(key)
        if earlier is not None:
            # It may still be under way, for a connection that has gone meanwhile.
            outbox.reply(await asyncio.shield(earlier))
            return
        if self._life.stopping.is_set() and not isinstance(request, requests.Shutdown):
            # What is planned now would be in nobody's queue.
            outbox.reply(events.Reply(to=request.seq, error=STOPPING))
            return
        answered: asyncio.Future[events.Event] = asyncio.get_running_loop().create_future()
        self._replies[key] = answered
        try:
            _refuse_nul(request)
            reply = await self.carry_out(request)
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


def _refuse_nul(request: requests.AnyRequest) -> None:
    """Raise PlanError where a text of a request has the one sign that no path may have."""
    for name, value in structs.asdict(request).items():
        for text in value if isinstance(value, list) else [value]:
            if isinstance(text, str) and "\0" in text:
                raise PlanError(f"{name} has a NUL in it, {clean_line(text)!r}: no path and no name has one")


def _same_user(writer: asyncio.StreamWriter) -> bool:
    connection: socket.socket | None = writer.get_extra_info("socket")
    if connection is None:
        return False
    return paths.peer_uid(connection) == os.getuid()


def _started_by_us(writer: asyncio.StreamWriter) -> int | None:
    """PID of a client that descends from this process; None for any other."""
    connection: socket.socket | None = writer.get_extra_info("socket")
    pid = 0 if connection is None else paths.peer_pid(connection)
    return pid if peers.started_by(pid, os.getpid()) else None


_warned: dict[str, float] = {}


def _warn_seldom(text: str) -> None:
    """Log what a stranger can cause at will, at most once a second, so that the log keeps what else happened."""
    now = time.monotonic()
    if now - _warned.get(text, -math.inf) >= 1.0:
        _warned[text] = now
        log.warning("%s", text)
