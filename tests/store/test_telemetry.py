"""The GPU's state at the moment of each sample: the nearest reading, and nothing where none is near."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aisp.store.samples import TELEMETRY_REACH_NS, Ints, Telemetry
from tests.store.examples import samples_of, telemetry_of

MS = 1_000_000


def readings(*at_ms: int) -> Telemetry:
    """One reading at each of these times; its number stands in every array."""
    number = np.arange(len(at_ms), dtype=np.float64)
    return Telemetry(
        at_ns=np.array(at_ms, np.int64) * MS,
        sm_clock_mhz=1000 + number,
        memory_clock_mhz=2000 + number,
        temperature_c=30 + number,
        power_w=100 + number,
        throttle=number.astype(np.int64),
    )


def moments(*at_ms: float) -> Ints:
    return np.array([round(ms * MS) for ms in at_ms], np.int64)


def test_each_moment_has_the_nearest_reading_before_or_after() -> None:
    found = readings(1000, 1050, 1100).at(moments(1000, 1024, 1026, 1074, 1100, 1110, 990))
    assert found.throttle.tolist() == [0, 0, 1, 1, 2, 2, 0]
    assert found.at_ns.tolist() == moments(1000, 1000, 1050, 1050, 1100, 1100, 1000).tolist()
    assert found.sm_clock_mhz.tolist() == [1000, 1000, 1001, 1001, 1002, 1002, 1000]
    assert found.memory_clock_mhz.tolist() == [2000, 2000, 2001, 2001, 2002, 2002, 2000]
    assert found.temperature_c.tolist() == [30, 30, 31, 31, 32, 32, 30]
    assert found.power_w.tolist() == [100, 100, 101, 101, 102, 102, 100]


def test_the_earlier_of_two_equally_near_readings_is_taken() -> None:
    assert readings(1000, 1050).at(moments(1025)).throttle.tolist() == [0]


def test_beyond_a_quarter_of_a_second_nothing_is_known() -> None:
    gpu = readings(1000, 2000)
    edge = np.array([1000 * MS + TELEMETRY_REACH_NS, 2000 * MS - TELEMETRY_REACH_NS], np.int64)
    assert gpu.at(edge).throttle.tolist() == [0, 1]
    beyond = np.concatenate([edge + np.array([1, -1]), moments(0, 2251)])
    found = gpu.at(beyond)
    assert found.at_ns.tolist() == found.throttle.tolist() == [-1] * 4
    for name in ("sm_clock_mhz", "memory_clock_mhz", "temperature_c", "power_w"):
        assert np.isnan(getattr(found, name)).all()


def test_a_reading_without_an_answer_stays_without_one() -> None:
    gap = telemetry_of(3).at(moments(1051))
    assert gap.at_ns.tolist() == [1050 * MS]
    assert gap.throttle.tolist() == [-1]
    assert np.isnan(gap.power_w).tolist() == [False]
    assert np.isnan(gap.sm_clock_mhz).tolist() == [True]


def test_no_readings_and_no_moments_are_fine() -> None:
    nothing = readings().at(moments(1, 2))
    assert nothing.at_ns.tolist() == nothing.throttle.tolist() == [-1, -1]
    assert np.isnan(nothing.sm_clock_mhz).all()
    assert len(nothing.power_w) == 2
    empty = readings(1000).at(moments())
    assert [len(getattr(empty, name)) for name in Telemetry.__slots__] == [0] * 6


def test_the_arrays_of_a_run_line_up_and_keep_their_types() -> None:
    samples = samples_of(300)
    found = telemetry_of(8).at(samples.end_ns)
    assert {name: (getattr(found, name).dtype, len(getattr(found, name))) for name in Telemetry.__slots__} == {
        name: (np.dtype(np.int64 if name in ("at_ns", "throttle") else np.float64), 300) for name in Telemetry.__slots__
    }


@pytest.mark.filterwarnings("error")
@given(
    at_ms=st.lists(st.integers(0, 3000), max_size=12, unique=True),
    wanted=st.lists(st.integers(-500, 3500), max_size=20),
)
def test_in_any_order_it_is_what_a_search_by_hand_finds(at_ms: list[int], wanted: list[int]) -> None:
    found = readings(*at_ms).at(moments(*wanted))
    by_hand = []
    for moment in wanted:
        near = [time for time in at_ms if abs(time - moment) * MS <= TELEMETRY_REACH_NS]
        best = min(near, key=lambda time: (abs(time - moment), time), default=None)
        by_hand.append(-1 if best is None else at_ms.index(best))
    assert found.throttle.tolist() == by_hand
    assert [(clock - 1000 if clock == clock else -1) for clock in found.sm_clock_mhz.tolist()] == by_hand
