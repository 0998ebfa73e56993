"""The file at the path is the store: whatever is done to it under a writer, nothing is lost, no stranger harmed."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from aisp.store import History, Store, StoreGoneError, StoreLockedError, place, upkeep
from tests.store.examples import finished, planned, samples_of


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "aisp.db"


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(place, "SETTLED_S", 0.01)


def fill(store: Store, count: int) -> list[str]:
    """Plan and finish so many runs; their ids."""
    runs = [planned() for _ in range(count)]
    store.plan(runs)
    for number, run in enumerate(runs):
        store.finish(finished(run), {"baseline": samples_of(100, number)})
    return [run.id for run in runs]


def whole(path: Path) -> set[str]:
    """Ids of the runs of a store that is what was written, read by itself in another folder."""
    assert upkeep.verify(path).damage == []
    with History(path) as history:
        return {run.id for run in history.newest(1000)}


def sides(path: Path) -> list[str]:
    """What lies beside a database."""
    return sorted(name for name in ("-wal", "-shm") if Path(f"{path}{name}").exists())


def test_a_moved_store_refuses_writes_and_has_everything_where_it_is(path: Path) -> None:
    store = Store.open(path)
    ids = fill(store, 3)
    old = path.rename(path.with_name("old.db"))
    with pytest.raises(StoreGoneError, match="moved, removed or overwritten"):
        store.plan([planned()])
    parted = store.part()
    assert parted is not None
    assert parted.text == f"{path} was moved to {old}: what it had is there, whole"
    assert store.part() is parted
    assert sides(path) == []
    assert whole(old) == set(ids)
    with pytest.raises(StoreGoneError, match="open what is there now"):
        store.look()
    with Store.open(path) as fresh:
        assert not fresh.knows(ids[0])
        more = fill(fresh, 2)
    assert (whole(path), whole(old)) == (set(more), set(ids))


def test_a_store_that_is_moved_in_the_middle_of_a_call_has_not_stored_it(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store.open(path)
    run = planned()
    insert = store._insert

    def moved(*words: object) -> None:
        insert(*words)  # type: ignore[arg-type]
        path.rename(path.with_name("old.db"))

    monkeypatch.setattr(store, "_insert", moved)
    with pytest.raises(StoreGoneError):
        store.plan([run])
    store.part()
    with Store.open(path) as fresh:
        assert not fresh.knows(run.id)
        fresh.plan([run])


def test_of_a_removed_store_a_copy_is_kept(path: Path) -> None:
    store = Store.open(path)
    ids = fill(store, 3)
    for name in path.parent.iterdir():
        name.unlink()
    parted = store.part()
    assert parted is not None
    (kept,) = path.parent.iterdir()
    assert parted.text == f"{path} was removed or replaced: what it had was kept as {kept}"
    assert kept in upkeep.asides(path)
    assert whole(kept) == set(ids)


def test_a_store_in_the_place_of_the_open_one_takes_no_page_of_its_log(path: Path, tmp_path: Path) -> None:
    other = tmp_path / "other" / "aisp.db"
    other.parent.mkdir()
    with Store.open(other) as theirs:
        expected = fill(theirs, 5)
    content = other.read_bytes()
    store = Store.open(path)
    ids = fill(store, 3)
    other.replace(path)
    store.part()
    assert path.read_bytes() == content
    assert sides(path) == []
    assert whole(path) == set(expected)
    (kept,) = upkeep.asides(path)
    assert whole(kept) == set(ids)


def test_a_log_that_came_with_the_other_store_stays_with_it(path: Path, tmp_path: Path) -> None:
    other = tmp_path / "other" / "aisp.db"
    other.parent.mkdir()
    theirs = Store.open(other)
    expected = fill(theirs, 5)
    store = Store.open(path)
    fill(store, 3)
    for side in ("", "-wal"):  # as a killed engine leaves them
        shutil.copyfile(f"{other}{side}", tmp_path / f"copy{side}")
        (tmp_path / f"copy{side}").replace(f"{path}{side}")
    theirs.close()
    store.part()
    assert "-wal" in sides(path)
    assert whole(path) == set(expected)


def test_an_overwritten_store_is_what_was_put_there(path: Path, tmp_path: Path) -> None:
    with Store.open(path) as store:
        early = fill(store, 5)
        backup = store.backup(tmp_path / "backup.db")
        fill(store, 60)
    store = Store.open(path)
    late = fill(store, 2)
    assert store.finished == late
    shutil.copyfile(backup, path)
    with pytest.raises(StoreGoneError):
        store.plan([planned()])
    parted = store.part()
    assert parted is not None
    assert parted.in_place and "its log, of before, was dropped" in parted.text
    assert path.read_bytes() == backup.read_bytes()
    assert whole(path) == set(early)


def test_another_store_that_is_written_over_the_open_one_takes_no_page_of_its_log(path: Path, tmp_path: Path) -> None:
    """Of the same size, so that SQLite would see nothing amiss."""
    with Store.open(tmp_path / "other.db") as theirs:
        expected = fill(theirs, 62)
    with Store.open(path) as store:
        fill(store, 60)
    store = Store.open(path)
    fill(store, 2)
    shutil.copyfile(tmp_path / "other.db", path)
    parted = store.part()
    assert parted is not None and "its log, of before, was dropped" in parted.text
    assert path.read_bytes() == (tmp_path / "other.db").read_bytes()
    assert whole(path) == set(expected)


def _touch(path: Path) -> None:
    os.utime(path, ns=(1, 1))


def _fold(path: Path) -> None:
    with closing(sqlite3.connect(path)) as other:
        other.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _write(path: Path) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("UPDATE runs SET target = target")
        other.execute("PRAGMA wal_checkpoint(PASSIVE)")


def _lose_log(path: Path) -> None:
    Path(f"{path}-wal").unlink()


def _lose_memory(path: Path) -> None:
    Path(f"{path}-shm").unlink()


@pytest.mark.parametrize("harm", [_touch, _fold, _write, _lose_log, _lose_memory])
def test_what_only_looks_like_another_store_costs_nothing(path: Path, harm: Callable[[Path], None]) -> None:
    store = Store.open(path)
    ids = fill(store, 5)
    harm(path)
    with pytest.raises(StoreGoneError):
        store.plan([planned()])
    parted = store.part()
    assert parted is not None and parted.in_place
    with Store.open(path) as fresh:
        more = fill(fresh, 1)
    assert whole(path) == {*ids, *more}


def test_a_store_that_is_moved_back_goes_on(path: Path) -> None:
    with Store.open(path) as store:
        path.rename(path.with_name("old.db")).rename(path)
        assert store.part() is None
        fill(store, 1)


def test_a_reader_holds_the_parting_up_and_nothing_is_lost(path: Path) -> None:
    store = Store.open(path, busy_timeout_s=0.01)
    ids = fill(store, 3)
    with closing(sqlite3.connect(path, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM runs").fetchone()
        more = fill(store, 1)
        old = path.rename(path.with_name("old.db"))
        with pytest.raises(StoreLockedError, match="while another program reads it"):
            store.part()
        reader.execute("ROLLBACK")
        assert store.part() is not None
    assert whole(old) == {*ids, *more}


def test_closing_leaves_a_moved_store_whole(path: Path) -> None:
    store = Store.open(path)
    ids = fill(store, 3)
    old = path.rename(path.with_name("old.db"))
    store.close()
    assert whole(old) == set(ids)


def test_the_log_of_a_database_that_is_gone_is_kept_for_it(path: Path, tmp_path: Path) -> None:
    killed = Store.open(path)
    ids = fill(killed, 3)
    for side in ("", "-wal"):
        shutil.copyfile(f"{path}{side}", tmp_path / f"moved{side}")
    killed.close()
    path.unlink()
    (tmp_path / "moved-wal").rename(f"{path}-wal")
    with Store.open(path) as store:
        kept = store.opened.log_kept
        assert kept is not None and kept.name.startswith("aisp.db-wal.kept-")
        assert not store.knows(ids[0])
    kept.rename(tmp_path / "moved-wal")
    assert whole(tmp_path / "moved") == set(ids)


WRITES = """
import sys
from pathlib import Path
from aisp.store import Store
from tests.store.test_place import fill
store = Store.open(Path(sys.argv[1]))
print(fill(store, int(sys.argv[2])), flush=True)
sys.stdin.read()
"""
READS = """
import sys
from pathlib import Path
from aisp.store import History
with History(Path(sys.argv[1])) as history:
    print(len(history.newest(1000)), flush=True)
    sys.stdin.read()
