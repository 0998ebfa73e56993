"""Whether the file at the store's path is the one that is open, and how to part with it where it is not.

SQLite holds descriptors, not names: a database that is moved, removed or overwritten goes on being written, and nobody
finds what was committed. What is committed lies in the log (`-wal`) until it is folded in, and the log keeps its old
name: beside another file it would be replayed into that one. So a writer looks before and after each commit. One that
finds another file at the path parts with its own: it folds the log into it wherever it lies, leaves nothing of it
beside the stranger, and first makes a copy of a file that has no name.

With a log nothing but folding writes to the file itself. The writer folds by its own hand (`Place.fold`), so any other
change of the file's size or time of writing is somebody else's: a program that has overwritten it, such as `cp`. Some
changes are not seen: a file overwritten within the same tick of the file system's clock as a fold, or during one, and a
file that was given back its size and time of writing on purpose. Without a log, as on a network file system, every
transaction writes to the file, and another program's writes during one are not seen.

A look is a stat() of the file, its log and its shared memory: some microseconds.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from aisp.store import migrations, upkeep
from aisp.store.errors import StoreGoneError, StoreLockedError, StoreUnwritableError
from aisp.store.readonly import uri_to_read

FOLD_BYTES = 4 << 20
"""Size of the log at which it is folded in: SQLite's own rule, 1000 pages."""
SETTLED_S = 0.5
"""A file that is overwritten is whole when it has not changed for so long ..."""
MOST_SETTLING_S = 60.0
"""... or after this, whatever it is then."""

_DELETED = " (deleted)"  # what Linux puts behind the name by which a file was opened, once that is gone


class _File(NamedTuple):
    device: int
    inode: int
    size_bytes: int
    written_ns: int

    def same(self, other: _File | None) -> bool:
        """Whether it is the same file, whatever is in it."""
        return other is not None and self[:2] == other[:2]


@dataclass(frozen=True, slots=True)
class Detached:
    """What became of the file that was open.

    Attributes:
        text: what happened to it and where its results are now, as one sentence's beginning.
        in_place: it is at the path still, with what somebody else has written.
    """

    text: str
    in_place: bool = False


