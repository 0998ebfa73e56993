"""Marks on rungs: which of them were caught, by what, and whether the code that ran is the code that was caught.

Read with Python's own sqlite3, so that a list of targets and a live run can show marks without numpy. The rule is the
store's: a quarantine is in force until other code of that rung passes, and the figures of the code that was caught stay
hidden for good.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote_from_bytes

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


@dataclass(frozen=True, slots=True)
class Mark:
    """Why a rung's figures are no result.

    Attributes:
        rung: its name; "" for the run as a whole.
        check, evidence: which check caught it, and what it saw.
        run_id, wall: the run in which it was seen, and when.
        here: seen in the run that is shown; else in an earlier one of the same code.
    """

    rung: str
    check: str
    evidence: str
    run_id: str = ""
    wall: str = ""
    here: bool = False

    @property
    def word(self) -> str:
        """ "caught" in the run that is shown, "quarantined" since an earlier one."""
        return "caught" if self.here else "quarantined"

    @property
    def sentence(self) -> str:
        """ "optimized: quarantined by timing.wall_clock: 0.41 ms by events, 9.8 ms by the engine's clock"."""
        return f"{self.rung or 'the run'}: {self.word} by {self.check}: {self.evidence}"

    def as_json(self) -> dict[str, Any]:
        """For JSON; the schema is in docs/commands.md."""
        return {
            "rung": self.rung,
            "check": self.check,
            "evidence": self.evidence,
            "run_id": self.run_id,
            "wall": self.wall,
        }


class Marks:
    """Every quarantine of a store, by folder of the target."""

    def __init__(self) -> None:
        self._of_code: dict[tuple[bytes, str], dict[str, Mark]] = {}
        self._in_force: dict[bytes, dict[str, Mark]] = {}

    def add(self, mark: Mark, folder: bytes, code: str, *, in_force: bool) -> None:
        """Take one in; a later one of the same rung and code takes the place of an earlier one."""
        if code:
            self._of_code.setdefault((folder, code), {})[mark.rung] = mark
        if in_force:
            self._in_force.setdefault(folder, {})[mark.rung] = mark

    def of_code(self, folder: bytes, manifest: Mapping[str, object]) -> dict[str, Mark]:
        """Rungs whose figures in a run with this manifest nobody may be shown."""
        return self._of_code.get((folder, str(manifest.get("code") or "")), {})

    def in_force(self, folder: bytes) -> dict[str, Mark]:
        """Rungs of the target in `folder` that are marked today."""
        return self._in_force.get(folder, {})


def open_read_only(database: Path) -> sqlite3.Connection:
    """Open the store for reading. Raises sqlite3.Error."""
    uri = f"file:{quote_from_bytes(bytes(database))}?mode=ro"
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
            marks.add(Mark(*fields), bytes(folder), str(code), in_force=bool(in_force))
    return marks


def read(database: Path) -> Marks:
    """All marks of the store, none where there is no store. Raises sqlite3.Error."""
    if not database.exists():
        return Marks()
    with closing(open_read_only(database)) as connection:
        return select(connection)


def of_run(database: Path, run_id: str) -> dict[str, Mark]:
    """Rungs whose figures in this stored run nobody may be shown, by name. Raises sqlite3.Error."""
    if not database.exists():
        return {}
    with closing(open_read_only(database)) as connection:
        if not known(connection):
            return {}
        return {row[0]: Mark(*row) for row in connection.execute(_OF_RUN, (run_id,))}
