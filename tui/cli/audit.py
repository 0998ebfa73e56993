"""`aisp bench audit`: the gallery of cheats and honest twins through the ordinary engine, and the confusion matrix.

A fixture is one quick run of its twin and its cheats, with what a careless evaluator says of each. Where a check spoke
of the run as a whole, or an arm was not reached, the rungs concerned run once more, each alone: then it is known whose
doing it was. Kernels are on trial here, not the machine: the runs are portable, so that a busy machine warns only.

The engine runs the fixtures; this asks for a few at a time, so that Ctrl-C leaves little behind.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import click

from aisp.store.outcomes import TWIN_SUFFIX, FindingStatus, State, Verdict
from aisp.store.record import Finding, unplanned
from aisp.store.results.prediction import PORTABLE
from aisp.store.text import clean_line
from aisp.tui import plain
from aisp.tui.cli import common
from aisp.tui.cli.follow import Followed, Follower, progress_line
from aisp.tui.cli.interruptible import Interruptible
from aisp.tui.cli.tree import EXIT_GOOD, EXIT_INTERRUPTED, EXIT_NO, EXIT_NOT_HERE, NotHereError

if TYPE_CHECKING:
    from aisp.engine.client import Connection
    from aisp.engine.trust import FixtureView

NOISE = 1.1
"""A cheat that passes is useless where its speed-up is at most so many times the upper bound of its twin's."""
NO_FASTER = (Verdict.SAME, Verdict.SLOWER, Verdict.UNDECIDED)
"""Verdicts that give a cheat nothing, whatever ratio stands beside them."""
WIDE = 120
"""Cells from which on there is room for our interval beside everything else."""
AT_A_TIME = 4
"""Runs that are asked for before their results are in."""

CHEAT, TWIN = "cheat", "twin"
CAUGHT, USELESS, MISSED, PASSED, FLAGGED, UNAVAILABLE = (
    "caught", "useless", "missed", "passed", "flagged", "unavailable",
)  # fmt: skip
OUTCOMES = (CAUGHT, USELESS, MISSED, PASSED, FLAGGED, UNAVAILABLE)
BAD = (MISSED, FLAGGED)

_NOT_REACHED = (State.CANCELLED, State.ENGINE_LOST, State.INFRA_ERROR)
_DID_NOT_RUN = (State.UNAVAILABLE, *_NOT_REACHED)
# An arm that ends so was stopped by the engine's own rules: it has no time that anybody could believe.
_REFUSED = (
    State.INCORRECT,
    State.PREMATURE_EXIT,
    State.TIMEOUT_PROGRESS,
    State.TIMEOUT_TOTAL,
    State.OUTPUT_LIMIT,
)


@dataclass(frozen=True, slots=True)
class Row:
    """What came of one rung of a fixture.

    Attributes:
        kind: CHEAT, or TWIN for the honest rung and for a baseline that was flagged.
        findings: ids of the checks that caught or doubted it, the fixture's own first.
        evidence: what the first of them saw, or why it is missed, useless or unavailable.
        naive_speedup, naive_accepts: what a careless evaluator says of it.
        speedup, low, high: ours; None for what was caught.
    """

    fixture: str
    category: str
    rung: str
    kind: str
    outcome: str
    findings: tuple[str, ...] = ()
    evidence: str = ""
    naive_speedup: float | None = None
    naive_accepts: bool | None = None
    speedup: float | None = None
    low: float | None = None
    high: float | None = None
    run_id: str = ""


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

    @property
    def rungs(self) -> list[str]:
        """The twin, then the cheats."""
        return [*([self.fixture.twin] if self.fixture.twin else []), *self.fixture.cheats]


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
@click.pass_context
def command(ctx: click.Context, selectors: tuple[str, ...], device: str, keep_going: bool, as_json: bool) -> None:
    """Run every cheat of the gallery and its honest twin through the engine, and count who was caught.

    CATEGORY is one of the checks' categories (timing), FIXTURE a folder of the gallery (timing:unsynced_streams).
    Beside each stands what a careless evaluator would have said: one pair of clocks around ten calls, allclose on one
    shape.

    Exit status: 0 no cheat was missed and no twin flagged; 1 one was; 2 no such fixture; 3 nothing could be run here;
    130 left by Ctrl-C.
    """
    from aisp.engine import trust  # every category's file and the gallery: only where they are run

    gallery = trust.gallery()
    for problem in gallery.problems:
        common.note(f"aisp: warning: {clean_line(str(problem), limit=1000)}")
    chosen = choose(trust.fixtures(), selectors)
    audit = Audit(chosen, str(trust.gallery_root()), device=device, keep_going=keep_going)
    interrupted = asyncio.run(audit.run())
    rows = audit.rows
    if as_json:
        common.say_document(as_document(audit.device, rows))
    else:
        common.say("\n".join(lines(audit.device, rows, width=common.terminal_width())))
    ctx.exit(EXIT_INTERRUPTED if interrupted else exit_status(rows))


