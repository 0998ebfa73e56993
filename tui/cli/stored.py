"""Reading the store for commands: errors as messages, and runs with what is held against their rungs.

Imports the store and with it numpy; commands import this module when they need an earlier run, not before.
"""

from __future__ import annotations

import contextlib
import functools
import sqlite3
from collections.abc import Iterator, Sequence

from aisp.engine import paths
from aisp.kernels.catalog import choosing
from aisp.store import History
from aisp.store.errors import StoreError
from aisp.store.record import ContradictionError, Run
from aisp.store.results.contract import TEMPERATURE
from aisp.store.results.reading import Reading
from aisp.store.text import clean_line
from aisp.tui.cli import common, quarantine, resolve
from aisp.tui.cli.quarantine import Marks
from aisp.tui.cli.tree import MeantError, NotHereError
from aisp.tui.earlier import environment


class Opened(History):
    """The store, open for reading, with what is held against the rungs of its runs."""

    @functools.cached_property
    def marks(self) -> Marks:
        """Every mark on a rung. Raises NotHereError where they cannot be read."""
        try:
            return quarantine.read(self.path)
        except sqlite3.Error as error:
            raise NotHereError(f"marks on rungs cannot be read from {self.path}: {error}") from None

    def read(self, record: Run) -> Reading:
        """A run as it is read. History has taken out the figures of rungs that are marked."""
        rungs = {arm.rung for arm in record.arms}
        found = self.marks.of_code(record.folder, record.manifest)
        return Reading(record, {name: bar for name, bar in found.items() if name in rungs and bar.run_id != record.id})

    def meant(self, word: str, roots: Sequence[str]) -> str | list[str]:
        """The id of the one run that `word` begins, or the targets that it means, by what was run before by what the
        catalogue of `roots` has: a target that was deleted keeps its history.

        Raises:
            MeantError: it means neither.
        """
        if not choosing.is_path(word):
            try:
                return choosing.some(word, self.targets())
            except choosing.TargetError as error:
                if error.kind is not choosing.Miss.UNKNOWN:
                    raise common.meant_error(error) from None
        found = resolve.meant(word, lambda: common.load_catalog(roots))
        return [target.id for target in found] if isinstance(found, list) else found.id

    def one(self, word: str) -> str:
        """The id of the run that `word` begins, or of the last result of the target that it means.

        Raises:
            LookupError: there is none.
            MeantError: it means no target, or several.
        """
        meant = self.meant(word, ())
        if isinstance(meant, str):
            return meant
        if len(meant) != 1:
            raise MeantError(f"{clean_line(word)!r} means {len(meant)} targets; name one", meant, kind="ambiguous")
        found = self.board(all_findings=False).get(meant[0])
        if found is None:
            raise LookupError(f"no result of {meant[0]!r} is stored; `aisp run TARGET` makes one")
        return found.id

    def facts(self, record: Run) -> dict[str, object]:
        """What a run ran on; empty where it was not kept."""
        return environment(self, record)

    def facts_and_temperature(self, record: Run) -> dict[str, object]:
        """The same, and how warm its GPU became at most, where that was read."""
        telemetry = self.telemetry(record.id)
        degrees = [float(value) for value in telemetry.temperature_c if value > 0] if telemetry is not None else []
        return {**self.facts(record), **({TEMPERATURE: max(degrees)} if degrees else {})}


@contextlib.contextmanager
def history() -> Iterator[Opened]:
    """The store, open for reading; what it cannot do becomes a message with the right exit status."""
    with Opened(paths.database_file()) as opened:
        try:
            yield opened
        except LookupError as error:
            # KeyError and IndexError are ours to repair, not the person's.
            if type(error) is not LookupError:
                raise
            raise MeantError(clean_line(str(error), limit=2000)) from None
        except (StoreError, ContradictionError) as error:
            raise NotHereError(str(error)) from None
    for run_id, why in opened.damaged.items():
        common.note(f"aisp: warning: run {run_id} is damaged and left out: {clean_line(why)}")


def finished_view(run_id: str) -> Reading | None:
    """The stored run of that id as it is read, None where it has not ended or is not there."""
    with history() as opened:
        try:
            record = opened.run(run_id)
        except LookupError:
            return None
        return opened.read(record) if record.state.final else None
