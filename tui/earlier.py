"""Figures of earlier runs that still stand beside the newest run's: a run of one rung does not undo the others' times.

No Textual. What reads the store belongs into a thread.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from aisp.engine.affected import affected
from aisp.store.errors import StoreError
from aisp.store.results import hardware
from aisp.store.results.reading import Reading
from aisp.store.results.standing import tells

if TYPE_CHECKING:
    from aisp.kernels.catalog.model import Target
    from aisp.store import History
    from aisp.store.record import Run

MOST_RUNS = 60  # that are looked through


def environment(history: History, run: Run) -> dict[str, object]:
    """What a run ran on; empty where it was not kept."""
    if not run.environment:
        return {}
    try:
        return history.environment(run.environment)
    except LookupError:
        return {}


def foreign_machine(history: History, run: Run) -> str:
    """The machine that a run was imported from, "H100 · gpu-box"; "" for one that was made here."""
    return "" if history.made_here(run.id) else hardware.machine(run.device, environment(history, run))


def newest_first(history: History, target: Target, most: int) -> Iterator[Run]:
    """The newest runs of a target, then those of each name that it had before, read in pages that grow: who is content
    with the first few costs no more."""
    for name in (target.id, *target.formerly):
        before, page = None, 4
        while most > 0:
            runs = history.newest(min(page, most), name, before, all_findings=False)
            yield from runs
            most -= len(runs)
            if len(runs) < page:
                break
            before, page = runs[-1].id, 2 * page


def board(history: History, targets: Iterable[Target]) -> tuple[dict[str, Run], dict[str, Run]]:
    """The last result of every target, and newer attempts that say nothing; by the names that targets have today."""
    known = {target.id: target for target in targets}
    today = {name: target.id for target in known.values() for name in target.formerly if name not in known}
    results: dict[str, Run] = {}
    attempts: dict[str, Run] = {}
    for found, runs in ((results, history.board(all_findings=False)), (attempts, history.attempts())):
        for run in sorted(runs.values(), key=lambda run: run.id):
            found[today.get(run.target, run.target)] = run
    newer = {name: run for name, run in attempts.items() if name not in results or run.id > results[name].id}
    return results, newer


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
    """Rungs whose code is not what it was."""
    changed = {name for name in now.keys() | then.keys() if now.get(name) != then.get(name)}
    if not changed:
        return set()
    known = {rung.name for rung in target.rungs}
    # Of rungs that no edit runs again nobody knows what they import: any change touches them.
    refused = known - {rung.name for rung in target.honest_rungs}
    return (set(affected(target, changed)) or known) | refused
