"""What is written comes back: every record, every bit of every array."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from store import History, Store
from store.outcomes import Correctness, State
from store.records import RunRecord, Samples
from tests.store.examples import (
    equal_arrays,
    finished,
    planned,
    run_records,
    sample_arrays,
    samples_of,
    telemetry_of,
)


@pytest.fixture(scope="module")
def pair() -> Iterator[tuple[Store, History]]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "aisp.db"
        with Store.open(path) as store, History(path) as history:
            yield store, history


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(run=run_records(), data=st.data())
def test_every_record_comes_back_equal(pair: tuple[Store, History], run: RunRecord, data: st.DataObject) -> None:
    store, history = pair
    if not run.state.final:
        store.plan([replace(run, state=State.PLANNED)])
        if run.state is not State.PLANNED:
            store.advance(run.id, run.state)
        assert history.run(run.id) == run
        assert history.verify(run.id)
        return
    arrays = {arm.rung: data.draw(sample_arrays()) for arm in run.arms if data.draw(st.booleans(), label="has samples")}
    telemetry = telemetry_of(data.draw(st.integers(0, 5))) if data.draw(st.booleans()) else None
    store.finish(run, arrays, telemetry)

    assert history.run(run.id) == run
    read = history.samples(run.id)
    assert list(read) == [arm.rung for arm in run.arms if arm.rung in arrays]
    assert all(equal_arrays(read[rung], arrays[rung]) for rung in arrays)
    gpu = history.telemetry(run.id)
    assert (gpu is None) == (telemetry is None)
    assert gpu is None or equal_arrays(gpu, telemetry)
    assert history.verify(run.id)


def test_a_million_samples_come_back(pair: tuple[Store, History]) -> None:
    store, history = pair
    run = planned()
    arrays = {"baseline": samples_of(1_000_000), "optimized": samples_of(3)}
    store.plan([run])
    store.finish(finished(run, samples=3), arrays, telemetry_of(2000))
    read = history.samples(run.id)
    assert equal_arrays(read["baseline"], arrays["baseline"])
    assert np.isnan(read["baseline"].host_ms[:4]).tolist() == [True, False, False, True]
    assert history.verify(run.id)


def test_narrower_arrays_are_widened_not_refused(pair: tuple[Store, History]) -> None:
    store, history = pair
    run = planned()
    wide = samples_of(40)
    narrow = Samples(
        device_ms=wide.device_ms,
        host_ms=wide.host_ms[::-1][::-1],
        end_ns=wide.end_ns,
        round=wide.round.astype(np.int32),
        replica=wide.replica.astype(np.uint8),
        inputs=wide.inputs.astype(">i8"),
        discarded=wide.discarded.astype(bool),
    )
    store.finish(finished(run), {"baseline": narrow}, None)
    assert equal_arrays(history.samples(run.id)["baseline"], wide)


def test_paths_that_are_no_text_are_kept_as_bytes_and_labels_stay_readable(
    pair: tuple[Store, History],
) -> None:
    store, history = pair
    folder = b"/tmp/\xff\xfe new\nline \xf0\x9f\x9a\x80 \xd7\xa9"
    name = os.fsdecode(b"bad_\xff")
    run = planned(target=f"mine:{name}", folder=folder, title=f"a title with {name}")
    end = replace(
        run,
        state=State.USER_ERROR,
        reason=f"no file {name}",
        arms=(replace(finished(run).arms[0], rung=name, detail=f"at {name}"),),
    )
    store.plan([run])
    store.finish(end, {name: samples_of(4)}, None)

    read = history.run(run.id)
    assert read.folder == folder
    assert read.target == "mine:bad_\\udcff"
    assert read.reason == "no file bad_\\udcff"
    assert read.arms[0].rung == "bad_\\udcff"
    assert list(history.samples(run.id)) == ["bad_\\udcff"]
    assert [r.id for r in history.history(f"mine:{name}")] == [run.id]
    assert [r.id for r in history.newest(target=f"mine:{name}")] == [run.id]
    assert history.verify(run.id)


def test_a_number_that_is_none_is_unknown_and_not_zero(pair: tuple[Store, History]) -> None:
    store, history = pair
    run = planned()
    arm = replace(finished(run).arms[0], max_error=float("nan"), sol=None)
    wrong = replace(finished(run).arms[1], max_error=float("inf"))
    end = finished(run, arms=(arm, wrong))
    store.finish(end, {}, None)
    read = history.run(run.id)
    assert read.arms[0].max_error is None
    assert read.arms[0].sol is None
    assert read.arms[1].max_error == float("inf")
    assert read.correctness is Correctness.CORRECT
    assert history.samples(run.id) == {}
    assert history.telemetry(run.id) is None
