"""Figures of earlier runs that still stand beside the newest run's: a run of one rung does not undo the others' times.

No Textual. What reads the store belongs into a thread.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from aisp.engine.affected import affected
from aisp.engine.stored import environment
from aisp.store.errors import StoreError
from aisp.store.results import hardware
from aisp.store.results.reading import Reading
from aisp.store.results.standing import tells

if TYPE_CHECKING:
    from aisp.kernels.catalog.model import Target
    from aisp.store import History
    from aisp.store.record import Run

MOST_RUNS = 60  # that are looked through


def foreign_machine(history: History, run: Run) -> str:
    """The machine that a run was imported from, "H100 · gpu-box"; "" for one that was made here."""
    return "" if history.made_here(run.id) else hardware.machine(run.device, environment(history, run))


def runs_of(history: History, names: Iterable[str], most: int, before: str | None = None) -> list[Run]:
    """The newest runs of a target under all its names, those of before its folder was renamed too; newest first."""
    found = [run for name in names for run in history.newest(most, name, before, all_findings=False)]
    return sorted(found, key=lambda run: run.id, reverse=True)[:most]


def newest_first(history: History, names: Sequence[str], most: int) -> Iterator[Run]:
    """The newest runs of a target under all its names, read in pages that grow: who is content with the first few costs
    no more."""
    count, before, page = 0, None, 4
    while count < most:
        runs = runs_of(history, names, min(page, most - count), before)
        yield from runs
        count += page
        if len(runs) < page:
            return
        before, page = runs[-1].id, 2 * page


def standing(history: History, target: Target, newest: Reading) -> dict[str, Reading]:
    """By rung of which the newest run says nothing: the last run before it that does, and that still stands.

    It does where it was in the same folder, on the same device and case, and where what has changed in the
    sources since, up to the newest run's, does not touch the rung. One that was caught does not.

    Raises:
        LookupError: the newest run is not in the store (yet).
    """
    missing = {rung.name for rung in target.rungs if not tells(newest.arm(rung.name))}
    if not missing:
        return {}
    now = history.run(newest.id)
    sources = history.snapshot(now.snapshot)
    found: dict[str, Reading] = {}
    for run in history.newest(MOST_RUNS, target.id, before=now.id, all_findings=False):
        if not missing:
            break
        result = Reading(run)
        told = {arm.rung for arm in result.record.arms if tells(arm)} & missing
        if not told or not run.state.final or not _alike(history, target, now, run):
            continue
        try:
            touched = _touched(target, sources, history.snapshot(run.snapshot))
        except (LookupError, StoreError):
            continue  # what it ran cannot be told any more
        caught = result.caught
        for rung in told - touched:
            missing.discard(rung)
            if not {rung, ""} & caught.keys():
                found[rung] = result
    return found


def _alike(history: History, target: Target, one: Run, other: Run) -> bool:
    """Whether times of the two may stand in one table."""
    if other.folder != os.fsencode(target.folder) or (one.device, one.case) != (other.device, other.case):
        return False
    gpus = [environment(history, run).get("gpu") or "" for run in (one, other)]
    return one.environment == other.environment or gpus[0] == gpus[1]


def _touched(target: Target, now: dict[str, bytes], then: dict[str, bytes]) -> set[str]:
    changed = {name for name in now.keys() | then.keys() if now.get(name) != then.get(name)}
    if not changed:
        return set()
    known = {rung.name for rung in target.rungs}
    # Of rungs that no edit runs again nobody knows what they import: any change touches them.
    refused = known - {rung.name for rung in target.honest_rungs}
    return (set(affected(target, changed)) or known) | refused
