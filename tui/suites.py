"""Suites as both faces read them: their targets and contracts, which stored runs count, and what a target's runs say
against earlier ones.

The rules stand in store.results.regression and store.results.contract; here runs, sources and telemetry are fetched for
them. Earlier runs are those of the same device, case and mode that were asked for by somebody: a save's are of whatever
stood in an editor. With a contract only runs that keep it count. What reads the store belongs into a thread.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aisp.engine import paths
from aisp.kernels.catalog.contracts import Cache
from aisp.store.errors import StoreError
from aisp.store.outcomes import Trigger
from aisp.store.results import busy, hardware, regression, standing, suite
from aisp.store.results import contract as contracts
from aisp.store.results.comparison import Side
from aisp.store.results.overview import Lesson
from aisp.store.results.prediction import LOOK_BACK_RUNS
from aisp.store.results.reading import Reading
from aisp.store.results.regression import Against, Row
from aisp.store.text import clean_line
from aisp.tui import plain
from aisp.tui.earlier import newest_first, runs_of

if TYPE_CHECKING:
    from aisp.kernels.catalog.contracts import Contract
    from aisp.kernels.catalog.model import Catalog, Problem
    from aisp.kernels.catalog.suites import Entry, How, Suite
    from aisp.store import History
    from aisp.store.record import Comparison, Run
    from aisp.store.results.reading import Bar
    from aisp.tui.stored import Stored

NOT_RUN = "not run"
MACHINE = ("host", "gpu", "gpu_uuid", "cpu")


def sides(opened: Stored, now: Run, contract: Contract | None, names: Sequence[str]) -> list[Side]:
    """This run and the earlier ones that it may be held against, newest first.

    Args:
        names: what runs call its target.
    """
    past: list[Run] = []
    with contextlib.suppress(LookupError):  # its end could not be stored
        past = runs_of(opened, names, LOOK_BACK_RUNS, now.id)
    alike = (
        run
        for run in past
        if run.state.final
        and run.trigger is not Trigger.WATCH
        and not run.without
        and (run.device, run.case, run.quick) == (now.device, now.case, now.quick)
    )
    kept = (run for run in alike if contract is None or not breach(opened, contract, run))
    return [opened.side(run) for run in (now, *kept)]


def machine_of(facts: Mapping[str, object]) -> dict[str, str]:
    """What tells this machine from others, of an environment record."""
    return {key: clean_line(str(facts.get(key) or "")) for key in MACHINE}


def breach(opened: Stored, contract: Contract, run: Run) -> str:
    """What a run that has ended breaks of the contract, as a clause; "" where it keeps it."""
    hot = "environment.temperature_c" in contract.values  # then the readings are fetched
    facts = opened.facts_and_temperature(run) if hot else opened.facts(run)
    imports: dict[str, set[str]] = {}
    if "imports" in contract.values:
        with contextlib.suppress(LookupError, StoreError):  # then nobody knows what it imports, which is a breach
            imports = contracts.imports_of(run, opened.snapshot(run.snapshot))
    found = contracts.breaches(contract, run, facts, imports)
    return (
        clean_line(f"no result of contract {contract.name}: {'; '.join(map(str, found))}", limit=2000) if found else ""
    )


@dataclass(frozen=True, slots=True)
class Loaded:
    """A suite with its targets as the catalogue has them, and the contract that its runs must keep.

    Attributes:
        told: what is wrong with it, a sentence each.
    """

    suite: Suite
    entries: tuple[Entry, ...]
    contract: Contract | None
    told: tuple[str, ...]

    def place(self, entry: Entry) -> tuple[object, ...]:
        """What tells the runs of one of its targets from those that another suite makes of it."""
        how = self.suite.how
        sha256 = self.contract.sha256 if self.contract is not None else ""
        return entry.target.id, entry.case, how.quick, how.warm, sha256


@dataclass(frozen=True, slots=True)
class Wanted:
    """A target of a suite whose runs are asked for. `key`: what its answer hangs on beside the store."""

    loaded: Loaded
    entry: Entry
    held: Mapping[str, Bar]
    key: object


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """What the store says of it: the last run of the suite's kind as the lessons screen reads one, and its row."""

    lesson: Lesson
    row: Row

    @property
    def shown(self) -> bool:
        """Whether figures of its last run may be shown."""
        return _tells(self.lesson) and not self.row.left_out

    @property
    def ratio(self) -> Comparison | None:
        return self.lesson.ratio if self.shown else None

    @property
    def busy(self) -> bool:
        """Whether its last run, which says something, was made on a busy machine."""
        return self.shown and self.lesson.run is not None and busy.of_run(self.lesson.run.record) is not None

    @property
    def kind(self) -> str:
        """What the target came to, as the filters call it."""
        if self.lesson.run is None:
            return NOT_RUN  # never, with no fault to show: no row of a suite's run
        return self.row.outcome.value


def _tells(lesson: Lesson) -> bool:
    return lesson.outcome.believed


def is_of(record: Run, entry: Entry, how: How) -> bool:
    """Whether a run is one of those that the suite makes of this target: its mode, its case, its cache; with every
    check, and of no save."""
    if record.trigger is Trigger.WATCH or record.without:
        return False
    case = entry.target.case_on(record.device, entry.case).name
    warm = Reading(record).cache is Cache.WARM
    return (record.quick, record.case, warm) == (how.quick, case, how.warm)


def read_found(wanted: Sequence[Wanted], history: History) -> list[tuple[Wanted, Found]]:
    """The runs of these targets, put against each other; in a thread."""
    from aisp.tui.stored import Stored  # the store, which the first screen does without

    with Stored(history.path) as opened:
        return [(one, _found(one, opened)) for one in wanted]


