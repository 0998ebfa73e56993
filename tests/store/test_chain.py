"""What was removed, added, changed or moved behind the store's back is told by number, and a head of then is found."""

from __future__ import annotations

import json
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest

from aisp.store import History, Store, chain, upkeep
from aisp.store.chain import Kind
from aisp.store.outcomes import Validity, Verdict
from aisp.store.rows import RunRows
from tests.replacing import replace
from tests.store.examples import caught, examined, finished, fuzz_of, peak_of, planned, samples_of
from tests.store.forged import invent, rewrite
from tests.store.generated import fill


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "aisp.db"


def entries(path: Path) -> list[tuple[int, str, int, str, str, str]]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute("SELECT * FROM chain ORDER BY seq").fetchall()


def told(path: Path) -> list[tuple[str, str, str]]:
    return [(each.kind, each.id, each.reason) for each in upkeep.verify(path).damage]


def keep(path: Path, count: int = 5) -> list[str]:
    """Runs, one of which was caught, a peak and a fuzz with two failures; the ids of the runs."""
    runs = [finished(planned()) for _ in range(count)]
    with Store.open(path) as store:
        store.plan([replace(planned(), id=run.id) for run in runs])
        for seed, run in enumerate(runs):
            store.finish(run, {"baseline": samples_of(20, seed)})
        store.put_peak(peak_of())
        store.put_fuzz(*fuzz_of())
        store.finish(caught(planned("mine:softmax", id="CAUGHT")), {})
    return [run.id for run in runs]


def test_each_thing_that_is_taken_in_has_an_entry_bound_to_the_one_before(path: Path) -> None:
    runs = keep(path, 2)
    found = entries(path)
    assert [(seq, kind, number) for seq, kind, number, *_ in found] == [
        (1, "origin", 0), (2, "run", 1), (3, "run", 2), (4, "peak", 1), (5, "fuzz", 1), (6, "failure", 1),
        (7, "failure", 2), (8, "run", 3), (9, "quarantine", 1),
    ]  # fmt: skip
    assert [subject for _, kind, _, subject, *_ in found if kind == "run"] == [*runs, "CAUGHT"]
    link = ""
    for _, kind, number, subject, digest, after in found:
        link = chain.link_after(link, kind, number, subject, digest)
        assert link == after
    with History(path) as history:
        assert history.head() == chain.Head(9, link, found[0][3], 0)
    verified = upkeep.verify(path)
    assert (verified.damage, verified.head and verified.head.link, verified.checked["chain"]) == ([], link, 9)


def test_what_is_said_again_with_equal_content_has_no_second_entry(path: Path) -> None:
    run, peak, fuzz = finished(planned()), peak_of(), fuzz_of()
    with Store.open(path) as store:
        for _ in range(2):
            store.finish(run, {})
            store.put_peak(peak)
            store.put_fuzz(*fuzz)
    assert len(entries(path)) == 6
    assert told(path) == []


def test_two_stores_never_have_a_head_in_common(tmp_path: Path) -> None:
    heads = []
    for name in ("one.db", "two.db"):
        with Store.open(tmp_path / name) as store:
            heads.append(store.head())
    assert None not in heads and heads[0] != heads[1]


def test_a_run_that_was_removed_is_told_by_its_number(path: Path) -> None:
    runs = keep(path)
    rewrite(path, "DELETE FROM runs WHERE number = 3", "DELETE FROM runs WHERE number = 5")
    assert told(path) == [
        ("run", runs[2], "removed: it was number 3, entry 4 of the chain"),
        ("run", runs[4], "removed: it was number 5, entry 6 of the chain"),
    ]


def test_a_run_that_was_invented_is_told(path: Path) -> None:
    keep(path)
    invent(path, finished(planned(id="FORGED"), speedup=98.3), 7)
    with History(path) as history:
        assert history.verify("FORGED"), "by itself it is what it says"
    assert told(path) == [("run", "FORGED", "added: no entry of the chain speaks of number 7")]


