"""A fuzz as it is read: what is certain of a rung before the end and what is said after it, which failure is its
smallest, and how well the oracle told the operators of its corpus apart.

Errors of cases are in units of what is allowed: above 1 is wrong.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from aisp.store.outcomes import CaseVerdict, FuzzVerdict
from aisp.store.text import clean_line

if TYPE_CHECKING:
    from aisp.store.record import Failure, Fuzz, RungFuzz, Tally

RIGHT, WRONG = FuzzVerdict.RIGHT, FuzzVerdict.WRONG
"""What an operator of the corpus is."""
FUZZ_CASES = 200
"""How many cases of each rung a fuzz tries where nothing else is asked for."""
REPLAY_WORDS: Mapping[str, str] = {
    "reproduced": "reproduced: the same inputs gave the same wrong output, byte for byte",
    "fails_otherwise": "still wrong on the same inputs, but in other bytes",
    "passes": "it passes now, on the same inputs",
    "other_inputs": "nothing is said: the inputs' bytes are not those of then",
    "impossible": "it could not be done again",
}
"""What became of a failure that was done again."""
GRAVEST_FIRST = (FuzzVerdict.WRONG, FuzzVerdict.DOUBTED, FuzzVerdict.RIGHT)


class FuzzState(StrEnum):
    """Where a fuzz is. The first two are on the way."""

    PLANNED = "planned"
    RUNNING = "running"
    DONE = "done"
    CANCELLED = "cancelled"
    FAILED = "failed"
    UNAVAILABLE = "unavailable"
    LOST = "engine lost"

    @property
    def final(self) -> bool:
        """Whether nothing more will happen."""
        return self not in (FuzzState.PLANNED, FuzzState.RUNNING)


def total(tallies: Iterable[Tally]) -> Tally:
    """All of these cases together."""
    from aisp.store.record import Tally  # msgspec

    counted = [(tally.cases, tally.failing, tally.unsupported) for tally in tallies]
    return Tally(*(sum(column) for column in zip(*counted, strict=True))) if counted else Tally()


@dataclass(slots=True)
class RungReading:
    """One rung in a fuzz.

    Attributes:
        tallies: by strategy.
        record: what was said at the end; None until then.
        worst: of its right cases.
        gate_failing: cases that are a fault and failed.
    """

    name: str
    tallies: dict[str, Tally] = field(default_factory=dict)
    record: RungFuzz | None = None
    worst: float | None = None
    gate_failing: int = 0

    @property
    def total(self) -> Tally:
        """Over all strategies."""
        return total(self.tallies.values())

    @property
    def naive(self) -> bool | None:
        """Whether a naive harness accepts it; None where it was not asked."""
        return self.record.naive.accepts if self.record is not None and self.record.naive is not None else None

    @property
    def fooled(self) -> bool:
        """Whether a naive harness accepts what is wrong."""
        return bool(self.naive) and self.record is not None and self.record.verdict is FuzzVerdict.WRONG

    @property
    def certain(self) -> FuzzVerdict | None:
        """What is said of it; before the end only what no further case can take back, None where nothing is."""
        if self.record is not None:
            return self.record.verdict
        return FuzzVerdict.WRONG if self.gate_failing else FuzzVerdict.DOUBTED if self.total.failing else None

    @property
    def so_far(self) -> RungFuzz:
        """Its record; before the end what it would be if no further case came."""
        from aisp.store.record import RungFuzz  # msgspec

        if self.record is not None:
            return self.record
        every, said = self.total, self.certain or FuzzVerdict.UNDECIDED
        counts = (every.cases, every.failing, every.unsupported)
        return RungFuzz(self.name, said, *counts, self.tallies, max_error=self.worst)

    def stopped(self, state: FuzzState) -> bool:
        """Whether nothing is said because the fuzz did not come to its end."""
        undecided = self.certain is FuzzVerdict.UNDECIDED
        return undecided and state is not FuzzState.DONE and self.total.cases > 0

    def take(self, strategy: str, stage: str, verdict: CaseVerdict, max_error: float | None) -> None:
        """One more case was judged."""
        from aisp.store.record import Tally  # msgspec

        one = Tally(1, int(verdict.failing), int(verdict is CaseVerdict.UNSUPPORTED))
        self.tallies[strategy] = total([self.tallies.get(strategy, Tally()), one])
        if verdict.failing and stage != "triage":
            self.gate_failing += 1
        if verdict is CaseVerdict.RIGHT and max_error is not None and math.isfinite(max_error):
            self.worst = max(max_error, self.worst or 0.0)

    def ended(self, record: RungFuzz) -> None:
        """Its counts are whole, also where some cases were not heard of."""
        self.record, self.worst, self.tallies = record, record.max_error, dict(record.by_strategy)


@dataclass(slots=True)
class FuzzReading:
    """A fuzz as far as it is known.

    Attributes:
        what: "fuzz", "lint" or "replay".
        asked: cases per rung.
        record: of its end; None until then, and for what is no fuzz.
        failures: by id, in the order in which they came.
        drawn: ids of those of which no smaller case was found yet.
    """

    id: str
    what: str = "fuzz"
    target: str = ""
    device: str = ""
    seed: int | None = None
    asked: int = 0
    wall: str = ""
    strategies: list[str] = field(default_factory=list)
    rungs: dict[str, RungReading] = field(default_factory=dict)
    state: FuzzState = FuzzState.PLANNED
    reason: str = ""
    record: Fuzz | None = None
    failures: dict[str, Failure] = field(default_factory=dict)
    drawn: set[str] = field(default_factory=set)

    def rung(self, name: str) -> RungReading:
        """The rung of that name, made if it was not planned."""
        return self.rungs.setdefault(name, RungReading(name))

    def ended(self, record: Fuzz) -> None:
        """How it ended."""
        self.record, self.target, self.device, self.seed = record, record.target, record.device, record.seed
        self.asked, self.wall, self.reason = record.cases, record.wall, record.reason
        self.state = FuzzState(record.state)
        names = [*record.strategies, *(name for rung in record.rungs for name in rung.by_strategy)]
        self.strategies = list(dict.fromkeys([*self.strategies, *names]))
        for rung in record.rungs:
            self.rung(rung.rung).ended(rung)

    @property
    def total(self) -> Tally:
        """Over all rungs."""
        return total(rung.total for rung in self.rungs.values())

    @property
    def asked_in_all(self) -> int:
        """Cases that were asked for, over all rungs."""
        return self.asked * max(1, len(self.rungs))

    @property
    def notes(self) -> tuple[str, ...]:
        """What a person should know of it."""
        return self.record.notes if self.record is not None else ()

    @property
    def took_s(self) -> float | None:
        """How long it took."""
        took_ms = self.record.duration_ms if self.record is not None else None
        return None if took_ms is None else took_ms / 1e3


def case_text(case: Mapping[str, Any]) -> str:
    """A case's plain data on one line, as the oracle wrote it: "M=3 N=129 float16 x:transposed,large"."""
    return clean_line(str(case.get("text", "")))


