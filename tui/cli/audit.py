"""`aisp dev audit`: the gallery of cheats and honest twins through the ordinary engine, and the confusion matrix.

A fixture is one quick run of its twin and its cheats, with what a naive harness says of each. Where a check spoke
of the run as a whole, or an arm was not reached, the rungs concerned run once more, each alone: then it is known whose
doing it was. Kernels are on trial here, not the machine: the runs are portable, so that a busy machine warns only.

The engine runs the fixtures; this asks for a few at a time, so that Ctrl-C leaves little behind.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import click

from aisp.store.outcomes import State
from aisp.store.record import unplanned
from aisp.store.results.audit import (
    Kind,
    Outcome,
    Row,
    again_alone,
    by_category,
    judge,
    rungs_of,
    taken,
    tally,
)
from aisp.store.results.prediction import PORTABLE
from aisp.store.results.tables import Column, at, documents, fields, printed
from aisp.store.text import clean_line
from aisp.tui import plain
from aisp.tui.cli import common
from aisp.tui.cli.follow import Followed, Follower, progress_line
from aisp.tui.cli.interruptible import Interruptible
from aisp.tui.cli.tree import EXIT_GOOD, EXIT_INTERRUPTED, EXIT_NO, EXIT_NOT_HERE

if TYPE_CHECKING:
    from aisp.engine.client import Connection
    from aisp.engine.protocol import events
    from aisp.engine.trust import FixtureView

WIDE = 120
"""Cells from which on there is room for our interval beside everything else."""
AT_A_TIME = 4
"""Runs that are asked for before their results are in."""


@dataclass(slots=True)
class Case:
    """One fixture on its way.

    Attributes:
        runs: by rung, the run that speaks for it.
        alone: ids of runs of a single rung: what is said of such a run is said of its rung.
        left: runs that have not ended.
        refused: what the engine said where it did not take the fixture.
    """

    fixture: FixtureView
    runs: dict[str, Followed] = field(default_factory=dict)
    alone: set[str] = field(default_factory=set)
    left: int = 1
    refused: str = ""


@click.command()
@click.argument("selectors", metavar="[CATEGORY|FIXTURE]...", nargs=-1)
@common.device_option
@click.option(
    "--keep-going/--no-keep-going",
    "keep_going",
    default=True,
    show_default=True,
    help="Whether to go on after a cheat that was missed or a twin that was flagged.",
)
@common.json_option
def command(selectors: tuple[str, ...], device: str, keep_going: bool, as_json: bool) -> int:
    """Run every cheat of the gallery and its honest twin through the engine, and count who was caught.

    CATEGORY is one of the checks' categories (timing), FIXTURE a folder of the gallery (timing:unsynced_streams).
    Beside each stands what a naive harness would have said: one pair of clocks around ten calls, allclose on one
    shape.

    Exit status: 0 no cheat was missed and no twin flagged; 1 one was; 2 no such fixture; 3 nothing could be run here;
    130 left by Ctrl-C.
    """
    from aisp.engine import trust  # every category's file and the gallery: only where they are run

    gallery = trust.gallery()
    common.warn(gallery.problems)
    chosen = choose(trust.fixtures(), selectors)
    audit = Audit(chosen, str(trust.gallery_root()), device=device, keep_going=keep_going)
    interrupted = asyncio.run(audit.run())
    rows = audit.rows
    tables = {"categories": documents(CATEGORIES, by_category(rows)), "fixtures": documents(FIXTURES, rows)}
    common.answer(as_json, lambda: {"device": audit.device, **tables}, lines, audit.device, rows)
    return EXIT_INTERRUPTED if interrupted else exit_status(rows)


def choose(fixtures: Sequence[FixtureView], selectors: Iterable[str]) -> list[FixtureView]:
    """The fixtures that `selectors` mean, each once; all where none is given. Wrong usage where one means nothing."""
    chosen: dict[str, FixtureView] = {}
    for word in (wanted := list(selectors)):
        name = word.replace("/", ":").replace(".", ":")
        found = [fixture for fixture in fixtures if name in (fixture.category, fixture.target_id)]
        if not found:
            names = [*dict.fromkeys(f.category for f in fixtures), *(f.target_id for f in fixtures)]
            what = f"no fixture or category {word!r} in the gallery"
            raise common.unknown(what, name, names, "`aisp checks` lists what proves each check", most=3)
        chosen |= {fixture.target_id: fixture for fixture in found}
    return list(chosen.values()) if wanted else list(fixtures)


def exit_status(rows: Sequence[Row]) -> int:
    """1 where a cheat was missed or a twin flagged, else 3 where nothing could be run, else 0."""
    if any(row.outcome.bad for row in rows):
        return EXIT_NO
    return EXIT_GOOD if any(row.outcome is not Outcome.UNAVAILABLE for row in rows) else EXIT_NOT_HERE


# -- following the engine ----------------------------------------------------------------------------------------------


class Audit(Interruptible):
    """One `dev audit` from the first request to the last run.

    Attributes:
        rows: what came of each rung, fixture by fixture in the order given; of those that have ended so far.
    """

    LEFT = "`aisp engine` shows what still runs"

    def __init__(self, fixtures: Sequence[FixtureView], root: str, *, device: str, keep_going: bool) -> None:
        super().__init__()
        self._judged: dict[str, list[Row]] = {}
        self._order = [fixture.target_id for fixture in fixtures]
        self._root = root
        self._device = device
        self._keep_going = keep_going
        self._waiting = deque((Case(fixture), rungs_of(fixture)) for fixture in fixtures)
        self._going: dict[str, tuple[Case, list[str]]] = {}  # by run id: what it is to say something of
        self._follower = Follower([])

    @property
    def rows(self) -> list[Row]:
        return [row for name in self._order for row in self._judged.get(name, [])]

    @property
    def device(self) -> str:
        """Where the arms ran: "cuda" where any did; what was asked for where none did."""
        ran = {
            run.record.device
            for run in self._follower.runs.values()
            if not run.record.state.silent and run.record.device
        }
        return next((name for name in ("cuda", "cpu") if any(d.startswith(name) for d in ran)), self._device)

    def to_cancel(self) -> list[str]:
        self._drop_waiting()
        return list(self._going)

    async def _follow(self, engine: Connection) -> bool:
        return await self._settle(engine) or await self._listen(engine)

    def _take(self, event: events.Event) -> None:
        from aisp.engine.protocol import events  # already imported by the connection

        run = self._follower.apply(event)
        if run is not None and isinstance(event, events.RunFinished):
            self._finished(run)

    async def _settle(self, engine: Connection) -> bool:
        for run in await self._follower.catch_up(engine):
            self._finished(run)
        await self._fill(engine)
        return not self._going

    async def _fill(self, engine: Connection) -> None:
        """Ask for the next runs. A fixture that the engine does not take is unavailable, in its words."""
        from aisp.engine.protocol import requests  # msgspec: already imported by the connection

        while self._waiting and len(self._going) < AT_A_TIME and not self.interrupts:
            case, rungs = self._waiting.popleft()
            reply = await engine.request(
                requests.StartRuns(
                    seq=engine.next_seq(),
                    roots=[self._root],
                    targets=[case.fixture.target_id],
                    rungs=rungs,
                    # A GPU has no part in what runs on the host everywhere.
                    device="auto" if case.fixture.on_host else self._device,
                    quick=True,
                    naive=True,
                    validity=PORTABLE,
                    trigger="cli",
                )
            )
            if reply.error or not reply.run_ids:
                case.refused = reply.error or "the engine planned no run"
                self._judge(case)
                continue
            run_id = reply.run_ids[0]
            self._follower.runs[run_id] = Followed(unplanned(run_id, case.fixture.target_id))
            self._going[run_id] = (case, rungs)

    def _finished(self, run: Followed) -> None:
        """Take a run's end in: it speaks for its rungs, but for those that have to run once more alone."""
        asked = self._going.pop(run.id, None)
        if asked is None:
            return
        case, rungs = asked
        again: list[str] = []
        if len(rungs) == 1:
            case.alone.add(run.id)
        elif not run.record.state.cut_short and run.record.state is not State.UNAVAILABLE:
            # What failed us may be one rung's doing: each alone says whose.
            again = again_alone(run, rungs)
        case.runs |= {rung: run for rung in rungs if rung not in again}
        if not self.interrupts:
            case.left += len(again)
            self._waiting.extendleft((case, [rung]) for rung in reversed(again))
        self._judge(case)

    def _drop_waiting(self) -> None:
        # Fixtures that have begun are judged by what there is.
        waiting, self._waiting = self._waiting, deque()
        for case, _ in waiting:
            if case.runs:
                self._judge(case)

    def _judge(self, case: Case) -> None:
        """One of a fixture's runs has ended, or will not come; after the last of them it is judged."""
        case.left -= 1
        if case.left > 0:
            return
        rows = self._judged[case.fixture.target_id] = judge(case.fixture, case.runs, case.alone, case.refused)
        self._progress.clear()
        told = ", ".join(f"{row.rung} {row.outcome}{by(row)}" for row in rows)
        common.tell(clean_line(f"[{len(self._judged)}/{len(self._order)}] {case.fixture.target_id}: {told}"))
        if not self._keep_going and any(row.outcome.bad for row in rows):
            self._drop_waiting()

    def _draw(self) -> None:
        going = [self._follower.runs[run_id] for run_id in self._going]
        run = next((r for r in going if r.record.state is not State.PLANNED), going[0] if going else None)
        if run is not None:
            number, now_ns = min(len(self._judged) + 1, len(self._order)), time.monotonic_ns()
            line = progress_line(run, self._follower, number, len(self._order), self.elapsed_s, now_ns=now_ns)
            self._progress.show(line)


