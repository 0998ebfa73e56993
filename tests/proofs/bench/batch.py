"""Many runs asked for at once, and full runs: what a run costs where nobody waits for its first figure.

A quick run's time is that from one end to the next, so what the engine does between two runs is in it. A full run's is
from its turn to its stored verdict. Every target is a small pair of functions with sources of its own, so nothing that
was compiled for one serves another.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from aisp.engine.protocol import events, requests
from aisp.store.record import Step
from tests.proofs.bench.engines import connected, devices, real_engine, settled, temporary
from tests.proofs.bench.saves import BASELINE, OPTIMIZED, SIZE, write_target
from tests.proofs.bench.table import Aim, Row, parts_rows

NAME = "batch"
QUICK_AIM_S, SIXTH_AIM_S = Aim(3.0, "p50"), Aim(1.2, "p50")
CLEAR_AIM_S, FIVE_AIM_S = Aim(6.0, "p50"), Aim(12.0, "p50")
RUN_PATIENCE_S = 120.0
LOOK_S = 0.1  # between two looks at the memory of a run
CANDIDATES = 6
ARMS = "two arms and the A/A arm"

LARGE = 1 << 22  # elements, with which a GPU is at work on a kernel for longer than the host is on its launch
SLOW = """\
import torch


def run(x):
    for _ in range(8):
        y = x * (1 + torch.erf(x / 2**0.5))
    return y
"""
TRITON = """\
import torch
import triton
import triton.language as tl


@triton.jit
def scaled_gelu(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < n)
    tl.store(y + at, value * (1 + tl.erf(value * 0.7071067811865476)), mask=at < n)


def run(x):
    y = torch.empty_like(x)
    scaled_gelu[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), BLOCK=1024)
    return y
