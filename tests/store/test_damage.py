"""A damaged file is moved away, never repaired in place and never thrown away; the engine goes on."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import sqlite3
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

from aisp.store import ContradictionError, History, OpenReport, Store, StoreError, upkeep, writer
from aisp.store.errors import StoreCorruptError
from tests.store.examples import equal_arrays, finished, planned, samples_of


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A closed store of some 70 pages."""
    path = tmp_path / "aisp.db"
    with Store.open(path) as store:
        runs = [planned() for _ in range(20)]
        store.plan(runs)
        for number, run in enumerate(runs):
            store.finish(finished(run), {"baseline": samples_of(200, number)})
    return path


def header(data: bytearray) -> None:
    data[:16] = b"not a database.\0"


def zeroed_page(data: bytearray) -> None:
    data[4096 * 3 : 4096 * 4] = bytes(4096)


def zeroed_first_sector(data: bytearray) -> None:
    data[:512] = bytes(512)


def flipped_schema(data: bytearray) -> None:
    data[100:108] = bytes(byte ^ 0xFF for byte in data[100:108])


def cut(data: bytearray) -> None:
    del data[len(data) // 2 :]


def noise(data: bytearray) -> None:
    data[:] = os.urandom(len(data))


@pytest.mark.parametrize("injure", [header, zeroed_page, zeroed_first_sector, flipped_schema, cut, noise])
@pytest.mark.parametrize("with_backup", [True, False])
def test_a_damaged_store_is_set_aside(path: Path, injure: Callable[[bytearray], None], with_backup: bool) -> None:
    with History(path) as history:
        newest = history.newest(1)[0].id
        lost = {run.id for run in history.newest()}
    Path(f"{path}-wal").unlink(missing_ok=True)
    if with_backup:
        with Store.open(path) as store:
            backup = store.backup()
            later = planned(target="after:backup")
            store.plan([later])
            lost = {later.id}
    data = bytearray(path.read_bytes())
    injure(data)
    path.write_bytes(data)

    with Store.open(path) as store, History(path) as history:
        aside = store.opened.set_aside
        assert aside is not None
        assert aside.name.startswith("aisp.db.corrupt-")
        assert aside.read_bytes() == bytes(data)
        missing = store.opened.missing
        assert missing is not None
        assert set(missing.runs) <= lost
        assert set(missing.runs) == lost or not missing.certain
        if with_backup:
            assert store.opened == OpenReport(restored_from=backup, set_aside=aside, missing=missing)
            assert history.count() == 20
            assert history.verify(newest)
            assert backup.exists()
        else:
            assert store.opened == OpenReport(set_aside=aside, missing=missing)
            assert history.count() == 0
        run = planned()
        store.plan([run])
        store.finish(finished(run), {})
        assert history.verify(run.id)
    with Store.open(path) as store:
        assert store.opened == OpenReport()


def flip_a_bit(data: bytearray, chance: random.Random) -> None:
    data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)


