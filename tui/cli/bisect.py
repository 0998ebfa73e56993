"""`aisp bisect`: which edit made a rung slower, found by measuring versions in turns.

Two runs of different days say that a rung became slower; machine and day are in that. Here the version of the good run
is measured against one in the middle, in one sitting, until the first one that is slower stands alone: N versions take
about log2(N) runs. Which versions there are, the store says, and git where the folder is in a checkout.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from aisp.kernels.catalog import choosing
from aisp.store.results import bisection, regression
from aisp.store.results.bisection import Found, Step, Version, Word, conclusion, search, versions_of
from aisp.store.text import clean, clean_line
from aisp.tui import plain
from aisp.tui.cli import common, resolve
from aisp.tui.cli.tree import EXIT_INTERRUPTED, NotHereError
from aisp.tui.earlier import runs_of

if TYPE_CHECKING:
    from aisp.engine.protocol.requests import StartRuns
    from aisp.store.record import Run
    from aisp.tui.cli.stored import Opened

LOOK_BACK_RUNS = 5000


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
def command(
    target_id: str,
    good: str,
    bad: str,
    rung: str | None,
    quick: bool,
    device: str,
    roots: tuple[str, ...],
    as_json: bool,
) -> int:
    """Find the edit that made a rung of TARGET slower, between two of its runs.

    The versions are the sources of the rung that runs had between the two, and those of the commits between them where
    the folder is in git. Each step measures the good version against one in the middle, in turns, with the task
    (lesson.md, reference.py, inputs.py) of the bad run. Slower is bad; the same or faster is good; what stays undecided
    with more replicas counts as good, which is told. A version that does not run or is wrong is skipped and named.

    Exit status: 0 found; 1 the bad version is not slower in turns; 2 no such run, runs of another target, the good one
    not older than the bad one; 3 it could not be done here; 130 left by Ctrl-C.
    """
    from msgspec import structs  # here and below: how runs are followed, which needs it

    from aisp.tui.cli.turning import LeftError, as_measured

    begun = time.monotonic()
    with common.history() as opened:
        older, newer = _ends(opened, target_id, good, bad, roots)
        at_path = roots or choosing.is_path(target_id)
        folder = resolve.target(target_id, roots).folder if at_path else Path(os.fsdecode(newer.folder))
        had = _stored(opened, older, newer)
        chosen = rung or bisection.lost_most(opened.read(older), opened.read(newer), had[0], had[-1])
    if not chosen:
        raise click.UsageError(f"run {newer.id} has no rung with a time; name one with --rung")
    commits, git = _commits(folder, older.wall, newer.wall)
    versions = versions_of(had, commits, chosen)
    for end, run in ((versions[0], older), (versions[-1], newer)):
        if end.reason:
            raise click.UsageError(f"run {run.id}: {end.reason}")
    many = plain.counted(len(versions), "version")
    common.note(f"{newer.target}: {chosen}: {many} from run {older.id} to run {newer.id}; {git}")
    how = as_measured(newer, quick=quick)
    if device != "auto":
        how = structs.replace(how, device=device, case=newer.case if device == newer.device else "")
    trial = Trial(newer.target, chosen, versions, how)
    found = Found()
    try:
        found = search(versions, trial.ask, found)
    except LeftError:
        if slower := [step.number for step in found.steps if step.word is Word.BAD]:
            last = max((step.number for step in found.steps if step.word is Word.GOOD), default=0)
            common.note(f"as far as it came: the first bad version is between {last} and {min(slower)}")
        return EXIT_INTERRUPTED
    found.runs = trial.runs
    took_s = time.monotonic() - begun
    common.answer(
        as_json,
        lambda: _as_json(newer.target, chosen, versions, found, git, took_s),
        lambda width: lines(newer.target, chosen, versions, found, took_s),
    )
    return 0 if found.first_bad is not None else 1


# -- which versions there are ------------------------------------------------------------------------------------------


def _ends(opened: Opened, word: str, good: str, bad: str, roots: Sequence[str]) -> tuple[Run, Run]:
    names = opened.target(word, roots)
    older, newer = opened.run(good), opened.run(bad)
    for run in (older, newer):
        if run.target not in names:
            raise click.UsageError(f"run {run.id} is of {run.target}, not of {names[0]}")
        if not run.snapshot:
            raise click.UsageError(f"run {run.id} kept no sources")
    if (older.wall, older.id) >= (newer.wall, newer.id):
        raise click.UsageError(f"the good run {older.id} is not older than the bad run {newer.id}; --good is the older")
    return older, newer


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
            found.append(Version({}, {}, **facts, reason=f"its sources cannot be read: {error}"))
    return found


def _commits(folder: Path, since: str, until: str) -> tuple[list[Version], str]:
    """The commits between two moments as versions, and what is to be said of git."""
    from aisp.tui.cli import commits

    try:
        first_s, last_s = (datetime.fromisoformat(wall).timestamp() for wall in (since, until))
        versions = commits.touching(folder, first_s, last_s)
    except commits.NoCommitsError as error:
        return [], f"without commits: {error}"
    except ValueError:
        return [], "without commits: the runs do not say when they were made"
    return versions, f"with {plain.counted(len(versions), 'commit')}"


# -- the search --------------------------------------------------------------------------------------------------------


class Trial:
    """Measures versions against the first one, in turns."""

    def __init__(self, target: str, rung: str, versions: Sequence[Version], how: StartRuns) -> None:
        from aisp.store.ulid import new_ulid

        self._target = target
        self._rung = rung
        self._versions = versions
        self._how = how
        self._collection = f"bisect-{new_ulid()}"
        self.runs = 0

    def ask(self, number: int) -> Step:
        """What the version of that number is.

        Raises:
            NotHereError: the good version, or the last one, cannot be measured here.
            LeftError: Ctrl-C.
        """
        step = self._asked(number)
        common.note(f"version {number}: {step.sentence} ({self._versions[number].label})")
        if step.word is Word.SKIPPED and number == len(self._versions) - 1:
            raise NotHereError(f"the bad version cannot be measured: {step.reason}")
        return step

    def _asked(self, number: int) -> Step:
        from aisp.kernels.catalog.between import BetweenError, between
        from aisp.tui.cli.turning import settle

        version, good, task = self._versions[number], self._versions[0], self._versions[-1]
        if version.reason:
            return Step(number, Word.SKIPPED, reason=version.reason)
        name = self._target.partition(":")[2] or self._target
        try:
            files = between(good.files, version.files, self._rung, self._target, task=task.files)
        except BetweenError as error:
            return Step(number, Word.SKIPPED, reason=str(error))
        folder = f"{name}_{number}"
        turned = settle(self._collection, {folder: files}, self._how)
        if (run := turned.runs.get(folder)) is None:
            why = turned.refused.get(folder, "the run did not come to its end")
            raise NotHereError(f"the two versions cannot be run here: {why}")
        self.runs += 1 + len(turned.again)
        try:
            step = bisection.read(number, run)
        except bisection.NoAnswerError as error:
            raise NotHereError(str(error)) from None
        if step.word is Word.GOOD and folder in turned.again and regression.once_more(run):
            return replace(step, reason=f"undecided with {turned.again[folder]} replicas, counted as good")
        return step


# -- what is said ------------------------------------------------------------------------------------------------------


def difference(before: Version, after: Version) -> str:
    """What changed in the rung from one version to the other, as `diff -u` writes it."""
    from aisp.tui.cli.diff import MAX_FILE_CHARACTERS, Side, compared, unified

    def side(one: Version) -> Side:
        files = {name: clean(data, limit=MAX_FILE_CHARACTERS) for name, data in one.rung.items()}
        return Side(one.run_id or one.commit[:12], files, kind="run" if one.run_id else "commit")

    return "\n".join(line for pair in compared(side(before), side(after)) for line in unified(pair, 3))


def lines(target: str, rung: str, versions: Sequence[Version], found: Found, took_s: float) -> list[str]:
    took = f"{plain.counted(found.runs, 'run')} over {plain.counted(len(versions), 'version')}"
    took += f", {plain.duration(took_s)}"
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


def _as_json(
    target: str, rung: str, versions: Sequence[Version], found: Found, git: str, took_s: float
) -> dict[str, Any]:
    first_bad = None if found.first_bad is None else versions[found.first_bad]
    before = versions[found.before] if first_bad else None
    between = range(found.before + 1, found.first_bad or 0)
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
