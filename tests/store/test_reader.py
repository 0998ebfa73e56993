"""Reading: newest first, the board, a target's history, and clear words for what is not there."""

from __future__ import annotations

import os
import threading
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

from aisp.store import ContradictionError, History, Store, StoreCorruptError, StoreError, StoreUnwritableError
from aisp.store.outcomes import Correctness, State, Verdict
from aisp.store.readonly import uri_to_read
from aisp.store.record import Run
from aisp.store.ulid import UlidMaker
from tests.replacing import replace
from tests.store.examples import finished, fuzz_of, measured, planned, samples_of, telemetry_of


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


def ids(runs: list[Run]) -> list[str]:
    return [run.id for run in runs]


def ended(run: Run, state: State, correctness: Correctness = Correctness.UNKNOWN) -> Run:
    return replace(run, state=state, correctness=correctness, reason="it was so")


def test_where_there_is_no_store_the_history_is_empty(history: History) -> None:
    assert history.newest() == []
    assert history.board() == {}
    assert history.history("ch07:transpose") == []
    assert history.snapshots_of("ch07:transpose") == []
    assert history.count() == 0
    for missing in (
        lambda: history.run("01ARZ3"),
        lambda: history.samples("01ARZ3"),
        lambda: history.snapshot("0" * 64),
        lambda: history.environment("0" * 64),
    ):
        with pytest.raises(LookupError):
            missing()
    assert not history.path.exists()


def test_a_store_that_appears_later_is_found(path: Path, history: History) -> None:
    assert history.count() == 0
    path.touch()  # made by the engine, nothing in it yet
    assert history.count() == 0
    with Store.open(path) as store:
        store.plan([planned()])
        assert history.count() == 1


def test_a_store_that_is_replaced_is_not_read_on(path: Path, store: Store, history: History) -> None:
    store.plan([planned()])
    assert history.count() == 1
    store.close()
    path.rename(path.with_suffix(".old"))
    Path(f"{path}-wal").unlink(missing_ok=True)
    Path(f"{path}-shm").unlink(missing_ok=True)
    with Store.open(path):
        assert history.count() == 0


def test_newest_come_first_page_by_page(store: Store, history: History) -> None:
    runs = [planned(target=f"ch01:t{number % 3}") for number in range(12)]
    store.plan(runs)
    order = ids(runs)[::-1]
    assert ids(history.newest()) == order
    assert ids(history.newest(5)) == order[:5]
    assert ids(history.newest(5, before=order[4])) == order[5:10]
    assert ids(history.newest(5, before=order[-1])) == []
    assert ids(history.newest(2, target="ch01:t1")) == [runs[10].id, runs[7].id]
    assert ids(history.newest(2, target="ch01:t1", before=runs[7].id)) == [runs[4].id, runs[1].id]
    assert history.newest(0) == []
    assert history.newest(target="no such target") == []
    with pytest.raises(LookupError, match="no run 'nope'"):
        history.newest(before="nope")


def test_the_last_batch_of_a_suite_is_that_of_the_run_planned_last(store: Store, history: History) -> None:
    assert history.last_batch("mine") is None
    for number, suite in enumerate(("mine", "mine", "yours")):
        store.plan([planned(manifest={"batch": {"id": f"B{number}", "suite": suite, "sha256": f"S{number}"}})])
    store.plan([planned()])
    assert (history.last_batch("mine"), history.last_batch("nobody's")) == (("B1", "S1"), None)


def test_order_is_that_of_planning_whatever_the_wall_clock_said(store: Store, history: History) -> None:
    late = planned(id=UlidMaker(wall_ms=lambda: 2_000_000).new(), wall="2030-01-01T00:00:00+00:00")
    early = planned(id=UlidMaker(wall_ms=lambda: 1_000_000).new(), wall="2020-01-01T00:00:00+00:00")
    store.plan([late])
    store.plan([early])
    assert ids(history.newest()) == [early.id, late.id]


def test_the_board_holds_the_newest_run_of_each_target_that_came_to_its_own_end(store: Store, history: History) -> None:
    good, wrong, crashed, begun = (planned(target=f"ch02:{name}") for name in ("good", "wrong", "crash", "new"))
    older, cancelled, lost, again = (planned(target="ch02:good") for _ in range(4))
    store.plan([older, good, cancelled, lost, again, wrong, crashed, begun])
    for run in (good, older):  # finished in another order than planned
        store.finish(finished(run, speedup=3.0 if run is good else 1.5), {"baseline": samples_of(5)})
    store.finish(ended(cancelled, State.CANCELLED), {})
    store.finish(ended(lost, State.ENGINE_LOST), {})
    store.finish(ended(wrong, State.INCORRECT, Correctness.WRONG), {})
    store.finish(ended(crashed, State.USER_ERROR), {})

    board = history.board()

    assert {target: run.id for target, run in board.items()} == {
        "ch02:good": good.id,
        "ch02:wrong": wrong.id,
        "ch02:crash": crashed.id,
    }
    assert board["ch02:good"] == finished(good, speedup=3.0)
    assert board["ch02:good"].comparisons[0].verdict is Verdict.FASTER


