"""`aisp restore`: an earlier version of a target's sources, written back by the engine, which keeps what
stands there."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

import click

from aisp.kernels.catalog.sources import not_restorable
from aisp.store.outcomes import State
from aisp.store.record import unplanned
from aisp.store.results import edits, repeating
from aisp.store.results.reading import Reading
from aisp.store.text import clean_line
from aisp.tui import plain
from aisp.tui.cli import common, resolve
from aisp.tui.cli.tree import EXIT_GOOD, MeantError, NotHereError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aisp.engine.protocol.events import Reply


LOOK_BACK_RUNS = 1000
HASH_DIGITS = 64


@click.command()
@common.target_argument
@click.argument("snapshot", metavar="SNAPSHOT|best", shell_complete=common.complete_runs)
@common.root_option
@click.option("--yes", is_flag=True, help="Do not ask.")
@common.json_option
def command(target_id: str, snapshot: str, roots: tuple[str, ...], yes: bool, as_json: bool) -> int:
    """Write the sources of an earlier run back into TARGET's folder.

    SNAPSHOT is the beginning of a snapshot's hash or of a run's id; `best` means the fastest version on the
    device and case of the newest run. What stands in the folder is kept in the store first, and its snapshot
    is named.

    Exit status: 0; 1 not confirmed; 2 no such snapshot; 3 the engine could not do it.
    """
    target = resolve.target(target_id, roots, live=True)
    where = clean_line(bytes(target.folder), limit=4096)
    if why := not_restorable(target.folder):
        raise MeantError(clean_line(os.fsencode(why)), kind="broken")
    if (run := _kept(snapshot)) is None:
        with common.history() as opened:
            found = opened.newest(LOOK_BACK_RUNS, target.id, all_findings=False)
            runs = [opened.read(record) for record in found if record.snapshot]
        run = choose(runs, target.id, snapshot)
    facts = [run.record.snapshot[:12]]
    facts += [f"run {run.id}", plain.local_time(run.record.wall), run.record.state] if run.id else []
    facts += [f"{plain.number(run.best_ms)} ms"] if run.best_ms is not None else []
    described = ", ".join(facts)
    what = f"{described}\ninto {where}; what is there is kept"
    if not common.confirmed("overwrites sources", what, "Write it back?", yes=yes, as_json=as_json):
        return 1
    reply = asyncio.run(_restore(common.engine_roots([target.root])[0], target.id, run.record.snapshot))
    if reply.error:
        raise NotHereError(reply.error)
    lines = [f"restored {described} into {where}"]
    if reply.detail:
        back = repeating.command("restore", target.id, target.folder, reply.detail)
        lines.append(f"what was there is kept; to bring it back: {back}")
    restored = {"target": target.id, "restored": run.record.snapshot, "run_id": run.id, "kept": reply.detail or None}
    common.answer(as_json, lambda: restored, lambda width: lines)
    return EXIT_GOOD


def _kept(snapshot: str) -> Reading | None:
    """A snapshot named by its whole hash: also one that no run has used, such as what an earlier restore kept."""
    if len(snapshot) != HASH_DIGITS:
        return None
    with common.history() as opened:
        try:
            opened.snapshot(snapshot)
        except LookupError:
            return None
    return Reading(unplanned("", snapshot=snapshot))


def choose(runs: Sequence[Reading], target_id: str, wanted: str) -> Reading:
    """The run whose sources `wanted` means; `runs` are newest first. Wrong usage where there is none, or more."""
    if not runs:
        raise click.UsageError(f"no run of {target_id} has kept its sources yet; `aisp run` makes one")
    if wanted == "best":
        newest = next((run for run in runs if run.record.state == State.OK), runs[0])
        wants = (newest.record.device, newest.record.case)
        alike = [run for run in runs if (run.record.device, run.record.case) == wants]
        times = ((run, edits.believed(run.record.state, run.record.validity, run.lead, run.hidden)) for run in alike)
        best = edits.best(times)
        if best is None:
            raise click.UsageError(f"no version of {target_id} was timed yet; give a snapshot from `aisp history`")
        return best
    low = wanted.lower()
    found = {
        run.record.snapshot: run
        for run in runs
        if run.record.snapshot.startswith(low) or run.id.lower().startswith(low)
    }
    if len(found) == 1:
        return next(iter(found.values()))
    if not found:
        newest = runs[0]
        raise click.UsageError(
            f"no snapshot of {target_id} begins with {wanted!r}; the newest is {newest.record.snapshot[:12]}, "
            f"and `aisp history {target_id} --json` names all"
        )
    raise click.UsageError(
        f"{len(found)} snapshots begin with {wanted!r}: {', '.join(s[:12] for s in found)}; give more"
    )


async def _restore(root: str, target_id: str, snapshot: str) -> Reply:
    from aisp.engine.client import connect  # asyncio and msgspec, 50 ms
    from aisp.engine.protocol import requests

    async with await connect(tell=common.say_waiting) as engine:
        what = {"root": root, "target": target_id, "snapshot": snapshot}
        return await engine.request(requests.Restore(seq=engine.next_seq(), **what))
