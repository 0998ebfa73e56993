"""`python -m tests.proofs ranks`: what a rank that is killed leaves, and what is said of rungs that are all the same.

A target whose rungs take the mean of a tensor over two ranks, on two GPUs where there are such, else over gloo. First
a rank is killed with SIGKILL at random moments of quick runs, and a run is asked for right behind each: how the killed
one ended, and how long until there was a good one. Then full runs compare rungs that are the same: every FASTER or
SLOWER is a mistake. Their samples say how far apart ranks leave the barrier, and what part of a time that is. Prints
one JSON object, and each of its parts on stderr as it comes.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil

from aisp.engine.protocol import events
from aisp.store.outcomes import State
from aisp.store.record import Run
from aisp.store.results.ranks import straggler
from tests.engine.harness import EngineUnderTest, Stream
from tests.engine.targets import write_target

RANKS = 2
SAYS = "process "  # how a rank tells its pid: what it prints reaches whoever listens, behind the rank's number
MEAN = f"""\
import os

import torch.distributed as dist

print(f"{SAYS}{{os.getpid()}}", flush=True)


def run(x):
    y = x / dist.get_world_size()
    dist.all_reduce(y)
    return y
"""
REFERENCE = "def run(x):\n    return x.double().mean(0).expand(x.shape).contiguous()\n"
LIMITS = {"AISP_PROGRESS_LIMIT_S": "60", "AISP_TOTAL_LIMIT_S": "1800", "AISP_COMPILE_LIMIT_S": "120"}
PATIENCE_S = 900.0


def write(root: Path, device: str, name: str, rungs: Sequence[str]) -> str:
    """A target whose rungs are all the same; its id."""
    numbers = 1 << (24 if device == "cuda" else 16)  # 64 MiB over the link, and 256 KiB through gloo
    target = write_target(
        root,
        {"reference.py": REFERENCE, "baseline.py": MEAN, **{f"{rung}.py": MEAN for rung in rungs}},
        name=name,
        axes=f"{{ N = {numbers} }}",
        more=f"ranks = {RANKS}\ntolerance = {{ float32 = 1e-5 }}\n",
        inputs=f'x = "float32 [{RANKS}, N] normal"',
        outputs=f'y = "float32 [{RANKS}, N]"',
        cases=f'[[cases]]\nname = "cpu"\naxes = {{ N = {numbers} }}',
    )
    return target.id


async def ended(stream: Stream, run_id: str) -> Run:
    """The run at its end."""
    return await stream.finish(run_id, patience_s=PATIENCE_S)


# -- a rank is killed --------------------------------------------------------------------------------------------------


async def killed(
    engine: EngineUnderTest, root: Path, target: str, device: str, usual_s: float, chance: random.Random
) -> dict[str, Any]:
    """Kill a rank at a random moment of a run, with another run right behind it."""
    async with engine.stream() as stream:
        run_id, behind = [(await stream.plan(root, target, device=device, again=True))[0] for _ in range(2)]
        await stream.until(events.RunState, lambda e: (e.run_id, e.state) == (run_id, "starting"))
        moment_s = chance.uniform(0.0, usual_s)
        await asyncio.sleep(moment_s)
        whose, pid = await living_rank(stream, run_id, chance)
        if pid is None:
            record = await ended(stream, run_id)
            await ended(stream, behind)
            return {"moment_s": moment_s, "killed": "", "outcome": record.state.value, "why": "it had ended before"}
        steps = [event.step for event in stream.of_run(run_id) if isinstance(event, events.Step)]
        os.kill(pid, signal.SIGKILL)
        at_s = time.monotonic()
        record = await ended(stream, run_id)
        ended_s = time.monotonic() - at_s
        after = await ended(stream, behind)
        good_s = time.monotonic() - at_s
    arms = {arm.rung: arm for arm in record.arms}
    return {
        "moment_s": round(moment_s, 2),
        "killed": whose,
        "step": steps[-1].name if steps else "",
        "outcome": arms[whose].state.value,
        "why": arms[whose].reason,
        "others": sorted({arm.state.value for name, arm in arms.items() if name != whose}),
        "run_ended_s": round(ended_s, 2),
        "next_run": after.state.value,
        "next_good_s": round(good_s, 2),
        "left_behind": len([process for process in engine.strays() if process.pid in pids(stream, run_id)]),
    }


def pids(stream: Stream, run_id: str) -> dict[int, str]:
    """The ranks of a run that have told their pid, with their arm."""
    told = [event for event in stream.of_run(run_id) if isinstance(event, events.Output)]
    return {int(line.partition(SAYS)[2]): event.arm for event in told for line in event.lines if SAYS in line}


async def living_rank(stream: Stream, run_id: str, chance: random.Random) -> tuple[str, int | None]:
    """One of the ranks that live now, as soon as there is one; none where the run ends before."""
    while not any(isinstance(event, events.RunFinished) for event in stream.of_run(run_id)):
        stream.seen += stream.connection.take()
        alive = {pid: arm for pid, arm in pids(stream, run_id).items() if psutil.pid_exists(pid)}
        if alive:
            pid = chance.choice(sorted(alive))
            return alive[pid], pid
        await asyncio.sleep(0.01)
    return "", None


# -- rungs that are the same -------------------------------------------------------------------------------------------


async def compared(engine: EngineUnderTest, root: Path, target: str, device: str) -> dict[str, Any]:
    """One full run of rungs that are the same: its verdicts, and how nearly ranks begin together."""
    async with engine.stream() as stream:
        began_s = time.monotonic()
        (run_id,) = await stream.plan(root, target, device=device, quick=False, replicas=0, again=True)
        record = await ended(stream, run_id)
    arms = [arm for arm in record.arms if arm.ranks is not None and arm.median_ms is not None]
    floors = [item.floor for item in record.comparisons if item.floor is not None]
    return {
        "outcome": record.state.value,
        "why": record.reason,
        "took_s": round(time.monotonic() - began_s, 1),
        "verdicts": dict(Counter(item.verdict.value for item in record.comparisons)),
        "floor": max(floors, default=None),
        "arms": [told_of(arm) for arm in arms],
    }


def told_of(arm: Any) -> dict[str, Any]:
    """An arm's time, and the skew of its ranks in us and as a part of it."""
    return {
        "rung": arm.rung,
        "median_ms": arm.median_ms,
        "skew_us": arm.ranks.skew_us,
        "skew_most_us": arm.ranks.skew_most_us,
        "skew_share": arm.ranks.skew_us / 1e3 / arm.median_ms,
        "straggler": straggler(arm.ranks),
        "clocks_mhz": [rank.sm_clock_mhz for rank in arm.ranks.each],
    }


