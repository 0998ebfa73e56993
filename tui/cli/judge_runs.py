"""`aisp judge RUNS --against CHECKOUT`: KernelBench's generations, what was claimed of them, and what we find.

Each answer is a candidate of its problem (`engine.doors.many`): those of one problem share its runs, what was judged
before is known, and whoever is killed goes on from there. A broken one ends with its reason, and the others go on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aisp.engine import paths
from aisp.engine.doors import many
from aisp.store.candidates import Candidates
from aisp.store.outcomes import State
from aisp.store.results.tables import Column, as_json, at, attributes, documents, fields, printed, through
from aisp.store.text import clean_line
from aisp.tui import plain
from aisp.tui.cli import common, judge_many
from aisp.tui.cli.tree import EXIT_GOOD, EXIT_INTERRUPTED, EXIT_NO, EXIT_NOT_HERE, MeantError

if TYPE_CHECKING:
    from aisp.engine.doors.many import Brought, Ended
    from aisp.kernels.catalog.formats import Listed
    from aisp.kernels.catalog.formats.kernelbench_runs import Generation
    from aisp.store.record import RuleSaid
    from aisp.store.results.candidate import Outcome


@dataclass(frozen=True, slots=True)
class Judged:
    """One answer and what became of it.

    Attributes:
        outcome: None where it was not judged.
        why: why it was not; "" where it was.
        rule: what KernelBench's own rule says of it, where it was asked.
    """

    generation: Generation
    outcome: Outcome | None = None
    why: str = ""
    rule: RuleSaid | None = None

    @property
    def correct(self) -> bool | None:
        """Whether its outputs are right and nothing was held against it; None where that is not known."""
        known = self.outcome is not None and self.outcome.state is not State.UNAVAILABLE
        return self.outcome.right if known and self.outcome is not None else None

    @property
    def agrees(self) -> bool | None:
        """Whether the claim that it is right is ours too; None where one of the two is not known."""
        claimed = self.generation.claimed
        if claimed is None or claimed.correct is None or self.correct is None:
            return None
        return claimed.correct == self.correct

    @property
    def reason(self) -> str:
        """Why it is not right, or has no verdict; "" for nothing."""
        return self.why or (self.outcome.why if self.outcome is not None else "")


def listing(folder: Path, *, as_json: bool) -> None:
    """Print the answers in a folder with what was claimed of them."""
    from aisp.kernels.catalog.formats import kernelbench_runs  # parses: only where a folder is read

    found = list(kernelbench_runs.generations(folder))
    common.answer(
        as_json, lambda: {"format": "kernelbench", "generations": documents(GENERATIONS, found)}, _listed, found
    )


def judge(folder: Path, checkout: Path, *, as_json: bool, **how: Any) -> int:
    """Judge all answers of a folder by quick runs on these `many.Terms`; the exit status.

    Raises:
        MeantError: the checkout has no problems.
        NotHereError: the engine went away, or somebody else cancelled a run.
    """
    from aisp.kernels.catalog.formats import kernelbench_runs

    problems = kernelbench_runs.problems(checkout)
    if not problems:
        told = f"{checkout} holds no problems by level and number; name a checkout of KernelBench"
        raise MeantError(told, kind="broken")
    generations = {f"{each.run}/{each.name}": each for each in kernelbench_runs.generations(folder)}
    brought, left_out = _brought(generations, problems)
    with common.candidates() as table:
        session = _Session(table, brought, many.Terms(**how), generations, as_json=as_json)
        for judged in left_out:
            session.take(judged)
        interrupted = asyncio.run(session.run()) if brought else False
    if interrupted:
        return EXIT_INTERRUPTED
    found = [session.found[name] for name in generations if name in session.found]
    if not as_json:
        common.say("\n".join(lines(found, width=common.terminal_width())))
    if any(judged.correct is None for judged in found):
        return EXIT_NOT_HERE
    return EXIT_GOOD if all(judged.correct for judged in found) else EXIT_NO


def _brought(
    generations: Mapping[str, Generation], problems: Mapping[tuple[int, int], Listed]
) -> tuple[list[Brought], list[Judged]]:
    """The answers as candidates of their problems, and those that cannot be judged through no fault of theirs."""
    from aisp.kernels.catalog.formats import kernelbench
    from aisp.tui.cli.judge import folder_name

    brought: list[Brought] = []
    left_out: list[Judged] = []
    known: dict[str, many.Common] = {}  # thousands of answers have hundreds of problems
    for name, each in generations.items():
        problem = problems.get((each.level, each.problem))
        if problem is None:
            left_out.append(Judged(each, why=f"there is no problem {each.problem} in level {each.level}"))
            continue
        stem = folder_name(problem.path)
        try:
            parts = kernelbench.against(each.path, problem.path)
        except OSError as error:
            left_out.append(Judged(each, why=clean_line(str(error))))
            continue
        if not parts.problems:
            one = many.of_parts(name, parts.files, stem=stem, told=each.path.name)
            shared = known.setdefault(one.common.sources, one.common)
            brought.append(replace(one, common=shared))
            continue
        first = parts.problems[0]
        why = clean_line(str(first), limit=1000)
        if first.path == each.path:
            brought.append(many.Brought(name, many.Common(f"{stem}:{stem}", stem, stem, {}, ""), refused=why))
        else:
            left_out.append(Judged(each, why=why))
    return brought, left_out


class _Session(judge_many.Session):
    """Candidates that are told of beside what was claimed of them.

    Attributes:
        found: what became of each, by its name.
    """

    def __init__(
        self,
        table: Candidates,
        brought: Sequence[Brought],
        terms: many.Terms,
        generations: Mapping[str, Generation],
        *,
        as_json: bool,
    ) -> None:
        super().__init__(table, brought, terms, as_json=as_json)
        self.found: dict[str, Judged] = {}
        self._generations = generations

    def take(self, judged: Judged) -> None:
        """Tell of one."""
        name = f"{judged.generation.run}/{judged.generation.name}"
        self.found[name] = judged
        if self._as_json:
            self._progress.clear()
            common.say_line(as_json(JUDGED, judged))
        self._progress.ended(f"{name}: {_ours(judged)}")

    def _tell(self, end: Ended) -> None:
        rule = _rule(end.outcome) if end.outcome is not None else None
        self.take(Judged(self._generations[end.name], end.outcome, end.why, rule))


def _rule(outcome: Outcome) -> RuleSaid | None:
    from aisp.store import History
    from aisp.store.errors import StoreError

    if not outcome.run_id:
        return None
    try:
        with History(paths.database_file()) as history:
            arm = history.run(outcome.run_id).arm(outcome.rung)
    except (LookupError, StoreError):
        return None
    return arm.rule if arm is not None else None


# -- what is told ------------------------------------------------------------------------------------------------------


def lines(found: Sequence[Judged], *, width: int | None) -> list[str]:
    """All answers for people: what was claimed beside what was found, and how often the two differ."""
    claimed = [one for one in found if one.generation.claimed is not None and one.generation.claimed.correct]
    right = sum(one.correct is True for one in found)
    differ = sum(one.agrees is False for one in found)
    total = (
        f"{len(found):,} judged: {right:,} right, {len(claimed):,} claimed to be; claims that are not ours: {differ:,}"
    )
    ruled = [one for one in found if one.rule is not None and one.rule.right is not None]
    apart = sum(one.rule.right != one.correct for one in ruled if one.rule is not None)
    by_rule = f"KernelBench's own rule was asked of {len(ruled):,}; it differs from ours on {apart:,}"
    return [*plain.listing(JUDGED, found, width=width), "", total, *([by_rule] if ruled else [])]


def _listed(found: Sequence[Generation], *, width: int | None) -> Iterable[str]:
    yield from plain.listing([replace(GENERATIONS[0], shrink=True), *GENERATIONS[1:]], found, width=width)
    yield ""
    right = sum(each.claimed is not None and each.claimed.correct is True for each in found)
    yield f"{plain.counted(len(found), 'answer')}; claimed to be right: {right:,}"
    for reason in dict.fromkeys(f"{each.run}: {each.reason}" for each in found if each.reason):
        yield f"  {clean_line(reason)}"


def _claim(generation: Generation) -> str:
    claimed = generation.claimed
    if claimed is None or claimed.correct is None:
        return ""
    word = "right" if claimed.correct else "wrong" if claimed.compiled else "not compiled"
    if claimed.speedup is not None:
        return f"{word} {plain.speedup(claimed.speedup)}"
    return word if claimed.runtime_ms is None else f"{word} {plain.milliseconds(claimed.runtime_ms)} ms"


CLAIMED = ("compiled", "correct", "runtime_ms", "reference_ms", "speedup")
GENERATIONS: tuple[Column[Generation], ...] = (
    Column("run", "the folder of generations", at("run"), "run"),
    Column("level", "of the problem", at("level"), "level", right=True),
    Column("problem", "its number", at("problem"), "problem", right=True),
    Column("sample", "the number of the answer", at("sample"), "sample", right=True),
    *fields("", {"path": "its file"}),
    Column("claimed", "what was claimed: `compiled`, `correct`, `runtime_ms`, `reference_ms` and `speedup`",
           lambda one: None if one.claimed is None else attributes(one.claimed, *CLAIMED), "claimed", _claim),
)  # fmt: skip


def _ours(judged: Judged) -> str:
    found = judged.outcome
    if found is None:
        return "not judged"
    times = plain.speedup(found.speedup, found.low, found.high) if found.speedup is not None else ""
    return f"{found.word} {times}".rstrip()


def _ours_json(judged: Judged) -> dict[str, Any]:
    names = ("state", "verdict", "speedup", "low", "high", "median_ms")
    return {
        "correct": judged.correct,
        **{name: at(f"outcome.{name}")(judged) for name in names},
        **{name: at(f"outcome.{name}")(judged) or None for name in ("run_id", "rung")},
        "rule": attributes(judged.rule, "name", "right", "detail") if judged.rule is not None else None,
        "reason": judged.reason or None,
    }


JUDGED: tuple[Column[Judged], ...] = (
    *(through(column, lambda one: one.generation) for column in GENERATIONS),
    Column("ours", "what is found here, with `rule`, which is what KernelBench's own rule says", _ours_json,
           "ours", _ours),
    Column("agrees", "whether the claim that it is right is ours too", at("agrees"),
           "agree", lambda one: {True: "yes", False: "NO", None: ""}[one.agrees], drop=2),
    printed("why", at("reason"), drop=1, shrink=True),
)  # fmt: skip
