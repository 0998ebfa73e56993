"""Older files are copied and brought up to date; newer ones are left alone with a sentence."""

from __future__ import annotations

import re
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from store import ForeignDatabaseError, History, NewerSchemaError, Store, StoreFullError, migrations
from store.outcomes import State
from store.records import RunRecord
from tests.store.examples import equal_arrays, finished, planned, samples_of, telemetry_of

V1 = Path(__file__).with_name("schema_v1.sql")
DONE, RUNNING = "01J00000000000000000000001", "01J00000000000000000000002"


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A file as schema version 1 left it."""
    path = tmp_path / "aisp.db"
    with sqlite3.connect(path) as connection:
        connection.executescript(V1.read_text())
    connection.close()
    return path


def schema(path: Path) -> dict[str, str]:
    with sqlite3.connect(path) as connection:
        rows = connection.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL").fetchall()
    connection.close()
    return {name: " ".join(sql.split()) for name, sql in rows}


def versions(path: Path) -> int:
    with sqlite3.connect(path) as connection:
        found = migrations.version(connection)
    connection.close()
    return found


def expected(run: RunRecord) -> RunRecord:
    return finished(run, samples=6)


def test_an_older_store_is_copied_and_then_brought_up_to_date(old: Path) -> None:
    with Store.open(old) as store, History(old) as history:
        assert store.opened.migrated_from == 1
        assert store.opened.set_aside is None
        (backup,) = old.parent.glob("*.bak")
        assert re.fullmatch(r"aisp\.db\.v1-\d{8}T\d{6}Z\.bak", backup.name)
        assert versions(backup) == 1
        assert versions(old) == migrations.LATEST

        run = history.run(DONE)
        wanted = planned(id=DONE, snapshot=run.snapshot, environment=run.environment)
        assert run == expected(wanted)
        read = history.samples(DONE)
        assert equal_arrays(read["baseline"], samples_of(6))
        assert equal_arrays(read["optimized"], samples_of(6, 1))
        gpu = history.telemetry(DONE)
        assert gpu is not None
        assert equal_arrays(gpu, telemetry_of(3))
        assert history.verify(DONE)
        assert list(history.board()) == ["ch07:transpose"]
        assert store.mark_lost("a new engine") == [RUNNING]
        labels = store._db.conn.execute("SELECT folder_label FROM runs ORDER BY number").fetchall()
        assert labels == [("/home/ada/kernels/caf\\xe9",), ("/srv/kernels/rmsnorm",)]
    with Store.open(old) as again:
        assert again.opened.migrated_from is None
        assert len(list(old.parent.glob("*.bak"))) == 1


def test_an_older_store_can_be_read_before_any_engine_opens_it(old: Path) -> None:
    before = old.read_bytes()
    with History(old) as history:
        assert [run.id for run in history.newest()] == [RUNNING, DONE]
        assert history.run(RUNNING).state is State.RUNNING
        assert history.verify(DONE)
        assert list(history.board()) == ["ch07:transpose"]
        assert len(history.snapshot(history.run(DONE).snapshot)) == 2
    assert old.read_bytes() == before


def test_a_migrated_store_and_a_new_one_have_the_same_schema(old: Path, tmp_path: Path) -> None:
    new = tmp_path / "new.db"
    Store.open(new).close()
    Store.open(old).close()
    assert schema(old) == schema(new)
    assert versions(new) == migrations.LATEST
    assert not list(tmp_path.glob("new.db*.bak"))  # there was nothing to keep


def test_a_shipped_step_is_never_edited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(migrations, "STEPS", migrations.STEPS[:1])
    monkeypatch.setattr(migrations, "LATEST", 1)
    made, kept = tmp_path / "made.db", tmp_path / "kept.db"
    Store.open(made).close()
    with sqlite3.connect(kept) as connection:
        connection.executescript(V1.read_text())
    connection.close()
    assert schema(made) == schema(kept)


def test_a_newer_store_is_refused_with_a_sentence_and_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "aisp.db"
    with Store.open(path) as store:
        store.plan([planned()])
        store._db.conn.execute("PRAGMA user_version = 9")
    before = path.read_bytes()
    with pytest.raises(NewerSchemaError) as refused:
        Store.open(path)
    assert str(refused.value) == (
        f"{path} has schema version 9 and this aisp knows {migrations.LATEST}: "
        "update aisp, or set AISP_STATE to another folder"
    )
    assert (refused.value.found, refused.value.known) == (9, migrations.LATEST)
    assert path.read_bytes() == before
    with History(path) as history:  # nothing that reading needs is missing
        assert history.count() == 1


def test_a_newer_store_without_what_reading_needs_is_refused_for_reading_too(tmp_path: Path) -> None:
    path = tmp_path / "aisp.db"
    with Store.open(path) as store:
        store._db.conn.execute("PRAGMA user_version = 9")
        store._db.conn.execute("ALTER TABLE arms RENAME COLUMN median_ms TO median_us")
    with History(path) as history, pytest.raises(NewerSchemaError, match=r"schema version 9 .* update aisp"):
        history.newest()


def test_a_database_of_another_program_is_no_history(tmp_path: Path) -> None:
    path = tmp_path / "aisp.db"
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE runs (id)")
    other.close()
    with History(path) as history, pytest.raises(ForeignDatabaseError, match="another program"):
        history.newest()


KILLED = """
import os, signal, sys
from store import Store, migrations

whole = migrations.STEPS[1]

def killed(db):
    whole(db)
    os.kill(os.getpid(), signal.SIGKILL)

migrations.STEPS = (migrations.STEPS[0], killed)
Store.open(sys.argv[1])
"""


def test_a_migration_that_is_killed_has_not_happened(old: Path) -> None:
    killed = subprocess.run([sys.executable, "-c", KILLED, str(old)], timeout=60)
    assert killed.returncode == -signal.SIGKILL
    assert versions(old) == 1
    assert "folder_label" not in schema(old)["runs"]
    with Store.open(old) as store, History(old) as history:
        assert store.opened.migrated_from == 1
        assert history.verify(DONE)
    assert versions(old) == migrations.LATEST
    assert len(list(old.parent.glob("*.bak"))) == 2


def test_a_step_that_fails_is_undone_whole(old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(db: object) -> None:
        migrations._indices_and_folder_label(db)
        raise sqlite3.OperationalError("no")

    monkeypatch.setattr(migrations, "STEPS", (migrations.STEPS[0], broken))
    with pytest.raises(Exception, match="no"):
        Store.open(old)
    assert versions(old) == 1
    assert "folder_label" not in schema(old)["runs"]


def test_without_room_for_the_copy_nothing_is_migrated(old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("store.writer._settle", full)
    with pytest.raises(StoreFullError, match="free some space"):
        Store.open(old)
    assert versions(old) == 1
    assert not list(old.parent.glob("*.bak*"))
