"""`aisp fuzz`: is a rung right on every input, not on one? Drawn cases against the fp64 reference.

`aisp fuzz corpus` is the oracle's own trial: 26 operators whose truth is known.

The engine draws, runs, judges and shrinks; this follows and tells. What follows a fuzz to its end is shared with
`lint` and `replay`. The first Ctrl-C cancels what was asked for; the second leaves at once.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import click
import msgspec

from aisp.store.outcomes import FuzzVerdict
from aisp.store.results.fuzz import (
    FUZZ_CASES,
    RIGHT,
    WRONG,
    Judged,
    Operator,
    case_text,
    naive_answers,
    overall,
)
from aisp.store.results.fuzz import (
    judged as judged_rungs,
)
from aisp.store.results.tables import documents, shown
from aisp.store.results.tables.fuzzes import NAIVE, OPERATORS, RUNGS, STRATEGIES, shares, tried
from aisp.store.text import clean_line
from aisp.tui import plain
from aisp.tui.cli import common, resolve
from aisp.tui.cli.interruptible import Interruptible
from aisp.tui.cli.tree import EXIT_GOOD, EXIT_INTERRUPTED, EXIT_NO, EXIT_NOT_HERE, NotHereError

if TYPE_CHECKING:
    from aisp.engine.client import Connection
    from aisp.engine.protocol import events, requests
    from aisp.kernels.catalog.model import Target
    from aisp.store.record import Failure, Fuzz, RungFuzz

CORPUS = "corpus"
"""What is typed in the place of a target for all of the oracle's own operators, and before the name of one."""
STRATEGY_NAMES = ("boundary", "regular", "mixed", "adversarial", "nonfinite", "huge")
"""Names of checks.oracle.schema.Strategy, which a face does not import; a test holds the two together."""
STEPS = 10
"""How many lines of progress a fuzz writes where stderr is no terminal, beside those of its failures."""


ACTIONS = {"replay": (), "": ("rungs", "cases", "seed", "strategies", "device", "roots", "naive")}


@click.command()
@click.argument("target_id", metavar="TARGET|corpus|ID", shell_complete=common.complete_targets)
@click.option("--replay", is_flag=True, help="Do the failing case of that ID again, and compare every byte.")
@click.option(
    "--rung",
    "rungs",
    multiple=True,
    metavar="NAME",
    shell_complete=common.complete_rungs,
    help="Try this rung; by default every honest one. Repeatable.",
)
@click.option(
    "--cases",
    type=click.IntRange(1, 1_000_000),
    default=FUZZ_CASES,
    show_default=True,
    metavar="N",
    help="How many cases, dealt out over the strategies in turn.",
)
@common.seed_option
@click.option(
    "--strategy",
    "strategies",
    multiple=True,
    metavar="NAME",
    type=click.Choice(STRATEGY_NAMES),
    help="Draw cases in this way alone; by default all but huge. Repeatable.",
)
@common.device_option
@common.root_option
@click.option(
    "--naive/--no-naive",
    "naive",
    default=None,
    help="Also ask what allclose on one shape would say; by default for the corpus.",
)
@common.again_option
@common.verbose_option
@common.json_option
def command(
    target_id: str,
    rungs: tuple[str, ...],
    strategies: tuple[str, ...],
    roots: tuple[str, ...],
    naive: bool | None,
    as_json: bool,
    replay: bool,
    **how: Any,
) -> int:
    """Try rungs of TARGET on many drawn cases against the fp64 reference; of each that fails keep the smallest.

    `corpus` tries the oracle itself: 26 operators, right and wrong in known ways. ID, or its beginning, is that of a
    failing case, and --replay does it again from the stored sources.

    Exit status: 0 no rung is wrong (a doubted one is told); 1 one is, or an operator of the corpus is not judged as its
    file says; 3 nothing could be judged here, or a rung that was named could not; 130 left by Ctrl-C. With --replay:
    0 reproduced; 1 not: it passes, or something differs; 2 no such failure; 3 it could not be done here.
    """
    common.action(ACTIONS)
    if replay:
        from aisp.tui.cli import replay as replaying  # which follows as this does

        return replaying.replay(target_id, again=how["again"], as_json=as_json)
    from aisp.engine.protocol import requests  # msgspec: only once there is something to send

    of_corpus = not roots and (target_id == CORPUS or is_operator(target_id))
    how |= {"seq": 0, "strategies": list(dict.fromkeys(strategies))}  # the connection numbers it
    how["naive"] = of_corpus if naive is None else naive
    if of_corpus and not is_operator(target_id):
        if rungs:
            raise click.UsageError("an operator of the corpus has one rung to try: leave --rung out")
        operators = corpus_operators()
        asked = [requests.FuzzTarget(root=CORPUS, target=one.target, rungs=[one.rung], **how) for one in operators]
        following = Following([Ask(request) for request in asked])
        interrupted = asyncio.run(following.run())
        judged = [as_judged(operator, ask) for operator, ask in zip(operators, following.asks, strict=True)]
        drawn = following.seed
        common.answer(as_json, lambda: _corpus_json(drawn, how["cases"], judged), corpus_lines, drawn, judged)
        return EXIT_INTERRUPTED if interrupted else corpus_status(judged)
    root, target = find_target(target_id, roots)
    resolve.checked(target, rungs=rungs)
    ask = Ask(requests.FuzzTarget(root=root, target=target.id, rungs=list(rungs), **how))
    interrupted = asyncio.run(Following([ask]).run())
    record = ask.record
    if record is None:
        return EXIT_INTERRUPTED
    if as_json:
        common.say_document(_as_json(record, ask.failures))
    else:
        outcome = _COLOUR_AS[overall(record.rungs)]
        common.say_result(lines(record, ask.failures, width=common.terminal_width()), outcome)
    return EXIT_INTERRUPTED if interrupted else exit_status(record, named=rungs)


