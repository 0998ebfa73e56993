"""The one writer: journal first, whole calls only, and nothing impossible gets in."""

from __future__ import annotations

import math
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aisp.store import (
    ContradictionError,
    ForeignDatabaseError,
    History,
    OpenReport,
    Store,
    StoreError,
    StoreFullError,
    StoreLockedError,
    StoreUnwritableError,
    migrations,
    snapshot_hash,
)
from aisp.store.outcomes import Correctness, State, Timing, Trigger, Validity, Verdict
from aisp.store.record import Step
from aisp.store.samples import Samples
from tests.replacing import replace
from tests.store.examples import EPOCH, finished, measured, peak_of, planned, samples_of, telemetry_of


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "aisp.db"


@pytest.fixture
def store(path: Path) -> Iterator[Store]:
    with Store.open(path) as opened:
        yield opened


@pytest.fixture
def history(path: Path) -> Iterator[History]:
    with History(path) as opened:
        yield opened


def raw(path: Path) -> sqlite3.Connection:
    """A connection as any other tool would open it."""
    return sqlite3.connect(path, isolation_level=None)


# -- opening -------------------------------------------------------------------------------------------------


def test_a_new_store_is_durable_private_and_strict(path: Path, store: Store) -> None:
    assert store.opened == OpenReport()
    pragma = {
        name: store._db.conn.execute(f"PRAGMA {name}").fetchone()[0]
        for name in ("journal_mode", "synchronous", "foreign_keys", "busy_timeout")
    }
    assert pragma == {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1, "busy_timeout": 5000}
    assert path.stat().st_mode & 0o077 == 0
    assert Path(f"{path}-wal").stat().st_mode & 0o077 == 0
    tables = store._db.conn.execute("PRAGMA table_list").fetchall()
    loose = [row[1] for row in tables if row[2] == "table" and not row[1].startswith("sqlite_") and not row[5]]
    assert loose == []


def test_an_open_database_of_another_program_is_left_as_it_is(path: Path) -> None:
    with raw(path) as other:
        other.execute("CREATE TABLE bookmarks (url TEXT)")
    other.close()
    before = path.read_bytes()
    with pytest.raises(ForeignDatabaseError, match=r"another program.*set AISP_STATE"):
        Store.open(path)
    assert path.read_bytes() == before


def test_a_store_that_cannot_be_opened_says_why(tmp_path: Path) -> None:
    with pytest.raises(StoreUnwritableError, match="No such file or directory"):
        Store.open(tmp_path / "missing" / "aisp.db")
    (tmp_path / "folder").mkdir()
    with pytest.raises(StoreUnwritableError, match="Is a directory"):
        Store.open(tmp_path / "folder")


# -- the life of a run ---------------------------------------------------------------------------------------


def test_a_run_is_seen_in_every_state_of_its_life(store: Store, history: History) -> None:
    run = planned()
    store.plan([run])
    assert history.run(run.id) == run
    store.advance(run.id, State.STARTING)
    store.advance(run.id, State.RUNNING, start_ns=123)
    assert history.run(run.id) == replace(run, state=State.RUNNING, start_ns=123)
    store.advance(run.id, State.RUNNING)
    assert history.run(run.id).start_ns == 123
    end = finished(run)
    store.finish(end, {"baseline": samples_of(100)}, telemetry_of(4))
    assert history.run(run.id) == end
    assert history.count() == 1


def test_a_plan_is_journalled_whole_or_not_at_all(store: Store, history: History) -> None:
    first, second = planned(), planned()
    store.plan([first])
    with pytest.raises(ContradictionError, match="UNIQUE"):
        store.plan([second, first])
    assert [run.id for run in history.newest()] == [first.id]
    with pytest.raises(ValueError, match="is ok; plan"):
        store.plan([second, finished(first)])
    assert history.count() == 1
    store.plan([])
    assert history.count() == 1


