"""`aisp bench jobs` and `aisp bench cancel`: what the engine has to do, in its order, and how to end it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import click

from aisp.engine import lock
from aisp.tui import plain
from aisp.tui.cli import common
from aisp.tui.cli.tree import EXIT_NO

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from aisp.engine.client import Connection
    from aisp.engine.protocol.events import QueueItem


@click.command()
@common.json_option
def jobs(as_json: bool) -> None:
    """List runs, fuzzes and measurements of ceilings in the order in which the engine carries them out.

    Exit status: 0 the list is whole, also where it is empty or no engine runs; 3 an engine runs and does not answer.
    """
    queue = asyncio.run(_queue())
    common.answer(
        as_json, lambda: {"jobs": [_document(item, place) for place, item in enumerate(queue)]}, _lines, queue
    )


@click.command()
@click.argument("job_ids", metavar="[JOB]...", nargs=-1)
@click.option("--all", "every", is_flag=True, help="End all that is queued and under way.")
@common.json_option
@click.pass_context
def cancel(ctx: click.Context, job_ids: tuple[str, ...], every: bool, as_json: bool) -> None:
    """End each JOB, by its id or the beginning of it: what is queued is never begun, what is under way is ended.

    `aisp bench jobs` lists the ids.

    Exit status: 0 all were ended; 1 some were not there; 3 an engine runs and does not answer.
    """
    if every == bool(job_ids):
        raise click.UsageError("name jobs, or --all; `aisp bench jobs` lists them")
    ended, missing = asyncio.run(_cancel(job_ids))
    if as_json:
        common.say_document({"cancelled": ended, "missing": missing})
    else:
        common.say("\n".join(f"cancelled {job}" for job in ended) or "nothing was cancelled")
        for word in missing:
            common.note(f"aisp: no job {word!r} is queued or under way")
    ctx.exit(EXIT_NO if missing else 0)


async def _connection() -> Connection | None:
    """To the engine that runs; None where none does."""
    from aisp.engine.client import EngineMismatchError, EngineUnavailableError, connect

    held = lock.holder()
    try:
        return await connect(start=False, wait=False)
    except EngineMismatchError:
        raise
    except EngineUnavailableError as error:
        common.none_runs(held, error)
        return None


async def _queue() -> list[QueueItem]:
    connection = await _connection()
    if connection is None:
        return []
    async with connection:
        return (await connection.status()).queue


async def _cancel(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Ids of what was ended, and the words that name no one job. No words: all that there is."""
    from aisp.engine.protocol import requests

    connection = await _connection()
    if connection is None:
        return [], list(words)
    async with connection:
        known = [item.run_id for item in (await connection.status()).queue]
        ended: list[str] = []
        missing: list[str] = []
        for word in words or known:
            fitting = [job for job in known if job == word] or [job for job in known if job.startswith(word)]
            reply = None
            if len(fitting) == 1:
                request = requests.Cancel(seq=connection.next_seq(), run_id=fitting[0])
                reply = await connection.request(request)
            if reply is None or reply.error:
                missing.append(word)
            else:
                ended.append(fitting[0])
        return ended, missing


def _lines(queue: Sequence[QueueItem], *, width: int | None) -> Iterator[str]:
    """For people: one row a job."""
    if not queue:
        yield "nothing is queued"
        return
    heads = ["", "target", "what", "state", "device", "from", "for", "takes some", "job"]
    rows = [
        [
            str(place),
            item.target,
            ("quick run" if item.quick else "full run") if item.kind == "run" else item.kind,
            item.state,
            item.device,
            item.trigger or plain.DASH,
            plain.DASH if item.elapsed_s is None else plain.duration(item.elapsed_s),
            plain.DASH if item.expected_s is None else plain.duration(item.expected_s),
            item.run_id,
        ]
        for place, item in enumerate(queue)
    ]
    yield from common.table(heads, rows, width=width)


def _document(item: QueueItem, place: int) -> dict[str, Any]:
    """One job, for JSON."""
    from msgspec import to_builtins  # already imported with the client

    return {"place": place, **to_builtins(item)}
