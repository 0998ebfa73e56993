"""A client's connection to the engine: finds it or starts it, shakes hands, sends requests, yields events.

    async with await connect(subscribe_from=0) as engine:
        reply = await engine.request(requests.StartRuns(seq=0, targets=["ch05:collate"]))
        async for batch in engine.batches():      # a list of events: as many as have arrived, at least one
            ...

Nothing here imports torch, numpy or the store; connecting to a running engine takes a few milliseconds. Events that
arrive while nobody reads are kept up to `BUFFERED_EVENTS`. Beyond that the oldest go first, and a Gap says which.

An engine sends something every few seconds, at least a Pulse. `silent_since` says since when it has not: it is halted,
or hangs in a file system that does not answer.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import secrets
import subprocess
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from functools import cache
from pathlib import Path
from types import TracebackType

from msgspec import structs

from aisp.engine import lock, paths, start
from aisp.engine.protocol import PROTOCOL, events, requests
from aisp.engine.protocol.framing import MAX_REQUEST_BYTES, Decoder, Encoder, FrameError
from aisp.store.text import clean_line

BUFFERED_EVENTS = 50_000
START_PATIENCE_S = 10.0
HANDSHAKE_PATIENCE_S = 10.0
SILENCE_S = 8.0  # without a word; an engine that can has one to say every PULSE_S
LOOK_S = 1.0
QUIET_S = 1.0  # a start that takes no longer is none of the person's business
HELD_UP_S = 3.0  # between two looks: this process was halted itself, or had no processor

Tell = Callable[[str], None]
"""Takes a sentence for the person who waits."""


class EngineUnavailableError(Exception):
    """There is no engine to talk to, and why; the message names the next move."""


class EngineMismatchError(EngineUnavailableError):
    """The running engine speaks another protocol version; it must be restarted when it is idle."""


@cache
def build_id() -> str:
    """Hash of the installed engine sources: tells a client that the running engine is older than itself."""
    digest = hashlib.sha256()
    here = Path(__file__).parent
    for path in sorted((*here.rglob("*.py"), *here.rglob("*.toml"))):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


class _StrangerError(Exception):
    """Another user is at the other end; `uid` says who."""

    def __init__(self, uid: int) -> None:
        super().__init__(uid)
        self.uid = uid


def _tell_nobody(sentence: str) -> None:
    """The listener of a program that reads `Connection.silent_since` itself."""


class Connection:
    """One handshaken connection. Made by `connect`.

    Attributes:
        client: the id under which it asks.
        socket: where it leads.
        welcome: how the engine answered.
        starting: what the engine does before it can carry out requests, in words; "" once it can.
        silent_since: wall clock of the last that was heard of an engine that does not answer; "" while it does.
        heard_s: the same on the monotonic clock, also while it does.
    """

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        client: str,
        socket: Path,
        tell: Tell = _tell_nobody,
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._encoder = Encoder(limit=MAX_REQUEST_BYTES)
        self._decoder: Decoder[events.AnyEvent] = Decoder(events.AnyEvent)
        self._replies: dict[int, asyncio.Future[events.Event]] = {}
        self._buffer: deque[events.Event] = deque()
        self._lost: tuple[int, int] | None = None
        self._arrived = asyncio.Event()
        self._closed = False
        self._seq = 0
        self.client = client
        self.socket = socket
        self.welcome: events.Welcome
        self.starting = ""
        self.gpus: list[events.GpuUse] = []  # of the last pulse, until somebody takes them
        self.silent_since = ""
        self.heard_s = time.monotonic()
        self._tell = tell
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def closed(self) -> bool:
        """Whether the engine went away or this side closed."""
        return self._closed

    def next_seq(self) -> int:
        """A fresh number for a request."""
        self._seq += 1
        return self._seq

    async def request(self, request: requests.AnyRequest, *, patience_s: float = 30.0) -> events.Reply:
        """Send and wait for the Reply; a request whose `seq` is 0 is given its number.

        Raises:
            EngineUnavailableError: the engine goes away meanwhile.
        """
        answer = await self._ask(request, patience_s)
        assert isinstance(answer, events.Reply)
        return answer

    async def status(self) -> events.Status:
        """The engine's state."""
        answer = await self._ask(requests.GetStatus(seq=0), 10.0)
        assert isinstance(answer, events.Status)
        return answer

    async def log(self, lines: int = 200) -> list[str]:
        """Newest lines of the engine's own log."""
        answer = await self._ask(requests.GetLog(seq=0, lines=lines), 10.0)
        assert isinstance(answer, events.EngineLog)
        return answer.lines

    async def _ask(self, request: requests.AnyRequest, patience_s: float) -> events.Event:
        if self._closed:
            raise EngineUnavailableError("the engine went away; `aisp engine --start` starts a new one")
        if isinstance(request, requests.Hello):
            raise TypeError("the handshake is connect()'s")
        if not request.seq:
            return await self._ask(structs.replace(request, seq=self.next_seq()), patience_s)
        try:
            frame = self._encoder.frame(request)
        except FrameError as error:
            raise EngineUnavailableError(f"the request is too long ({error}); name fewer targets at once") from None
        except UnicodeEncodeError as error:
            raise EngineUnavailableError(
                f"{clean_line(os.fsencode(error.object))} is not UTF-8 and cannot be asked for; "
                "rename it, or make a link to it with another name"
            ) from None
        future: asyncio.Future[events.Event] = asyncio.get_running_loop().create_future()
        self._replies[request.seq] = future
        try:
            self._writer.write(frame)
            await self._writer.drain()
            # wait_for of Python 3.11 loses a Ctrl-C that comes together with the answer.
            async with asyncio.timeout(patience_s):
                return await future
        except TimeoutError:
            raise EngineUnavailableError(
                f"the engine (pid {self.welcome.pid}) did not answer for {patience_s:.0f} s; "
                "`aisp engine --logs` may say why"
            ) from None
        except OSError as error:
            raise EngineUnavailableError(f"the engine went away ({error})") from None
        finally:
            self._replies.pop(request.seq, None)

    async def batches(self) -> AsyncIterator[list[events.Event]]:
        """Yield lists of events in order until the connection ends."""
        while True:
            await self._arrived.wait()
            batch = self.take()
            if batch:
                yield batch
            elif self._closed:
                return

    def take(self) -> list[events.Event]:
        """Everything that has arrived and was not read yet; empty if nothing."""
        self._arrived.clear()
        batch: list[events.Event] = []
        if self._lost is not None:
            batch.append(events.Gap(first=self._lost[0], last=self._lost[1]))
            self._lost = None
        batch.extend(self._buffer)
        self._buffer.clear()
        if self._closed:
            self._arrived.set()
        return batch

    async def close(self) -> None:
        """Close the socket; the engine and its runs go on."""
        self._closed = True
        self._writer.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._arrived.set()

    async def __aenter__(self) -> Connection:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _handshake(self, hello: requests.Hello) -> None:
        self._writer.write(self._encoder.frame(hello))
        await self._writer.drain()
        while True:
            async with asyncio.timeout(HANDSHAKE_PATIENCE_S):
                data = await self._reader.read(1 << 18)
            if not data:
                raise ConnectionResetError
            arrived = list(self._decoder.feed(data))
            if arrived:
                break
        first = arrived[0]
        if not isinstance(first, events.Welcome):
            raise FrameError(f"expected a welcome, got {type(first).__name__}")
        self.welcome = first
        self.starting = first.starting
        self._deliver(list(arrived[1:]))
        self.heard_s = time.monotonic()
        self._tasks = [asyncio.create_task(self._read()), asyncio.create_task(self._listen())]

    async def begun(self) -> bool:
        """Wait until the engine can carry out requests, and report what it does meanwhile. Returns whether it can."""
        reported = ""
        began_s = time.monotonic()
        while self.starting and not self._closed:
            if self.starting != reported and time.monotonic() - began_s > QUIET_S:
                reported = self.starting
                self._tell(f"the engine (pid {self.welcome.pid}) is starting: {reported}")
            await asyncio.sleep(0.02)
        return not self._closed

    async def _read(self) -> None:
        why = "the engine went away"
        try:
            while data := await self._reader.read(1 << 18):
                self.heard_s = time.monotonic()
                arrived: list[events.AnyEvent] = []
                try:
                    arrived.extend(self._decoder.feed(data))
                finally:
                    self._deliver(arrived)  # what stands before a broken frame too
        except (FrameError, OSError) as error:
            why = f"the engine went away ({type(error).__name__}: {error})"
        finally:
            self._closed = True
            self._writer.close()
            for future in self._replies.values():
                if not future.done():
                    future.set_exception(EngineUnavailableError(why))
            self._arrived.set()

    async def _listen(self) -> None:
        """Notice when the engine falls silent, and when it is heard again."""
        looked_s = time.monotonic()
        engine = f"the engine (pid {self.welcome.pid})"
        while not self._closed:
            await asyncio.sleep(LOOK_S)
            now_s = time.monotonic()
            if now_s - looked_s > LOOK_S + HELD_UP_S and not self.silent_since:
                self.heard_s = now_s  # what came meanwhile could not be read
            looked_s = now_s
            silent_s = now_s - self.heard_s
            if silent_s < SILENCE_S and self.silent_since:
                self.silent_since = ""
                self._tell(f"{engine} answers again")
            elif silent_s >= SILENCE_S and not self.silent_since:
                self.silent_since = time.strftime("%H:%M:%S", time.localtime(time.time() - silent_s))
                self._tell(f"{engine} has not answered since {self.silent_since}; it is waited for")

    def _deliver(self, arrived: list[events.AnyEvent]) -> None:
        for event in arrived:
            if isinstance(event, events.Pulse):
                self.starting, self.gpus = event.starting, event.gpus or self.gpus
                continue
            if isinstance(event, (events.Reply, events.Status, events.EngineLog)):
                future = self._replies.get(event.to)
                if future is not None and not future.done():
                    future.set_result(event)
                continue
            if len(self._buffer) >= BUFFERED_EVENTS:
                old = self._buffer.popleft()
                first, last = (old.first, old.last) if isinstance(old, events.Gap) else (old.seq, old.seq)
                self._lost = (self._lost[0] if self._lost else first, last)
            self._buffer.append(event)
        if self._buffer:
            self._arrived.set()


