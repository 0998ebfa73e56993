"""Many candidates of one target, judged in few runs: cheap stages first, nothing twice, nothing lost.

Candidates that are one file each are rungs of one run, up to `GROUP` of them, so that inputs, expected values and the
baseline's samples are made once for all; a rung is named after its candidate's content. Where a run says nothing of a
candidate (it ended as a whole, before its turn), that one is tried alone. Those that a full run is worth get one each,
with fresh processes and without any other candidate in reach.

Everything stands in the table (store.candidates) before the engine is asked. Whoever is killed and begins again finds
what has an outcome there, what has ended in the store, and what is under way in the engine's queue, and asks for the
rest.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aisp.engine import client, paths, written
from aisp.engine.doors import asking
from aisp.engine.doors.api import CANDIDATE, candidate, taken
from aisp.engine.doors.asking import RefusedError
from aisp.engine.doors.dispatch import EngineDispatcher, NoRunError
from aisp.engine.doors.dispatch import StoppedError as StoppedError
from aisp.engine.protocol import events, requests
from aisp.kernels.catalog import sources
from aisp.kernels.catalog.parsing import refusal
from aisp.store.candidates import MOST_BYTES, CandidateRequest, Candidates, CandidateState, Level, Row, owner_here
from aisp.store.content import snapshot_hash
from aisp.store.outcomes import Fault, State
from aisp.store.results import candidate as results
from aisp.store.results.candidate import FINALISTS, Outcome
from aisp.store.results.outcome import Stage
from aisp.store.text import clean_line
from aisp.store.ulid import new_ulid

if TYPE_CHECKING:
    from aisp.engine.client import Connection
    from aisp.engine.doors.asking import Answer
    from aisp.kernels.catalog.model import Target
    from aisp.store.results.reading import Reading

GROUP = 6
"""Candidates in one run: each has a process, and the baseline and the verifier have theirs, twice in a quick run."""
MOST_CANDIDATES = 20_000
"""Of one folder."""
AT_A_TIME = 500
"""Candidates that are put into the table in one transaction."""
OTHERS_S = 1.0
"""How often one looks after rows that another process has leased."""
ENTRY = f"{CANDIDATE}.py"
"""The file of a candidate that has `run`."""
_OPTIMIZED = "optimized.py"
_RUNG = "optimized_k"


@dataclass(frozen=True, slots=True)
class Common:
    """The part of a target that all candidates share.

    Attributes:
        target: its id, which candidates are told by.
        stem, name: of the folders that are written: the collection's, and the target's in it.
        files: by relative name.
        sources: their hash.
        rung: in whose place a candidate stands, with what the lesson declares of it; "": each is a rung of its own.
    """

    target: str
    stem: str
    name: str
    files: Mapping[str, bytes]
    sources: str
    rung: str = ""

    @staticmethod
    def of(target: Target, rung: str = "") -> Common:
        """Of a target as it lies there, without the rung in whose place a candidate stands."""
        files = {name: data for name, data in sources.read_sources(target).items() if name != f"{rung}.py"}
        stem = target.chapter.rpartition("/")[2]
        return Common(target.id, stem, target.name, files, snapshot_hash(files), rung)


@dataclass(frozen=True, slots=True)
class Brought:
    """A candidate as somebody brings it.

    Attributes:
        name: what it is told by.
        common: what it stands beside.
        files: its own, the one with `run` as the rung `CANDIDATE`.
        refused: why it cannot be one; there are no files then.
    """

    name: str
    common: Common
    files: Mapping[str, bytes] = field(default_factory=dict)
    refused: str = ""


@dataclass(frozen=True, slots=True)
class Terms:
    """How candidates are judged.

    Attributes:
        device, case: as of a run.
        patience_s: how long a rung may give no sign; 0 for the engine's limits.
        finalists: how many get a full run at most; 0: none does.
        ahead: runs in the engine's queue at once; 0: one more than it carries out, so that it never waits for us.
        again: judge anew what was judged before.
    """

    device: str = "auto"
    case: str = ""
    patience_s: float = 0.0
    finalists: int = FINALISTS
    ahead: int = 0
    again: bool = False


@dataclass(frozen=True, slots=True)
class Ended:
    """A candidate that has come to its end at one level.

    Attributes:
        name: what it is told by.
        level: quick or full.
        outcome: what became of it; None where it was given up.
        candidate: hash of its sources; "" where they could not be read.
        why: why it was given up.
        known: it had been judged before, in another batch or by a process that was ended.
        where: which agent of a fleet had it run, on which host and GPU; empty elsewhere.
    """

    name: str
    level: Level
    outcome: Outcome | None
    candidate: str = ""
    why: str = ""
    known: bool = False
    where: Mapping[str, Any] = field(default_factory=dict)


def found_in(folder: Path) -> list[Path]:
    """The candidates in a folder, by name: its Python files, and its sub-folders that hold one; hidden ones are none.

    Raises:
        RefusedError: there is none, or more than `MOST_CANDIDATES`.
        OSError: it cannot be read.
    """
    found = []
    for path in sorted(folder.iterdir()):
        if path.name.startswith((".", "__")):
            continue
        if (path.suffix == ".py" and path.is_file()) or (path.is_dir() and any(path.glob("*.py"))):
            found.append(path)
    if not found:
        raise RefusedError(f"{clean_line(str(folder))} holds no candidates: Python files, or folders with one")
    if len(found) > MOST_CANDIDATES:
        raise RefusedError(f"{clean_line(str(folder))} holds {len(found):,} candidates, at most {MOST_CANDIDATES:,}")
    return found


def bring(path: Path, common: Common, *, name: str = "") -> Brought:
    """The candidate at a path, told by its own name unless it is given one."""
    told = name or path.name
    try:
        return beside(told, candidate(path), common)
    except RefusedError as error:
        return Brought(told, common, refused=clean_line(str(error), limit=1000))


def beside(name: str, files: Mapping[str, bytes], common: Common) -> Brought:
    """A candidate of these files, unless one of them would take the place of the target's own."""
    if why := taken(files, common.files):
        return Brought(name, common, refused=why)
    if (size := sum(map(len, files.values()))) > MOST_BYTES:
        return Brought(name, common, refused=f"it has {size:,} bytes of sources, and at most {MOST_BYTES:,} are taken")
    return Brought(name, common, files)


