"""What each of two processes made of a rung: with two there is no interval worth the name, so both are shown."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from aisp.tui.aside import begin

if TYPE_CHECKING:
    from aisp.store import History
    from aisp.store.results.reading import Reading
    from aisp.store.samples import Samples
    from aisp.tui.screens.base import WorkScreen

Both = tuple[float, float]
PAIR = 2  # processes, whose medians are told one by one
MOST_RUNS = 100  # that the store is asked about at once, the newest


class ReplicaTimes:
    """Medians of each process of stored runs, read from their samples beside the loop, once each."""

    def __init__(self, screen: WorkScreen) -> None:
        self._screen = screen
        self._known: dict[str, Mapping[str, Both]] = {}  # by run and rung

    def of(self, run: Reading, rung: str) -> Both | None:
        """The two medians in ms, the smaller first; None where there are not two, or nobody has looked."""
        return self._known.get(run.id, {}).get(rung)

    def look_up(self, runs: Sequence[Reading], then: Callable[[], None]) -> None:
        """Read what is not known of these, oldest first, and call `then` where something came of it."""
        wanted = [
            run.id for run in runs if run.replicas == PAIR and run.record.state.final and run.id not in self._known
        ]
        if wanted:
            wanted = wanted[-MOST_RUNS:]
            self._known |= {run_id: {} for run_id in wanted}
            begin(self._screen, partial(self._read, wanted, then), group="replicas")

    async def _read(self, wanted: Iterable[str], then: Callable[[], None]) -> None:
        def read(history: History) -> dict[str, Mapping[str, Both]]:
            found: dict[str, Mapping[str, Both]] = {}
            for run_id in wanted:
                try:
                    found[run_id] = {
                        rung: both for rung, one in history.samples(run_id).items() if (both := medians(one))
                    }
                except LookupError:
                    continue  # removed meanwhile, or not committed yet
            return found

        found = await self._screen.workbench.stored(read) or {}
        self._known |= found
        if any(found.values()) and self._screen.is_mounted:
            then()


def medians(samples: Samples) -> Both | None:
    """The median of each of two processes over the samples that count."""
    kept = samples.discarded == 0
    by_process: dict[int, list[float]] = {}
    for replica, ms in zip(samples.replica[kept].tolist(), samples.device_ms[kept].tolist(), strict=True):
        by_process.setdefault(replica, []).append(ms)
    if len(by_process) != PAIR:
        return None
    low, high = sorted(sorted(times)[len(times) // 2] for times in by_process.values())
    return low, high