def test_the_history_of_a_target_is_oldest_first(store: Store, history: History) -> None:
    runs = [planned() for _ in range(5)]
    store.plan([*runs, planned(target="ch09:linear_gelu"), planned()])
    for number, run in enumerate(runs):
        store.finish(ended(run, State.CANCELLED) if number == 2 else finished(run), {})
    assert ids(history.history("ch07:transpose")) == ids(runs)
    assert ids(history.history("ch07:transpose", 2)) == ids(runs[3:])
    assert history.history("no such target", 2) == []


def test_a_run_is_found_by_any_unique_beginning_of_its_id(store: Store, history: History) -> None:
    maker = UlidMaker(wall_ms=lambda: 1_700_000_000_000, random=lambda: 0)
    first, second = planned(id=maker.new()), planned(id=maker.new())
    other = planned(id="01ARZ3NDEKTSV4RRFFQ69G5FAV")
    store.plan([first, second, other])
    assert history.run("01AR").id == other.id
    assert history.run("01arz3nd").id == other.id
    assert history.run(first.id).id == first.id
    with pytest.raises(LookupError, match=f"more than one run id: {first.id}, {second.id}; give more"):
        history.run(first.id[:25])
    with pytest.raises(LookupError, match="did you mean 01ARZ3NDEKTSV4RRFFQ69G5FAV"):
        history.run("01ARZ3NDEKTSV4RRFFQ69G5FAX")
    with pytest.raises(LookupError, match=f"the newest is {other.id}"):
        history.run("something else")
    for odd in ("", "%", "_", "*", "\udcff", "é'"):
        with pytest.raises(LookupError):
            history.run(odd)


def test_snapshots_of_a_target_newest_first(store: Store, history: History) -> None:
    first, second = store.put_snapshot({"a.py": b"1"}), store.put_snapshot({"a.py": b"2"})
    runs = [planned(snapshot=snapshot, wall=f"2026-01-0{day}") for day, snapshot in enumerate((first, second, first))]
    store.plan([*runs, planned(snapshot=second, target="ch09:linear_gelu"), planned()])
    assert history.snapshots_of("ch07:transpose") == [
        (first, "2026-01-02", runs[2].id),
        (second, "2026-01-01", runs[1].id),
        (first, "2026-01-00", runs[0].id),
    ]


def test_rows_that_contradict_each_other_never_come_back_as_a_record(
    path: Path, store: Store, history: History
) -> None:
    good, bad = finished(planned()), finished(planned())
    for run in (good, bad):
        store.finish(run, {"baseline": samples_of(10)})
    assert ids(history.newest()) == [bad.id, good.id]
    connection = store._db.conn
    connection.execute("PRAGMA ignore_check_constraints = ON")
    connection.execute("UPDATE runs SET correctness = 'wrong' WHERE id = ?", [bad.id])

    assert ids(history.newest()) == [good.id]
    assert ids(history.history("ch07:transpose")) == [good.id]
    assert "ok, but wrong" in history.damaged[bad.id]
    assert history.board() == {}
    with pytest.raises(ContradictionError, match="ok, but wrong"):
        history.run(bad.id)
    assert not history.verify(bad.id)
    assert history.verify(good.id)


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE runs SET title = 'another'",
        "UPDATE runs SET duration_ms = 1234.25",
        "UPDATE runs SET seed = '1'",
        "UPDATE runs SET folder = x'00'",
        "UPDATE runs SET sha256 = '0'",
        "UPDATE arms SET median_ms = median_ms * 0.999",
        "UPDATE arms SET sol = NULL WHERE position = 1",
        "UPDATE arms SET calls = 8",
        "UPDATE arms SET sm_clock_mhz = NULL",
        "UPDATE arms SET light = NULL",
        "UPDATE arms SET light = json_set(light, '$.score', 0.9)",
        "UPDATE arms SET quality = json_remove(quality, '$.drift')",
        'UPDATE arms SET quality = \'{"drift":"none"}\'',
        "UPDATE comparisons SET cycles_low = 1.92",
        "UPDATE comparisons SET p_value = NULL",
        "UPDATE samples SET sm_clock_mhz = NULL",
        "UPDATE samples SET cycles = NULL",
        "UPDATE samples SET sm_clock_mhz = device_ms",
        "UPDATE comparisons SET speedup = 2.001",
        "UPDATE comparisons SET note = 'well'",
        "UPDATE steps SET duration_ms = duration_ms + 1",
        "DELETE FROM steps WHERE position = 1",
        "DELETE FROM samples WHERE rung = 'optimized'",
        "DELETE FROM telemetry",
        "UPDATE samples SET sha256 = (SELECT max(sha256) FROM sources)",
        "UPDATE samples SET device_ms = zeroblob(8 * count)",
        "UPDATE samples SET host_ms = device_ms",
        "UPDATE samples SET round = x'00'",
        "UPDATE samples SET inputs = round",
        "UPDATE telemetry SET power_w = temperature_c",
        "UPDATE manifests SET content = '{}'",
        "UPDATE environments SET content = '{}'",
        "UPDATE sources SET content = 'x = 2' WHERE content = CAST('x = 1' AS BLOB)",
        "DELETE FROM snapshot_files WHERE label = 'b.py'",
    ],
)
def test_any_change_after_the_fact_is_found(path: Path, store: Store, history: History, change: str) -> None:
    snapshot = store.put_snapshot({"a.py": b"x = 1", "b.py": b"y = 1"})
    run = measured(planned(snapshot=snapshot, environment=store.put_environment({"gpu": "none"})))
    store.finish(run, {"baseline": samples_of(9), "optimized": samples_of(9, 1)}, telemetry_of(9))
    assert history.verify(run.id)
    connection = store._db.conn
    connection.execute("PRAGMA foreign_keys = OFF")
    changed = connection.execute(change.replace("'x = 2'", "CAST('x = 2' AS BLOB)"))
    assert changed.rowcount > 0
    assert not history.verify(run.id)


