"""The lock of a state directory: one process on one host may use it. And who holds it, in words.

A lock is on a file and not on a name. After the file is removed, or the folder moved away, the engine's lock keeps
nobody out. So the engine looks at it as at the store (store.place), and takes it anew.

The kernel keeps the lock (flock) and drops it with the process. The line in the file is for people and other programs:
process number, boot id, time, host name, and what the process is. It proves nothing by itself, since it outlives its
process. `holder` believes it only of a process that the kernel says has the lock. Otherwise somebody holds it whom this
program cannot see: on another host of a shared home, or in a container.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from aisp.engine import filesystem, paths

ENGINE = "the engine"
LOOKS, LOOK_S = 5, 0.01  # between taking the lock and writing who has it, somebody else's line may stand there
REFUSED = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS)


class LockRefusedError(OSError):
    """The file system knows no locks, or its lock service does not answer."""


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds the lock, as its file says it.

    Attributes:
        pid: process number, 0 where the file does not say.
        boot: of the kernel that it ran under, "" where the file does not say.
        since: UTC.
        host: its name.
        what: "the engine", or the command that wants the store to itself.
        here: whether this program sees that process, and it has the lock.
    """

    pid: int = 0
    boot: str = ""
    since: str = ""
    host: str = ""
    what: str = ENGINE
    here: bool = False

    @property
    def sentence(self) -> str:
        """Why nothing can be done here, and the next move; for a holder that is not here."""
        who = f"{self.what} with pid {self.pid}" if self.pid else "a process that has not said which it is"
        if self.host:
            who += f" on {self.host} since {self.since}"
        if not self.host or self.boot == boot_id():
            who += ", which cannot be seen from here"  # it is in another container, or has not said where it is
        return (
            f"{paths.state_dir()} is in use by {who}; `aisp engine --stop` ends it there; "
            "or set AISP_STATE to another folder here"
        )


class LockGoneError(Exception):
    """The file at the lock's path is not the one that is locked."""


class Lock:
    """The lock as its engine keeps it for as long as it lives.

    Attributes:
        lost: another engine has it.
    """

    def __init__(self, descriptor: int) -> None:
        """`descriptor` is what `take` gave."""
        self.lost = False
        self._descriptor = descriptor
        self._path = paths.lock_file()

    def look(self) -> None:
        """Raise LockGoneError where the file at the path is not the locked one, unless that is known."""
        if self.lost:
            return
        if not paths.is_at(self._path, self._descriptor):
            raise LockGoneError(f"{self._path} is not the file that was locked")

    def retake(self) -> bool:
        """Lock the file that is at the path now, made if need be. Returns whether we have it; else it is `lost`.

        Raises OSError, UnsafePathError.
        """
        descriptor = take()
        if descriptor is None:
            self.lost = True
            return False
        self.close()
        self._descriptor = descriptor
        return True

    def close(self) -> None:
        """Give it back."""
        os.close(self._descriptor)


def boot_id() -> str:
    """Id of this kernel's life; "" where the kernel has none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def take(what: str = ENGINE) -> int | None:
    """The lock of this state directory, with us in it as `what`; None where another process holds it.

    Blocks for a moment where it is held. Raises LockRefusedError, OSError.
    """
    lock = os.open(paths.lock_file(), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        while not _flock(lock, fcntl.LOCK_EX):
            if holder() is not None:
                os.close(lock)
                return None
            time.sleep(LOOK_S)  # somebody asked who holds it
        since = datetime.now(UTC).isoformat(sep="T", timespec="seconds")
        line = f"{os.getpid()} {boot_id() or '-'} {since} {os.uname().nodename or '-'} {what}\n"
        os.ftruncate(lock, 0)
        os.pwrite(lock, line.encode(), 0)
    except BaseException:
        with contextlib.suppress(OSError):
            os.close(lock)
        raise
    return lock


def holder() -> Holder | None:
    """Who holds the lock of this state directory, None where nobody does. Blocks for at most some 50 ms."""
    path = paths.lock_file()
    for _ in range(LOOKS):
        entry = _read(path)
        if entry.pid > 1 and _holds(entry.pid, path):
            return replace(entry, here=True)
        if not _held(path):
            return None
        time.sleep(LOOK_S)
    return entry


def _read(path: Path) -> Holder:
    try:
        words = path.read_text("utf-8", "replace").split(maxsplit=4)
    except OSError:
        return Holder()
    if not words or not words[0].isdecimal():
        return Holder()
    if len(words) < 5:
        return Holder(int(words[0]))
    pid, boot, since, host, what = words
    return Holder(int(pid), boot, since, host, what.strip())


def _flock(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in REFUSED:
            raise
        folder = paths.state_dir()
        on = filesystem.kind(folder)
        raise LockRefusedError(
            f"{folder} cannot be locked ({error.strerror}), so two engines could write to one store"
            f"{f'; it lies on {on}' if on else ''}; set AISP_STATE to a folder on a local disk, "
            "or have the lock service of its file system started"
        ) from None
    return True


def _held(path: Path) -> bool:
    """Whether anybody holds the lock, by asking for it and letting go."""
    try:
        with path.open("rb") as lock:
            return not _flock(lock.fileno(), fcntl.LOCK_SH)
    except OSError:
        return False


def _holds(pid: int, path: Path) -> bool:
    """Whether that process has the lock: the kernel lists the locks of an open file in /proc/PID/fdinfo."""
    try:
        held = re.compile(rf"^lock:.*FLOCK.*:{path.stat().st_ino}\s", re.MULTILINE)
        return any(held.search(text) for text in _descriptor_facts(pid))
    except OSError:
        return False


def _descriptor_facts(pid: int) -> Iterator[str]:
    for path in Path(f"/proc/{pid}/fdinfo").iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed since it was listed
            yield path.read_text("ascii", "replace")
