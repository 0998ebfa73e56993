"""The kill loop: whatever is killed at whatever moment, what was told stays true.

Each round ends one of engine, worker, verifier and app with SIGKILL at a random point, while runs and edits go on;
then whatever is missing is started again. Or it moves, removes or copies the store, or fills the disk, which the next
round's kill may find under way. All of it happens over one state folder. `Ledger` says what must hold.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import random
import signal
import statistics
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from aisp.engine import spawner
from aisp.engine.client import EngineUnavailableError
from aisp.store.outcomes import FindingStatus
from tests.proofs.chaos.light import stand_ins
from tests.proofs.chaos.world import PATIENCE_S, ROOT, TARGETS, World

VICTIMS = {"engine": 25, "worker": 25, "verifier": 20, "nursery": 15, "app": 10}
FAULTS = {"store moved": 6, "store removed": 4, "store copied": 6, "disk full": 4}
MOST_FULL_S = 1.5
MOST_EVENTS = 120  # about as many as a run has: the kill comes at a random one
EVENTS_PATIENCE_S = 1.0
JITTER_S = 0.02
MOST_OPEN = 4  # runs on the way when a round begins
SAVE_CHANCE, CANCEL_CHANCE, ASK_CHANCE = 0.4, 0.05, 0.7


@dataclass
class Tally:
    """What a loop did and what it saw.

    Attributes:
        killed: how often each was killed.
        faults: how often each befell the store.
        copies: how many copies of it said that they are whole, and that they are not.
        engine_killed_after: the last word of each engine that was killed.
        restarts_s: from the kill of an engine to the answer of the next.
        outlived_s: how long workers outlived their engine.
        rounds: by kind of workers.
    """

    seed: int
    rounds: Counter[str] = field(default_factory=Counter)
    killed: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    copies: Counter[str] = field(default_factory=Counter)
    engine_killed_after: Counter[str] = field(default_factory=Counter)
    restarts_s: list[float] = field(default_factory=list)
    outlived_s: list[float] = field(default_factory=list)
    took_s: float = 0.0
    broken: list[str] = field(default_factory=list)
    figures: dict[str, Any] = field(default_factory=dict)

    def plain(self) -> dict[str, Any]:
        """As a report has it."""
        return {
            "seed": self.seed,
            "rounds": dict(self.rounds),
            "killed": dict(self.killed),
            "faults": dict(self.faults),
            "copies": dict(self.copies),
            "engine_killed_after": dict(self.engine_killed_after.most_common()),
            "restart_s": _spread(self.restarts_s),
            "workers_outlived_engine_s": _spread(self.outlived_s),
            "took_s": round(self.took_s, 1),
            **self.figures,
            "broken": self.broken,
        }


def _spread(times_s: list[float]) -> dict[str, float] | None:
    if not times_s:
        return None
    return {"median": round(statistics.median(times_s), 3), "most": round(max(times_s), 3)}


async def run(
    home: Path, *, light: int, real: int, seed: int, progress: Callable[[str], None], most_s: float = math.inf
) -> Tally:
    """So many rounds with stand-ins and with real workers, and what was broken. Nothing is left running.

    No round with stand-ins begins after `most_s`.
    """
    spawner.become_subreaper()
    tally = Tally(seed)
    chance = random.Random(seed)
    started = time.monotonic()
    world = World(home)
    try:
        with stand_ins():
            await _rounds(world, light, chance, tally, progress, started + most_s)
        world.light = False
        await _rounds(world, real, chance, tally, progress)
    except (AssertionError, EngineUnavailableError, OSError) as error:
        tally.broken.append(f"{type(error).__name__}: {error}")
    finally:
        give_up(world)
    tally.broken += world.ledger.check(world.store)
    tally.broken = list(dict.fromkeys(tally.broken))
    tally.took_s = time.monotonic() - started
    stored = list(world.ledger.stored(world.store).values())
    states = Counter(record.state.value for record in stored)
    caught = Counter(f.check for record in stored for f in record.findings if f.status is FindingStatus.CAUGHT)
    tally.figures = {
        "runs": {
            "told as planned": len(world.ledger.planned),
            "told as ended": len(world.ledger.finished),
            "stored": len(stored),
            "never told, lost with their engine": len({run.id for run in stored} - set(world.ledger.planned)),
        },
        "stores_before": len(world.ledger.before),
        "states": dict(states.most_common()),
        "caught_by": dict(caught),
        "slow_starts": world.slow_starts,
        "edits_told": len(world.ledger.edits),
        "samples_told": sum(sum(arms.values()) for arms in world.ledger.samples.values()),
        "store_bytes": world.store.stat().st_size,
    }
    return tally


async def _rounds(
    world: World,
    count: int,
    chance: random.Random,
    tally: Tally,
    progress: Callable[[str], None],
    deadline: float = math.inf,
) -> None:
    """Rounds with one kind of workers, and the end of everything after them."""
    if not count:
        return
    kind = "stand-ins" if world.light else "real workers"
    for number in range(1, count + 1):
        await _ready(world, chance)
        await _random_moment(world, chance)
        await _kill(world, chance, tally)
        tally.rounds[kind] += 1
        if number % 50 == 0 or number == count:
            done = dict(tally.killed + tally.faults)
            progress(f"{number} of {count} with {kind}, {len(world.ledger.planned)} runs, {done}")
        if world.ledger.broken or time.monotonic() > deadline:
            break
    # After all that, an honest run must end well, and nothing must be left.
    await _ready(world, chance)
    await world.finish()
    before = set(world.ledger.planned)
    world.plan([TARGETS[0]])
    await world.finish()
    after = [run_id for run_id in world.ledger.planned if run_id not in before]
    # The last save may be seen only now: its run is none of these.
    ends = [world.ledger.finished[each] for each in after if world.ledger.planned[each] == f"{ROOT}:{TARGETS[0]}"]
    if [end.state for end in ends] != ["ok"]:
        told = [f"{end.state}: {end.reason}" for end in ends]
        world.ledger.broken.append(f"the run after all rounds ended as {told}")
    await world.stop()
    tally.broken += world.ledger.check(world.store)


async def _ready(world: World, chance: random.Random) -> None:
    """Whatever was killed is there again, and there is work."""
    if not world.connected:
        await world.connect()
    if world.app is None:
        world.start_app()
    await world.finish(MOST_OPEN)
    if chance.random() < SAVE_CHANCE:
        world.save()
    if not world.open or chance.random() < ASK_CHANCE:
        world.plan(chance.sample(TARGETS, chance.randint(1, len(TARGETS))))
    if world.open and chance.random() < CANCEL_CHANCE:
        await world.cancel(chance.choice(world.open))


async def _random_moment(world: World, chance: random.Random) -> None:
    """Wait for a random number of events, and a little longer."""
    wanted = world.heard + chance.randrange(MOST_EVENTS)
    deadline = time.monotonic() + EVENTS_PATIENCE_S
    while world.heard < wanted and time.monotonic() < deadline:  # noqa: ASYNC110  a count, not an event
        await asyncio.sleep(0.002)
    await asyncio.sleep(chance.uniform(0, JITTER_S))


async def _kill(world: World, chance: random.Random, tally: Tally) -> None:
    """End one of them, or harm the store. The verifier is the oldest process of the engine, or will be."""
    (victim,) = chance.choices([*VICTIMS, *FAULTS], [*VICTIMS.values(), *FAULTS.values()])
    if victim in FAULTS:
        if not world.store.exists():  # moved, and its engine has not found out yet
            return
        tally.faults[victim] += 1
        if victim == "store moved":
            world.move_store()
        elif victim == "store removed":
            await world.remove_store()
        elif victim == "store copied":
            tally.copies["whole" if await world.copy_store() else "not whole"] += 1
        else:
            await world.fill_disk(chance.uniform(0, MOST_FULL_S))
        return
    workers = world.workers() if victim in ("worker", "verifier") else []
    nurseries = world.nurseries() if victim == "nursery" else []
    if (victim in ("worker", "verifier") and len(workers) < 2) or (victim == "nursery" and not nurseries):
        victim = "engine"
    tally.killed[victim] += 1
    if victim == "app":
        world.kill_app()
    elif victim == "engine":
        tally.engine_killed_after[world.last] += 1
        started = time.monotonic()
        outlived_s, gone = await world.kill_engine()
        tally.outlived_s.append(outlived_s)
        await world.connect()
        tally.restarts_s.append(time.monotonic() - started)
        world.ledger.broken += world.ledger.lost(world.store, gone)
    elif victim == "nursery":
        with contextlib.suppress(psutil.NoSuchProcess):
            chance.choice([nurseries[0].kill, nurseries[0].suspend])()
    else:
        chosen = workers[0] if victim == "verifier" else chance.choice(workers[1:])
        with contextlib.suppress(ProcessLookupError):
            os.kill(chosen.pid, signal.SIGKILL)


def give_up(world: World) -> None:
    """End what a loop that broke off has left."""
    world.kill_app()
    for process in world.under_test.strays():
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    deadline = time.monotonic() + PATIENCE_S
    while world.under_test.strays() and time.monotonic() < deadline:
        time.sleep(0.01)
