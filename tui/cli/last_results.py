"""The last result of each target and a newer attempt that said nothing, read with Python's own sqlite3 alone.

`store.History` reads everything and imports numpy for it; a list of targets must answer before numpy is
imported. The file is opened read-only. Where it cannot be read, `read` says why, and the list shows dashes.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Container, Iterable
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from aisp.store import seal
from aisp.store.outcomes import CHANGED_REASON, NOT_ENDED, Correctness, State, Validity, Verdict
from aisp.store.results import standing
from aisp.tui.cli import quarantine
from aisp.tui.cli.quarantine import Marks, open_read_only

# Newest first, read no further than the rule needs.
_ENDED = f"""
SELECT number, id, wall, device, "case", quick, state, correctness, validity, verdict, reason
FROM runs
WHERE target = ? AND state NOT IN {NOT_ENDED}
ORDER BY number DESC
"""
_ARMS = "SELECT rung, state, correctness, median_ms, sol FROM arms WHERE run = ? ORDER BY position"
_COMPARISONS = "SELECT rung, baseline, verdict, speedup, low, high FROM comparisons WHERE run = ? ORDER BY position"
# What nobody may be shown: figures of rungs in quarantine, where the code that was caught ran.
_HIDDEN = """
SELECT q.rung FROM runs JOIN manifests ON manifests.hash = runs.manifest
JOIN quarantines q ON q.folder = runs.folder AND q.code <> '' AND q.code = json_extract(manifests.content, '$.code')
WHERE runs.number = ?
"""
_CHANGED: dict[str, Any] = {
    "state": State.CHANGED,
    "correctness": Correctness.UNKNOWN,
    "validity": Validity.UNKNOWN,
    "verdict": Verdict.NONE,
    "reason": CHANGED_REASON,
}


class _Arm(NamedTuple):
    rung: str
    state: str
    correctness: str
    median_ms: float | None
    sol: float | None


class _Ratio(NamedTuple):
    rung: str
    baseline: str
    verdict: str
    speedup: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class Last:
    """What a run of a target said; `rung` is the one that it is about."""

    number: int
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
    arms: tuple[_Arm, ...] = ()
    rung: str | None = None
    speedup: float | None = None
    low: float | None = None
    high: float | None = None
    median_ms: float | None = None
    sol: float | None = None

    def as_json(self) -> dict[str, Any]:
        """Its fields, the state under the name that every command's JSON uses."""
        fields = {name: value for name, value in asdict(self).items() if name not in ("number", "arms")}
        return {"run_id": fields.pop("run_id"), "status": fields.pop("state"), **fields}


@dataclass(frozen=True, slots=True)
class Standing:
    """How a target stands: its last result, and a newer attempt that said nothing; None where there is none."""

    result: Last | None = None
    attempt: Last | None = None


def read(database: Path, targets: Iterable[str]) -> tuple[dict[str, Standing], Marks, str]:
    """How each of `targets` stands that was run, the marks on rungs, and why they could not be read, "" if they
    could."""
    found: dict[str, Standing] = {}
    marks = Marks()
    if not database.exists():
        return found, marks, ""
    try:
        with closing(open_read_only(database)) as connection:
            masks = quarantine.known(connection)
            marks = quarantine.select(connection)
            connection.execute("BEGIN")  # a run and what it is made of are of one moment
            pairs = {target: _last_of(connection, target) for target in targets}
            changed = seal.changed(connection, [run.number for pair in pairs.values() for run in pair if run])
            for target, pair in pairs.items():
                result, attempt = (_said(connection, run, changed, masks=masks) if run else None for run in pair)
                if result or attempt:
                    found[target] = Standing(result, attempt)
    except sqlite3.Error as error:
        return found, marks, f"earlier results cannot be read from {database}: {error}"
    return found, marks, ""


def _last_of(connection: sqlite3.Connection, target: str) -> tuple[Last | None, Last | None]:
    """The target's last result and a newer attempt that says nothing."""
    seen: list[Last] = []
    for number, run_id, wall, device, case, quick, *said in connection.execute(_ENDED, (target,)):
        arms = tuple(_Arm(*arm) for arm in connection.execute(_ARMS, (number,)))
        run = replace(Last(number, run_id, wall, device, case, bool(quick), *said), arms=arms)
        seen = [run, *seen[-1:]]  # of those that say nothing the newest counts
        if standing.is_result(run):
            break
    return standing.last(seen)


def _said(connection: sqlite3.Connection, run: Last, changed: Container[int], *, masks: bool) -> Last:
    if run.number in changed:
        return replace(run, **_CHANGED)
    hidden = {row[0] for row in connection.execute(_HIDDEN, (run.number,))} if masks else set()
    ratios = [_Ratio(*row) for row in connection.execute(_COMPARISONS, (run.number,))]
    lead = standing.lead(run.arms, ratios, hidden)
    if lead is not None and lead.median_ms is not None and lead.rung not in hidden:
        run = replace(run, rung=lead.rung, median_ms=lead.median_ms, sol=lead.sol)
        if (own := standing.best(run.arms, ratios, hidden)) is not None:
            run = replace(run, speedup=own.speedup, low=own.low, high=own.high)
    return replace(run, verdict=standing.shown(run.verdict, ratios, hidden))
