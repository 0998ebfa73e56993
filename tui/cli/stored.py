"""Reading the store for commands: errors as messages, and what words mean in it.

Imports the store; commands import this module when they need an earlier run, not before.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

import click

from aisp.engine import paths
from aisp.store.errors import StoreError
from aisp.store.record import ContradictionError
from aisp.store.results.reading import Reading
from aisp.store.text import clean_line
from aisp.tui.cli import common
from aisp.tui.cli.tree import NotHereError
from aisp.tui.stored import Stored


class Opened(Stored):
    """The store, open for reading, and what the words of a command line mean in it."""

    def meant(self, word: str, roots: Sequence[str]) -> str | list[str]:
        """The id of the one run that `word` begins, or the targets that it means, by what was run before by what the
        catalogue of `roots` has: a target that was deleted keeps its history.

        Raises:
            LookupError: it means no run.
            MeantError: it means no target.
        """
        from aisp.kernels.catalog import Miss, TargetError, choosing  # the catalogue only for what was never run

        ran = self.targets()
        if word in ran:
            return [word]
        if ":" not in word:  # every target's id has one, no run's id does
            try:
                return self.run(word).id
            except LookupError:
                if common.begins_a_run(word):
                    raise
        elif not choosing.is_group(word, ran):
            return [word]
        try:
            return choosing.some(word, ran)
        except TargetError as error:
            if error.kind is not Miss.UNKNOWN:
                raise common.meant_error(error) from None
        catalog = common.load_catalog(roots)
        try:
            return choosing.some(word, catalog.ids, catalog.broken)
        except TargetError as error:
            raise common.meant_error(error) from None


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
            raise click.UsageError(clean_line(str(error), limit=2000)) from None
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
