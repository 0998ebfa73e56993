"""What the engine makes of a worker's reports: nothing is believed for being said."""

from __future__ import annotations

import hashlib
import math
import struct
from pathlib import Path
from typing import Any

import pytest

from aisp.engine.arms import Arm, ArmEnd, ArmProcess, Limits, check_done, expect, failure, signal_name
from aisp.engine.protocol import jobs, reports
from aisp.kernels.catalog.model import Kind, Needs, Role, Rung
from aisp.store.outcomes import Correctness, State
from aisp.store.samples import Samples, frozen

PRINT = [10.0, -20.0, 4.0e6]  # two projections, and a sum of squares: RMS 2 over a million elements


def process(*, inexact: bool = False, verified: dict[int, list[float]] | None = None, replica: int = 0) -> ArmProcess:
    rung = Rung("optimized", Role.OPTIMIZED, Kind.TORCH, Path("optimized.py"), Needs(), inexact=inexact)
    arm = Arm("optimized", rung, "cpu", True, state=State.RUNNING)
    known = {0: PRINT, 1: PRINT} if verified is None else verified
    return ArmProcess(arm, replica, None, jobs.Blob(name="out"), known)  # type: ignore[arg-type]


def batch(times: list[float] | None = None, **changes: Any) -> reports.Samples:
    times = [1.0, 2.0] if times is None else times
    fields: dict[str, Any] = {
        "round": 3,
        "calls": 1,
        "sets": [0] * len(times),
        "device_ms": times,
        "host_ms": times,
        "end_ns": list(range(len(times))),
        "discarded": [0] * len(times),
        "sm_clock_mhz": [math.nan] * len(times),
        "probe_ms": [math.nan] * len(times),
        "cycles": [math.nan] * len(times),
        "fingerprints": PRINT * len(times),
        "width": 3,
        "last": True,
    }
    return reports.Samples(**{**fields, **changes})


def end_of(work: Any) -> ArmEnd:
    with pytest.raises(ArmEnd) as caught:
        work()
    return caught.value


# -- samples -----------------------------------------------------------------------------------------------------------


def test_samples_are_kept_with_round_and_replica() -> None:
    book = process(replica=4)
    book.take(batch(sets=[1, 0], discarded=[2, 0]))
    book.take(batch([5.0], round=9))
    kept = frozen(Samples, book.arm.samples)
    assert kept.device_ms.tolist() == [1.0, 2.0, 5.0]
    assert kept.round.tolist() == [3, 3, 9]
    assert kept.replica.tolist() == [4, 4, 4]
    assert kept.inputs.tolist() == [1, 0, 0]
    assert kept.discarded.tolist() == [2, 0, 0]
    assert kept.kept_ms.tolist() == [2.0, 5.0]
    assert book.sent == 3


