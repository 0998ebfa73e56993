"""Having the engine measure two versions of a rung in turns: the folder that holds both, and the run of it.

The folder lies below the state directory, where it stays until many newer ones are there: `aisp run --root` takes
it as any other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from msgspec.structs import replace

from aisp.engine.protocol.requests import StartRuns
from aisp.kernels.catalog.contracts import Cache
from aisp.store.results import regression
from aisp.store.results.reading import cache_of
from aisp.tui.cli import common
from aisp.tui.cli.follow import Followed
from aisp.tui.cli.run import Session

if TYPE_CHECKING:
    from aisp.store.record import Run
    from aisp.store.results.reading import Reading

KEPT_COLLECTIONS = 32


def as_measured(record: Run, *, quick: bool = False) -> StartRuns:
    """A request for runs that are measured as that one was, whether or not it was quick; of which targets, it does not
    say."""
    rule = record.manifest.get("stop_rule")
    rule = rule if isinstance(rule, Mapping) else {}
    return StartRuns(
        seq=0,  # the connection numbers it
        targets=[],
        device=record.device or "auto",
        case=record.case,
        quick=quick,
        cache=cache_of(rule) or Cache.COLD,
        interleave=rule.get("interleaved") is not False,
        validity=record.policy,
        naive=False,  # nobody asks it of two versions
    )


@dataclass(frozen=True, slots=True)
class Turned:
    """What came of it.

    Attributes:
        runs: finished runs, by the name of the folder.
        refused: by the name of the folder, why it cannot be run here.
        again: by the name of the folder, with how many replicas it was measured once more, since it was undecided.
    """

    runs: Mapping[str, Reading]
    refused: Mapping[str, str]
    again: Mapping[str, int] = field(default_factory=dict)


class LeftError(Exception):
    """Ctrl-C ended it while sources were measured in turns."""


def settle(collection: str, folders: Mapping[str, Mapping[str, bytes]], how: StartRuns) -> Turned:
    """As `turn`; what stays undecided is measured once more with more replicas."""
    first = turn(collection, folders, how)
    again = {name: more for name, run in first.runs.items() if (more := regression.once_more(run))}
    runs = dict(first.runs)
    for name, more in again.items():
        common.note(f"{name}: undecided; measured once more with {more} replicas")
        runs |= turn(collection, {name: folders[name]}, replace(how, replicas=more)).runs
    return Turned(runs, first.refused, again)


def turn(collection: str, folders: Mapping[str, Mapping[str, bytes]], how: StartRuns) -> Turned:
    """Write the folders, have each run to its end, and say what came of it. Progress is told on stderr.

    Args:
        collection: names the folder that holds them; runs are of the targets COLLECTION:NAME.
        folders: by name, the files of each (kernels.catalog.between).
        how: they are measured, of which targets unsaid.

    Raises:
        NotHereError: the engine cannot be started or cannot take them.
        LeftError: Ctrl-C.
    """
    from aisp.engine import paths, written  # makes the state directory

    root = written.write(paths.turns_dir(), collection, folders, most=KEPT_COLLECTIONS)
    session = _Turning(replace(how, roots=[str(root)], targets=[f"{collection}:{name}" for name in folders]))
    if asyncio.run(session.run()):
        raise LeftError
    prefix = f"{collection}:"
    runs = {run.record.target.removeprefix(prefix): run for run in session.runs if run.finished}
    return Turned(runs, {name.removeprefix(prefix): why for name, why in session.refused.items()})


class _Turning(Session):
    """Follows the runs without printing their results: these belong to whoever asked."""

    def __init__(self, request: StartRuns) -> None:
        super().__init__(request, as_json=False)
        self._progress.quiet = True  # the live line alone: nobody reads every step of many runs

    def _report(self, run: Followed) -> None:
        self._progress.clear()
        common.mark(run)
