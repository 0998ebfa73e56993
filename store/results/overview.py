"""All lessons on one page: what each one comes to in a word, which figure may be drawn of it, how far that lies from
what was predicted, and in which order and choice they stand.
"""

from __future__ import annotations

import enum
import functools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from aisp.kernels.catalog.model import Kind, Role
from aisp.store.outcomes import FindingStatus, State
from aisp.store.results import hardware, outcome
from aisp.store.results.outcome import Outcome
from aisp.store.results.prediction import Answer, Says

if TYPE_CHECKING:
    from aisp.kernels.catalog.model import Rung, Target
    from aisp.store.record import Comparison
    from aisp.store.results.outcome import Ended
    from aisp.store.results.reading import Bar, Reading

LEAST_SPAN = (0.5, 4.0)
"""Speed-ups that an axis of all lessons shows at least."""
MOST_SPAN = (1 / 64, 1024.0)
"""What it shows at most; what lies beyond is drawn at its end."""


@dataclass(frozen=True)
class Lesson:
    """A lesson with all that is known of it.

    Attributes:
        run: its last result; None where it has none.
        attempt: a newer try that says nothing.
        facts: what `run` ran on; empty where that is not known (yet).
        held: its rungs in quarantine today.
        missing: what this machine lacks for it; "" where nothing is, or nobody knows.
        timed_here: whether a run here times it, as far as is known; see `times_without_gpu`.
        answer: to its prediction; None where it has none, or nobody has looked.
    """

    target: Target
    run: Reading | None = None
    attempt: Reading | None = None
    facts: Mapping[str, object] = field(default_factory=dict)
    held: Mapping[str, Bar] = field(default_factory=dict)
    missing: str = ""
    timed_here: bool = True
    answer: Answer | None = None

    @functools.cached_property
    def ended(self) -> Ended | None:
        """What its last result says; None where it has none."""
        return outcome.of_run(self.run, self.held) if self.run is not None else None

    @property
    def outcome(self) -> Outcome:
        """What it comes to."""
        if self.ended is not None:
            return self.ended.outcome
        return Outcome.UNAVAILABLE if self.missing else Outcome.PENDING

    @property
    def word(self) -> str:
        """The same in a word: "faster", "right", "crashed", "quarantined", "not here", "not run"."""
        if self.ended is None:
            return outcome.STATE_WORDS[State.UNAVAILABLE] if self.missing else "not run"
        return self.ended.word

    @property
    def bad(self) -> bool:
        """Whether somebody should look at it."""
        return self.outcome.bad or (self.ended is not None and self.ended.again)

    def _bars(self, run: Reading) -> list[Bar]:
        """What is held against the rung that it is about, or against the baseline, in this run or today."""
        lead = run.lead
        about = list(dict.fromkeys([*([lead.rung] if lead is not None else []), run.baseline]))
        # A run with cheats is about its honest rungs: what is said of it as a whole is said of a cheat's doing.
        cheats = any(arm.role is Role.CHEAT for arm in run.record.arms)
        found = [run.bar(rung) for rung in about] + [self.held.get(rung) for rung in about]
        return [bar for bar in found if bar is not None and (bar.rung or not cheats)]

    @property
    def ratio(self) -> Comparison | None:
        """The comparison that may be drawn; None where no figure may."""
        return self.run.headline if self.run is not None and self.outcome.compared else None

    @property
    def sol(self) -> float | None:
        """The share of the speed of light that may be shown."""
        return self.run.sol if self.run is not None and self.outcome.compared else None

    @property
    def why(self) -> str:
        """Why there is no figure, or what must be known beside it; "" for nothing."""
        run = self.run
        if run is None:
            told = [self.missing] if self.missing else []
        elif bars := self._bars(run):
            told = [bar.sentence for bar in dict.fromkeys(bars)]
        else:
            note = run.headline.note if run.headline is not None else ""
            doubts = "; ".join(f"{found.check}: {found.evidence}" for found in run.found(FindingStatus.SUSPECT))
            claimed = self.outcome.compared and self.outcome is not Outcome.UNDECIDED
            told = [] if claimed else [run.record.reason or doubts or note]
            if case := run.unusual_case(self.target):
                told.append(f"case {case}, which is not its usual one")
        if self.attempt is not None:
            reason = self.attempt.record.reason
            told.append(f"last try {self.attempt.record.state}{f': {reason}' if reason else ''}")
        return "; ".join(text for text in told if text)

    @property
    def on(self) -> str:
        """The hardware that the last result is of; "" where there is none."""
        return hardware.ran_on(self.run.record.device, self.facts) if self.run is not None else ""

    @functools.cached_property
    def meant(self) -> bool:
        """Whether its prediction speaks of the hardware of the last result."""
        expect, run = self.target.expect, self.run
        if expect is None or run is None:
            return False
        called = hardware.names(run.record.device, self.facts, on_host=self.target.on_host)
        return hardware.is_meant(expect.on, called)

    @property
    def off_by(self) -> float | None:
        """How far the answer to its prediction lies outside of the predicted range: log2 of the factor, below zero for
        less than was predicted, 0 within; None where no run answers it."""
        expect, said = self.target.expect, self.answer
        if expect is None or said is None or said.met is None or not said.measured.speedup:
            return None
        low, high = expect.speedup
        found = said.measured.speedup
        return math.log2(found / low) if found < low else math.log2(found / high) if found > high else 0.0

    @property
    def limiter(self) -> str:
        """What keeps the rung that it is about from being faster; "" where that is not known."""
        lead = self.run.lead if self.run is not None else None
        return str(lead.light.limiter or "") if lead is not None and lead.light is not None else ""


