"""The newest finished run of each target, read with Python's own sqlite3 and nothing else.

`store.History` reads everything and imports numpy for it; a list of targets must answer before numpy is
imported. The file is opened read-only. Where it cannot be read, `read` says why, and the list shows dashes.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote_from_bytes

OPEN_TIMEOUT_S = 1.0

_NEWEST = """
SELECT number, id, wall, device, "case", quick, state, correctness, validity, verdict, reason
FROM runs
WHERE target = ? AND state NOT IN ('planned', 'starting', 'running', 'cancelled', 'engine_lost')
ORDER BY number DESC LIMIT 1
"""
# What the run's verdict counts: the optimized rung with the greatest speed-up over the first baseline.
_BEST = """
SELECT c.rung, c.speedup, c.low, c.high, a.median_ms, a.sol
FROM comparisons c LEFT JOIN arms a ON a.run = c.run AND a.rung = c.rung
WHERE c.run = :run AND c.speedup IS NOT NULL AND c.rung LIKE 'optimized%'
    AND c.baseline = (SELECT rung FROM arms WHERE run = :run ORDER BY position LIMIT 1)
ORDER BY c.speedup DESC LIMIT 1
"""
_FASTEST_ARM = """
SELECT rung, NULL, NULL, NULL, median_ms, sol
FROM arms WHERE run = :run AND median_ms IS NOT NULL AND rung NOT LIKE '%(A/A)'
    AND (rung LIKE 'optimized%' OR NOT EXISTS (SELECT 1 FROM arms WHERE run = :run AND rung LIKE 'optimized%'))
ORDER BY median_ms LIMIT 1
"""


@dataclass(frozen=True, slots=True)
class Last:
    """What the newest finished run of a target said; `rung` is the one that its verdict is about."""

    run_id: str
    wall: str
    device: str
    case: str
    quick: bool
    state: str
    correctness: str
    validity: str
    verdict: str
    reason: str
    rung: str | None = None
    speedup: float | None = None
    low: float | None = None
    high: float | None = None
    median_ms: float | None = None
    sol: float | None = None

    def as_json(self) -> dict[str, Any]:
        """Its fields, the state under the name that every command's JSON uses."""
        fields = asdict(self)
        return {"run_id": fields.pop("run_id"), "status": fields.pop("state"), **fields}


def open_read_only(database: Path) -> sqlite3.Connection:
    """Open the store for reading. Raises sqlite3.Error."""
    uri = f"file:{quote_from_bytes(bytes(database))}?mode=ro"
    connection = sqlite3.connect(uri, uri=True, timeout=OPEN_TIMEOUT_S)
    connection.execute("PRAGMA query_only = 1")
    return connection


def read(database: Path, targets: Iterable[str]) -> tuple[dict[str, Last], str]:
    """The newest finished run of each of `targets` that has one, and why it could not be read ("" if it
    could)."""
    found: dict[str, Last] = {}
    if not database.exists():
        return found, ""
    try:
        with closing(open_read_only(database)) as connection:
            for target in targets:
                row = connection.execute(_NEWEST, (target,)).fetchone()
                if row is None:
                    continue
                number, run_id, wall, device, case, quick, *outcome = row
                best = connection.execute(_BEST, {"run": number}).fetchone()
                best = best or connection.execute(_FASTEST_ARM, {"run": number}).fetchone() or ()
                found[target] = Last(run_id, wall, device, case, bool(quick), *outcome, *best)
    except sqlite3.Error as error:
        return found, f"earlier results cannot be read from {database}: {error}"
    return found, ""
