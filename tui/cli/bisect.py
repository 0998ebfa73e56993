"""`aisp bisect`: which edit made a rung slower, found by measuring versions in turns.

Two runs of different days say that a rung became slower; machine and day are in that. Here the version of the good run
is measured against one in the middle, in one sitting, until the first one that is slower stands alone: N versions take
about log2(N) runs. Which versions there are, the store says, and git where the folder is in a checkout.
"""

from __future__ import annotations

import enum
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from aisp.kernels.catalog import choosing
from aisp.store.outcomes import State, Verdict
from aisp.store.results import regression
from aisp.store.text import clean, clean_line
from aisp.tui import plain
from aisp.tui.cli import common, resolve
from aisp.tui.cli.tree import EXIT_INTERRUPTED, NotHereError
from aisp.tui.earlier import runs_of

if TYPE_CHECKING:
    from aisp.store.record import Run
    from aisp.store.results.reading import Reading
    from aisp.tui.cli.stored import Opened
    from aisp.tui.cli.turning import Manner

LOOK_BACK_RUNS = 5000
OF_THE_SITTING = "the difference is of the sitting, not of the code"


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
        told += [f"run {self.run_id}" if self.run_id else "", plain.local_time(self.wall)]
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
        ratio = "" if self.speedup is None else plain.speedup(self.speedup, self.low, self.high)
        verdict = self.verdict.value if self.verdict.known else ""
        told = " ".join(part for part in (verdict, ratio) if part)
        return "; ".join(
            part for part in (f"{self.word.value}: {told}" if told else self.word.value, self.reason) if part
        )


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


@click.command()
@common.target_argument
@click.option(
    "--good", metavar="RUN", required=True, help="A run when it was fast.", shell_complete=common.complete_runs
)
@click.option(
    "--bad", metavar="RUN", required=True, help="A later run, when it was slow.", shell_complete=common.complete_runs
)
@click.option(
    "--rung",
    metavar="NAME",
    help="Which rung; by default the one that lost most between the two runs.",
    shell_complete=common.complete_rungs,
)
@click.option("--quick", is_flag=True, help="Quick runs: seconds a step, and only large differences are seen.")
@click.option(
    "--device",
    type=click.Choice(["auto", "cuda", "cpu"]),
    default="auto",
    show_default=True,
    help="Where to run; auto is where the bad run was.",
)
@common.root_option
@common.verbose_option
@common.json_option
@click.pass_context
def command(
    ctx: click.Context,
    target_id: str,
    good: str,
    bad: str,
    rung: str | None,
    quick: bool,
    device: str,
    roots: tuple[str, ...],
    as_json: bool,
) -> None:
    """Find the edit that made a rung of TARGET slower, between two of its runs.

    The versions are the sources of the rung that runs had between the two, and those of the commits between them where
    the folder is in git. Each step measures the good version against one in the middle, in turns, with the task
    (lesson.md, reference.py, inputs.py) of the bad run. Slower is bad; the same or faster is good; what stays undecided
    with more replicas counts as good, which is told. A version that does not run or is wrong is skipped and named.

    Exit status: 0 found; 1 the bad version is not slower in turns; 2 no such run, runs of another target, the good one
    not older than the bad one; 3 it could not be done here; 130 left by Ctrl-C.
    """
    from aisp.tui.cli import stored  # the store and numpy
    from aisp.tui.cli.turning import LeftError, Manner  # how runs are followed, which needs msgspec

    begun = time.monotonic()
    with stored.history() as opened:
        older, newer = _ends(opened, target_id, good, bad, roots)
        folder = _folder(newer, target_id, roots)
        had = _stored(opened, older, newer)
        chosen = rung or _lost_most(opened.read(older), opened.read(newer), had[0], had[-1])
    commits, git = _commits(folder, older.wall, newer.wall)
    versions = versions_of(had, commits, chosen)
    for end, run in ((versions[0], older), (versions[-1], newer)):
        if end.reason:
            raise click.UsageError(f"run {run.id}: {end.reason}")
    many = plain.counted(len(versions), "version")
    common.note(clean_line(f"aisp: {newer.target}: {chosen}: {many} from run {older.id} to run {newer.id}; {git}"))
    manner = Manner.of(newer, quick=quick)
    if device != "auto":
        manner = replace(manner, device=device, case=newer.case if device == newer.device else "")
    trial = Trial(newer.target, chosen, versions, manner)
    found = Found()
    try:
        found = search(versions, trial.ask, found)
    except LeftError:
        _say_steps(found)
        ctx.exit(EXIT_INTERRUPTED)
    found.runs = trial.runs
    took_s = time.monotonic() - begun
    if as_json:
        common.say_document(as_document(newer.target, chosen, versions, found, git, took_s))
    else:
        common.say("\n".join(lines(newer.target, chosen, versions, found, took_s)))
    ctx.exit(0 if found.first_bad is not None else 1)


