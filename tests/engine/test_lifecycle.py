"""The engine's own life: how it starts, dies, is found again, and whom it lets in."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import sqlite3
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import psutil  # type: ignore[import-untyped]
import pytest

from engine import client, paths
from engine.client import EngineMismatchError
from engine.journal import VIEWER_QUEUE_BYTES
from engine.protocol import PROTOCOL, events, requests
from engine.protocol.framing import Decoder, Encoder
from store.outcomes import State
from tests.engine.harness import EngineUnderTest, Stream
from tests.evil import corpus

pytestmark = [pytest.mark.xdist_group("engine"), pytest.mark.timeout(180)]

Own = Callable[..., EngineUnderTest]
LASTING = corpus.Row(
    "lasting",
    corpus.on_call(40, "time.sleep(60)", imports="import time"),
    State.ENGINE_LOST,
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A collection with an honest target and one whose timing stalls."""
    corpus.write(tmp_path / "mine" / "honest")
    corpus.write(tmp_path / "mine" / "lasting", [LASTING])
    return tmp_path / "mine"


# -- death ---------------------------------------------------------------------------------------------------------


async def at_planned(stream: Stream) -> None:
    await stream.until(events.RunPlanned)


async def at_warm_worker(stream: Stream) -> None:
    await stream.until(events.Step, lambda step: step.name == "warm worker")


async def at_verify(stream: Stream) -> None:
    await stream.until(events.Step, lambda step: step.name == "verify")


async def at_samples(stream: Stream) -> None:
    await stream.until(events.SampleBatch)


async def after_a_stored_run(stream: Stream) -> None:
    await stream.until(events.RunFinished)
    await stream.until(events.RunState)


@pytest.mark.slow
async def test_kill_9_of_the_engine_takes_its_workers_along_and_the_next_one_tells_of_the_lost_run(
    own: Own,
    root: Path,
) -> None:
    engine = own()
    lost: list[str] = []
    kept: list[str] = []
    for moment in (at_planned, at_warm_worker, at_verify, at_samples, after_a_stored_run):
        await engine.start()
        async with engine.stream() as stream:
            requested = [("mine:lasting", "optimized_lasting"), ("mine:honest", "baseline")]
            if moment is after_a_stored_run:
                requested.reverse()
            planned = [(await stream.plan(root, target, rungs=[rung]))[0] for target, rung in requested]
            await moment(stream)
            workers = engine.workers()
            engine.kill()
        assert len(workers) > 0, moment.__name__
        _, alive = psutil.wait_procs(workers, timeout=1.0)
        # In a container whose first process collects nobody, the dead stay as zombies.
        alive = [worker for worker in alive if worker.status() != psutil.STATUS_ZOMBIE]
        assert alive == [], f"{moment.__name__}: workers outlived the engine"
        if moment is after_a_stored_run:
            kept.append(planned.pop(0))
        lost += planned
        with contextlib.closing(sqlite3.connect(engine.home / "state" / "aisp.db")) as database:
            assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)], moment.__name__
    await engine.start()
    for run_id in lost:
        record = engine.record(run_id)
        assert record.state is State.ENGINE_LOST
        assert record.reason
        assert record.arms == ()
    assert [engine.record(run_id).state for run_id in kept] == [State.OK]
    with engine.history() as history:
        assert history.count() == len(lost) + len(kept), "planned runs are journalled before they start"
    assert (await engine.run(root, "mine:honest", rungs=["baseline"])).record.state is State.OK


async def test_sigterm_ends_runs_as_cancelled_and_leaves_nothing(own: Own, root: Path) -> None:
    engine = own()
    await engine.start()
    async with engine.stream() as stream:
        running, waiting = await stream.plan(root, "mine:lasting", "mine:honest", rungs=["optimized"])
        await stream.until(events.Step, lambda step: step.name == "verify")
        workers = engine.workers()
        assert engine.terminate() == 0
        # Faces are told before the line goes.
        assert (await stream.finish(running)).state == "cancelled"
        assert (await stream.finish(waiting)).reason == "cancelled: the engine was stopped"
    assert len(workers) > 0
    assert not any(worker.is_running() for worker in workers)
    assert [engine.record(run_id).state for run_id in (running, waiting)] == [State.CANCELLED, State.CANCELLED]
    with engine.use():
        assert paths.find_socket() is None
    await engine.start()
    assert engine.record(running).state is State.CANCELLED, "the next engine does not call it lost"


