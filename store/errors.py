"""What can go wrong with the store, as types: a caller decides by class, never by a message's text.

`StoreFullError` and `StoreLockedError` pass: keep the record in memory, tell the person, try again later;
nothing of the refused transaction is in the file. After a `StoreGoneError` part with the file, open what is at the path
and write the record there. `StoreCorruptError` and `StoreUnwritableError` stay until
somebody acts. A record that contradicts itself or what the store already holds is a
`store.record.ContradictionError`.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sqlite3
import sys
from collections.abc import Iterator
from pathlib import Path


class StoreError(Exception):
    """Base of all of them."""


class StoreFullError(StoreError):
    """The disk is full, a quota or a file size limit is reached, or a write came back short."""


class StoreHeldError(StoreFullError):
    """It cannot grow, and not for want of room: a flag or a mode that somebody can take back. Waited for as room is."""


class StoreLockedError(StoreError):
    """Another program held the write lock for longer than the busy timeout."""


class StoreGoneError(StoreError):
    """The file at the path is not the one that is open, or not as it was left; see store.place."""


class StoreCorruptError(StoreError):
    """Bytes on disk are not what was written."""


class StoreUnwritableError(StoreError):
    """The file or its folder cannot be opened or written: permissions, a read-only file system."""


class ForeignDatabaseError(StoreError):
    """The file is a database of another program."""


class NewerSchemaError(StoreError):
    """The file was written by a newer aisp.

    Attributes:
        version: schema version of the file.
        latest: newest schema version that this aisp knows.
    """

    def __init__(self, path: Path, version: int, latest: int) -> None:
        self.version = version
        self.latest = latest
        super().__init__(
            f"{path} has schema version {version} and this aisp knows {latest}: "
            "update aisp, or set AISP_STATE to another folder"
        )


# A short write is reported as SQLITE_IOERR_WRITE where a file size limit or quota stopped it, and a growing
# shared-memory file on a full disk as SQLITE_IOERR_SHMSIZE.
_FULL = {
    sqlite3.SQLITE_IOERR_WRITE,
    sqlite3.SQLITE_IOERR_FSYNC,
    sqlite3.SQLITE_IOERR_TRUNCATE,
    sqlite3.SQLITE_IOERR_SHMSIZE,
}
_OS_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_CORRUPT = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
_LOCKED = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL}
_UNWRITABLE = {
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_AUTH,
    sqlite3.SQLITE_IOERR,
}


def typed(error: sqlite3.Error, path: Path) -> Exception:
    """The error of ours that stands for `error`; ContradictionError for a violated constraint."""
    from aisp.store.record import ContradictionError  # msgspec; only on the error path

    code = getattr(error, "sqlite_errorcode", None)
    if code is None:  # the sqlite3 module's own
        if isinstance(error, sqlite3.OperationalError):  # a text that is not UTF-8
            return StoreCorruptError(f"{path} is damaged ({error})")
        return StoreError(f"{path}: {error}")  # a closed connection
    name = getattr(error, "sqlite_errorname", str(code))
    primary = code & 0xFF
    if primary == sqlite3.SQLITE_FULL or code in _FULL:
        if held := hindrance(path):
            return StoreHeldError(f"{path} cannot be written ({name}): {held}")
        return StoreFullError(f"{path} cannot grow ({name}): free some space on its disk")
    if primary in _LOCKED:
        return StoreLockedError(f"{path} is locked by another program ({name}): close it there")
    if primary in _CORRUPT or code == sqlite3.SQLITE_IOERR_SHORT_READ:
        return StoreCorruptError(f"{path} is damaged ({name}: {error}): `aisp engine --stop`, then start it again")
    if primary in _UNWRITABLE:
        return StoreUnwritableError(f"{path} cannot be opened or written ({name}): {hindrance(path) or _LOOK}")
    if primary == sqlite3.SQLITE_CONSTRAINT:
        return ContradictionError(f"the store refused a value ({error})")
    return StoreError(f"{path}: {error} ({name})")


_LOOK = "look at its owner and mode"
_AT_FDCWD, _STATX_MODE = -100, 2
_FLAGS = {0x10: ("immutable", "i"), 0x20: ("append-only", "a")}  # include/uapi/linux/stat.h: STATX_ATTR_*


def hindrance(path: Path) -> str:
    """What keeps the file at `path`, one beside it or its folder from being written, and what would help; "" where
    nothing is seen."""
    for place in (path, Path(f"{path}-wal"), Path(f"{path}-shm"), path.parent):
        for sign, letter in _flags(place):
            return f"{place} is {sign}; `chattr -{letter} {place}` takes that back"
    with contextlib.suppress(OSError):
        if os.statvfs(path.parent).f_flag & os.ST_RDONLY:
            return f"{path.parent} is on a read-only file system; mount it for writing"
    for place, needed in ((path.parent, os.W_OK | os.X_OK), (path, os.R_OK | os.W_OK)):
        with contextlib.suppress(OSError):
            status = place.stat()
            if not os.access(place, needed):
                if status.st_uid != os.geteuid():
                    return f"{place} belongs to uid {status.st_uid}, and its mode is {status.st_mode & 0o777:o}"
                return f"the mode of {place} is {status.st_mode & 0o777:o}; `chmod u+rwX {place}` lets you"
    return ""


def _flags(path: Path) -> list[tuple[str, str]]:
    """Flags of a file that forbid to write it, by statx: to open and close a database would give up its locks."""
    import ctypes  # only on the error path

    buffer = ctypes.create_string_buffer(256)
    with contextlib.suppress(AttributeError, OSError):
        if ctypes.CDLL(None).statx(_AT_FDCWD, os.fsencode(path), 0, _STATX_MODE, buffer) == 0:
            attributes = int.from_bytes(buffer.raw[8:16], sys.byteorder)
            return [words for bit, words in _FLAGS.items() if attributes & bit]
    return []


def damage_of(error: Exception, path: Path) -> str:
    """What is wrong with a record that could not be read: a damaged page gives any value in the place of any other, so
    that whoever examines one may meet every error that Python has."""
    if isinstance(error, sqlite3.Error):
        return str(typed(error, path))
    from aisp.store.record import ContradictionError  # msgspec; only on the error path

    if isinstance(error, StoreError | ContradictionError):
        return str(error)
    return f"it cannot be read: something else lies where its rows were ({type(error).__name__}: {error})"


@contextlib.contextmanager
def typed_errors(path: Path) -> Iterator[None]:
    """Turn every sqlite3.Error and OSError of the block into one of the above."""
    try:
        yield
    except sqlite3.Error as error:
        raise typed(error, path) from error
    except OSError as error:
        place = error.filename2 or error.filename or path
        if error.errno in _OS_FULL:
            raise StoreFullError(f"{place}: {error.strerror}: free some space on its disk") from error
        raise StoreUnwritableError(
            f"{place}: {error.strerror}: {hindrance(Path(os.fsdecode(place))) or _LOOK}"
        ) from error
