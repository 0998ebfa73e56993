"""How far a run is and what is left: what a person may be told at every moment of it."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from aisp.store.results.progress import MOST_SHARE, Pace, Progress, counted_progress, looks_of, run_progress
from tests.replacing import replace
from tests.store.examples import planned

FIVE = (2, 3, 5)


def at(elapsed_s: float, begun_s: Mapping[int, float], expected_s: float = 100.0, taken: int = 5) -> Progress:
    return run_progress(elapsed_s, expected_s, taken, begun_s, FIVE)


def test_what_is_left_is_what_the_last_time_had_left() -> None:
    found = at(40.0, {1: 0.0, 2: 30.0})
    assert (found.at, found.planned, found.fewer) == (2, 5, True)
    assert (found.left_s, found.share, found.longer) == (60.0, 0.4, False)


def test_without_a_run_like_it_nothing_is_invented() -> None:
    found = run_progress(40.0, None, 0, {1: 0.0, 2: 30.0}, FIVE)
    assert (found.at, found.planned) == (2, 5)
    assert (found.left_s, found.share, found.longer) == (None, None, False)


def test_a_run_that_waits_has_used_none_of_its_time() -> None:
    found = run_progress(None, 100.0, 5, {}, FIVE)
    assert (found.expected_s, found.at, found.left_s, found.share) == (100.0, 0, None, None)


def test_nearly_as_long_as_the_last_time_is_not_told_as_nothing_left() -> None:
    found = at(99.5, {1: 0.0})
    assert (found.left_s, found.share, found.longer) == (None, MOST_SHARE, False)


def test_longer_than_the_last_time_is_said_and_no_time_is_made_up() -> None:
    found = at(150.0, {1: 0.0})
    assert (found.left_s, found.share, found.longer) == (None, MOST_SHARE, True)


def test_slower_processes_are_noticed_before_the_last_time_is_over() -> None:
    """Each takes 30 s where 20 s were usual: with the third of five 90 s are left, and not 30."""
    found = at(70.0, {1: 0.0, 2: 40.0, 3: 70.0})
    assert (found.left_s, found.longer) == (90.0, True)
    # The process under way takes longer still: those behind it are left in any case.
    assert at(110.0, {1: 0.0, 2: 40.0, 3: 70.0}).left_s == 60.0


def test_a_process_more_than_the_last_time_took_is_longer_with_nobody_knowing_how_much() -> None:
    found = at(60.0, {1: 0.0, 2: 30.0, 3: 50.0}, taken=2)
    assert (found.left_s, found.share, found.longer) == (None, 0.6, True)


def test_the_processes_of_the_last_time_need_not_be_known() -> None:
    found = at(70.0, {1: 0.0, 2: 40.0, 3: 70.0}, taken=0)
    assert (found.left_s, found.longer) == (30.0, False)


@pytest.mark.parametrize("expected_s", [1.0, 9.0, 45.0, 300.0])
@pytest.mark.parametrize("each_s", [2.0, 20.0, 70.0])
@pytest.mark.parametrize("taken", [0, 2, 5])
def test_at_no_moment_it_is_negative_nothing_or_jumps_back_in_silence(
    expected_s: float, each_s: float, taken: int
) -> None:
    before = run_progress(0.0, expected_s, taken, {}, FIVE)
    for tenth in range(1, int(each_s * 5 * 10)):
        elapsed_s = tenth / 10
        begun_s = {n + 1: n * each_s for n in range(5) if n * each_s <= elapsed_s}
        now = run_progress(elapsed_s, expected_s, taken, begun_s, FIVE)
        assert now.left_s is None or now.left_s >= 1.0
        assert now.share is not None and 0 <= now.share <= MOST_SHARE
        if not now.longer:
            assert now.share >= before.share  # type: ignore[operator]
            assert now.left_s is None or before.left_s is None or now.left_s <= before.left_s or before.longer
        before = now


def test_how_many_processes_there_may_be_stands_in_the_stop_rule() -> None:
    looks = [{"replicas": 2, "level": 0.9}, {"replicas": 3, "level": 0.9}, {"replicas": 5, "level": 0.9}]
    assert looks_of({"stop_rule": {"replicas": 5, "looks": looks}}) == FIVE
    assert looks_of({"stop_rule": {"replicas": 7, "looks": []}}) == (7,)
    assert looks_of({"stop_rule": {"replicas": "many"}}) == looks_of({"stop_rule": None}) == looks_of({}) == ()


def test_processes_are_timed_from_the_moment_in_which_the_run_left_the_queue() -> None:
    run = replace(planned(manifest={"stop_rule": {"replicas": 3}}), start_ns=10**9)
    pace = Pace(60.0, 3, {1: 10**9, 2: 31 * 10**9, 3: 61 * 10**9})
    found = pace.progress(run, 60.0)
    assert (found.at, found.planned, found.fewer) == (3, 3, False)
    assert (found.longer, found.left_s) == (True, 30.0)


def test_what_is_counted_has_its_time_by_its_rate() -> None:
    assert counted_progress(150, 600, 10.0, 15.0).left_s == 30.0
    assert counted_progress(150, 600, 10.0, 15.0).share == 0.25
    assert counted_progress(0, 600, 3.0, None).left_s is None
    assert counted_progress(600, 600, 40.0, 15.0).left_s is None
    assert counted_progress(5, 0, 3.0, 2.0).share is None