@pytest.mark.parametrize("bad", [0.0, -0.0, -1.0, math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("place", [0, 2])
def test_a_time_that_no_clock_gives_ends_the_arm_and_none_of_its_batch_is_kept(bad: float, place: int) -> None:
    book = process()
    times = [1.0, 1.0, 1.0]
    times[place] = bad
    end = end_of(lambda: book.take(batch(times)))
    assert end.state is State.INFRA_ERROR
    assert "zero, negative or not a number" in end.reason
    assert book.arm.samples.device_ms == []
    assert book.sent == 0


@pytest.mark.parametrize(
    "torn",
    [
        {"sets": [0]},
        {"host_ms": [1.0]},
        {"end_ns": []},
        {"discarded": [0, 0, 0]},
        {"fingerprints": PRINT},
        {"width": 6},
        {"rank_ms": [[1.0, 2.0], [1.0, 2.0]]},  # by a process that is the whole arm
    ],
)
def test_lists_of_different_length_end_the_arm(torn: dict[str, Any]) -> None:
    book = process()
    end = end_of(lambda: book.take(batch(**torn)))
    assert (end.state, end.reason) == (State.INFRA_ERROR, "a batch of samples was torn")
    assert book.arm.samples.device_ms == []


def test_an_empty_batch_is_no_mistake() -> None:
    book = process()
    book.take(batch([]))
    assert len(frozen(Samples, book.arm.samples)) == 0


def test_a_sample_of_several_calls_checks_each_and_keeps_one_time() -> None:
    book = process()
    book.calls = 3
    clocks = {"sm_clock_mhz": [1980.0], "probe_ms": [0.0041], "cycles": [8100.0]}
    book.take(batch([0.004], calls=3, sets=[0, 1, 0], fingerprints=PRINT * 3, **clocks))
    kept = frozen(Samples, book.arm.samples)
    assert (kept.device_ms.tolist(), kept.inputs.tolist(), kept.sm_clock_mhz.tolist()) == ([0.004], [-1], [1980.0])
    assert (kept.probe_ms.tolist(), kept.cycles.tolist()) == ([0.0041], [8100.0])
    wrong = PRINT * 2 + [0.0, 0.0, 0.0]
    end = end_of(lambda: book.take(batch([0.004], calls=3, sets=[0, 1, 0], fingerprints=wrong)))
    assert end.state is State.INCORRECT


def test_a_sample_of_another_number_of_calls_than_agreed_is_refused() -> None:
    book = process()
    assert "torn" in end_of(lambda: book.take(batch([0.004], calls=2, sets=[0, 1], fingerprints=PRINT * 2))).reason


# -- fingerprints ------------------------------------------------------------------------------------------------------


def test_a_timed_call_on_a_set_that_was_not_verified_ends_the_arm() -> None:
    assert "set 5, which was not verified" in end_of(lambda: process().take(batch(sets=[0, 5]))).reason
    assert "set 0, which was not verified" in end_of(lambda: process(verified={0: PRINT * 2}).take(batch())).reason


SCALE = 2000.0  # the root of the sum of squares


@pytest.mark.parametrize(
    ("found", "inexact", "same"),
    [
        (PRINT, False, True),
        ([10.0 + 0.9e-6 * SCALE, -20.0, 4.0e6], False, True),
        ([10.0 + 1.1e-6 * SCALE, -20.0, 4.0e6], False, False),
        ([10.0, -20.0 - 1.1e-6 * SCALE, 4.0e6], False, False),
        ([10.0, -20.0, 4.0e6 * (1 + 1.1e-6)], False, False),
        ([10.0, -20.0, 4.0e6 * (1 + 0.9e-6)], False, True),
        ([10.0 + 0.9e-3 * SCALE, -20.0, 4.0e6], True, True),
        ([10.0 + 1.1e-3 * SCALE, -20.0, 4.0e6], True, False),
        ([0.0, 0.0, 0.0], False, False),
        ([0.0, 0.0, 0.0], True, False),
        ([math.nan, -20.0, 4.0e6], False, False),
        ([10.0, -20.0, math.nan], False, False),
        ([10.0, -20.0, math.inf], False, False),
    ],
)
def test_a_fingerprint_must_be_the_verified_one_within_rounding(found: list[float], inexact: bool, same: bool) -> None:
    book = process(inexact=inexact)
    if same:
        book.take(batch([1.0], fingerprints=found))
        assert book.sent == 1
        return
    end = end_of(lambda: book.take(batch([1.0], fingerprints=found)))
    assert (end.state, end.correctness) == (State.INCORRECT, Correctness.WRONG)
    assert "the work must be done in every call" in end.reason
    assert "set 0, output 0" in end.detail


@pytest.mark.parametrize("odd", [math.nan, math.inf])
def test_where_the_scale_is_not_finite_only_the_very_same_fingerprint_passes(odd: float) -> None:
    """Within a tolerance of infinity lies everything."""
    book = process(verified={0: [1.0, 2.0, odd]})
    book.take(batch([1.0], fingerprints=[1.0, 2.0, odd]))
    assert end_of(lambda: book.take(batch([1.0], fingerprints=[1.5, 2.0, odd]))).state is State.INCORRECT
    assert end_of(lambda: book.take(batch([1.0], fingerprints=[1.0, 2.0, 5.0]))).state is State.INCORRECT


def test_the_second_output_is_compared_too_and_named() -> None:
    book = process(verified={0: [*PRINT, 1.0, 1.0, 1.0]})
    end = end_of(lambda: book.take(batch([1.0], fingerprints=[*PRINT, 1.0, 1.1, 1.0], width=6)))
    assert "output 1" in end.detail


def test_an_output_of_zeros_must_stay_exactly_zero() -> None:
    book = process(verified={0: [0.0, 0.0, 0.0]})
    book.take(batch([1.0], fingerprints=[0.0, -0.0, 0.0]))
    assert end_of(lambda: book.take(batch([1.0], fingerprints=[0.0, 0.0, 1e-30]))).state is State.INCORRECT


# -- the done frame ----------------------------------------------------------------------------------------------------


def done_of(*times: float) -> reports.Done:
    return reports.Done(samples=len(times), sha256=hashlib.sha256(struct.pack(f"<{len(times)}d", *times)).hexdigest())


def test_done_must_agree_in_count_hash_and_wall_clock() -> None:
    book = process()
    book.take(batch([1.0, 2.0]))
    book.take(batch([3.0]))
    check_done(book, done_of(1.0, 2.0, 3.0), wall_ms=6.0)
    for wrong in (done_of(1.0, 2.0), done_of(1.0, 2.0, 3.0, 4.0), done_of(1.0, 3.0, 2.0), done_of(1.0, 2.0, 3.5)):
        end = end_of(lambda wrong=wrong: check_done(book, wrong, wall_ms=100.0))
        assert end.state is State.INFRA_ERROR
        assert "3 arrived or their hash differs" in end.reason


def test_more_measured_time_than_wall_clock_is_refused() -> None:
    book = process()
    book.take(batch([4.0, 5.0]))
    end = end_of(lambda: check_done(book, done_of(4.0, 5.0), wall_ms=8.9))
    assert end.reason == "optimized reports 9.0 ms of samples within 8.9 ms of wall clock"


def test_each_replica_is_checked_by_itself() -> None:
    book = process()
    book.take(batch([4.0, 5.0]))
    later = ArmProcess(book.arm, 1, book.child, book.outputs, {0: PRINT})
    later.take(batch([1.0]))
    book.take(batch([6.0]))  # two of an arm's processes may be alive at once
    check_done(later, done_of(1.0), wall_ms=1.5)
    check_done(book, done_of(4.0, 5.0, 6.0), wall_ms=15.5)
    assert book.arm.samples.replica == [0, 0, 1, 0]


def test_a_process_that_took_no_samples_is_done_with_none() -> None:
    check_done(process(), reports.Done(samples=0, sha256=""), wall_ms=0.0)


# -- reports that are not what was asked for ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "state", "correctness"),
    [
        ("user", State.USER_ERROR, None),
        ("memory", State.USER_ERROR, None),
        ("poisoned", State.CUDA_POISONED, None),
        ("unsupported", State.UNAVAILABLE, None),
        ("form", State.INCORRECT, Correctness.WRONG),
        ("ours", State.INFRA_ERROR, None),
        ("something new", State.INFRA_ERROR, None),
    ],
)
def test_each_kind_of_failure_has_a_state(kind: str, state: State, correctness: Correctness | None) -> None:
    report = reports.Failed(job="Execute", kind=kind, summary="Boom:\x1b[2J  it\n went", traceback="  a.py:1\n\x1b]0;x")
    end = failure(report, "optimized")
    assert (end.state, end.correctness) == (state, correctness)
    assert "Boom:␛[2J it went" in end.reason
    assert "\x1b" not in end.reason + end.detail
    assert end.detail.startswith("  a.py:1\n")


def test_the_next_move_is_named_where_there_is_one() -> None:
    def reason(kind: str, trace: str = "") -> str:
        return failure(reports.Failed(job="x", kind=kind, summary="S", traceback=trace), "opt").reason

    assert reason("memory") == "opt ran out of memory: S; use smaller axes"
    assert reason("user", "t") == "opt: S; the trace below ends at the line to fix"
    assert reason("user") == "opt: S"
    assert reason("poisoned").endswith("the process was ended and the next run is fresh")


def test_another_report_than_the_one_asked_for_is_our_own_fault() -> None:
    loaded = reports.Loaded(import_ms=1.0)
    assert expect(loaded, reports.Loaded, "opt") is loaded
    end = end_of(lambda: expect(loaded, reports.Done, "opt"))
    assert (end.state, end.reason) == (State.INFRA_ERROR, "opt answered Loaded, expected Done")
    failed = reports.Failed(job="x", kind="form", summary="y: shape", traceback="")
    assert end_of(lambda: expect(failed, reports.Done, "opt")).state is State.INCORRECT


def test_only_a_correct_arm_has_a_number() -> None:
    def believable(state: State, correctness: Correctness) -> bool:
        book = process().arm
        book.state, book.correctness = state, correctness
        return book.believable

    assert {state for state in State if believable(state, Correctness.CORRECT)} == {
        *(State.PLANNED, State.STARTING, State.RUNNING),
        State.OK,
    }
    assert not any(believable(state, wrong) for state in State for wrong in (Correctness.UNKNOWN, Correctness.WRONG))


# -- limits ------------------------------------------------------------------------------------------------------------


def test_limits_come_from_the_environment_where_it_names_a_positive_number(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AISP_COMPILE_LIMIT_S", "AISP_PROGRESS_LIMIT_S", "AISP_TOTAL_LIMIT_S"):
        monkeypatch.delenv(name, raising=False)
    assert Limits.from_environment() == Limits(300.0, 60.0, 3600.0, 2.0)
    monkeypatch.setenv("AISP_COMPILE_LIMIT_S", "7.5")
    monkeypatch.setenv("AISP_PROGRESS_LIMIT_S", "2")
    monkeypatch.setenv("AISP_TOTAL_LIMIT_S", "90")
    assert Limits.from_environment() == Limits(7.5, 2.0, 90.0, 2.0, 7.5)


def test_a_runs_own_patience_is_with_its_rungs_and_never_more_than_the_limits() -> None:
    limits = Limits(300.0, 60.0)
    assert limits.within(90.0) == Limits(90.0, 60.0)
    assert limits.within(5.0) == Limits(5.0, 5.0)
    assert (limits.within(5.0).verifier_s, limits.within(5.0).total_s) == (300.0, 3600.0)


@pytest.mark.parametrize("nonsense", ["", "soon", "0", "-5", "nan"])
def test_a_limit_that_is_no_positive_number_is_the_usual_one(monkeypatch: pytest.MonkeyPatch, nonsense: str) -> None:
    monkeypatch.setenv("AISP_PROGRESS_LIMIT_S", nonsense)
    assert Limits.from_environment().progress_s == 60.0


def test_signals_are_told_by_name() -> None:
    assert [signal_name(number) for number in (11, 6, 9, 250)] == ["SIGSEGV", "SIGABRT", "SIGKILL", "signal 250"]
