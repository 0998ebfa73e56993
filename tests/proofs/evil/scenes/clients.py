"""Rows 15 to 17, 34, 38 to 41, 47 and 48: what happens to a client, and what clients and strangers do."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import itertools
import os
import random
import re
import select
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast
from unittest import mock

import msgspec

from aisp.engine import client, paths
from aisp.engine.client import EngineMismatchError, EngineUnavailableError
from aisp.engine.journal import CLIENT_QUEUE_BYTES
from aisp.engine.protocol import PROTOCOL, events, requests
from aisp.engine.protocol.framing import MAX_REQUEST_BYTES, Decoder, Encoder, FrameError
from aisp.engine.spawner import PR_SET_CHILD_SUBREAPER
from aisp.store.outcomes import State
from tests.engine.harness import EngineUnderTest, Stream
from tests.proofs.evil import corpus
from tests.proofs.evil.matrix import fault
from tests.proofs.evil.stage import Stage, eventually
from tests.proofs.fuzz import frames
from tests.tui.test_app_terminal import SHELL, Terminal

APP = [sys.executable, "-c", "from aisp.tui.start import main; main()"]
DRAWN = b"technique"  # the first screen with a target's facts, whatever came of that target before
ALTERNATE_ON, ALTERNATE_OFF, MOUSE_ON, MOUSE_OFF, CURSOR_ON = (
    b"\x1b[?1049h", b"\x1b[?1049l", b"\x1b[?1000h", b"\x1b[?1000l", b"\x1b[?25h",
)  # fmt: skip
NAPS = corpus.Row(
    "naps",
    "import time\n\n\ndef prepare(x):\n    time.sleep(2)\n    return run\n\n\ndef run(x):\n    return x * 2\n",
    State.OK,
)


def environment(engine: EngineUnderTest, **more: str) -> dict[str, str]:
    """What a client of this engine sees."""
    terminal = {"TERM": "xterm-256color", "COLORTERM": "truecolor", "LANG": "C.UTF-8"}
    given = os.environ | engine.environment | terminal | more
    given["AISP_CONFIG"] = str(engine.home / "settings.toml")
    return {name: value for name, value in given.items() if value}


@contextlib.contextmanager
def on_terminal(argv: list[str], given: dict[str, str], size: tuple[int, int] = (80, 24)) -> Iterator[Terminal]:
    """A program on a pseudo-terminal; ended at the end."""
    opened = Terminal(argv, given, size)
    try:
        yield opened
    finally:
        opened.close()


# -- the app goes away -------------------------------------------------------------------------------------------------


class Adopted:
    """An engine whose parent died, as a `subprocess.Popen`: it has become this process's child."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        if self.returncode is None:
            found, status = os.waitpid(self.pid, os.WNOHANG)
            if found:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if self.poll() is None:
            handle = os.pidfd_open(self.pid)
            try:
                assert select.select([handle], [], [], timeout)[0], f"process {self.pid} goes on"
            finally:
                os.close(handle)
        found = self.poll()
        assert found is not None
        return found

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


@contextlib.contextmanager
def adopting() -> Iterator[None]:
    """Orphans of this process's children become its own children meanwhile."""
    prctl = ctypes.CDLL(None).prctl
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        yield
    finally:
        prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


async def _outlived(stage: Stage, end: Callable[[Terminal], None]) -> str:
    """An app starts an engine, a run begins, and the app is gone; the run and what a later client learns of it."""
    engine = stage.own()
    root = stage.target("slow", NAPS)
    with engine.use(), on_terminal([*APP, "--no-mouse", str(root)], environment(engine)) as terminal:
        await asyncio.to_thread(terminal.wait_for, DRAWN)
        await eventually(lambda: paths.find_socket() is not None, "the app starts an engine", patience_s=30)
        async with await client.connect(start=False) as connection:
            pid = connection.welcome.pid
        async with engine.stream(start_at=1) as stream:
            (run_id,) = await stream.plan(root, "mine:slow", rungs=["optimized_naps"])
            await stream.until(events.RunState, lambda event: event.state == State.RUNNING.value)
        with adopting():
            end(terminal)
            _, status = await asyncio.to_thread(os.waitpid, terminal.pid, 0)
            terminal.status = os.waitstatus_to_exitcode(status)
        engine.process = cast("Any", Adopted(pid))
        assert engine.process is not None and engine.process.poll() is None, "the engine died with its app"
        # Whoever comes later sees the whole story, from the first event on.
        async with engine.stream(start_at=1) as stream:
            finished = await stream.finish(run_id)
            told = stream.of_run(run_id)
        assert finished.state == State.OK.value, finished.reason
        assert sum(isinstance(event, events.RunPlanned) for event in told) == 1
        assert engine.record(run_id).state is State.OK
    return (
        f"the app ended with {terminal.status}; the run ended ok, and a client that came later got all its {len(told)} "
        "events"
    )


