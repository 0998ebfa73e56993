"""Fuzzes and their failing cases: written together, sealed by a hash, newest first, never as what was not written."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from aisp.store import ContradictionError, History, Store, reader
from aisp.store.outcomes import FuzzVerdict
from aisp.store.record import Failure, Fuzz, RungFuzz
from aisp.store.ulid import UlidMaker
from tests.replacing import replace
from tests.store.examples import fuzz_of


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "aisp.db") as opened:
        yield opened


@pytest.fixture
def history(tmp_path: Path) -> Iterator[History]:
    with History(tmp_path / "aisp.db") as opened:
        yield opened


def test_where_there_is_no_store_there_are_no_fuzzes(history: History) -> None:
    assert history.fuzzes() == []
    for read in (history.fuzz, history.failures):
        with pytest.raises(LookupError, match=r"no fuzz '01ARZ3': there is no store at .*aisp\.db yet"):
            read("01ARZ3")
    with pytest.raises(LookupError, match="no failure '01ARZ3': there is no store"):
        history.failure("01ARZ3")
    assert not history.path.exists()


def test_a_fuzz_and_its_failures_come_back_equal_infinite_errors_and_odd_paths_included(
    store: Store, history: History
) -> None:
    record, failures = fuzz_of(title="half a pair: \ud800", duration_ms=float("inf"))
    store.put_fuzz(record, failures)
    assert history.fuzz(record.id) == record == store.fuzz(record.id)
    assert history.failures(record.id) == failures
    assert [history.failure(failure.id) for failure in failures] == failures
    assert store.failure(failures[1].id[:25] + failures[1].id[25].lower()) == failures[1]
    assert history.failure(failures[0].id).statistics["max_ulp"] == float("inf")
    assert history.fuzz(record.id).folder == b"/home/ada/kernels/caf\xe9"
    assert history.damaged == {}


def test_fuzzes_come_newest_first_and_by_target(store: Store, history: History) -> None:
    fuzzes = [fuzz_of(target=f"ch0{number % 2}:copy") for number in range(6)]
    for record, failures in fuzzes:
        store.put_fuzz(record, failures)
    ids = [record.id for record, _ in fuzzes]
    assert [record.id for record in history.fuzzes()] == ids[::-1]
    assert [record.id for record in history.fuzzes(limit=2)] == [ids[5], ids[4]]
    assert [record.id for record in history.fuzzes("ch00:copy")] == [ids[4], ids[2], ids[0]]
    assert [record.id for record in history.fuzzes("ch01:copy", 1)] == [ids[5]]
    assert history.fuzzes("ch02:copy") == []


def test_the_newest_fuzzes_of_a_target_are_found_without_a_scan_or_a_sort(store: Store) -> None:
    for sql, parameters in (
        (f"SELECT id FROM fuzzes {reader.FUZZES_OF_TARGET_SQL}", ["x", 5]),
        (f"SELECT id FROM failures {reader.FAILURES_SQL}", [1]),
    ):
        plan = " ".join(row[3] for row in store._db.conn.execute(f"EXPLAIN QUERY PLAN {sql}", parameters).fetchall())
        assert "USING INDEX" in plan
        assert "SCAN" not in plan
        assert "TEMP B-TREE" not in plan


def test_a_failure_is_found_by_any_unique_beginning_of_its_id(store: Store, history: History) -> None:
    maker = UlidMaker(wall_ms=lambda: 1_700_000_000_000, random=lambda: 0)
    record, (first, second) = fuzz_of(maker.new())
    first, second = replace(first, id=maker.new()), replace(second, id=maker.new())
    rung = replace(record.rungs[0], failures=(first.id, second.id))
    record = replace(record, rungs=(rung,))
    store.put_fuzz(record, [first, second])
    assert history.failure(first.id.lower()) == first
    for opened in (history, store):
        with pytest.raises(LookupError, match=f"more than one failure id: {first.id}, {second.id}; give more"):
            opened.failure(first.id[:25])
        with pytest.raises(LookupError, match=rf"no failure '01ARZ4'; the newest is {second.id}, `aisp fuzz`"):
            opened.failure("01ARZ4")
    with pytest.raises(LookupError, match=rf"no failure '{second.id[:-1]}Z'; did you mean .*{second.id}"):
        history.failure(second.id[:-1] + "Z")
    with pytest.raises(LookupError, match="no fuzz ''; the newest is"):
        history.fuzz("")


def test_a_fuzz_may_be_put_again_but_never_otherwise(store: Store, history: History) -> None:
    record, failures = fuzz_of()
    store.put_fuzz(record, failures)
    store.put_fuzz(record, failures)
    assert history.fuzzes() == [record]
    assert history.failures(record.id) == failures
    for other, kept in ((replace(record, seed=1), failures), (record, [failures[0], replace(failures[1], tried=18)])):
        with pytest.raises(ContradictionError, match="a fuzz is never rewritten"):
            store.put_fuzz(other, kept)
    assert history.fuzzes() == [record]
    assert history.failures(record.id) == failures


def test_a_fuzz_and_failures_that_do_not_belong_together_are_refused_whole(store: Store, history: History) -> None:
    record, (first, second) = fuzz_of()
    wrong: list[tuple[list[Failure], str]] = [
        ([first], f"optimized has no failure {second.id}"),
        ([first, replace(second, rung="optimized_swizzled")], f"optimized has no failure {second.id}"),
        ([first, replace(second, fuzz="01ARZ3")], f"failure {second.id} is none of fuzz {record.id}"),
        ([first, replace(second, target="ch01:copy")], "of ch07:transpose"),
    ]
    for failures, why in wrong:
        with pytest.raises(ContradictionError, match=why):
            store.put_fuzz(record, failures)
    with pytest.raises(ContradictionError):
        store.put_fuzz(replace(record, target=""), [replace(first, target=""), replace(second, target="")])
    assert history.fuzzes() == []


def test_a_second_failure_of_the_same_id_leaves_nothing_of_its_fuzz(store: Store, history: History) -> None:
    record, failures = fuzz_of()
    store.put_fuzz(record, failures)
    later, others = fuzz_of()
    twin = replace(others[0], id=failures[0].id)
    later = replace(later, rungs=(replace(later.rungs[0], failures=(twin.id, others[1].id)),))
    with pytest.raises(ContradictionError):
        store.put_fuzz(later, [twin, others[1]])
    assert history.fuzzes() == [record]
    assert history.failure(twin.id) == failures[0]


@pytest.mark.parametrize(
    "change",
    [
        """UPDATE fuzzes SET content = replace(content, '"failing":5', '"failing":4') WHERE number = 1""",
        "UPDATE fuzzes SET state = 'failed' WHERE number = 1",
        "UPDATE fuzzes SET device = 'cpu' WHERE number = 1",
        "UPDATE fuzzes SET content = '{}' WHERE number = 1",
    ],
)
def test_a_fuzz_that_was_changed_is_named_and_breaks_no_list(store: Store, history: History, change: str) -> None:
    (bad, bad_failures), (good, failures) = fuzz_of(), fuzz_of()
    store.put_fuzz(bad, bad_failures)
    store.put_fuzz(good, failures)
    assert store._db.conn.execute(change).rowcount == 1
    assert history.fuzzes() == [good]
    assert list(history.damaged) == [bad.id]
    with pytest.raises(ContradictionError, match=f"fuzz {bad.id} is not what was written"):
        history.fuzz(bad.id)
    assert history.failures(bad.id) == bad_failures  # which are sealed by themselves


def test_a_failure_that_was_changed_is_named_and_never_replayed(store: Store, history: History) -> None:
    record, failures = fuzz_of()
    store.put_fuzz(record, failures)
    store._db.conn.execute("UPDATE failures SET content = replace(content, '129', '128') WHERE number = 2")
    assert history.failures(record.id) == failures[:1]
    assert list(history.damaged) == [failures[1].id]
    for opened in (history, store):
        with pytest.raises(ContradictionError, match=f"failure {failures[1].id} is not what was written"):
            opened.failure(failures[1].id)


def test_a_fuzz_that_was_stopped_cannot_say_that_a_rung_is_right() -> None:
    right, wrong = RungFuzz("right", FuzzVerdict.RIGHT, 40, 0), RungFuzz("wrong", FuzzVerdict.WRONG, 40, 1)
    record, _ = fuzz_of(rungs=(right, wrong))
    stopped = {"state": "cancelled", "reason": "asked for"}
    with pytest.raises(ContradictionError, match="ended cancelled and says that right is right"):
        replace(record, **stopped)
    read = Fuzz.of(record.plain() | stopped)  # as an earlier version stored it
    assert [rung.verdict for rung in read.rungs] == [FuzzVerdict.UNDECIDED, FuzzVerdict.WRONG]
    assert read.rungs[0].reason == "right so far: the fuzz was stopped after 40 of this rung's cases"


@pytest.mark.parametrize(
    ("table", "change"),
    [
        ("fuzzes", "content = '{'"),
        ("fuzzes", "content = '[]'"),
        ("fuzzes", "state = 'running'"),
        ("fuzzes", "target = ''"),
        ("failures", "content = 'NaN'"),
        ("failures", "rung = ''"),
        ("failures", "sha256 = ''"),
    ],
)
def test_the_schema_refuses_what_no_fuzz_can_be(store: Store, table: str, change: str) -> None:
    store.put_fuzz(*fuzz_of())
    with pytest.raises(sqlite3.IntegrityError, match="CHECK"):
        store._db.conn.execute(f"UPDATE {table} SET {change}")


def test_what_a_fuzz_found_can_be_asked_in_sql(store: Store) -> None:
    record, failures = fuzz_of()
    store.put_fuzz(record, failures)
    found = store._db.conn.execute(
        "SELECT fuzzes.target, failures.rung, json_extract(failures.content, '$.case') FROM failures "
        "JOIN fuzzes ON fuzzes.number = failures.fuzz ORDER BY failures.number"
    ).fetchall()
    assert [(target, rung, json.loads(case)["axes"]) for target, rung, case in found] == [
        ("ch07:transpose", "optimized", {"M": 1, "N": 129})
    ] * 2