def choose(fixtures: Sequence[FixtureView], selectors: Iterable[str]) -> list[FixtureView]:
    """The fixtures that `selectors` mean, each once; all where none is given. Wrong usage where one means nothing."""
    chosen: dict[str, FixtureView] = {}
    wanted = list(selectors)
    for word in wanted:
        name = word.replace("/", ":").replace(".", ":")
        found = [fixture for fixture in fixtures if name in (fixture.category, fixture.target_id)]
        if not found:
            import difflib  # only on the error path

            names = [*dict.fromkeys(f.category for f in fixtures), *(f.target_id for f in fixtures)]
            near = difflib.get_close_matches(name, names, n=3, cutoff=0.4)
            hint = f"did you mean {' or '.join(near)}?" if near else "`aisp bench checks` lists what proves each check"
            raise click.UsageError(f"no fixture or category {clean_line(word)!r} in the gallery; {hint}")
        chosen |= {fixture.target_id: fixture for fixture in found}
    return list(chosen.values()) if wanted else list(fixtures)


def exit_status(rows: Sequence[Row]) -> int:
    """1 where a cheat was missed or a twin flagged, else 3 where nothing could be run, else 0."""
    if any(row.outcome in BAD for row in rows):
        return EXIT_NO
    return EXIT_GOOD if any(row.outcome != UNAVAILABLE for row in rows) else EXIT_NOT_HERE


# -- following the engine ----------------------------------------------------------------------------------------------


