"""`aisp judge FOLDER --against TARGET`: every file or folder in it is a candidate of the target.

The candidates stand in a table in the state folder before anything runs (engine.doors.many), so that a command that is
killed goes on where it was when it is given again. The first Ctrl-C has the engine cancel what runs for it.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from aisp.store.outcomes import State
from aisp.store.results import candidate as results
from aisp.store.results import numbers, tables
from aisp.store.results.tables import Column, at, fields, printed
from aisp.store.text import clean_line
from aisp.tui import plain
from aisp.tui.cli import common, resolve
from aisp.tui.cli.interruptible import Interruptible
from aisp.tui.cli.tree import (
    EXIT_GOOD,
    EXIT_INTERRUPTED,
    EXIT_NO,
    EXIT_NOT_HERE,
    MeantError,
    NotHereError,
)

if TYPE_CHECKING:
    from aisp.engine.client import Connection
    from aisp.engine.doors.many import Brought, Common, Ended, Judging, Terms
    from aisp.kernels.catalog.formats import Dialect
    from aisp.store.candidates import Candidates

ONE = ("candidate.py", "optimized.py")
"""A folder that holds one of these is one candidate."""
MOST_TOLD = 20
"""Disagreements that are told one by one."""


def meant(path: str, against: str, sweep: Sequence[str]) -> bool:
    """Whether `judge PATH --against AGAINST` is about candidates of a target, and not about the one answer to a
    problem in a format of others."""
    from aisp.kernels.catalog import formats  # parses: only where a file is read

    problem, candidate = Path(against), Path(path)
    dialect = formats.answered(problem.absolute(), candidate.absolute()) if problem.exists() else None
    if dialect is None or sweep:
        return True
    return candidate.is_dir() and dialect.part(candidate.absolute()) is not formats.Part.CANDIDATE


def judge(
    path: str,
    against: str,
    *,
    sweep: Sequence[str],
    quick: bool = False,
    as_json: bool,
    **how: Any,
) -> int:
    """Judge them on these `many.Terms`, and print what became of each; the exit status.

    Raises:
        MeantError: there is no such target, case or constant, or there are no candidates.
        NotHereError: the engine went away or starts no process, or somebody else cancelled a run.
    """
    from aisp.engine.doors import many  # numpy: only once there is something to judge
    from aisp.engine.doors.asking import RefusedError

    try:
        terms = many.Terms(**how)
        brought = brought_from(Path(path).absolute(), against, terms.case)
        if sweep:
            brought = _swept(brought, sweep)
    except (RefusedError, OSError) as error:
        raise MeantError(str(error), kind="broken") from None
    with common.candidates() as table:
        session = Session(table, brought, terms, as_json=as_json)
        interrupted = asyncio.run(session.run())
    if interrupted:
        return EXIT_INTERRUPTED
    return report(session.ends, finalists=terms.finalists, quick=quick, as_json=as_json)


def report(
    ends: Sequence[Ended], *, finalists: int, as_json: bool, quick: bool = False, more: Sequence[str] = ()
) -> int:
    """Print what became of all, with more lines below; the exit status."""
    if not as_json:
        common.say("\n".join([*table_lines(ends, width=common.terminal_width()), ""]))
    (common.tell if as_json else common.say)("\n".join([*summary_lines(ends, finalists=finalists, quick=quick), *more]))
    return exit_status(ends, full=finalists > 0)


# -- what is judged ----------------------------------------------------------------------------------------------------


def brought_from(path: Path, against: str, case: str) -> list[Brought]:
    """The candidates at a path, beside what they are judged against."""
    from aisp.engine.doors import many
    from aisp.kernels.catalog import formats

    problem = Path(against).absolute()
    if problem.exists() and (answers := formats.answers(path)):
        return _of_many(answers, problem, path)
    one = not path.is_dir() or any((path / name).exists() for name in ONE)
    paths = [path] if one else many.found_in(path)
    dialect = formats.answered(problem, paths[0]) if problem.exists() else None
    if dialect is not None:
        return [_answer(dialect, each, problem) for each in paths]
    shared = _common(against, case)
    return [many.bring(each, shared) for each in paths]


def _of_many(answers: Sequence[Path], problems: Path, folder: Path) -> list[Brought]:
    from aisp.engine.doors import many
    from aisp.kernels.catalog import formats

    found = formats.named(problems, answers)
    made: list[Brought] = []
    for path in answers:
        problem = found.get(path)
        dialect = formats.answered(problem, path) if problem is not None else None
        told = str(path.relative_to(folder))
        if problem is None or dialect is None:
            nothing = many.Common(f"{folder.name}:{path.stem}", folder.name, path.stem, {}, "")
            made.append(many.Brought(told, nothing, refused=f"it names a problem that is not in {problems}"))
        else:
            made.append(_answer(dialect, path, problem, told))
    return made


def _common(against: str, case: str) -> Common:
    from aisp.engine.doors import many
    from aisp.tui.cli.judge import known_formats

    try:
        target = resolve.target(against)
    except MeantError as error:
        if not Path(against).exists():
            raise
        told = f"{against} is no problem; {known_formats()}. Nor is it one target:\n{error.message}"
        raise MeantError(told, error.near, kind="broken") from None
    return many.Common.of(resolve.checked(target, case=case))


def _answer(dialect: Dialect, path: Path, problem: Path, told: str = "") -> Brought:
    from aisp.engine.doors import many
    from aisp.tui.cli.judge import folder_name

    stem, told = folder_name(problem), told or path.name
    nothing = many.Common(f"{stem}:{stem}", stem, stem, {}, "")
    try:
        parts = dialect.against(path, problem)
    except OSError as error:
        return many.Brought(told, nothing, refused=clean_line(str(error)))
    if parts.problems:
        return many.Brought(told, nothing, refused=clean_line(str(parts.problems[0]), limit=1000))
    return many.of_parts(told, parts.files, stem=stem, told=told)


def _swept(brought: Sequence[Brought], sweep: Sequence[str]) -> list[Brought]:
    """Each candidate once for every combination of values of its constants."""
    from aisp.engine.doors import many
    from aisp.kernels.catalog.parameters import ParameterError, read, variants

    try:
        given = [read(word) for word in sweep]
        if len({parameter.name for parameter in given}) < len(given):
            raise ParameterError("a constant is named twice; give all its values at once: BLOCK=64,128")
    except ParameterError as error:
        raise click.UsageError(f"--sweep: {error}") from None
    made: list[Brought] = []
    for one in brought:
        if one.refused:
            made.append(one)
            continue
        try:
            for chosen, source in variants(one.files[many.ENTRY], given):
                said = ", ".join(f"{name}={value}" for name, value in chosen.items())
                made.append(many.beside(f"{one.name} {said}", {**one.files, many.ENTRY: source}, one.common))
        except ParameterError as error:
            raise MeantError(f"{clean_line(one.name)}: {error}", kind="broken") from None
    return made


# -- following it ------------------------------------------------------------------------------------------------------


class Session(Interruptible):
    """One `judge` of many from the first plan to the last outcome.

    Attributes:
        ends: every candidate at every level at which it was judged.
    """

    LEFT = "what is under way goes on; the same command takes it up"
    LOST = f"{Interruptible.LOST}. The same command goes on from there"

    def __init__(self, table: Candidates, brought: Sequence[Brought], terms: Terms, *, as_json: bool) -> None:
        from aisp.engine.doors import many  # already imported

        super().__init__()
        self.ends: list[Ended] = []
        self._as_json = as_json
        self._judging: Judging = many.Judging(table, brought, terms, self._tell)

    def to_cancel(self) -> list[str]:
        return sorted(self._judging.running)

    async def _follow(self, engine: Connection) -> bool:
        from aisp.engine.doors.many import StoppedError

        try:
            self.ends = await self._judging.work(engine)
        except StoppedError as error:
            if not self.interrupts:
                raise NotHereError(str(error)) from None
        return True

    def _draw(self) -> None:
        judging = self._judging
        self._progress.show(f"{judging.ended:,} of {judging.total:,} candidates  {plain.duration(self.elapsed_s)}")

    def _tell(self, end: Ended) -> None:
        if self._as_json:
            self._progress.clear()
            common.say_line(tables.as_json(ENDS, end))
        said = end.outcome.word if end.outcome is not None else "given up"
        self._progress.ended(f"{end.name}: {said}{' (known)' if end.known else ''}")


# -- telling -----------------------------------------------------------------------------------------------------------


ENDS: tuple[Column[Ended], ...] = (
    Column("candidate", "what it is called", at("name")),
    Column("sha256", "hash of its sources", lambda end: end.candidate or None),
    *fields("", {"level": "`quick` or `full`", "known": "whether it was judged before, and not again"}),
    Column("outcome", "what became of it",
           lambda end: plain.jsonable(end.outcome.document()) if end.outcome is not None else None),
    Column("right", "whether its outputs are right and nothing is held against it",
           lambda end: end.outcome is not None and end.outcome.right),
    Column("given_up", "why it has no outcome", lambda end: end.why if end.outcome is None else None),
)  # fmt: skip
"""What `--json` says of a candidate at one level."""


class Judged(NamedTuple):
    """A candidate at both levels; None where it was not judged at that one."""

    name: str
    quick: Ended | None = None
    full: Ended | None = None

    @property
    def last(self) -> results.Outcome | None:
        """What became of it at last; None where it was given up."""
        end = self.full or self.quick
        return end.outcome if end is not None else None


def _why(one: Judged) -> str:
    return one.last.why if one.last is not None else one.quick.why if one.quick is not None else ""


CANDIDATES: tuple[Column[Judged], ...] = (
    printed("candidate", at("name")),
    printed("ended", lambda one: one.last.word if one.last is not None else "given up"),
    printed("at", at("last.stage"), drop=2),
    printed("speed-up [low..high]", lambda one: _ratio(at("quick.outcome")(one))),
    printed("full run [low..high]", lambda one: _ratio(at("full.outcome")(one))),
    printed("verdict", lambda one: one.last.verdict if one.last is not None and one.last.verdict.known else None),
    printed("why", _why, drop=1, shrink=True),
)


def _ratio(found: results.Outcome | None) -> str:
    if found is None:
        return plain.DASH
    return numbers.speedup(found.speedup, found.low, found.high, verdict=found.verdict)


def table_lines(ends: Sequence[Ended], *, width: int | None) -> list[str]:
    """One line for each candidate, the best first: what its quick run said, and its full one."""
    return plain.listing(CANDIDATES, _by_name(ends), width=width)


def _by_name(ends: Sequence[Ended]) -> list[Judged]:
    """The candidates: those with a good full run first, then by the quick one."""
    levels: dict[str, dict[str, Ended]] = {}
    for end in ends:
        levels.setdefault(end.name, {})[end.level.value] = end
    judged = [Judged(name, ends_of.get("quick"), ends_of.get("full")) for name, ends_of in levels.items()]

    def place(end: Ended | None) -> tuple[object, ...]:
        return results.order(end.outcome) if end is not None and end.outcome is not None else (True, 0.0, 1.0)

    return sorted(judged, key=lambda one: (place(one.full), place(one.quick), one.name))


def summary_lines(ends: Sequence[Ended], *, finalists: int, quick: bool = False) -> list[str]:
    """How they ended, which is the best, and what its lead is worth."""
    first = {end.name: end for end in ends if end.level.value == "quick"}
    counted = Counter(end.outcome.word if end.outcome is not None else "given up" for end in first.values())
    different = len({end.candidate for end in first.values() if end.candidate})
    alike = f", {different:,} different" if different < sum(bool(end.candidate) for end in first.values()) else ""
    told = ", ".join(f"{count:,} {word}" for word, count in counted.most_common())
    lines = [f"{plain.counted(len(first), 'candidate')}{alike}: {told}"]
    lines += _disagreements(list(first.values()))
    best = winner(ends, full=finalists > 0)
    once = {end.candidate: end.outcome for end in first.values() if end.outcome is not None}
    lucky = results.luck(list(once.values()))
    if best is None or best.outcome is None:
        return [*lines, f"=> {_no_winner(list(once.values()))}"]
    found = best.outcome
    fix = "leave --quick out" if quick else "give --finalists 1 or more"
    full = f", run {found.run_id}" if finalists else f", in a quick run: {fix} to have the best judged anew"
    said = f"{numbers.speedup(found.speedup, found.low, found.high)} {found.word}"
    lines.append(clean_line(f"=> {best.name}: {said}{full}", limit=1000))
    if lucky is not None and lucky.taken < lucky.shown:
        shown = numbers.speedup(lucky.shown, verdict=lucky.verdict)
        lines.append(
            f"   the fastest of {lucky.of:,} in quick runs showed {shown} there, "
            f"and is taken for {numbers.speedup(lucky.taken)}: the best of many is lucky in part"
        )
    return lines


def _disagreements(ends: Sequence[Ended]) -> list[str]:
    asked = [(end, end.outcome) for end in ends if end.outcome is not None and end.outcome.shared is not None]
    if not asked:
        return []
    others = [(end, found) for end, found in asked if not found.shared]
    lines = [f"by the problem's own rule: {len(asked) - len(others):,} of {len(asked):,} as by ours"]
    return lines + [clean_line(f"{end.name}: {found.own_rule}", limit=1000) for end, found in others[:MOST_TOLD]]


def winner(ends: Sequence[Ended], *, full: bool) -> Ended | None:
    """The fastest right candidate, of those with a full run where there were any; None where none has a time."""
    level = "full" if full else "quick"
    timed = [
        (end, end.outcome)
        for end in ends
        if end.level.value == level and end.outcome is not None and end.outcome.right and end.outcome.speedup
    ]
    return min(timed, key=lambda each: results.order(each[1]))[0] if timed else None


def _no_winner(outcomes: Sequence[results.Outcome]) -> str:
    if any(outcome.right for outcome in outcomes):
        return "none is right and timed"
    unrun = sum(outcome.state is State.UNAVAILABLE for outcome in outcomes)
    if unrun == len(outcomes):
        return "none could be judged here"
    return f"none that could be judged here is right ({unrun:,} could not)" if unrun else "none is right"


def exit_status(ends: Sequence[Ended], *, full: bool) -> int:
    """0: one is right and faster than the baseline. 3: some could not be judged here. 1: none is."""
    if any(end.outcome is None or end.outcome.state is State.UNAVAILABLE for end in ends):
        return EXIT_NOT_HERE
    best = winner(ends, full=full)
    return EXIT_GOOD if best is not None and best.outcome is not None and best.outcome.word == "faster" else EXIT_NO
