"""Long life: one engine carries out thousands of runs and edits, and is at the end what it was at the beginning.

What it holds and how fast it answers is looked at now and then, always with nothing running and all standbys warm; at
the end it is held against a fresh engine over the same store. Workers are stand-ins, but for some runs at either end.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psutil

from aisp.engine import spawner
from aisp.engine.client import EngineUnavailableError
from aisp.engine.journal import KEPT_BYTES
from aisp.store import upkeep
from aisp.store.reader import History
from tests.proofs.chaos.light import stand_ins
from tests.proofs.chaos.loop import give_up
from tests.proofs.chaos.world import LAYOUTS, TARGETS, World

BATCH = 10  # runs at a time, the last of them by a save
REPEATS = 15
WARM = 7  # of the watch: the verifier, and two rungs and the A/A arm of both replicas
SETTLED_RUNS = 40  # by then every import was made and every pool has its threads
GROWTH_BYTES = 16 << 20  # of the engine, from then to the end
BEYOND_FRESH_BYTES = 48 << 20  # what it may hold more than an engine that has carried out BATCH runs
SLOWER = 3.0  # times, and SLACK_MS
SLACK_MS = 20.0
MOST_THREADS = min(32, (os.cpu_count() or 1) + 4) + 4  # of the default pool; the loop's, the reader's, the watch's two
JOURNAL_BYTES = 2 * 65 << 20


@dataclass(frozen=True)
class Look:
    """What an engine holds and how fast it is, nothing running. Times are the least of some repeats.

    Attributes:
        runs: that it has carried out.
        descriptors, threads, resident_bytes: of its process.
        journal_bytes, database_bytes: on disk, the database with its log.
        layouts: snapshots laid out on disk.
        status_ms: to the answer of a status request.
        newest_ms, board_ms: reading the newest 50 runs, and the last run of every target; of processor time.
    """

    runs: int
    descriptors: int
    threads: int
    resident_bytes: int
    journal_bytes: int
    database_bytes: int
    layouts: int
    status_ms: float
    newest_ms: float
    board_ms: float


async def run(home: Path, runs: int, *, real: int, every: int, progress: Callable[[str], None]) -> dict[str, Any]:
    """Let an engine live through so many runs; the figures, with what was broken. Nothing is left running."""
    spawner.become_subreaper()
    world = World(home)
    started = time.monotonic()
    looks: dict[str, list[Look]] = {}
    broken: list[str] = []

    async def live(name: str, count: int, step: int) -> None:
        looks[name] = [look async for look in _live(world, count, step, lambda text: progress(f"{name}: {text}"))]

    try:
        world.light = False
        if real:
            await live("real workers before", real, real)
        world.light = True
        with stand_ins():
            await live("stand-ins", runs, every)
            await live("fresh engine", BATCH, BATCH)
        world.light = False
        if real:
            await live("real workers after", real, real)
    except (AssertionError, EngineUnavailableError, OSError) as error:
        broken.append(f"{type(error).__name__}: {error}")
    else:
        broken += compare(looks["stand-ins"], looks["fresh engine"][-1])
    finally:
        give_up(world)
    broken += world.ledger.check(world.store)
    ends = {told.state for told in world.ledger.finished.values()} - {"ok", "cancelled"}
    broken += [f"runs ended as {state}" for state in sorted(ends)]
    return {
        "runs": len(world.ledger.finished),
        "edits": len(world.ledger.edits),
        "took_s": round(time.monotonic() - started, 1),
        "looks": {name: [asdict(look) for look in seen] for name, seen in looks.items()},
        "broken": list(dict.fromkeys(broken)),
    }


async def _live(world: World, count: int, step: int, progress: Callable[[str], None]) -> Any:
    """One engine's life, from its start to its end, and how it looks after every `step` runs."""
    await world.connect()
    before = len(world.ledger.finished)
    yield await look(world, 0)
    done = 0
    while done < count:
        wanted = min(done + step, count)
        while done < wanted:
            count_now = max(min(BATCH, wanted - done) - 1, 1)
            world.plan([TARGETS[number % len(TARGETS)] for number in range(count_now)])
            await world.finish()
            edits = len(world.ledger.edits)
            world.save()
            await world.until(lambda: len(world.ledger.edits) > edits, "an edit after a save")  # noqa: B023
            await world.finish()
            done = len(world.ledger.finished) - before
        seen = await look(world, done)
        progress(f"{done} of {count} runs, {seen.resident_bytes >> 20} MiB, {seen.descriptors} descriptors")
        yield seen
    await world.stop()