@fault(15, "kill -9 of the app during a run", "the run goes on; a later client gets all of it", own=True)
async def app_killed(stage: Stage) -> str:
    return await _outlived(stage, lambda terminal: os.kill(terminal.pid, signal.SIGKILL))


@fault(17, "the line to the app drops during a run", "the app ends, engine and run go on", own=True)
async def line_dropped(stage: Stage) -> str:
    def drop(terminal: Terminal) -> None:
        os.close(terminal.master)
        terminal.master = os.open(os.devnull, os.O_RDONLY)  # closed once more at the end

    return await _outlived(stage, drop)


@fault(16, "SIGTERM to the app", "it leaves the alternate screen, gives mouse and cursor back, ends with 143")
async def app_terminated(stage: Stage) -> str:
    engine = stage.engine
    root = stage.target("honest")
    with on_terminal([*APP, str(root)], environment(engine)) as terminal:
        await asyncio.to_thread(terminal.wait_for, DRAWN)
        assert ALTERNATE_ON in terminal.raw and MOUSE_ON in terminal.raw
        start = len(terminal.raw)
        os.kill(terminal.pid, signal.SIGTERM)
        status = await asyncio.to_thread(terminal.end)
        last = terminal.raw[start:]
    assert status == 128 + signal.SIGTERM
    assert all(wanted in last for wanted in (ALTERNATE_OFF, MOUSE_OFF, CURSOR_ON)), last
    assert ALTERNATE_ON not in last
    async with await client.connect(start=False) as connection:
        assert (await connection.status()).clients == 0
    return f"its last {len(last)} bytes leave the alternate screen and the mouse; status {status}"


