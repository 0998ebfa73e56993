"""Copies, what becomes of a damaged file, whether everything is what was written, and the reserve for a full disk."""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
import sqlite3
import subprocess
import time
from collections import namedtuple
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from aisp.engine.broadcast import Broadcast
from aisp.engine.life import Life
from aisp.engine.store_writer import StoreWriter
from aisp.store import (
    History,
    NewerSchemaError,
    Store,
    StoreCorruptError,
    StoreError,
    StoreFullError,
    StoreGoneError,
    errors,
    migrations,
    upkeep,
)
from aisp.store.migrations import LATEST
from aisp.store.upkeep import Missing, Upkeep
from tests.store.examples import finished, fuzz_of, peak_of, planned, samples_of

Usage = namedtuple("Usage", "total used free")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A closed store with 20 runs, their samples and sources, a peak and a fuzz with failures."""
    path = tmp_path / "aisp.db"
    with Store.open(path) as store:
        for number in range(20):
            snapshot = store.put_snapshot({"optimized.py": b"# %d" % number})
            environment = store.put_environment({"host": f"atlas-{number}"})
            run = finished(planned(seq=number), snapshot=snapshot, environment=environment)
            store.finish(run, {"baseline": samples_of(200, number)})
        store.put_peak(peak_of())
        store.put_fuzz(*fuzz_of())
    return path


def ids(path: Path) -> list[str]:
    with History(path) as history:
        return sorted(run.id for run in history.newest(1000))


def change(path: Path, sql: str, *values: object) -> None:
    """As another program, or a bit that flipped inside a value, would: SQLite finds nothing wrong afterwards."""
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("PRAGMA ignore_check_constraints = 1")
        assert connection.execute(sql, values).rowcount == 1


def damage(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[:16] = b"not a database.\0"
    path.write_bytes(data)


# -- is it what was written? -------------------------------------------------------------------------------------------


def test_a_store_that_nobody_touched_is_whole_and_every_record_was_looked_at(path: Path) -> None:
    seen: dict[str, int] = {}
    found = upkeep.verify(path, lambda kind, checked, count: seen.__setitem__(kind, checked))
    assert seen.pop("page") == 0
    assert (found.damage, found.whole, found.schema_version) == ([], True, LATEST)
    with History(path) as history:
        failures = sum(len(rung.failures) for fuzz in history.fuzzes() for rung in fuzz.rungs)
    assert failures > 0
    records = {"run": 20, "peak": 1, "fuzz": 1, "failure": failures}
    assert found.checked.items() >= {**records, "source": 20, "environment": 20}.items()
    assert seen == found.checked


@pytest.mark.parametrize(
    ("sql", "kind", "reason"),
    [
        ("UPDATE samples SET device_ms = zeroblob(length(device_ms)) WHERE run = 7", "run", "the arrays device_ms"),
        ("UPDATE runs SET duration_ms = duration_ms / 2 WHERE number = 7", "run", "its record has another hash"),
        ("UPDATE runs SET sha256 = NULL WHERE number = 7", "run", "it has ended and has no hash"),
        ("UPDATE arms SET median_ms = median_ms * 0.99 WHERE run = 7 AND position = 1", "run", "another hash"),
        ("UPDATE ceilings SET value = value * 2 WHERE position = 0", "peak", ""),
        ("UPDATE fuzzes SET content = json_set(content, '$.seed', 99)", "fuzz", ""),
        ("UPDATE failures SET content = json_set(content, '$.rung', 'x') WHERE number = 1", "failure", ""),
    ],
)
def test_a_changed_value_is_named_with_its_record_and_nothing_else_is(
    path: Path, sql: str, kind: str, reason: str
) -> None:
    table = {"run": "runs WHERE number = 7", "peak": "peaks", "fuzz": "fuzzes", "failure": "failures WHERE number = 1"}
    with closing(sqlite3.connect(path)) as connection:
        (wanted,) = connection.execute(f"SELECT id FROM {table[kind]}").fetchone()
    change(path, sql)
    found = upkeep.verify(path)
    assert [(each.kind, each.id) for each in found.damage] == [(kind, wanted)]
    assert reason in found.damage[0].reason


def test_a_changed_source_is_named_and_so_is_the_run_that_it_was(path: Path) -> None:
    sha = hashlib.sha256(b"# 3").hexdigest()
    change(path, "UPDATE sources SET content = x'FF' WHERE sha256 = ?", sha)
    assert [(each.kind, each.id) for each in upkeep.verify(path).damage] == [("run", ids(path)[3]), ("source", sha)]


def test_an_environment_whose_text_is_no_text_any_more_is_damage_and_no_crash(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        sha, run_id = connection.execute("SELECT environment, id FROM runs WHERE number = 5").fetchone()
    change(path, "UPDATE environments SET content = CAST(x'FF00' AS TEXT) WHERE hash = ?", sha)
    assert {(each.kind, each.id) for each in upkeep.verify(path).damage} == {("run", run_id), ("environment", sha)}


@pytest.mark.parametrize("page", [1, 3, 8, 20])
def test_a_page_of_noise_is_damage_wherever_it_is(path: Path, page: int) -> None:
    data = bytearray(path.read_bytes())
    data[4096 * page : 4096 * (page + 1)] = os.urandom(4096)
    path.write_bytes(data)
    found = upkeep.verify(path)
    assert not found.whole
    assert found.damage[0].kind == "file"


def test_a_file_that_is_no_database_any_more_is_damage(path: Path) -> None:
    damage(path)
    found = upkeep.verify(path)
    assert (found.whole, found.damage[0].kind) == (False, "file")


def test_a_run_on_its_way_has_no_hash_and_is_no_damage(path: Path) -> None:
    with Store.open(path) as store:
        store.plan([planned()])
        assert upkeep.verify(path).damage == []


def test_hashes_of_a_newer_store_are_not_judged(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 999")
    with pytest.raises(NewerSchemaError, match="schema version 999"):
        upkeep.verify(path)


# -- backups -----------------------------------------------------------------------------------------------------------


def test_a_copy_made_beside_the_writer_holds_what_is_only_in_its_log(path: Path, tmp_path: Path) -> None:
    with Store.open(path) as store:
        run = planned(target="only:in:the:log")
        store.plan([run])
        made = upkeep.copy_beside(path, tmp_path / "elsewhere.db")
        store.plan([planned()])
    assert upkeep.verify(made).damage == []
    assert run.id in ids(made)
    assert len(ids(made)) == 21
    assert made.stat().st_mode & 0o777 == 0o600
    with pytest.raises(StoreError, match="exists: name another file"):
        upkeep.copy_beside(path, made)


def test_a_damaged_store_is_not_copied_over_good_backups(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[4096 * 3 : 4096 * 4] = bytes(4096)
    path.write_bytes(data)
    with pytest.raises(StoreCorruptError):
        upkeep.copy_beside(path)
    assert upkeep.backups(path) == []
    assert list(path.parent.glob("*.partial*")) == []


def test_a_copy_that_would_fill_the_disk_is_not_begun(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda folder: Usage(1 << 40, 1 << 40, upkeep.BALLAST_BYTES))
    with pytest.raises(StoreFullError, match="16 MiB free"):
        upkeep.copy_beside(path)
    assert upkeep.backups(path) == []


def test_of_many_backups_the_newest_stay_and_what_a_person_named_stays_too(path: Path) -> None:
    def made(name: str, age_s: float) -> Path:
        file = path.with_name(f"aisp.db.{name}.bak")
        file.write_bytes(b"")
        os.utime(file, (time.time() - age_s,) * 2)
        return file

    daily = [made(f"v{LATEST}-2026010{day}T000000Z", 1000 - day) for day in range(1, 8)]
    twice = made(f"v{LATEST}-20260107T000000Z-2", 900)
    old = [made("v1-20250101T000000Z", 5000), made("v1-20250102T000000Z", 4000), made("v2-20250103T000000Z", 3000)]
    newer = [made("v999-20240101T000000Z", 9000), made("v999-20240102T000000Z", 8999)]
    mine = made("before-the-talk", 90000)
    assert set(upkeep.prune(path, keep=3)) == {*daily[:5], old[0]}
    assert set(upkeep.backups(path)) == {*daily[5:], twice, *old[1:], *newer, mine}


def test_a_backup_is_due_a_day_after_the_last_one_if_something_was_written(path: Path) -> None:
    assert upkeep.backup_due(path)
    made = upkeep.copy_beside(path)
    assert not upkeep.backup_due(path)
    now = time.time()
    os.utime(made, (now - 90_000,) * 2)
    assert upkeep.backup_due(path)
    os.utime(path, (now - 95_000,) * 2)
    assert not upkeep.backup_due(path)
    os.utime(path, (now - 10,) * 2)
    os.utime(made, (now + 1000,) * 2)  # the clock was set back since
    assert upkeep.backup_due(path)


# -- a file that gives way ---------------------------------------------------------------------------------------------


def test_what_a_restored_backup_lacks_is_named(path: Path) -> None:
    with Store.open(path) as store:
        backup = store.backup()
        later = [planned() for _ in range(3)]
        store.plan(later)
    data = bytearray(path.read_bytes())
    with closing(sqlite3.connect(path)) as connection:
        (root,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'peaks'").fetchone()
    data[4096 * (root - 1) : 4096 * root] = bytes(4096)
    path.write_bytes(data)
    with Store.open(path) as store:
        assert store.opened.restored_from == backup
        assert store.opened.missing == Missing(tuple(sorted(run.id for run in later)), certain=True)


def test_where_the_damaged_file_cannot_be_read_nobody_claims_to_know_what_is_missing(path: Path) -> None:
    with Store.open(path) as store:
        store.backup()
        store.plan([planned()])
    damage(path)
    with Store.open(path) as store:
        assert store.opened.missing == Missing((), certain=False)


def test_a_chosen_backup_takes_the_place_of_the_store_and_can_be_undone(path: Path, tmp_path: Path) -> None:
    kept = upkeep.copy_beside(path, tmp_path / "kept.db")
    before = ids(path)
    run = planned()
    with Store.open(path) as store:
        store.plan([run])
    done = upkeep.restore(path, kept)
    assert (done.backup, done.missing) == (kept, Missing((run.id,)))
    assert ids(path) == before
    assert done.aside is not None
    assert upkeep.asides(path) == [done.aside]
    undone = upkeep.restore(path, done.aside)
    assert undone.missing == Missing()
    assert ids(path) == sorted([*before, run.id])
    assert upkeep.verify(path).damage == []


def test_a_replaced_store_is_kept_with_the_log_that_holds_its_newest_runs(path: Path) -> None:
    backup = upkeep.copy_beside(path)
    store = Store.open(path)
    run = planned()
    store.plan([run])
    log, whole = Path(f"{path}-wal").read_bytes(), path.read_bytes()
    store.close()
    path.write_bytes(whole)
    Path(f"{path}-wal").write_bytes(log)  # as an engine that was killed leaves it
    done = upkeep.restore(path)
    assert (done.backup, done.missing.runs) == (backup, (run.id,))
    assert Path(f"{done.aside}-wal").read_bytes() == log
    upkeep.restore(path, done.aside)
    assert run.id in ids(path)


@pytest.mark.parametrize("spoil", [damage, lambda file: file.write_bytes(b"")])
def test_a_backup_that_will_not_do_changes_nothing(path: Path, spoil: Callable[[Path], Any]) -> None:
    backup = upkeep.copy_beside(path)
    spoil(backup)
    before = path.read_bytes()
    with pytest.raises(StoreCorruptError):
        upkeep.restore(path, backup)
    with pytest.raises(LookupError, match="no whole backup"):
        upkeep.restore(path)
    with pytest.raises(LookupError, match="no backup"):
        upkeep.restore(path, path)
    assert path.read_bytes() == before
    assert len(ids(path)) == 20
    assert upkeep.asides(path) == list(path.parent.glob("*.partial*")) == []


def test_a_backup_of_a_newer_aisp_is_refused_by_its_version(path: Path) -> None:
    backup = upkeep.copy_beside(path)
    with closing(sqlite3.connect(backup)) as connection:
        connection.execute("PRAGMA user_version = 999")
    with pytest.raises(NewerSchemaError, match="schema version 999"):
        upkeep.restore(path, backup)
    assert len(ids(path)) == 20


def test_killed_between_its_steps_restoring_leaves_a_store(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    upkeep.copy_beside(path)
    monkeypatch.setattr("aisp.store.upkeep.settle", killed)
    with pytest.raises(KeyboardInterrupt):
        upkeep.restore(path)
    monkeypatch.undo()
    assert len(ids(path)) == 20
    assert upkeep.restore(path).missing == Missing()


# -- space -------------------------------------------------------------------------------------------------------------


def test_vacuum_gives_room_back_and_keeps_every_hash(path: Path) -> None:
    change(path, "INSERT INTO environments VALUES ('x', ?)", "x" * (4 << 20))
    change(path, "DELETE FROM environments WHERE hash = 'x'")
    with History(path) as history:
        marked = history.newest(50)
    before, after = upkeep.vacuum(path)
    assert before - after > 4 << 20
    assert after == path.stat().st_size
    assert upkeep.verify(path).damage == []
    with History(path) as history:
        assert history.newest(50) == marked
    with Store.open(path) as store:
        assert store.opened.set_aside is None


def test_a_damaged_store_is_not_rewritten(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[4096 * 3 : 4096 * 4] = bytes(4096)
    path.write_bytes(data)
    with pytest.raises(StoreCorruptError):
        upkeep.vacuum(path)
    assert path.read_bytes() == bytes(data)


def test_the_reserve_takes_real_room_once_and_gives_it_back_once(path: Path) -> None:
    assert upkeep.make_ballast(path)
    reserve = upkeep.ballast_file(path)
    written = reserve.stat()
    assert written.st_size == upkeep.BALLAST_BYTES
    assert written.st_blocks * 512 >= upkeep.BALLAST_BYTES
    assert upkeep.make_ballast(path)
    assert reserve.stat().st_mtime_ns == written.st_mtime_ns
    assert upkeep.release_ballast(path)
    assert not upkeep.release_ballast(path)


def test_no_reserve_is_made_where_it_would_fill_the_disk(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda folder: Usage(1 << 40, 1 << 40, 5 * upkeep.BALLAST_BYTES))
    assert not upkeep.make_ballast(path)
    assert not upkeep.ballast_file(path).exists()


def test_a_store_on_a_full_disk_is_opened_with_the_reserve_given_back(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    upkeep.make_ballast(path)
    connect = Store._open

    def full(where: Path, timeout_s: float) -> Store:
        if upkeep.ballast_file(where).exists():
            raise StoreFullError("the disk is full")
        return connect(where, timeout_s)

    monkeypatch.setattr(Store, "_open", full)
    with Store.open(path) as store:
        store.plan([planned()])
    assert len(ids(path)) == 21


# -- the engine --------------------------------------------------------------------------------------------------------


def test_the_chores_make_the_reserve_at_once_and_a_backup_when_it_is_quiet(path: Path) -> None:
    chores = Upkeep()
    with Store.open(path) as store:
        assert chores.wanted(0.0)
        assert chores.tend(store, 0.0) == []
        assert upkeep.ballast_file(path).exists()
        assert upkeep.backups(path) == []
        assert not chores.wanted(1.0)
        assert chores.wanted(upkeep.QUIET_S)
        assert chores.tend(store, upkeep.QUIET_S) == []
        (made,) = upkeep.backups(path)
        assert upkeep.verify(made).damage == []
        assert not chores.wanted(1e9)


def test_a_backup_that_cannot_be_made_is_told_and_taken_back_when_it_can(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chores = Upkeep()
    with Store.open(path) as store:
        chores.tend(store, 0.0)
        upkeep.release_ballast(path)
        with monkeypatch.context() as patch:
            patch.setattr("shutil.disk_usage", lambda folder: Usage(1 << 40, 1 << 40, 0))
            (told,) = chores.tend(store, upkeep.QUIET_S)
        assert (told.key, told.severity) == ("backup", "error")
        assert "could not be backed up" in told.text
        later = time.monotonic() + 2 * upkeep.RETRY_S
        monkeypatch.setattr(time, "monotonic", lambda: later)
        assert {(news.key, news.text) for news in chores.tend(store, upkeep.QUIET_S)} == {("disk", ""), ("backup", "")}
    assert len(upkeep.backups(path)) == 1


@pytest.mark.parametrize("idle_s", [0.0, upkeep.QUIET_S])
def test_the_chores_write_nothing_into_a_folder_that_took_the_place_of_the_stores(
    tmp_path: Path, idle_s: float
) -> None:
    state = tmp_path / "state"
    state.mkdir()
    with Store.open(state / "aisp.db") as store:
        moved = state.rename(tmp_path / "moved")
        state.mkdir()
        with pytest.raises(StoreGoneError):
            Upkeep().tend(store, idle_s)
        assert list(state.iterdir()) == []
        assert not upkeep.ballast_file(moved / "aisp.db").exists()


def test_a_reserve_whose_folder_is_moved_while_it_is_made_goes_nowhere_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state, moved = tmp_path / "state", tmp_path / "moved"
    state.mkdir()
    monkeypatch.setattr("shutil.disk_usage", lambda folder: Usage(1 << 40, 0, 1 << 40))

    def zeros(count: int) -> bytes:
        if not moved.exists():
            state.rename(moved)
            state.mkdir()
        return bytes(count)

    monkeypatch.setattr("os.urandom", zeros)
    assert not upkeep.make_ballast(state / "aisp.db")
    assert moved.exists()
    assert list(state.iterdir()) == []


def a_writer(path: Path, monkeypatch: pytest.MonkeyPatch, told: list[tuple[str, str]]) -> Any:
    """The engine's, of a store that the test gives it; what it tells clients goes into `told`."""
    monkeypatch.setenv("AISP_STATE", str(path.parent))
    broadcast = SimpleNamespace(banner=lambda key, text, severity="warning": told.append((key, text)))
    held: Any = SimpleNamespace(look=lambda: None)
    return StoreWriter(held, Life(), cast("Broadcast", broadcast))