# -- which versions there are ------------------------------------------------------------------------------------------


def _ends(opened: Opened, word: str, good: str, bad: str, roots: Sequence[str]) -> tuple[Run, Run]:
    """The two runs. Wrong usage where they are not what was asked for."""
    meant = opened.meant(word, roots)
    if isinstance(meant, str) or len(meant) != 1:
        raise click.UsageError(f"{clean_line(word)} is not one target; `aisp history` lists those that were run")
    older, newer = opened.run(good), opened.run(bad)
    for run in (older, newer):
        if run.target not in meant[0]:
            raise click.UsageError(f"run {run.id} is of {run.target}, not of {meant[0][0]}")
        if not run.snapshot:
            raise click.UsageError(f"run {run.id} kept no sources")
    if (older.wall, older.id) >= (newer.wall, newer.id):
        raise click.UsageError(f"the good run {older.id} is not older than the bad run {newer.id}; --good is the older")
    return older, newer


def _folder(run: Run, word: str, roots: Sequence[str]) -> Path:
    """Where the target lies: at the path that was given, else where it was run."""
    if roots or choosing.is_path(word):
        return resolve.target(word, roots).folder
    return Path(os.fsdecode(run.folder))


def _stored(opened: Opened, older: Run, newer: Run) -> list[Version]:
    """The sources of the two runs and of those between them, oldest first, each time that they changed; `rung` is not
    filled in."""
    from aisp.store.errors import StoreError

    between = [
        run
        for run in reversed(runs_of(opened, {older.target, newer.target}, LOOK_BACK_RUNS))
        if run.snapshot and run.folder in (older.folder, newer.folder) and older.id < run.id < newer.id
    ]
    found: list[Version] = []
    for run in (older, *between, newer):
        if found and found[-1].snapshot == run.snapshot and run is not newer:
            continue
        facts = {"snapshot": run.snapshot, "run_id": run.id, "wall": run.wall}
        try:
            found.append(Version(opened.snapshot(run.snapshot), {}, **facts))
        except (LookupError, StoreError) as error:
            if run in (older, newer):
                raise
            found.append(Version({}, {}, **facts, reason=f"its sources cannot be read: {clean_line(str(error))}"))
    return found


def _commits(folder: Path, since: str, until: str) -> tuple[list[Version], str]:
    """The commits between two moments as versions, and what is to be said of git."""
    from aisp.tui.cli import commits

    try:
        first_s, last_s = (datetime.fromisoformat(wall).timestamp() for wall in (since, until))
        found = commits.touching(folder, first_s, last_s)
    except commits.NoCommitsError as error:
        return [], f"without commits: {error}"
    except ValueError:
        return [], "without commits: the runs do not say when they were made"
    versions = [
        Version(
            one.files,
            {},
            wall=datetime.fromtimestamp(one.seconds).astimezone().isoformat(),
            commit=one.id,
            subject=one.subject,
        )
        for one in found
    ]
    return versions, f"with {plain.counted(len(versions), 'commit')}"


def versions_of(stored: Sequence[Version], commits: Sequence[Version], rung: str) -> list[Version]:
    """The distinct sources of `rung` in time order: the first is the good run's, the last the bad run's. One that comes
    back after another stands twice."""
    from aisp.kernels.catalog.between import BetweenError, reached

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


