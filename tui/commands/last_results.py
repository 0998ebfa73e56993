"""The newest finished run of each target, read with Python's own sqlite3 and nothing else.

`store.History` reads everything and imports numpy for it; a list of targets must answer before numpy is
imported. The file is opened read-only. Where it cannot be read, `read` says why, and the list shows dashes.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from store import seal
from store.outcomes import CHANGED_REASON, Correctness, State, Validity, Verdict
from tui.commands import quarantine
from tui.commands.quarantine import Marks, open_read_only

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
WHERE c.run = :run AND c.speedup IS NOT NULL AND c.rung LIKE 'optimized%' {shown}
    AND c.baseline = (SELECT rung FROM arms WHERE run = :run ORDER BY position LIMIT 1)
ORDER BY c.speedup DESC LIMIT 1
"""
_FASTEST_ARM = """
SELECT rung, NULL, NULL, NULL, median_ms, sol
FROM arms WHERE run = :run AND median_ms IS NOT NULL AND rung NOT LIKE '%(A/A)' {shown}
    AND (rung LIKE 'optimized%' OR NOT EXISTS (SELECT 1 FROM arms WHERE run = :run AND rung LIKE 'optimized%'))
ORDER BY median_ms LIMIT 1
"""
# What nobody may be shown: figures of rungs in quarantine, where the code that was caught ran.
_SHOWN_RATIO = "AND NOT EXISTS (SELECT 1 FROM hidden h WHERE h.run = c.run AND h.position = c.position)"
_SHOWN_ARM = """
AND rung NOT IN (
    SELECT q.rung FROM runs JOIN manifests ON manifests.hash = runs.manifest
    JOIN quarantines q ON q.folder = runs.folder AND q.code = json_extract(manifests.content, '$.code')
    WHERE runs.number = :run AND q.code <> ''
)
"""
_CHANGED = (State.CHANGED, Correctness.UNKNOWN, Validity.UNKNOWN, Verdict.NONE, CHANGED_REASON)
_HIDDEN = "SELECT 1 FROM hidden WHERE run = :run LIMIT 1"


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


def read(database: Path, targets: Iterable[str]) -> tuple[dict[str, Last], Marks, str]:
    """The newest finished run of each of `targets` that has one, the marks on rungs, and why they could not be read,
    "" if they could."""
    found: dict[str, Last] = {}
    marks = Marks()
    if not database.exists():
        return found, marks, ""
    try:
        with closing(open_read_only(database)) as connection:
            masks = quarantine.known(connection)
            best_of = _BEST.format(shown=_SHOWN_RATIO if masks else "")
            fastest_of = _FASTEST_ARM.format(shown=_SHOWN_ARM if masks else "")
            marks = quarantine.select(connection)
            connection.execute("BEGIN")  # a run and what it is made of are of one moment
            rows = {target: connection.execute(_NEWEST, (target,)).fetchone() for target in targets}
            newest = {target: row for target, row in rows.items() if row is not None}
            changed = seal.changed(connection, [row[0] for row in newest.values()])
            for target, (number, run_id, wall, device, case, quick, *outcome) in newest.items():
                if number in changed:
                    found[target] = Last(run_id, wall, device, case, bool(quick), *_CHANGED)
                    continue
                run = {"run": number}
                best = connection.execute(best_of, run).fetchone()
                best = best or connection.execute(fastest_of, run).fetchone() or ()
                last = Last(run_id, wall, device, case, bool(quick), *outcome, *best)
                if masks and connection.execute(_HIDDEN, run).fetchone():
                    last = replace(last, verdict=Verdict.NONE)
                found[target] = last
    except sqlite3.Error as error:
        return found, marks, f"earlier results cannot be read from {database}: {error}"
    return found, marks, ""