def test_a_final_state_is_written_by_finish_alone(store: Store) -> None:
    run = planned()
    store.plan([run])
    with pytest.raises(ValueError, match="written by finish"):
        store.advance(run.id, State.OK)
    with pytest.raises(ValueError, match="runs that have ended"):
        store.finish(run, {})
    with pytest.raises(LookupError, match="no run 'nope'"):
        store.advance("nope", State.RUNNING)


def test_a_run_that_ended_is_never_rewritten(store: Store, history: History) -> None:
    run = planned()
    store.plan([run])
    end, arrays = finished(run), {"baseline": samples_of(20)}
    store.finish(end, arrays)
    store.finish(end, arrays)  # a caller that is not sure may repeat
    assert history.count() == 1
    with pytest.raises(ContradictionError, match="never rewritten"):
        store.finish(replace(end, duration_ms=1.0), arrays)
    with pytest.raises(ContradictionError, match="never rewritten"):
        store.finish(end, {"baseline": samples_of(20, seed=1)})
    with pytest.raises(ContradictionError, match="ended ok"):
        store.advance(run.id, State.RUNNING)
    assert history.run(run.id) == end
    assert history.verify(run.id)


def test_a_result_without_a_plan_is_kept(store: Store, history: History) -> None:
    run = finished(planned())
    store.finish(run, {"optimized": samples_of(5)})
    assert history.run(run.id) == run


def test_a_run_ends_as_what_it_was_planned(store: Store, history: History) -> None:
    run = planned()
    store.plan([run])
    for changed in ({"target": "ch09:linear_gelu"}, {"epoch": "another"}, {"seq": 8}):
        with pytest.raises(ContradictionError, match="was planned as"):
            store.finish(replace(finished(run), **changed), {})
    assert history.run(run.id).state is State.PLANNED


def test_finishing_keeps_the_place_in_the_order(store: Store, history: History) -> None:
    runs = [planned() for _ in range(3)]
    store.plan(runs)
    store.finish(finished(runs[0]), {})
    assert [run.id for run in history.newest()] == [run.id for run in reversed(runs)]


def test_samples_belong_to_an_arm(store: Store, history: History) -> None:
    run = planned()
    store.plan([run])
    with pytest.raises(ContradictionError, match="samples of stranger"):
        store.finish(finished(run), {"stranger": samples_of(3)})
    twice = finished(run).arms[0]
    with pytest.raises(ContradictionError, match="more than one arm is called baseline"):
        store.finish(finished(run, arms=(twice, twice)), {})
    gpu = telemetry_of(5)
    with pytest.raises(ContradictionError, match="differ in length"):
        store.finish(finished(run), {}, replace(gpu, power_w=gpu.power_w[:3]))
    with pytest.raises(ContradictionError, match="64 bits"):
        store.finish(finished(run, start_ns=2**63), {})
    with pytest.raises(ValueError, match="cannot be kept as JSON"):
        store.finish(finished(run, manifest={"limit": math.inf}), {})
    assert history.run(run.id) == run


def test_runs_of_an_engine_that_died_are_marked_lost(store: Store, history: History) -> None:
    old, done, mine = planned(), planned(), planned(epoch="MINE")
    begun = replace(
        planned(),
        arms=tuple(
            replace(arm, state=state, correctness=Correctness.CORRECT, reason="")
            for arm, state in zip(finished(old).arms, (State.OK, State.RUNNING), strict=True)
        ),
    )
    store.plan([old, done, mine, begun])
    store.finish(finished(done), {})
    store.advance(begun.id, State.RUNNING, start_ns=5)

    assert store.mark_lost("MINE") == [old.id, begun.id]

    lost = history.run(begun.id)
    assert (lost.state, lost.start_ns) == (State.ENGINE_LOST, 5)
    assert "start the run again" in lost.reason
    assert [arm.state for arm in lost.arms] == [State.OK, State.ENGINE_LOST]
    assert history.run(old.id).state is State.ENGINE_LOST
    assert history.run(mine.id) == mine
    assert history.run(done.id).state is State.OK
    assert all(history.verify(run.id) for run in (old, done, mine, begun))
    assert store.mark_lost("MINE") == []