def test_a_run_that_was_sealed_anew_is_told(path: Path) -> None:
    runs = keep(path)
    with History(path) as history:
        better = RunRows.of(replace(history.run(runs[1]), title="better"))
    with closing(sqlite3.connect(path)) as connection:
        sha = dict(connection.execute("SELECT rung, sha256 FROM samples WHERE run = 2"))
    rewrite(path, f"UPDATE runs SET title = 'better', sha256 = '{better.digest(sha, '')}' WHERE number = 2")
    with History(path) as history:
        assert history.verify(runs[1])
    assert told(path) == [("run", runs[1], "sealed anew: its digest is not that of entry 3 of the chain")]


def test_runs_whose_numbers_were_exchanged_are_told(path: Path) -> None:
    runs = keep(path)
    with closing(sqlite3.connect(path)) as connection, connection:
        for table, column in (("runs", "number"), ("arms", "run"), ("comparisons", "run"), ("steps", "run")):
            for old, new in ((1, -1), (2, 1), (-1, 2)):
                connection.execute(f"UPDATE {table} SET {column} = {new} WHERE {column} = {old}")
        for old, new in ((1, -1), (2, 1), (-1, 2)):
            connection.execute(f"UPDATE samples SET run = {new} WHERE run = {old}")
    assert told(path) == [
        ("run", runs[0], "moved: it is number 2 and was number 1, by entry 2 of the chain"),
        ("run", runs[1], "moved: it is number 1 and was number 2, by entry 3 of the chain"),
    ]


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("DELETE FROM quarantines", "removed: it was quarantine number 1"),
        ("UPDATE quarantines SET ended_by = 'x'", "changed: quarantine number 1 is not what the chain says"),
        ("UPDATE quarantines SET code = 'another'", "changed: quarantine number 1 is not what the chain says"),
        (
            "INSERT INTO quarantines SELECT 2, folder, rung, 'b', target, device, run, \"check\", evidence, wall, "
            "ended_by FROM quarantines",
            "added: no entry of the chain speaks of quarantine number 2",
        ),
    ],
)
def test_a_quarantine_that_is_not_what_was_written_is_told(path: Path, statement: str, reason: str) -> None:
    keep(path)
    rewrite(path, statement)
    assert told(path) == [("quarantine", "mine:softmax optimized", reason)]


@pytest.mark.parametrize(
    ("statement", "kind", "reason"),
    [
        ("DELETE FROM peaks", "peak", "removed: it was number 1, entry 7 of the chain"),
        ("DELETE FROM fuzzes", "fuzz", "removed: it was number 1, entry 8 of the chain"),
        ("DELETE FROM failures WHERE number = 2", "failure", "removed: it was number 2, entry 10 of the chain"),
    ],
)
def test_peaks_fuzzes_and_failures_are_in_the_chain_too(path: Path, statement: str, kind: str, reason: str) -> None:
    keep(path)
    rewrite(path, statement)
    assert (kind, reason) in [(kind, reason) for kind, _, reason in told(path)]


@pytest.mark.parametrize(
    ("statements", "reasons"),
    [
        (["DELETE FROM chain WHERE seq = 4"], ["entry 4 is gone"]),
        (["DELETE FROM chain WHERE seq IN (4, 5)"], ["entries 4 to 5 are gone"]),
        (["DELETE FROM chain WHERE seq = 1"], ["entry 1 is gone"]),
        (["DELETE FROM chain"], ["all of its entries are gone"]),
        (["UPDATE chain SET link = replace(link, substr(link, 1, 1), '_') WHERE seq = 4"], ["entry 4 (", "entry 5 ("]),
        (["UPDATE chain SET digest = 'x' WHERE seq = 4"], ["entry 4 ("]),
        (
            [
                "DELETE FROM chain WHERE seq = 4",
                "UPDATE chain SET seq = seq - 1000000 WHERE seq > 4",
                "UPDATE chain SET seq = seq + 999999 WHERE seq < 0",
            ],
            ["entry 4 ("],
        ),
    ],
)
def test_a_chain_that_was_changed_itself_is_told_by_entry(
    path: Path, statements: list[str], reasons: list[str]
) -> None:
    keep(path)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("PRAGMA ignore_check_constraints = ON")
        for statement in statements:
            connection.execute(statement)
    found = [reason for kind, _, reason in told(path) if kind == "chain"]
    assert len(found) == len(reasons)
    assert all(one.startswith(start) for one, start in zip(found, reasons, strict=True)), found


