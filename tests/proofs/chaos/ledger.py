"""What an engine has told, kept where no engine can lose it, and the store held against it.

A run counts as planned once a reply, an event or an edit has named it, as finished once its RunFinished has arrived.
From then on the store must have it: with that state and that verdict, with every sample that was told, bit for bit,
for ever. What the store has beyond that must be what was in flight when its engine was killed, and lost.

A store that was moved away or removed under an engine goes on counting: what was told is in the store at the path, or
whole in one of those before it.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Container, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from aisp.engine.protocol import events
from aisp.store import upkeep
from aisp.store.errors import StoreError
from aisp.store.outcomes import State, Trigger
from aisp.store.reader import History
from aisp.store.record import Run


@dataclass
class Ledger:
    """Everything that was told, over the lives of any number of engines.

    Attributes:
        planned: target by run id.
        finished: the end that was told, by run id.
        samples: how many were told, by run id and arm.
        edits: the snapshot and the names of every edit that was told.
        written: every content that a watched file was ever given.
        in_flight: by epoch, targets that were asked for and never answered, because that engine was killed.
        watched: targets under watch.
        before: files that were the store before they were moved away or removed.
        broken: promises that were seen broken as it was told.
    """

    planned: dict[str, str] = field(default_factory=dict)
    finished: dict[str, Run] = field(default_factory=dict)
    samples: defaultdict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    edits: list[events.WatchEdit] = field(default_factory=list)
    written: set[bytes] = field(default_factory=set)
    in_flight: dict[str, list[str]] = field(default_factory=dict)
    watched: set[str] = field(default_factory=set)
    before: list[Path] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    _sealed: dict[str, str] = field(default_factory=dict)  # hash of each ended run, when it was first read
    _next_seq: int = 0

    def begin(self) -> None:
        """The stream of another engine begins."""
        self._next_seq = 0

    def hear(self, event: events.Event) -> None:
        """Take an event in."""
        if event.seq:
            if self._next_seq and event.seq != self._next_seq:
                self.broken.append(f"event {event.seq} came where {self._next_seq} was due")
            self._next_seq = event.seq + 1
        match event:
            case events.RunPlanned():
                self.plan([event.run_id], event.run.target)
            case events.SampleBatch():
                self.samples[event.run_id][event.arm] += len(event.device_ms)
            case events.RunFinished():
                if event.run_id in self.finished:
                    self.broken.append(f"the end of run {event.run_id} was told twice")
                self.finished[event.run_id] = event.run
            case events.WatchEdit():
                self.edits.append(event)
                if event.run_id:
                    self.plan([event.run_id], event.target)
            case events.Gap():
                self.broken.append(f"events {event.first} to {event.last} are not coming")
            case _:
                pass

    def plan(self, run_ids: Sequence[str], target: str) -> None:
        """These runs were acknowledged."""
        for run_id in run_ids:
            if self.planned.setdefault(run_id, target) != target:
                self.broken.append(f"run {run_id} is one of {target} and of {self.planned[run_id]}")

    @property
    def open(self) -> list[str]:
        """Runs that were planned and whose end was not told."""
        return [run_id for run_id in self.planned if run_id not in self.finished]

    # -- the store against it --------------------------------------------------------------------------------------

    def lost(self, path: Path, run_ids: Sequence[str]) -> list[str]:
        """What is wrong with runs of an engine that is gone, now that another one is up."""
        there = self.stored(None)
        with History(path) as history:
            return [fault for run_id in run_ids for fault in self._ended(history, run_id, there)]

    def _ended(self, history: History, run_id: str, before: Container[str]) -> list[str]:
        try:
            state = history.run(run_id).state
        except LookupError:
            # Its engine was killed before it had found out that its store was moved.
            return [] if run_id in before else [f"run {run_id} was planned and is not in the store"]
        return [] if state.final else [f"run {run_id} is {state}, and its engine is gone"]

    def stored(self, path: Path | None) -> dict[str, Run]:
        """Every run of the store and of those before it, by its id; its end where one of them has it."""
        found: dict[str, Run] = {}
        for file in (*self.before, *([path] if path else [])):
            with History(file) as history:
                for record in history.newest(1 << 30, all_findings=False):
                    if record.state.final or record.id not in found:
                        found[record.id] = record
        return found

    def copied(self, copy: Path, ended: Sequence[str]) -> list[str]:
        """What a copy lacks that says of itself that it is whole: of runs that had ended before it was begun, none."""
        found = {run_id for run_id, run in self.stored(copy).items() if run.state.final}
        return [f"a copy is whole without run {run_id}, which had ended" for run_id in ended if run_id not in found]

    def check(self, path: Path) -> list[str]:
        """Everything in the store that contradicts what was told, once no engine runs; nothing where all is well."""
        found = list(self.broken)
        stored: dict[str, Run] = {}
        with contextlib.ExitStack() as stack:
            histories = [stack.enter_context(History(file)) for file in (*self.before, path)]
            for history in histories:
                found += [f"{one.kind} {one.id}: {one.reason}" for one in upkeep.verify(history.path).damage]
                present = {record.id: record for record in history.newest(1 << 30, all_findings=False)}
                found += [f"run {run_id}: {reason}" for run_id, reason in history.damaged.items()]
                for run_id, record in present.items():
                    if not record.state.final and history.path == path:
                        found.append(f"run {run_id} is {record.state}, and no engine runs")
                    elif record.state.final and run_id in self.finished:
                        found += self._samples_as_told(history, record)
                    if record.state.final or run_id not in stored:
                        stored[run_id] = record
            # `present` is what is at the path.
            found += self._unasked([record for run_id, record in present.items() if run_id not in self.planned])
            found += [f"run {i} was planned and is not in the store" for i in self.planned if i not in stored]
            ended = [i for i in self.finished if i in stored and not stored[i].state.final]
            found += [f"run {i} was told as ended and its end is in no store" for i in ended]
            found += self._as_edited(histories, stored)
        for file in (*self.before, path):
            found += self._as_written(file)
        return found

    def _samples_as_told(self, history: History, record: Run) -> list[str]:
        """Whether every sample that was told of a run is in the store, and no other."""
        try:
            arrays = {rung: len(samples.device_ms) for rung, samples in history.samples(record.id).items()}
        except StoreError as error:
            return [f"run {record.id}: {error}"]
        counted = {arm.rung: arm.sample_count for arm in record.arms if arm.sample_count}
        told = dict(self.samples[record.id])
        if arrays == counted == told:
            return []
        return [f"run {record.id}: {told} samples were told, {counted} are counted, {arrays} are stored"]

    def _unasked(self, unknown: Sequence[Run]) -> list[str]:
        """Runs that nobody was told of: committed in the moment in which their engine was killed, or invented."""
        found = []
        room = {epoch: Counter(targets) for epoch, targets in self.in_flight.items()}
        watches = {epoch: Counter(self.watched) for epoch in self.in_flight}
        for record in unknown:
            asked = (watches if record.trigger is Trigger.WATCH else room).get(record.epoch, Counter())
            if not asked[record.target]:
                found.append(f"run {record.id} of {record.target} is in the store and nobody asked for it")
            elif record.state is not State.ENGINE_LOST:
                found.append(f"run {record.id} was never told and is {record.state}, not engine_lost")
            asked[record.target] -= 1
        return found

    def _as_edited(self, histories: Sequence[History], stored: dict[str, Run]) -> list[str]:
        """Every edit that was told has its sources in the store, as they were written, and its run has them."""
        found = []
        for edit in self.edits:
            source = None
            reason = ""
            for history in histories:
                try:
                    source = history.snapshot(edit.snapshot)["optimized.py"]
                except (LookupError, StoreError) as error:
                    reason = str(error)
            if source is None:
                found.append(f"edit {edit.number} of {edit.target}: {reason}")
                continue
            if source not in self.written:
                found.append(f"edit {edit.number} of {edit.target} has sources that nobody wrote")
            record = stored.get(edit.run_id)
            if record is not None and record.snapshot != edit.snapshot:
                found.append(f"run {edit.run_id} ran other sources than its edit had")
        return found

    def _as_written(self, path: Path) -> list[str]:
        """What was said of a run's end against its row, which a later quarantine hides but does not change.

        Also names runs that ended before the last look and are not what they were then.
        """
        found = []
        columns = ("target", "state", "correctness", "validity", "verdict", "duration_ms")
        with contextlib.closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as connection:
            ended = "sha256 IS NOT NULL" if path in self.before else "1"
            rows = connection.execute(f"SELECT id, {', '.join(columns)} FROM runs WHERE {ended}").fetchall()
            sealed = dict(connection.execute("SELECT id, sha256 FROM runs WHERE sha256 IS NOT NULL").fetchall())
        for run_id, *values in rows:
            if run_id in self.finished:
                said = [getattr(self.finished[run_id], name) for name in columns]
                differing = [name for name, a, b in zip(columns, said, values, strict=True) if a != b]
                found += [f"run {run_id} has another {name} than it was told with" for name in differing]
        found += [
            f"run {run_id} was changed after its end"
            for run_id, seal in self._sealed.items()
            if sealed.get(run_id, seal) != seal
        ]
        self._sealed |= sealed
        return found
