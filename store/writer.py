"""`Store`, the one writer of the database. Only the engine opens it; everybody else reads through `History`.

What is acknowledged stays: WAL with synchronous=FULL puts every commit on the disk before the call returns,
and every call is one transaction, so a process killed anywhere leaves whole calls behind, never parts.

sqlite-utils gives us rows from dictionaries in batches, the ignore-what-is-there insert that makes sources
content-addressed, a schema script that runs inside an open transaction, and a database that anybody can query
with its command line. Two of its habits matter here. On a connection with Python's implicit transactions, a
raw `conn.execute("INSERT ...")` opens a transaction that nobody ends, and the library's next `.insert()` then
nests in it, uncommitted; so this connection has none (`isolation_level=None`). And `db.atomic()` begins as a
reader, which may fail at its first write without waiting when another program has written meanwhile; so every
write here stands inside `_transaction()`, an explicit BEGIN IMMEDIATE, in which the library's own blocks
become savepoints.

Calls block for the time of an fsync (under a millisecond to some tens), and up to `busy_timeout_s` while
another program holds the write lock: an event loop calls them from a thread. Any thread may call; calls are
serialised.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aisp.store import chain, content, migrations, place, seal, upkeep
from aisp.store.errors import StoreCorruptError, StoreError, StoreFullError, StoreGoneError, typed, typed_errors
from aisp.store.outcomes import (
    NOT_ENDED,
    TWIN_SUFFIX,
    Correctness,
    FindingStatus,
    State,
    Timing,
    Trigger,
    Validity,
    quoted,
)
from aisp.store.record import AUTHOR_CHECK, INSTALLED_CHECK, ContradictionError, Failure, Fuzz, Peak, Quarantine, Run
from aisp.store.rows import (
    IN_FORCE,
    NO_SEED,
    PeakRows,
    RunRows,
    failure_row,
    fuzz_row,
    load_quarantines,
    load_runs,
)
from aisp.store.samples import Samples, Telemetry
from aisp.store.seal import array_hashes, sha256

if TYPE_CHECKING:
    from sqlite_utils import Database

BUSY_TIMEOUT_S = 5.0
EXAMINED_BYTES = 64 * 2**20  # below that every start examines: it takes some 0.1 s
PROGRESS_STEPS = 100_000
LOST_REASON = "the engine ended before this run did; start the run again"

Examining = Callable[[int], bool]

Sources = Mapping[str, Mapping[str, bytes]]
"""Snapshots by their hashes, each the name of every file to its content."""

_UNFINISHED = f"state IN {NOT_ENDED}"  # as in the index runs_unfinished
# Asked for the order of number, SQLite would rather walk through all runs than sort a handful.
UNFINISHED_SQL = f"SELECT number FROM runs WHERE {_UNFINISHED} AND epoch <> ?"

# A lesson's wrong rungs and the gallery's cheats are there to be caught, and a baseline claims nothing.
_EXEMPT = ("cheat", "wrong_", "baseline")
_SUSPECT = FindingStatus.SUSPECT
_OF_RUNG = f"WHERE {IN_FORCE} AND folder = ? AND rung = ?"
_BEFORE = (
    "SELECT runs.number FROM runs JOIN manifests ON manifests.hash = runs.manifest JOIN arms ON arms.run = runs.number "
    "WHERE runs.folder = ? AND runs.device = ? AND json_extract(manifests.content, '$.code') = ? AND arms.rung = ? "
    f"AND runs.id <> ? AND runs.sha256 IS NOT NULL AND runs.state NOT IN {quoted(s for s in State if s.cut_short)} "
    "ORDER BY runs.number DESC LIMIT 1"
)
MOST_SPREADS = 200  # newest runs that say how processes differ
SPREADS_SQL = (
    "SELECT json_extract(arms.quality, '$.between') AS deviation, json_extract(arms.quality, '$.between_freedom') "
    f"FROM (SELECT * FROM runs ORDER BY number DESC LIMIT {10 * MOST_SPREADS}) AS late "
    "JOIN arms ON arms.run = late.number AND arms.position = 0 "
    "JOIN environments ON environments.hash = late.environment "
    "WHERE late.device = ? AND late.state = 'ok' AND late.validity = 'valid' AND deviation IS NOT NULL "
    "AND json_extract(environments.content, '$.gpu') = ? "
    f"AND (arms.timing IN {quoted(timing for timing in Timing if timing.held)}) = ? "
    "ORDER BY late.number DESC LIMIT ?"
)
_OF_CODE = "WHERE folder = ? AND rung = ? AND code = ?"


@dataclass(frozen=True, slots=True)
class OpenReport:
    """What opening had to do. All None: the file was there and whole, or there was none.

    Attributes:
        restored_from: the backup whose copy is now in use.
        set_aside: where the damaged file was moved.
        migrated_from: the older schema version that was found.
        missing: runs of the damaged file that are not in the one in use, as far as they could be read.
        log_kept: where the log is now of a database that was not there any more.
    """

    restored_from: Path | None = None
    set_aside: Path | None = None
    migrated_from: int | None = None
    missing: upkeep.Missing | None = None
    log_kept: Path | None = None


class Store:
    """The open database. `opened` says what opening it took. A context manager: leaving closes it."""

    def __init__(self, path: Path, db: Database, opened: OpenReport) -> None:
        self.path = path
        self.opened = opened
        self._db = db
        self._lock = threading.RLock()
        self._whole = True  # as far as anybody has seen
        self._closed = False
        (mode,) = db.execute("PRAGMA journal_mode").fetchone()
        self._place = place.Place(path, logged=mode == "wal")
        self._parted: place.Detached | None = None
        self.finished: list[str] = []  # ids of the runs whose end was written, for an engine that follows the store
        self.environments: dict[str, Mapping[str, object]] = {}  # all that were put, for the same engine

    @classmethod
    def open(
        cls,
        path: Path | str,
        *,
        busy_timeout_s: float = BUSY_TIMEOUT_S,
        wal: bool = True,
        examining: Examining = lambda size_bytes: False,
    ) -> Store:
        """Open or make the store at `path`, with its schema brought up to date.

        A file that is not the one that the last writer closed, and every small one, is examined before anything is
        written. A damaged one is moved to `<path>.corrupt-<date>` and the newest whole backup beside it is copied
        into its place, or a fresh one is begun. On a full disk the reserve is given back.

        Args:
            path: the file.
            busy_timeout_s: patience with another program that has locked it.
            wal: keep a write-ahead log; False for a file system that several hosts share: a rollback journal.
            examining: called with the size in bytes when an examination begins, and now and then while it lasts; it
                is given up where this returns True, with a StoreError.

        Raises:
            NewerSchemaError, ForeignDatabaseError: the file is left as it is.
            StoreLockedError, StoreFullError, StoreUnwritableError: likewise.
            StoreGoneError: it was moved or removed meanwhile; open it again.
        """
        path = Path(path)

        def connect() -> Database:
            return _connect(path, busy_timeout_s, wal, examining)

        try:
            return cls._open(path, connect)
        except StoreFullError:
            if not upkeep.release_ballast(path):
                raise
            return cls._open(path, connect)

    @classmethod
    def _open(cls, path: Path, connect: Callable[[], Database]) -> Store:
        with typed_errors(path):
            opened = OpenReport(log_kept=place.keep_orphan(path))
        try:
            db = connect()
        except StoreCorruptError:
            done = upkeep.replace_damaged(path)
            opened = replace(opened, restored_from=done.backup, set_aside=done.aside, missing=done.missing)
            db = connect()
        try:
            migrated_from = migrations.migrate(db, path, lambda wanted: upkeep.copy(db.conn, wanted))
            return cls(path, db, replace(opened, migrated_from=migrated_from))
        except BaseException:
            db.close()
            raise

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; the write-ahead log is folded into it. Closing twice is fine.

        Where the file at the path is another one, this one is left as `part` leaves it, if that can be had.
        """
        with self._lock:
            if self._closed:
                return
            self._closed = True
            ours = False
            with contextlib.suppress(StoreError, OSError, sqlite3.Error):
                ours = self.part() is None
            if ours:
                # A reader that has the file open would keep the log as it is, and what it holds is not in the file.
                with contextlib.suppress(sqlite3.Error):
                    self._db.conn.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            self._db.close()
            if ours and self._whole:
                upkeep.note_closed(self.path)

    # -- the file at the path ----------------------------------------------------------------------------------

    def look(self) -> None:
        """Raise StoreGoneError unless the file at the path is the open one. Every write looks by itself, twice."""
        with self._lock, typed_errors(self.path):
            if self._closed:
                raise StoreError(f"{self.path} is closed")
            if self._parted is not None:
                raise StoreGoneError(f"{self.path} was parted with: open what is there now")
            self._place.look()

    def part(self) -> place.Detached | None:
        """Leave the open file, since another one, or none, is at the path: open a new Store there.

        Returns None, and goes on, where the file at the path is the open one (again). Calling again is fine.

        Raises:
            StoreLockedError, StoreFullError: not now, and nothing is lost; call again.
        """
        with self._lock, typed_errors(self.path):
            if self._parted is None and not self._place.fits():
                self._parted = self._place.part(self._db.conn)
            return self._parted

    def knows(self, run_id: str) -> bool:
        """Whether a run of this id was planned or written here."""
        with self._lock, typed_errors(self.path):
            return self._db.execute("SELECT 1 FROM runs WHERE id = ?", [run_id]).fetchone() is not None

    # -- the life of a run -----------------------------------------------------------------------------------

    def plan(self, runs: Sequence[Run], sources: Sources | None = None) -> None:
        """Journal planned runs, all or none, in their order. Nothing may start before this returns.

        Args:
            runs: in the state planned.
            sources: snapshot to its files, as put_snapshot takes them: those that this store does not have go in with
                the runs. They were put before, but the store may be another one since.

        Raises:
            ValueError: a run is not in the state planned.
            ContradictionError: an id was planned before; values that the schema refuses.
        """
        for run in runs:
            if run.state is not State.PLANNED:
                raise ValueError(f"run {run.id} is {run.state}; plan() takes planned runs, finish() final ones")
        planned = [RunRows.of(run) for run in runs]
        with self._transaction() as db:
            _put_lacking(db, sources)
            for rows in planned:
                self._insert(db, rows, None)

    def advance(self, run_id: str, state: State, *, start_ns: int | None = None) -> None:
        """Move a run that is on its way to another state on the way.

        Args:
            run_id: the run.
            state: starting or running (or planned again, for another attempt).
            start_ns: CLOCK_MONOTONIC of its start; None keeps what is there.

        Raises:
            ValueError: for a final state, which only finish() writes.
            LookupError: no such run.
            ContradictionError: the run has ended.
        """
        if state.final:
            raise ValueError(f"advance({run_id!r}, {state}): a final state is written by finish() with its reason")
        with self._transaction() as db:
            moved = db.execute(
                f"UPDATE runs SET state = ?, start_ns = coalesce(?, start_ns) WHERE id = ? AND {_UNFINISHED}",
                [state.value, start_ns, run_id],
            )
            if moved.rowcount == 0:
                row = db.execute("SELECT state FROM runs WHERE id = ?", [run_id]).fetchone()
                if row is None:
                    raise LookupError(f"no run {run_id!r} to advance: plan() comes first")
                raise ContradictionError(f"run {run_id} ended {row[0]} and cannot become {state}")

    def finish(self, run: Run, samples: Mapping[str, Samples], telemetry: Telemetry | None = None) -> None:
        """Write a run's end: record, arms, comparisons, steps, findings, samples, telemetry and the hash over them.

        In the same transaction, rungs that a check caught are put into quarantine, and those that are there and pass
        with other code, or twice with the same, are released.

        A run that was never planned here (the file was set aside meanwhile) is written all the same.
        Finishing again with equal content changes nothing, so a caller may repeat what it is not sure of.

        Args:
            run: in a final state.
            samples: by rung; every rung must be an arm of the run.
            telemetry: of the run's GPU.

        Raises:
            ValueError: the state is not final, or the manifest is no JSON.
            ContradictionError: samples of an unknown arm; arrays of different lengths; the run ended
                otherwise before, or was planned for another target, epoch or place in the order.
            StoreFullError, StoreLockedError: nothing of it was written; keep it and call again.
        """
        if not run.state.final:
            raise ValueError(f"run {run.id} is {run.state}; finish() takes runs that have ended")
        rows = RunRows.of(run)
        rungs = {row["rung"] for row in rows.arms}
        packed = {content.label(rung): content.pack_samples(taken) for rung, taken in samples.items()}
        strange = sorted(set(packed) - rungs)
        if strange:
            raise ContradictionError(f"run {run.id}: samples of {', '.join(strange)}, which is none of its arms")
        gpu = content.pack_telemetry(telemetry) if telemetry is not None else None
        digest = rows.digest({rung: taken[2] for rung, taken in packed.items()}, gpu[2] if gpu else "")
        with self._transaction() as db:
            number = self._replace_plan(db, rows, digest)
            if number is None:
                return
            self._insert(db, rows, digest, number)
            for rung, (count, blobs, sha) in packed.items():
                row = {"run": number, "rung": rung, "count": count, **blobs, "sha256": sha}
                db["samples"].insert(row)
            if gpu:
                db["telemetry"].insert({"run": number, "count": gpu[0], **gpu[1], "sha256": gpu[2]})
            chain.append(db.conn, chain.Kind.RUN, number, rows.run["id"], digest)
            self._quarantine(db, run, content.unpack_findings(rows.findings) if rows.findings else [])
        self.finished.append(run.id)

    def mark_lost(self, epoch: str) -> list[str]:
        """End every unfinished run of other engines as engine_lost. Returns their ids, oldest first."""
        lost: list[str] = []
        with self._transaction() as db:
            numbers = sorted(row[0] for row in db.execute(UNFINISHED_SQL, [epoch]).fetchall())
            for number, rows in load_runs(db.conn, numbers).items():
                try:
                    ended = rows.record().lost(LOST_REASON, LOST_REASON)
                except ContradictionError:
                    # A damaged plan is ended as well, or it would stay on its way for ever.
                    digest = ""
                    db.execute(
                        "UPDATE runs SET state = ?, reason = ?, sha256 = ? WHERE number = ?",
                        [State.ENGINE_LOST.value, LOST_REASON, digest, number],
                    )
                else:
                    after = RunRows.of(ended)
                    digest = after.digest(*array_hashes(db.conn, [number])[number])
                    self._replace_plan(db, after, digest)
                    self._insert(db, after, digest, number)
                chain.append(db.conn, chain.Kind.RUN, number, rows.run["id"], digest)
                lost.append(str(rows.run["id"]))
        return lost

    # -- quarantine ------------------------------------------------------------------------------------------

    def quarantines(self, folder: bytes, code: str = "") -> dict[str, Quarantine]:
        """Rungs of the target in `folder` that were caught and have not passed since with other code, by name.

        Args:
            folder: of the target, as in Run.
            code: digest of the target's code. Given, a rung that was caught with this very code is among them even
                where it has passed with another one meanwhile: what was caught stays caught.
        """
        with self._lock, typed_errors(self.path):
            entries = load_quarantines(
                self._db.conn,
                f"folder = ? AND ({IN_FORCE} OR (code = ? AND code <> ''))",
                [folder, content.label(code)],
            )
        by_rung: dict[str, Quarantine] = {}
        for quarantine in entries:
            if quarantine.rung not in by_rung or quarantine.code == code:
                by_rung[quarantine.rung] = quarantine
        return by_rung

    def forgiven(self, run: Run) -> dict[str, str]:
        """Rungs whose quarantine this run ends, and the id of the clean run before it: the same code, valid and right
        in two runs one after the other, with the check that caught it asked in both.
        """
        findings = [[each.check, content.label(each.arm), each.status, each.evidence] for each in run.findings]
        with self._lock, typed_errors(self.path):
            return _forgiven(self._db, run, findings)

    def unforgiven(self, run: Run, check: str, limit: int) -> list[int]:
        """Master seeds of the first runs of this run's target on its device in which this check caught a rung that has
        not been right there since, oldest first.
        """
        caught = (
            "SELECT runs.seed, runs.number, quarantines.rung FROM quarantines JOIN runs ON runs.id = quarantines.run "
            'WHERE quarantines.folder = ? AND quarantines.device = ? AND "check" = ? ORDER BY quarantines.number'
        )
        right = (
            "SELECT 1 FROM runs JOIN arms ON arms.run = runs.number WHERE target = ? AND folder = ? AND device = ? "
            "AND runs.number > ? AND arms.rung = ? AND arms.state = 'ok' AND validity <> 'suspect' LIMIT 1"
        )
        of_target = [content.label(run.target), run.folder, run.device]
        seeds: dict[int, None] = {}
        with self._lock, typed_errors(self.path):
            for seed, number, rung in self._db.execute(caught, [run.folder, run.device, check]).fetchall():
                if len(seeds) == limit:
                    break
                if seed not in (None, NO_SEED) and not self._db.execute(right, [*of_target, number, rung]).fetchone():
                    seeds[int(seed)] = None
        return list(seeds)

    def release(self, check: str) -> int:
        """Forget the quarantines that this check has caused: a person says that it was no rung's doing. Returns how
        many.
        """
        with self._transaction() as db:
            return _withdraw(db, '"check" = ?', [check])

    # -- history ---------------------------------------------------------------------------------------------

    def earlier(self, run: Run, limit: int = 20) -> list[dict[str, Any]]:
        """What the checks over the history look at: finished runs of this run's target on its device, newest first.

        Each has "id", "wall", "quick", "case", "verdict", "validity", "environment" (a mapping, empty where none was
        kept or it is not what was written) and "arms" (name to "median_ms" and "sources"). A run that was changed since
        it was written is left out.
        """
        with self._lock, typed_errors(self.path):
            connection = self._db.conn
            rows = connection.execute(
                'SELECT number, id, wall, quick, "case", verdict, validity, environment FROM runs '
                "WHERE folder = ? AND target = ? AND device = ? AND state = 'ok' AND id <> ? "
                "ORDER BY number DESC LIMIT ?",
                [run.folder, content.label(run.target), run.device, run.id, limit],
            ).fetchall()
            changed = seal.changed(connection, [row[0] for row in rows])
            environments: dict[str, Any] = {}
            runs: list[dict[str, Any]] = []
            for number, run_id, wall, quick, case, verdict, validity, environment in rows:
                if number in changed:
                    continue
                if environment not in environments:
                    text = connection.execute(
                        "SELECT content FROM environments WHERE hash = ?", [environment]
                    ).fetchone()
                    whole = text is not None and sha256(text[0].encode("utf-8")) == environment
                    environments[environment] = json.loads(text[0]) if whole else {}
                arms = connection.execute(
                    "SELECT rung, median_ms, sources FROM arms WHERE run = ? ORDER BY position", [number]
                ).fetchall()
                runs.append(
                    {
                        "id": run_id,
                        "wall": wall,
                        "quick": bool(quick),
                        "case": case,
                        "verdict": verdict,
                        "validity": validity,
                        "environment": environments[environment],
                        "arms": {rung: {"median_ms": ms, "sources": sources} for rung, ms, sources in arms},
                    }
                )
        return runs

    # -- ceilings --------------------------------------------------------------------------------------------

    def put_peak(self, peak: Peak) -> None:
        """Write a measurement of a GPU's ceilings, with the hash over it. Repeating it with equal content changes
        nothing.

        Raises:
            ContradictionError: another peak has that id; values that the schema refuses.
            StoreFullError, StoreLockedError: nothing of it was written; keep it and call again.
        """
        rows = PeakRows.of(peak)
        digest = rows.digest()
        with self._transaction() as db:
            earlier = db.execute("SELECT sha256 FROM peaks WHERE id = ?", [rows.peak["id"]]).fetchone()
            if earlier:
                if earlier[0] == digest:
                    return
                raise ContradictionError(f"peak {peak.id} was written before, otherwise; a peak is never rewritten")
            number = db["peaks"].insert({**rows.peak, "sha256": digest}).last_rowid
            db["ceilings"].insert_all({"peak": number, **row} for row in rows.ceilings)
            chain.append(db.conn, chain.Kind.PEAK, number, rows.peak["id"], digest)

    def last_like(self, run: Run) -> tuple[float, int] | None:
        """How long the target's newest good run like this one took in seconds, and how many fresh processes per arm.

        Like it is what ran in the same mode by the same stop rule, on the same device and case. None where there is
        none. The processes are 0 where its arms were not measured in turns.
        """
        rule = run.manifest.get("stop_rule")
        rule_text = content.canonical_json({"stop_rule": rule}, "a stop rule")
        with self._lock, typed_errors(self.path):
            connection = self._db.conn
            row = connection.execute(
                "SELECT number, duration_ms FROM runs JOIN manifests ON manifests.hash = runs.manifest "
                "WHERE target = ? AND folder = ? AND device = ? AND quick = ? AND \"case\" = ? AND state = 'ok' "
                "AND duration_ms IS NOT NULL "
                "AND json_extract(content, '$.stop_rule') IS json_extract(?, '$.stop_rule') "
                "ORDER BY number DESC LIMIT 1",
                [content.label(run.target), run.folder, run.device, run.quick, content.label(run.case), rule_text],
            ).fetchone()
            if row is None:
                return None
            of_turns = "SELECT count(*) FROM steps WHERE run = ? AND name = 'challenge'"  # one behind each replica
            interleaved = isinstance(rule, Mapping) and bool(rule.get("interleaved"))
            processes = connection.execute(of_turns, [row[0]]).fetchone()[0] if interleaved else 0
        return float(row[1]) / 1e3, int(processes)

    def last_edit(self, target: str, folder: bytes) -> int | None:
        """The number of the newest edit of this target in this folder that a watch ran; None where there is none."""
        with self._lock, typed_errors(self.path):
            row = self._db.conn.execute(
                "SELECT json_extract(content, '$.edit.number') AS edit FROM runs "
                "JOIN manifests ON manifests.hash = runs.manifest WHERE target = ? AND folder = ? AND trigger = ? "
                "AND edit IS NOT NULL ORDER BY number DESC LIMIT 1",
                [content.label(target), folder, Trigger.WATCH.value],
            ).fetchone()
        return row[0] if row is not None and isinstance(row[0], int) else None

    def latest_peak(self, gpu_uuid: str) -> Peak | None:
        """The newest peak of that GPU that is what was written; None where there is none."""
        from aisp.store.reader import PEAKS_OF_GPU_SQL, read_peaks  # the reader is not part of writing but for this

        with self._lock, typed_errors(self.path):
            connection = self._db.conn
            rows = connection.execute(PEAKS_OF_GPU_SQL, [content.label(gpu_uuid), -1]).fetchall()
            return next(read_peaks(connection, [row[0] for row in rows], {}), None)

    def spreads(self, device: str, gpu: str, held: bool) -> list[tuple[float, float]]:
        """How processes of the same code differed in the newest good runs of a device, as Quality has it: standard
        deviation between them and its degrees of freedom. Of a GPU: those of its model; `gpu` is "" for a CPU. `held`:
        those whose samples have no host time in them, else those that have."""
        with self._lock, typed_errors(self.path):
            rows = self._db.conn.execute(SPREADS_SQL, [device, content.label(gpu), held, MOST_SPREADS]).fetchall()
        return [(float(deviation), float(freedom)) for deviation, freedom in rows]

    # -- fuzzes ----------------------------------------------------------------------------------------------

    def put_fuzz(self, record: Fuzz, failures: Sequence[Failure] = (), sources: Sources | None = None) -> None:
        """Write a fuzz with its failing cases, in their order. Again with equal content changes nothing.

        Args:
            record: after its end.
            failures: at least those that its rungs name, the smallest case of a rung first.
            sources: as plan() takes them.

        Raises:
            ContradictionError: a failure of another fuzz, target or rung, or one that a rung names is lacking; the
                fuzz was written before, otherwise; values that the schema refuses.
            ValueError: something that JSON cannot say.
            StoreFullError, StoreLockedError: nothing of it was written; keep it and call again.
        """
        rung_of = {failure.id: failure.rung for failure in failures}
        for failure in failures:
            if (failure.fuzz, failure.target) != (record.id, record.target):
                raise ContradictionError(f"failure {failure.id} is none of fuzz {record.id} of {record.target}")
        for rung in record.rungs:
            lacking = [name for name in rung.failures if rung_of.get(name) != rung.rung]
            if lacking:
                raise ContradictionError(f"fuzz {record.id}: {rung.rung} has no failure {', '.join(lacking)}")
        row, rows = fuzz_row(record), [failure_row(failure) for failure in failures]
        with self._transaction() as db:
            earlier = db.execute("SELECT number, sha256 FROM fuzzes WHERE id = ?", [row["id"]]).fetchone()
            if earlier:
                kept = db.execute("SELECT sha256 FROM failures WHERE fuzz = ? ORDER BY number", [earlier[0]]).fetchall()
                if earlier[1] == row["sha256"] and [sha for (sha,) in kept] == [each["sha256"] for each in rows]:
                    return
                raise ContradictionError(f"fuzz {record.id} was written before, otherwise; a fuzz is never rewritten")
            _put_lacking(db, sources)
            number = db["fuzzes"].insert(row).last_rowid
            chain.append(db.conn, chain.Kind.FUZZ, number, row["id"], row["sha256"])
            for each in rows:
                kept_as = db["failures"].insert({"fuzz": number, **each}).last_rowid
                chain.append(db.conn, chain.Kind.FAILURE, kept_as, each["id"], each["sha256"])

    def fuzz(self, fuzz_id: str) -> Fuzz:
        """See `History.fuzz`."""
        from aisp.store.reader import read_fuzz  # the reader is not part of writing but for this

        with self._lock, typed_errors(self.path):
            return read_fuzz(self._db.conn, fuzz_id)

    def failure(self, failure_id: str) -> Failure:
        """See `History.failure`."""
        from aisp.store.reader import read_failure  # see fuzz()

        with self._lock, typed_errors(self.path):
            return read_failure(self._db.conn, failure_id)

    # -- content ---------------------------------------------------------------------------------------------

    def put_snapshot(self, files: Mapping[str, bytes]) -> str:
        """Keep the sources of a target, each content once. Returns the snapshot's hash.

        Args:
            files: name relative to the target's folder (as os.fsdecode gives it) to content.

        Raises:
            ValueError: a name that leads out of the folder.
        """
        with self._transaction() as db:
            return _put_snapshot(db, files)

    def snapshot(self, snapshot_hash: str) -> dict[str, bytes]:
        """The sources of a snapshot by name. Raises LookupError, StoreCorruptError."""
        from aisp.store.reader import read_snapshot  # the reader is not part of writing but for this

        with self._lock, typed_errors(self.path):
            return read_snapshot(self._db.conn, snapshot_hash)

    def put_environment(self, environment: Mapping[str, object]) -> str:
        """Keep what a run ran on, once. Returns its hash. Raises ValueError for what JSON cannot say."""
        text = content.canonical_json(environment, "the environment")
        digest = sha256(text.encode("ascii"))
        with self._transaction() as db:
            db["environments"].insert({"hash": digest, "content": text}, ignore=True)
        self.environments[digest] = environment
        return digest

    # -- keeping ---------------------------------------------------------------------------------------------

    def backup(self, path: Path | str | None = None) -> Path:
        """Copy the store while it is in use. Returns where to.

        Args:
            path: the new file; by default `<store>.v<schema>-<date>.bak` beside the store, where opening a
                damaged store looks for it. Raises StoreError where it exists.
        """
        wanted = migrations.backup_name(self.path, migrations.LATEST) if path is None else Path(path)
        with self._lock:
            return upkeep.copy(self._db.conn, wanted)

    def head(self) -> chain.Head | None:
        """See `History.head`."""
        with self._lock, typed_errors(self.path):
            return chain.head(self._db.conn)

    # -- inside ----------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[Database]:
        with self._lock, typed_errors(self.path):
            connection = self._db.conn
            self.look()
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._db
                connection.execute("COMMIT")
            except sqlite3.DatabaseError as error:
                if isinstance(typed(error, self.path), StoreCorruptError):
                    self._whole = False  # the next to open it examines it
                raise
            finally:
                # SQLite has ended it itself where the disk is full; a second failure would hide the first.
                if connection.in_transaction:
                    with contextlib.suppress(sqlite3.Error):
                        connection.execute("ROLLBACK")
                self._place.wrote()
            # Committed is what is in the file at the path; what went into another one is written again.
            self.look()
            self._place.fold(connection)

    def _replace_plan(self, db: Database, rows: RunRows, digest: str) -> int | None:
        """Clear the row that a run's end replaces. Returns its number, None where there is nothing to do."""
        run = rows.run
        planned = db.execute(
            "SELECT number, state, sha256, target, epoch, seq FROM runs WHERE id = ?", [run["id"]]
        ).fetchone()
        if planned is None:
            return int(db.execute("SELECT coalesce(max(number), 0) + 1 FROM runs").fetchone()[0])
        number, state, sha, *identity = planned
        if sha is not None:
            if sha == digest:
                return None
            raise ContradictionError(f"run {run['id']} ended {state} before; a run that ended is never rewritten")
        wanted = [run["target"], run["epoch"], run["seq"]]
        if identity != wanted:
            raise ContradictionError(f"run {run['id']} was planned as {identity} and cannot end as {wanted}")
        db.execute("DELETE FROM runs WHERE number = ?", [number])  # its arms and steps go with it
        return int(number)

    def _insert(self, db: Database, rows: RunRows, digest: str | None, number: int | None = None) -> None:
        db["manifests"].insert({"hash": rows.run["manifest"], "content": rows.manifest}, ignore=True)
        row = {
            **rows.run,
            "number": number,
            "sha256": digest,
            "folder_label": content.path_label(rows.run["folder"]),
        }
        inserted = db["runs"].insert(row).last_rowid
        children: dict[str, list[dict[str, Any]]] = {
            "arms": rows.arms,
            "comparisons": rows.comparisons,
            "steps": rows.steps,
        }
        for table, children_rows in children.items():
            db[table].insert_all({"run": inserted, **child} for child in children_rows)
        if rows.findings:
            db["findings"].insert({"run": inserted, **rows.findings})

    def _quarantine(self, db: Database, run: Run, findings: Sequence[Sequence[str]]) -> None:
        """Put the rungs that this run caught into quarantine, and release those that it clears."""
        code, by = content.label(run.code), content.label(run.id)
        caught = _suspected(run, findings) | _caught(findings)
        for rung, (check, evidence) in caught.items():
            if check == INSTALLED_CHECK and _has_one(db, run.folder, rung, code):
                continue  # what it was caught for stays: this one may be forgiven
            if _again(db, by, [run.folder, rung, code], (check, run.device)):
                continue
            # One is in force at a time: it gives way to what was seen last, but goes on hiding its own code's figures.
            _mark(db, by, _OF_RUNG, [run.folder, rung])
            sql = f"SELECT number, target, rung FROM quarantines {_OF_CODE}"
            for number, *replaced in db.execute(sql, [run.folder, rung, code]).fetchall():
                chain.append(db.conn, chain.Kind.WITHDRAWN, number, chain.quarantine_subject(*replaced), "")
            row = {
                **{"folder": run.folder, "rung": rung, "code": code, "target": content.label(run.target)},
                **{"device": run.device, "run": by, "check": check, "evidence": evidence},
                **{"wall": content.label(run.wall), "ended_by": None},
            }
            chain.append_quarantines(db.conn, [db["quarantines"].insert(row, replace=True).last_rowid])
        if not code:
            return
        forgiven = _forgiven(db, run, findings)
        for rung in forgiven:
            _withdraw(db, "folder = ? AND rung = ? AND code = ?", [run.folder, rung, code])
        for rung in {content.label(arm.rung) for arm in run.arms} - {*caught, *forgiven}:
            key = [run.folder, rung, code]
            if _again(db, by, key):  # whatever it does this time
                continue
            there = db.execute(f'SELECT "check", device FROM quarantines {_OF_RUNG}', [run.folder, rung]).fetchone()
            if there and _clears(run, rung, findings, *there):
                _mark(db, by, _OF_RUNG, [run.folder, rung])


