"""Marks on rungs: which of them were caught, by what, and whether the code that ran is the code that was caught.

Read with Python's own sqlite3, so that a list of targets and a live run can show marks without numpy. The rule is the
store's: a quarantine is in force until other code of that rung passes, and the figures of the code that was caught stay
hidden for good.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

from aisp.store.errors import StoreError
from aisp.store.readonly import uri_to_read
from aisp.store.results.reading import Bar

OPEN_TIMEOUT_S = 1.0
SINCE = 4
"""Schema version from which the store keeps quarantines."""

_COLUMNS = 'q.rung, q."check", q.evidence, q.run, q.wall'
_ALL = f"SELECT q.folder, q.code, q.ended_by IS NULL, {_COLUMNS} FROM quarantines q ORDER BY q.number"
_OF_RUN = f"""
SELECT {_COLUMNS} FROM runs
JOIN manifests ON manifests.hash = runs.manifest
JOIN quarantines q ON q.folder = runs.folder AND q.code <> '' AND q.code = json_extract(manifests.content, '$.code')
WHERE runs.id = ? ORDER BY q.number
"""


class Marks:
    """Every quarantine of a store, by folder of the target."""

    def __init__(self) -> None:
        self._of_code: dict[tuple[bytes, str], dict[str, Bar]] = {}
        self._in_force: dict[bytes, dict[str, Bar]] = {}

    def add(self, bar: Bar, folder: bytes, code: str, *, in_force: bool) -> None:
        """Take one in; a later one of the same rung and code takes the place of an earlier one."""
        if code:
            self._of_code.setdefault((folder, code), {})[bar.rung] = bar
        if in_force:
            self._in_force.setdefault(folder, {})[bar.rung] = bar

    def of_code(self, folder: bytes, manifest: Mapping[str, object]) -> dict[str, Bar]:
        """Rungs whose figures in a run with this manifest nobody may be shown."""
        return self._of_code.get((folder, str(manifest.get("code") or "")), {})

    def in_force(self, folder: bytes) -> dict[str, Bar]:
        """Rungs of the target in `folder` that are marked today."""
        return self._in_force.get(folder, {})


def open_read_only(database: Path) -> sqlite3.Connection:
    """Open the store for reading. Raises sqlite3.Error."""
    try:
        uri = uri_to_read(database)
    except StoreError as error:
        raise sqlite3.OperationalError(str(error)) from None
    connection = sqlite3.connect(uri, uri=True, timeout=OPEN_TIMEOUT_S)
    connection.execute("PRAGMA query_only = 1")
    return connection


def known(connection: sqlite3.Connection) -> bool:
    """Whether this store keeps quarantines."""
    return int(connection.execute("PRAGMA user_version").fetchone()[0]) >= SINCE


def select(connection: sqlite3.Connection) -> Marks:
    """All marks of an open store; none in a store of an older aisp. Raises sqlite3.Error."""
    marks = Marks()
    if known(connection):
        for folder, code, in_force, *fields in connection.execute(_ALL):
            marks.add(Bar(*fields), bytes(folder), str(code), in_force=bool(in_force))
    return marks


def read(database: Path) -> Marks:
    """All marks of the store, none where there is no store. Raises sqlite3.Error."""
    if not database.exists():
        return Marks()
    with closing(open_read_only(database)) as connection:
        return select(connection)


def of_run(database: Path, run_id: str) -> dict[str, Bar]:
    """Rungs whose figures in this stored run nobody may be shown, by name. Raises sqlite3.Error."""
    if not database.exists():
        return {}
    with closing(open_read_only(database)) as connection:
        if not known(connection):
            return {}
        return {row[0]: Bar(*row) for row in connection.execute(_OF_RUN, (run_id,))}
