"""The search for the edit that made a rung slower: which versions of it there are, and what each measurement against
the good one says. Who asks measures them (`ask`), old and new in turns.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING

from aisp.kernels.catalog.between import NEW, OLD, BetweenError, reached
from aisp.store.outcomes import State, Verdict
from aisp.store.results import regression
from aisp.store.results.numbers import local_time, speedup

if TYPE_CHECKING:
    from aisp.store.record import Arm
    from aisp.store.results.reading import Reading

OF_THE_SITTING = "the difference is of the sitting, not of the code"


class NoAnswerError(Exception):
    """A version cannot be measured for reasons that are not its own; the message says why."""


class Word(enum.StrEnum):
    """What a version is found to be, against the good one."""

    GOOD = "good"
    BAD = "bad"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Version:
    """One source of the rung, as it was from a moment on until the next version.

    Attributes:
        files: of the whole target.
        rung: those that the rung is made of; empty where it cannot be told, and `reason` says why.
        snapshot, run_id: of the first run that had it; "" where no run did.
        wall: when that run was planned, or it was committed.
        commit, subject: of the first commit that has it; "" where none has.
    """

    files: Mapping[str, bytes]
    rung: Mapping[str, bytes]
    snapshot: str = ""
    run_id: str = ""
    wall: str = ""
    commit: str = ""
    subject: str = ""
    reason: str = ""

    def same(self, other: Version) -> bool:
        """Whether the rung is the same in both."""
        return self.rung == other.rung and self.reason == other.reason

    @property
    def label(self) -> str:
        """For people: where it is from, and when."""
        told = [f"snapshot {self.snapshot[:12]}" if self.snapshot else ""]
        told += [f"run {self.run_id}" if self.run_id else "", local_time(self.wall)]
        told += [f"commit {self.commit[:12]} {self.subject}".rstrip() if self.commit else ""]
        return "  ".join(part for part in told if part)

    def as_json(self) -> dict[str, str | None]:
        """For JSON; the schema is in docs/commands.md."""
        return {name: getattr(self, name) or None for name in ("snapshot", "run_id", "wall", "commit", "subject")}


@dataclass(frozen=True, slots=True)
class Step:
    """One version as it was measured against the good one.

    Attributes:
        number: of the version, 0 is the good one.
        verdict, speedup, low, high: the version against the good one; below 1 it is slower.
        run_id: of the run in turns; "" where there was none.
        reason: why it was skipped, or that it was counted as good without a decision.
    """

    number: int
    word: Word
    verdict: Verdict = Verdict.NONE
    speedup: float | None = None
    low: float | None = None
    high: float | None = None
    run_id: str = ""
    reason: str = ""

    @property
    def sentence(self) -> str:
        """For people."""
        ratio = "" if self.speedup is None else speedup(self.speedup, self.low, self.high)
        told = " ".join(filter(None, (self.verdict.value if self.verdict.known else "", ratio)))
        return "; ".join(filter(None, (f"{self.word.value}: {told}" if told else self.word.value, self.reason)))


@dataclass(slots=True)
class Found:
    """Where the search ended.

    Attributes:
        first_bad: number of the first bad version; None where the last version is not slower than the first.
        before: number of the newest good version before it. Versions between the two were skipped.
        steps: in the order in which they were taken.
        runs: how many runs were made.
    """

    first_bad: int | None = None
    before: int = 0
    steps: list[Step] = field(default_factory=list)
    runs: int = 0

    @property
    def skipped(self) -> list[Step]:
        """Versions that could not be measured."""
        return [step for step in self.steps if step.word is Word.SKIPPED]


# -- which versions there are ------------------------------------------------------------------------------------------


def versions_of(stored: Sequence[Version], commits: Sequence[Version], rung: str) -> list[Version]:
    """The distinct sources of `rung` in time order: the first is the good run's, the last the bad run's. One that comes
    back after another stands twice."""
    first, *later = stored
    moments = sorted([*later[:-1], *commits], key=lambda version: _seconds(version.wall))
    found: list[Version] = []
    for version in (first, *moments, later[-1]):
        whole = version
        if not version.reason:
            try:
                whole = replace(version, rung=reached(version.files, rung))
            except BetweenError as error:
                whole = replace(version, reason=str(error))
        if found and found[-1].same(whole):
            known = found[-1]
            if whole.commit and not known.commit:
                found[-1] = replace(known, commit=whole.commit, subject=whole.subject)
            elif whole.run_id and not known.run_id:
                found[-1] = replace(known, run_id=whole.run_id, snapshot=whole.snapshot)
        else:
            found.append(whole)
    return found


def _seconds(wall: str) -> float:
    try:
        return datetime.fromisoformat(wall).timestamp()
    except ValueError:
        return 0.0


def lost_most(older: Reading, newer: Reading, then: Version, now: Version) -> str:
    """The rung whose time grew most from one run to the other, among those whose sources differ; else the one that
    the newer is about, "" where it is about none."""
    grown: dict[str, float] = {}
    for rung in newer.rungs:
        before, after = older.arm(rung), newer.arm(rung)
        if before is None or after is None or after.twin or rung in (older.hidden | newer.hidden):
            continue
        try:
            if reached(then.files, rung) == reached(now.files, rung):
                continue
        except BetweenError:
            continue
        if before.median_ms and after.median_ms:
            grown[rung] = after.median_ms / before.median_ms
    if grown:
        return max(grown, key=grown.__getitem__)
    return newer.best.rung if newer.best else newer.lead.rung if newer.lead else ""


# -- the search --------------------------------------------------------------------------------------------------------


def search(versions: Sequence[Version], ask: Callable[[int], Step], found: Found) -> Found:
    """Bisect: the first version that is bad, where the first is good; each source is asked about once.

    Args:
        ask: measures the version of that number against the first.
        found: filled in while it goes on, so that what was found is known where it is left early.
    """

    def told(number: int) -> Word:
        for step in found.steps:
            if versions[step.number].same(versions[number]):
                return step.word
        if versions[number].same(versions[0]):
            return Word.GOOD
        found.steps.append(ask(number))
        return found.steps[-1].word

    low, high = 0, len(versions) - 1
    if told(high) is not Word.BAD:
        return found
    skipped: set[int] = set()
    while open_ := [number for number in range(low + 1, high) if number not in skipped]:
        middle = min(open_, key=lambda number: abs(2 * number - low - high))
        word = told(middle)
        if word is Word.BAD:
            high = middle
        elif word is Word.GOOD:
            low = middle
        else:
            skipped.add(middle)
    found.first_bad, found.before = high, low
    return found


def _failed(arm: Arm) -> bool:
    return arm.state.final and not arm.state.spares_the_run


def read(number: int, run: Reading) -> Step:
    """What a finished run of the good version (its baseline) and another (its optimized rung) says of the other.

    Raises:
        NoAnswerError: nothing, for reasons that are not the other version's.
    """
    record = run.record
    base, arm = run.arm(OLD), run.arm(NEW)
    if record.state.silent or base is None or arm is None:
        raise NoAnswerError(f"run {run.id} did not come to an answer: {record.reason or record.state}")
    wrong = run.bar(OLD)
    # Where the other version failed, the good one is not timed: there is nothing to compare it with.
    if _failed(base) or wrong is not None or (base.state is not State.OK and not _failed(arm)):
        why = base.reason or (wrong.sentence if wrong else base.state)
        raise NoAnswerError(f"the good version cannot be measured on the task of the bad run: {why}")
    if arm.state is not State.OK:
        return Step(number, Word.SKIPPED, run_id=run.id, reason=arm.reason or arm.state)
    if (held := run.bar(NEW)) is not None:
        return Step(number, Word.SKIPPED, run_id=run.id, reason=held.sentence)
    against = run.comparison(NEW)
    if base.median_ms is None or arm.median_ms is None:
        why = (against.note if against else "") or "checked, not timed"
        raise NoAnswerError(f"the two versions are not timed here: {why}")
    if against is None or not against.verdict.known:
        why = (against.note if against else "") or record.reason or "its times are not to be believed"
        return Step(number, Word.GOOD, Verdict.UNDECIDED, run_id=run.id, reason=why)
    word = Word.BAD if regression.confirms(against.verdict) else Word.GOOD
    return Step(number, word, against.verdict, against.speedup, against.low, against.high, run.id)


def conclusion(versions: Sequence[Version], found: Found) -> str:
    """Why nothing was found; "" where something was."""
    if found.first_bad is not None:
        return ""
    if len(versions) == 1:
        return f"both runs had the same source of it: {OF_THE_SITTING}"
    return f"the bad version is not slower than the good one in turns ({found.steps[-1].sentence}): {OF_THE_SITTING}"