class Here(enum.StrEnum):
    """What this machine can do with a lesson or a rung, the most first."""

    TIMED = "timed"
    CHECKED = "checked"  # by Triton's interpreter, which takes no time that says anything
    NEEDS_GPU = "needs GPU"


def without_gpu(rung: Rung) -> Here:
    """What a machine without a GPU can do with a rung."""
    if rung.gpu_only or rung.needs.gpus:
        return Here.NEEDS_GPU
    return Here.TIMED if rung.kind is Kind.TORCH else Here.CHECKED


def best_without_gpu(target: Target) -> Here:
    """The most that a machine without a GPU can do with an optimized rung of a lesson."""
    found = {without_gpu(rung) for rung in target.honest_rungs if rung.role is Role.OPTIMIZED}
    return next((one for one in Here if one in found), Here.NEEDS_GPU)


def times_without_gpu(target: Target) -> bool:
    """Whether a machine without a GPU times an optimized rung of a lesson."""
    return best_without_gpu(target) is Here.TIMED


# -- order -------------------------------------------------------------------------------------------------------------

Key = Callable[[Lesson], "float | str | None"]

SORTS: Mapping[str, Key] = {
    "chapter": lambda lesson: None,  # the catalogue's own order
    "speed-up": lambda lesson: -lesson.ratio.speedup if lesson.ratio and lesson.ratio.speedup else None,
    "share of light": lambda lesson: None if lesson.sol is None else -lesson.sol,
    "distance to prediction": lambda lesson: None if lesson.off_by is None else -abs(lesson.off_by),
    "age": lambda lesson: lesson.run.record.wall if lesson.run is not None else None,
}
"""Orders by name, each with what is sorted by, the least first: the fastest, the nearest to the light, the furthest
from what was predicted, the oldest. Lessons of which it is not known come last, in the catalogue's order."""


def ordered(lessons: Iterable[Lesson], sort: str) -> list[Lesson]:
    """The lessons in one of SORTS."""
    keyed = [(SORTS[sort](lesson), lesson) for lesson in lessons]
    known = sorted((pair for pair in keyed if pair[0] is not None), key=lambda pair: pair[0])  # type: ignore[arg-type,return-value]
    return [lesson for _, lesson in known] + [lesson for key, lesson in keyed if key is None]


# -- choice ------------------------------------------------------------------------------------------------------------

HERE = "can be timed here"

FILTERS: Mapping[str, Callable[[Lesson], bool]] = {
    "all": lambda lesson: True,
    HERE: lambda lesson: lesson.timed_here and not lesson.missing,
    "not run": lambda lesson: lesson.run is None,
    "less than predicted": lambda lesson: (lesson.off_by or 0.0) < 0,
    "prediction missed": lambda lesson: lesson.answer is not None and lesson.answer.says is Says.MISSED,
    "not faster": lambda lesson: lesson.outcome in (Outcome.SAME, Outcome.SLOWER, Outcome.UNDECIDED),
    "failed or doubted": lambda lesson: lesson.bad,
}
"""Choices by name."""


def matches(lesson: Lesson, words: str, *more: str) -> bool:
    """Whether all of these words stand in what is said of a lesson: its id, title, techniques and goal, its outcome,
    its limiter, where it was measured, and `more`."""
    target = lesson.target
    said = (target.id, target.title, *target.techniques, target.goal, lesson.word, lesson.limiter, lesson.on, *more)
    text = " ".join(said).lower()
    return all(word in text for word in words.lower().split())


# -- the axis ----------------------------------------------------------------------------------------------------------


def span(lessons: Iterable[Lesson]) -> tuple[float, float]:
    """The speed-ups from which to which an axis of these lessons goes: powers of two around all that is drawn."""
    values = list(LEAST_SPAN)
    for lesson in lessons:
        ratio, expect = lesson.ratio, lesson.target.expect
        # Not the ends of intervals: one that says nothing, from 0.002 to 40000, would squeeze all the others.
        values += [ratio.speedup] if ratio is not None and ratio.speedup else []
        values += [v for v in expect.speedup if v > 0] if expect is not None else []
    low, high = max(min(values), MOST_SPAN[0]), min(max(values), MOST_SPAN[1])
    return 2.0 ** math.floor(math.log2(low)), 2.0 ** math.ceil(math.log2(high))


def ticks(low: float, high: float, most: int) -> Sequence[float]:
    """At most `most` powers of two from `low` to `high` that are equally far apart, 1 among them."""
    first, last = round(math.log2(low)), round(math.log2(high))
    step = next(step for step in range(1, 99) if (last - first) // step < max(1, most))
    return [2.0**power for power in range(first, last + 1) if power % step == 0]
