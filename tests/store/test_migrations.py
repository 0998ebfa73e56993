"""Older files are copied and brought up to date; newer ones are left alone with a sentence."""

from __future__ import annotations

import re
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from aisp.store import ForeignDatabaseError, History, NewerSchemaError, Store, StoreFullError, migrations
from aisp.store.outcomes import State, Verdict
from aisp.store.record import Run
from aisp.store.writer import OpenReport
from tests.store.examples import (
    caught,
    equal_arrays,
    finished,
    fuzz_of,
    measured,
    peak_of,
    planned,
    samples_of,
    telemetry_of,
    without_clocks,
    without_probes,
)

DONE, RUNNING = "01J00000000000000000000001", "01J00000000000000000000002"


BROUGHT = [
    (2, "runs", "folder_label"),
    (3, "arms", "quality"),
    (4, "arms", "naive"),
    (5, "fuzzes", "content"),
    (6, "samples", "probe_ms"),
    (7, "chain", "link"),
    (8, "arms", "launches"),
    (9, "arms", "rule"),
    (10, "samples", "rank_ms"),
    (11, "arms", "failing_case"),
]
"""Steps of the schema, each with a column that it brought."""


def kept(version: int, path: Path) -> Path:
    """Make the file at `path` as that schema version left it."""
    with sqlite3.connect(path) as connection:
        connection.executescript(Path(__file__).with_name(f"schema_v{version}.sql").read_text())
    connection.close()
    return path


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A file as schema version 1 left it."""
    return kept(1, tmp_path / "aisp.db")


@pytest.fixture(params=range(1, migrations.LATEST))
def older(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A file of every older schema version that there was, one after the other."""
    return kept(request.param, tmp_path / "aisp.db")


