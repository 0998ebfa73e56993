"""Two runs side by side in words, as the app and the command line tell them. Plain values; the rules stand in
store.results.comparison."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aisp.store.outcomes import FindingStatus, Verdict
from aisp.store.record import Arm, Run
from aisp.store.results.comparison import Compared, Difference, Pair, Side, Turn, compare
from aisp.store.results.tables import Column, at
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
    from aisp.tui.stored import Stored  # the store, which the first screen does without

    with Stored(history.path) as opened:
        return compare(*(opened.side(opened.run(run_id)) for run_id in (a, b)))


def facts(one: Side) -> list[str]:
    run: Run = one.run.record
    clock = "" if one.sm_clock_mhz is None else f"{one.sm_clock_mhz:.0f} MHz"
    mode = "quick" if run.quick else ""
    found = (plain.local_time(run.wall), run.target, run.device, run.case, mode, clock, run.id)
    return [clean_line(fact) for fact in found if fact and fact != plain.DASH]


def sentence(found: Compared) -> str:
    lead = found.b.run.lead
    pair = next((one for one in found.pairs if lead is not None and one.rungs[1] == lead.rung), None)
    if pair is None:
        return "nothing in B can be held against A"
    word = pair.verdict.value if pair.verdict.known else f"no verdict{': ' + pair.note if pair.note else ''}"
    return clean_line(f"{pair.rung}: B is {as_fast(pair)}, {word}")


def as_fast(pair: Pair) -> str:
    return ratio(pair).replace("x", "x as fast as A", 1)


def ratio(pair: Pair) -> str:
    """How fast B is: "2.00x [1.96..2.04]"; a "?" before what may be chance, or comes from what is not comparable."""
    return plain.speedup(pair.speedup, pair.low, pair.high, verdict=_sign(pair))


def cycles(pair: Pair) -> str:
    return plain.speedup(pair.cycles, pair.cycles_low, pair.cycles_high, verdict=_sign(pair))


def _sign(pair: Pair) -> Verdict:
    return pair.verdict if pair.verdict.known else Verdict.UNDECIDED


def times(pair: Pair, *, interval: bool) -> list[str]:
    return [
        plain.milliseconds(*((arm.median_ms, arm.low_ms, arm.high_ms)[: 3 if interval else 1] if arm else (None,)))
        for arm in (pair.a, pair.b)
    ]


def no_turns(found: Compared) -> str:
    """What is said where no check came out otherwise."""
    if found.unasked:
        return f"No check has been asked in {found.unasked}"
    return "Every check came to the same in both"


def _times_json(arm: Arm | None) -> dict[str, float | None]:
    return {name: getattr(arm, name, None) for name in ("median_ms", "low_ms", "high_ms")}


PAIRS: tuple[Column[Pair], ...] = (
    Column("rung", "the rung, and in B where it has another name", at("rung"), "rung", shrink=True),
    Column("a", "its time in A: `median_ms`, `low_ms` and `high_ms`", lambda pair: _times_json(pair.a),
           "A ms [low..high]", lambda pair: times(pair, interval=True)[0]),
    Column("b", "its time in B, likewise", lambda pair: _times_json(pair.b),
           "B ms [low..high]", lambda pair: times(pair, interval=True)[1]),
    Column("speedup", "the time in A over that in B; null, as all ratios, of runs that are not comparable",
           lambda pair: pair.claims()["speedup"], "B is", as_fast),
    Column("low", "lower end of its 95 % interval", lambda pair: pair.claims()["low"]),
    Column("high", "upper end", lambda pair: pair.claims()["high"]),
    Column("cycles", "the ratio in SM cycles, where the clocks differ", lambda pair: pair.claims()["cycles"],
           "in cycles", cycles, drop=2),
    Column("cycles_low", "lower end of its interval", lambda pair: pair.claims()["cycles_low"]),
    Column("cycles_high", "upper end", lambda pair: pair.claims()["cycles_high"]),
    Column("floor", "what the ratio must clear", at("floor")),
    Column("verdict", "what B is, beyond the floor", at("verdict"),
           "verdict", lambda pair: pair.verdict if pair.verdict.known else plain.DASH),
    Column("note", "why there is none, or what must be known beside it", at("note"),
           "why", lambda pair: pair.note or " ", drop=1),
)  # fmt: skip
DIFFERENCES: tuple[Column[Difference], ...] = (
    Column("what", "what they differ in", at("what"), "what"),
    Column("a", "as it is in A", lambda one: _word(one.a), "A"),
    Column("b", "as it is in B", lambda one: _word(one.b), "B", shrink=True),
    Column("refuses", "whether there is no verdict because of it", at("refuses"),
           "verdict", lambda one: REFUSES if one.refuses else " "),
)  # fmt: skip
TURNS: tuple[Column[Turn], ...] = (
    Column("check", "a check that came to something else", at("check"), "check"),
    Column("rung", "of which rung, empty for the run", at("arm"), "rung", lambda turn: turn.arm or "the run"),
    Column("a", "what it came to in A", at("a"), "A", lambda turn: _status(turn.a)),
    Column("b", "what it came to in B", at("b"), "B", lambda turn: _status(turn.b)),
    Column("evidence", "of the graver of the two", at("evidence"), "evidence", shrink=True),
)


def _word(value: object) -> str:
    return plain.DASH if value in (None, "") else clean_line(str(value))


def _status(status: FindingStatus | None) -> str:
    return plain.DASH if status is None else STATUS_WORDS[status]