_COLOUR_AS = {
    FuzzVerdict.RIGHT: "ok",
    FuzzVerdict.WRONG: "incorrect",
    FuzzVerdict.DOUBTED: "undecided",
    FuzzVerdict.UNDECIDED: "undecided",
}


def is_operator(target_id: str) -> bool:
    """Whether this names one operator of the corpus, as "corpus:softmax", where no folder is named."""
    return target_id.startswith(f"{CORPUS}:")


def find_target(target_id: str, roots: Sequence[str]) -> tuple[str, Target]:
    """The target that a word means, an operator of the corpus too, after its collection as the engine takes it."""
    if not roots and is_operator(target_id):
        from aisp.engine import corpus  # the oracle's schema and numpy: only where the corpus is meant

        operators = {target.id.rpartition(":")[2]: target for target in corpus.load().targets}
        name = target_id.removeprefix(f"{CORPUS}:")
        if name not in operators:
            there = f"there are {', '.join(operators)}"
            raise common.unknown(f"no operator {name!r} in the corpus", name, list(operators), there)
        return CORPUS, operators[name]
    target = resolve.target(target_id, roots)
    return common.engine_roots([target.root])[0], target


def exit_status(record: Fuzz, *, named: Sequence[str] = ()) -> int:
    """What a fuzz means as an exit status; see the command."""
    if overall(record.rungs).wrong:
        return EXIT_NO
    judged = judged_rungs(record)
    return EXIT_GOOD if record.state == "done" and judged and judged >= set(named) else EXIT_NOT_HERE


# -- following the engine ----------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Ask:
    """One request on its way: a fuzz, a lint or a replay.

    Attributes:
        failures: of a fuzz, by id, the smallest case that was heard of.
        end: what the engine said last; None while it goes on, and where `refused` says why it was never begun.
        deaf: events were lost, so that the store knows better; `gap`: they were lost just now.
        joined: somebody else asked for it before, and may want it.
    """

    request: requests.FuzzTarget | requests.ReplayFailure
    id: str = ""
    planned: events.FuzzPlanned | None = None
    case: int = 0  # number of the newest case, counted from 1
    failing: int = 0
    failures: dict[str, Failure] = field(default_factory=dict)
    record: Fuzz | None = None
    end: events.FuzzFinished | events.LintFinished | events.ReplayFinished | None = None
    refused: str = ""
    deaf: bool = False
    gap: bool = False
    joined: bool = False

    @property
    def name(self) -> str:
        """The target, or what is known of it."""
        asked = getattr(self.request, "target", "") or getattr(self.request, "failure", "")
        return self.planned.target if self.planned else str(asked)

    @property
    def of_task(self) -> bool:
        """Whether this is a lint: what rungs do in it is no news."""
        return bool(getattr(self.request, "lint", False))

    @property
    def cases(self) -> int:
        """How many cases there are to be; 0 while that is not known."""
        return self.planned.cases if self.planned else 0


