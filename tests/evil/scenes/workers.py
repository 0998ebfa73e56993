"""Rows 1 to 13, 42, 43 and 51: what a worker can do to itself, to its siblings and to the engine."""

from __future__ import annotations

from store.outcomes import State
from tests.evil.matrix import fault
from tests.evil.stage import Stage, assert_timed


@fault(1, "a worker dies of SIGSEGV", "crashed(SIGSEGV), the trace kept, siblings untouched", batch="deaths")
async def segfault(stage: Stage) -> str:
    result = await stage.batch("deaths")
    arm = result.arm("optimized_segfault")
    assert (arm.state, arm.signal, arm.signal_sent_by_us) == (State.CRASHED, 11, False)
    assert "optimized_segfault.py" in arm.detail
    assert_timed(result, "baseline")
    return arm.reason
