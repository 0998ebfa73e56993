"""A neighbour on the same machine: another user, or a program of our own that floods, stalls or never reads.

Another user reaches nothing. A program of our own may cost its own connection, and nothing else.
"""

from __future__ import annotations

import asyncio
import os
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from aisp.engine import client, connections, paths, server
from aisp.engine.client import EngineUnavailableError, connect
from aisp.engine.protocol import PROTOCOL, events, requests
from aisp.engine.protocol.framing import Decoder, Encoder
from tests.engine import started
from tests.engine.harness import EngineUnderTest

pytestmark = [pytest.mark.evil, pytest.mark.xdist_group("engine"), pytest.mark.timeout(120)]

NOBODY = 65534
root_only = pytest.mark.skipif(os.getuid() != 0, reason="only root can become somebody else")
PATIENCE_S = 60.0  # for what comes in milliseconds: a machine may be slow, but not an engine that hangs
HELLO = Encoder().frame(requests.Hello(protocol=PROTOCOL, build="b", client="neighbour"))


@pytest.fixture
async def engine(
    own: Callable[..., EngineUnderTest], monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[EngineUnderTest]:
    """An engine that loses patience soon, and is none the worse at the end."""
    made = own()
    hasty = (
        "import sys\nfrom aisp.engine import connections, server\n"
        "connections.HANDSHAKE_LIMIT_S = connections.UNREAD_LIMIT_S = 1.0\n"
        "sys.exit(server.main())\n"
    )

    def start() -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-c", hasty], cwd="/", env=started.environment(), start_new_session=True
        )

    monkeypatch.setattr(client, "start_engine", start)
    await made.start()
    with made.use():
        yield made
        async with await connect(start=False) as connection:
            assert (await connection.status()).queue == []


def dialled() -> socket.socket:
    """A raw connection to the engine."""
    line = socket.socket(socket.AF_UNIX)
    line.settimeout(PATIENCE_S)
    line.connect(str(paths.find_socket()))
    return line


def greeting() -> socket.socket:
    """A connection that has said hello at once, if the engine lets it."""
    line = dialled()
    with suppress(ConnectionResetError, BrokenPipeError):
        line.sendall(HELLO)
    return line


def heard_until_the_end(line: socket.socket) -> bytes:
    """Everything until the engine hangs up."""
    parts = []
    try:
        while part := line.recv(1 << 20):
            parts.append(part)
    except ConnectionResetError:
        pass
    return b"".join(parts)


def wait_for(holds: Callable[[], bool]) -> None:
    """Until it holds; fails after a minute."""
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


async def log_says(text: str) -> None:
    """The engine's log tells of it."""
    async with await connect(start=False) as connection:
        assert any(text in line for line in await connection.log(2000)), await connection.log(50)


# -- another user at either end ----------------------------------------------------------------------------------------


@pytest.fixture
def imposter() -> Iterator[Callable[[Path], subprocess.Popen[bytes]]]:
    """imposter(path): another user listens there and answers whatever comes with what it heard, into path.heard."""
    code = (
        "import os, socket, sys\n"
        "s = socket.socket(socket.AF_UNIX)\n"
        "s.bind(sys.argv[1]); os.chmod(sys.argv[1], 0o777)\n"
        "heard = open(sys.argv[1] + '.heard', 'wb', buffering=0)\n"
        "os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
        "s.listen(8); print('up', flush=True)\n"
        "while True:\n"
        "    c, _ = s.accept(); c.settimeout(5)\n"
        "    heard.write(b'+' + c.recv(1 << 16)); c.close()\n"
    )
    started: list[subprocess.Popen[bytes]] = []

    def start(path: Path) -> subprocess.Popen[bytes]:
        process = subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE)
        started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


