"""A store of any size, made fast: `python -m tests.store.generated PATH RUNS [SAMPLES]`."""

from __future__ import annotations

import sqlite3
import sys
from itertools import count
from pathlib import Path
from typing import Any

from aisp.store import chain
from aisp.store.content import pack_samples, path_label
from aisp.store.outcomes import State, Trigger
from aisp.store.record import Run
from aisp.store.rows import RunRows
from aisp.store.ulid import UlidMaker
from aisp.store.writer import Store
from tests.replacing import replace
from tests.store.examples import finding, finished, samples_of

TARGETS = 160
_BATCH = 2000


def _record(number: int, made: UlidMaker) -> Run:
    run = Run(
        id=made.new(),
        target=f"ch{number % TARGETS // 8:02}:target_{number % TARGETS:03}",
        folder=b"/kernels/target_%03d" % (number % TARGETS),
        title=f"Target {number % TARGETS}",
        device="cuda",
        case="default",
        quick=number % 3 == 0,
        trigger=Trigger.WATCH if number % 3 == 0 else Trigger.CLI,
        seed=number,
        epoch=f"EPOCH{number // 500:06}",
        seq=number % 500,
        wall="2026-05-04T10:20:30.123+00:00",
        snapshot="",
        state=State.PLANNED,
        manifest={"replicas": 5, "stop": {"interval": 0.01}},
    )
    if number % 10 == 9:
        return Run(
            **{name: getattr(run, name) for name in Run.__slots__ if name not in ("state", "reason")},
            state=State.CANCELLED,
            reason="cancelled",
        )
    return finished(run, speedup=1.1 + number % 7 / 10)


def _insert(connection: sqlite3.Connection, table: str, rows: list[dict[str, Any]]) -> None:
    if rows:
        columns = ", ".join(f'"{name}"' for name in rows[0])
        marks = ", ".join(f":{name}" for name in rows[0])
        connection.executemany(f"INSERT OR IGNORE INTO {table} ({columns}) VALUES ({marks})", rows)


def fill(path: Path, runs: int, *, samples: int = 0, findings: int = 0) -> None:
    """Write `runs` finished runs of 160 targets to a new store at `path`.

    The rows are those that Store.finish writes, without its fsync per run: some 2,500 runs a second.

    Args:
        path: where; the file must not exist.
        runs: how many; every tenth is cancelled.
        samples: samples per arm; every run has the same ones.
        findings: findings per run; likewise.
    """
    Store.open(path).close()
    clock = count(1_700_000_000_000, 1000)
    made = UlidMaker(wall_ms=lambda: next(clock))
    taken = pack_samples(samples_of(samples)) if samples else None
    said = tuple(
        finding(f"check.number_{number}", "optimized", evidence=f"{number}.5 us, at most {2 * number} us were allowed")
        for number in range(findings)
    )
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA synchronous = OFF")
    for start in range(0, runs, _BATCH):
        tables: dict[str, list[dict[str, Any]]] = {
            name: [] for name in ("manifests", "runs", "arms", "comparisons", "steps", "samples", "findings")
        }
        for number in range(start, min(start + _BATCH, runs)):
            rows = RunRows.of(replace(_record(number, made), findings=said))
            rungs = [arm["rung"] for arm in rows.arms] if taken else []
            digest = rows.digest(dict.fromkeys(rungs, taken[2]) if taken else {}, "")
            tables["manifests"].append({"hash": rows.run["manifest"], "content": rows.manifest})
            label = path_label(rows.run["folder"])
            tables["runs"].append({**rows.run, "number": number + 1, "sha256": digest, "folder_label": label})
            for table, children in (
                ("arms", rows.arms),
                ("comparisons", rows.comparisons),
                ("steps", rows.steps),
            ):
                tables[table] += [{"run": number + 1, **child} for child in children]
            if rows.findings:
                tables["findings"].append({"run": number + 1, **rows.findings})
            if taken:
                tables["samples"] += [
                    {"run": number + 1, "rung": rung, "count": taken[0], **taken[1], "sha256": taken[2]}
                    for rung in rungs
                ]
        entries = [("run", row["number"], row["id"], row["sha256"]) for row in tables["runs"]]
        connection.execute("BEGIN")
        for table, inserted in tables.items():
            _insert(connection, table, inserted)
        chain.extend(connection, entries)
        connection.execute("COMMIT")
    connection.close()


if __name__ == "__main__":
    fill(Path(sys.argv[1]), int(sys.argv[2]), samples=int(sys.argv[3]) if len(sys.argv) > 3 else 0)