async def look(world: World, runs: int) -> Look:
    """See `Look`."""
    await _steady(world)
    process = psutil.Process(world.pid)
    status_ms, descriptors = [], []
    for _ in range(REPEATS):
        descriptors.append(_descriptors(world))  # the least of them: one may be open for a moment
        start = time.perf_counter()
        await world.status()
        status_ms.append((time.perf_counter() - start) * 1e3)
    state = world.under_test.home / "state"
    with History(world.store) as history:
        newest_ms = _least_ms(lambda: history.newest(50, all_findings=False))
        board_ms = _least_ms(lambda: history.board(all_findings=False))
    return Look(
        runs=runs,
        descriptors=min(descriptors),
        threads=process.num_threads(),
        resident_bytes=process.memory_info().rss,
        journal_bytes=sum(file.stat().st_size for file in (state / "journal").iterdir()),
        database_bytes=upkeep.size_bytes(world.store),
        layouts=len(list((state / "snapshots").iterdir())) if runs else 0,
        status_ms=round(min(status_ms), 3),
        newest_ms=newest_ms,
        board_ms=board_ms,
    )


def _descriptors(world: World) -> int:
    """How many the engine holds, less the file or folder of the installation that it is looking at: that takes long."""
    home = str(world.under_test.home)
    held = 0
    for descriptor in Path(f"/proc/{world.pid}/fd").iterdir():
        try:
            target = descriptor.readlink()
        except FileNotFoundError:
            continue
        held += str(target).startswith((home, "/dev/")) or not target.exists()
    return held


async def _steady(world: World) -> None:
    """Wait until nothing runs and all standbys are warm."""
    while True:
        status = await world.status()
        if not status.queue and status.warm_workers == len(world.workers()) == WARM:
            return
        await asyncio.sleep(0.05)


def _least_ms(work: Callable[[], object]) -> float:
    times = []
    for _ in range(REPEATS):
        start = time.thread_time()
        work()
        times.append((time.thread_time() - start) * 1e3)
    return round(min(times), 3)


def compare(seen: list[Look], fresh: Look) -> list[str]:
    """What has grown or become slow, against the engine's own youth and a fresh engine; nothing where all is well."""
    settled = next((one for one in seen if one.runs >= SETTLED_RUNS), seen[-1])
    last = seen[-1]
    found = []
    # The journal has a second file from KEPT_BYTES on, and never a third.
    held, young, new = (one.descriptors - (one.journal_bytes > KEPT_BYTES) for one in (last, settled, fresh))
    if held != young or held > new:
        found.append(
            f"{last.descriptors} descriptors after {last.runs} runs, {settled.descriptors} after {settled.runs}, "
            f"{fresh.descriptors} in a fresh engine"
        )
    if last.threads > MOST_THREADS:
        found.append(f"{last.threads} threads after {last.runs} runs")
    grown = last.resident_bytes - settled.resident_bytes
    if grown > GROWTH_BYTES:
        found.append(f"the engine grew by {grown >> 20} MiB from run {settled.runs} to run {last.runs}")
    beyond = last.resident_bytes - fresh.resident_bytes
    if beyond > BEYOND_FRESH_BYTES:
        found.append(f"the engine holds {beyond >> 20} MiB more than a fresh one")
    if last.journal_bytes > JOURNAL_BYTES:
        found.append(f"the journal has {last.journal_bytes >> 20} MiB")
    if last.layouts > LAYOUTS:
        found.append(f"{last.layouts} snapshots are laid out")
    for name in ("status_ms", "newest_ms", "board_ms"):
        for other, when in ((settled, f"after {settled.runs} runs"), (fresh, "in a fresh engine")):
            now, then = getattr(last, name), getattr(other, name)
            if now > SLOWER * then + SLACK_MS:
                found.append(f"{name} is {now} after {last.runs} runs, and was {then} {when}")
    return found