def _has_snapshot(db: Database, digest: str) -> bool:
    return db.execute("SELECT 1 FROM snapshots WHERE hash = ?", [digest]).fetchone() is not None


def _put_lacking(db: Database, sources: Sources | None) -> None:
    for digest, files in (sources or {}).items():
        if not _has_snapshot(db, digest):
            _put_snapshot(db, files)


def _put_snapshot(db: Database, files: Mapping[str, bytes]) -> str:
    """Do as Store.put_snapshot, within a transaction."""
    named = sorted((content.name_bytes(name), data) for name, data in files.items())
    digests = [(name, sha256(data)) for name, data in named]
    whole = content.manifest_hash(digests)
    if not _has_snapshot(db, whole):
        by_hash = {digest: data for (_, digest), (_, data) in zip(digests, named, strict=True)}
        db["sources"].insert_all([{"sha256": digest, "content": data} for digest, data in by_hash.items()], ignore=True)
        db["snapshots"].insert({"hash": whole, "wall": migrations.wall()})
        db["snapshot_files"].insert_all(
            {"snapshot": whole, "name": name, "label": content.path_label(name), "source": digest}
            for name, digest in digests
        )
    return whole


def _mark(db: Database, ended_by: str | None, where: str, values: Sequence[object]) -> None:
    """End quarantines, or put them in force again, with their entries in the chain."""
    sql = f"UPDATE quarantines SET ended_by = ? {where} RETURNING number"
    chain.append_quarantines(db.conn, sorted(number for (number,) in db.execute(sql, [ended_by, *values]).fetchall()))


