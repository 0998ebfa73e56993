"""The store with what is held against rungs, as frontends and doors read it. What reads belongs into a thread."""

from __future__ import annotations

import functools

from aisp.store.reader import History
from aisp.store.record import Run
from aisp.store.results.marks import Marks
from aisp.store.results.reading import Reading


class Readings(History):
    """The store, open for reading, with what is held against the rungs of its runs."""

    @functools.cached_property
    def marks(self) -> Marks:
        """Every quarantine there ever was."""
        return marks_of(self)

    def read(self, record: Run) -> Reading:
        """A stored run with what other runs hold against the code that ran in it."""
        return marked(record, self.marks)

    def facts(self, record: Run) -> dict[str, object]:
        """What a run ran on; empty where it was not kept."""
        if record.environment not in self._facts:
            self._facts[record.environment] = environment(self, record)
        return self._facts[record.environment]

    @functools.cached_property
    def _facts(self) -> dict[str, dict[str, object]]:
        return {}


def marks_of(history: History) -> Marks:
    """Every quarantine there ever was, as the store has them now."""
    return Marks(history.caught(), history.quarantines())


def marked(record: Run, marks: Marks) -> Reading:
    """A stored run with what other runs hold against the code that ran in it."""
    rungs = {arm.rung for arm in record.arms}
    bars = marks.of_code(record.folder, record.manifest)
    return Reading(record, {name: bar for name, bar in bars.items() if name in rungs and bar.run_id != record.id})


def environment(history: History, run: Run) -> dict[str, object]:
    """What a run ran on; empty where it was not kept."""
    if not run.environment:
        return {}
    try:
        return history.environment(run.environment)
    except LookupError:
        return {}