def smallest(rung: RungFuzz, failures: Mapping[str, Failure]) -> Failure | None:
    """The smallest failing case of a rung; None where it has none, or it could not be read."""
    return next((failures[name] for name in rung.failures if name in failures), None)


def overall(rungs: Iterable[RungFuzz]) -> FuzzVerdict:
    """The gravest verdict; UNDECIDED where no rung was judged."""
    found = {rung.verdict for rung in rungs}
    return next((verdict for verdict in GRAVEST_FIRST if verdict in found), FuzzVerdict.UNDECIDED)


def judged(record: Fuzz) -> set[str]:
    """Rungs of which something is said."""
    return {rung.rung for rung in record.rungs if rung.verdict is not FuzzVerdict.UNDECIDED}


# -- the oracle on its own corpus --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Operator:
    """One operator of the corpus: `truth` is RIGHT or WRONG, as the name of its file says."""

    target: str
    rung: str
    truth: FuzzVerdict

    @property
    def name(self) -> str:
        """Without its group: "softmax" of "rows:softmax"."""
        return self.target.rpartition(":")[2]


@dataclass(frozen=True, slots=True)
class Judged:
    """An operator, and what the oracle made of it; `fuzz` is None where it said nothing, and `reason` why."""

    operator: Operator
    fuzz: RungFuzz | None = None
    failures: Mapping[str, Failure] = field(default_factory=dict)
    device: str = ""
    fuzz_id: str = ""
    reason: str = ""

    @property
    def verdict(self) -> FuzzVerdict:
        """The oracle's; UNDECIDED where it said nothing."""
        return self.fuzz.verdict if self.fuzz else FuzzVerdict.UNDECIDED

    @property
    def decided(self) -> bool:
        """Whether it said something."""
        return self.verdict is not FuzzVerdict.UNDECIDED

    @property
    def as_it_is(self) -> bool:
        """Whether the verdict is the truth. A doubt is neither."""
        return self.verdict is self.operator.truth


def flagged(found: Iterable[Judged], truth: FuzzVerdict) -> dict[str, float | None]:
    """By strategy the share of cases that failed, of all operators of that truth: found where they are wrong, false
    alarms where they are right; None where no case was judged."""
    tallies: dict[str, list[Tally]] = {}
    for each in found:
        if each.fuzz is not None and each.operator.truth is truth:
            for name, tally in each.fuzz.by_strategy.items():
                tallies.setdefault(name, []).append(tally)
    shares: dict[str, float | None] = {}
    for name, of in tallies.items():
        whole = total(of)
        asked = whole.cases - whole.unsupported
        shares[name] = whole.failing / asked if asked else None
    return shares


def naive_answers(found: Iterable[Judged], truth: FuzzVerdict, oracle: str) -> list[bool]:
    """What a naive harness ("allclose", "assert_close") says of the operators of that truth of which it was asked:
    whether it accepts them."""
    said = [getattr(e.fuzz.naive, oracle) for e in found if e.operator.truth is truth and e.fuzz and e.fuzz.naive]
    return [answer for answer in said if answer is not None]