class Following(Interruptible):
    """Requests, one after the other, each from its reply to its end.

    Attributes:
        seed: of the first fuzz; the others are asked for with it, where they name none.
    """

    LEFT = "`aisp engine` shows what still runs; what a fuzz finds is stored"

    def __init__(self, asks: Sequence[Ask]) -> None:
        super().__init__()
        self.asks = list(asks)
        self.seed: int | None = None
        self._waiting = deque(self.asks)
        self._going: Ask | None = None

    def to_cancel(self) -> list[str]:
        self._waiting.clear()
        return [self._going.id] if self._going is not None and not self._going.joined else []

    async def _next(self, engine: Connection) -> bool:
        """Ask for what comes next; False where nothing is left. Where there is but one thing to ask for, a refusal ends
        the command."""
        self._going = None
        while self._waiting:
            ask = self._waiting.popleft()
            changes: dict[str, Any] = {"seq": engine.next_seq()}
            if getattr(ask.request, "seed", 0) is None:
                changes["seed"] = self.seed
            reply = await engine.request(msgspec.structs.replace(ask.request, **changes))
            if not reply.error:
                ask.id = reply.run_ids[0]
                if reply.joined:
                    ask.joined = True
                    common.joined(ask.name, ask.id)
                self._going = ask
                return True
            ask.refused = reply.error
            if len(self.asks) == 1:
                raise NotHereError(ask.refused)
            self._progress.ended(f"{self._place(ask)}{ask.name}: {ask.refused}")
        return False

    async def _follow(self, engine: Connection) -> bool:
        return not await self._next(engine) or await self._listen(engine)

    async def _settle(self, engine: Connection) -> bool:
        ask = self._going
        if ask is not None and ask.gap:
            ask.gap = False
            await self._catch_up(engine, ask)
        if ask is None or ask.end is None:
            return False
        self._close(ask)
        return not await self._next(engine)

    def _take(self, event: events.Event) -> None:
        from aisp.engine.protocol import events  # already imported by the connection

        ask = self._going
        if ask is None:
            return
        if isinstance(event, events.Gap):
            ask.deaf = ask.gap = True
        elif getattr(event, "fuzz_id", "") != ask.id:
            return
        elif isinstance(event, events.FuzzPlanned):
            ask.planned = event
            self.seed = event.seed if self.seed is None else self.seed
        elif isinstance(event, events.FuzzCase):
            before, ask.case = ask.case, max(ask.case, event.number + 1)
            ask.failing += event.verdict.failing
            if ask.cases and ask.case * STEPS // ask.cases > before * STEPS // ask.cases:
                self._progress.step(f"{self._place(ask)}{_counted(ask)}")
        elif isinstance(event, events.FuzzFailure):
            failure = event.failure
            heard = ask.failures.get(failure.id)
            ask.failures[failure.id] = failure
            if ask.of_task or (heard is not None and heard.seed is None and failure.seed is not None):
                return
            how = "smallest" if event.shrunk else "fails"
            self._progress.step(f"{ask.name}: {failure.rung} {how}: {case_text(failure.case)}")
        elif isinstance(event, events.FuzzFinished | events.LintFinished | events.ReplayFinished):
            ask.end = event

    def _close(self, ask: Ask) -> None:
        """Make the record out of the end, with failures that were not heard of from the store."""
        from aisp.engine.protocol import events  # already imported by the connection

        if not isinstance(ask.end, events.FuzzFinished):
            return
        ask.record = record = ask.end.fuzz
        self.seed = record.seed if self.seed is None else self.seed
        named = [name for rung in record.rungs for name in rung.failures]
        if ask.deaf or any(name not in ask.failures for name in named):
            with contextlib.suppress(click.ClickException), common.history() as opened:
                ask.failures |= {failure.id: failure for failure in opened.failures(record.id)}
        if len(self.asks) > 1:
            self._progress.ended(f"{self._place(ask)}{ask.name}: {overall(record.rungs)}")

    async def _catch_up(self, engine: Connection, ask: Ask) -> None:
        """After a gap: the end of a fuzz stands in the store; that of anything else that is no longer under way is
        lost."""
        from aisp.engine.protocol import events, requests  # already imported by the connection

        if isinstance(ask.request, requests.FuzzTarget) and not ask.of_task:
            with contextlib.suppress(click.ClickException), common.history() as opened:
                ask.end = events.FuzzFinished(fuzz=opened.fuzz(ask.id))
        elif ask.id not in {item.run_id for item in (await engine.status()).queue}:
            self._going = None
            raise NotHereError("the end was lost on the way from the engine; ask again")

    def _draw(self) -> None:
        if self._going is not None:
            elapsed = plain.duration(self.elapsed_s)
            self._progress.show(f"{self._place(self._going)}{_counted(self._going)}  {elapsed}")

    def _place(self, ask: Ask) -> str:
        return f"[{self.asks.index(ask) + 1}/{len(self.asks)}] " if len(self.asks) > 1 else ""