def of_parts(name: str, files: Mapping[str, bytes], *, stem: str, told: str) -> Brought:
    """A candidate of a problem in a format of others, as that format makes a target of the two (its `Parts`).

    What stands beside the candidate is the same for all candidates of a problem, but for the words about the one: the
    rung that is the candidate is taken out, and the baseline stands in its place.

    Args:
        name: what the candidate is told by.
        files: of the whole target; its optimized.py is the candidate.
        stem: what the problem is called.
        told: the candidate's name in the lesson.
    """
    lesson = _without_candidate(files[sources.LESSON], told)
    common_files = {**files, sources.LESSON: lesson, _OPTIMIZED: files["baseline.py"]}
    common = Common(f"{stem}:{stem}", stem, stem, common_files, snapshot_hash(common_files))
    return Brought(name, common, {ENTRY: files[_OPTIMIZED]})


def _without_candidate(lesson: bytes, told: str) -> bytes:
    """A lesson that says nothing of its candidate any more."""
    import tomllib  # only for formats of others

    import tomli_w

    _, matter, body = lesson.decode("utf-8", "replace").split("+++\n", 2)
    content = tomllib.loads(matter)
    content.get("rungs", {}).pop("optimized", None)
    kept = [line for line in body.splitlines(keepends=True) if told not in line]
    return f"+++\n{tomli_w.dumps(content)}+++\n{''.join(kept)}".encode()


def unparsed(files: Mapping[str, bytes]) -> Outcome | None:
    """What becomes of a candidate that is not worth a process; None where it is."""
    for name, data in sorted(files.items()):
        if name.endswith(".py") and (why := refusal(data, name.replace(ENTRY, "the candidate"))):
            return results.refused(clean_line(why, limit=1000))
    if not re.search(rb"\b(?:run|prepare)\b", files[ENTRY]):
        return results.refused("it has no function run(...)")
    return None


