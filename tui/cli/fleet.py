"""`aisp fleet`: a folder of candidates for one target, over all GPUs of a Ray cluster.

The rows stand in `candidates.db` of this machine's state directory, and each is run by the engine of the host that it
is given to (engine.doors.fleet). A command that was killed goes on where it was. Ray is imported by a process apart.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from aisp.store.results import tables
from aisp.store.results.candidate import FINALISTS
from aisp.store.results.tables import Column, at, documents, fields
from aisp.store.text import clean_line
from aisp.tui import plain
from aisp.tui.cli import common
from aisp.tui.cli.tree import EXIT_GOOD, EXIT_NO, MeantError, NotHereError

if TYPE_CHECKING:
    from aisp.engine.doors.fleet.messages import Agent
    from aisp.engine.doors.many import Brought, Ended, Terms
    from aisp.store.candidates import Candidates, Row

MOST_BATCHES = 20
"""Batches that `status` lists, those that were planned last."""
MOST_DEAD = 20
"""Candidates that were given up which it lists of each."""


WHERE = ("agent", "host", "device", "gpu", "gpu_uuid")
"""What is said of where a candidate was run; null where it is not known."""
ACTIONS = {
    "agents_only": ("address", "wait_s"),
    "folder": ("against", "address", "finalists", "patience", "device", "case", "wait_s", "again"),
    "": (),
}


@click.command()
@click.argument("folder", metavar="[FOLDER]", required=False, type=click.Path(exists=True, file_okay=False))
@click.option(
    "--against",
    metavar="TARGET",
    help="What they are candidates for: a target, by its id or path, or a problem in a format of others.",
    shell_complete=common.complete_targets,
)
@click.option("--agents", "agents_only", is_flag=True, help="Show which agents a cluster has room for, one a GPU.")
@click.option(
    "--address",
    metavar="HOST:PORT",
    default="",
    help="The cluster's head; by default the cluster that this machine is part of.",
)
@click.option(
    "--finalists",
    type=click.IntRange(0, 100),
    default=FINALISTS,
    show_default=True,
    metavar="N",
    help="How many get a full run at most after the quick ones, the fastest; 0: none.",
)
@common.patience_option
@common.device_option
@common.case_option
@click.option(
    "--wait",
    "wait_s",
    type=click.FloatRange(1, 86400),
    default=120.0,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait for a cluster or for agents that are not there.",
)
@click.option("--again", is_flag=True, help="Judge them anew, though there are outcomes.")
@common.json_option
@click.pass_context
def command(
    ctx: click.Context,
    /,
    folder: str | None,
    against: str | None,
    address: str,
    finalists: int,
    patience: float | None,
    device: str,
    case: str | None,
    wait_s: float,
    again: bool,
    as_json: bool,
    **_: bool,
) -> None:
    """Judge every candidate in FOLDER over the GPUs of a Ray cluster. Without FOLDER show how many wait, are under
    way, have an outcome or were given up, which asks no cluster.

    A candidate is a Python file with run(), or a folder of sources. Each is one row: a whole comparison with the
    target's baseline, by the engine of one host, on one GPU. What has an outcome is not run once more, so the same
    command goes on where a killed one was.

    Ctrl-C leaves; runs that are under way go on to their ends, and are not made again.

    --agents places the agents, has each host's engine started, and takes them away again; it shows what keeps some
    away.

    Exit status: 0 one is right and faster than the baseline; 1 none is; 2 there is no such target, or no candidate; 3
    some could not be judged, or there is no Ray, no cluster, or nobody in it who takes rows; 130 left by Ctrl-C. With
    --agents: 0 one takes rows, 1 none does. Without FOLDER: 0.
    """
    chosen = common.action(ACTIONS)
    if chosen == "agents_only":
        ctx.exit(agents(address, wait_s, as_json=as_json))
    if folder is None:
        status(as_json=as_json)
        return
    if against is None:
        raise click.UsageError("--against TARGET says what they are candidates for")
    from aisp.engine.doors.fleet import running  # here and below: only where there is something to run
    from aisp.engine.doors.many import Terms
    from aisp.store.candidates import TakenError, TooManyError
    from aisp.tui.cli import judge_many

    if not running.installed():
        raise NotHereError(running.MISSING)
    try:
        brought = judge_many.brought_from(Path(folder).absolute(), against, case or "")
    except (ValueError, OSError) as error:  # RefusedError among them
        raise MeantError(str(error), kind="broken") from None
    terms = Terms(device, case or "", patience or 0.0, finalists, again=again)
    with common.candidates() as table:
        title = f"{Path(folder).absolute()} against {against}"
        session = Session(table, title, brought, terms, address, wait_s, as_json=as_json)
        try:
            ends = asyncio.run(session.fleet.work())
        except running.NoFleetError as error:
            told = f"{error}; {plain.counted(session.left, 'candidate')} left, and the same command goes on with them"
            raise NotHereError(told) from None
        except (TakenError, TooManyError) as error:
            raise NotHereError(str(error)) from None
        finally:
            session.progress.clear()
    ctx.exit(judge_many.report(ends, finalists=finalists, as_json=as_json, more=session.summary_lines()))


def status(*, as_json: bool) -> None:
    """Show how many candidates wait, are under way, have an outcome or were given up. Asks no cluster."""
    with common.candidates() as table:
        batches = [Batch(name, table.rows(name)) for name in table.batches()[:MOST_BATCHES]]
    common.answer(as_json, lambda: {"batches": documents(BATCHES, batches)}, status_lines, batches)


def agents(address: str, wait_s: float, *, as_json: bool) -> int:
    """Show which agents a cluster has room for, one for each GPU, and what keeps the others away; the exit status."""
    from aisp.engine.doors.fleet import running  # only where a cluster is asked

    if not running.installed():
        raise NotHereError(running.MISSING)
    try:
        found = asyncio.run(running.agents(address, patience_s=wait_s))
    except running.NoFleetError as error:
        raise NotHereError(str(error)) from None
    common.answer(as_json, lambda: {"agents": documents(AGENTS, found)}, plain.listing, AGENTS, found)
    return EXIT_GOOD if any(one.ready for one in found) else EXIT_NO


class Session:
    """One `fleet FOLDER` from the first plan to the last outcome, on the terminal.

    Attributes:
        fleet: which does the work.
    """

    def __init__(
        self,
        table: Candidates,
        title: str,
        brought: Sequence[Brought],
        terms: Terms,
        address: str,
        patience_s: float,
        *,
        as_json: bool,
    ) -> None:
        from aisp.engine.doors.fleet import running

        self._as_json = as_json
        self.progress = common.Progress()
        self._began_s = time.monotonic()
        self._by: dict[tuple[str, str], str] = {}  # candidate and level: the agent that had it run
        self.fleet = running.Fleet(
            table, title, brought, terms, self._end, address=address, say=self._say, patience_s=patience_s
        )

    @property
    def left(self) -> int:
        """How many have no outcome at the level that is under way."""
        return self.fleet.total - self.fleet.ended

    @property
    def _pace(self) -> str:
        return f"{len(self._by) / max(time.monotonic() - self._began_s, 1e-3) * 3600:,.0f} an hour"

    def _end(self, end: Ended) -> None:
        from aisp.tui.cli import judge_many

        if self._as_json:
            self.progress.clear()
            where = {name: str(value) if (value := end.where.get(name)) else None for name in WHERE}
            common.say_line({**tables.as_json(judge_many.ENDS, end), "where": where})
        said = end.outcome.word if end.outcome is not None else f"given up: {end.why}"
        self.progress.ended(f"{end.name}: {said}{' (known)' if end.known else ''}")
        if end.where and not end.known:
            self._by[end.candidate, end.level] = clean_line(str(end.where.get("agent") or "nobody"))
            self.progress.show(f"{self.left:,} of {self.fleet.total:,} candidates wait, {self._pace}", now=True)

    def _say(self, sentence: str) -> None:
        self.progress.clear()
        common.note(sentence)

    def summary_lines(self) -> list[str]:
        """How many were judged by whom, and how fast."""
        if not self._by:
            return []
        by = ", ".join(f"{count:,} by {agent}" for agent, count in sorted(Counter(self._by.values()).items()))
        took = plain.duration(max(time.monotonic() - self._began_s, 1e-3))
        return [f"{len(self._by):,} ended in {took}, {self._pace}: {by}"]


def status_lines(batches: Sequence[Batch], *, width: int | None) -> Iterable[str]:
    if not batches:
        yield "no candidates; `aisp fleet FOLDER --against TARGET` plans them"
    for batch in batches:
        counts = ", ".join(f"{count:,} {word}" for word in STANDINGS if (count := batch.counts[word]))
        yield f"{clean_line(batch.name, limit=1000)}: {counts}"
        for each, row in batch.dead:
            yield f"  {clean_line(each)}: given up after {row.attempts} attempts: {clean_line(row.reason, limit=500)}"


class Batch(NamedTuple):
    """Candidates that were planned together, by their names."""

    name: str
    rows: Sequence[tuple[str, Row]]

    @property
    def counts(self) -> Counter[str]:
        """How many rows are where."""
        return Counter(row.state.value for _, row in self.rows)

    @property
    def dead(self) -> list[tuple[str, Row]]:
        """Those that were given up, the first of them."""
        return [(name, row) for name, row in self.rows if row.state == "dead"][:MOST_DEAD]


def _counted(word: str, means: str) -> Column[Batch]:
    return Column(word, means, lambda batch: batch.counts[word])


STANDINGS = {
    "planned": "how many wait",
    "leased": "how many are under way",
    "done": "how many have an outcome",
    "dead": "how many were given up",
}
BATCHES: tuple[Column[Batch], ...] = (
    *fields("", {"name": "what was asked for"}),
    *(_counted(word, means) for word, means in STANDINGS.items()),
    Column("given_up", "those that were given up, each with `candidate`, `sha256` and `why`",
           lambda batch: [{"candidate": each, "sha256": row.candidate, "why": row.reason} for each, row in batch.dead]),
)  # fmt: skip
AGENTS: tuple[Column[Agent], ...] = (
    Column("name", "the agent: its host, and which GPU of it", at("name"), "agent"),
    *fields("", {"host": "as its runs are stored with", "ready": "whether it takes rows"}),
    Column("gpus", "how Ray names what it holds", at("gpus"), "gpus", lambda one: ",".join(one.gpus)),
    Column("devices", "what its engine can run on", at("devices"), "devices", lambda one: ", ".join(one.devices)),
    *fields("", {"build": "hash of the aisp there", "pid": "of its process"}),
    Column("state_dir", "where its engine keeps things", at("state"), "state folder"),
    Column("note", "why it takes no rows", at("note"), "note",
           lambda one: "takes rows" if one.ready else one.note or "is not there yet", shrink=True),
)  # fmt: skip