class Audit(Interruptible):
    """One `bench audit` from the first request to the last run.

    Attributes:
        rows: what came of each rung, fixture by fixture in the order given; of those that have ended so far.
    """

    TICK_S = 0.25
    LEFT = "`aisp engine status` shows what still runs"

    def __init__(self, fixtures: Sequence[FixtureView], root: str, *, device: str, keep_going: bool) -> None:
        super().__init__()
        self._judged: dict[str, list[Row]] = {}
        self._order = [fixture.target_id for fixture in fixtures]
        self._root = root
        self._device = device
        self._keep_going = keep_going
        self._waiting: deque[tuple[Case, list[str]]] = deque()
        for fixture in fixtures:
            case = Case(fixture)
            self._waiting.append((case, case.rungs))
        self._going: dict[str, tuple[Case, list[str]]] = {}  # by run id: what it is to say something of
        self._follower = Follower([])

    @property
    def rows(self) -> list[Row]:
        """See the class."""
        return [row for name in self._order for row in self._judged.get(name, [])]

    @property
    def device(self) -> str:
        """Where the arms ran: "cuda" where any did; what was asked for where none did."""
        ran = {
            run.record.device
            for run in self._follower.runs.values()
            if run.record.state not in _DID_NOT_RUN and run.record.device
        }
        return next((name for name in ("cuda", "cpu") if any(d.startswith(name) for d in ran)), self._device)

    @property
    def cancellable(self) -> bool:
        """See Interruptible."""
        return bool(self._going)

    def to_cancel(self) -> list[str]:
        """See Interruptible."""
        self._drop_waiting()
        return list(self._going)

    async def _work(self) -> None:
        self._progress.show("connecting to the engine", now=True)
        self._engine = engine = await common.connect_from_now()
        async with engine:
            started = time.monotonic()
            ticker = asyncio.create_task(self._tick(started))
            try:
                await self._fill(engine)
                if self._going:
                    await self._listen(engine, started)
            finally:
                ticker.cancel()
        self._progress.clear()
        if self._going:
            raise NotHereError("the engine went away before the end; `aisp engine logs` may say why")
        if self.interrupts:
            common.note("aisp: cancelled")

    async def _listen(self, engine: Connection, started: float) -> None:
        from aisp.engine.protocol import events  # already imported by the connection

        async for batch in engine.batches():
            for event in batch:
                run = self._follower.apply(event)
                if isinstance(event, events.Banner) and event.text:
                    self._progress.clear()
                    common.note(f"aisp: {event.severity}: {clean_line(event.text)}")
                if run is not None and isinstance(event, events.RunFinished):
                    self._finished(run)
            if self._follower.gap:
                self._follower.gap = False
                await self._catch_up(engine)
            self._draw(started)
            await self._fill(engine)
            if not self._going:
                return

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
                case.refused = clean_line(reply.error, limit=1000) or "the engine planned no run"
                self._settle(case)
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
        elif run.record.state not in (State.UNAVAILABLE, State.CANCELLED, State.ENGINE_LOST):
            again = again_alone(run, rungs)
        case.runs |= {rung: run for rung in rungs if rung not in again}
        if not self.interrupts:
            case.left += len(again)
            self._waiting.extendleft((case, [rung]) for rung in reversed(again))
        self._settle(case)

    def _drop_waiting(self) -> None:
        """Ask for nothing more. Fixtures that have begun are judged by what there is."""
        waiting, self._waiting = self._waiting, deque()
        for case, _ in waiting:
            if case.runs:
                self._settle(case)

    def _settle(self, case: Case) -> None:
        """One of a fixture's runs has ended, or will not come; after the last of them it is judged."""
        case.left -= 1
        if case.left > 0:
            return
        rows = self._judged[case.fixture.target_id] = judge(case)
        self._progress.clear()
        told = ", ".join(f"{row.rung} {row.outcome}{by(row)}" for row in rows)
        common.note(clean_line(f"[{len(self._judged)}/{len(self._order)}] {case.fixture.target_id}: {told}"))
        if not self._keep_going and any(row.outcome in BAD for row in rows):
            self._drop_waiting()

    async def _catch_up(self, engine: Connection) -> None:
        """After a gap: a run that the engine no longer has in its queue ended unheard, so the store is asked."""
        queued = {item.run_id for item in (await engine.status()).queue}
        for run_id in [name for name in self._going if name not in queued]:
            from aisp.tui.cli.stored import finished_view  # the store and numpy: only after a gap

            stored = finished_view(run_id)
            if stored is not None:
                self._follower.runs[run_id] = Followed(stored.record, stored.quarantined)
                self._finished(self._follower.runs[run_id])

    async def _tick(self, started: float) -> None:
        while True:
            await asyncio.sleep(self.TICK_S)
            self._draw(started)

    def _draw(self, started: float) -> None:
        going = [self._follower.runs[run_id] for run_id in self._going]
        run = next((r for r in going if r.record.state is not State.PLANNED), going[0] if going else None)
        if run is not None:
            number = min(len(self._judged) + 1, len(self._order))
            elapsed_s = time.monotonic() - started
            self._progress.show(progress_line(run, self._follower, number, len(self._order), elapsed_s))


# -- judging -----------------------------------------------------------------------------------------------------------


def by(row: Row) -> str:
    """ " by timing.wall_clock" where a check said something, else ""."""
    return f" by {row.findings[0]}" if row.findings else ""


def again_alone(run: Followed, rungs: Sequence[str]) -> list[str]:
    """Rungs of a joint run of which it says nothing: all where a check spoke of the run as a whole, else those that
    were not reached; but for those that were caught by name."""
    of_run = _against(run, "")
    found = []
    for rung in rungs:
        known = run.arm(rung)
        reached = known is not None and known.state.final and known.state not in _NOT_REACHED
        named = any(finding.status == FindingStatus.CAUGHT for finding in _against(run, rung))
        if not named and (of_run or not reached):
            found.append(rung)
    return found


def _against(run: Followed, rung: str) -> list[Finding]:
    """What is CAUGHT or SUSPECT of one rung, the A/A arm being the baseline; of the run as a whole for ""."""
    return [
        finding
        for finding in run.record.findings
        if finding.arm.removesuffix(TWIN_SUFFIX) == rung
        and finding.status in (FindingStatus.CAUGHT, FindingStatus.SUSPECT)
    ]