def apart(table: Candidates, brought: Sequence[Brought]) -> list[Brought]:
    """These candidates, of which those are refused that a name or a digest cannot tell from another content: by the
    name alone nobody would know whose result it is."""
    commons: dict[str, Common] = {}
    names: dict[str, Mapping[str, bytes]] = {}
    taken = iter(table.taken([CandidateRequest(one.name, one.files) for one in brought if not one.refused]))
    found = []
    for one in brought:
        why = ""
        if not one.refused:
            if next(taken):
                why = "its digest is that of another candidate; change a comment in it"
            elif commons.setdefault(one.common.sources, one.common) != one.common:
                why = f"the digest of {one.common.target} is that of another target; change a comment in it"
            elif names.setdefault(one.name, one.files) != one.files:
                why = "another candidate has this name; give it one of its own"
        found.append(replace(one, files={}, refused=why) if why else one)
    return found


Tell = Callable[[Ended], None]


class Stages(ABC):
    """Candidates from their plan to their outcomes: the quick stage for all of them, the full one for the finalists.

    Who derives from this says how the rows of a stage are brought to their ends (`_carry`).

    Attributes:
        batch: the list of the table that they stand in.
        total, ended: how many candidates there are, and how many came to their end, at the level that is under way.
    """

    look_s = OTHERS_S

    def __init__(self, table: Candidates, brought: Sequence[Brought], terms: Terms, tell: Tell) -> None:
        self.batch = new_ulid()
        self.total = self.ended = 0
        self._table, self._terms, self._tell = table, terms, tell
        self._brought = sorted(apart(table, brought), key=lambda one: (one.common.sources, _kind(one.files), one.name))
        self._commons = {one.common.sources: one.common for one in self._brought if not one.refused}
        self._conditions = ""
        self._names: dict[int, list[str]] = {}
        self._told: set[int] = set()

    @abstractmethod
    async def _carry(self, level: Level) -> None:
        """Bring all rows of the batch at this level to their ends, each noted as it comes (`_note`)."""

    def _files(self, rows: Sequence[Row]) -> dict[str, bytes]:
        """The target of these rows, which stand beside the same files."""
        files = dict(self._commons[rows[0].sources].files)
        for row in rows:
            own = self._table.files(row.candidate)
            files |= {f"{self._rung(row)}.py" if name == ENTRY else name: data for name, data in own.items()}
        return files

    def _rung(self, row: Row) -> str:
        return self._commons[row.sources].rung or rung_of(row.candidate)

    def _batch_of(self, wanted: Sequence[Brought], level: Level) -> str:
        """The list of the table for these at this level: by default one for all levels."""
        return self.batch

    async def _judge(self) -> list[Ended]:
        """Every candidate at every level at which it was judged, the quick ones first."""
        self._table.requeue_expired()
        fit = [one for one in self._brought if not one.refused]
        quick = self._plan(fit, Level.QUICK)
        ends = [Ended(one.name, Level.QUICK, results.refused(one.refused)) for one in self._brought if one.refused]
        for end in ends:
            self._tell(end)
        ends += await self._level(quick, Level.QUICK)
        rows = {row.number: row for row in map(self._table.row, set(quick.values()))}
        outcomes = {number: found for number, row in rows.items() if (found := outcome_of(row)) is not None}
        best = {rows[number].candidate for number in results.worth(outcomes, self._terms.finalists)}
        if not best:
            return ends
        finalists = [one for one in fit if snapshot_hash(one.files) in best]
        return ends + await self._level(self._plan(finalists, Level.FULL), Level.FULL)

    def _plan(self, wanted: Sequence[Brought], level: Level) -> dict[str, int]:
        """Rows for these candidates: numbers by name. What need not be run has its outcome at once, and what was given
        up is tried once more."""
        self.batch = self._batch_of(wanted, level)
        numbers: dict[str, int] = {}
        by_common: dict[str, list[Brought]] = {}
        for one in wanted:
            by_common.setdefault(one.common.sources, []).append(one)
        for sources_hash, here in by_common.items():
            common = self._commons[sources_hash]
            for first in range(0, len(here), AT_A_TIME):
                some = here[first : first + AT_A_TIME]
                planned = self._table.plan(
                    self.batch,
                    target=common.target,
                    sources=common.sources,
                    wanted=[CandidateRequest(one.name, one.files) for one in some],
                    level=level,
                    conditions=self._conditions,
                    priority=level is Level.FULL,
                    again=self._terms.again,
                )
                for one, row in zip(some, planned, strict=True):
                    numbers[one.name] = row.number
                    if not row.state.ended and level is Level.QUICK and (outcome := unparsed(one.files)) is not None:
                        self._table.finish(row.number, outcome.document())
                self._table.again([row.number for row in planned if row.state is CandidateState.DEAD])
        return numbers

    async def _level(self, numbers: Mapping[str, int], level: Level) -> list[Ended]:
        """Bring all rows of a level to their end."""
        self._names, self._told = {}, set()
        for name, number in numbers.items():
            self._names.setdefault(number, []).append(name)
        self.total, self.ended = len(numbers), 0
        self._look()
        await self._carry(level)
        self._look()
        rows = {number: self._table.row(number) for number in self._names}
        return [_end(name, rows[number]) for name, number in numbers.items()]

    def _more(self) -> bool:
        """See Dispatcher: another process may have leased rows of ours."""
        self._table.requeue_expired()
        return self._look()

    def _look(self) -> bool:
        """Tell of what has come to its end and not through us: before, or through another process. Whether a row of
        ours has not."""
        open_rows = False
        for number in self._names.keys() - self._told:
            row = self._table.row(number)
            open_rows |= not row.state.ended
            self._note(row, known=True)
        return open_rows

    def _note(self, row: Row, *, known: bool = False) -> None:
        """Tell of a row that has come to its end, once."""
        if not row.state.ended or row.number in self._told:
            return
        self._told.add(row.number)
        for name in self._names.get(row.number, ()):
            self.ended += 1
            self._tell(_end(name, row, known=known and bool(row.run_id or row.attempts)))


