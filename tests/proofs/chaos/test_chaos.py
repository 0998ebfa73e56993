"""The kill loop and the long life in small, and that their judges see what they are there to see."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from aisp.engine.protocol import events
from aisp.store import History, Store
from aisp.store.outcomes import State, Timing, Trigger
from tests import heard
from tests.proofs.chaos.ledger import Ledger
from tests.proofs.chaos.life import BEYOND_FRESH_BYTES, GROWTH_BYTES, JOURNAL_BYTES, Look, compare
from tests.replacing import replace
from tests.store.examples import EPOCH, finished, planned, samples_of

MAIN = Path(__file__).parents[3]
ROUNDS, REAL_ROUNDS = 50, 4
RUNS = 80
COUNTS = {"baseline": 40, "optimized": 30}


def chaos(*words: str) -> dict[str, Any]:
    """The figures of `python -m tests.proofs chaos`, a process of its own: it collects what engines leave behind."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.proofs.chaos", *words], cwd=MAIN, capture_output=True, text=True, check=False
    )
    assert done.stdout, done.stderr
    figures: dict[str, Any] = json.loads(done.stdout)
    assert (done.returncode, figures["broken"]) == (0, []), done.stderr
    return figures


@pytest.mark.evil
@pytest.mark.timeout(600)
def test_whatever_is_killed_whenever_all_that_was_told_stays_true() -> None:
    figures = chaos("--rounds", str(ROUNDS), "--real", str(REAL_ROUNDS))
    assert figures["rounds"] == {"stand-ins": ROUNDS, "real workers": REAL_ROUNDS}
    assert sum(figures["killed"].values()) + sum(figures["faults"].values()) <= ROUNDS + REAL_ROUNDS
    assert {"engine", "worker", "verifier"} <= set(figures["killed"])
    assert figures["runs"]["told as planned"] >= ROUNDS
    # The run after each of the two kinds of rounds ended well, or it would stand under "broken".
    assert figures["states"]["ok"] >= 2