async def test_a_run_that_lasts_too_long_as_a_whole_is_ended(own: Own, root: Path) -> None:
    engine = own(AISP_TOTAL_LIMIT_S="5", AISP_PROGRESS_LIMIT_S="60")
    await engine.start()
    await engine.steady()
    result = await engine.run(root, "mine:lasting", rungs=["optimized_lasting"])
    assert result.record.state is State.TIMEOUT_TOTAL
    assert result.record.reason == "the run took longer than 5 s; use smaller axes or --quick"
    assert {arm.median_ms for arm in result.record.arms} == {None}


async def test_stop_when_idle_lets_the_queue_end_first(own: Own, root: Path) -> None:
    engine = own()
    await engine.start()
    async with engine.stream() as stream:
        (run_id,) = await stream.plan(root, "mine:honest", rungs=["baseline"])
        reply = await stream.ask(requests.Shutdown(seq=stream.connection.next_seq(), when_idle=True))
        assert reply.detail == "stops after 1 run(s)"
        assert (await stream.finish(run_id)).state == "ok"
        assert engine.process is not None
        assert await asyncio.to_thread(engine.process.wait, 30) == 0
    with engine.use():
        assert paths.find_socket() is None


# -- one of them -----------------------------------------------------------------------------------------------------


async def test_twenty_racing_starts_make_one_engine(own: Own) -> None:
    engine = own()
    with engine.use():
        starts = [client.start_engine() for _ in range(20)]
        connection = await client.connect()
        async with connection:
            pid = connection.welcome.pid
            losers = [process for process in starts if process.pid != pid]
            statuses = await asyncio.to_thread(lambda: [process.wait(60) for process in losers])
            status = await connection.status()
        engine.process = next((process for process in starts if process.pid == pid), None)
        assert engine.process is not None, "the engine is one of those that were started"
        assert statuses == [paths.EXIT_ALREADY_RUNNING] * 19
        assert status.pid == pid
        assert paths.lock_file().read_text() == str(pid)
        assert engine.workers() == [], "nobody asked for warm workers yet"


async def test_a_socket_that_a_killed_engine_left_is_replaced(own: Own) -> None:
    engine = own()
    await engine.start()
    with engine.use():
        engine.kill()
        stale = paths.find_socket()
        assert stale is not None and stale.is_socket(), "kill -9 leaves the socket behind"
        with pytest.raises(client.EngineUnavailableError, match="nothing listens on"):
            await client.connect(start=False)
        await engine.start()
        assert paths.find_socket() == stale
        async with await client.connect(start=False) as connection:
            assert engine.process is not None
            assert connection.welcome.pid == engine.process.pid


def there(path: Path) -> None:
    """Wait for a file."""
    deadline = time.monotonic() + 10
    while not path.exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)


async def test_a_socket_that_is_taken_away_is_bound_again(shared: EngineUnderTest) -> None:
    async with shared.stream() as stream:
        bound = paths.socket_file()
        bound.unlink()
        told = await stream.until(events.LogLine, lambda line: "was taken away" in line.text)
        assert told.level == "WARNING"
        await asyncio.to_thread(there, bound)
        assert (bound.stat().st_mode & 0o777) == 0o600
        async with await client.connect(start=False) as connection:
            assert (await connection.status()).pid == (await stream.connection.status()).pid