def _counted(ask: Ask) -> str:
    of = f" of {plain.count(ask.cases)}" if ask.cases else ""
    failing = "" if ask.of_task else f", {plain.count(ask.failing)} failing"
    return f"{ask.name}: {plain.count(ask.case)}{of} cases{failing}"


# -- telling -----------------------------------------------------------------------------------------------------------


def apart(*facts: str) -> str:
    """Facts on one line, two spaces between them."""
    return "  ".join(fact for fact in facts if fact)


def lines(record: Fuzz, failures: Mapping[str, Failure], *, width: int | None) -> list[str]:
    """A fuzz for people; the last line is its outcome."""
    facts = [
        record.device,
        f"{plain.count(record.cases)} cases",
        f"seed {record.seed}",
        f"fuzz {record.id}",
        plain.duration(None if record.duration_ms is None else record.duration_ms / 1e3),
    ]
    found = [apart(record.target, record.title), apart(*facts)]
    asked = any(rung.naive is not None for rung in record.rungs)
    if record.rungs:
        columns = shown(RUNGS, *(() if asked else NAIVE))
        rows = [tried(rung, failures) for rung in record.rungs]
        found += ["", *plain.listing(columns, rows, width=width, tabs=False)]
    for rung in record.rungs:
        found += ["", f"{rung.rung}: {rung.reason}"] if rung.reason else []
        found += failing_lines(rung, failures)
    found += ["", *record.notes] if record.notes else []
    return [*found, "", summary(record)]


def failing_lines(rung: RungFuzz, failures: Mapping[str, Failure]) -> list[str]:
    """The smallest failing case of a rung in full, and the ids of the others; empty where none failed."""
    kept = [failures[name] for name in rung.failures if name in failures]
    if not kept:
        return []
    first, *others = kept
    case, drawn = case_text(first.case), case_text(first.drawn)
    shrunk = f"the smallest of {plain.count(first.tried)} tried; drawn as {drawn}" if drawn != case else "as drawn"
    found = ["", f"{rung.rung} fails at {case}", f"  {first.strategy} case, {shrunk}"]
    kind = first.verdict if first.finding in ("", "nothing") else f"{first.verdict}, {first.finding}"
    found.append(plain.indent(f"{kind}: {first.detail}" if first.detail else kind))
    if first.statistics:
        figures = [f"{name.replace('_', ' ')} {_figure(value)}" for name, value in first.statistics.items()]
        found.append(f"  {clean_line(', '.join(figures), limit=1000)}")
    found += ["", *(plain.indent(row, 4) for row in first.region)] if first.region else []
    found += ["", plain.indent(first.script.rstrip("\n"), 4)] if first.script else []
    found += ["", f"  aisp fuzz --replay {first.id}"]
    return found + [f"  aisp fuzz --replay {one.id}  {one.strategy}  {case_text(one.case)}" for one in others]


def _figure(value: float) -> str:
    whole = isinstance(value, int) or (plain.known(value) and value.is_integer() and abs(value) < 1e15)
    return plain.count(int(value)) if whole else plain.number(value, 3)


_HINTS = {FuzzVerdict.DOUBTED: " (only triage cases failed: look at them first)"}


def summary(record: Fuzz) -> str:
    """The outcome on one line: the rungs of each verdict, and why it ended before its end."""
    told = []
    for verdict in (FuzzVerdict.WRONG, FuzzVerdict.DOUBTED, FuzzVerdict.UNDECIDED, FuzzVerdict.RIGHT):
        named = [rung.rung for rung in record.rungs if rung.verdict is verdict]
        if named:
            told.append(f"{verdict}: {', '.join(named)}{_HINTS.get(verdict, '')}")
    if record.state != "done":
        told.append(f"{record.state}: {record.reason}")
    return f"=> {'; '.join(told) or 'no rung was tried'}"