@pytest.mark.evil
@pytest.mark.timeout(600)
def test_an_engine_holds_no_more_and_is_no_slower_after_many_runs() -> None:
    figures = chaos("life", "--runs", str(RUNS), "--real", "0", "--every", str(RUNS // 2))
    assert [look["runs"] for look in figures["looks"]["stand-ins"]] == [0, RUNS // 2, RUNS]
    assert figures["runs"] > RUNS
    assert figures["edits"] > 0


# -- the ledger sees what is wrong with a store ----------------------------------------------------------------


@pytest.fixture
def told(tmp_path: Path) -> tuple[Path, Ledger]:
    """A store of two runs that ended well, one that was lost with its engine and an edit, and what was told of them."""
    path, ledger = tmp_path / "aisp.db", Ledger()
    source = b"def run(x):\n    return x * 2\n"
    ledger.written.add(source)
    number = 0

    def hear(event: events.Event) -> None:
        nonlocal number
        number += 1
        event.seq = number
        ledger.hear(event)

    with Store.open(path) as store:
        snapshot = store.put_snapshot({"optimized.py": source})
        runs = [planned(snapshot=snapshot, trigger=Trigger.WATCH) for _ in range(3)]
        store.plan(runs)
        for run in runs[:2]:
            end = finished(run)
            arms = tuple(replace(arm, sample_count=COUNTS[arm.rung]) for arm in end.arms)
            end = replace(end, arms=arms)
            store.finish(end, {rung: samples_of(count, 1) for rung, count in COUNTS.items()})
            hear(_planned_event(run.id, run.target))
            for rung, count in COUNTS.items():
                hear(_batch(run.id, rung, count))
            hear(events.RunFinished(run=end))
        hear(_edit(runs[0].target, snapshot, runs[0].id))
        ledger.plan([runs[2].id], runs[2].target)
        store.mark_lost("01J0000000ENG1NE0000000001")
    return path, ledger


def _planned_event(run_id: str, target: str) -> events.RunPlanned:
    return heard.planned(run_id=run_id, target=target, trigger="watch")


def _batch(run_id: str, arm: str, count: int) -> events.SampleBatch:
    return events.SampleBatch(
        run_id=run_id,
        arm=arm,
        replica=0,
        round=0,
        timing=Timing.HOST,
        device_ms=[1.0] * count,
        end_ns=[1] * count,
        discarded=[0] * count,
        sm_clock_mhz=[1.0] * count,
    )


def _edit(target: str, snapshot: str, run_id: str) -> events.WatchEdit:
    return events.WatchEdit(target=target, number=1, snapshot=snapshot, files=["optimized.py"], run_id=run_id)


def ids(path: Path) -> list[str]:
    """Runs of a store, oldest first."""
    with History(path) as history:
        return [run.id for run in history.newest()][::-1]


def test_a_store_that_has_all_that_was_told_is_whole(told: tuple[Path, Ledger]) -> None:
    path, ledger = told
    assert ledger.check(path) == []
    assert ledger.lost(path, ids(path)) == []


DELETED = "DELETE FROM runs WHERE id = ?"
OF_THE_RUN = "WHERE rung = 'baseline' AND run = (SELECT number FROM runs WHERE id = ?)"
FLIPPED = f"UPDATE samples SET device_ms = zeroblob(8 * count) {OF_THE_RUN}"
CUT = f"DELETE FROM samples {OF_THE_RUN}"
TAMPERED = {
    "a run that was told is gone": (DELETED, 0, "was planned and is not in the store"),
    "a lost run is gone": (DELETED, 2, "was planned and is not in the store"),
    "a sample's bytes differ": (FLIPPED, 0, "are not what was written"),
    "an arm's samples are gone": (CUT, 1, "samples were told"),
    "an end is taken back": (
        "UPDATE runs SET state = 'running', sha256 = NULL, duration_ms = NULL WHERE id = ?", 2,
        "is running, and no engine runs",
    ),
    "another state": ("UPDATE runs SET state = 'crashed', reason = 'x' WHERE id = ?", 0, "has another state"),
    "another verdict": ("UPDATE runs SET verdict = 'same' WHERE id = ?", 1, "has another verdict"),
    "another duration": ("UPDATE runs SET duration_ms = 1.0 WHERE id = ?", 1, "has another duration_ms"),
    "another record": ("UPDATE runs SET title = 'other' WHERE id = ?", 1, "its record has another hash"),
}  # fmt: skip


@pytest.mark.parametrize("what", TAMPERED)
def test_the_ledger_names_what_was_done_to_a_store(told: tuple[Path, Ledger], what: str) -> None:
    path, ledger = told
    sql, number, complaint = TAMPERED[what]
    run_id = ids(path)[number]
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute(sql, [run_id])
    connection.commit()
    connection.close()
    found = ledger.check(path)
    assert any(run_id in fault and complaint in fault for fault in found), found


@pytest.fixture
def moved(told: tuple[Path, Ledger]) -> tuple[Path, Path, Ledger]:
    """The same after the store was moved away: where it is, the new one at its path, and what was told."""
    path, ledger = told
    before = path.rename(path.with_name("before.db"))
    ledger.before.append(before)
    Store.open(path).close()
    return before, path, ledger


def test_what_was_told_may_be_in_a_store_that_was_moved_away(moved: tuple[Path, Path, Ledger]) -> None:
    before, path, ledger = moved
    assert ledger.check(path) == []
    assert ledger.lost(path, ids(before)) == []
    assert set(ledger.stored(path)) == set(ids(before))
    assert ledger.copied(path, ids(before)) == []
    ledger.before.clear()
    run_id = ids(before)[0]
    assert f"run {run_id} was planned and is not in the store" in ledger.check(path)
    assert ledger.copied(path, [run_id]) == [f"a copy is whole without run {run_id}, which had ended"]


def test_an_end_that_was_told_must_be_in_one_of_the_stores(moved: tuple[Path, Path, Ledger]) -> None:
    before, path, ledger = moved
    run = planned()
    with Store.open(before) as store:
        store.plan([run])
    ledger.plan([run.id], run.target)
    assert ledger.check(path) == [], "its engine was killed before it had noticed"
    ledger.finished[run.id] = finished(run)
    assert f"run {run.id} was told as ended and its end is in no store" in ledger.check(path)


def test_the_ledger_names_sources_that_are_not_what_was_written(told: tuple[Path, Ledger]) -> None:
    path, ledger = told
    connection = sqlite3.connect(path)
    connection.execute("UPDATE sources SET content = x'00'")
    connection.commit()
    connection.close()
    found = "\n".join(ledger.check(path))
    assert "its content has another hash" in found
    assert "edit 1 of ch07:transpose: the sources of snapshot" in found


def test_a_run_that_changes_after_a_look_is_named_at_the_next(told: tuple[Path, Ledger]) -> None:
    path, ledger = told
    assert ledger.check(path) == []
    lost = ids(path)[2]
    connection = sqlite3.connect(path)
    connection.execute("UPDATE runs SET sha256 = ? WHERE id = ?", ["0" * 64, lost])
    connection.commit()
    connection.close()
    assert f"run {lost} was changed after its end" in ledger.check(path)


@pytest.mark.parametrize("asked_for", [True, False])
def test_a_run_that_nobody_was_told_of_must_have_been_asked_for(told: tuple[Path, Ledger], asked_for: bool) -> None:
    path, ledger = told
    with Store.open(path) as store:
        stranger = planned(target="mine:stranger")
        store.plan([stranger])
        store.mark_lost("01J0000000ENG1NE0000000001")
    if asked_for:
        ledger.in_flight[EPOCH] = ["mine:stranger"]
    found = ledger.check(path)
    assert found == (
        [] if asked_for else [f"run {stranger.id} of mine:stranger is in the store and nobody asked for it"]
    )


def test_a_run_of_an_engine_that_is_gone_must_have_ended(told: tuple[Path, Ledger]) -> None:
    path, ledger = told
    with Store.open(path) as store:
        run = planned()
        store.plan([run])
        store.advance(run.id, State.RUNNING)
    assert ledger.lost(path, [run.id, "01NOWHERE"]) == [
        f"run {run.id} is running, and its engine is gone",
        "run 01NOWHERE was planned and is not in the store",
    ]


def test_the_ledger_names_a_stream_that_is_not_whole(told: tuple[Path, Ledger]) -> None:
    path, ledger = told
    end = next(iter(ledger.finished.values()))
    ledger.hear(events.RunFinished(seq=99, run=end))
    ledger.hear(events.Gap(first=3, last=7))
    found = "\n".join(ledger.check(path))
    assert "event 99 came where 10 was due" in found
    assert f"the end of run {end.id} was told twice" in found
    assert "events 3 to 7 are not coming" in found


# -- growth is seen --------------------------------------------------------------------------------------------

YOUNG = Look(
    runs=50,
    descriptors=29,
    threads=6,
    resident_bytes=70 << 20,
    journal_bytes=1 << 20,
    database_bytes=1 << 20,
    layouts=8,
    status_ms=1.0,
    newest_ms=30.0,
    board_ms=1.0,
)


def test_an_engine_that_is_what_it_was_is_no_complaint() -> None:
    assert compare([YOUNG, replace(YOUNG, runs=2000, resident_bytes=YOUNG.resident_bytes + (1 << 20))], YOUNG) == []


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"descriptors": 30}, "30 descriptors after 2000 runs, 29 after 50"),
        ({"threads": 70}, "70 threads"),
        ({"resident_bytes": YOUNG.resident_bytes + 2 * GROWTH_BYTES}, "grew by 32 MiB"),
        ({"resident_bytes": YOUNG.resident_bytes + 2 * BEYOND_FRESH_BYTES}, "more than a fresh one"),
        ({"journal_bytes": JOURNAL_BYTES + 1}, "the journal has"),
        ({"layouts": 400}, "400 snapshots are laid out"),
        ({"status_ms": 90.0}, "status_ms is 90.0"),
        ({"newest_ms": 300.0}, "newest_ms is 300.0"),
    ],
)
def test_what_grows_or_becomes_slow_is_named(changes: dict[str, Any], complaint: str) -> None:
    assert any(complaint in fault for fault in compare([YOUNG, replace(YOUNG, runs=2000, **changes)], YOUNG))