class Judging(Stages, EngineDispatcher):
    """Candidates judged by the engine of this machine."""

    def __init__(self, table: Candidates, brought: Sequence[Brought], terms: Terms, tell: Tell) -> None:
        Stages.__init__(self, table, brought, terms, tell)
        EngineDispatcher.__init__(self, table, owner_here(self.batch))
        self._on_gpus = False
        self._level_now = Level.QUICK

    async def work(self, engine: Connection) -> list[Ended]:
        """Judge all of them; every candidate at every level at which it was judged, the quick ones first.

        Raises:
            EngineUnavailableError: the engine went away. What has an outcome keeps it.
            StoppedError: somebody cancelled a run, the engine starts no process at present, or there is no GPU.
            StoreError: the table cannot be written.
        """

        self._engine = engine
        await self._look_at()
        return await self._connected(self._judge)

    async def _look_at(self) -> None:
        """What the engine can run on, which is a condition of every row. Raises StoppedError."""
        status = await self._engine.status()
        terms = self._terms
        if terms.device == "cuda" and (why := asking.no_gpu(status)):
            raise StoppedError(why)
        gpus = sorted(device.name for device in status.devices) if not status.gpu_note else []
        self._on_gpus = bool(gpus)
        at_once = max(len(gpus), 1) if terms.device != "cpu" else 1
        self._ahead = terms.ahead or at_once + 1
        given = {"device": terms.device, "gpus": gpus, "case": terms.case, "patience_s": terms.patience_s}
        self._conditions = json.dumps({**given, "build": client.build_id()}, sort_keys=True)

    async def _carry(self, level: Level) -> None:
        self._level_now = level
        await self._dispatch()

    def _next(self, room: int) -> list[list[Row]]:
        """See Dispatcher: those that were asked for together before, else those that stand beside the same files and
        are of one kind. Two that a rung's name does not tell apart are in no run together."""
        level = self._level_now
        rows = self._table.lease(self._owner, GROUP if level is Level.QUICK else 1, batch=self.batch, level=level)
        groups: dict[tuple[str, ...], list[Row]] = {}
        for row in rows:
            files = self._table.files(row.candidate)
            alone = str(row.number) if len(files) > 1 else ""
            key = (row.asked_as,) if row.asked_as else ("", row.sources, _kind(files), alone)
            while any(self._rung(other) == self._rung(row) for other in groups.get(key, ())):
                key = (*key, "further")
            groups.setdefault(key, []).append(row)
        return list(groups.values())

    def _earlier(self, rows: Sequence[Row]) -> Reading | None:
        since_s = max(row.planned_s for row in rows)
        rungs, quick = [self._rung(row) for row in rows], rows[0].level is Level.QUICK
        with asking.opened() as store:
            return asking.known(store, rows[0].asked_as, rungs, quick=quick, since_s=since_s, ended=True)

    async def _request(self, rows: Sequence[Row]) -> requests.StartRuns:
        """See Dispatcher: a target of these rows is written for them, below the state directory."""
        common = self._commons[rows[0].sources]
        try:
            folder = written.keep(paths.judged_dir(), common.stem, common.name, self._files(rows), most=written.JUDGED)
        except written.TakenError as error:
            raise NoRunError(clean_line(str(error), limit=1000)) from None
        target = f"{folder.parent.name}:{common.name}"
        self._table.note_request(self._owner, [row.number for row in rows], target)
        return requests.StartRuns(
            seq=0,
            roots=[str(folder)],
            targets=[target],
            rungs=[self._rung(row) for row in rows],
            device=self._terms.device,
            case=self._terms.case,
            quick=rows[0].level is Level.QUICK,
            patience_s=self._terms.patience_s,
        )

    async def _refusal(self, reply: events.Reply, rows: Sequence[Row]) -> NoRunError:
        """See Dispatcher: what a machine lacks it lacks the next time too; anything else is tried once more."""
        why = clean_line("; ".join(reply.refused.values()) or reply.error, limit=1000)
        if self._on_gpus and (await self._engine.status()).gpu_note:  # it is gone since: no candidate's fault
            raise StoppedError(f"{why}; what has an outcome keeps it")
        lacking = Outcome(State.UNAVAILABLE, Stage.LOAD, why=why).document()
        return NoRunError(why, lacking if reply.refused else None)

    async def _outcome(self, row: Row, answer: Answer, *, alone: bool) -> Mapping[str, Any] | None:
        record = answer.reading.record
        if record.state.fault is Fault.PERSON:
            raise StoppedError(f"run {record.id} was cancelled; what has an outcome keeps it")
        if {record.state.fault, *(arm.state.fault for arm in record.arms)} == {Fault.MACHINE}:
            raise StoppedError(f"{record.reason}; what has an outcome keeps it")  # the next run would end so too
        found = results.of_run(answer.reading, self._rung(row), alone=alone)
        return None if found is None else found.document()


def rung_of(candidate: str) -> str:
    """The rung that a candidate is, by the hash of its sources: twelve digits for people. It tells the candidates of
    one run apart, which is seen to; the run's target has the whole hash of all of them in its name."""
    return f"{_RUNG}{candidate[:12]}"


def outcome_of(row: Row) -> Outcome | None:
    """What became of a row; None where it has no outcome, or one of another kind."""
    if row.outcome is None:
        return None
    try:
        return Outcome.of_document(row.outcome)
    except (KeyError, TypeError, ValueError):
        return None


def _end(name: str, row: Row, *, known: bool = False) -> Ended:
    where = (row.outcome or {}).get("where")
    found = where if isinstance(where, Mapping) else {}
    return Ended(name, row.level, outcome_of(row), row.candidate, row.reason, known, found)


def _kind(files: Mapping[str, bytes]) -> str:
    """What candidates must have alike to be in one run: where Triton is interpreted, none of a run has a time."""
    return "triton" if any(b"triton" in data for data in files.values()) else ""