def judge(case: Case) -> list[Row]:
    """A fixture's rows: its twin, its cheats, and its baseline where something was said against it."""
    rows: list[Row] = []
    twin_high: float | None = None
    for rung in case.rungs:
        kind = TWIN if rung == case.fixture.twin else CHEAT
        run = case.runs.get(rung)
        row = _refused(case, rung, kind) if run is None else _judged(case, rung, kind, run, twin_high)
        if kind == TWIN:
            twin_high = row.high or row.speedup
        rows.append(row)
    flagged = [found for run in case.runs.values() if (found := _baseline(case, run)) is not None]
    return [*flagged[:1], *rows]


def _refused(case: Case, rung: str, kind: str) -> Row:
    why = case.refused or "it was not reached"
    return Row(case.fixture.target_id, case.fixture.category, rung, kind, UNAVAILABLE, evidence=why)


def _baseline(case: Case, run: Followed) -> Row | None:
    """The baseline's row where something was said against it, or it did not end well: it is honest code too."""
    known = run.arm(run.baseline)
    if known is None:
        return None
    doubts = _against(run, run.baseline)
    state = known.state
    if not doubts and (state is State.OK or state in _DID_NOT_RUN or not state.final):
        return None
    evidence = doubts[0].evidence if doubts else f"{state.value}: {known.reason}".rstrip(": ")
    return Row(
        case.fixture.target_id,
        case.fixture.category,
        run.baseline,
        TWIN,
        FLAGGED,
        tuple(dict.fromkeys(finding.check for finding in doubts)),
        evidence,
        run_id=run.id,
    )


def _judged(case: Case, rung: str, kind: str, run: Followed, twin_high: float | None) -> Row:
    """The row of one rung by the run that speaks for it."""
    known = run.arm(rung)
    doubts = [*_against(run, rung), *(_against(run, "") if run.id in case.alone else [])]
    doubts.sort(key=lambda f: (f.status != FindingStatus.CAUGHT, f.check not in case.fixture.checks))
    state = known.state if known is not None and known.state.final else run.record.state
    reason = (known.reason if known is not None else "") or run.record.reason
    against = next((c for c in run.comparisons if (c.rung, c.baseline) == (rung, run.baseline)), None)
    speedup, low, high = (against.speedup, against.low, against.high) if against is not None else (None, None, None)
    if kind == TWIN:
        outcome, evidence = _of_twin(state, reason, doubts)
    else:
        verdict = against.verdict if against is not None else Verdict.NONE
        outcome, evidence = _of_cheat(state, reason, doubts, verdict, speedup, twin_high)
    naive = known.naive if known is not None else None
    shown = outcome != CAUGHT and not any(finding.status == FindingStatus.CAUGHT for finding in doubts)
    return Row(
        case.fixture.target_id,
        case.fixture.category,
        rung,
        kind,
        outcome,
        tuple(dict.fromkeys(finding.check for finding in doubts)),
        evidence,
        naive.speedup if naive is not None else None,
        naive.accepts if naive is not None else None,
        *((speedup, low, high) if shown else (None, None, None)),
        run.id,
    )


def _of_twin(state: State, reason: str, doubts: Sequence[Finding]) -> tuple[str, str]:
    if doubts:
        return FLAGGED, doubts[0].evidence
    if state in _DID_NOT_RUN:
        return UNAVAILABLE, reason or state.value
    return (PASSED, "") if state is State.OK else (FLAGGED, f"{state.value}: {reason}".rstrip(": "))


def _of_cheat(
    state: State,
    reason: str,
    doubts: Sequence[Finding],
    verdict: Verdict,
    speedup: float | None,
    twin_high: float | None,
) -> tuple[str, str]:
    if doubts and doubts[0].status == FindingStatus.CAUGHT:
        return CAUGHT, doubts[0].evidence
    if state in _REFUSED:
        return CAUGHT, f"{state.value}: {reason}".rstrip(": ")
    if state is not State.OK:
        # It broke, which is no answer to what it tried.
        return UNAVAILABLE, reason if state is State.UNAVAILABLE and reason else f"{state.value}: {reason}".rstrip(": ")
    if speedup is None:
        return UNAVAILABLE, "it passed and was not timed here, so that it claims nothing"
    honest = 1.0 if twin_high is None else twin_high
    told = f"{plain.speedup(speedup)}, an honest one has up to {plain.speedup(honest)}"
    if speedup <= honest * NOISE:
        return USELESS, told
    if verdict in NO_FASTER:
        return USELESS, f"{verdict.value}: {told}"
    suspect = f"; suspect by {doubts[0].check}: {doubts[0].evidence}" if doubts else ""
    return MISSED, told + suspect