def _wait(terminal: Terminal, holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < deadline, terminal.shown()
        terminal.read()


@fault(48, "the app is suspended and continued", "the screen is left and taken again, engine and run unaffected")
async def suspended(stage: Stage) -> str:
    engine = stage.engine
    root = stage.target("honest")
    log = stage.home / "log"
    words = [sys.executable, "-c", SHELL, str(log), *APP, str(root)]
    pids: list[int] = []
    try:
        with on_terminal(words, environment(engine)) as terminal:
            await asyncio.to_thread(terminal.wait_for, DRAWN)
            start = len(terminal.raw)
            os.write(terminal.master, b"\x1a")
            await asyncio.to_thread(_wait, terminal, lambda: "stopped" in log.read_text())
            pids.append(int(log.read_text().split()[1]))
            left = terminal.raw[start:]
            assert ALTERNATE_OFF in left and MOUSE_OFF in left
            # A client that stands still holds nobody up.
            async with engine.stream() as stream:
                (run_id,) = await stream.plan(root, "mine:honest", rungs=["baseline"])
                assert (await stream.finish(run_id)).state == State.OK.value
            start = len(terminal.raw)
            os.kill(terminal.pid, signal.SIGUSR1)
            await asyncio.to_thread(
                _wait, terminal, lambda: all(part in terminal.raw[start:] for part in (ALTERNATE_ON, b"Targets"))
            )
            os.write(terminal.master, b"q")
            await asyncio.to_thread(_wait, terminal, lambda: "ended 0" in log.read_text())
            pids.clear()
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
    return "Ctrl-Z left the screen, a run ended ok meanwhile, the app drew again and left with status 0"


@fault(
    47,
    "TERM=dumb, a pipe, a terminal of 0x0, NO_COLOR",
    "the plain list of targets and a sentence, no escape sequence, status 3; with NO_COLOR greys alone",
)
async def nowhere_to_draw(stage: Stage) -> str:
    root = stage.target("honest")
    given = environment(stage.engine)
    words = [*APP, str(root)]
    for changes, size, says in (
        ({"TERM": "dumb"}, (80, 24), b"TERM is dumb"),
        ({}, (0, 0), b"0x0"),
    ):
        with on_terminal(words, given | changes, size) as terminal:
            assert await asyncio.to_thread(terminal.end) == 3
        assert b"\x1b" not in terminal.raw
        assert says in terminal.raw and b"mine:honest" in terminal.raw, terminal.raw
    done = await asyncio.to_thread(
        subprocess.run,
        words,
        env=given,
        cwd=Path(client.__file__).parents[2],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 3
    assert b"mine:honest" in done.stdout and b"aisp list" in done.stderr
    assert b"\x1b" not in done.stdout + done.stderr
    with on_terminal([*words, "--no-mouse"], given | {"NO_COLOR": "1"}) as terminal:
        await asyncio.to_thread(terminal.wait_for, DRAWN)
        os.write(terminal.master, b"q")
        assert await asyncio.to_thread(terminal.end) == 0
    colours = {tuple(found) for found in re.findall(rb"[34]8;2;(\d+);(\d+);(\d+)", terminal.raw)}
    assert [found for found in colours if len(set(found)) > 1] == [] and b"8;5;" not in terminal.raw
    return f"status 3 and no escape in the first three; with NO_COLOR {len(colours)} greys"


# -- several clients ---------------------------------------------------------------------------------------------------


class Raw:
    """A client that says whatever a scene wants, frame by frame."""

    def __init__(self) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(20)
        self.socket.connect(str(paths.find_socket()))
        self._decoder: Decoder[events.AnyEvent] = Decoder(events.AnyEvent)
        self._arrived: list[events.AnyEvent] = []

    def __enter__(self) -> Raw:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def say(self, message: msgspec.Struct) -> None:
        self.socket.sendall(Encoder().frame(message))

    def hello(self, protocol: int = PROTOCOL, client_id: str = "raw", subscribe_from: int | None = None) -> None:
        self.say(requests.Hello(protocol=protocol, build="b", client=client_id, subscribe_from=subscribe_from))

    def hear(self) -> events.AnyEvent | None:
        """The next event, None at the end of the line."""
        while not self._arrived:
            try:
                data = self.socket.recv(1 << 18)
            except ConnectionResetError:
                data = b""
            if not data:
                return None
            self._arrived += [event for event in self._decoder.feed(data) if not isinstance(event, events.Pulse)]
        return self._arrived.pop(0)


NOISY = corpus.Row(
    "noisy",
    # For five seconds in all, faster than it may be told.
    "import os\nimport time\n\ncalls = 0\n\n\ndef run(x):\n    global calls\n    calls += 1\n"
    "    end = time.monotonic() + (2.5 if calls in (2, 3) else 0)\n"
    "    while time.monotonic() < end:\n"
    "        for stream in (1, 2):\n            os.write(stream, (b'n' * 1900 + b'\\n') * 100)\n"
    "        time.sleep(0.05)\n    return x * 2\n",
    State.OK,
)


@fault(
    34,
    "several clients at once: one never reads, one comes late, one asks twice",
    "all see one ordered stream; the slow one is told what it missed, a repeated request is carried out once",
)
async def several_clients(stage: Stage) -> str:
    root = stage.target("noisy", NOISY)

    def ask_twice() -> list[events.Event | None]:
        request = requests.StartRuns(
            seq=7, roots=[str(root)], targets=["mine:noisy"], rungs=["optimized_noisy"], quick=True
        )
        with Raw() as first, Raw() as second:
            for raw in (first, second):
                raw.hello(client_id=f"impatient {root}")
            # Both are on their way before either is answered, as after a reconnect.
            first.say(request)
            second.say(request)
            answers: list[events.Event | None] = [first.hear(), first.hear(), second.hear(), second.hear()]
            second.say(request)
            return [*answers, second.hear()]

    async with stage.engine.stream() as one, stage.engine.stream() as two:
        started = one.connection.welcome.next_seq

        def never_read() -> Raw:
            raw = Raw()
            raw.hello(client_id="asleep", subscribe_from=started)
            return raw

        asleep = await asyncio.to_thread(never_read)
        with asleep:
            before_bytes = (await one.connection.status()).rss_bytes
            replies = [reply for reply in await asyncio.to_thread(ask_twice) if isinstance(reply, events.Reply)]
            assert len(replies) == 3 and replies[0].error == ""
            assert replies[0] == replies[1] == replies[2]
            (run_id,) = replies[0].run_ids
            end = await one.finish(run_id)
            await two.finish(run_id)
            assert [e.run_id for e in one.seen if isinstance(e, events.RunPlanned)] == [run_id], "carried out once"
            told = [event for event in one.of_run(run_id) if isinstance(event, events.Output)]
            told_bytes = sum(len(line) for event in told for line in event.lines)
            assert told_bytes > CLIENT_QUEUE_BYTES + (1 << 20), "more than a client's queue may hold"
            status = await one.connection.status()
            assert status.clients == 3
            assert status.rss_bytes < before_bytes + (64 << 20)
            async with stage.engine.stream(start_at=started) as late:
                await late.finish(run_id)

            def upto(stream: Stream) -> list[bytes]:
                return [msgspec.msgpack.encode(e) for e in stream.seen if started <= e.seq <= end.seq]

            numbers = [event.seq for event in one.seen if started <= event.seq <= end.seq]
            assert numbers == list(range(started, end.seq + 1)), "numbered without a hole"
            assert upto(one) == upto(two) == upto(late)
            last = one.seen[-1].seq

            def wake_up() -> list[events.Event]:
                heard: list[events.Event] = []
                while not heard or heard[-1].seq < last:
                    event = asleep.hear()
                    assert event is not None, "the engine hung up on a slow client"
                    heard.append(event)
                return heard

            heard = await asyncio.to_thread(wake_up)
    gaps = [event for event in heard if isinstance(event, events.Gap)]
    assert len(gaps) >= 1
    missing = {seq for gap in gaps for seq in range(gap.first, gap.last + 1)}
    received = [event.seq for event in heard if event.seq]
    assert received == sorted(set(received))
    assert missing.isdisjoint(received)
    assert missing | set(received) >= set(range(started, last + 1)), "every number is accounted for"
    return (
        f"{len(numbers)} events, the same for two clients and a late one; "
        f"the one that never read missed {len(missing)} "
        f"and was told which; 3 equal requests made 1 run"
    )


# -- strangers ---------------------------------------------------------------------------------------------------------

NOBODY = 65534
ATTEMPT = (
    "import os, socket, sys\n"
    f"os.setgroups([]); os.setgid({NOBODY}); os.setuid({NOBODY})\n"
    "s = socket.socket(socket.AF_UNIX)\n"
    "try:\n    s.connect(sys.argv[1])\n"
    "except PermissionError:\n    sys.exit(13)\n"
    "s.settimeout(10)\n"
    "try:\n    s.sendall(bytes.fromhex(sys.argv[2]))\n    welcome = s.recv(1)\n"
    "except ConnectionError:\n    welcome = b''\n"
    "sys.exit(0 if welcome else 14)\n"  # 14: let in by the file system, then shown the door whatever it says
)


@fault(
    38,
    "another user of the machine tries to connect",
    "the file system refuses; where it would not, the kernel's word on the caller's uid does; no abstract socket",
)
async def another_user(stage: Stage) -> str:
    found = paths.find_socket()
    assert found is not None
    assert (found.stat().st_mode & 0o777, found.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    held = []
    for descriptor in Path(f"/proc/{stage.engine.ps.pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed meanwhile
            held.append(str(descriptor.readlink()))
    inodes = {re.sub(r"\D", "", name) for name in held if name.startswith("socket:")}
    rows = [line.split() for line in Path("/proc/net/unix").read_text().splitlines()[1:]]
    named = {row[7] for row in rows if row[6] in inodes and len(row) > 7}
    assert named == {str(found)}, "the engine's only named socket is the one in its private folder"
    if os.getuid() != 0:
        return "0600 in 0700, no abstract socket; nobody but root can become another user to try it"

    def attempt() -> int:
        return subprocess.run(
            [sys.executable, "-c", ATTEMPT, str(found), HELLO.hex()], timeout=60, check=False
        ).returncode

    assert await asyncio.to_thread(attempt) == 13
    # Even a socket that the file system would open to everybody lets nobody else in.
    opened = [found, *[folder for folder in found.parents if folder.stat().st_mode & 0o005 != 0o005]]
    modes = {place: place.stat().st_mode & 0o7777 for place in opened}
    try:
        for place in opened:
            # Folders are opened for passing through alone: others at work below them ask that nobody may write there.
            place.chmod(0o755 if place.is_dir() else 0o777)
        assert await asyncio.to_thread(attempt) == 14
    finally:
        for place, mode in modes.items():
            place.chmod(mode)
    async with await client.connect(start=False) as connection:
        assert any("another user was refused" in line for line in await connection.log(2000))
    return f"uid {NOBODY}: EACCES; with the way opened to all, hung up on without a byte; no abstract socket"


NO_MESSAGES = {
    "another protocol": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "no msgpack": struct.pack(">I", 5) + b"\xc1\xc1\xc1\xc1\xc1",
    "no hello": Encoder().frame(requests.GetStatus(seq=1)),
    "100,000 lists in each other": struct.pack(">I", 100_000) + b"\x91" * 100_000,
}
HELLO = Encoder().frame(requests.Hello(protocol=PROTOCOL, build="b", client="stranger"))
FUZZED = 300


def _plain(message: dict[str, object]) -> bytes:
    """A frame of what no struct of ours would encode."""
    data = msgspec.msgpack.encode(message)
    return struct.pack(">I", len(data)) + data


def _tag(kind: type[msgspec.Struct]) -> dict[str, object]:
    config = kind.__struct_config__
    return {str(config.tag_field): config.tag}


def _no_requests() -> dict[str, bytes]:
    """After a hello: fields that no request has, or values that no field takes."""
    start = _tag(requests.StartRuns) | {"seq": 1, "targets": ["x"]}
    return {
        "a field of no request": _plain(start | {"colour": "red"}),
        "NaN for a number": _plain(start | {"replicas": float("nan")}),
        "infinity for a number": _plain(start | {"seq": float("inf")}),
        "a text for a list": _plain(start | {"targets": "x"}),
        "no request": _plain({"type": "Eval", "seq": 1, "code": "1 + 1"}),
        "half a character": struct.pack(">I", 3) + b"\xa2\xed\xa0",
    }


@fault(39, "malicious messages", "each ends its own connection and nothing else; nothing is evaluated")
async def malicious_messages(stage: Stage) -> str:
    def talk(said: bytes, *, greeted: bool) -> list[events.Event]:
        heard: list[events.Event] = []
        with Raw() as raw:
            if greeted:
                raw.hello()
                assert isinstance(raw.hear(), events.Welcome)
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                raw.socket.sendall(said)
            while (event := raw.hear()) is not None:
                heard.append(event)
        return heard

    def ends_the_engine(said: bytes) -> bool:
        """Whether the engine would read a whole request to stop in it, which is nobody's malice."""
        decoder: Decoder[requests.AnyRequest] = Decoder(requests.AnyRequest, limit=MAX_REQUEST_BYTES)
        with contextlib.suppress(FrameError):
            return any(isinstance(request, requests.Shutdown) for request in decoder.feed(said))
        return False

    def fuzz(said: bytes) -> None:
        with Raw() as raw, contextlib.suppress(OSError):
            raw.socket.sendall(said)
            raw.socket.shutdown(socket.SHUT_WR)
            while raw.socket.recv(1 << 18):
                pass

    async with stage.engine.stream() as stream:
        for name, said in NO_MESSAGES.items():
            assert await asyncio.to_thread(talk, said, greeted=False) == [], name
            assert "a connection was closed" in (await stream.until(events.LogLine)).text, name
        wrong = _no_requests()
        for name, said in wrong.items():
            assert await asyncio.to_thread(talk, said, greeted=True) == [], name
            assert "a connection was closed" in (await stream.until(events.LogLine)).text, name
        made = ((HELLO if n % 2 else b"") + frames.FUZZ.make(random.Random(n)).data for n in itertools.count())
        for said in itertools.islice(itertools.filterfalse(ends_the_engine, made), FUZZED):
            await asyncio.to_thread(fuzz, said)
        status = await stream.connection.status()
    assert (status.clients, status.queue, status.watches) == (1, [], [])
    tried = f"{len(NO_MESSAGES)} before a hello, {len(wrong)} after one, {FUZZED} fuzzed"
    return f"{tried}: each cost its own connection alone"


@fault(40, "over-long messages", "refused at the announced length, by the engine and before they are sent by a client")
async def over_long(stage: Stage) -> str:
    def talk(said: bytes) -> object:
        with Raw() as raw:
            raw.hello()
            welcome = raw.hear()
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                raw.socket.sendall(said)
            assert raw.hear() is None
            return welcome

    async with stage.engine.stream() as stream:
        before_bytes = (await stream.connection.status()).rss_bytes
        for said, length in (
            (struct.pack(">I", MAX_REQUEST_BYTES + 1), MAX_REQUEST_BYTES + 1),
            (struct.pack(">I", 0xFFFFFFFF) + b"x" * 64, 0xFFFFFFFF),
            (struct.pack(">I", 3 << 20) + b"x" * (3 << 20), 3 << 20),
            (b"a" * (3 << 20), 0x61616161),
        ):
            assert isinstance(await asyncio.to_thread(talk, said), events.Welcome)
            told = await stream.until(events.LogLine)
            assert f"a frame of {length} bytes was announced, the limit is {MAX_REQUEST_BYTES}" in told.text
        grown_bytes = (await stream.connection.status()).rss_bytes - before_bytes
        assert grown_bytes < 8 << 20
        long = requests.StartRuns(seq=stream.connection.next_seq(), targets=["x" * 1000] * 300)
        refusal = ""
        try:
            await stream.connection.request(long)
        except EngineUnavailableError as error:
            refusal = str(error)
        assert "the request is too long" in refusal and "name fewer targets at once" in refusal
        assert (await stream.connection.status()).queue == []
    return f"4 frames of up to 4 GiB refused at their length, the engine grew by {max(grown_bytes, 0) >> 10} KiB"


OTHER_APP = [
    sys.executable,
    "-c",
    "import aisp.engine.protocol as protocol\nprotocol.PROTOCOL += 1\nfrom aisp.tui.start import main\nmain()",
]


@fault(
    41,
    "a client of another version",
    "it is told, offers to restart the engine when idle, and can do nothing else",
    own=True,
)
async def another_version(stage: Stage) -> str:
    engine = await stage.started()
    root = stage.target("honest")
    assert engine.process is not None
    pid = engine.process.pid
    refusal = f"protocol {PROTOCOL + 1}; this engine speaks {PROTOCOL}"

    def converse() -> None:
        with Raw() as raw:
            raw.hello(protocol=PROTOCOL + 1)
            welcome = raw.hear()
            assert isinstance(welcome, events.Welcome)
            assert (welcome.compatible, welcome.protocol, welcome.pid) == (False, PROTOCOL, pid)
            for request in (
                requests.StartRuns(seq=1, targets=["ch05:collate"]),
                requests.Cancel(seq=2),
                requests.GetStatus(seq=3),
            ):
                raw.say(request)
                reply = raw.hear()
                assert isinstance(reply, events.Reply)
                assert (reply.to, reply.error) == (request.seq, refusal)
            raw.say(requests.Shutdown(seq=4))
            reply = raw.hear()
            assert isinstance(reply, events.Reply)
            assert (reply.error, reply.detail) == ("", "stopping")

    with engine.use():
        told = ""
        with mock.patch.object(client, "PROTOCOL", PROTOCOL + 1):
            try:
                await client.connect(start=False)
            except EngineMismatchError as error:
                told = str(error)
        assert f"pid {pid}" in told and "`aisp engine --stop --when-idle` ends it after its queue" in told
        with on_terminal([*OTHER_APP, "--no-mouse", str(root)], environment(engine), (200, 30)) as terminal:
            await asyncio.to_thread(terminal.wait_for, b"engine is of another version")
            await asyncio.to_thread(_wait, terminal, lambda: "stop --when-idle" in terminal.shown())
            os.write(terminal.master, b"r")
            await asyncio.to_thread(_wait, terminal, lambda: "not sent" in terminal.shown())
            os.write(terminal.master, b"q")
            assert await asyncio.to_thread(terminal.end) == 0
        async with await client.connect(start=False) as connection:
            status = await connection.status()
            assert (status.queue, status.runs_done) == ([], 0)
        await asyncio.to_thread(converse)
    assert await asyncio.to_thread(engine.process.wait, 30) == 0
    return f"{told!r}; the app shows it and sends no run; only Shutdown was carried out"