def _withdraw(db: Database, where: str, parameters: Sequence[object]) -> int:
    """Forget quarantines, with their entries in the chain. Returns how many."""
    gone = db.execute(f"DELETE FROM quarantines WHERE {where} RETURNING number, target, rung", parameters).fetchall()
    for number, target, rung in sorted(gone):
        chain.append(db.conn, chain.Kind.WITHDRAWN, number, chain.quarantine_subject(target, rung), "")
    return len(gone)


def _forgiven(db: Database, run: Run, findings: Sequence[Sequence[str]]) -> dict[str, str]:
    """Answer `Store.forgiven`. What outlasts a run is no rung's to live down: a person accepts it."""
    code, by_rung = content.label(run.code), dict[str, str]()
    if not code:
        return by_rung
    sql = 'SELECT rung, "check", device FROM quarantines WHERE folder = ? AND code = ? AND "check" <> ?'
    for rung, check, device in db.execute(sql, [run.folder, code, INSTALLED_CHECK]).fetchall():
        if not _clean(run, rung, findings, check, device):
            continue
        last = db.execute(_BEFORE, [run.folder, run.device, code, rung, content.label(run.id)]).fetchone()
        if last is None:
            continue
        earlier = load_runs(db.conn, [last[0]])[last[0]].record()
        seen = [[each.check, each.arm, each.status, each.evidence] for each in earlier.findings]
        if _clean(earlier, rung, seen, check, device):
            by_rung[rung] = earlier.id
    return by_rung


