"""A long history costs no more than a short one: every list is read through an index, and sorted by none."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from aisp.store import History, reader, seal, writer
from tests.store.generated import TARGETS, fill

RUNS = 1700


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("long") / "aisp.db"
    fill(path, RUNS, samples=3)
    return path


@pytest.fixture
def connection(path: Path) -> Iterator[sqlite3.Connection]:
    opened = sqlite3.connect(path)
    yield opened
    opened.close()


def plan(connection: sqlite3.Connection, sql: str) -> list[str]:
    """What SQLite says that it would do, a line per loop."""
    parameters = [None] * sql.count("?")
    return [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {sql}", parameters).fetchall()]


def scans(lines: list[str]) -> list[str]:
    """Lines that visit every run or sort."""
    return [line for line in lines if "TEMP B-TREE" in line or line in ("SCAN runs", "SEARCH runs")]


@pytest.mark.parametrize(
    ("sql", "how"),
    [
        (reader.NEWEST_SQL, "SEARCH runs USING INTEGER PRIMARY KEY (rowid<?)"),
        (reader.NEWEST_OF_TARGET_SQL, "SEARCH runs USING COVERING INDEX runs_target (target=? AND rowid<?)"),
        (reader.HISTORY_SQL, "SEARCH runs USING INDEX runs_target (target=?)"),
        (reader.SNAPSHOTS_SQL, "SEARCH runs USING INDEX runs_target (target=?)"),
        (reader.TARGETS_SQL, "SEARCH runs USING COVERING INDEX runs_target (target>?)"),
        (reader.BOARD_SQL, "SEARCH runs USING INDEX runs_finished (target=?)"),
        (reader.ATTEMPTS_SQL, "SEARCH runs USING INDEX runs_target (target=?)"),
        (writer.UNFINISHED_SQL, "SCAN runs USING INDEX runs_unfinished"),
        (seal.SAMPLES_SQL.format(marks="?"), "SEARCH samples USING COVERING INDEX samples_sha256 (run=?)"),
    ],
    ids=[
        "newest",
        "newest of a target",
        "history",
        "snapshots",
        "next target",
        "last of a target",
        "last try of a target",
        "unfinished",
        "seal",
    ],
)
def test_lists_are_read_through_an_index(connection: sqlite3.Connection, sql: str, how: str) -> None:
    lines = plan(connection, sql)
    assert how in lines, lines
    assert scans(lines) == []


@pytest.mark.parametrize("table", ["arms", "comparisons", "steps"])
def test_what_belongs_to_a_run_is_found_by_its_number(connection: sqlite3.Connection, table: str) -> None:
    lines = plan(connection, f"SELECT * FROM {table} WHERE run IN (1, 2) ORDER BY run, position")
    assert lines == [f"SEARCH {table} USING PRIMARY KEY (run=?)"]


def test_what_must_not_be_shown_is_found_run_by_run(connection: sqlite3.Connection) -> None:
    lines = plan(connection, 'SELECT run, position, "check", evidence FROM hidden WHERE run IN (1, 2)')
    assert not [line for line in lines if line.startswith("SCAN")], lines
    assert any(line.startswith("SEARCH comparisons USING PRIMARY KEY (run=?)") for line in lines)
    assert any("quarantines USING INDEX" in line and "(folder=? AND rung=? AND code=?)" in line for line in lines), (
        lines
    )


def test_the_marks_of_a_target_are_found_by_its_folder(connection: sqlite3.Connection) -> None:
    lines = plan(connection, "SELECT * FROM quarantines WHERE folder = ? AND ended_by IS NULL")
    assert lines == ["SEARCH quarantines USING INDEX quarantines_in_force (folder=?)"]


def test_without_its_index_the_board_would_scan(path: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    copy.write_bytes(path.read_bytes())
    with sqlite3.connect(copy) as opened:
        opened.execute("DROP INDEX runs_finished")
        opened.execute("DROP INDEX runs_target")
        assert scans(plan(opened, reader.BOARD_SQL)) != []
    opened.close()


def test_a_generated_store_is_one_that_the_writer_could_have_made(path: Path) -> None:
    with History(path) as history:
        assert history.count() == RUNS
        board = history.board()
        assert len(board) == TARGETS - TARGETS // 10  # every tenth target has cancelled runs alone
        newest = history.newest(50)
        assert len(newest) == 50
        assert all(history.verify(run.id) for run in newest)
        assert len(history.samples(newest[1].id)["baseline"]) == 3
        by_hand = {}
        for run in reversed(history.newest(RUNS)):
            if run.state != "cancelled":
                by_hand[run.target] = run.id
        assert {target: run.id for target, run in board.items()} == by_hand
