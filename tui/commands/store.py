"""`aisp store info`: where results are kept, read with Python's own sqlite3."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import click

from engine import paths
from engine.clean import clean_line
from tui import plain
from tui.cli import NotHereError
from tui.commands import common, quarantine


@click.command()
@common.json_option
def info(as_json: bool) -> None:
    """Show where results are kept: path, size, runs, schema version, SQLite.

    Exit status: 0, also where nothing is stored yet; 3 the database cannot be read.
    """
    found = facts(paths.database_file())
    if as_json:
        common.say_document(found)
        return
    rows = [
        [
            "path",
            clean_line(found["path"], limit=4096) + ("" if found["exists"] else " (nothing stored yet)"),
        ],
        ["size", plain.size(found["size_bytes"])],
        ["runs", plain.count(found["runs"])],
        ["finished", plain.count(found["finished_runs"])],
        ["targets", plain.count(found["targets"])],
        ["sources", plain.count(found["sources"])],
        ["newest", plain.local_time(found["newest"] or "")],
        ["schema", plain.count(found["schema_version"])],
        ["SQLite", found["sqlite_version"]],
        ["lasting", "no: a temporary folder, gone after a reboot" if found["temporary"] else "yes"],
    ]
    width = max(len(row[0]) for row in rows)
    for name, value in rows:
        common.say(f"{name:<{width}}  {value}")


def facts(database: Path) -> dict[str, Any]:
    """What is known of the database; None where it does not exist. Raises NotHereError where it cannot be
    read."""
    found: dict[str, Any] = {
        "path": str(database),
        "exists": database.exists(),
        "size_bytes": None,
        "runs": None,
        "finished_runs": None,
        "targets": None,
        "sources": None,
        "newest": None,
        "schema_version": None,
        "sqlite_version": sqlite3.sqlite_version,
        "temporary": paths.state_is_temporary(),
    }
    if not found["exists"]:
        return found
    # The write-ahead log is part of the database until it is folded in.
    parts = [database, database.with_name(database.name + "-wal")]
    found["size_bytes"] = sum(part.stat().st_size for part in parts if part.exists())
    try:
        with closing(quarantine.open_read_only(database)) as connection:

            def one(query: str) -> Any:
                return connection.execute(query).fetchone()[0]

            found["schema_version"] = one("PRAGMA user_version")
            found["runs"] = one("SELECT count(*) FROM runs")
            found["finished_runs"] = one(
                "SELECT count(*) FROM runs WHERE state NOT IN ('planned', 'starting', 'running')"
            )
            found["targets"] = one("SELECT count(DISTINCT target) FROM runs")
            found["sources"] = one("SELECT count(*) FROM sources")
            found["newest"] = one("SELECT max(wall) FROM runs")
    except sqlite3.Error as error:
        raise NotHereError(f"{database} cannot be read: {error}") from None
    return found