def _as_json(record: Fuzz, failures: Mapping[str, Failure]) -> dict[str, Any]:
    told = record.plain()
    kept = ("target", "device", "seed", "cases", "strategies", "snapshot", "wall", "reason", "duration_ms", "notes")
    return {
        "fuzz_id": record.id,
        "status": record.state,
        **{name: told[name] for name in kept},
        "rungs": documents(RUNGS, [tried(rung, failures) for rung in record.rungs]),
        "failures": [failures[name].plain() for rung in record.rungs for name in rung.failures if name in failures],
    }


# -- the corpus --------------------------------------------------------------------------------------------------------


def as_judged(operator: Operator, ask: Ask) -> Judged:
    """What came of asking for an operator."""
    record = ask.record
    if record is None:
        return Judged(operator, reason=ask.refused or "it was not reached")
    rung = next((rung for rung in record.rungs if rung.rung == operator.rung), None)
    reason = (rung.reason if rung else "") or record.reason
    return Judged(operator, rung, ask.failures, record.device, record.id, reason)


def corpus_operators() -> list[Operator]:
    """All operators. Raises NotHereError where there are none."""
    from aisp.engine import corpus  # the oracle's schema and numpy: only where the corpus is meant
    from aisp.kernels.catalog.model import Role

    catalog = corpus.load()
    common.warn(catalog.problems)
    found = []
    for target in catalog.targets:
        rung = corpus.operator(target)
        found.append(Operator(target.id, rung.name, WRONG if rung.role is Role.WRONG else RIGHT))
    if not found:
        raise NotHereError(f"there is no operator in {corpus.root()}; install aisp again")
    return found


def corpus_status(judged: Sequence[Judged]) -> int:
    """1 where an operator was judged and not as its file says, else 3 where one was not judged, else 0."""
    decided = [each for each in judged if each.decided]
    if not all(each.as_it_is for each in decided):
        return EXIT_NO
    return EXIT_GOOD if len(decided) == len(judged) else EXIT_NOT_HERE


def corpus_lines(seed: int | None, judged: Sequence[Judged], *, width: int | None) -> list[str]:
    device = next((each.device for each in judged if each.device), plain.DASH)
    found = [
        apart(f"{plain.count(len(judged))} operators", device, f"seed {plain.DASH if seed is None else seed}"),
        "",
        *plain.listing(OPERATORS, judged, width=width, tabs=False),
    ]
    reasons = [f"{each.operator.name}: {each.reason}" for each in judged if each.reason]
    found += ["", *(clean_line(reason, limit=2000) for reason in reasons)] if reasons else []
    if of_strategies := shares(judged):
        found += ["", *plain.listing(STRATEGIES, of_strategies, width=width, tabs=False)]
    return [*found, "", *corpus_summary(judged)]


def corpus_summary(judged: Sequence[Judged]) -> list[str]:
    """How many of each truth were told apart, and what a naive harness lets pass."""
    told = []
    for truth, verb in ((WRONG, "found"), (RIGHT, "passed")):
        of = [each for each in judged if each.operator.truth == truth]
        told.append(f"{sum(each.as_it_is for each in of)} of {len(of)} {truth} operators {verb}")
    found = [f"=> {', '.join(told)}"]
    for name in ("allclose", "assert_close"):
        said = {truth: naive_answers(judged, truth, name) for truth in (WRONG, RIGHT)}
        accepts, refuses = said[WRONG].count(True), said[RIGHT].count(False)
        if said[WRONG] or said[RIGHT]:
            found.append(
                f"   {name} on one shape accepts {accepts} of {len(said[WRONG])} wrong ones "
                f"and refuses {refuses} of {len(said[RIGHT])} right ones"
            )
    return found


def _corpus_json(seed: int | None, cases: int, judged: Sequence[Judged]) -> dict[str, Any]:
    return {
        "seed": seed,
        "cases": cases,
        "device": next((each.device for each in judged if each.device), None),
        "operators": documents(OPERATORS, judged),
        "strategies": documents(STRATEGIES, shares(judged)),
    }