# -- telling -----------------------------------------------------------------------------------------------------------


def by(row: Row) -> str:
    """ " by timing.wall_clock" where a check said something, else ""."""
    return f" by {row.findings[0]}" if row.findings else ""


def evidence(row: Row) -> str:
    """What was seen; of a cheat that came through what it is held against."""
    if row.honest is None:
        return row.evidence
    told = f"{plain.speedup(row.speedup)}, an honest one has up to {plain.speedup(row.honest)}"
    return "; ".join(part for part in (f"{row.verdict}: {told}" if row.verdict else told, row.evidence) if part)


def _naive(row: Row) -> str | None:
    if row.naive_speedup is None:
        return None
    took = {True: "accepted", False: "refused", None: "not compared"}[row.naive_accepts]
    return f"{plain.speedup(row.naive_speedup)} {took}"


def _ours(row: Row, *interval: float | None) -> str:
    return plain.speedup(row.speedup, *interval, verdict=row.compared)


OURS = "ours [low..high]"
FIXTURES: tuple[Column[Row], ...] = (
    Column("id", "the fixture", at("fixture"), "fixture", shrink=True),
    *fields("", {"category": "of the checks that it proves"}),
    Column("rung", "the rung", at("rung"), "rung"),
    *fields("", {"kind": "`cheat` or `twin`; a baseline is listed, as a twin, where it was flagged"}),
    Column("outcome", "`caught`, `useless`, `missed`, `passed`, `flagged` or `unavailable`", at("outcome"),
           "outcome", lambda row: row.outcome.upper() if row.outcome.bad else row.outcome),
    Column("finding", "the check that caught or doubted it", lambda row: next(iter(row.findings), None), "by", drop=1),
    Column("findings", "all of them", lambda row: list(row.findings)),
    Column("evidence", "what was seen", lambda row: evidence(row)),
    *fields("", {"naive_speedup": "what a naive harness says",
                 "naive_accepts": "whether its `allclose` took the outputs"}),
    printed("naive harness", _naive),
    Column("speedup", "ours, null for what was caught", at("speedup"),
           OURS, lambda row: _ours(row, row.low, row.high)),
    *fields("", {"low": "lower end of its 95 % interval", "high": "upper end"}),
    Column("run_id", "the run", lambda row: row.run_id or None),
)  # fmt: skip
Category = tuple[str, Mapping[Outcome, int]]