def test_damaged_arrays_raise_instead_of_answering(store: Store, history: History) -> None:
    run = finished(planned())
    store.finish(run, {"baseline": samples_of(9)})
    connection = store._db.conn
    bomb = "UPDATE samples SET round = ?"
    for blob in (b"", b"not zlib", zlib.compress(bytes(100_000_000)), zlib.compress(bytes(8))):
        connection.execute(bomb, [blob])
        with pytest.raises(StoreCorruptError):
            history.samples(run.id)
    assert history.run(run.id) == run


def test_damaged_sources_raise_instead_of_being_restored(store: Store, history: History) -> None:
    snapshot = store.put_snapshot({"a.py": b"x = 1"})
    store._db.conn.execute("UPDATE sources SET content = x'00'")
    with pytest.raises(StoreCorruptError, match="not what was written"):
        history.snapshot(snapshot)
    environment = store.put_environment({"gpu": 1})
    store._db.conn.execute("UPDATE environments SET content = '{\"gpu\":2}'")
    with pytest.raises(StoreCorruptError, match="not what was written"):
        history.environment(environment)


def test_a_history_may_be_used_from_many_threads(store: Store, history: History) -> None:
    runs = [planned() for _ in range(20)]
    store.plan(runs)
    seen: list[list[str]] = []
    threads = [threading.Thread(target=lambda: seen.append(ids(history.newest()))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [ids(runs)[::-1]] * 8


def test_a_store_on_a_file_system_that_became_read_only_is_read(
    path: Path, store: Store, history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = planned()
    store.plan([run])
    monkeypatch.setattr(os, "statvfs", lambda path: SimpleNamespace(f_flag=os.ST_RDONLY))
    assert [each.id for each in history.newest()] == [run.id]
    assert "immutable" not in uri_to_read(path)  # its log has what the file has not
    history.close()
    store.close()
    assert uri_to_read(path).endswith("?mode=ro&immutable=1")
    path.parent.chmod(0o500)
    try:
        assert [each.id for each in history.newest()] == [run.id]
        assert [file.name for file in path.parent.iterdir() if "-" in file.name] == []
    finally:
        path.parent.chmod(0o700)


def test_reading_never_writes(store: Store, history: History) -> None:
    store.plan([planned()])
    with pytest.raises(StoreUnwritableError, match="SQLITE_READONLY"), history._reading() as connection:
        assert connection is not None
        connection.execute("DELETE FROM runs")
    assert history.count() == 1


def test_a_reader_that_meets_what_lies_in_the_place_of_a_row_says_that_the_store_is_damaged(tmp_path: Path) -> None:
    path = tmp_path / "aisp.db"
    with Store.open(path) as store:
        for number in range(4):
            run = finished(planned(seq=number), snapshot=store.put_snapshot({"optimized.py": b"# %d" % number}))
            store.finish(run, {"baseline": samples_of(20, number)})
        store.put_fuzz(*fuzz_of())
    with History(path) as history:
        runs, fuzzes = history.newest(), history.fuzzes()
        failures = [failure.id for fuzz in fuzzes for failure in history.failures(fuzz.id)]
    data = path.read_bytes()
    pages = [data[at : at + 4096] for at in range(0, len(data), 4096)]
    met = 0
    for number in range(1, len(pages)):
        for instead in (bytes(4096), *pages[1 :: len(pages) // 4]):
            path.write_bytes(b"".join([*pages[:number], instead, *pages[number + 1 :]]))
            with History(path) as history:
                asks: list[Callable[[], object]] = [history.newest, history.board, history.quarantines, history.fuzzes]
                asks += [
                    partial(ask, run.id) for run in runs for ask in (history.run, history.samples, history.telemetry)
                ]
                asks += [partial(history.failure, one) for one in failures[:3]]
                asks += [partial(history.snapshot, run.snapshot) for run in runs]
                for ask in asks:
                    try:
                        ask()
                    except (StoreError, ContradictionError):
                        met += 1
                    except LookupError as error:
                        assert type(error) is LookupError, ask
    assert met > 0