# -- telling -----------------------------------------------------------------------------------------------------------


def lines(device: str, rows: Sequence[Row], *, width: int | None) -> list[str]:
    """The fixtures and the confusion matrix for people."""
    narrow = width is not None and width < WIDE
    cells = [
        [
            clean_line(row.fixture),
            clean_line(row.rung),
            row.outcome.upper() if row.outcome in BAD else row.outcome,
            clean_line(row.findings[0]) if row.findings else plain.DASH,
            _careless(row),
            plain.speedup(row.speedup) if narrow else plain.speedup(row.speedup, row.low, row.high),
        ]
        for row in rows
    ]
    heads = ["fixture", "rung", "outcome", "by", "careless timer", "ours" if narrow else "ours [low..high]"]
    found = plain.table(heads, cells, width=width, shrink="fixture", drop=["by"])
    told = [f"{row.fixture} {row.rung}: {row.outcome}{by(row)}: {row.evidence}" for row in rows if row.outcome in BAD]
    why: dict[str, list[str]] = {}
    for row in rows:
        if row.outcome == UNAVAILABLE:
            why.setdefault(clean_line(row.evidence, limit=1000), []).append(clean_line(f"{row.fixture} {row.rung}"))
    told += [f"unavailable, {reason}: {', '.join(who)}" for reason, who in why.items()]
    matrix = [[name, *(str(counts[outcome]) for outcome in OUTCOMES)] for name, counts in by_category(rows)]
    total = tally(rows)
    matrix.append(["all", *(str(total[outcome]) for outcome in OUTCOMES)])
    return [
        *found,
        *(["", *(clean_line(line, limit=2000) for line in told)] if told else []),
        "",
        *plain.table(["category", *OUTCOMES], matrix, right=OUTCOMES, width=width),
        "",
        f"=> on {clean_line(device)}: {summary(rows)}",
    ]


def _careless(row: Row) -> str:
    if row.naive_speedup is None:
        return plain.DASH
    took = {True: "accepted", False: "refused", None: "not compared"}[row.naive_accepts]
    return f"{plain.speedup(row.naive_speedup)} {took}"


def summary(rows: Sequence[Row]) -> str:
    """ "12 cheats: 10 caught, 2 useless; 8 twins: 8 passed; a careless evaluator takes 11 of 12 ..."."""
    parts = []
    for kind in (CHEAT, TWIN):
        here = [row for row in rows if row.kind == kind]
        counts = tally(here)
        told = [f"{counts[outcome]} {outcome}" for outcome in OUTCOMES if counts[outcome]]
        parts.append(f"{len(here)} {kind}{'' if len(here) == 1 else 's'}: {', '.join(told) or plain.DASH}")
    asked = [row for row in rows if row.kind == CHEAT and row.naive_speedup is not None]
    taken = [row for row in asked if row.naive_accepts and (row.naive_speedup or 0.0) > NOISE]
    if asked:
        parts.append(f"a careless evaluator takes {len(taken)} of {len(asked)} cheats for faster and right")
    return "; ".join(parts)


def tally(rows: Iterable[Row]) -> dict[str, int]:
    """How many came to which outcome."""
    counts = dict.fromkeys(OUTCOMES, 0)
    for row in rows:
        counts[row.outcome] += 1
    return counts


def by_category(rows: Sequence[Row]) -> list[tuple[str, dict[str, int]]]:
    """The confusion matrix: outcomes by category, in the order in which they came."""
    return [
        (category, tally(row for row in rows if row.category == category))
        for category in dict.fromkeys(row.category for row in rows)
    ]


def as_document(device: str, rows: Sequence[Row]) -> dict[str, Any]:
    """The audit for JSON; the schema is in docs/commands.md."""
    return {
        "device": device,
        "categories": [{"category": category, **counts} for category, counts in by_category(rows)],
        "fixtures": [
            {
                "id": row.fixture,
                "category": row.category,
                "rung": row.rung,
                "kind": row.kind,
                "outcome": row.outcome,
                "finding": row.findings[0] if row.findings else None,
                "findings": list(row.findings),
                "evidence": row.evidence,
                "naive_speedup": row.naive_speedup,
                "naive_accepts": row.naive_accepts,
                "speedup": row.speedup,
                "low": row.low,
                "high": row.high,
                "run_id": row.run_id or None,
            }
            for row in rows
        ],
    }