def test_a_quarantine_that_ends_gives_way_or_is_forgiven_has_its_entry(path: Path) -> None:
    with Store.open(path) as store:
        store.finish(caught(planned(), code="a"), {})
        store.finish(caught(planned(), code="b"), {})  # a gives way
        store.finish(examined(planned(), code="c"), {})  # b is released
        store.finish(examined(planned(), code="b"), {})  # and is back
        store.finish(caught(planned(), code="b"), {})  # caught anew: it stands already
        store.finish(caught(planned(), code="b", check="output.values"), {})  # by another check: takes its own place
        assert told(path) == []
        assert [store.release(check) for check in ("timing.wall_clock", "output.values")] == [1, 1]
    kinds = [kind for _, kind, *_ in entries(path) if kind != Kind.RUN]
    assert kinds == [
        "origin", "quarantine", "quarantine", "quarantine", "quarantine", "quarantine", "quarantine", "withdrawn",
        "quarantine", "withdrawn", "withdrawn",
    ]  # fmt: skip
    assert told(path) == []


def test_runs_that_were_lost_are_in_the_chain(path: Path) -> None:
    with Store.open(path) as store:
        store.plan([planned(), planned()])
        assert len(store.mark_lost("another engine")) == 2
    assert [kind for _, kind, *_ in entries(path)] == ["origin", "run", "run"]
    assert told(path) == []


def test_a_migrated_store_is_chained_from_the_day_of_its_migration(tmp_path: Path) -> None:
    path = tmp_path / "aisp.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(Path(__file__).with_name("schema_v6.sql").read_text())
        there = sum(
            connection.execute(f"SELECT count(*) FROM {table}{ended}").fetchone()[0]
            for table, ended in (
                ("runs", " WHERE sha256 IS NOT NULL"), ("peaks", ""), ("fuzzes", ""), ("failures", ""),
                ("quarantines", ""),
            )
        )  # fmt: skip
    before = upkeep.verify(path)
    assert (before.head, before.damage) == (None, [])
    Store.open(path).close()
    verified = upkeep.verify(path)
    assert verified.damage == []
    assert verified.head is not None
    assert (verified.head.earlier, verified.head.entries) == (there, there + 1)
    assert there > 3
    rewrite(path, "DELETE FROM runs WHERE number = 1")
    assert any(reason.startswith("removed: it was number 1,") for _, _, reason in told(path))


def test_a_head_of_earlier_is_found_and_what_came_since_is_counted(path: Path, tmp_path: Path) -> None:
    keep(path)
    with Store.open(path) as store:
        head = store.head()
        assert head is not None
        store.finish(finished(planned()), {})
    assert upkeep.verify(path, head=head.link).entry == head.entries
    assert upkeep.verify(path, head=head.short.upper()).entry == head.entries
    keep(tmp_path / "another.db")
    assert upkeep.verify(tmp_path / "another.db", head=head.short).entry is None


def test_a_chain_that_was_written_anew_is_whole_but_has_not_the_head_of_then(path: Path) -> None:
    keep(path)
    with History(path) as history:
        head = history.head()
    assert head is not None
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("DELETE FROM runs WHERE number = 2")
        connection.execute("DELETE FROM chain")
        chain.begin(connection)
    verified = upkeep.verify(path, head=head.link)
    assert (verified.damage, verified.entry) == ([], None)


def test_a_restored_backup_says_so_with_the_head_that_it_took_the_place_of(path: Path) -> None:
    keep(path)
    with Store.open(path) as store:
        backup = store.backup()
        store.finish(finished(planned()), {})
        head = store.head()
    assert head is not None
    upkeep.restore(path, backup)
    *_, (_, kind, number, _, digest, _) = entries(path)
    assert (kind, number, digest) == ("restored", head.entries, head.link)
    assert told(path) == []


# -- how it is looked at -----------------------------------------------------------------------------------------------


