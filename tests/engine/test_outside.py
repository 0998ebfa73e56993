"""The judge's clock: what comes of batches that another process times, feeds and reads."""

from __future__ import annotations

import math
import socket
from pathlib import Path

import pytest

from aisp.engine import statistics
from aisp.engine.protocol.batches import Done, Line, LineError, Run, strides
from aisp.engine.statistics import Ratio, confirmed_outside, outside
from aisp.engine.worker import clock
from aisp.store.outcomes import Correctness, State, Verdict
from tests.engine.harness import EngineUnderTest
from tests.engine.targets import write_target

FASTER = Ratio(2.0, 1.9, 2.1, 0.01, Verdict.FASTER, 0.001, "")


def test_tensors_of_a_batch_lie_apart_and_aligned() -> None:
    assert strides([1, 512, 513]) == ([0, 512, 1024], 2048)
    assert strides([]) == ([], 0)


def test_a_line_says_what_came_and_that_the_other_side_has_left() -> None:
    mine, theirs = (Line(end.detach(), 1.0) for end in socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET))
    mine.send(Run(calls=3))
    assert theirs.receive() == (Run(calls=3), [])
    theirs._socket.send(b"no message")
    with pytest.raises(LineError, match="no message"):
        mine.receive()
    theirs.send(Done())
    theirs.close()
    assert isinstance(mine.receive()[0], Done)
    with pytest.raises(LineError, match="left"):
        mine.receive()


def test_the_judges_time_is_the_median_over_replicas_and_its_error_what_they_differ_by() -> None:
    assert outside([]) is None
    assert outside([(0, -1.0)]) is None
    time_ms, error = outside([(0, 1.0), (0, 1.0), (1, 1.2), (1, 1.2)]) or (0.0, 0.0)
    assert time_ms == pytest.approx(1.1)
    assert error == pytest.approx(statistics.MAD_TO_DEVIATION * 0.1 / math.sqrt(2) / 1.1)


@pytest.mark.parametrize(("base_ms", "rung_ms", "verdict"), [(2.0, 1.0, Verdict.FASTER), (1.0, 1.0, Verdict.UNDECIDED)])
def test_faster_must_hold_by_the_judges_clock(base_ms: float, rung_ms: float, verdict: Verdict) -> None:
    found = confirmed_outside(FASTER, (base_ms, 0.01), (rung_ms, 0.01))
    assert found.verdict is verdict
    assert ("judge" in found.note) == (verdict is Verdict.UNDECIDED)


def test_without_the_judges_clock_a_verdict_stays() -> None:
    assert confirmed_outside(FASTER, None, (1.0, 0.01)) is FASTER


def test_a_batch_that_no_gpu_takes_ahead_of_time_has_fewer_calls_until_none_are_held() -> None:
    side = object.__new__(clock._DeviceSide)
    side.held, found = True, [64]
    while side.held:
        side.late = True
        found.append(side.fewer(found[-1]))
        assert not side.late
    assert found == [64, 16, 4, 1, 1]


CPU = '\n[[cases]]\nname = "cpu"\naxes = { N = 4096 }\n'
LATE = """
calls = 0
def run(x):
    global calls
    calls += 1
    y = x * 2
    import sys
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_filename.endswith("batches.py"):
            y.zero_()
        frame = frame.f_back
    return y
"""


async def test_an_arm_is_timed_and_read_from_outside(shared: EngineUnderTest, tmp_path: Path) -> None:
    target = write_target(tmp_path, {"optimized_lazy.py": LATE}, axes="{ N = 4096 }", cases=CPU)
    result = await shared.run(tmp_path, target.id, device="cpu", quick=True)
    arms = {arm.rung: arm for arm in result.record.arms}
    honest = arms["optimized"].quality
    assert honest is not None
    assert honest.inside is not None or (honest.outside_ms or 0) > 0
    assert honest.inside is not None or (honest.outside_read or 0) >= 1
    lazy = arms["optimized_lazy"]
    assert (lazy.state, lazy.correctness) == (State.INCORRECT, Correctness.WRONG)
    assert "the judge had made" in lazy.reason
