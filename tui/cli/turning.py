"""Having the engine measure two versions of a rung in turns: the folder that holds both, and the run of it.

The folder lies below the state directory, where it stays until many newer ones are there: `aisp run --root` takes
it as any other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING

from aisp.kernels.catalog.contracts import Cache
from aisp.store.results import regression
from aisp.store.results.reading import cache_of
from aisp.tui.cli import common
from aisp.tui.cli.follow import Followed
from aisp.tui.cli.run import Session

if TYPE_CHECKING:
    from aisp.engine.protocol import requests
    from aisp.store.record import Run
    from aisp.store.results.reading import Reading

KEPT_COLLECTIONS = 32


@dataclass(frozen=True, slots=True)
class Manner:
    """How to measure: what must be the same as in the runs that the versions come from.

    Attributes:
        device: "auto", "cuda" or "cpu".
        case: a case's name; "" for the device's timed one.
        quick: fewer samples, and two replicas.
        replicas: fresh processes per arm; 0 for the default of the mode.
        cache, interleave, validity: as in a request for runs.
    """

    device: str = "auto"
    case: str = ""
    quick: bool = False
    replicas: int = 0
    cache: Cache = Cache.COLD
    interleave: bool = True
    validity: str = "strict"

    @classmethod
    def of(cls, record: Run, *, quick: bool = False) -> Manner:
        """As that run was measured, whether or not it was quick."""
        rule = record.manifest.get("stop_rule")
        rule = rule if isinstance(rule, Mapping) else {}
        return cls(
            device=record.device or "auto",
            case=record.case,
            quick=quick,
            cache=cache_of(rule) or Cache.COLD,
            interleave=rule.get("interleaved") is not False,
            validity=record.policy,
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


def settle(collection: str, folders: Mapping[str, Mapping[str, bytes]], manner: Manner) -> Turned:
    """As `turn`; what stays undecided is measured once more with more replicas."""
    first = turn(collection, folders, manner)
    again = {name: more for name, run in first.runs.items() if (more := regression.once_more(run))}
    runs = dict(first.runs)
    for name, more in again.items():
        common.note(f"{name}: undecided; measured once more with {more} replicas")
        runs |= turn(collection, {name: folders[name]}, replace(manner, replicas=more)).runs
    return Turned(runs, first.refused, again)


def turn(collection: str, folders: Mapping[str, Mapping[str, bytes]], manner: Manner) -> Turned:
    """Write the folders, have each run to its end, and say what came of it. Progress is told on stderr.

    Args:
        collection: names the folder that holds them; runs are of the targets COLLECTION:NAME.
        folders: by name, the files of each (kernels.catalog.between).

    Raises:
        NotHereError: the engine cannot be started or cannot take them.
        LeftError: Ctrl-C.
    """
    from aisp.engine import paths, written  # makes the state directory
    from aisp.engine.protocol import requests  # msgspec: only once there is something to send

    root = written.write(paths.turns_dir(), collection, folders, most=KEPT_COLLECTIONS)
    request = requests.StartRuns(
        seq=0,  # the connection numbers it
        roots=[str(root)],
        targets=[f"{collection}:{name}" for name in folders],
        **asdict(manner),
        naive=False,  # nobody asks it of two versions
    )
    session = _Turning(request)
    if asyncio.run(session.run()):
        raise LeftError
    prefix = f"{collection}:"
    runs = {run.record.target.removeprefix(prefix): run for run in session.runs if run.finished}
    return Turned(runs, {name.removeprefix(prefix): why for name, why in session.refused.items()})


class _Turning(Session):
    """Follows the runs without printing their results: these belong to whoever asked."""

    def __init__(self, request: requests.StartRuns) -> None:
        super().__init__(request, as_json=False)
        self._progress.quiet = True  # the live line alone: nobody reads every step of many runs

    def _report(self, run: Followed) -> None:
        self._progress.clear()
        common.mark(run)
