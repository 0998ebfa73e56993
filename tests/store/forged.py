"""What somebody does to a store with other means than the store's own."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from aisp.store.record import Run
from aisp.store.rows import RunRows


def rewrite(path: Path, *statements: str) -> None:
    """Change rows, each statement at least one."""
    with closing(sqlite3.connect(path, timeout=30)) as connection, connection:
        connection.execute("PRAGMA foreign_keys = ON")
        for statement in statements:
            assert connection.execute(statement).rowcount > 0, statement


def invent(path: Path, record: Run, number: int) -> None:
    """Write a run that nobody measured, with a digest that fits, under a number that is free."""
    rows = RunRows.of(record)
    run = {**rows.run, "number": number, "sha256": rows.digest({}, "")}
    with closing(sqlite3.connect(path, timeout=30)) as connection, connection:
        values: tuple[str, str] = (rows.run["manifest"], rows.manifest)
        connection.execute("INSERT OR IGNORE INTO manifests VALUES (?, ?)", values)
        for table, made in (
            ("runs", [run]),
            *(
                (name, [{"run": number, **row} for row in getattr(rows, name)])
                for name in ("arms", "comparisons", "steps")
            ),
        ):
            for row in made:
                columns = ", ".join(f'"{name}"' for name in row)
                marks = ", ".join("?" * len(row))
                connection.execute(f"INSERT INTO {table} ({columns}) VALUES ({marks})", [*row.values()])
