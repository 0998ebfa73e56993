"""What an arm is put through after its samples were taken: calls in a row that the engine times by its own clock.

They cost some ten milliseconds a replica and stand outside of every sample. They are for the judges: see
checks.registry.Sustained.
"""

from __future__ import annotations

import math

from aisp.checks.registry import Sustained
from aisp.engine.arms import ArmProcess, ask
from aisp.engine.contention import Crowd
from aisp.engine.protocol import jobs, reports

STRETCH_MS = 6.0  # the engine's clock and the message's way are off by some 0.1 ms; a short one is seldom interrupted
MOST_CALLS = 2048
MARGIN, MOST_GROWTH = 1.25, 16.0  # a stretch that was too short is followed by one this much longer than it need be
DOUBT = 1.3  # a call that takes this much longer than claimed is looked at again
REPEATS = (2, 16)  # usual, in doubt


async def sustain(process: ArmProcess, case: str, patience_s: float) -> Sustained:
    """Call after call without a hold; the least time per call of several tries, by the engine's clock."""

    async def stretch(calls: int) -> tuple[float, float]:
        with Crowd(process.child.pid) as crowd:
            await ask(process.child, jobs.Sustain(case=case, calls=calls), reports.Sustained, patience_s, process.name)
        return crowd.wall_ms, crowd.alone_ms

    claimed_ms, host_ms = process.claimed_ms()
    nothing_ms = min([(await stretch(0))[0] for _ in range(REPEATS[0])])
    calls, (wall_ms, alone_ms) = 2, await stretch(2)
    for repeat in range(1, REPEATS[1]):
        # One that looked long enough may have been interrupted: the least of several tries tells.
        while wall_ms - nothing_ms < STRETCH_MS and calls < MOST_CALLS:
            calls = enough(calls, wall_ms - nothing_ms)
            wall_ms, alone_ms = await stretch(calls)
        per_call_ms = max(wall_ms - nothing_ms, 0.0) / calls
        if repeat >= REPEATS[0] and per_call_ms < DOUBT * max(claimed_ms, host_ms):
            break
        nothing_ms = min(nothing_ms, (await stretch(0))[0])
        again = await stretch(calls)
        wall_ms, alone_ms = min(wall_ms, again[0]), min(alone_ms, again[1])
    return Sustained(
        max(wall_ms - nothing_ms, 0.0) / calls, claimed_ms, host_ms, calls, max(alone_ms - nothing_ms, 0.0) / calls
    )


def enough(calls: int, took_ms: float) -> int:
    """How many calls take STRETCH_MS and somewhat more, where so many took `took_ms` beyond the message's way."""
    factor = MARGIN * STRETCH_MS / max(took_ms, MARGIN * STRETCH_MS / MOST_GROWTH)
    return min(math.ceil(calls * factor), MOST_CALLS)