def _clean(run: Run, rung: str, findings: Sequence[Sequence[str]], check: str, device: str) -> bool:
    """Whether a run of the code that was caught speaks for it: valid and right, and released were it other code."""
    here = any(content.label(arm.rung) == rung for arm in run.arms)
    well = run.validity is Validity.VALID and run.correctness is Correctness.CORRECT
    return here and well and _clears(run, rung, findings, check, device)


def _again(db: Database, by: str, key: Sequence[object], like: tuple[str, str] | None = None) -> bool:
    """Whether this code of a rung was caught before; its quarantine, the first of its kind, is in force again then.

    Args:
        known: folder, rung and code.
        like: by this check on this device; None where any will do.
    """
    before = db.execute(f'SELECT "check", device FROM quarantines {_OF_CODE}', key).fetchone()
    if before is None or (like is not None and tuple(before) != like):
        return False
    _mark(db, by, f"{_OF_RUNG} AND code <> ?", key)
    _mark(db, None, f"{_OF_CODE} AND ended_by IS NOT NULL", key)
    return True


def _has_one(db: Database, folder: bytes, rung: str, code: str) -> bool:
    """Whether a rung is in quarantine, or this code of it ever was."""
    row = db.execute(f"SELECT 1 FROM quarantines {_OF_RUNG}", [folder, rung]).fetchone()
    return bool(row or db.execute(f"SELECT 1 FROM quarantines {_OF_CODE}", [folder, rung, code]).fetchone())