def _lost_most(older: Reading, newer: Reading, then: Version, now: Version) -> str:
    """The rung whose time grew most from one run to the other, among those whose sources differ."""
    from aisp.kernels.catalog.between import BetweenError, reached

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
    lead = newer.best.rung if newer.best else newer.lead.rung if newer.lead else ""
    if not lead:
        raise click.UsageError(f"run {newer.id} has no rung with a time; name one with --rung")
    return lead


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


class Trial:
    """Measures versions against the first one, in turns."""

    def __init__(self, target: str, rung: str, versions: Sequence[Version], manner: Manner) -> None:
        from aisp.store.ulid import new_ulid

        self._target = target
        self._rung = rung
        self._versions = versions
        self._manner = manner
        self._collection = f"bisect-{new_ulid()}"
        self.runs = 0

    def ask(self, number: int) -> Step:
        """What the version of that number is.

        Raises:
            NotHereError: the good version, or the last one, cannot be measured here.
            LeftError: Ctrl-C.
        """
        step = self._asked(number)
        common.note(
            clean_line(f"aisp: version {number}: {step.sentence}  ({self._versions[number].label})", limit=1000)
        )
        if step.word is Word.SKIPPED and number == len(self._versions) - 1:
            raise NotHereError(f"the bad version cannot be measured: {step.reason}")
        return step

    def _asked(self, number: int) -> Step:
        from aisp.kernels.catalog.between import BetweenError, between

        version, good, task = self._versions[number], self._versions[0], self._versions[-1]
        if version.reason:
            return Step(number, Word.SKIPPED, reason=version.reason)
        name = self._target.partition(":")[2] or self._target
        try:
            files = between(good.files, version.files, self._rung, self._target, task=task.files)
        except BetweenError as error:
            return Step(number, Word.SKIPPED, reason=str(error))
        folder = f"{name}_{number}"
        first = self._turned(folder, files, self._manner)
        step = read(number, first)
        more = 0 if step.word is Word.SKIPPED else regression.once_more(first)
        if not more:
            return step
        common.note(f"aisp: version {number}: undecided; measured once more with {more} replicas")
        again = self._turned(folder, files, replace(self._manner, replicas=more))
        step = read(number, again)
        if step.word is Word.GOOD and regression.once_more(again):
            return replace(step, reason=f"undecided with {more} replicas, counted as good")
        return step

    def _turned(self, folder: str, files: Mapping[str, bytes], manner: Manner) -> Reading:
        from aisp.tui.cli.turning import turn

        turned = turn(self._collection, {folder: files}, manner)
        if folder not in turned.runs:
            why = clean_line(turned.refused.get(folder, "the run did not come to its end"), limit=2000)
            raise NotHereError(f"the two versions cannot be run here: {why}")
        self.runs += 1
        return turned.runs[folder]


def read(number: int, run: Reading) -> Step:
    """What a finished run of the good version (its baseline) and another (its optimized rung) says of the other.

    Raises:
        NotHereError: nothing, for reasons that are not the other version's.
    """
    from aisp.kernels.catalog.between import NEW, OLD  # the catalogue
    from aisp.tui.cli.follow import failed  # the record

    record = run.record
    base, arm = run.arm(OLD), run.arm(NEW)
    if record.state.silent or base is None or arm is None:
        raise NotHereError(clean_line(f"run {run.id} did not come to an answer: {record.reason or record.state}"))
    wrong = run.bar(OLD)
    # Where the other version failed, the good one is not timed: there is nothing to compare it with.
    if failed(base) or wrong is not None or (base.state is not State.OK and not failed(arm)):
        why = clean_line(base.reason or (wrong.sentence if wrong else base.state), limit=2000)
        raise NotHereError(f"the good version cannot be measured on the task of the bad run: {why}")
    if arm.state is not State.OK:
        return Step(number, Word.SKIPPED, run_id=run.id, reason=clean_line(arm.reason or arm.state, limit=500))
    if (held := run.bar(NEW)) is not None:
        return Step(number, Word.SKIPPED, run_id=run.id, reason=clean_line(held.sentence, limit=500))
    against = run.comparison(NEW)
    if base.median_ms is None or arm.median_ms is None:
        why = clean_line((against.note if against else "") or "checked, not timed", limit=500)
        raise NotHereError(f"the two versions are not timed here: {why}")
    if against is None or not against.verdict.known:
        why = (against.note if against else "") or record.reason or "its times are not to be believed"
        return Step(number, Word.GOOD, Verdict.UNDECIDED, run_id=run.id, reason=clean_line(why, limit=500))
    word = Word.BAD if regression.confirms(against.verdict) else Word.GOOD
    return Step(number, word, against.verdict, against.speedup, against.low, against.high, run.id)