class Place:
    """The open database as it lies at its path."""

    def __init__(self, path: Path, *, logged: bool) -> None:
        """`path` was just opened; `logged` says whether it has a write-ahead log.

        Raises StoreGoneError where the file there is not among this process's open ones.
        """
        self.path = path
        self._logged = logged
        real = os.path.realpath(path)  # SQLite names the log after the file that a link leads to
        self.log, self._memory = Path(f"{real}-wal"), Path(f"{real}-shm")
        file = _file(path)
        if file is None or file[:2] not in _open_files():
            raise StoreGoneError(f"{path} was moved or removed while it was opened")
        self._seen = file
        self._sides = self._look_at_sides()

    def fits(self) -> bool:
        """Whether the file at the path is the open one, as it was left, with its own log."""
        return _file(self.path) == self._seen and self._look_at_sides() == self._sides

    def look(self) -> None:
        """Raise StoreGoneError unless it fits."""
        if not self.fits():
            raise StoreGoneError(f"{self.path} is not the file that was opened: it was moved, removed or overwritten")

    def wrote(self) -> None:
        """A transaction has ended; without a log it has written to the file itself."""
        if not self._logged:
            self.note()

    def note(self) -> None:
        """Take the file as it is now for our own doing."""
        file = _file(self.path)
        if file is not None and self._seen.same(file):
            self._seen = file
        self._sides = self._look_at_sides()

    def fold(self, connection: sqlite3.Connection) -> None:
        """Fold the log into the file where it has become long. Where that fails, what is committed is in the log."""
        with contextlib.suppress(sqlite3.Error, OSError):
            if self.log.stat().st_size < FOLD_BYTES:
                return
            (patience_ms,) = connection.execute("PRAGMA busy_timeout").fetchone()
            connection.execute("PRAGMA busy_timeout = 0")  # a reader holds it up: the next commit folds
            try:
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            finally:
                connection.execute(f"PRAGMA busy_timeout = {patience_ms}")
                self.note()

    def part(self, connection: sqlite3.Connection) -> Detached:
        """Leave the file that is open whole, and nothing of it at the path; `connection` is closed.

        Raises:
            StoreLockedError: a reader holds the log. Nothing is lost; call again.
            StoreFullError: no room for the copy of a file that has no name any more. Likewise.
        """
        if self._seen.same(_file(self.path)):
            return self._part_in_place(connection)
        # Its own pages go into it by its descriptor, wherever it lies.
        self._fold_whole(connection)
        name, links = _open_files().get(self._seen[:2], ("", 0))
        if links == 0:
            kept = migrations.free_name(self.path.with_name(f"{self.path.name}.replaced-{migrations.stamp()}"))
            upkeep.copy(connection, kept)
            text = f"{self.path} was removed or replaced: what it had was kept as {kept}"
        else:
            text = f"{self.path} was moved to {name.removesuffix(_DELETED)}: what it had is there, whole"
        self._close(connection)
        return Detached(text)

    def _part_in_place(self, connection: sqlite3.Connection) -> Detached:
        """Part with a file that is at its path but was written by somebody else, or has lost its log."""
        if _file(self.path) == self._seen:
            self._fold_whole(connection)
            self._close(connection)
            text = f"the log of {self.path} was removed: what it held was written into the store"
            return Detached(text, in_place=True)
        self._settle()
        if self._whole():
            # Touched, or folded by another program: the log belongs to it.
            self._fold_whole(connection)
            self._close(connection)
            return Detached(f"{self.path} was written by another program: it is whole with its log", in_place=True)
        # The pages of the log belong to what the file was. Emptied, the log cannot be folded into what it is now.
        if self._look_at_sides()[0] == self._sides[0]:
            os.truncate(self.log, 0)
        self._close(connection)
        text = f"{self.path} was overwritten by another program: its log, of before, was dropped"
        return Detached(text, in_place=True)

    def _settle(self) -> None:
        """Wait until nobody writes to the file at the path any more."""
        deadline = time.monotonic() + MOST_SETTLING_S
        before = _file(self.path)
        while time.monotonic() < deadline:
            time.sleep(SETTLED_S)
            after = _file(self.path)
            if after == before:
                return
            before = after

    def _whole(self) -> bool:
        """Whether the file at the path and the log make one whole database, to a reader that comes anew."""
        try:
            with contextlib.closing(sqlite3.connect(uri_to_read(self.path), uri=True)) as fresh:
                return bool(fresh.execute("PRAGMA integrity_check(1)").fetchone()[0] == "ok")
        except (sqlite3.Error, StoreUnwritableError):
            return False

    def _fold_whole(self, connection: sqlite3.Connection) -> None:
        if connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]:
            raise StoreLockedError(f"{self.path} was moved or changed while another program reads it: close it there")

    def _close(self, connection: sqlite3.Connection) -> None:
        """Close, and leave no log and no shared memory of ours beside another file: it would share them."""
        ours = _open_files()
        sides = [side for side in (self.log, self._memory) if (file := _file(side)) and file[:2] in ours]
        connection.close()
        for side in sides:
            side.unlink(missing_ok=True)

    def _look_at_sides(self) -> tuple[tuple[int, int] | None, ...]:
        return tuple(file[:2] if (file := _file(side)) else None for side in (self.log, self._memory))


def keep_orphan(path: Path) -> Path | None:
    """Give the log of a missing database another name, and return it: SQLite would delete the log.

    Its shared memory goes. A reader of the missing database may have that open still, and whoever opens the next one
    would then believe it and read pages by it that are not there.
    """
    if path.exists():
        return None
    real = os.path.realpath(path)
    log = Path(f"{real}-wal")
    Path(f"{real}-shm").unlink(missing_ok=True)
    file = _file(log)
    if file is None:
        return None
    if not file.size_bytes:
        log.unlink()
        return None
    return log.rename(migrations.free_name(log.with_name(f"{log.name}.kept-{migrations.stamp()}")))


def _file(path: Path) -> _File | None:
    """What lies there; None where nothing does."""
    try:
        status = os.stat(path)  # noqa: PTH116  called twice per commit, and twice as fast as Path.stat
    except (FileNotFoundError, NotADirectoryError):
        return None
    return _File(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)


def _open_files() -> dict[tuple[int, int], tuple[str, int]]:
    """(device, inode) of every file that this process has open: its present name, and how many names it has.

    To open and close a database once more would give up every lock that SQLite holds on it.
    """
    files = {}
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208  names of a folder that changes meanwhile
        with contextlib.suppress(OSError):
            link = f"/proc/self/fd/{name}"
            status = os.stat(link)  # noqa: PTH116
            files[status.st_dev, status.st_ino] = (os.readlink(link), status.st_nlink)  # noqa: PTH115
    return files
