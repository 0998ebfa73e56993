"""Watches memory and processes of workers from outside, several times a second, and ends a worker over a limit.

Memory: when all workers together hold more than the limit, the one that holds most is ended with everything below it.
The kernel would do so a little later, when nothing is left, and might choose somebody else's process.

Processes: a worker with more processes below it than the limit is ended with all of them. They are halted first,
because processes that multiply cannot be killed one by one.

A look reads /proc alone: 0.2 ms for a worker that has started nothing, and never more than a twentieth of a core.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import time
from collections.abc import Iterable
from pathlib import Path

from aisp.engine import spawner
from aisp.engine.environment import descendants, memory_bytes
from aisp.engine.paths import positive_setting
from aisp.engine.spawner import Child, MemoryLimitError, ProcessLimitError

log = logging.getLogger("aisp.guard")

PERIOD_S = 0.25
MOST_SHARE = 0.05  # of a core, for looking
MEMORY_SHARE = 0.9  # of what there is: the rest is the engine's, the clients' and the files' in use
MEMORY_LIMIT_BYTES = int(positive_setting("AISP_MEMORY_LIMIT_BYTES", MEMORY_SHARE * (memory_bytes() or 1 << 62)))
PROCESS_LIMIT = int(positive_setting("AISP_PROCESS_LIMIT", 512))  # a compiler's pool of workers is far below it
MOST_HALT_S, HALT_PERIOD_S = 0.5, 0.001

# What a process holds that no file can give back, and the same with shared pages divided among those who share them.
HELD = ("RssAnon:", "RssShmem:", "VmSwap:")
HELD_IN_SHARES = ("Pss_Anon:", "Pss_Shmem:", "SwapPss:")


async def watch() -> None:
    """Look after all children of this process until cancelled."""
    while True:
        start = time.monotonic()
        try:
            await look()
        except Exception:
            log.exception("looking after the workers failed")
        await asyncio.sleep(max(PERIOD_S, (time.monotonic() - start) / MOST_SHARE))


async def look() -> None:
    """Look once at every worker and all below it, and end a worker over a limit."""
    # A worker that is being ended gives its memory back in a moment: no other is to blame.
    families = {child: descendants(child.pid) for child in spawner.living() if child.limit is None}
    for child, family in list(families.items()):
        if len(family) - 1 > PROCESS_LIMIT:
            pids = await asyncio.to_thread(halt, child.pid)
            _end(child, pids, ProcessLimitError(f"had {len(pids) - 1} processes, {PROCESS_LIMIT} are allowed"))
            del families[child]
    # The cheap count has shared pages once for each process; over the limit they are counted once in all.
    if sum(held_bytes(family) for family in families.values()) <= MEMORY_LIMIT_BYTES:
        return
    held = {child: await asyncio.to_thread(held_bytes, family, shares=True) for child, family in families.items()}
    if sum(held.values()) <= MEMORY_LIMIT_BYTES:
        return
    biggest = max(held, key=lambda child: held[child])
    if biggest.alive:
        reason = (
            f"held {_gib(held[biggest])} of memory, all workers together {_gib(sum(held.values()))}, "
            f"and {_gib(MEMORY_LIMIT_BYTES)} is the limit"
        )
        _end(biggest, await asyncio.to_thread(halt, biggest.pid), MemoryLimitError(reason))


def _end(child: Child, family: Iterable[int], limit: spawner.LimitError) -> None:
    log.warning("process %d %s; it is killed with all below it", child.pid, limit)
    child.cut_off(limit, family)


def halt(pid: int) -> set[int]:
    """Stop a process of ours and all below it, so that they start no more. Returns their PIDs.

    A process that was sent a stop may be about to start one more. So looks go on until one that found nobody new began
    when all stood still, 0.5 s at most: some wait for a disk and cannot stop.
    """
    halted: set[int] = set()
    still = False
    until = time.monotonic() + MOST_HALT_S
    while time.monotonic() < until:
        running = descendants(pid) - halted
        if still and not running:
            break
        for each in running:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(each, signal.SIGSTOP)
        halted |= running
        still = all(map(_stands_still, halted))
        if not still:
            time.sleep(HALT_PERIOD_S)
    return halted


def _stands_still(pid: int) -> bool:
    """Whether every thread of it is stopped, or has ended."""
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(OSError):
                state = (task / "stat").read_bytes().rpartition(b")")[2].split()[0]
                if state not in b"TtZX":
                    return False
    return True


def held_bytes(family: Iterable[int], *, shares: bool = False) -> int:
    """Memory and swap of these processes that is not a file's, in bytes.

    Args:
        shares: count a shared page once. Takes some 10 ms for a GB, and may wait for a process that is changing its
            memory: never call it so in the engine's own thread.
    """
    held_kib = 0
    for pid in family:
        shared_out_kib = _held_kib(pid, "smaps_rollup", HELD_IN_SHARES) if shares else 0
        held_kib += shared_out_kib or _held_kib(pid, "status", HELD)
    return held_kib << 10


def _held_kib(pid: int, file: str, names: tuple[str, ...]) -> int:
    """Sum of the lines that begin so; 0 where the kernel does not show them, as those of the verifier's shares."""
    with contextlib.suppress(OSError):
        lines = Path(f"/proc/{pid}/{file}").read_text("ascii", "replace").splitlines()
        return sum(int(line.split()[1]) for line in lines if line.startswith(names))
    return 0


def _gib(size_bytes: int) -> str:
    return f"{size_bytes / (1 << 30):.2f} GiB"