"""


@dataclass
class Taken:
    """One run: moments in CLOCK_MONOTONIC nanoseconds."""

    run_id: str
    started_ns: int = 0
    ended_ns: int = 0
    state: str = ""
    reason: str = ""
    steps: list[Step] = field(default_factory=list)

    @property
    def took_s(self) -> float:
        """From its turn to its stored verdict."""
        return (self.ended_ns - self.started_ns) / 1e9

    def parts_s(self) -> dict[str, float]:
        """For how long each of its steps was under way, in seconds: arms go side by side, replicas do not."""
        found: dict[str, float] = {}
        for name in dict.fromkeys(step.name for step in self.steps):
            end_ns = total_ns = 0
            for start_ns, own_end_ns in sorted(
                (step.start_ns, step.start_ns + int((step.duration_ms or 0) * 1e6))
                for step in self.steps
                if step.name == name
            ):
                total_ns += max(0, own_end_ns - max(start_ns, end_ns))
                end_ns = max(end_ns, own_end_ns)
            found[name] = total_ns / 1e9
        return found


def write_targets(root: Path, count: int, baseline: str, *rungs: str, size: int = SIZE) -> list[str]:
    """Make the collection `root` of so many targets with these rungs, and so many elements on a GPU; their ids."""
    for number in range(count):
        files = {"baseline.py": f"# {number}\n{baseline}"}
        for place, rung in enumerate(rungs):
            files[f"optimized_{place}.py" if place else "optimized.py"] = f"# {number}, {place}\n{rung}"
        write_target(root, f"gelu{number}", files, size)
    return [f"{root.name}:gelu{number}" for number in range(count)]


async def carry_out(
    environ: Mapping[str, str], root: Path, targets: Sequence[str], device: str, *, quick: bool, replicas: int = 0
) -> list[Taken]:
    """Ask for all at once, and wait for their ends; in the order in which they ended.

    Raises:
        RuntimeError: one of them was refused or did not end well.
        TimeoutError: one did not end.
    """
    async with connected(environ, warm=True) as connection:
        await settled(connection)
        reply = await connection.request(
            requests.StartRuns(
                seq=connection.next_seq(),
                roots=[str(root)],
                targets=list(targets),
                device=device,
                quick=quick,
                replicas=replicas,
            )
        )
        if reply.error or reply.refused:
            raise RuntimeError(reply.error or str(reply.refused))
        asked = {run_id: Taken(run_id) for run_id in reply.run_ids}
        ended: list[Taken] = []
        async with asyncio.timeout(RUN_PATIENCE_S * len(targets)):
            async for batch in connection.batches():
                for event in batch:
                    if (run := asked.get(getattr(event, "run_id", ""))) is not None:
                        _note(run, event)
                ended += [run for run in asked.values() if run.state and run not in ended]
                if len(ended) == len(asked):
                    break
    for run in ended:
        if run.state != "ok":
            raise RuntimeError(f"a run ended as {run.state}: {run.reason}")
    return sorted(ended, key=lambda run: run.ended_ns)


def _note(run: Taken, event: events.Event) -> None:
    if isinstance(event, events.RunState) and event.state == "starting":
        run.started_ns = event.at_ns
    elif isinstance(event, events.RunFinished):
        record = event.run
        run.state, run.reason, run.steps = record.state.value, record.reason, list(record.steps)
        run.ended_ns = run.started_ns + int((record.duration_ms or 0.0) * 1e6)


def turns_s(taken: Sequence[Taken]) -> tuple[float, ...]:
    """From one end to the next."""
    return tuple((later.ended_ns - earlier.ended_ns) / 1e9 for earlier, later in itertools.pairwise(taken))


def _an_hour(turns: Sequence[float], each: int) -> str:
    return f"{3600 * each * len(turns) / sum(turns):,.0f} candidates an hour" if turns else ""


def quick_rows(environ: Mapping[str, str], home: Path, device: str, where: str, count: int) -> Iterator[Row]:
    """Batches of quick runs."""
    kinds = [("PyTorch", OPTIMIZED)] + ([("Triton", TRITON)] if device == "cuda" else [])
    for kind, rung in kinds:
        root = home / f"{kind.lower()}_{device}"
        targets = write_targets(root, count, BASELINE, rung)
        taken = asyncio.run(carry_out(environ, root, targets, device, quick=True))
        turns = turns_s(taken)
        what = f"quick run of two arms from a batch, {kind}, {where}"
        yield Row(NAME, what, "s", turns, QUICK_AIM_S, _an_hour(turns, 1))
        yield from parts_rows(NAME, [run.parts_s() for run in taken[1:]], f"{kind}, {where}", "s")
    root = home / f"many_{device}"
    targets = write_targets(root, max(3, count // 2), BASELINE, *[OPTIMIZED] * CANDIDATES)
    turns = turns_s(asyncio.run(carry_out(environ, root, targets, device, quick=True)))
    each = tuple(turn / CANDIDATES for turn in turns)
    yield Row(
        NAME, f"a candidate of {CANDIDATES} of one target, {where}", "s", each, SIXTH_AIM_S, _an_hour(turns, CANDIDATES)
    )


def full_rows(environ: Mapping[str, str], home: Path, device: str, where: str, count: int) -> Iterator[Row]:
    """Full runs, of a pair that is far apart and with five replicas."""
    for name, baseline, size, replicas, aim in (
        ("a clear case", SLOW, LARGE, 0, CLEAR_AIM_S),
        ("five replicas", BASELINE, SIZE, 5, FIVE_AIM_S),
    ):
        root = home / f"{name.replace(' ', '_')}_{device}"
        targets = write_targets(root, count, baseline, OPTIMIZED, size=size)
        taken = asyncio.run(carry_out(environ, root, targets, device, quick=False, replicas=replicas))
        yield Row(NAME, f"full run, {name}, {where}", "s", tuple(run.took_s for run in taken), aim, ARMS)
        yield from parts_rows(NAME, [run.parts_s() for run in taken], f"{name}, {where}", "s")


@contextlib.contextmanager
def held_mb(engine: psutil.Process) -> Iterator[list[float]]:
    """What an engine and all that it started hold of the host's memory, in MB, looked at again and again until the
    block ends: pages that several have are counted in parts (PSS)."""
    found: list[float] = []
    ended = threading.Event()

    def look() -> None:
        while not ended.wait(LOOK_S):
            total = 0
            for process in [engine, *engine.children(recursive=True)]:
                with contextlib.suppress(psutil.Error):  # it has just ended
                    total += process.memory_full_info().pss
            found.append(total / 1e6)

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield found
    finally:
        ended.set()
        thread.join()


def memory_row(environ: Mapping[str, str], home: Path, engine: psutil.Process, device: str, where: str) -> Row:
    """The memory of one quick run, which nobody times."""
    root = home / f"memory_{device}"
    targets = write_targets(root, 1, BASELINE, OPTIMIZED)
    with held_mb(engine) as found:
        asyncio.run(carry_out(environ, root, targets, device, quick=True))
    most = max(found, default=0.0)
    note = "the engine, its standbys, the judge and all arms at once (PSS), at the most"
    return Row(NAME, f"memory of a quick run of two arms, {where}", "MB", (most,) if most else (), note=note)


def measure(*, quick: bool) -> Iterator[Row]:
    """On the CPU, and on the GPU where there is one."""
    for device, where, no_gpu in devices():
        if no_gpu:
            yield Row(NAME, "quick run of two arms from a batch, GPU", "s", (), QUICK_AIM_S, no_gpu)
            continue
        with temporary() as (home, environ), real_engine(environ) as engine:
            yield from quick_rows(environ, home, device, where, 4 if quick else 9)
            yield memory_row(environ, home, engine, device, where)
            yield from full_rows(environ, home, device, where, 1 if quick else 3)