async def test_a_result_that_meets_a_full_disk_is_written_into_the_room_of_the_reserve(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    upkeep.make_ballast(path)
    told: list[tuple[str, str]] = []

    def plan(run: str) -> str:
        if upkeep.ballast_file(path).exists():
            raise StoreFullError(f"{path} cannot grow")
        return run

    writer = a_writer(path, monkeypatch, told)
    writer._store = SimpleNamespace(path=path, plan=plan)

    async def waited(seconds: float) -> None:
        pytest.fail(f"waited {seconds} s for somebody to make room")

    monkeypatch.setattr(asyncio, "sleep", waited)
    assert await writer.call(lambda store: store.plan("a run")) == "a run"
    assert [key for key, _ in told] == ["disk"]
    assert "a reserve of 16 MiB was given up" in told[0][1]


async def test_an_engine_says_what_its_damaged_store_cost(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Store.open(path) as store:
        store.backup()
        store.plan([planned()])
    change(path, "UPDATE runs SET target = 'x' WHERE number = 1")
    data = bytearray(path.read_bytes())
    with closing(sqlite3.connect(path)) as connection:
        (root,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'peaks'").fetchone()
    data[4096 * (root - 1) : 4096 * root] = bytes(4096)
    path.write_bytes(data)
    told: list[tuple[str, str]] = []
    writer = a_writer(path, monkeypatch, told)
    with Store.open(path) as writer._store:
        await writer.take_stock()
    _, text = told[0]
    assert "was damaged and set aside" in text
    assert "1 run(s) are missing, the log names them" in text
    assert "more may be missing" not in text


def test_files_that_give_way_within_one_second_are_all_found(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(migrations, "stamp", lambda: "20260101T000000Z")
    for _ in range(2):
        Store.open(path).close()
        path.rename(migrations.free_name(path.with_name(f"{path.name}.replaced-{migrations.stamp()}")))
    assert [aside.name for aside in upkeep.asides(path)] == [
        "aisp.db.replaced-20260101T000000Z",
        "aisp.db.replaced-20260101T000000Z-2",
    ]


@pytest.mark.parametrize(
    ("sql", "told"),
    [
        ("DELETE FROM snapshot_files; DELETE FROM snapshots", "run: its sources are not in the file any more"),
        ("DELETE FROM environments", "run: its environment is not in the file any more"),
        ("DELETE FROM snapshot_files WHERE rowid_of = 1", "snapshot: its files are others than its hash says"),
        (
            "UPDATE snapshot_files SET name = CAST('other.py' AS BLOB)",
            "snapshot: its files are others than its hash says",
        ),
        ("UPDATE snapshot_files SET label = 'other.py'", "snapshot: a file's label is not its name"),
        ("DROP VIEW hidden", "file: its schema: the view hidden is missing"),
        (
            'DROP VIEW hidden; CREATE VIEW hidden AS SELECT 1 AS run, 1 AS position, "" AS rung WHERE 0',
            "file: its schema: the view hidden is not the one we make",
        ),
        (
            "CREATE TRIGGER t AFTER INSERT ON comparisons BEGIN DELETE FROM findings; END",
            "file: its schema: the trigger t is none of ours",
        ),
        ("DROP INDEX runs_finished", "file: its schema: the index runs_finished is missing"),
        ("ALTER TABLE arms ADD COLUMN more TEXT", "file: its schema: the table arms is not the one we make"),
    ],
)
def test_what_is_gone_or_another_in_any_table_or_object_of_the_schema_is_told(path: Path, sql: str, told: str) -> None:
    assert upkeep.verify(path).damage == []
    first = "(SELECT snapshot FROM snapshot_files ORDER BY snapshot LIMIT 1)"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(sql.replace("rowid_of = 1", f"snapshot = {first}"))
    assert told in {f"{each.kind}: {each.reason}" for each in upkeep.verify(path).damage}


def test_a_view_that_others_replaced_hides_nothing_from_a_reader(path: Path) -> None:
    run = planned()
    end = finished(run, manifest={**run.manifest, "code": "c0de"})
    mark = "INSERT INTO quarantines (folder, rung, code, target, device, run, 'check', evidence, wall) VALUES (?, "
    with Store.open(path) as store:
        store.finish(end, {})
    with closing(sqlite3.connect(path)) as connection:
        values = [end.folder, "optimized", "c0de", end.target, "cpu", end.id, "timing.wall_clock", "0.4 ms", end.wall]
        connection.execute(mark.replace("'check'", '"check"') + ", ".join("?" * 8) + ")", values)
        connection.executescript("DROP VIEW hidden; CREATE VIEW hidden AS SELECT 1 AS run WHERE 0")
    with History(path) as history:
        assert [one.speedup for one in history.run(end.id).comparisons] == [None]


@pytest.mark.parametrize("version", range(1, 10))
def test_a_file_of_an_earlier_version_has_the_schema_of_that_version(tmp_path: Path, version: int) -> None:
    with closing(sqlite3.connect(tmp_path / "old.db")) as connection:
        connection.executescript(Path(__file__).with_name(f"schema_v{version}.sql").read_text())
        connection.execute(f"PRAGMA user_version = {version}")
        assert migrations.differing(connection) == []


def test_whatever_a_page_holds_instead_is_damage_that_is_named(tmp_path: Path) -> None:
    path = tmp_path / "aisp.db"
    with Store.open(path) as store:
        for number in range(3):
            snapshot = store.put_snapshot({"optimized.py": b"# %d" % number})
            store.finish(finished(planned(seq=number), snapshot=snapshot), {"baseline": samples_of(20, number)})
        store.put_peak(peak_of())
        for _ in range(6):
            store.put_fuzz(*fuzz_of())
    data = path.read_bytes()
    pages = [data[at : at + 4096] for at in range(0, len(data), 4096)]
    for number in range(1, len(pages)):  # the first has what tells a store of ours from others
        # Nothing, and a leaf of another table: its columns are then others, and of other types.
        for instead in (bytes(4096), pages[1 + (number * 7) % (len(pages) - 1)]):
            path.write_bytes(b"".join([*pages[:number], instead, *pages[number + 1 :]]))
            assert instead == pages[number] or not upkeep.verify(path).whole


@pytest.mark.parametrize(
    ("sql", "kind"),
    [
        ("UPDATE failures SET content = x'07' WHERE number = 1", "failure"),
        ("UPDATE fuzzes SET content = NULL", "fuzz"),
        ("UPDATE peaks SET gpu_uuid = x'07'", "peak"),
        ("UPDATE sources SET content = NULL WHERE sha256 = (SELECT min(sha256) FROM sources)", "source"),
        ("UPDATE snapshot_files SET source = NULL WHERE snapshot = (SELECT min(hash) FROM snapshots)", "snapshot"),
        ("UPDATE manifests SET content = NULL", "manifest"),
        ("UPDATE environments SET hash = x'07' WHERE hash = (SELECT min(hash) FROM environments)", "environment"),
        ("UPDATE chain SET subject = x'00' WHERE seq = 4", "chain"),
    ],
)
def test_a_column_that_holds_another_kind_of_value_is_damage_in_every_table(path: Path, sql: str, kind: str) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:  # without the schema's own refusals
        connection.execute("PRAGMA writable_schema = 1")
        for there, instead in ((") STRICT, ", ") "), (") STRICT", ")"), (" NOT NULL", "")):
            connection.execute(
                "UPDATE sqlite_master SET sql = replace(sql, ?, ?) WHERE type = 'table'"
                " AND name IN ('failures', 'fuzzes', 'peaks', 'manifests', 'sources', 'snapshot_files',"
                " 'environments', 'chain')",
                [there, instead],
            )
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("PRAGMA ignore_check_constraints = 1")
        connection.execute("PRAGMA foreign_keys = 0")
        assert connection.execute(sql).rowcount >= 1
    assert kind in {each.kind for each in upkeep.verify(path).damage}


@pytest.mark.skipif(shutil.which("chattr") is None or os.geteuid() != 0, reason="only root may set such a flag")
@pytest.mark.parametrize(("letter", "sign"), [("i", "immutable"), ("a", "append-only")])
def test_a_flag_that_keeps_the_store_from_growing_is_named_and_not_the_disk(path: Path, letter: str, sign: str) -> None:
    if subprocess.run(["chattr", f"+{letter}", str(path)], capture_output=True, check=False).returncode:
        pytest.skip("this file system has no such flags")
    try:
        with pytest.raises(StoreError) as raised:
            Store.open(path)
    finally:
        subprocess.run(["chattr", f"-{letter}", str(path)], check=True)
    assert f"{path} is {sign}; `chattr -{letter} {path}` takes that back" in str(raised.value)
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorcode, error.sqlite_errorname = sqlite3.SQLITE_IOERR_WRITE, "SQLITE_IOERR_WRITE"  # type: ignore[attr-defined]
    assert type(errors.typed(error, path)) is StoreFullError


def test_a_bookmark_goes_through_no_link_and_into_no_other_folder(path: Path, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine")
    Path(f"{path}.verifying.partial").symlink_to(victim)
    os.mkfifo(f"{path}.verifying")
    bookmark = upkeep._Bookmark(path)
    with closing(sqlite3.connect(path)) as connection:
        bookmark.open(connection, upkeep.Verified(path, LATEST))
    bookmark.done = {"run": 1}
    bookmark.write()
    assert victim.read_text() == "mine"
    assert Path(f"{path}.verifying").is_file()
    Path(f"{path}.verifying").unlink()
    path.rename(tmp_path / "moved.db")
    Store.open(path).close()
    bookmark.write()
    assert not Path(f"{path}.verifying").exists()
