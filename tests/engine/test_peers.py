"""Who speaks to `aisp serve` over TCP: what the engine started is answered nothing, whichever way it asks."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from aisp.engine import peers
from tests.engine.test_serve import Served
from tests.tui.fake_engine import isolate, make_target

ENGINE = """
import json, subprocess, sys
from aisp.engine import lock
assert lock.take() is not None
print("ready", flush=True)
for line in sys.stdin:
    done = subprocess.run(json.loads(line), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    print(json.dumps([done.returncode, done.stdout]), flush=True)
"""
ASK = """
import sys, urllib.request
request = urllib.request.Request(sys.argv[1] + "/targets", headers={"authorization": "Bearer " + sys.argv[2]})
print(urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=20).status)
"""
HOLD = """
import socket, sys
one = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
one.sendall(b"x")
sys.stdin.read()
"""
LEAVE = HOLD.replace("sys.stdin.read()", "")
PARK = """
import array, socket, sys
one = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
one.sendall(b"x")
left, right = socket.socketpair()
left.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [one.fileno()]))])
one.close()
sys.stdin.read()
"""
THREAD = """
import ctypes, os, socket, sys, threading
one = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
apart, closed = threading.Event(), threading.Event()
def hold():
    assert ctypes.CDLL(None).unshare(0x400) == 0  # CLONE_FILES: open files of its own
    apart.set()
    closed.wait()
    os.write(one.fileno(), b"x")
    sys.stdin.read()
threading.Thread(target=hold).start()
apart.wait()
number = one.fileno()
os.close(number)
closed.set()
"""


class StandIn:
    """A process that has the lock of the state folder, as the engine has, and starts what a test wants."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", ENGINE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "ready\n"

    def start(self, *command: str) -> tuple[int, str]:
        """Have a command run to its end: its exit status, and what it printed."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps(command) + "\n")
        self.process.stdin.flush()
        status, text = json.loads(self.process.stdout.readline())
        return int(status), str(text)


@pytest.fixture
def state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    make_target(tmp_path / "mine", "one")
    return isolate(monkeypatch, tmp_path)


@pytest.fixture
def engine(state: Path) -> Iterator[StandIn]:
    one = StandIn()
    yield one
    one.process.kill()
    one.process.communicate()


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as one:
        one.settimeout(20)
        yield one


@contextlib.contextmanager
def child(code: str, listener: socket.socket) -> Iterator[int]:
    """A process of this one that connects."""
    command = [sys.executable, "-c", code, str(listener.getsockname()[1])]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
        yield process.pid
        process.kill()


def accepted(listener: socket.socket) -> tuple[socket.socket, peers.Address, peers.Address]:
    """The next connection, once its first byte is there, with its ends."""
    one, theirs = listener.accept()
    one.settimeout(20)
    assert one.recv(1) == b"x"
    return one, one.getsockname(), theirs


def test_a_child_of_the_engine_is_answered_nothing_over_http(state: Path, tmp_path: Path, engine: StandIn) -> None:
    served = Served(tmp_path / "mine")
    try:
        ask = [sys.executable, "-c", ASK, served.url, served.token]
        assert subprocess.run(ask, capture_output=True, text=True, check=True).stdout == "200\n"
        direct = engine.start(*ask)
        further = engine.start("sh", "-c", f"setsid {shlex.join(ask)} & wait")
        for status, told in (direct, further):
            assert "200" not in told and ("reset" in told or "closed" in told or status == 0), told
        assert served.client.get("/targets").status_code == 200
    finally:
        served.close()
    assert served.process.stderr is not None
    log = served.process.stderr.read()
    assert "answered nothing" in log and "started by the engine" in log and served.token not in log


def test_descent_is_what_counts() -> None:
    with subprocess.Popen(["sleep", "60"]) as process:
        assert peers.started_by(process.pid, os.getpid()) and not peers.started_by(os.getpid(), process.pid)
        assert not peers.started_by(os.getpid(), os.getpid()) and not peers.started_by(1, os.getpid())
        process.kill()
    assert peers.started_by(process.pid, os.getpid())  # gone: nobody would read the answer


def as_if(monkeypatch: pytest.MonkeyPatch, pid: int) -> None:
    """Let the process with that id be the engine, and this one none of its descendants."""
    from aisp.engine import lock

    monkeypatch.setattr(lock, "holder", lambda: lock.Holder(pid, here=True))


@pytest.mark.parametrize("code", [HOLD, THREAD], ids=["the process", "a thread with files of its own"])
def test_the_holder_of_a_connection_is_seen(
    listener: socket.socket, monkeypatch: pytest.MonkeyPatch, code: str
) -> None:
    as_if(monkeypatch, os.getpid())
    with child(code, listener) as pid:
        one, ours, theirs = accepted(listener)
        with one:
            # This process stands for the engine here as well as for the server.
            monkeypatch.setattr(peers.os, "getpid", lambda: 1)  # type: ignore[attr-defined]
            assert f"process {pid}," in peers.Peers().refusal(ours, theirs)


def test_who_is_no_descendant_is_let_in_and_remembered(
    listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    with subprocess.Popen(["sleep", "60"]) as other, child(HOLD, listener):
        as_if(monkeypatch, other.pid)
        one, ours, theirs = accepted(listener)
        with one:
            looking = peers.Peers()
            assert looking.refusal(ours, theirs) == ""
            monkeypatch.setattr(peers, "_pids", list)  # no look at all processes the second time
            assert looking.refusal(ours, theirs) == ""
        other.kill()


@pytest.mark.parametrize("code", [LEAVE, PARK], ids=["left", "its socket is on its way to another process"])
def test_a_connection_that_nobody_holds_is_answered_nothing(
    listener: socket.socket, monkeypatch: pytest.MonkeyPatch, code: str
) -> None:
    if code is PARK and os.geteuid() != 0:
        pytest.skip("the files of other users' processes cannot be seen, and one of these may hold it")
    with subprocess.Popen(["sleep", "60"]) as other, child(code, listener) as pid:
        as_if(monkeypatch, other.pid)
        one, ours, theirs = accepted(listener)
        if code is LEAVE:
            os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        with one:
            assert "nobody holds" in peers.Peers().refusal(ours, theirs)
        other.kill()


def test_where_proc_does_not_tell_a_connection_is_let_in(
    listener: socket.socket, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with subprocess.Popen(["sleep", "60"]) as other, child(HOLD, listener):
        as_if(monkeypatch, other.pid)
        one, ours, theirs = accepted(listener)
        with one:
            assert peers.Peers().refusal(("10.1.2.3", 4), ("10.1.2.4", 5)) == ""  # of another network
            monkeypatch.setattr(peers, "_TABLES", (str(tmp_path / "none"),))
            assert peers.Peers().refusal(ours, theirs) == ""
        other.kill()


def test_without_an_engine_everybody_is_let_in(state: Path, listener: socket.socket) -> None:
    with child(HOLD, listener):
        one, ours, theirs = accepted(listener)
        with one:
            assert peers.Peers().refusal(ours, theirs) == ""


@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6])
def test_both_kinds_of_addresses_are_read(family: socket.AddressFamily) -> None:
    try:
        listener = socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True)
    except (OSError, ValueError):
        pytest.skip("no IPv6 here")
    place = "127.0.0.1" if family is socket.AF_INET else "::1"
    with listener, socket.create_connection((place, listener.getsockname()[1])) as theirs:
        ours, _ = listener.accept()
        with ours:
            found = peers._inode(ours.getsockname()[:2], ours.getpeername()[:2])
            assert found == os.fstat(theirs.fileno()).st_ino