def test_runs_are_looked_at_while_the_file_itself_is(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(path, 60)
    looked = threading.Event()
    chained = chain.examine

    def examine(connection: sqlite3.Connection) -> list[chain.Misfit]:
        assert looked.wait(20), "no run was looked at before the file was"
        return chained(connection)

    monkeypatch.setattr(chain, "examine", examine)
    found = upkeep.verify(path, lambda kind, *_: looked.set() if kind == "run" else None)
    assert (found.damage, found.checked["run"], found.checked["chain"]) == ([], 60, 61)


def test_an_index_that_disagrees_with_its_table_is_told(path: Path) -> None:
    fill(path, 60)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("PRAGMA writable_schema = ON")
        sql = "UPDATE sqlite_schema SET sql = replace(sql, '(target)', '(title)') WHERE name = 'runs_target'"
        assert connection.execute(sql).rowcount == 1
    found = told(path)
    assert found and {(kind, record) for kind, record, _ in found} == {("file", "")}
    index, schema = ([why for *_, why in found if why.startswith("its schema") is said] for said in (False, True))
    assert index and all("missing from index runs_target" in reason for reason in index)
    assert schema == ["its schema: the index runs_target is not the one we make"]


class Interrupted(Exception):
    """Somebody pressed Ctrl-C."""


def interrupt(path: Path, at: int) -> None:
    """Verify until so many runs were looked at."""

    def progress(kind: str, checked: int, count: int) -> None:
        if kind == "run" and checked >= at:
            raise Interrupted

    with pytest.raises(Interrupted):
        upkeep.verify(path, progress)


def looked_at(path: Path, **options: bool) -> tuple[upkeep.Verified, list[int]]:
    seen: list[int] = []
    found = upkeep.verify(path, lambda kind, checked, count: seen.append(checked) if kind == "run" else None, **options)
    return found, seen


def test_an_interrupted_verify_goes_on_where_it_stopped(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(path, 50)
    monkeypatch.setattr(upkeep, "_PAGE", 10)
    rewrite(path, "UPDATE arms SET median_ms = median_ms * 0.99 WHERE run = 5")
    interrupt(path, 20)
    bookmark = path.with_name("aisp.db.verifying")
    assert json.loads(bookmark.read_text())["done"] == {"run": 20}
    with Store.open(path) as store:  # what is written meanwhile is looked at as well
        store.finish(finished(planned()), {})
    found, seen = looked_at(path)
    assert (seen, found.checked["run"], len(found.damage)) == ([30, 40, 50, 51], 51, 1)
    assert found.begun and not bookmark.exists()
    found, seen = looked_at(path)
    assert (seen[0], found.begun, len(found.damage)) == (10, "", 1)


def test_an_interrupted_verify_begins_again_where_it_is_asked_to_or_the_store_is_another(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(path, 30)
    monkeypatch.setattr(upkeep, "_PAGE", 10)
    interrupt(path, 20)
    assert looked_at(path, anew=True)[1] == [10, 20, 30]
    interrupt(path, 20)
    fill(tmp_path / "other.db", 30)
    (tmp_path / "other.db").replace(path)
    assert looked_at(path)[1] == [10, 20, 30]
    interrupt(path, 20)
    rewrite(path, "DELETE FROM chain WHERE seq > 5")
    assert looked_at(path)[1] == [10, 20, 30]
    path.with_name("aisp.db.verifying").write_text("no JSON")
    assert not looked_at(path)[0].begun


def test_an_interrupted_verify_begins_again_where_the_file_was_damaged_since(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(path, 30)
    monkeypatch.setattr(upkeep, "_PAGE", 10)
    interrupt(path, 20)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("INSERT INTO steps VALUES (900, 0, 'compile', '', 0, 1.0)")
    found, seen = looked_at(path)
    assert (seen[-3:], found.begun) == ([10, 20, 30], "")
    assert [(each.kind, each.reason) for each in found.damage] == [("file", "row None of steps has nothing in runs")]


def test_validity_and_verdict_of_a_forged_run_do_not_matter_to_the_chain(path: Path) -> None:
    """What `Store.finish` itself is given by other code than the engine has its entry: nobody can tell."""
    with Store.open(path) as store:
        store.finish(replace(finished(planned(), speedup=98.3), validity=Validity.VALID, verdict=Verdict.FASTER), {})
    assert told(path) == []


def test_a_file_of_before_the_chain_can_be_read_and_has_no_head(tmp_path: Path) -> None:
    path = tmp_path / "aisp.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(Path(__file__).with_name("schema_v6.sql").read_text())
        assert chain.examine(connection) == []
        assert chain.find(connection, "0" * 12) is None
    with History(path) as history:
        assert history.head() is None
        assert history.newest(), "and its runs are shown"
