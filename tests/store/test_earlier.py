"""What the checks over the history look at: the target's finished runs on the same device, as plain data."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from aisp.store import Store
from aisp.store.outcomes import State
from tests.replacing import replace
from tests.store.examples import finished, planned


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "aisp.db") as opened:
        yield opened


def test_earlier_runs_of_a_target_come_newest_first_with_their_times_and_environment(store: Store) -> None:
    environment = store.put_environment({"gpu": {"driver": "575.57"}})
    first = finished(planned(environment=environment, wall="2026-01-01"))
    baseline, optimized = first.arms
    first = replace(first, arms=(replace(baseline, sources="b" * 64), optimized))
    second = finished(planned(quick=True, environment="0" * 64))
    store.finish(first, {})
    store.finish(second, {})
    now = planned()
    store.plan([now])
    newest, oldest = store.earlier(now)
    assert oldest == {
        "id": first.id,
        "wall": "2026-01-01",
        "quick": False,
        "case": "default",
        "verdict": "faster",
        "validity": "valid",
        "environment": {"gpu": {"driver": "575.57"}},
        "arms": {
            "baseline": {"median_ms": 1.0, "sources": "b" * 64},
            "optimized": {"median_ms": 0.5, "sources": ""},
        },
    }
    assert (newest["id"], newest["quick"], newest["environment"]) == (second.id, True, {})
    assert [run["id"] for run in store.earlier(now, 1)] == [second.id]
    assert [run["id"] for run in store.earlier(second)] == [first.id]  # not itself


def test_runs_of_others_and_runs_that_did_not_end_well_are_no_history(store: Store) -> None:
    store.finish(finished(planned(folder=b"/elsewhere")), {})
    store.finish(finished(planned(target="ch01:saxpy")), {})
    store.finish(finished(planned(device="cpu")), {})
    store.finish(replace(planned(), state=State.CANCELLED, reason="cancelled"), {})
    store.plan([planned()])
    assert store.earlier(planned()) == []


def test_an_environment_that_was_changed_is_not_told(store: Store) -> None:
    environment = store.put_environment({"driver": 1})
    store.finish(finished(planned(environment=environment)), {})
    assert store.earlier(planned())[0]["environment"] == {"driver": 1}
    for damage in ('{"driver":2}', "{"):
        store._db.conn.execute("UPDATE environments SET content = ?", [damage])
        assert store.earlier(planned())[0]["environment"] == {}
