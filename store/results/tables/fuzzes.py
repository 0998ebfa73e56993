"""What a fuzz says of its rungs, the failures that it kept, and the oracle's own trial on its corpus."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from aisp.store.results.fuzz import RIGHT, WRONG, Judged, case_text, flagged, smallest
from aisp.store.results.numbers import count, number, percent
from aisp.store.results.tables import Column, at, attributes, fields, through

if TYPE_CHECKING:
    from aisp.store.record import Failure, RungFuzz


class Tried(NamedTuple):
    """What a fuzz says of a rung, None where it says nothing, and the smallest case that failed."""

    rung: RungFuzz | None
    least: Failure | None


def tried(rung: RungFuzz | None, failures: Mapping[str, Failure]) -> Tried:
    """The rung with its smallest failing case among these."""
    return Tried(rung, None if rung is None else smallest(rung, failures))


def _tallies(one: Tried) -> list[dict[str, Any]]:
    found = one.rung.by_strategy if one.rung is not None else {}
    return [{"strategy": n} | attributes(of, "cases", "failing", "unsupported") for n, of in found.items()]


def _failing(one: Tried) -> str:
    """Strategies of which a case failed: "boundary 12/40, mixed 3/40"."""
    return ", ".join(f"{of['strategy']} {of['failing']}/{of['cases']}" for of in _tallies(one) if of["failing"])


def _naive(one: Tried) -> dict[str, bool | None] | None:
    found = None if one.rung is None else one.rung.naive
    return None if found is None else attributes(found, *NAIVE)


def _smallest(one: Tried) -> dict[str, str] | None:
    return None if one.least is None else {"failure": one.least.id, "case": case_text(one.least.case)}


def _counted(key: str, means: str, drop: int = 0) -> Column[Tried]:
    value = at(f"rung.{key}")
    return Column(key, means, value, key, lambda one: count(value(one)), right=True, drop=drop)


def _opinion(key: str, drop: int) -> Column[Tried]:
    words = {True: "accepts", False: "refuses", None: ""}
    return Column(key, head=key, text=lambda one: words[(_naive(one) or {}).get(key)], drop=drop)


NAIVE = ("allclose", "assert_close")
"""What a naive harness asks."""
RUNGS: tuple[Column[Tried], ...] = (
    Column("rung", "the rung", at("rung.rung"), "rung"),
    Column("verdict", "what is said of it: `right`, `wrong`, `doubted` or `undecided`", at("rung.verdict"), "verdict"),
    _counted("cases", "cases that were tried", 3),
    _counted("failing", "those that failed"),
    _counted("unsupported", "those that the rung does not take", 1),
    Column("by_strategy", "each with `strategy`, `cases`, `failing` and `unsupported`", _tallies,
           "failing by strategy", _failing, drop=4),
    Column("max_error", "worst error of a right case, in units of what is allowed", at("rung.max_error"),
           "worst right", lambda one: number(at("rung.max_error")(one), 3), right=True, drop=2),
    Column("naive", "whether `allclose` and `assert_close` on one shape accept it, `null` where nobody asked", _naive),
    _opinion("allclose", 6),
    _opinion("assert_close", 5),
    Column("smallest", "the smallest case that failed: `failure`, its id, and `case`", _smallest,
           "smallest failing case", lambda one: (_smallest(one) or {}).get("case", ""), shrink=True),
    Column("failures", "ids of the failures that were kept", lambda one: list(one.rung.failures) if one.rung else []),
    *fields("rung", {"took_ms": "in the rung's calls and their judgement",
                     "reason": "why it is undecided, or what stopped it"}),
)  # fmt: skip

FAILURES: tuple[Column[Failure], ...] = (
    Column("rung", "the rung", at("rung"), "rung"),
    Column("strategy", "how the case was drawn", at("strategy"), "strategy"),
    Column("case", "the smallest case that fails", at("case"), "smallest case that fails",
           lambda one: case_text(one.case)),
    Column("finding", "what is wrong", at("finding"), "finding", lambda one: one.finding or one.verdict.value),
)  # fmt: skip


def _tried(each: Judged) -> Tried:
    return tried(each.fuzz, each.failures)


_RUNG: dict[str, Column[Judged]] = {column.key: through(column, _tried) for column in RUNGS}
OPERATORS: tuple[Column[Judged], ...] = (
    Column("name", "the operator", at("operator.name"), "operator"),
    *fields("operator", {"target": "the same with its group", "rung": "the rung that was tried"}),
    Column("truth", "`right` or `wrong`, as its file says", at("operator.truth"), "truth"),
    Column("verdict", "what the oracle said", at("verdict"),
           "verdict", lambda each: each.verdict + ("" if each.as_it_is else " !")),
    _RUNG["cases"],
    _RUNG["failing"],
    replace(_RUNG["unsupported"], head=None),
    *(_RUNG[key] for key in ("by_strategy", "naive", *NAIVE, "smallest")),
    Column("failure", head="failure", text=lambda each: (_smallest(_tried(each)) or {}).get("failure", ""),
           drop=1),
    replace(_RUNG["max_error"], head=None),
    Column("fuzz_id", "the fuzz", lambda each: each.fuzz_id or None),
    *fields("", {"reason": "why nothing was said, or what stopped it"}),
)  # fmt: skip


class Share(NamedTuple):
    """A strategy, and the share of its cases that failed among wrong operators and among right ones."""

    strategy: str
    found: float | None
    false_alarms: float | None


def shares(judged: Sequence[Judged]) -> list[Share]:
    """Every strategy that was tried."""
    hits, alarms = flagged(judged, WRONG), flagged(judged, RIGHT)
    return [Share(name, hits.get(name), alarms.get(name)) for name in dict.fromkeys([*hits, *alarms])]


STRATEGIES: tuple[Column[Share], ...] = (
    Column("strategy", "how cases are drawn", at("strategy"), "strategy"),
    Column("found", "share of the cases of wrong operators that failed", at("found"),
           "cases that find a wrong one", lambda one: percent(one.found), right=True),
    Column("false_alarms", "the same of right ones", at("false_alarms"),
           "false alarms", lambda one: percent(one.false_alarms, 1), right=True),
)  # fmt: skip