def _caught(findings: Sequence[Sequence[str]]) -> dict[str, tuple[str, str]]:
    """(check, evidence) of the first finding for which a rung goes into quarantine."""
    by_rung: dict[str, tuple[str, str]] = {}
    for check, arm, status, evidence in findings:
        rung = arm.removesuffix(TWIN_SUFFIX)
        if status == FindingStatus.CAUGHT and rung and not rung.startswith(_EXEMPT):
            by_rung.setdefault(rung, (check, evidence))
    return by_rung


def _suspected(run: Run, findings: Sequence[Sequence[str]]) -> dict[str, tuple[str, str]]:
    """All rungs that ran, where a change outlasts the run and no known rung has caused it."""
    why = next(
        (evidence for check, _, status, evidence in findings if check == INSTALLED_CHECK and status == _SUSPECT), None
    )
    named = any(check == AUTHOR_CHECK and status == FindingStatus.CAUGHT for check, _, status, _ in findings)
    if why is None or named:
        return {}
    ran = {content.label(arm.rung) for arm in run.arms if arm.state is not State.UNAVAILABLE}
    return {rung: (INSTALLED_CHECK, why) for rung in ran if not rung.startswith(_EXEMPT)}


def _clears(run: Run, rung: str, findings: Sequence[Sequence[str]], check: str, device: str) -> bool:
    """Whether a run of other code releases a rung that this check caught on this device: the check was asked there, and
    passed.
    """
    names = (rung, rung + TWIN_SUFFIX)
    answers = {(name, status) for name, arm, status, _ in findings if arm in names}
    statuses = {status for _, status in answers}
    return (
        run.device == device
        and not run.manifest.get("without")
        and all(arm.state is State.OK for arm in run.arms if content.label(arm.rung) in names)
        and run.caught("") is None
        and bool(answers)
        and not {FindingStatus.CAUGHT, FindingStatus.SUSPECT} & statuses
        and (check, FindingStatus.UNAVAILABLE) not in answers
    )