# -- content -------------------------------------------------------------------------------------------------


def test_sources_are_kept_once_by_content(path: Path, store: Store, history: History) -> None:
    files = {"baseline.py": b"def run(x): ...\n", "sub/copy.py": b"def run(x): ...\n", "bad_\udcff.py": b""}
    first = store.put_snapshot(files)
    assert first == snapshot_hash(dict(reversed(files.items()))) == store.put_snapshot(files)
    changed = store.put_snapshot({**files, "optimized.py": b"faster\n"})
    assert changed != first
    assert history.snapshot(first) == files == store.snapshot(first)
    assert list(history.snapshot(changed)) == ["bad_\udcff.py", "baseline.py", "optimized.py", "sub/copy.py"]
    assert raw(path).execute("SELECT count(*) FROM sources").fetchone() == (3,)
    assert history.snapshot(store.put_snapshot({})) == {}
    with pytest.raises(LookupError, match="never put into this store"):
        store.snapshot("0" * 64)


@pytest.mark.parametrize(
    "name", ["", "/etc/passwd", "../other.py", "a/../b.py", "./a.py", "a//b.py", "nul\0.py", "half\ud800.py"]
)
def test_a_source_that_leads_out_of_the_folder_is_refused(store: Store, name: str) -> None:
    with pytest.raises(ValueError, match="file name"):
        store.put_snapshot({name: b""})


def test_moving_a_byte_between_files_changes_the_snapshot() -> None:
    hashes = {
        snapshot_hash({"a": b"1", "b": b"2"}),
        snapshot_hash({"a": b"2", "b": b"1"}),
        snapshot_hash({"a": b"12", "b": b""}),
        snapshot_hash({"a\n": b"1", "b": b"2"}),
        snapshot_hash({"a": b"1"}),
    }
    assert len(hashes) == 5


def test_an_environment_is_kept_once(path: Path, store: Store, history: History) -> None:
    environment = {"gpu": {"uuid": "GPU-1", "sm": 90}, "torch": "2.11.0+cu130", "git": None}
    digest = store.put_environment(environment)
    assert store.put_environment(dict(reversed(environment.items()))) == digest
    assert history.environment(digest) == environment
    assert raw(path).execute("SELECT count(*) FROM environments").fetchone() == (1,)
    with pytest.raises(ValueError, match="the environment cannot be kept as JSON"):
        store.put_environment({"gpu": object()})


def test_one_manifest_serves_a_thousand_runs(path: Path, store: Store) -> None:
    store.plan([planned(target=f"ch01:t{number}") for number in range(1000)])
    assert raw(path).execute("SELECT count(*) FROM manifests").fetchone() == (1,)


# -- what cannot be true -------------------------------------------------------------------------------------

BAD_TIMES = [0.0, -1.0, math.nan, math.inf, -math.inf, "abc", 1e13]


@pytest.mark.parametrize("bad", BAD_TIMES)
@pytest.mark.parametrize(
    "column", ["arms.median_ms", "arms.low_ms", "arms.high_ms", "comparisons.speedup", "comparisons.low"]
)
def test_an_impossible_time_is_refused_by_the_tables(path: Path, store: Store, column: str, bad: Any) -> None:
    run = planned()
    store.plan([run])
    store.finish(finished(run), {})
    table, name = column.split(".")
    other = raw(path)
    if name in ("low_ms", "high_ms") and isinstance(bad, float) and math.isnan(bad):
        # An interval's end may be unknown, which is what SQLite makes of NaN.
        other.execute(f"UPDATE {table} SET {name} = ? WHERE position = 0", [bad])
        assert other.execute(f"SELECT {name} FROM {table} WHERE position = 0").fetchone() == (None,)
        return
    with pytest.raises(sqlite3.IntegrityError):
        other.execute(f"UPDATE {table} SET {name} = ? WHERE position = 0", [bad])