def _found(wanted: Wanted, opened: Stored) -> Found:
    entry, contract = wanted.entry, wanted.loaded.contract
    target = entry.target
    records = newest_first(opened, target.names, LOOK_BACK_RUNS)
    own = [record for record in records if is_of(record, entry, wanted.loaded.suite.how)]
    result, attempt = standing.last(reversed(own))
    tried = Reading(attempt) if attempt is not None else None
    if result is None:
        return Found(Lesson(target, attempt=tried, held=wanted.held), regression.row(target.id, ()))
    lesson = Lesson(target, opened.read(result), tried, opened.facts(result), wanted.held)
    why = "" if _tells(lesson) else lesson.why or lesson.word
    if not why and contract is not None:
        why = breach(opened, contract, result)
    row = regression.row(target.id, sides(opened, result, contract, target.names), left_out=why)
    return Found(lesson, _in_turns(row, opened))


def _in_turns(row: Row, opened: Stored) -> Row:
    """The row with what old against new source in turns came to, where a run of a suite measured that; the packages
    say which run it was."""
    pairs: list[tuple[str, Against | None]] = [("last", row.last), ("best", row.best)]
    slower = [(which, against) for which, against in pairs if against is not None and against.looks_slower]
    if not slower or row.now is None:
        return row
    noted = list(_noted(row.target, row.now.run.id))
    for which, against in slower:
        runs = [one[which]["turns"]["run_id"] for one in noted if _is_about(one.get(which), against)]
        for run_id in runs[-1:]:
            with contextlib.suppress(LookupError):  # the run is gone: then nothing confirms it
                row = regression.with_turns(row, which, opened.read(opened.run(run_id)))
    return row


def _noted(target_id: str, run_id: str) -> Iterator[dict[str, Any]]:
    """What packages say of this run of a target, the newest last."""
    from aisp.store import suites  # packages are looked at only where something looks slower

    folders = [path for path in paths.suites_dir().iterdir() if path.is_dir()]
    packages = [package for folder in folders for package in suites.read_index(folder).here]
    for package in sorted(packages, key=lambda one: one.id):
        for entries in package.regression.values():
            for entry in entries if isinstance(entries, list) else ():
                if isinstance(entry, dict) and (entry.get("target"), entry.get("run_id")) == (target_id, run_id):
                    yield entry


def _is_about(noted: object, against: Against) -> bool:
    """Whether what a package says of two runs is about these two, and names a run in turns."""
    if not isinstance(noted, dict) or noted.get("run_id") != against.earlier.run.id:
        return False
    turns = noted.get("turns")
    return isinstance(turns, dict) and isinstance(turns.get("run_id"), str)


def load(catalog: Catalog) -> tuple[dict[str, Loaded], tuple[str, ...]]:
    """Every suite by name, and what is wrong with files of which none came; in a thread."""
    from aisp.kernels.catalog import suites  # reads files

    known, problems = suites.load_suites(catalog.roots)
    found = {}
    for name, one in known.items():
        entries, gone = one.resolve(catalog)
        contract, why = read_contract(one)
        own = [_short(problem) for problem in (*problems, *gone) if problem.path == one.path]
        found[name] = Loaded(one, entries, contract, tuple(own + ([why] if why else [])))
    paths = {one.path for one in known.values()}
    return found, tuple(_short(problem) for problem in problems if problem.path not in paths)


def _short(problem: Problem) -> str:
    """A problem by its file's name alone: a whole path would leave a row no room for what is wrong."""
    return str(replace(problem, path=Path(problem.path.name)))


def read_contract(chosen: Suite) -> tuple[Contract | None, str]:
    """The contract that a suite's runs must keep, None where it has none; why it cannot be read. In a thread."""
    from aisp.kernels.catalog import contracts  # reads files

    if chosen.contract is None:
        return None, ""
    try:
        found, problems = contracts.read(chosen.contract)
    except OSError as error:
        return None, f"{chosen.contract}: {error.strerror}"
    return found, "; ".join(str(problem) for problem in problems)


def mean_text(every: Sequence[tuple[Entry, Found | None]], *, wide: bool) -> str:
    """The geometric mean over the targets whose figures may be shown, with and without launch-count ones, on the
    hardware of the newest run."""
    read = [(entry, found) for entry, found in every if found is not None and found.ratio is not None]
    full = []
    for entry, found in read:
        run, facts = found.lesson.run, found.lesson.facts
        assert run is not None
        names = hardware.names(run.record.device, facts, on_host=entry.target.on_host)
        full.append((entry, suite.Full(run, facts, names)))
    named = suite.newest_hardware(one for _, one in full)
    there = [(entry, one) for entry, one in full if one.names[0] == named]
    score = suite.together(suite.part_of(one.run) for _, one in there)
    if not score.count:
        return "no geometric mean yet: no target has a speed-up"
    rest = [suite.part_of(one.run) for entry, one in there if not entry.launch_count]
    word = "geometric mean" if wide else "mean"
    figure = plain.speedup(score.geometric_mean, score.low, score.high)
    text = f"{word} {figure} over {score.count} of {len(every)} on {hardware.short(clean_line(named))}"
    if elsewhere := len(full) - len(there):
        text += f" ({elsewhere} elsewhere)"
    without = suite.together(rest)
    if without.count != score.count:
        figure = plain.speedup(without.geometric_mean, without.low, without.high)
        text += f"; {figure} over {without.count} without launch counts"
    return text