def _connect(path: Path, busy_timeout_s: float, wal: bool, examining: Examining) -> Database:
    """Open, and examine if need be. Raises StoreCorruptError where quick_check fails, and the other typed errors."""
    from sqlite_utils import Database  # 0.2 s of import, paid by the engine alone

    with typed_errors(path):
        made = not path.exists()
        # SQLite's own mode would follow the umask; the log and the shared memory inherit this one.
        os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
        # SQLite would take an emptied file for a new one, and delete the log beside it.
        if not made and path.stat().st_size == 0 and (_has_log(path) or upkeep.backups(path)):
            raise StoreCorruptError(f"{path} is empty, but was not")
        connection = sqlite3.connect(path, timeout=busy_timeout_s, isolation_level=None, check_same_thread=False)
        try:
            # Before anything is written: a file that is not ours must stay as it is.
            migrations.check_ours(connection, path)
            size_bytes = upkeep.size_bytes(path)
            if size_bytes < EXAMINED_BYTES or not upkeep.as_closed(path):
                if examining(size_bytes):
                    raise StoreError(f"{path} was not examined: the examination was given up")
                connection.set_progress_handler(lambda: examining(size_bytes), PROGRESS_STEPS)
                upkeep.quick_check(connection, path)
                connection.set_progress_handler(None, 0)
            upkeep.closed_file(path).unlink(missing_ok=True)
            if migrations.version(connection) <= migrations.LATEST:
                connection.execute(f"PRAGMA journal_mode = {'WAL' if wal else 'TRUNCATE'}").fetchone()
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA foreign_keys = ON")
            connection.execute("PRAGMA journal_size_limit = 67108864")
            connection.execute("PRAGMA wal_autocheckpoint = 0")  # place.Place.fold
            return Database(connection, execute_plugins=False)
        except BaseException as error:
            _close(connection, path, error)
            raise


def _has_log(path: Path) -> bool:
    log = Path(f"{path}-wal")
    return log.exists() and log.stat().st_size > 0


def _close(connection: sqlite3.Connection, path: Path, error: BaseException) -> None:
    """Close a file that could not be used. The log of a damaged one stays: SQLite drops it with the last connection,
    and it may hold the newest runs."""
    damaged = isinstance(error, StoreCorruptError) or (
        isinstance(error, sqlite3.Error) and isinstance(typed(error, path), StoreCorruptError)
    )
    if not (damaged and _has_log(path)):
        connection.close()
        return
    kept = Path(f"{path}-wal.kept")
    shutil.copyfile(f"{path}-wal", kept)
    connection.close()
    kept.replace(f"{path}-wal")
