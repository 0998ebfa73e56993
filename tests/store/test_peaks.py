"""Ceilings of a GPU: written once, sealed by a hash, read newest first, never as what was not written."""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from aisp.store import ContradictionError, History, Store, reader
from aisp.store.record import Ceiling
from aisp.store.ulid import UlidMaker
from tests.replacing import replace
from tests.store.examples import peak_of


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "aisp.db") as opened:
        yield opened


@pytest.fixture
def history(tmp_path: Path) -> Iterator[History]:
    with History(tmp_path / "aisp.db") as opened:
        yield opened


def test_where_there_is_no_store_there_are_no_peaks(history: History) -> None:
    assert history.peaks() == []
    assert history.peak("01ARZ3") is None
    with pytest.raises(LookupError, match="no peak '01ARZ3'"):
        history.verify_peak("01ARZ3")
    assert not history.path.exists()


def test_peaks_come_newest_first_and_by_gpu(store: Store, history: History) -> None:
    peaks = [peak_of(f"GPU-{number % 2}") for number in range(6)]
    for peak in peaks:
        store.put_peak(peak)
    assert history.peaks() == peaks[::-1]
    assert history.peaks(limit=2) == [peaks[5], peaks[4]]
    assert history.peaks("GPU-0") == [peaks[4], peaks[2], peaks[0]]
    assert history.peaks("GPU-0", 1) == [peaks[4]]
    assert history.peaks("GPU-7") == []
    assert store.latest_peak("GPU-1") == peaks[5]
    assert store.latest_peak("GPU-0") == peaks[4]
    assert store.latest_peak("GPU-7") is None


def test_a_peak_is_found_by_any_unique_beginning_of_its_id(store: Store, history: History) -> None:
    maker = UlidMaker(wall_ms=lambda: 1_700_000_000_000, random=lambda: 0)
    first, second = peak_of(id=maker.new()), peak_of(id=maker.new())
    other = peak_of(id="01ARZ3NDEKTSV4RRFFQ69G5FAV")
    for peak in (first, second, other):
        store.put_peak(peak)
    assert history.peak(first.id) == first
    assert history.peak("01arz3") == other
    assert history.peak("01ARZ4") is None
    assert history.peak("") is None
    with pytest.raises(LookupError, match=f"more than one peak id: {first.id}, {second.id}; give more"):
        history.peak(first.id[:25])


def test_a_peak_may_be_put_again_but_never_otherwise(store: Store, history: History) -> None:
    peak = peak_of()
    store.put_peak(peak)
    store.put_peak(peak)
    assert history.peaks() == [peak]
    with pytest.raises(ContradictionError, match="a peak is never rewritten"):
        store.put_peak(replace(peak, ceilings=peak.ceilings[1:]))
    assert history.peaks() == [peak]


def test_a_peak_without_ceilings_is_one(store: Store, history: History) -> None:
    peak = peak_of(ceilings=())
    store.put_peak(peak)
    assert history.peak(peak.id) == peak


def test_the_highest_rate_and_the_shortest_time_are_the_ceiling() -> None:
    peak = peak_of()
    best = peak.ceiling("dram read")
    assert best is not None
    assert (best.value, best.footprint_bytes) == (3.05e12, 2**32)
    times = replace(peak, ceilings=(Ceiling("launch eager", 3e-6, "s"), Ceiling("launch eager", 2e-6, "s")))
    assert times.ceiling("launch eager") == Ceiling("launch eager", 2e-6, "s")
    assert peak.ceiling("nvlink read") is None
    assert peak.ceiling("fp4 dense") is None


def test_a_ceiling_that_cannot_be_is_refused() -> None:
    for value in (0.0, -1.0, math.inf, math.nan):
        with pytest.raises(ContradictionError, match="is no rate"):
            Ceiling("dram read", value, "bytes/s")
    with pytest.raises(ContradictionError, match="no value, and no reason why"):
        Ceiling("dram read", None, "bytes/s")
    for clock in (0.0, -1.0, math.inf, math.nan):
        with pytest.raises(ContradictionError, match="MHz are no clocks"):
            Ceiling("dram read", 1.0, "bytes/s", sm_clock_mhz=clock)
        with pytest.raises(ContradictionError, match="MHz are no clocks"):
            Ceiling("dram read", 1.0, "bytes/s", memory_clock_mhz=clock)


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE peaks SET gpu = 'NVIDIA H200' WHERE number = 2",
        "UPDATE peaks SET wall = '' WHERE number = 2",
        "UPDATE peaks SET sha256 = (SELECT sha256 FROM peaks WHERE number = 1) WHERE number = 2",
        "UPDATE ceilings SET value = value * 1.01 WHERE peak = 2",
        "UPDATE ceilings SET sm_clock_mhz = NULL WHERE peak = 2",
        "UPDATE ceilings SET note = 'well' WHERE peak = 2 AND position = 0",
        "UPDATE ceilings SET position = 9 WHERE peak = 2 AND position = 0",
        "DELETE FROM ceilings WHERE peak = 2 AND position = 4",
        "INSERT INTO ceilings SELECT 2, 5, name, value, unit, 1.0, 1.0, 1, note FROM ceilings WHERE peak = 1 LIMIT 1",
    ],
)
def test_any_change_after_the_fact_is_found_and_never_read_as_a_ceiling(
    store: Store, history: History, change: str
) -> None:
    older, newer = peak_of(), peak_of()
    store.put_peak(older)
    store.put_peak(newer)
    assert history.verify_peak(newer.id)
    assert store._db.conn.execute(change).rowcount > 0

    assert not history.verify_peak(newer.id)
    assert history.verify_peak(older.id)
    assert history.peaks() == [older]
    assert "not what was written" in history.damaged[newer.id]
    with pytest.raises(ContradictionError, match="not what was written: measure it again"):
        history.peak(newer.id)
    assert store.latest_peak("GPU-0") == older


def test_a_changed_environment_is_found(store: Store, history: History) -> None:
    peak = peak_of(environment=store.put_environment({"gpu": {"name": "NVIDIA H100"}}))
    store.put_peak(peak)
    assert history.verify_peak(peak.id)
    store._db.conn.execute("UPDATE environments SET content = '{}'")
    assert not history.verify_peak(peak.id)


def test_peaks_are_read_through_an_index(store: Store) -> None:
    def plan(sql: str) -> list[str]:
        connection: sqlite3.Connection = store._db.conn
        return [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {sql}", [None] * sql.count("?")).fetchall()]

    assert plan(reader.PEAKS_OF_GPU_SQL) == ["SEARCH peaks USING COVERING INDEX peaks_gpu (gpu_uuid=?)"]
    assert "TEMP B-TREE" not in " ".join(plan(reader.PEAKS_SQL))
