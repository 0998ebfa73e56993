"""Reading the store for commands: errors as messages, and what words mean in it.

Imports the store; commands import this module when they need an earlier run, not before.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

import click

from aisp.engine import paths
from aisp.kernels.catalog import choosing
from aisp.store.errors import StoreError
from aisp.store.record import ContradictionError
from aisp.store.results.reading import Reading
from aisp.store.text import clean_line
from aisp.tui.cli import common, resolve
from aisp.tui.cli.tree import MeantError, NotHereError
from aisp.tui.stored import Stored


class Opened(Stored):
    """The store, open for reading, and what the words of a command line mean in it."""

    def meant(self, word: str, roots: Sequence[str]) -> str | list[tuple[str, ...]]:
        """The id of the one run that `word` begins, or the targets that it means, each by all its names, by what was
        run before by what the catalogue of `roots` has: a target that was deleted keeps its history.

        Raises:
            MeantError: it means neither.
        """
        if not choosing.is_path(word):
            try:
                every = {self._names(one, roots) for one in choosing.some(word, self.targets())}
                return sorted(names for names in every if not any(set(names) < set(other) for other in every))
            except choosing.TargetError as error:
                if error.kind is not choosing.Miss.UNKNOWN:
                    raise common.meant_error(error) from None
        found = resolve.meant(word, lambda: common.load_catalog(roots))
        return [target.names for target in found] if isinstance(found, list) else found.id

    def target(self, word: str, roots: Sequence[str]) -> tuple[str, ...]:
        """All names of the one target that `word` means, of a run the one that ran. MeantError where it is not one."""
        meant = self.meant(word, roots)
        if isinstance(meant, str):
            return self._names(self.run(meant).target, roots)
        if len(meant) != 1:
            names = [one[0] for one in meant]
            raise MeantError(f"{clean_line(word)!r} means {len(meant)} targets; name one", names, kind="ambiguous")
        return meant[0]

    def _names(self, target_id: str, roots: Sequence[str]) -> tuple[str, ...]:
        """What runs call a target that was run under this name."""
        try:
            names = resolve.of_run(self.newest(1, target_id, all_findings=False)[0], roots).names
        except (click.ClickException, IndexError):  # it is gone or does not load, or its newest run is damaged
            return (target_id,)
        return names if target_id in names else (target_id,)

    def one(self, word: str) -> str:
        """The id of the run that `word` begins, or of the last result of the target that it means.

        Raises:
            LookupError: there is none.
            MeantError: it means no target, or several.
        """
        if isinstance(meant := self.meant(word, ()), str):
            return meant
        names = self.target(word, ())
        found = [run for name in names if (run := self.last_result(name))]
        if not found:
            raise LookupError(f"no result of {names[0]!r} is stored; `aisp run TARGET` makes one")
        return found[0]


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
            raise MeantError(str(error)) from None
        except (StoreError, ContradictionError) as error:
            raise NotHereError(str(error)) from None
    common.warn(f"run {run_id} is damaged and left out: {why}" for run_id, why in opened.damaged.items())


def finished_view(run_id: str) -> Reading | None:
    """The stored run of that id as it is read, None where it has not ended or is not there."""
    with history() as opened:
        try:
            record = opened.run(run_id)
        except LookupError:
            return None
        return opened.read(record) if record.state.final else None
