"""From a failing case to the smallest one that still fails. No torch: whoever asks runs the cases.

    search = Shrinker(schema, case)
    while (smaller := search.propose()) is not None:
        search.answer(still_fails(smaller))
    search.best

Greedy, in passes: values and layouts become plain one by one, the dtype the first one, then each axis takes the lowest
candidate with which the case still fails. A pass that finds nothing ends the search, and so does the budget.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from aisp.checks.oracle.schema import Case, Layout, Schema, fits

MOST_TRIES = 48


class Shrinker:
    """One search. `best` is the smallest failing case so far, `tries` how many were asked for."""

    def __init__(self, schema: Schema, case: Case, most_tries: int = MOST_TRIES) -> None:
        self.best = case
        self.tries = 0
        self._schema = schema
        self._most = most_tries
        self._failed = False
        self._proposed: Case | None = None
        self._seen = {case.text}
        self._walk = self._search()

    def propose(self) -> Case | None:
        """The next case to try, None at the end."""
        if self.tries >= self._most:
            return None
        self._proposed = next(self._walk, None)
        self._failed = False
        if self._proposed is not None:
            self.tries += 1
        return self._proposed

    def answer(self, fails: bool) -> None:
        """Whether the proposed case failed too."""
        self._failed = fails
        if fails and self._proposed is not None:
            self.best = self._proposed

    def _search(self) -> Iterator[Case]:
        progress = True
        while progress:
            progress = False
            for smaller in (self._plainer, self._lower):
                for candidate in smaller():
                    if candidate.text in self._seen:
                        continue
                    self._seen.add(candidate.text)
                    yield candidate
                    progress = progress or self._failed

    def _plainer(self) -> Iterator[Case]:
        """Everything plain at once, then one thing at a time. Reads `best` anew for each."""
        if self.best.relation:
            yield replace(self.best, relation="")
        if self.best.layouts or self.best.values:
            yield replace(self.best, layouts={}, values={})
        for name in list(self.best.layouts):
            if name in self.best.layouts:
                yield replace(self.best, layouts={k: v for k, v in self.best.layouts.items() if k != name})
        for name in list(self.best.values):
            if name in self.best.values:
                yield replace(self.best, values={k: v for k, v in self.best.values.items() if k != name})
        if self._schema.dtypes and self.best.dtype != self._schema.dtypes[0]:
            yield replace(self.best, dtype=self._schema.dtypes[0])

    def _lower(self) -> Iterator[Case]:
        """Each axis lower: the least candidate first, then halfway up to where it is now."""
        names = sorted(self._schema.axes, key=lambda axis: -self.best.axes[axis.name])
        for axis in names:
            low, tried = 0, 0
            while tried < 8:
                below = sorted({*axis.boundary, *axis.regular})
                below = [n for n in below if low < n < self.best.axes[axis.name]]
                if not below:
                    break
                value = below[0] if tried == 0 else below[len(below) // 2]
                tried += 1
                candidate = replace(self.best, axes={**self.best.axes, axis.name: value})
                if fits(self._schema, candidate.axes):
                    yield candidate
                    if self.best is candidate:
                        continue
                low = value


def size(case: Case) -> float:
    """What smaller means between failures: product of the axes, then how many things are not plain."""
    volume = math.prod(max(n, 1) for n in case.axes.values())
    odd = len(case.values) + sum(layout is not Layout.CONTIGUOUS for layout in case.layouts.values())
    return volume * (1 + odd / 100)