async def test_a_face_with_another_runtime_directory_finds_the_engine(
    shared: EngineUnderTest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    async with await client.connect(start=False) as connection:
        assert shared.process is not None
        assert connection.welcome.pid == shared.process.pid


# -- places ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "home",
    [pytest.param("", id="unset"), pytest.param("/nonexistent", id="missing"), pytest.param("/sys", id="read-only")],
)
async def test_without_a_home_state_is_temporary_and_says_so(
    own: Own,
    root: Path,
    home: str,
) -> None:
    if home == "/nonexistent" and os.getuid() == 0:
        home = "/proc/nonexistent"  # root could make the other one
    engine = own(HOME=home, AISP_STATE="", XDG_STATE_HOME="")
    engine.environment["AISP_STATE"] = ""
    await engine.start()
    with engine.use():
        expected = engine.temporary / f"aisp-{os.getuid()}" / "state"
        assert paths.state_dir() == expected
        assert paths.state_is_temporary()
        async with await client.connect(start=False, subscribe_from=0) as connection:
            banner = await Stream(connection).until(events.Banner)
    assert banner.text == f"no lasting place could be written to: results are in {expected} until a reboot"
    if home == "":
        async with engine.stream() as stream:
            (run_id,) = await stream.plan(root, "mine:honest", rungs=["baseline"])
            assert (await stream.finish(run_id)).state == "ok"


async def test_without_xdg_runtime_dir_the_socket_lies_in_a_private_folder(own: Own) -> None:
    engine = own(XDG_RUNTIME_DIR="")
    await engine.start()
    with engine.use():
        found = paths.find_socket()
        assert found is not None
        assert found.parent == engine.temporary / f"aisp-{os.getuid()}"
        assert (found.parent.stat().st_mode & 0o777) == 0o700
        async with await client.connect(start=False) as connection:
            assert (await connection.status()).queue == []


async def test_a_state_directory_with_a_very_long_name_works(own: Own, tmp_path: Path) -> None:
    deep = tmp_path / ("s" * 200)
    engine = own(AISP_STATE=str(deep), XDG_RUNTIME_DIR=str(tmp_path / ("r" * 200)))
    await engine.start()
    with engine.use():
        found = paths.find_socket()
        assert found is not None
        assert len(os.fsencode(found)) <= paths.MAX_SOCKET_PATH_BYTES
        async with await client.connect(start=False) as connection:
            assert connection.welcome.state_dir == str(deep)


# -- who may come in ---------------------------------------------------------------------------------------------------