async def connect(
    *,
    start: bool = True,
    subscribe_from: int | None = None,
    epoch: str = "",
    client: str = "",
    warm: bool = False,
    accept_mismatch: bool = False,
    wait: bool = True,
    tell: Tell = _tell_nobody,
) -> Connection:
    """Connect to this state directory's engine, starting it if need be.

    Whoever has the lock of the state directory is waited for as long as it lives: an engine that examines a large
    store, or a command that wants the store to itself.

    Args:
        start: start an engine where none answers; otherwise raise.
        subscribe_from: receive events from this seq on (0: all that is kept); None: no events.
        epoch: the engine's life that subscribe_from counts in ("" for whichever runs).
        client: a random id kept over reconnects; "" makes one.
        warm: ask the engine to keep workers warm while this client is connected.
        accept_mismatch: return a connection to an engine of another protocol version too (to stop it).
        wait: return no sooner than the engine can carry out requests.
        tell: hears what is waited for, and when a connected engine stops and begins to answer.

    Raises:
        EngineUnavailableError: none runs and start is False, it could not be started, or another host uses the folder.
        EngineMismatchError: the running engine speaks another protocol version.
    """
    client = client or secrets.token_hex(8)
    hello = requests.Hello(
        protocol=PROTOCOL,
        build=build_id(),
        client=client,
        subscribe_from=subscribe_from,
        epoch=epoch,
        warm=warm,
    )
    began_s = time.monotonic()
    lines: set[str] = set()
    process: subprocess.Popen[bytes] | None = None
    while True:
        problem = "no engine is running; `aisp engine --start` starts one"
        for socket in paths.sockets():
            if not paths.named_for_us(socket) and await asyncio.to_thread(lock.holder) is None:
                continue  # the pointer was copied with the folder
            try:
                connection = await _shake_hands(socket, hello, tell)
            except (ConnectionRefusedError, FileNotFoundError):
                problem = f"nothing listens on {socket}"
            except (ConnectionResetError, BrokenPipeError):
                problem = (
                    f"what listens on {socket} closed the connection during the handshake; "
                    f"{paths.log_file()} may say why"
                )
            except TimeoutError:
                raise EngineMismatchError(
                    f"what listens on {socket} did not answer within {HANDSHAKE_PATIENCE_S:g} s; "
                    "`aisp engine --stop --force` ends it"
                ) from None
            except FrameError as error:
                raise EngineMismatchError(
                    f"what listens on {socket} does not speak aisp's protocol ({error}); "
                    "`aisp engine --stop --force` ends it"
                ) from None
            except _StrangerError as error:
                raise EngineUnavailableError(
                    f"what listens on {socket} belongs to uid {error.uid} and was sent nothing; "
                    f"remove {socket}, then `aisp engine --start`"
                ) from None
            except PermissionError:
                raise EngineUnavailableError(f"{socket} belongs to another user") from None
            else:
                if not _is_of_this_folder(connection.welcome):
                    await connection.close()
                    problem = (
                        f"{socket} is of the engine of {connection.welcome.state_dir}, not of {paths.state_dir()}; "
                        "`aisp engine --start` starts one"
                    )
                    continue
                if not connection.welcome.compatible and not accept_mismatch:
                    pid = connection.welcome.pid
                    await connection.close()
                    raise EngineMismatchError(
                        f"the running engine (pid {pid}) speaks protocol {connection.welcome.protocol}, "
                        f"this program {PROTOCOL}; `aisp engine --stop --when-idle` ends it after its queue"
                    )
                try:
                    if not wait or await connection.begun():
                        return connection
                except BaseException:
                    await connection.close()
                    raise
                await connection.close()
                problem = (
                    f"the engine (pid {connection.welcome.pid}) ended while it started; {paths.log_file()} says why"
                )
        holder = await asyncio.to_thread(lock.holder)
        if holder is not None and not holder.here:
            raise EngineUnavailableError(holder.sentence)
        if not start:
            raise EngineUnavailableError(problem)
        status = None if process is None else process.poll()
        if process is None and holder is None:
            process = start_engine()
        elif process is not None and status not in (None, 0, paths.EXIT_ALREADY_RUNNING):
            raise EngineUnavailableError(f"the engine ended at once with status {status}{_last_words(process)}")
        waited_s = time.monotonic() - began_s
        patient = waited_s < START_PATIENCE_S
        if holder is not None:
            if holder.what != lock.ENGINE or not patient:
                _tell_once(lines, tell, f"{holder.what} (pid {holder.pid}) has the store to itself; it is waited for")
        elif process is not None and status is None:
            if not patient:
                _tell_once(lines, tell, f"the engine (pid {process.pid}) is starting and is waited for")
        elif not patient:
            raise EngineUnavailableError(
                f"the engine did not answer within {START_PATIENCE_S:.0f} s; {paths.log_file()} says why"
            )
        await asyncio.sleep(0.02)