@pytest.mark.parametrize("bad", [-1.0, math.nan, math.inf, "abc", 1e13, None])
def test_an_impossible_step_is_refused_by_the_tables(path: Path, store: Store, bad: Any) -> None:
    store.finish(finished(planned()), {})
    with pytest.raises(sqlite3.IntegrityError):
        raw(path).execute("UPDATE steps SET duration_ms = ?", [bad])


@pytest.mark.parametrize(
    "change",
    [
        "runs SET correctness = 'wrong'",
        "runs SET state = 'crashed'",
        "runs SET state = 'running'",
        "runs SET state = 'splendid'",
        "runs SET validity = 'caught'",
        "runs SET sha256 = NULL",
        "runs SET quick = 2",
        "runs SET flags = '[not json'",
        "runs SET manifest = 'unknown'",
        "runs SET seed = '12 or so'",
        "arms SET state = 'crashed'",
        "arms SET correctness = 'unknown'",
        "arms SET timing = 'none'",
        "arms SET sample_count = 0",
        "arms SET low_ms = 500.0",
        "arms SET rung = ''",
        "arms SET run = 99",
        "comparisons SET low = 0.9",
        "comparisons SET speedup = NULL",
        "comparisons SET verdict = 'slower'",
        "samples SET count = count + 1",
        "samples SET device_ms = 'text'",
        "samples SET rung = 'stranger'",
    ],
)
def test_a_contradiction_is_refused_by_the_tables(path: Path, store: Store, change: str) -> None:
    store.finish(finished(planned()), {"baseline": samples_of(3)})
    other = raw(path)
    other.execute("PRAGMA foreign_keys = ON")
    with pytest.raises(sqlite3.IntegrityError):
        other.execute(f"UPDATE {change}")


def test_the_tables_know_every_word_of_the_vocabulary(store: Store, history: History) -> None:
    for trigger in Trigger:
        run = planned(trigger=trigger)
        store.plan([run])
        assert history.run(run.id).trigger is trigger
    for state in State:
        if state.final and state.stored:
            correctness = {State.OK: Correctness.CORRECT, State.INCORRECT: Correctness.WRONG}.get(state)
            arm = replace(
                finished(planned()).arms[0],
                state=state,
                correctness=correctness or Correctness.UNKNOWN,
                median_ms=None,
                low_ms=None,
                high_ms=None,
                signal=11,
            )
            end = replace(
                planned(),
                state=state,
                correctness=correctness or Correctness.UNKNOWN,
                reason="" if state is State.OK else "it was so",
                arms=(arm,),
            )
            store.finish(end, {})
            assert history.run(end.id) == end
    for timing in Timing:
        if timing is not Timing.NONE:
            run = finished(planned())
            run = replace(run, arms=tuple(replace(arm, timing=timing) for arm in run.arms))
            store.finish(run, {})
            assert history.run(run.id).arms[0].timing is timing
    for validity in Validity:
        for verdict in (Verdict.SAME, Verdict.UNDECIDED, Verdict.NONE):
            run = finished(planned(), validity=validity, verdict=verdict)
            run = replace(run, comparisons=(replace(run.comparisons[0], verdict=verdict),))
            store.finish(run, {})
            assert history.run(run.id) == run


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"calls": 0}, "0 calls in one sample"),
        ({"sm_clock_mhz": 0.0}, "0.0 MHz is no clock"),
        ({"sm_clock_mhz": math.nan}, "nan MHz is no clock"),
    ],
)
def test_an_arm_without_calls_or_clock_is_refused(change: dict[str, Any], said: str) -> None:
    with pytest.raises(ContradictionError, match=said):
        replace(measured(planned()).arms[0], **change)


