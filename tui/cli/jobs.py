"""`aisp jobs`: what the engine has to do, in its order, and how to change that."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import click

from aisp.store.results.tables import documents
from aisp.tui import jobs as words
from aisp.tui import plain
from aisp.tui.cli import common
from aisp.tui.cli.tree import EXIT_GOOD, EXIT_NO

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aisp.engine.protocol.events import QueueItem

NO_JOB = "no job of that name is queued or under way"
ACTIONS = {"up": ("job_ids",), "cancel": ("job_ids", "every"), "": ()}


@click.command()
@click.argument("job_ids", metavar="[JOB]...", nargs=-1)
@click.option("--up", is_flag=True, help="First let JOB go before the one that waits before it.")
@click.option("--cancel", is_flag=True, help="End each JOB: it is never begun, or is ended.")
@click.option("--all", "every", is_flag=True, help="With --cancel: all that is queued and under way.")
@common.json_option
def command(job_ids: tuple[str, ...], every: bool, as_json: bool, **_: bool) -> int:
    """List runs, fuzzes and measurements of ceilings in the order in which the engine carries them out.

    The list begins with what is under way; what waits is numbered. A job is named by its id or the beginning of it.

    Exit status: 0 the list is whole, also where it is empty or no engine runs, or all were ended; 1 a job could not be
    moved up, or was not there to be ended; 3 an engine runs and does not answer.
    """
    chosen = common.action(ACTIONS)
    if chosen == "cancel":
        return cancel(job_ids, every=every, as_json=as_json)
    if chosen and len(job_ids) != 1:
        raise click.UsageError("name the one JOB that goes up; `aisp jobs` lists them")
    moved = "".join(job_ids)
    queue, refused = asyncio.run(_queue(moved))
    rows = words.rows(queue, time.monotonic_ns())

    def lines(width: int | None) -> list[str]:
        return plain.listing(words.JOBS, rows, width=width) if rows else ["nothing is queued"]

    common.answer(as_json, lambda: {"jobs": documents(words.JOBS, rows)}, lines)
    if refused:
        common.note(f"{moved} was not moved up: {refused}")
    return EXIT_NO if refused else 0


def cancel(job_ids: Sequence[str], *, every: bool, as_json: bool) -> int:
    """End each job, or every one; the exit status."""
    if every == bool(job_ids):
        raise click.UsageError("name a JOB, or --all; `aisp jobs` lists them")
    ended, missing = asyncio.run(_cancel(job_ids))
    if as_json:
        common.say_document({"cancelled": ended, "missing": missing})
    else:
        common.say("\n".join(f"cancelled {job}" for job in ended) or "nothing was cancelled")
        for word in missing:
            common.note(f"no job {word!r} is queued or under way")
    return EXIT_NO if missing else EXIT_GOOD


async def _queue(moved: str) -> tuple[list[QueueItem], str]:
    """The queue, after this job was moved up in it, and why that could not be; "" for no job."""
    from aisp.engine.protocol import requests

    connection = await common.running(wait=False)
    if connection is None:
        return [], NO_JOB if moved else ""
    async with connection:
        queue, refused = (await connection.status()).queue, ""
        if moved:
            job = _named(moved, [item.run_id for item in queue])
            refused = NO_JOB
            if job:
                refused = (await connection.request(requests.MoveUp(seq=connection.next_seq(), run_id=job))).error
            queue = (await connection.status()).queue
        return queue, refused


def _named(word: str, known: Sequence[str]) -> str:
    """The id that a word is, or is the beginning of; "" where it is that of none or of several."""
    fitting = [job for job in known if job == word] or [job for job in known if job.startswith(word)]
    return fitting[0] if len(fitting) == 1 else ""


async def _cancel(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Ids of what was ended, and the words that name no one job. No words: all that there is."""
    from aisp.engine.protocol import requests

    connection = await common.running(wait=False)
    if connection is None:
        return [], list(words)
    async with connection:
        known = [item.run_id for item in (await connection.status()).queue]
        ended: list[str] = []
        missing: list[str] = []
        for word in words or known:
            reply = None
            if job := _named(word, known):
                reply = await connection.request(requests.Cancel(seq=connection.next_seq(), run_id=job))
            if reply is None or reply.error:
                missing.append(word)
            else:
                ended.append(job)
        return ended, missing
