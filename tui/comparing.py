"""Two runs side by side in words, as the app and the command line tell them. Plain values; the rules stand in
store.results.comparison."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aisp.store.outcomes import Verdict
from aisp.store.record import Run
from aisp.store.results.comparison import Compared, Difference, Pair, Side, Turn, compare, side
from aisp.store.results.reading import Reading
from aisp.store.text import clean_line
from aisp.tui import plain
from aisp.tui.results import STATUS_WORDS

if TYPE_CHECKING:
    from aisp.store import History

REFUSES = "no verdict because of it"


def read(history: History, a: str, b: str) -> Compared:
    """Two runs of the store side by side, by their ids or the beginnings of them.

    Raises:
        LookupError: no such run, or more than one.
    """
    return compare(*(_side(history, history.run(run_id)) for run_id in (a, b)))


def _side(history: History, run: Run) -> Side:
    from aisp.tui.cli import quarantine  # reads marks with sqlite3, which the first screen does without
    from aisp.tui.earlier import environment

    # History has taken out the figures of rungs that are marked; what marks them is told.
    marks = quarantine.of_run(history.path, run.id)
    rungs = {arm.rung for arm in run.arms}
    held = {rung: bar for rung, bar in marks.items() if rung in rungs and bar.run_id != run.id}
    telemetry = history.telemetry(run.id)
    readings = telemetry.sm_clock_mhz.tolist() if telemetry is not None else ()
    return side(Reading(run, held), environment(history, run), readings)


def facts(one: Side) -> list[str]:
    """What a run was, in a few words each: its time, target, device, case, mode, clock, and its id."""
    run: Run = one.run.record
    clock = "" if one.sm_clock_mhz is None else f"{one.sm_clock_mhz:.0f} MHz"
    mode = "quick" if run.quick else ""
    found = (plain.local_time(run.wall), run.target, run.device, run.case, mode, clock, run.id)
    return [clean_line(fact) for fact in found if fact and fact != plain.DASH]


def difference(found: Difference) -> list[str]:
    """What two runs differ in, and how; a dash for what is not known."""
    return [plain.DASH if v in (None, "") else clean_line(str(v)) for v in (found.what, found.a, found.b)]


def sentence(found: Compared) -> str:
    """What came of the rung that B is about: "optimized: B is 2.00x as fast as A [1.96..2.04], faster"."""
    lead = found.b.run.lead
    pair = next((one for one in found.pairs if lead is not None and one.rungs[1] == lead.rung), None)
    if pair is None:
        return "nothing in B can be held against A"
    word = pair.verdict.value if pair.verdict.known else f"no verdict{': ' + pair.note if pair.note else ''}"
    return clean_line(f"{pair.rung}: B is {as_fast(pair)}, {word}")


def as_fast(pair: Pair) -> str:
    """ "2.00x as fast as A [1.96..2.04]"."""
    return ratio(pair).replace("x", "x as fast as A", 1)


def ratio(pair: Pair) -> str:
    """How fast B is: "2.00x [1.96..2.04]"; a "?" before what may be chance, or comes from what is not comparable."""
    return plain.speedup(pair.speedup, pair.low, pair.high, verdict=_sign(pair))


def cycles(pair: Pair) -> str:
    """The same ratio in SM cycles, where that is told."""
    return plain.speedup(pair.cycles, pair.cycles_low, pair.cycles_high, verdict=_sign(pair))


def _sign(pair: Pair) -> Verdict:
    return pair.verdict if pair.verdict.known else Verdict.UNDECIDED


def times(pair: Pair, *, interval: bool) -> list[str]:
    """The rung's time in A and in B, in ms."""
    return [
        plain.milliseconds(*((arm.median_ms, arm.low_ms, arm.high_ms)[: 3 if interval else 1] if arm else (None,)))
        for arm in (pair.a, pair.b)
    ]


def no_turns(found: Compared) -> str:
    """What is said where no check came out otherwise."""
    if found.unasked:
        return f"No check has been asked in {found.unasked}"
    return "Every check came to the same in both"


def turn(found: Turn) -> list[str]:
    """A check that came out otherwise: its name, the rung, what it came to in A and in B, and why."""
    words = [plain.DASH if status is None else STATUS_WORDS[status] for status in (found.a, found.b)]
    return [clean_line(found.check), clean_line(found.arm) or "the run", *words, clean_line(found.evidence, limit=2000)]
