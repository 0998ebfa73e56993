"""A record that was rewritten behind the store's back is read as one that was changed, and never as a figure."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from aisp.store import History, Store, migrations
from aisp.store.outcomes import State, Validity, Verdict
from aisp.store.record import Run
from tests.store.examples import caught, examined, finding, finished, measured, planned, samples_of, telemetry_of
from tests.store.forged import rewrite

CHANGES = (
    "UPDATE runs SET title = 'another' WHERE number = 1",
    "UPDATE runs SET duration_ms = 1 WHERE number = 1",
    "UPDATE runs SET validity = 'suspect' WHERE number = 1",
    "UPDATE runs SET sha256 = '00' WHERE number = 1",
    "UPDATE arms SET median_ms = median_ms / 1e6, low_ms = low_ms / 1e6, high_ms = high_ms / 1e6 WHERE run = 1",
    "UPDATE arms SET quality = NULL WHERE run = 1",
    "UPDATE comparisons SET speedup = 99, high = 100 WHERE run = 1",
    "UPDATE steps SET duration_ms = 0 WHERE run = 1",
    "DELETE FROM samples WHERE run = 1",
    "UPDATE samples SET sha256 = replace(sha256, substr(sha256, 1, 1), '_') WHERE run = 1",
    "DELETE FROM telemetry WHERE run = 1",
    "DELETE FROM findings WHERE run = 1",
    "UPDATE findings SET others = (SELECT others FROM findings WHERE run = 2) WHERE run = 1",
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "aisp.db"


@pytest.fixture
def history(path: Path) -> Iterator[History]:
    with History(path) as opened:
        yield opened


def fill(path: Path) -> list[Run]:
    """Two runs of one target with all that a run leaves behind."""
    runs = []
    with Store.open(path) as store:
        environment = store.put_environment({"gpu": "NVIDIA H100"})
        for seed in range(2):
            said = (finding("timing.wall_clock", "optimized", evidence=f"{seed + 1} ms"),)
            run = measured(planned(environment=environment), findings=said)
            store.finish(run, {arm.rung: samples_of(20, seed) for arm in run.arms}, telemetry_of(9))
            runs.append(run)
    return runs


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("all_findings", [True, False])
def test_a_changed_run_is_shown_as_changed_wherever_it_is_read(
    path: Path, history: History, change: str, all_findings: bool
) -> None:
    changed, other = fill(path)
    rewrite(path, change)
    listed = history.newest(all_findings=all_findings)[1]
    assert history.history(other.target, all_findings=all_findings)[0] == listed
    assert (listed.id, listed.target, listed.wall) == (changed.id, changed.target, changed.wall)
    assert listed.state is State.CHANGED and listed.state.value == "changed since it was written"
    assert "`aisp store --verify`" in listed.reason
    assert (listed.verdict, listed.validity, listed.duration_ms) == (Verdict.NONE, Validity.UNKNOWN, None)
    assert listed.arms == listed.comparisons == listed.steps == listed.findings == listed.flags == ()
    assert (history.samples(changed.id), history.telemetry(changed.id)) == ({}, None)
    one = history.run(changed.id)
    assert (one, one.environment) == (listed, changed.environment)
    assert history.run(other.id).state is State.OK and history.samples(other.id)
    assert history.damaged == {}


def test_the_board_shows_a_changed_run_and_not_an_older_one_in_its_place(path: Path, history: History) -> None:
    _, newest = fill(path)
    rewrite(path, "UPDATE arms SET median_ms = 1e-6, low_ms = 1e-6, high_ms = 1e-6 WHERE run = 2")
    (shown,) = history.board().values()
    assert (shown.id, shown.state) == (newest.id, State.CHANGED)


def test_a_run_on_its_way_has_nothing_to_fit(path: Path, history: History) -> None:
    run = planned()
    with Store.open(path) as store:
        store.plan([run])
    assert history.run(run.id).state is State.PLANNED


def test_a_run_in_quarantine_is_not_taken_for_a_changed_one(path: Path, history: History) -> None:
    earlier, later = examined(planned()), caught(planned())
    with Store.open(path) as store:
        store.finish(earlier, {})
        store.finish(later, {})
    shown = history.run(earlier.id)
    assert shown.state is State.OK and shown.comparisons[0].note.startswith("quarantined")


def test_digests_of_a_newer_store_are_not_judged(path: Path, history: History) -> None:
    changed, _ = fill(path)
    rewrite(path, "UPDATE runs SET title = 'another' WHERE number = 1")
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version = {migrations.LATEST + 1}")
    assert history.run(changed.id).state is State.OK
    assert set(history.samples(changed.id)) == {"baseline", "optimized"}


def test_a_changed_run_says_nothing_to_the_checks_over_the_history(path: Path) -> None:
    earlier, now = finished(planned()), planned()
    with Store.open(path) as store:
        store.finish(earlier, {})
        assert [found["id"] for found in store.earlier(now)] == [earlier.id]
        rewrite(path, "UPDATE arms SET median_ms = 0.001, low_ms = 0.001, high_ms = 0.001")
        assert store.earlier(now) == []


def test_a_check_with_a_strange_name_is_no_change(path: Path, history: History) -> None:
    names = ('],[5,"', ",", "]", '"', "\\", "check")
    said = tuple(finding(name, "optimized", evidence=evidence) for name in names for evidence in ("],[7,", "fine"))
    run = examined(planned(), findings=said)
    with Store.open(path) as store:
        store.finish(run, {"optimized": samples_of(5)})
    assert history.run(run.id).findings == said
    assert set(history.samples(run.id)) == {"optimized"}
    rewrite(path, "UPDATE findings SET count = count + 1")
    assert history.samples(run.id) == {}
    assert not history.verify(run.id)