# -- what is said ------------------------------------------------------------------------------------------------------


def _say_steps(found: Found) -> None:
    bad = [step.number for step in found.steps if step.word is Word.BAD]
    good = [0, *(step.number for step in found.steps if step.word is Word.GOOD)]
    if bad:
        common.note(f"aisp: as far as it came: the first bad version is between {max(good)} and {min(bad)}")


def difference(before: Version, after: Version) -> str:
    """What changed in the rung from one version to the other, as `diff -u` writes it."""
    from aisp.tui.cli.diff import MAX_FILE_CHARACTERS, Pair, unified
    from aisp.tui.widgets.alignment import split_lines

    def text(version: Version, name: str) -> list[str] | None:
        data = version.rung.get(name)
        return None if data is None else split_lines(clean(data, limit=MAX_FILE_CHARACTERS))

    def label(version: Version, name: str) -> str:
        return f"{name} ({f'run {version.run_id}' if version.run_id else f'commit {version.commit[:12]}'})"

    pairs = [
        Pair(label(before, name), label(after, name), text(before, name), text(after, name))
        for name in sorted({*before.rung, *after.rung})
    ]
    return "\n".join(line for pair in pairs if not pair.same for line in unified(pair, 3))


def conclusion(versions: Sequence[Version], found: Found) -> str:
    """Why nothing was found; "" where something was."""
    if found.first_bad is not None:
        return ""
    if len(versions) == 1:
        return f"both runs had the same source of it: {OF_THE_SITTING}"
    return f"the bad version is not slower than the good one in turns ({found.steps[-1].sentence}): {OF_THE_SITTING}"


def lines(target: str, rung: str, versions: Sequence[Version], found: Found, took_s: float) -> list[str]:
    """The result for people."""
    took = (
        f"{plain.counted(found.runs, 'run')} over {plain.counted(len(versions), 'version')}, {plain.duration(took_s)}"
    )
    if found.first_bad is None:
        return [f"{target}: {rung}: {conclusion(versions, found)}", took]
    bad = versions[found.first_bad]
    step = next(step for step in found.steps if versions[step.number].same(bad))
    ratio = plain.speedup(step.speedup, step.low, step.high)
    between = range(found.before + 1, found.first_bad)
    told = [
        f"{target}: the first bad version of {rung}, {ratio} as fast as the good one:",
        f"  {bad.label}",
        f"the one before it: {versions[found.before].label}",
        *(f"may be it as well, since it was skipped: {versions[number].label}" for number in between),
        *(f"version {one.number} ({versions[one.number].label}): {one.sentence}" for one in found.steps if one.reason),
    ]
    return [clean_line(line, limit=2000) for line in told] + ["", difference(versions[found.before], bad), "", took]


def as_document(
    target: str, rung: str, versions: Sequence[Version], found: Found, git: str, took_s: float
) -> dict[str, Any]:
    """The result for JSON; the schema is in docs/commands.md."""
    first_bad = None if found.first_bad is None else versions[found.first_bad]
    before = versions[found.before] if first_bad else None
    between = range(found.before + 1, found.first_bad) if found.first_bad is not None else range(0)
    return {
        "target": target,
        "rung": rung,
        "found": first_bad is not None,
        "conclusion": conclusion(versions, found) or None,
        "first_bad": first_bad.as_json() if first_bad else None,
        "before": before.as_json() if before else None,
        "diff": difference(before, first_bad) if before and first_bad else None,
        "may_be": [versions[number].as_json() for number in between],
        "versions": len(versions),
        "git": git,
        "runs": found.runs,
        "seconds": took_s,
        "steps": [{**asdict(step), "version": versions[step.number].as_json()} for step in found.steps],
    }
