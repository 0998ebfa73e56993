"""What is written comes back: every record, every bit of every array."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aisp.store import History, Store
from aisp.store.outcomes import Correctness, Limiter, State
from aisp.store.record import ContradictionError, LinkUse, Peak, Quality, RooflineBound, Run
from aisp.store.samples import Samples
from tests.replacing import replace
from tests.store.examples import (
    equal_arrays,
    finished,
    measured,
    peaks,
    planned,
    run_records,
    sample_arrays,
    samples_of,
    telemetry_of,
    without_probes,
)


@pytest.fixture(scope="module")
def pair() -> Iterator[tuple[Store, History]]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "aisp.db"
        with Store.open(path) as store, History(path) as history:
            yield store, history


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(run=run_records(), data=st.data())
@pytest.mark.slow
def test_every_record_comes_back_equal(pair: tuple[Store, History], run: Run, data: st.DataObject) -> None:
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


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(peak=peaks())
def test_every_peak_comes_back_equal(pair: tuple[Store, History], peak: Peak) -> None:
    store, history = pair
    store.put_peak(peak)
    assert history.peak(peak.id) == peak
    assert history.peaks(peak.gpu_uuid, 1) == [peak]
    assert store.latest_peak(peak.gpu_uuid) == peak
    assert history.verify_peak(peak.id)


def test_bounds_and_quality_come_back_bit_for_bit_and_the_unknown_stays_unknown(pair: tuple[Store, History]) -> None:
    store, history = pair
    light = RooflineBound(
        spec_ms=0.1 + 0.2, clock_ms=5e-324, measured_ms=1.7976931348623157e308, limiter=Limiter.HOST, score=1 / 3
    )
    quality = Quality(
        drift=-0.0,
        autocorrelation=-1 / 3,
        low_mode_ms=1e-9,
        resolution_ms=3.2e-05,
        right_by_stated=9,
        right_by_derived=0,
    )
    first, second = measured(planned()).arms
    end = measured(planned())
    end = replace(
        end, arms=(replace(first, light=light, quality=quality), replace(second, light=RooflineBound(), quality=None))
    )
    store.finish(end, {}, None)
    read = history.run(end.id).arms

    def bits(record: object, names: tuple[str, ...]) -> list[str | None]:
        values = [getattr(record, name) for name in names]
        return [value.hex() if isinstance(value, float) else value for value in values]

    for wrote, found in ((light, read[0].light), (quality, read[0].quality)):
        assert bits(found, type(wrote).__slots__) == bits(wrote, type(wrote).__slots__)
    assert read[0].light is not None
    assert read[0].light.limiter is Limiter.HOST
    assert read[0].quality is not None
    assert read[0].quality.high_share is None
    assert read[1].light == RooflineBound()
    assert read[1].quality is None
    assert history.verify(end.id)


def test_a_bound_that_is_no_number_is_unknown(pair: tuple[Store, History]) -> None:
    store, history = pair
    end = measured(planned())
    light, quality = RooflineBound(spec_ms=float("inf"), clock_ms=1.5), Quality(drift=float("nan"), overhead_ms=0.001)
    end = replace(end, arms=(replace(end.arms[0], light=light, quality=quality), end.arms[1]))
    store.finish(end, {}, None)
    arm = history.run(end.id).arms[0]
    assert (arm.light, arm.quality) == (RooflineBound(clock_ms=1.5), Quality(overhead_ms=0.001))


@pytest.mark.parametrize(
    "link",
    [
        LinkUse(Limiter.NVLINK, 1 / 3, 3.1e11, 0.1 + 0.2, 0.9, measured=True),
        LinkUse(Limiter.PCIE, out_bytes_per_s=5e10),
    ],
)
def test_the_use_of_a_link_comes_back_whole(pair: tuple[Store, History], link: LinkUse) -> None:
    store, history = pair
    end = measured(planned())
    light = RooflineBound(spec_ms=1.5, limiter=link.over, link=link)
    store.finish(replace(end, arms=(replace(end.arms[0], light=light), end.arms[1])), {}, None)
    assert history.run(end.id).arms[0].light == light
    assert history.verify(end.id)


def test_a_use_of_no_link_is_refused() -> None:
    with pytest.raises(ContradictionError, match="bytes is no link"):
        LinkUse(Limiter.BYTES, in_bytes_per_s=1e9)
    with pytest.raises(ContradictionError, match="no direction"):
        LinkUse(Limiter.PCIE, in_share=0.5)


def test_a_clock_that_is_not_known_comes_back_as_nan(pair: tuple[Store, History]) -> None:
    store, history = pair
    run = planned()
    taken = samples_of(5)
    store.finish(finished(run), {"baseline": taken}, None)
    read = history.samples(run.id)["baseline"]
    assert np.isnan(read.sm_clock_mhz).tolist() == [False, False, False, True, False]
    assert read.sm_clock_mhz.tobytes() == taken.sm_clock_mhz.tobytes()


def test_samples_of_which_no_counters_were_read_have_a_second_clock_that_is_unknown(
    pair: tuple[Store, History],
) -> None:
    store, history = pair
    run = planned()
    full = samples_of(5)
    given = {name: getattr(full, name) for name in full.__slots__ if name not in ("probe_ms", "cycles")}
    store.finish(finished(run), {"baseline": Samples(**given)}, None)
    assert equal_arrays(history.samples(run.id)["baseline"], without_probes(full))


@pytest.mark.slow
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
        sm_clock_mhz=wide.sm_clock_mhz.astype(np.float32),
        probe_ms=wide.probe_ms[::-1][::-1],
        cycles=wide.cycles.astype(np.float32),
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