# -- the whole ---------------------------------------------------------------------------------------------------------


def told(found: dict[str, Any]) -> dict[str, Any]:
    """The same, after it was printed: who stops the proof early has what was found so far."""
    print(json.dumps(found), file=sys.stderr, flush=True)
    return found


async def prove(home: Path, device: str, *, kills: int, runs: int, rungs: int, seed: int) -> dict[str, Any]:
    """All of it, in one engine."""
    engine = EngineUnderTest(home / "engine", **LIMITS)
    root, chance = home / "mine", random.Random(seed)
    pair = write(root, device, "pair", ["optimized"])
    same = write(root, device, "same", ["optimized", *(f"optimized_{number}" for number in range(2, rungs + 1))])
    await engine.start()
    try:
        warm: list[float] = []
        for _ in range(2):  # the second has processes that stand by, as those have whose ranks are killed
            began_s = time.monotonic()
            result = await engine.run(root, pair, device=device, again=True, patience_s=PATIENCE_S)
            assert result.record.state is State.OK, result.record.reason
            warm.append(time.monotonic() - began_s)
        deaths = [told(await killed(engine, root, pair, device, warm[-1], chance)) for _ in range(kills)]
        found = [told(await compared(engine, root, same, device)) for _ in range(runs)]
    finally:
        engine.terminate()
    verdicts: Counter[str] = Counter()
    for one in found:
        verdicts.update(one["verdicts"])
    return {
        "device": device,
        "seed": seed,
        "usual_run_s": round(warm[-1], 2),
        "killed": deaths,
        "comparisons": sum(verdicts.values()),
        "verdicts": dict(verdicts),
        "runs": found,
        "load": os.getloadavg()[0],
    }


def wrong(found: Mapping[str, Any]) -> list[str]:
    """What should not have been: a next run that is not good, a rank that lives on, a verdict about the same code."""
    told = [f"after {death}" for death in found["killed"] if death.get("next_run", "ok") != "ok"]
    told += [f"left behind after {death}" for death in found["killed"] if death.get("left_behind")]
    told += [f"{count} {verdict}" for verdict, count in found["verdicts"].items() if verdict in ("faster", "slower")]
    return told + [f"a run of the same rungs: {one['why']}" for one in found["runs"] if one["outcome"] != "ok"]


def main() -> int:
    """0 where nothing was as it should not be."""
    parser = argparse.ArgumentParser(prog="python -m tests.proofs ranks", description="Ranks killed, and compared.")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cuda")
    parser.add_argument("--kills", type=int, default=10, metavar="N")
    parser.add_argument("--runs", type=int, default=5, metavar="N", help="of rungs that are the same")
    parser.add_argument("--rungs", type=int, default=10, metavar="N", help="in each, beside the baseline")
    parser.add_argument("--seed", type=int, default=28, metavar="N")
    parser.add_argument("--out", type=Path, metavar="FILE", help="also write the object there")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ranks-") as home:
        given = {"kills": asked.kills, "runs": asked.runs, "rungs": asked.rungs, "seed": asked.seed}
        found = asyncio.run(prove(Path(home), asked.device, **given))
    text = json.dumps(found | {"wrong": wrong(found)}, indent=1)
    if asked.out is not None:
        asked.out.write_text(text)
    print(text)
    return int(bool(wrong(found)))


if __name__ == "__main__":
    sys.exit(main())