def _counted(outcome: Outcome) -> Column[Category]:
    return Column(outcome, f"how many were {outcome}", lambda one: one[1][outcome], outcome, right=True)


CATEGORIES: tuple[Column[Category], ...] = (
    Column("category", "of checks", lambda one: one[0], "category"),
    *map(_counted, Outcome),
)


def lines(device: str, rows: Sequence[Row], *, width: int | None) -> list[str]:
    """The fixtures and the confusion matrix for people."""
    # Without room for our interval.
    columns = [replace(one, head="ours", text=_ours) if one.head == OURS else one for one in FIXTURES]
    found = plain.listing(columns if width is not None and width < WIDE else FIXTURES, rows, width=width, tabs=False)
    told = [f"{row.fixture} {row.rung}: {row.outcome}{by(row)}: {evidence(row)}" for row in rows if row.outcome.bad]
    absent = [row for row in rows if row.outcome is Outcome.UNAVAILABLE]
    told += common.by_reason((f"{row.fixture} {row.rung}", f"unavailable, {row.evidence}") for row in absent)
    return [
        *found,
        *(["", *(clean_line(line, limit=2000) for line in told)] if told else []),
        "",
        *plain.listing(CATEGORIES, [*by_category(rows), ("all", tally(rows))], width=width, tabs=False),
        "",
        f"=> on {clean_line(device)}: {summary(rows)}",
    ]


def summary(rows: Sequence[Row]) -> str:
    """ "12 cheats: 10 caught, 2 useless; 8 twins: 8 passed; a naive harness takes 11 of 12 ..."."""
    parts = []
    for kind in Kind:
        here = [row for row in rows if row.kind is kind]
        told = [f"{count} {outcome}" for outcome, count in tally(here).items() if count]
        parts.append(f"{len(here)} {kind}{'' if len(here) == 1 else 's'}: {', '.join(told) or plain.DASH}")
    asked, took = taken(rows)
    if asked:
        parts.append(f"a naive harness takes {took} of {asked} cheats for faster and right")
    return "; ".join(parts)