def test_a_p_value_is_a_probability() -> None:
    for bad in (-0.01, 1.01, math.nan):
        with pytest.raises(ContradictionError, match="a p-value lies in"):
            replace(measured(planned()).comparisons[0], p_value=bad)


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE arms SET calls = 0",
        "UPDATE arms SET sm_clock_mhz = 0.0",
        "UPDATE arms SET sm_clock_mhz = 9e999",
        "UPDATE arms SET light = 'fast'",
        "UPDATE arms SET light = '[]'",
        "UPDATE arms SET quality = ''",
        "UPDATE arms SET quality = '1'",
        "UPDATE arms SET timing = ''",
        "UPDATE arms SET median_ms = 0",
        "UPDATE comparisons SET cycles = 0",
        "UPDATE comparisons SET cycles_low = -1",
        "UPDATE comparisons SET cycles_high = 9e999",
        "UPDATE comparisons SET p_value = 1.5",
        "UPDATE comparisons SET p_value = -0.5",
        "UPDATE samples SET sm_clock_mhz = x'00'",
        "UPDATE ceilings SET value = 0",
        "UPDATE ceilings SET value = 9e999",
        "UPDATE ceilings SET value = NULL, note = ''",
        "UPDATE ceilings SET sm_clock_mhz = 0.0",
        "UPDATE ceilings SET footprint_bytes = -1",
        "UPDATE ceilings SET name = ''",
        "UPDATE peaks SET sha256 = ''",
    ],
)
def test_the_schema_refuses_what_cannot_be(path: Path, store: Store, change: str) -> None:
    store.finish(measured(planned()), {"baseline": samples_of(4)})
    store.put_peak(peak_of())
    with raw(path) as other, pytest.raises(sqlite3.DatabaseError, match="CHECK"):
        other.execute(change)
    other.close()


def test_a_run_is_expected_to_take_as_long_as_the_last_good_one_like_it(store: Store) -> None:
    def took(duration_ms: float, processes: int = 0, **what: Any) -> None:
        taken = tuple(Step("challenge", "", at, 1.0) for at in range(processes))
        run = planned(**what)
        store.plan([run])
        store.finish(replace(finished(run), duration_ms=duration_ms, steps=taken), {})

    def rule(replicas: int, *, interleaved: bool = True) -> dict[str, object]:
        return {"stop_rule": {"replicas": replicas, "half_width": 0.01, "interleaved": interleaved}}

    took(2000.0)
    took(3500.0)
    took(70.0, quick=True)
    cancelled = planned()
    store.plan([cancelled])
    store.finish(replace(cancelled, state=State.CANCELLED, reason="cancelled", duration_ms=9.0), {})
    assert store.last_like(planned()) == (3.5, 0)
    assert store.last_like(planned(quick=True)) == (0.07, 0)
    assert store.last_like(planned(device="cuda:1")) is None
    assert store.last_like(planned(target="ch07:other")) is None
    assert store.last_like(planned(case="another")) is None
    took(9000.0, 3, manifest=rule(5))
    took(1000.0, 8, manifest=rule(8))
    took(500.0, 4, manifest=rule(2, interleaved=False))
    assert store.last_like(planned(manifest=rule(5))) == (9.0, 3)
    assert store.last_like(planned(manifest=rule(6))) is None  # another rule takes another time
    assert store.last_like(planned(manifest=rule(2, interleaved=False))) == (0.5, 0)


def test_samples_may_not_be_zero_nor_negative_nor_unreal() -> None:
    good = samples_of(3)
    for bad in (0.0, -1.0, math.nan, math.inf):
        with pytest.raises(ContradictionError, match="finite and greater than zero"):
            Samples(
                device_ms=np.array([1.0, bad, 1.0]),
                **{name: getattr(good, name) for name in Samples.__slots__ if name != "device_ms"},
            )


# -- what cannot be written ----------------------------------------------------------------------------------


