"""The lock of a state directory, and who is said to hold it. On another host: tests/proofs/evil/scenes/starts.py."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from aisp.engine import lock, paths

ROOT = Path(lock.__file__).parents[2]
TAKE = "import sys\nfrom aisp.engine import lock\nprint(lock.take() is not None, flush=True)\nsys.stdin.read()\n"


@pytest.fixture(autouse=True)
def state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A state directory of the test's own."""
    monkeypatch.setenv("AISP_STATE", str(tmp_path / "state"))
    return paths.state_dir()


def engines_lock() -> lock.Lock:
    """The lock, as an engine has it."""
    descriptor = lock.take()
    assert descriptor is not None
    return lock.Lock(descriptor)


def test_who_takes_it_is_seen_by_others_and_nobody_else_gets_it() -> None:
    assert lock.holder() is None
    words = [sys.executable, "-c", TAKE]
    with subprocess.Popen(words, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "True\n"
        found = lock.holder()
        assert found is not None
        assert (found.pid, found.here, found.what) == (other.pid, True, "the engine")
        assert (found.boot, found.host) == (lock.boot_id(), os.uname().nodename)
        assert lock.take() is None
        other.kill()
    assert lock.holder() is None, "its line outlasts it, and is not believed"
    assert paths.lock_file().read_text().split()[0] == str(other.pid)
    held = lock.take("`aisp store`")
    assert held is not None
    found = lock.holder()
    assert found is not None
    assert (found.pid, found.here, found.what) == (os.getpid(), True, "`aisp store`")
    os.close(held)


def test_whoever_only_asks_keeps_nobody_from_taking_it() -> None:
    """A client asks for the lock for a moment to see whether somebody has it."""
    paths.lock_file().touch()
    with paths.lock_file().open("rb") as asking:
        fcntl.flock(asking, fcntl.LOCK_SH)
        letting_go = threading.Timer(0.02, lambda: fcntl.flock(asking, fcntl.LOCK_UN))
        letting_go.start()
        deadline = time.monotonic() + 20
        while (held := lock.take()) is None and time.monotonic() < deadline:
            continue
        letting_go.join()
    assert held is not None
    os.close(held)


def test_a_removed_lock_is_taken_anew_and_keeps_others_out() -> None:
    path = paths.lock_file()
    held = engines_lock()
    held.look()
    path.unlink()
    with pytest.raises(lock.LockGoneError, match="is not the file that was locked"):
        held.look()
    assert held.retake()
    held.look()
    assert lock.take() is None
    held.close()
    engines_lock().close()


def test_a_lock_that_another_engine_has_is_lost_and_not_looked_at_again(state: Path) -> None:
    held = engines_lock()
    paths.lock_file().rename(state / "moved")
    other = engines_lock()
    with pytest.raises(lock.LockGoneError):
        held.look()
    assert not held.retake()
    assert held.lost
    held.look()
    held.close()
    other.close()


@pytest.mark.parametrize(
    ("line", "who"),
    [
        ("", "a process that has not said which it is, which cannot be seen from here; "),
        ("77\n", "the engine with pid 77, which cannot be seen from here; "),
        ("77 {boot} T box the engine\n", "the engine with pid 77 on box since T, which cannot be seen from here; "),
        ("77 other T box the engine\n", "the engine with pid 77 on box since T; "),
        ("77 other T box `aisp store`\n", "`aisp store` with pid 77 on box since T; "),
    ],
)
def test_a_holder_that_cannot_be_seen_is_told_with_the_next_move(state: Path, line: str, who: str) -> None:
    with paths.lock_file().open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        held.write(line.format(boot=lock.boot_id()))
        held.flush()
        found = lock.holder()
    assert found is not None and not found.here
    assert found.sentence == (
        f"{state} is in use by {who}`aisp engine --stop` ends it there; or set AISP_STATE to another folder here"
    )