async def connect_from_now(tell: Tell = _tell_nobody) -> Connection:
    """A connection that receives what happens from now on, to an engine that is started if need be. Raises as
    `connect`.

    The first handshake only asks where the stream stands: an engine replays everything from the number it is given,
    and a day's worth of other people's samples is of no interest here.

    Args:
        tell: hears what is waited for, and that the running engine is of another build than this program.
    """
    async with await connect(tell=tell) as probe:
        welcome = probe.welcome
    if welcome.build != build_id():
        tell(
            f"warning: the running engine (pid {welcome.pid}) is of another build than this program; "
            "`aisp engine --stop --when-idle` lets a new one start"
        )
    return await connect(subscribe_from=welcome.next_seq, epoch=welcome.epoch, tell=tell)


def _tell_once(lines: set[str], tell: Tell, sentence: str) -> None:
    if sentence not in lines:
        lines.add(sentence)
        tell(sentence)


def _is_of_this_folder(welcome: events.Welcome) -> bool:
    """Whether the engine that answered has our state directory. An older engine reports only its path."""
    if welcome.folder:
        return welcome.folder == paths.identity()
    return welcome.state_dir == clean_line(os.fsencode(paths.state_dir()))


async def _shake_hands(socket: Path, hello: requests.Hello, tell: Tell) -> Connection:
    reader, writer = await asyncio.open_unix_connection(str(socket), limit=1 << 20)
    connection = Connection(reader, writer, hello.client, socket, tell)
    try:
        uid = paths.peer_uid(writer.get_extra_info("socket"))
        if uid != os.getuid():
            raise _StrangerError(uid)
        await connection._handshake(hello)
    except BaseException:
        writer.close()
        raise
    return connection


def start_engine() -> subprocess.Popen[bytes]:
    """Start the engine in a session of its own, so that it survives this process and a dropped SSH line.

    It is of the same sources as this program, and of our environment it is given what it needs: no key of the shell's,
    and no PYTHON* variable (engine.start).
    """
    environment = paths.engine_environment()
    if environment.get("AISP_STATE"):
        environment["AISP_STATE"] = str(paths.state_dir())  # it may be relative to our working folder
    return subprocess.Popen(
        start.command("aisp.engine.server"),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,  # an engine that is up writes to its log instead; `_last_words` of one that is not
        cwd="/",
        env=environment,
        start_new_session=True,
        umask=0o077,  # what it writes is its owner's alone
        close_fds=True,
    )


def _last_words(process: subprocess.Popen[bytes]) -> str:
    """Why an engine that was started has ended, as a clause: in its own words, else in those of its log."""
    words = process.stderr.read().decode(errors="backslashreplace").strip() if process.stderr else ""
    if words:
        return f": {words.removeprefix('aisp engine: ')}"
    return f"; {paths.log_file()} says why:\n{paths.log_tail(5)}"