def zero_a_sector(data: bytearray, chance: random.Random) -> None:
    start = chance.randrange(len(data) // 512) * 512
    data[start : start + 512] = bytes(512)


@pytest.mark.parametrize("injure", [flip_a_bit, zero_a_sector])
@pytest.mark.slow
def test_damage_is_never_read_as_a_result(path: Path, injure: Callable[[bytearray, random.Random], None]) -> None:
    """Bits that SQLite's own check lets pass must not come back as another time."""
    with History(path) as history:
        runs = {run.id: run for run in history.newest()}
        arrays = {run_id: history.samples(run_id)["baseline"] for run_id in runs}
    Path(f"{path}-wal").unlink(missing_ok=True)
    Path(f"{path}-shm").unlink(missing_ok=True)
    whole = path.read_bytes()
    chance = random.Random(42)
    noticed = 0
    for number in range(40):
        copy = path.with_name(f"damaged-{number}.db")
        data = bytearray(whole)
        injure(data, chance)
        copy.write_bytes(data)
        with History(copy) as history:
            sound = set()
            for run_id, run in runs.items():
                try:
                    if history.verify(run_id):
                        assert history.run(run_id) == run
                        assert equal_arrays(history.samples(run_id)["baseline"], arrays[run_id])
                        sound.add(run_id)
                    elif run_id in {listed.id for listed in history.newest()}:
                        # A damaged record may be shown, but its times are still those of samples that check out.
                        with contextlib.suppress(StoreError):
                            assert equal_arrays(history.samples(run_id)["baseline"], arrays[run_id])
                except (StoreError, ContradictionError, LookupError):
                    continue
            noticed += len(sound) < len(runs)
    assert noticed >= 5


def test_a_large_file_is_examined_unless_it_is_the_one_that_was_closed(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Examining reads all of it, which takes a minute for some gigabytes on a cold disk."""
    sizes: list[int] = []

    def examining(size_bytes: int) -> bool:
        sizes.append(size_bytes)
        return False

    def examined() -> bool:
        sizes.clear()
        Store.open(path, examining=examining).close()
        return bool(sizes)

    assert examined() and sizes[0] == path.stat().st_size, "a small one always is"
    monkeypatch.setattr(writer, "EXAMINED_BYTES", 0)
    assert not examined()
    with History(path) as history:  # its connection outlasts the writer's, and keeps the log
        assert history.count() == 20
        with Store.open(path) as store:
            store.plan([planned()])
        assert not examined()
    lost = Store.open(path)  # and never closed: its process is killed
    assert not upkeep.closed_file(path).exists()
    lost._db.close()
    assert examined()
    assert not examined()
    copied = path.with_name("copy")
    shutil.copy2(path, copied)
    copied.replace(path)
    assert examined(), "another file in its place, of the same size and time"
    data = bytearray(path.read_bytes())
    zeroed_page(data)
    path.write_bytes(data)
    with Store.open(path) as store:
        assert store.opened.set_aside is not None


@pytest.mark.parametrize(("after", "why"), [(1, "was not examined"), (2, "interrupted")])
def test_an_examination_can_be_given_up(path: Path, monkeypatch: pytest.MonkeyPatch, after: int, why: str) -> None:
    monkeypatch.setattr(writer, "PROGRESS_STEPS", 10)
    calls = count(1)
    with pytest.raises(StoreError, match=why):
        Store.open(path, examining=lambda size_bytes: next(calls) >= after)
    Store.open(path).close()


def test_what_turned_out_damaged_while_it_was_open_is_examined_next(path: Path) -> None:
    with Store.open(path) as store, pytest.raises(StoreCorruptError), store._transaction():
        error = sqlite3.DatabaseError("database disk image is malformed")
        error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
        raise error
    assert not upkeep.closed_file(path).exists()


def test_without_a_write_ahead_log_everything_is_in_one_file(path: Path) -> None:
    with Store.open(path, wal=False) as store, History(path) as history:
        run = planned()
        store.plan([run])
        store.finish(finished(run), {})
        assert history.verify(run.id)
        assert not Path(f"{path}-wal").exists()
    with Store.open(path) as store:
        assert store._db.execute("PRAGMA journal_mode").fetchone()[0] == "wal"


def test_the_newest_backup_that_is_whole_is_taken(path: Path) -> None:
    with Store.open(path) as store:
        good = store.backup()
        store.plan([planned()])
        bad = store.backup()
    data = bytearray(bad.read_bytes())
    zeroed_page(data)
    bad.write_bytes(data)
    (path.parent / "aisp.db.notes.bak").write_text("not a database at all")
    os.utime(good, (1, 1))
    path.write_bytes(b"broken")

    with Store.open(path) as store, History(path) as history:
        assert store.opened.restored_from == good
        assert history.count() == 20
    assert not list(path.parent.glob("*.partial*"))


def test_a_backup_of_an_older_schema_is_restored_and_migrated(path: Path) -> None:
    old = path.with_name("aisp.db.v1-20260101T000000Z.bak")
    with sqlite3.connect(old) as connection:
        connection.executescript(Path(__file__).with_name("schema_v1.sql").read_text())
    connection.close()
    path.write_bytes(b"broken")
    with Store.open(path) as store, History(path) as history:
        assert store.opened.restored_from == old
        assert store.opened.migrated_from == 1
        assert history.count() == 2


def test_an_emptied_file_beside_a_backup_is_not_taken_for_a_new_one(path: Path) -> None:
    with Store.open(path) as store:
        backup = store.backup()
    path.write_bytes(b"")
    with Store.open(path) as store, History(path) as history:
        assert store.opened.restored_from == backup
        assert history.count() == 20


def test_the_log_of_a_damaged_store_is_not_replayed_into_its_backup(path: Path) -> None:
    with Store.open(path) as store:
        store.backup()
    store = Store.open(path)
    store.plan([planned(target="after:backup")])
    log = Path(f"{path}-wal").read_bytes()
    store.close()
    path.write_bytes(b"x" * path.stat().st_size)
    Path(f"{path}-wal").write_bytes(log)
    with Store.open(path) as store, History(path) as history:
        aside = store.opened.set_aside
        assert aside is not None
        assert Path(f"{aside}-wal").read_bytes() == log
        assert history.count() == 20
        assert history.newest(target="after:backup") == []


def test_an_emptied_file_beside_its_log_keeps_the_log(path: Path) -> None:
    store = Store.open(path)
    store.plan([planned(target="only:in:the:log")])
    log = Path(f"{path}-wal").read_bytes()
    store.close()
    path.write_bytes(b"")
    Path(f"{path}-wal").write_bytes(log)
    with Store.open(path) as store:
        aside = store.opened.set_aside
        assert aside is not None
        assert aside.read_bytes() == b""
        assert Path(f"{aside}-wal").read_bytes() == log


def test_a_history_follows_the_store_that_replaced_a_damaged_one(path: Path) -> None:
    with History(path) as history:
        assert history.count() == 20
        path.write_bytes(b"x" * 8192)
        Path(f"{path}-wal").unlink(missing_ok=True)
        Path(f"{path}-shm").unlink(missing_ok=True)
        with Store.open(path) as store:
            run = planned()
            store.plan([run])
            assert [found.id for found in history.newest()] == [run.id]