@root_only
async def test_a_client_tells_an_engine_of_another_user_nothing_and_says_what_to_remove(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, imposter: Callable[[Path], subprocess.Popen[bytes]]
) -> None:
    monkeypatch.setenv("AISP_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    place = paths.socket_file()
    imposter(place)
    with pytest.raises(EngineUnavailableError) as caught:
        await connect(start=False)
    assert str(caught.value) == (
        f"what listens on {place} belongs to uid {NOBODY} and was sent nothing; "
        f"remove {place}, then `aisp engine --start`"
    )
    heard = Path(f"{place}.heard")
    await asyncio.to_thread(wait_for, lambda: heard.read_bytes() != b"")
    assert heard.read_bytes() == b"+"  # a connection, and not one byte


@root_only
async def test_a_socket_file_of_another_user_is_no_engine_and_the_next_engine_removes_it(
    own: Callable[..., EngineUnderTest],
) -> None:
    engine = own()
    with engine.use():
        squatted = paths.socket_file()
        with socket.socket(socket.AF_UNIX) as theirs:
            theirs.bind(str(squatted))
        os.chown(squatted, NOBODY, NOBODY)
        assert paths.find_socket() is None
        paths.pointer_file().write_bytes(os.fsencode(squatted))
        assert paths.find_socket() is None
        with pytest.raises(EngineUnavailableError, match="no engine is running"):
            await connect(start=False)
    await engine.start()
    with engine.use():
        assert squatted.lstat().st_uid == os.getuid()
        assert (squatted.lstat().st_mode & 0o777) == 0o600


async def test_a_folder_where_the_socket_belongs_is_named_as_what_is_in_the_way(
    own: Callable[..., EngineUnderTest],
) -> None:
    engine = own()
    with engine.use():
        place = paths.socket_file()
        place.mkdir()
        done = await asyncio.to_thread(
            subprocess.run,
            [sys.executable, "-m", "aisp.engine.server"],
            cwd=Path(server.__file__).parents[2],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert done.returncode == 1
        assert f"{place} is in the way of the engine's socket; remove it" in done.stderr
        place.rmdir()


# -- a program of our own ----------------------------------------------------------------------------------------------


async def test_whoever_says_no_hello_is_shown_the_door(engine: EngineUnderTest) -> None:
    def silent(said: bytes) -> float:
        began = time.monotonic()
        with dialled() as line:
            line.sendall(said)
            assert heard_until_the_end(line) == b""
        return time.monotonic() - began

    # Nothing, half a length, a frame that never ends: all wait for the rest, and not for long.
    took = await asyncio.gather(*(asyncio.to_thread(silent, said) for said in (b"", HELLO[:2], HELLO[:-1])))
    assert min(took) > 0.8, took
    await log_says("a connection was closed: no hello within 1 s")


async def test_a_hello_that_comes_byte_by_byte_is_not_in_time_for_ever(engine: EngineUnderTest) -> None:
    def drip() -> int:
        with dialled() as line:
            for count, byte in enumerate(HELLO):
                try:
                    line.sendall(bytes([byte]))
                except OSError:
                    return count
                time.sleep(0.06)
        return len(HELLO)

    assert await asyncio.to_thread(drip) < len(HELLO)


async def test_a_client_that_said_hello_may_be_quiet_for_as_long_as_it_likes(engine: EngineUnderTest) -> None:
    async with await connect(start=False) as connection:
        await asyncio.sleep(1.5)
        assert (await connection.status()).pid == connection.welcome.pid


async def test_more_connections_than_there_is_room_for_are_refused_until_some_end(engine: EngineUnderTest) -> None:
    def crowd() -> tuple[int, int]:
        with ExitStack() as open_lines:
            lines = [open_lines.enter_context(greeting()) for _ in range(connections.MOST_CONNECTIONS + 20)]
            let_in = refused = 0
            for line in lines:
                try:
                    answer = line.recv(1 << 16)
                except (ConnectionResetError, BrokenPipeError):
                    answer = b""
                let_in += answer != b""
                refused += answer == b""
            return let_in, refused

    before = engine.ps.num_fds()
    let_in, refused = await asyncio.to_thread(crowd)
    assert (let_in, refused) == (connections.MOST_CONNECTIONS, 20)
    await asyncio.to_thread(wait_for, lambda: engine.ps.num_fds() <= before)
    await log_says(
        f"a connection was refused: {connections.MOST_CONNECTIONS} are open; close a client that is not needed"
    )


async def test_whoever_asks_and_never_reads_costs_little_memory_and_then_its_connection(
    engine: EngineUnderTest,
) -> None:
    def fill_the_log() -> None:
        for number in range(400):  # each leaves a line of the log, and all of them are in each answer below
            with dialled() as line:
                line.sendall(HELLO + struct.pack(">I", 2**31 + number))
                heard_until_the_end(line)

    def asks() -> int:
        frame = Encoder().frame(requests.GetLog(seq=1, lines=2000))
        sent = 0
        with dialled() as line:
            line.sendall(HELLO)
            try:
                while sent < 200_000:
                    line.sendall(frame * 100)
                    sent += 100
            except (BrokenPipeError, ConnectionResetError):
                return sent
        pytest.fail(f"{sent} questions were taken without one answer being read")

    await asyncio.to_thread(fill_the_log)
    async with await connect(start=False) as connection:
        before = (await connection.status()).rss_bytes
        asking = asyncio.create_task(asyncio.to_thread(asks))
        answers = 0
        while not asking.done():
            async with asyncio.timeout(PATIENCE_S):
                status = await connection.status()
            answers += not asking.done()
            assert status.rss_bytes < before + (48 << 20)
            await asyncio.sleep(0.02)
        await asking
    assert answers > 0  # to others, while it was asked and not listened to
    await log_says("a connection was closed: answers were not read for 1 s")


async def test_a_flood_of_requests_that_are_read_leaves_room_for_everybody_else(engine: EngineUnderTest) -> None:
    stop = threading.Event()

    def flood() -> int:
        frame = Encoder().frame(requests.GetStatus(seq=1)) * 50
        decoder: Decoder[object] = Decoder(events.AnyEvent)
        answered = 0
        with dialled() as line:
            line.sendall(HELLO)
            while answered == 0 or not stop.is_set():
                line.sendall(frame)
                want = answered + 50
                while answered < want:
                    answered += sum(isinstance(e, events.Status) for e in decoder.feed(line.recv(1 << 18)))
        return answered

    floods = [asyncio.create_task(asyncio.to_thread(flood)) for _ in range(3)]
    try:
        async with asyncio.timeout(PATIENCE_S), await connect(start=False) as connection:
            for _ in range(20):
                await connection.status()
                assert not any(flood.done() for flood in floods)
                await asyncio.sleep(0.02)
    finally:
        stop.set()
    assert all(answered >= 50 for answered in await asyncio.gather(*floods))