@pytest.fixture(params=[1, 2, 3])
def unjudged(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A file of every schema version before findings and quarantines were kept."""
    return kept(request.param, tmp_path / "aisp.db")


@pytest.fixture(params=[1, 2])
def clockless(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A file of every schema version before clocks, qualities and peaks were kept."""
    return kept(request.param, tmp_path / "aisp.db")


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


def expected(run: Run) -> Run:
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
        assert equal_arrays(read["baseline"], without_clocks(samples_of(6)))
        assert equal_arrays(read["optimized"], without_clocks(samples_of(6, 1)))
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


def ended(history: History) -> list[Run]:
    return [run for run in history.newest() if run.state.final]


def test_runs_of_any_older_schema_are_whole_before_and_after_migration(older: Path) -> None:
    with History(older) as history:
        before = history.newest()
        arrays = {run.id: history.samples(run.id) for run in before}
        assert ended(history)
        assert all(history.verify(run.id) for run in before)
    Store.open(older).close()
    with History(older) as history:
        assert history.newest() == before
        assert all(history.verify(run.id) for run in before)
        for run in before:
            after = history.samples(run.id)
            assert list(after) == list(arrays[run.id])
            assert all(equal_arrays(after[rung], arrays[run.id][rung]) for rung in after)
        assert history.damaged == {}


def test_what_an_older_run_did_not_measure_is_unknown(clockless: Path) -> None:
    for migrate in (False, True):
        if migrate:
            Store.open(clockless).close()
        with History(clockless) as history:
            for run in ended(history):
                for arm in run.arms:
                    assert (arm.calls, arm.sm_clock_mhz, arm.light, arm.quality) == (None, None, None, None)
                for ratio in run.comparisons:
                    assert (ratio.cycles, ratio.cycles_low, ratio.cycles_high, ratio.p_value) == (None,) * 4
            read = history.samples(DONE)["baseline"]
            assert equal_arrays(read, without_clocks(samples_of(6)))


def test_an_older_run_was_not_judged_and_nothing_of_it_is_in_quarantine(unjudged: Path) -> None:
    for migrate in (False, True):
        if migrate:
            with Store.open(unjudged) as store:
                assert store.quarantines(b"/home/ada/kernels/caf\xe9") == {}
        with History(unjudged) as history:
            assert history.quarantines() == []
            for run in ended(history):
                assert run.findings == ()
                assert [arm.naive for arm in run.arms] == [None] * len(run.arms)
            assert history.run(DONE).verdict is Verdict.FASTER
            assert history.run(DONE).comparisons[0].speedup == 2.0


def test_a_rung_of_an_older_store_can_be_caught_after_migration(unjudged: Path) -> None:
    with Store.open(unjudged) as store, History(unjudged) as history:
        before = history.run(DONE)
        end = caught(planned())
        store.finish(end, {})
        assert [(q.rung, q.run_id) for q in history.quarantines()] == [("optimized", end.id)]
        assert history.run(end.id) == end
        assert history.verify(end.id)
        assert history.run(DONE) == before  # nobody knows which code it was


def test_clocks_and_peaks_of_schema_version_3_are_whole_after_migration(tmp_path: Path) -> None:
    path = kept(3, tmp_path / "aisp.db")
    Store.open(path).close()
    with History(path) as history:
        run = history.run(DONE)
        wanted = planned(id=DONE, snapshot=run.snapshot, environment=run.environment, seq=1)
        assert run == measured(wanted, samples=6)
        assert equal_arrays(history.samples(DONE)["baseline"], without_probes(samples_of(6)))
        assert history.peaks() == [peak_of(id="01J00000000000000000000000")]
        assert history.verify_peak("01J00000000000000000000000")


def test_findings_and_quarantines_of_schema_version_4_are_whole_after_migration(tmp_path: Path) -> None:
    path = kept(4, tmp_path / "aisp.db")
    for migrate in (False, True):
        if migrate:
            Store.open(path).close()
        with History(path) as history:
            run = history.run(DONE)
            assert [(f.check, f.arm, f.evidence) for f in run.findings] == [
                ("timing.wall_clock", "baseline", "0.50 ms and 0.52 ms"),
                ("timing.wall_clock", "optimized", "0.50 ms and 0.52 ms"),
            ]
            naive = run.arms[1].naive
            assert naive is not None
            assert (naive.base_ms, naive.time_ms, naive.accepts) == (1.02, 0.49, True)
            (held,) = history.quarantines()
            assert (held.target, held.rung, held.check) == ("mine:softmax", "optimized", "timing.wall_clock")


@pytest.fixture(params=[1, 2, 3, 4])
def fuzzless(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A file of every schema version before fuzzes were kept."""
    return kept(request.param, tmp_path / "aisp.db")


def test_fuzzes_of_schema_version_5_are_whole_after_migration(tmp_path: Path) -> None:
    path = kept(5, tmp_path / "aisp.db")
    for migrate in (False, True):
        if migrate:
            Store.open(path).close()
        with History(path) as history:
            (fuzz,) = history.fuzzes()
            assert len(history.failures(fuzz.id)) == 2
            read = history.samples(DONE)["baseline"]
            assert equal_arrays(read, without_probes(samples_of(6)))


def test_the_second_clock_of_schema_version_6_is_whole_after_migration(tmp_path: Path) -> None:
    path = kept(6, tmp_path / "aisp.db")
    for migrate in (False, True):
        if migrate:
            Store.open(path).close()
        with History(path) as history:
            run_id = "01J00000000000000000000006"
            assert history.run(run_id).state is State.OK and history.verify(run_id)
            assert equal_arrays(history.samples(run_id)["baseline"], samples_of(6))


def test_an_older_store_has_no_fuzzes_until_it_is_migrated(fuzzless: Path) -> None:
    older = fuzzless
    with History(older) as history:
        assert history.fuzzes() == history.fuzzes("ch07:transpose") == []
        for read in (history.fuzz, history.failures):
            with pytest.raises(LookupError, match="no fuzz '01J'; there are none yet"):
                read("01J")
        with pytest.raises(LookupError, match="no failure '01J'; there are none yet"):
            history.failure("01J")
        record, failures = fuzz_of()
        with Store.open(older) as store:
            store.put_fuzz(record, failures)
        assert history.fuzzes() == [record]
        assert history.failures(record.id) == failures


def test_an_older_store_has_no_peaks_until_it_is_migrated(clockless: Path) -> None:
    older = clockless
    with History(older) as history:
        assert history.peaks() == []
        assert history.peaks("GPU-0") == []
        assert history.peak("01ARZ3NDEKTSV4RRFFQ69G5FAV") is None
        with Store.open(older) as store:
            assert store.latest_peak("GPU-0") is None
            peak = peak_of("GPU-0")
            store.put_peak(peak)
        assert history.peaks() == [peak]


def test_a_migrated_store_takes_new_runs_and_refuses_what_cannot_be(older: Path) -> None:
    with Store.open(older) as store, History(older) as history:
        run = planned()
        store.plan([run])
        end = measured(run, samples=6)
        store.finish(end, {"baseline": samples_of(6)}, telemetry_of(3))
        assert history.run(run.id) == end
        assert equal_arrays(history.samples(run.id)["baseline"], samples_of(6))
        assert history.verify(run.id)
        connection = store._db.conn
        for change in ("median_ms = -1", "calls = 0", "sample_count = 0", "timing = 'none'", "correctness = 'unknown'"):
            with pytest.raises(sqlite3.IntegrityError, match="CHECK"):
                connection.execute(f"UPDATE arms SET {change} WHERE median_ms IS NOT NULL")
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE arms SET calls = 2",
        "UPDATE arms SET light = '{}'",
        "UPDATE comparisons SET p_value = 0.5",
        "UPDATE samples SET sm_clock_mhz = device_ms",
        "UPDATE samples SET probe_ms = device_ms",
        "UPDATE arms SET median_ms = median_ms * 0.999",
    ],
)
def test_a_change_of_an_older_run_is_found_after_migration(older: Path, change: str) -> None:
    with Store.open(older) as store, History(older) as history:
        assert store._db.conn.execute(change).rowcount > 0
        assert not history.verify(DONE)


def test_an_older_store_can_be_read_before_any_engine_opens_it(old: Path) -> None:
    before = old.read_bytes()
    with History(old) as history:
        assert [run.id for run in history.newest()] == [RUNNING, DONE]
        assert history.run(RUNNING).state is State.RUNNING
        assert history.verify(DONE)
        assert list(history.board()) == ["ch07:transpose"]
        assert len(history.snapshot(history.run(DONE).snapshot)) == 2
    assert old.read_bytes() == before


def test_a_migrated_store_and_a_new_one_have_the_same_schema(older: Path, tmp_path: Path) -> None:
    new = tmp_path / "new.db"
    Store.open(new).close()
    Store.open(older).close()
    assert schema(older) == schema(new)
    assert versions(new) == migrations.LATEST
    assert not list(tmp_path.glob("new.db*.bak"))  # there was nothing to keep


@pytest.mark.parametrize("version", [1, 2, 3, 4, 5, 6, 7, 8])
def test_a_shipped_step_is_never_edited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int) -> None:
    monkeypatch.setattr(migrations, "STEPS", migrations.STEPS[:version])
    monkeypatch.setattr(migrations, "LATEST", version)
    made = tmp_path / "made.db"
    Store.open(made).close()
    assert schema(made) == schema(kept(version, tmp_path / "kept.db"))


def test_a_newer_store_is_refused_with_a_sentence_and_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "aisp.db"
    with Store.open(path) as store:
        store.plan([planned()])
        store._db.conn.execute(f"PRAGMA user_version = {migrations.LATEST + 1}")
    before = path.read_bytes()
    with pytest.raises(NewerSchemaError) as refused:
        Store.open(path)
    assert str(refused.value) == (
        f"{path} has schema version {migrations.LATEST + 1} and this aisp knows {migrations.LATEST}: "
        "update aisp, or set AISP_STATE to another folder"
    )
    assert (refused.value.version, refused.value.latest) == (migrations.LATEST + 1, migrations.LATEST)
    assert path.read_bytes() == before
    with History(path) as history:  # nothing that reading needs is missing
        assert history.count() == 1


def test_a_newer_store_without_what_reading_needs_is_refused_for_reading_too(tmp_path: Path) -> None:
    path = tmp_path / "aisp.db"
    with Store.open(path) as store:
        store._db.conn.execute(f"PRAGMA user_version = {migrations.LATEST + 1}")
        store._db.conn.execute("ALTER TABLE arms RENAME COLUMN median_ms TO median_us")
    with (
        History(path) as history,
        pytest.raises(NewerSchemaError, match=rf"schema version {migrations.LATEST + 1} .* update aisp"),
    ):
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
from aisp.store import Store, migrations

number = int(sys.argv[2])
whole = migrations.STEPS[number - 1]

def killed(db):
    whole(db)
    os.kill(os.getpid(), signal.SIGKILL)

migrations.STEPS = (*migrations.STEPS[: number - 1], killed)
Store.open(sys.argv[1])
"""


@pytest.mark.parametrize(("step", "table", "column"), BROUGHT)
def test_a_migration_that_is_killed_has_not_happened(old: Path, step: int, table: str, column: str) -> None:
    killed = subprocess.run([sys.executable, "-c", KILLED, str(old), str(step)], timeout=60)
    assert killed.returncode == -signal.SIGKILL
    assert versions(old) == step - 1
    assert column not in schema(old).get(table, "")
    with Store.open(old) as store, History(old) as history:
        assert store.opened.migrated_from == step - 1
        assert history.verify(DONE)
    assert versions(old) == migrations.LATEST
    assert len(list(old.parent.glob("*.bak"))) == 2


def test_a_new_store_that_is_killed_half_made_is_no_older_one(tmp_path: Path) -> None:
    path = tmp_path / "aisp.db"
    killed = subprocess.run([sys.executable, "-c", KILLED, str(path), "3"], timeout=60)
    assert killed.returncode == -signal.SIGKILL
    with Store.open(path) as store:
        assert store.opened == OpenReport()
    assert sorted(file.name for file in tmp_path.iterdir()) == ["aisp.db", "aisp.db.closed"]


@pytest.mark.parametrize(("step", "table", "column"), BROUGHT)
def test_a_step_that_fails_is_undone_whole(
    old: Path, monkeypatch: pytest.MonkeyPatch, step: int, table: str, column: str
) -> None:
    whole = migrations.STEPS[step - 1]

    def broken(db: Any) -> None:
        whole(db)
        raise sqlite3.OperationalError("no")

    monkeypatch.setattr(migrations, "STEPS", (*migrations.STEPS[: step - 1], broken))
    with pytest.raises(Exception, match="no"):
        Store.open(old)
    assert versions(old) == step - 1
    assert column not in schema(old).get(table, "")


def test_without_room_for_the_copy_nothing_is_migrated(old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("aisp.store.upkeep.settle", full)
    with pytest.raises(StoreFullError, match="free some space"):
        Store.open(old)
    assert versions(old) == 1
    assert not list(old.parent.glob("*.bak*"))
