"""A client's connection, against engines that are not there, not ours, too new, too slow, or gone in the middle."""

from __future__ import annotations

import asyncio
import gc
import re
import struct
import subprocess
import sys
import time
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from aisp.engine import client, paths
from aisp.engine.client import EngineMismatchError, EngineUnavailableError, connect
from aisp.engine.protocol import PROTOCOL, events, requests
from aisp.engine.protocol.framing import Decoder, Encoder

Talk = Callable[["Line"], Awaitable[None]]


@pytest.fixture(autouse=True)
def state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A state of the test's own, where no engine may be started by mistake."""
    monkeypatch.setenv("AISP_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setattr(client, "start_engine", lambda: pytest.fail("an engine was started"))
    return tmp_path / "state"


class Line:
    """The engine's end of one connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self._decoder: Decoder[requests.AnyRequest] = Decoder(requests.AnyRequest)
        self._arrived: list[requests.AnyRequest] = []

    async def hear(self) -> requests.AnyRequest:
        while not self._arrived:
            data = await self.reader.read(1 << 16)
            if not data:
                raise ConnectionResetError
            self._arrived += self._decoder.feed(data)
        return self._arrived.pop(0)

    async def ended(self) -> None:
        """Wait until the client has closed its end."""
        while await self.reader.read(1 << 16):
            continue

    async def say(self, *messages: events.Event) -> None:
        self.writer.write(b"".join(Encoder().frame(message) for message in messages))
        await self.writer.drain()

    async def welcome(self, *after: events.Event, **changes: Any) -> requests.Hello:
        hello = await self.hear()
        assert isinstance(hello, requests.Hello)
        told: dict[str, Any] = {
            "protocol": PROTOCOL, "build": "b", "pid": 42, "epoch": "E", "next_seq": 1, "compatible": True,
            "state_dir": str(paths.state_dir()),
        }  # fmt: skip
        await self.say(events.Welcome(**{**told, **changes}), *after)
        return hello


@pytest.fixture
async def serve() -> AsyncIterator[Callable[[Talk], Awaitable[None]]]:
    """serve(talk): an engine that holds this conversation with everyone who connects."""
    servers: list[asyncio.Server] = []
    failures: list[BaseException] = []

    async def start(talk: Talk) -> None:
        async def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                await talk(Line(reader, writer))
            except (ConnectionError, asyncio.CancelledError):
                return
            except BaseException as error:
                failures.append(error)
            finally:
                writer.close()

        servers.append(await asyncio.start_unix_server(accepted, str(paths.socket_file())))

    yield start
    for server in servers:
        server.close()
    assert failures == []


def log_line(number: int) -> events.LogLine:
    return events.LogLine(seq=number, level="INFO", text=str(number))


async def collected(connection: client.Connection, count: int) -> list[events.Event]:
    """Events until there are `count` of them."""
    found: list[events.Event] = []
    async for batch in connection.batches():
        found += batch
        if len(found) >= count:
            break
    return found


# -- nothing there, or something else ----------------------------------------------------------------------------------


async def test_without_an_engine_the_next_move_is_named() -> None:
    with pytest.raises(EngineUnavailableError, match="no engine is running; `aisp engine --start` starts one"):
        await connect(start=False)


async def test_a_socket_that_nobody_listens_on_is_no_engine() -> None:
    import socket

    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(paths.socket_file()))
    with pytest.raises(EngineUnavailableError, match="nothing listens on"):
        await connect(start=False)


async def test_a_plain_file_where_the_socket_should_be_is_no_engine() -> None:
    paths.socket_file().write_text("squatted")
    with pytest.raises(EngineUnavailableError, match="nothing listens on"):
        await connect(start=False)


@pytest.mark.parametrize(
    "garbage",
    [
        b"HTTP/1.1 400 Bad Request\r\n\r\n" * 10,
        struct.pack(">I", 2**31),
        struct.pack(">I", 3) + b"\xc1\xc1\xc1",
        Encoder().frame(log_line(1)),  # a message of ours, but no welcome
    ],
)
async def test_what_speaks_no_protocol_of_ours_is_told_and_nothing_stays_open(
    serve: Callable[[Talk], Awaitable[None]], garbage: bytes
) -> None:
    async def talk(line: Line) -> None:
        line.writer.write(garbage)
        await line.ended()
        gone.set()

    gone = asyncio.Event()
    await serve(talk)
    with pytest.raises(
        EngineMismatchError, match=r"does not speak aisp's protocol .*; `aisp engine --stop --force` ends it"
    ):
        await connect(start=False)
    await asyncio.wait_for(gone.wait(), 10)


async def test_an_engine_that_hangs_is_told_after_a_while(
    serve: Callable[[Talk], Awaitable[None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "HANDSHAKE_PATIENCE_S", 0.2)
    await serve(Line.ended)
    with pytest.raises(
        EngineMismatchError, match=r"did not answer within 0\.2 s; `aisp engine --stop --force` ends it"
    ):
        await connect(start=False)


async def test_an_engine_that_closes_at_once_is_told(serve: Callable[[Talk], Awaitable[None]]) -> None:
    async def talk(line: Line) -> None:
        await line.hear()

    await serve(talk)
    with pytest.raises(EngineUnavailableError, match="closed the connection during the handshake"):
        await connect(start=False)


async def test_failed_connections_leave_no_descriptor_open(
    serve: Callable[[Talk], Awaitable[None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def talk(line: Line) -> None:
        line.writer.write(b"\xff" * 100)
        await line.ended()

    await serve(talk)

    def descriptors() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    # Closed, and not only forgotten: a descriptor may outlast its last use by a whole cycle of the collector.
    warnings.simplefilter("error", ResourceWarning)
    unraisable: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda args: unraisable.append(args.exc_value))
    for _ in range(3):
        with pytest.raises(EngineMismatchError):
            await connect(start=False)
    await asyncio.sleep(0.05)
    before = descriptors()
    for _ in range(20):
        with pytest.raises(EngineMismatchError):
            await connect(start=False)
    await asyncio.sleep(0.05)
    assert descriptors() <= before
    gc.collect()
    assert unraisable == []


# -- another version ---------------------------------------------------------------------------------------------------


async def test_an_engine_of_another_version_is_named_with_the_way_to_replace_it(
    serve: Callable[[Talk], Awaitable[None]],
) -> None:
    async def talk(line: Line) -> None:
        await line.welcome(protocol=PROTOCOL + 1, compatible=False)
        with pytest.raises(ConnectionResetError):
            await line.hear()  # no request is sent to it

    await serve(talk)
    with pytest.raises(EngineMismatchError) as error:
        await connect(start=False)
    assert str(error.value) == (
        f"the running engine (pid 42) speaks protocol {PROTOCOL + 1}, this program {PROTOCOL}; "
        "`aisp engine --stop --when-idle` ends it after its queue"
    )


async def test_to_stop_it_an_engine_of_another_version_may_be_connected_to(
    serve: Callable[[Talk], Awaitable[None]],
) -> None:
    async def talk(line: Line) -> None:
        await line.welcome(protocol=PROTOCOL + 1, compatible=False)
        request = await line.hear()
        assert isinstance(request, requests.Shutdown)
        await line.say(events.Reply(to=request.seq, detail="stopping"))
        await line.ended()

    await serve(talk)
    async with await connect(start=False, accept_mismatch=True) as engine:
        assert not engine.welcome.compatible
        reply = await engine.request(requests.Shutdown(seq=engine.next_seq()))
        assert reply.detail == "stopping"


async def test_a_welcome_with_fields_of_a_later_version_is_understood(serve: Callable[[Talk], Awaitable[None]]) -> None:
    import msgspec

    async def talk(line: Line) -> None:
        await line.hear()
        fields = {
            "type": "welcome", "protocol": PROTOCOL, "build": "b", "pid": 7, "epoch": "E", "next_seq": 1,
            "compatible": True, "state_dir": str(paths.state_dir()), "mood": ["good"],
        }  # fmt: skip
        body = msgspec.msgpack.encode(fields)
        line.writer.write(struct.pack(">I", len(body)) + body)
        await line.ended()

    await serve(talk)
    async with await connect(start=False) as engine:
        assert engine.welcome.pid == 7


# -- the handshake -----------------------------------------------------------------------------------------------------


async def test_hello_says_who_asks_and_from_where_on(serve: Callable[[Talk], Awaitable[None]]) -> None:
    heard: list[requests.Hello] = []

    async def talk(line: Line) -> None:
        heard.append(await line.welcome())
        await line.ended()

    await serve(talk)
    async with await connect(start=False, subscribe_from=17, epoch="E", client="me", warm=True):
        pass
    async with await connect(start=False):
        pass
    first, second = heard
    assert first == requests.Hello(
        protocol=PROTOCOL, build=client.build_id(), client="me", subscribe_from=17, epoch="E", warm=True
    )
    assert (second.subscribe_from, second.warm) == (None, False)
    assert len(second.client) == 16


async def test_a_slow_engine_whose_answer_comes_byte_by_byte_is_waited_for(
    serve: Callable[[Talk], Awaitable[None]],
) -> None:
    async def talk(line: Line) -> None:
        await line.hear()
        welcome = events.Welcome(
            protocol=PROTOCOL,
            build="b",
            pid=1,
            epoch="E",
            next_seq=1,
            compatible=True,
            state_dir=str(paths.state_dir()),
        )
        for byte in Encoder().frame(welcome) + Encoder().frame(log_line(1)):
            line.writer.write(bytes([byte]))
            await line.writer.drain()
            await asyncio.sleep(0)
        await line.ended()

    await serve(talk)
    async with await connect(start=False, subscribe_from=0) as engine:
        assert await collected(engine, 1) == [log_line(1)]


async def test_events_that_come_with_the_welcome_are_not_lost(serve: Callable[[Talk], Awaitable[None]]) -> None:
    async def talk(line: Line) -> None:
        await line.welcome(*map(log_line, range(1, 6)))
        await line.ended()

    await serve(talk)
    async with await connect(start=False, subscribe_from=0) as engine:
        assert [event.seq for event in await collected(engine, 5)] == [1, 2, 3, 4, 5]


# -- requests ----------------------------------------------------------------------------------------------------------


async def test_answers_find_their_requests_in_whatever_order_they_come(
    serve: Callable[[Talk], Awaitable[None]],
) -> None:
    async def talk(line: Line) -> None:
        await line.welcome()
        asked = [await line.hear() for _ in range(5)]
        for request in reversed(asked):
            assert isinstance(request, requests.StopWatch)
            await line.say(log_line(1), events.Reply(to=request.seq, detail=request.target))
        await line.ended()

    await serve(talk)
    async with await connect(start=False) as engine:
        replies = await asyncio.gather(
            *(engine.request(requests.StopWatch(seq=engine.next_seq(), target=f"t{n}")) for n in range(5))
        )
        assert [reply.detail for reply in replies] == ["t0", "t1", "t2", "t3", "t4"]
        assert len({reply.to for reply in replies}) == 5


async def test_an_answer_that_nobody_waits_for_disturbs_nothing(serve: Callable[[Talk], Awaitable[None]]) -> None:
    async def talk(line: Line) -> None:
        await line.welcome(events.Reply(to=999), events.EngineLog(to=5, lines=["x"]))
        request = await line.hear()
        assert isinstance(request, requests.GetLog)
        await line.say(events.EngineLog(to=request.seq, lines=["one", "two"]), events.Reply(to=request.seq))
        await line.ended()

    await serve(talk)
    async with await connect(start=False) as engine:
        assert await engine.log() == ["one", "two"]
        assert engine.take() == []


async def test_an_engine_that_goes_away_in_the_middle_of_a_request_is_told_at_once(
    serve: Callable[[Talk], Awaitable[None]],
) -> None:
    async def talk(line: Line) -> None:
        await line.welcome(log_line(1))
        await line.hear()
        frame = Encoder().frame(events.Reply(to=1, detail="half of this"))
        line.writer.write(frame[: len(frame) // 2])

    await serve(talk)
    async with await connect(start=False, subscribe_from=0) as engine:
        with pytest.raises(EngineUnavailableError, match="the engine went away"):
            await engine.request(requests.Cancel(seq=engine.next_seq()), patience_s=30)
        assert engine.closed
        with pytest.raises(EngineUnavailableError, match="`aisp engine --start` starts a new one"):
            await engine.status()
        # What arrived before is still there, and then the stream ends.
        assert [batch async for batch in engine.batches()] == [[log_line(1)]]


async def test_an_engine_that_does_not_answer_a_request_is_told_with_its_pid(
    serve: Callable[[Talk], Awaitable[None]],
) -> None:
    async def talk(line: Line) -> None:
        await line.welcome()
        await line.ended()

    await serve(talk)
    async with await connect(start=False) as engine:
        with pytest.raises(EngineUnavailableError, match=r"\(pid 42\) did not answer for 0 s; `aisp engine --logs`"):
            await engine.request(requests.Cancel(seq=engine.next_seq()), patience_s=0.1)
        assert not engine.closed  # it may still come to itself


async def test_a_broken_frame_ends_the_connection_on_both_sides(serve: Callable[[Talk], Awaitable[None]]) -> None:
    gone = asyncio.Event()

    async def talk(line: Line) -> None:
        await line.welcome()
        await asyncio.sleep(0.05)
        line.writer.write(Encoder().frame(log_line(1)) + struct.pack(">I", 1) + b"\xc1")
        await line.ended()
        gone.set()

    await serve(talk)
    engine = await connect(start=False, subscribe_from=0)
    try:
        assert [batch async for batch in engine.batches()] == [[log_line(1)]]
        assert engine.closed
        await asyncio.wait_for(gone.wait(), 10)  # without anybody calling close()
    finally:
        await engine.close()


async def test_closing_ends_a_reader_that_waits_and_may_be_done_twice(serve: Callable[[Talk], Awaitable[None]]) -> None:
    async def talk(line: Line) -> None:
        await line.welcome()
        await line.ended()

    await serve(talk)
    engine = await connect(start=False, subscribe_from=0)

    async def read() -> int:
        return len([batch async for batch in engine.batches()])

    reader = asyncio.create_task(read())
    await asyncio.sleep(0.05)
    await engine.close()
    assert await asyncio.wait_for(reader, 5) == 0
    await engine.close()
    assert engine.closed


# -- a reader that is slow ---------------------------------------------------------------------------------------------


async def test_a_client_that_does_not_read_loses_the_oldest_and_is_told_exactly_which(
    serve: Callable[[Talk], Awaitable[None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "BUFFERED_EVENTS", 100)

    async def talk(line: Line) -> None:
        await line.welcome(*map(log_line, range(1, 1001)))
        request = await line.hear()
        assert isinstance(request, requests.Cancel)
        await line.say(events.Reply(to=request.seq))
        await line.hear()
        await line.say(*map(log_line, range(1001, 1011)))
        await line.ended()

    await serve(talk)
    async with await connect(start=False, subscribe_from=0) as engine:
        await engine.request(requests.Cancel(seq=engine.next_seq()))  # answers pass the crowd
        found = engine.take()
        assert found[0] == events.Gap(first=1, last=900)
        assert [event.seq for event in found[1:]] == list(range(901, 1001))
        # Once told, the gap is over.
        more = asyncio.create_task(engine.log())
        later = await collected(engine, 10)
        more.cancel()
        assert [event.seq for event in later] == list(range(1001, 1011))


@pytest.mark.parametrize(
    ("told", "first", "last"),
    [
        ([log_line(10), events.Gap(first=11, last=50)], 10, 50),
        ([events.Gap(first=11, last=50), log_line(51)], 11, 51),
        ([events.Gap(first=1, last=50)], 1, 50),
    ],
)
async def test_a_gap_that_is_itself_pushed_out_is_part_of_the_new_one(
    serve: Callable[[Talk], Awaitable[None]],
    monkeypatch: pytest.MonkeyPatch,
    told: list[events.Event],
    first: int,
    last: int,
) -> None:
    """The engine's own gaps have no number: they may not be counted as event 0."""
    monkeypatch.setattr(client, "BUFFERED_EVENTS", 3)

    async def talk(line: Line) -> None:
        await line.welcome(*told, *map(log_line, range(60, 63)))
        request = await line.hear()
        assert isinstance(request, requests.Cancel)
        await line.say(events.Reply(to=request.seq))
        await line.ended()

    await serve(talk)
    async with await connect(start=False, subscribe_from=0) as engine:
        await engine.request(requests.Cancel(seq=engine.next_seq()))
        found = engine.take()
    assert found[0] == events.Gap(first=first, last=last)
    assert [event.seq for event in found[1:]] == [60, 61, 62]


# -- starting ----------------------------------------------------------------------------------------------------------


async def test_an_engine_that_ends_at_once_is_told_with_the_end_of_its_log(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def start() -> subprocess.Popen[bytes]:
        paths.log_file().write_text("one\nthe database is newer than this program\n")
        return subprocess.Popen([sys.executable, "-c", "import sys; sys.exit(1)"])

    monkeypatch.setattr(client, "start_engine", start)
    with pytest.raises(EngineUnavailableError) as error:
        await connect()
    assert "the engine ended at once with status 1" in str(error.value)
    assert str(error.value).endswith("one\nthe database is newer than this program")


async def test_an_engine_that_is_slow_to_listen_is_waited_for_as_long_as_it_lives(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    started: list[subprocess.Popen[bytes]] = []
    told: list[str] = []

    def start() -> subprocess.Popen[bytes]:
        started.append(subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]))
        return started[0]

    def tell(sentence: str) -> None:
        told.append(sentence)
        asyncio.get_running_loop().call_later(0.2, started[0].kill)

    monkeypatch.setattr(client, "start_engine", start)
    monkeypatch.setattr(client, "START_PATIENCE_S", 0.3)
    try:
        with pytest.raises(
            EngineUnavailableError, match=r"the engine ended at once with status -9; .*engine\.log says"
        ):
            await connect(tell=tell)
        assert len(started) == 1
        assert told == [f"the engine (pid {started[0].pid}) is starting and is waited for"]
    finally:
        for process in started:
            process.kill()
            process.wait()


async def test_an_engine_that_leaves_and_none_that_answers_is_told_with_the_place_of_its_log(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(client, "start_engine", lambda: subprocess.Popen([sys.executable, "-c", ""]))
    monkeypatch.setattr(client, "START_PATIENCE_S", 0.3)
    with pytest.raises(EngineUnavailableError, match=r"did not answer within 0 s; .*engine\.log says why"):
        await connect()


async def test_an_engine_that_begins_is_waited_for_and_says_what_it_does(
    serve: Callable[[Talk], Awaitable[None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    monkeypatch.setattr(client, "QUIET_S", 0.0)

    async def talk(line: Line) -> None:
        await line.welcome(starting="reading the store")
        await asyncio.sleep(0.1)
        await line.say(events.Pulse(starting="examining the store, 3.28 GiB"))
        await asyncio.sleep(0.1)
        await line.say(events.Pulse())
        await line.ended()

    await serve(talk)
    async with await connect(start=False, wait=False) as early:
        assert early.starting == "reading the store"
    async with await connect(start=False, tell=told.append) as engine:
        assert engine.starting == ""
    assert told[-1] == "the engine (pid 42) is starting: examining the store, 3.28 GiB"


async def test_an_engine_that_ends_while_it_begins_is_told(serve: Callable[[Talk], Awaitable[None]]) -> None:
    async def talk(line: Line) -> None:
        await line.welcome(starting="examining the store, 3.28 GiB")

    await serve(talk)
    with pytest.raises(EngineUnavailableError, match=r"\(pid 42\) ended while it started; .*engine\.log says why"):
        await connect(start=False)


async def test_the_engine_of_another_folder_is_not_used(serve: Callable[[Talk], Awaitable[None]]) -> None:
    """As where the pointer was copied with the folder."""

    async def talk(line: Line) -> None:
        await line.welcome(folder="1-2", state_dir="/elsewhere")
        await line.ended()

    await serve(talk)
    with pytest.raises(EngineUnavailableError, match=r"is of the engine of /elsewhere, not of "):
        await connect(start=False, accept_mismatch=True)


# -- silence -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "SILENCE_S", 0.5)
    monkeypatch.setattr(client, "LOOK_S", 0.05)
    monkeypatch.setattr(client, "HELD_UP_S", 0.2)


async def test_an_engine_that_says_nothing_any_more_is_told_and_again_when_it_does(
    serve: Callable[[Talk], Awaitable[None]], quick: None
) -> None:
    told: list[str] = []

    async def talk(line: Line) -> None:
        await line.welcome()
        await asyncio.sleep(1.5)
        await line.say(events.Pulse())
        await line.ended()

    await serve(talk)
    async with await connect(start=False, tell=told.append) as engine:
        await asyncio.sleep(1.0)
        since = engine.silent_since
        assert told == [f"the engine (pid 42) has not answered since {since}; it is waited for"]
        assert re.fullmatch(r"\d\d:\d\d:\d\d", since)
        assert not engine.closed, "nothing ends by itself"
        await asyncio.sleep(0.8)
        assert (engine.silent_since, told[1:]) == ("", ["the engine (pid 42) answers again"])


async def test_a_client_that_was_itself_held_up_raises_no_alarm(
    serve: Callable[[Talk], Awaitable[None]], quick: None
) -> None:
    told: list[str] = []

    async def talk(line: Line) -> None:
        await line.welcome()
        while True:
            await asyncio.sleep(0.1)
            await line.say(events.Pulse())

    await serve(talk)
    async with await connect(start=False, tell=told.append):
        await asyncio.sleep(0.2)
        time.sleep(1.0)  # noqa: ASYNC251  halts the client, and here its engine with it
        await asyncio.sleep(0.3)
    assert told == []


async def test_an_engine_is_started_once_and_waited_for(
    monkeypatch: pytest.MonkeyPatch, serve: Callable[[Talk], Awaitable[None]]
) -> None:
    loop = asyncio.get_running_loop()
    starts = 0

    async def talk(line: Line) -> None:
        await line.welcome()
        await line.ended()

    def start() -> subprocess.Popen[bytes]:
        nonlocal starts
        starts += 1
        loop.call_later(0.2, lambda: asyncio.ensure_future(serve(talk)))
        # What a second start does where another client was quicker: it leaves with this status.
        return subprocess.Popen([sys.executable, "-c", f"import sys; sys.exit({paths.EXIT_ALREADY_RUNNING})"])

    monkeypatch.setattr(client, "start_engine", start)
    async with await connect() as engine:
        assert engine.welcome.pid == 42
    assert starts == 1


def test_the_build_is_a_short_hash_of_the_sources_that_run() -> None:
    assert len(client.build_id()) == 12
    assert client.build_id() == client.build_id()
    int(client.build_id(), 16)


def test_importing_the_client_is_cheap() -> None:
    code = (
        "import sys, aisp.engine.client\n"
        "dear = {'torch', 'numpy', 'sqlite3', 'pynvml', 'watchfiles', 'sqlite_utils', 'aisp.store.reader'}\n"
        "print(sorted(dear & sys.modules.keys()))"
    )
    main = Path(client.__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=main, capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "[]"