def refused(engine: EngineUnderTest) -> str:
    """What an engine that does not start says."""
    environment = os.environ | engine.environment | {"PYTHONPATH": str(Path(client.__file__).parent.parent)}
    done = subprocess.run(
        [sys.executable, "-m", "engine.server"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    return done.stderr


async def test_a_state_directory_that_is_a_link_is_refused(own: Own, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    engine = own(AISP_STATE=str(tmp_path / "link"))
    said = refused(engine)
    assert f"{tmp_path / 'link'} is a symbolic link; remove it or set AISP_STATE to a folder of your own" in said
    assert list((tmp_path / "elsewhere").iterdir()) == []


@pytest.mark.skipif(os.getuid() != 0, reason="only root can make a folder that belongs to somebody else")
async def test_a_state_directory_of_somebody_else_is_refused(own: Own, tmp_path: Path) -> None:
    (tmp_path / "theirs").mkdir()
    os.chown(tmp_path / "theirs", 65534, 65534)
    engine = own(AISP_STATE=str(tmp_path / "theirs"))
    assert "belongs to uid 65534; set AISP_STATE to a folder of your own" in refused(engine)


async def test_a_state_directory_that_all_users_share_is_refused_and_left_as_it_is(
    own: Own,
    tmp_path: Path,
) -> None:
    place = tmp_path / "everybodys"
    place.mkdir()
    place.chmod(0o1777)
    engine = own(AISP_STATE=str(place))
    assert "is shared by all users; set AISP_STATE to a folder of your own below it" in refused(engine)
    assert (place.stat().st_mode & 0o7777) == 0o1777


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
async def test_another_user_cannot_connect(shared: EngineUnderTest) -> None:
    found = paths.find_socket()
    assert found is not None
    assert (found.stat().st_mode & 0o777, found.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    attempt = (
        "import os, socket, sys\n"
        "os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
        "s = socket.socket(socket.AF_UNIX)\n"
        "try:\n    s.connect(sys.argv[1])\n"
        "except PermissionError:\n    sys.exit(13)\n"
        "s.settimeout(10)\n"
        "sys.exit(0 if s.recv(1) else 14)\n"  # 14: let in by the file system, then shown the door
    )

    def try_it() -> int:
        return subprocess.run([sys.executable, "-c", attempt, str(found)], timeout=60, check=False).returncode

    assert await asyncio.to_thread(try_it) == 13
    # Even a socket that the file system would open to everybody lets nobody else in.
    opened = [found, *[folder for folder in found.parents if folder.stat().st_mode & 0o005 != 0o005]]
    modes = {place: place.stat().st_mode & 0o777 for place in opened}
    try:
        for place in opened:
            place.chmod(0o777)
        assert await asyncio.to_thread(try_it) == 14
    finally:
        for place, mode in modes.items():
            place.chmod(mode)
    async with await client.connect(start=False) as connection:
        assert any("another user was refused" in line for line in await connection.log())


# -- the line ----------------------------------------------------------------------------------------------------------


class Raw:
    """A face that says whatever a test wants, frame by frame."""

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
            data = self.socket.recv(1 << 18)
            if not data:
                return None
            self._arrived += self._decoder.feed(data)
        return self._arrived.pop(0)


async def in_thread(function: Callable[[], object]) -> object:
    """Blocking sockets beside the loop that the test's own connections need."""
    return await asyncio.to_thread(function)


async def test_a_face_of_another_version_is_told_and_can_only_stop_the_engine(
    own: Own,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engine = own()
    await engine.start()
    assert engine.process is not None
    pid = engine.process.pid

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
                assert (reply.to, reply.error) == (
                    request.seq,
                    f"protocol {PROTOCOL + 1}; this engine speaks {PROTOCOL}",
                )
            raw.say(requests.Shutdown(seq=4))
            reply = raw.hear()
            assert isinstance(reply, events.Reply)
            assert (reply.error, reply.detail) == ("", "stopping")

    with engine.use():
        with monkeypatch.context() as patch:
            patch.setattr(client, "PROTOCOL", PROTOCOL + 1)
            with pytest.raises(EngineMismatchError, match=f"pid {pid}.*aisp engine stop --when-idle"):
                await client.connect(start=False)
        await in_thread(converse)
    assert await asyncio.to_thread(engine.process.wait, 30) == 0


async def test_a_request_that_is_repeated_is_carried_out_once(shared: EngineUnderTest, root: Path) -> None:
    def twice() -> list[events.Event | None]:
        request = requests.StartRuns(seq=7, roots=[str(root)], targets=["mine:honest"], rungs=["baseline"], quick=True)
        with Raw() as first, Raw() as second:
            for raw in (first, second):
                raw.hello(client_id="impatient")
            # Both are on their way before either is answered, as after a reconnect.
            first.say(request)
            second.say(request)
            answers: list[events.Event | None] = [first.hear(), first.hear(), second.hear(), second.hear()]
            second.say(request)
            return [*answers, second.hear()]

    async with shared.stream() as stream:
        replies = [reply for reply in await in_thread(twice) if isinstance(reply, events.Reply)]  # type: ignore[attr-defined]
        assert len(replies) == 3
        assert replies[0].error == ""
        assert replies[0] == replies[1] == replies[2]
        (run_id,) = replies[0].run_ids
        await stream.finish(run_id)
        assert [e.run_id for e in stream.seen if isinstance(e, events.RunPlanned)] == [run_id]


@pytest.mark.parametrize(
    "said",
    [
        pytest.param(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", id="another protocol"),
        pytest.param(struct.pack(">I", 0xFFFFFFFF) + b"x" * 64, id="a frame of 4 GB announced"),
        pytest.param(struct.pack(">I", 5) + b"\xc1\xc1\xc1\xc1\xc1", id="no msgpack"),
        pytest.param(Encoder().frame(requests.GetStatus(seq=1)), id="no hello"),
        pytest.param(struct.pack(">I", 100_000) + b"\x91" * 100_000, id="deeply nested"),
    ],
)
async def test_what_is_no_message_ends_its_own_connection_only(
    shared: EngineUnderTest,
    said: bytes,
) -> None:
    def talk() -> events.Event | None:
        with Raw() as raw:
            raw.socket.sendall(said)
            return raw.hear()

    async with shared.stream() as stream:
        assert await in_thread(talk) is None
        assert "a connection was closed" in (await stream.until(events.LogLine)).text
        assert (await stream.connection.status()).viewers == 1


async def test_two_faces_see_the_same_stream_and_a_late_one_catches_up(
    shared: EngineUnderTest,
    root: Path,
) -> None:
    async with shared.stream() as one, shared.stream() as two:
        started = one.connection.welcome.next_seq
        (run_id,) = await one.plan(root, "mine:honest", rungs=["baseline"])
        end = await one.finish(run_id)
        await two.finish(run_id)
        async with shared.stream(start_at=started) as late:
            await late.finish(run_id)

            def upto(stream: Stream) -> list[bytes]:
                return [msgspec.msgpack.encode(e) for e in stream.seen if started <= e.seq <= end.seq]

            numbers = [e.seq for e in one.seen if started <= e.seq <= end.seq]
            assert numbers == list(range(started, end.seq + 1)), "numbered without a hole"
            assert upto(one) == upto(two) == upto(late)


async def test_a_face_that_never_reads_holds_nobody_up_and_is_told_what_it_missed(
    shared: EngineUnderTest,
    root: Path,
) -> None:
    noisy = corpus.Row(
        "noisy",
        # For five seconds in all, faster than it may be told.
        "import os\nimport time\n\ncalls = 0\n\n\ndef run(x):\n    global calls\n    calls += 1\n"
        "    end = time.monotonic() + (2.5 if calls in (2, 3) else 0)\n"
        "    while time.monotonic() < end:\n"
        "        for stream in (1, 2):\n            os.write(stream, (b'n' * 1900 + b'\\n') * 100)\n"
        "        time.sleep(0.05)\n    return x * 2\n",
        State.OK,
    )
    corpus.write(root / "noisy", [noisy])
    async with shared.stream() as reading:
        start_at = reading.connection.welcome.next_seq

        def never_read() -> Raw:
            raw = Raw()
            raw.hello(client_id="asleep", subscribe_from=start_at)
            return raw

        asleep = await asyncio.to_thread(never_read)
        with asleep:
            before_bytes = (await reading.connection.status()).rss_bytes
            (run_id,) = await reading.plan(root, "mine:noisy", rungs=["optimized_noisy"])
            await reading.finish(run_id)
            told = [e for e in reading.of_run(run_id) if isinstance(e, events.Output)]
            told_bytes = sum(len(line) for event in told for line in event.lines)
            assert told_bytes > VIEWER_QUEUE_BYTES + (1 << 20), "more than a face's queue may hold"
            status = await reading.connection.status()
            assert status.viewers == 2
            assert status.rss_bytes < before_bytes + (64 << 20)
            last = reading.seen[-1].seq

            def wake_up() -> list[events.Event]:
                heard: list[events.Event] = []
                while not heard or heard[-1].seq < last:
                    event = asleep.hear()
                    assert event is not None, "the engine hung up on a slow face"
                    heard.append(event)
                return heard

            heard = await asyncio.to_thread(wake_up)
    gaps = [event for event in heard if isinstance(event, events.Gap)]
    assert len(gaps) >= 1
    missing = {seq for gap in gaps for seq in range(gap.first, gap.last + 1)}
    received = [event.seq for event in heard if event.seq]
    assert received == sorted(set(received))
    assert missing.isdisjoint(received)
    assert missing | set(received) >= set(range(start_at, last + 1)), "every number is accounted for"


async def test_a_face_that_asks_for_another_engines_events_gets_all_of_this_ones(
    shared: EngineUnderTest,
) -> None:
    async with await client.connect(start=False, subscribe_from=10**9, epoch="01ARZ3NDEKTSV4RRFFQ69G5FAV") as other:
        first = await Stream(other).until(events.Event)
        assert (first.seq, isinstance(first, events.Gap)) in ((1, False), (0, True))