"""


def beside(code: str, *words: object) -> subprocess.Popen[bytes]:
    """Another program, at work until it is killed; it has printed its line."""
    command = [sys.executable, "-c", code, *map(str, words)]
    program = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert program.stdout is not None and program.stdout.readline()
    return program


@pytest.mark.parametrize("folded", [False, True], ids=["with a log", "with a log that was folded in"])
def test_a_reader_of_a_moved_store_has_no_part_in_the_next(path: Path, folded: bool) -> None:
    writer = beside(WRITES, path, 3)
    reader = beside(READS, path)
    try:
        writer.kill()
        writer.wait()
        if folded:
            with closing(sqlite3.connect(path)) as connection:
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        path.rename(path.with_name("old.db"))
        with Store.open(path) as store:
            assert store.opened.set_aside is None
            assert (store.opened.log_kept is None) == folded
            ids = fill(store, 2)
        assert whole(path) == set(ids)
    finally:
        for program in (writer, reader):
            program.kill()
            program.communicate()


def test_a_long_log_is_folded_in_and_that_is_no_strangers_doing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(place, "FOLD_BYTES", 100_000)
    log = Path(f"{path}-wal")
    with Store.open(path) as store:
        longest = 0
        for _ in range(30):
            fill(store, 1)
            longest = max(longest, log.stat().st_size)
        assert 0 < longest < 300_000
        with closing(sqlite3.connect(path, isolation_level=None)) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM runs").fetchone()
            fill(store, 10)
            assert log.stat().st_size > 100_000, "a reader holds it up"
            reader.execute("ROLLBACK")
        fill(store, 1)
        assert log.stat().st_size < 100_000
    assert len(whole(path)) == 41
