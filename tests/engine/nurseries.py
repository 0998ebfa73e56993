"""What forks for many tests of one process: a nursery takes seconds to begin."""

from __future__ import annotations

from aisp.engine import spawner
from aisp.engine.nursery import Nursery
from aisp.engine.pool import Pool


class Nurseries:
    """At most one of each kind, until they are closed."""

    def __init__(self) -> None:
        self._open: dict[bool, Nursery] = {}  # by whether they interpret

    def open(self, *, interpret: bool) -> Nursery:
        """The one there is. This process is in the engine's place from then on: what is forked falls to it."""
        spawner.become_subreaper()
        if interpret not in self._open:
            self._open[interpret] = spawner.open_nursery(interpret=interpret)
        return self._open[interpret]

    def close(self) -> None:
        """End them."""
        while self._open:
            spawner.close_nursery(self._open.popitem()[1])


class BorrowingPool(Pool):
    """A pool that interprets and whose nurseries outlive it."""

    def __init__(self, nurseries: Nurseries) -> None:
        super().__init__(interpret=True, open_nursery=nurseries.open)

    def _close_nurseries(self) -> None:
        self._nurseries.clear()
