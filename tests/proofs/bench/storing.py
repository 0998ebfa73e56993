"""The store with 10,000 runs of 160 targets: what the first screen reads, what the end of a run writes, verify."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from aisp.store import History, Store, upkeep
from tests.proofs.bench.table import Row
from tests.store.examples import finished, planned, samples_of
from tests.store.generated import fill

NAME = "storing"
RUNS = 10_000
SAMPLES = 1000


def _timed_ms(work: Callable[[], object], times: int) -> tuple[float, ...]:
    took: list[float] = []
    for _ in range(times):
        start = time.perf_counter()
        work()
        took.append((time.perf_counter() - start) * 1e3)
    return tuple(took)


def measure(*, quick: bool) -> Iterator[Row]:
    """Reads and one kind of write."""
    runs = RUNS // 10 if quick else RUNS
    times = 10 if quick else 30
    with tempfile.TemporaryDirectory(prefix="aisp-bench-") as folder:
        path = Path(folder) / "aisp.db"
        fill(path, runs)
        where = f"{runs:,} runs"
        with History(path) as history:
            if len(history.newest(50)) != 50 or not history.board():
                raise RuntimeError("the generated store is empty")
            yield Row(NAME, f"store: newest(50) of {where}", "ms", _timed_ms(lambda: history.newest(50), times))
            yield Row(NAME, f"store: board() of {where}", "ms", _timed_ms(history.board, times))
        yield Row(NAME, f"store: verify of {where}", "ms", _timed_ms(lambda: upkeep.verify(path), 3))
        took: list[float] = []
        with Store.open(path) as store:
            for number in range(times):
                run = planned(snapshot="")
                store.plan([run])
                end = finished(run, samples=SAMPLES)
                samples = {arm.rung: samples_of(SAMPLES, seed=number) for arm in end.arms}
                start = time.perf_counter()
                store.finish(end, samples)
                took.append((time.perf_counter() - start) * 1e3)
        yield Row(
            NAME,
            f"store: commit of a run with {len(samples)}x{SAMPLES} samples",
            "ms",
            tuple(took),
            note=f"{where}, with its fsync",
        )