def test_a_full_store_says_so_keeps_what_it_has_and_goes_on_later(store: Store, history: History) -> None:
    first, second = planned(), planned()
    store.plan([first, second])
    connection = store._db.conn
    pages = connection.execute("PRAGMA page_count").fetchone()[0]
    connection.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(StoreFullError, match="free some space"):
        store.finish(finished(first), {"baseline": samples_of(100_000)}, telemetry_of(10))
    assert not connection.in_transaction
    assert history.run(first.id) == first
    connection.execute("PRAGMA max_page_count = 1000000")
    store.finish(finished(first), {"baseline": samples_of(100_000)}, telemetry_of(10))
    assert history.verify(first.id)
    assert len(history.samples(first.id)["baseline"]) == 100_000


LIMITED = """
import resource, signal, sys
from aisp.store import Store, StoreFullError
from tests.store.examples import finished, planned, samples_of

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
store = Store.open(sys.argv[1])
run = planned()
store.plan([run])
resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, resource.RLIM_INFINITY))
try:
    store.finish(finished(run), {"baseline": samples_of(100_000)})
except StoreFullError as error:
    print("refused:", error)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
store.finish(finished(run), {"baseline": samples_of(100_000)})
store.close()
"""


def test_a_file_that_may_not_grow_is_full_too(path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(path)], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.startswith("refused:")
    assert "SQLITE_IOERR_WRITE" in done.stdout
    with History(path) as history:
        (run,) = history.newest()
        assert run.state is State.OK
        assert history.verify(run.id)


def test_a_locked_store_says_so_and_nothing_is_lost(path: Path) -> None:
    with Store.open(path, busy_timeout_s=0.05) as store, History(path) as history:
        run = planned()
        store.plan([run])
        other = raw(path)
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(StoreLockedError, match="locked by another program"):
            store.finish(finished(run), {})
        assert history.run(run.id) == run  # reading goes on
        other.execute("ROLLBACK")
        store.finish(finished(run), {})
        assert history.run(run.id).state is State.OK


def test_another_tool_cannot_write_into_the_middle_of_a_call(
    path: Path, store: Store, history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = sqlite3.connect(path, isolation_level=None, timeout=0)
    real = Store._insert

    def interrupted(*arguments: Any) -> None:
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            other.execute("INSERT INTO environments VALUES ('other', '{}')")
        real(*arguments)

    monkeypatch.setattr(Store, "_insert", interrupted)
    run = finished(planned())
    store.finish(run, {})
    assert history.run(run.id) == run


def test_a_raw_insert_beside_the_library_is_committed(path: Path, store: Store, history: History) -> None:
    store._db.conn.execute("INSERT INTO environments VALUES ('raw', '{}')")
    assert not store._db.conn.in_transaction
    store.plan([planned()])
    assert history.count() == 1
    assert raw(path).execute("SELECT content FROM environments").fetchone() == ("{}",)


def test_a_backup_is_whole_and_may_not_replace_a_file(path: Path, store: Store, tmp_path: Path) -> None:
    run = planned()
    store.plan([run])
    copy = store.backup(tmp_path / "copy.db")
    store.finish(finished(run), {})
    with History(copy) as old:
        assert old.run(run.id) == run
    with pytest.raises(StoreError, match="exists: name another file"):
        store.backup(copy)
    beside = store.backup()
    assert beside.parent == path.parent
    assert beside.name.startswith(f"aisp.db.v{migrations.LATEST}-")
    with History(beside) as new:
        assert new.run(run.id).state is State.OK
    assert not list(tmp_path.glob("*.partial*"))
    with pytest.raises(StoreUnwritableError, match="No such file"):
        store.backup(tmp_path / "missing" / "copy.db")


def test_closing_twice_is_fine_and_a_closed_store_says_so(path: Path) -> None:
    store = Store.open(path)
    store.close()
    store.close()
    with pytest.raises(StoreError, match="closed"):
        store.plan([planned(epoch=EPOCH)])
