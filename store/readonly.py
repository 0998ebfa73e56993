"""Where SQLite finds a store that is only read; imports Python's own library alone."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import stat
from pathlib import Path
from urllib.parse import quote

from aisp.store.errors import StoreError, StoreUnwritableError

OPEN_TIMEOUT_S = 1.0


def uri_to_read(path: Path) -> str:
    """URI by which SQLite reads a store and writes nothing, on a file system that is read-only too.

    A file without a log beside it can be read only where a log may be made, or where it is said that nothing changes.

    Raises StoreUnwritableError where something else than a file lies there: SQLite would wait for a pipe's other end.
    """
    with contextlib.suppress(OSError):  # SQLite says what is wrong with it
        if not stat.S_ISREG(path.stat().st_mode):
            raise StoreUnwritableError(f"{path} is no regular file, and so no store; name a store, or a copy of one")
    frozen = False
    if not path.with_name(f"{path.name}-wal").exists():
        with contextlib.suppress(OSError):  # SQLite says what is wrong with it
            frozen = bool(os.statvfs(path).f_flag & os.ST_RDONLY)
    return f"file:{quote(os.fsencode(path.absolute()))}?mode=ro{'&immutable=1' if frozen else ''}"


def open_read_only(database: Path) -> sqlite3.Connection:
    """Open the store for reading, where a query or two is all that is wanted of it. Raises sqlite3.Error."""
    try:
        uri = uri_to_read(database)
    except StoreError as error:
        raise sqlite3.OperationalError(str(error)) from None
    connection = sqlite3.connect(uri, uri=True, timeout=OPEN_TIMEOUT_S)
    connection.execute("PRAGMA query_only = 1")
    return connection
