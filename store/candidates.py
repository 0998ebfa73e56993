"""Candidates that wait to be judged: planned, leased, done or dead, in a file of its own, `candidates.db`.

A run belongs to the engine, which alone writes the store. What stands here is asked for before there is a run, by
whoever plans (the command line, the HTTP door, a fleet's driver), and has to outlive an engine that is stopped as well
as a driver that is killed. So it is not a table of the store but a second file beside it. Every process writes to it
itself, in transactions of a few milliseconds that take the write lock at once; a result is named here by its run's id
and a small document, and stays where it is. Losing the file loses no result.

**Work is found by its content.** A row is one candidate's sources for one target's sources, at one level, under one
set of conditions. Whoever plans the same once more, in the same batch or in another, gets the same row, with its
outcome if it has one. A batch is a list of names for rows.

**A lease is for a time.** Its owner renews it while it works. A row whose lease has run out, or whose owner is a
process of this machine that is gone, waits again; after `MOST_ATTEMPTS` leases without an outcome it is dead, with the
reason, and is not tried again unless somebody says so. The first outcome of a row stands; a later one changes nothing.
"""

from __future__ import annotations

import contextlib
import enum
import json
import os
import sqlite3
import threading
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from aisp.store.content import canonical_json, label, name_bytes, name_text, snapshot_hash
from aisp.store.errors import ForeignDatabaseError, NewerSchemaError, StoreCorruptError, StoreError, typed_errors
from aisp.store.text import clean_line

MOST_ATTEMPTS = 3
"""Leases without an outcome after which a row is dead."""
MOST_BYTES = 4 << 20
"""Of the sources of one candidate together."""
MOST_WAITING = 100_000
"""Rows that wait or are leased; more are refused."""
MOST_ENDED = 200_000
"""Rows that have ended and are kept; the oldest others go when new ones are planned."""
MOST_OUTCOME_BYTES = 64 << 10
"""Of the document that says what became of a row."""
LEASE_S = 300.0
"""How long a lease lasts that is not renewed."""
BUSY_TIMEOUT_S = 30.0
"""Patience with another process that writes."""

_APPLICATION_ID = 0x61697363  # "aisc"
_VERSION = 1
_SCHEMA = """
CREATE TABLE bodies (
    candidate TEXT PRIMARY KEY NOT NULL,
    content BLOB NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE candidates (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    target TEXT NOT NULL,
    sources TEXT NOT NULL,
    candidate TEXT NOT NULL REFERENCES bodies (candidate),
    level TEXT NOT NULL,
    conditions TEXT NOT NULL,
    priority INTEGER NOT NULL,
    state TEXT NOT NULL,
    attempts INTEGER NOT NULL DEFAULT 0,
    owner TEXT NOT NULL DEFAULT '',
    expires_s REAL NOT NULL DEFAULT 0,
    asked_as TEXT NOT NULL DEFAULT '',
    run_id TEXT NOT NULL DEFAULT '',
    outcome TEXT,
    reason TEXT NOT NULL DEFAULT '',
    planned_s REAL NOT NULL,
    changed_s REAL NOT NULL,
    UNIQUE (target, sources, candidate, level, conditions)
) STRICT;

CREATE INDEX waiting ON candidates (priority DESC, number) WHERE state = 'planned';
CREATE INDEX leased ON candidates (expires_s) WHERE state = 'leased';
CREATE INDEX by_body ON candidates (candidate);

CREATE TABLE entries (
    batch TEXT NOT NULL,
    name TEXT NOT NULL,
    number INTEGER NOT NULL REFERENCES candidates (number) ON DELETE CASCADE,
    PRIMARY KEY (batch, number, name)
) STRICT, WITHOUT ROWID;

CREATE INDEX entries_by_row ON entries (number);
"""
_COLUMNS = (
    *("number", "target", "sources", "candidate", "level", "conditions", "priority", "state", "attempts"),
    *("owner", "expires_s", "asked_as", "run_id", "outcome", "reason", "planned_s"),
)
_SELECT = f"SELECT {', '.join(f'c.{name}' for name in _COLUMNS)} FROM candidates c"
_ENDED = "('done', 'dead')"


class TakenError(StoreError):
    """Another content stands under the digest of a candidate. Nothing was planned; `Candidates.taken` says of whom."""


class TooManyError(StoreError):
    """More than `MOST_WAITING` rows would wait. Nothing was planned: let some end, and plan again."""


class Level(enum.StrEnum):
    """How thoroughly a candidate is judged."""

    QUICK = "quick"  # right or wrong, and a first time
    FULL = "full"  # with fresh replicas, for a verdict


class CandidateState(enum.StrEnum):
    """Where a row is. The last two are its end."""

    PLANNED = "planned"
    LEASED = "leased"
    DONE = "done"  # there is an outcome, good or bad
    DEAD = "dead"  # given up; the reason says why

    @property
    def ended(self) -> bool:
        """Whether nothing more will happen unless it is asked for again."""
        return self in (CandidateState.DONE, CandidateState.DEAD)


@dataclass(frozen=True, slots=True)
class CandidateRequest:
    """A candidate that somebody wants to have judged.

    Attributes:
        name: what it is called by whoever brings it; several of a batch may have one name.
        files: its sources by their relative names.
    """

    name: str
    files: Mapping[str, bytes]


@dataclass(frozen=True, slots=True)
class Row:
    """One candidate for one target at one level.

    Attributes:
        number: of the row, the older the smaller.
        target: the target's id.
        sources: hash of the target's own sources (store.snapshot_hash).
        candidate: hash of the candidate's sources, likewise.
        conditions: what else two judgements have alike that are the same ("cpu", a case), in the planner's words.
        priority: rows of a higher one go first.
        attempts: how often it was leased.
        owner: who has it; "" where nobody does.
        expires_s: when the lease runs out, in seconds of the wall clock (time.time).
        asked_as: the target that the engine was asked to run for it, noted before it is asked: who resumes finds the
            run by that. "" before.
        run_id: the run that judges or judged it; "" where none is known.
        outcome: what became of it; None before its end.
        reason: why it is dead, or why the last attempt came to nothing; "" for nothing.
        planned_s: when it was first planned, of the same clock.
    """

    number: int
    target: str
    sources: str
    candidate: str
    level: Level
    conditions: str
    priority: int
    state: CandidateState
    attempts: int
    owner: str
    expires_s: float
    asked_as: str
    run_id: str
    outcome: Mapping[str, Any] | None
    reason: str
    planned_s: float


@dataclass(frozen=True, slots=True)
class Requeued:
    """What became of rows whose owners are gone: how many wait again, and how many are dead."""

    waiting: int
    dead: int


def owner_here(word: str = "") -> str:
    """A name for this process as an owner, by which another process of this machine can tell that it is gone.

    Args:
        word: tells several owners in one process apart.
    """
    pid = os.getpid()
    return "/".join([*_world(), str(pid), _started(pid), word])


def is_gone(owner: str) -> bool:
    """Whether an owner is a process of this machine that has ended; False for one that cannot be seen from here."""
    parts = owner.split("/")
    if len(parts) != 5 or tuple(parts[:2]) != _world() or not parts[2].isdigit():
        return False
    return _started(int(parts[2])) != parts[3]


def _world() -> tuple[str, str]:
    """This kernel's life and this namespace of process ids; empty texts where /proc does not tell."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return boot, os.readlink("/proc/self/ns/pid")  # noqa: PTH115  no file's path
    except OSError:
        return "", ""


def _started(pid: int) -> str:
    """When a process began, in ticks since the boot, which tells it from a later one of its id; "" for none, and for
    one that has ended and was not yet waited for."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] in (b"Z", b"X") else fields[19].decode()


class Candidates:
    """The open file. A context manager; threads may share it."""

    def __init__(self, path: Path, *, wal: bool = True, busy_timeout_s: float = BUSY_TIMEOUT_S) -> None:
        """Open or make it.

        Args:
            path: the file, in a private folder (engine.paths.candidates_file).
            wal: keep a write-ahead log; False for a file system that several hosts share.
            busy_timeout_s: patience with another process that writes.

        Raises:
            ForeignDatabaseError, NewerSchemaError: the file is left as it is.
            StoreError: it cannot be opened; the type says why.
        """
        self.path = path
        self._lock = threading.RLock()
        try:
            self._open(wal, busy_timeout_s)
        except StoreCorruptError as error:
            raise StoreCorruptError(
                f"{path} is damaged: move it away; no result is in it, and what was planned can be planned again"
            ) from error

    def _open(self, wal: bool, busy_timeout_s: float) -> None:
        path = self.path
        with typed_errors(path):
            os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
            self._db = sqlite3.connect(path, timeout=busy_timeout_s, isolation_level=None, check_same_thread=False)
            try:
                self._prepare(wal)
            except BaseException:
                self._db.close()
                raise

    def _prepare(self, wal: bool) -> None:
        self._check()
        self._db.execute(f"PRAGMA journal_mode = {'WAL' if wal else 'TRUNCATE'}").fetchone()
        self._db.execute("PRAGMA synchronous = FULL")
        self._db.execute("PRAGMA foreign_keys = ON")
        with self._write() as db:
            if self._check() == 0:  # no other process has made the tables meanwhile
                for statement in _SCHEMA.split(";"):
                    db.execute(statement)
                db.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
                db.execute(f"PRAGMA user_version = {_VERSION}")

    def _check(self) -> int:
        """The file's version, 0 for an empty one."""
        (version,) = self._db.execute("PRAGMA user_version").fetchone()
        (application,) = self._db.execute("PRAGMA application_id").fetchone()
        empty = self._db.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone() is None
        if application != _APPLICATION_ID and not (empty and application == 0):
            raise ForeignDatabaseError(f"{self.path} is a database of another program: move it away")
        if version > _VERSION:
            raise NewerSchemaError(self.path, version, _VERSION)
        return int(version)

    def __enter__(self) -> Candidates:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file. Rows that are leased stay so."""
        with self._lock:
            self._db.close()

    # -- planning --------------------------------------------------------------------------------------------------

    def plan(
        self,
        batch: str,
        *,
        target: str,
        sources: str,
        wanted: Sequence[CandidateRequest],
        level: Level = Level.QUICK,
        conditions: str = "",
        priority: int = 0,
        again: bool = False,
    ) -> list[Row]:
        """Rows for these candidates, in their order; all of them are planned, or none.

        A row that is there already is taken, and waits no longer than `priority` has it. Planning again changes
        nothing.

        Args:
            batch: the list that they belong to; made with the first of them.
            target: the target's id.
            sources: hash of the target's own sources.
            conditions: what else must be alike.
            priority: rows of a higher one are leased first.
            again: those that have ended wait once more, as if they had never been tried.

        Raises:
            ValueError: sources of more than `MOST_BYTES`, or with an impossible name.
            TakenError: a candidate has the digest of another content.
            TooManyError: more than `MOST_WAITING` would wait.
        """
        entries = [(clean_line(one.name), snapshot_hash(one.files), _packed(one)) for one in wanted]
        now = time.time()
        numbers = []
        with self._write() as db:
            for name, candidate, content in entries:
                key = [label(target), sources, candidate, level.value, label(conditions)]
                self._keep(name, candidate, content)
                (number,) = db.execute(
                    "INSERT INTO candidates (target, sources, candidate, level, conditions, priority, state,"
                    " planned_s, changed_s) VALUES (?, ?, ?, ?, ?, ?, 'planned', ?, ?)"
                    " ON CONFLICT (target, sources, candidate, level, conditions)"
                    " DO UPDATE SET priority = max(priority, excluded.priority) RETURNING number",
                    [*key, priority, now, now],
                ).fetchone()
                db.execute("INSERT OR IGNORE INTO entries VALUES (?, ?, ?)", [label(batch), name, number])
                if again:
                    self._again(number, now)
                numbers.append(number)
            self._bound()
            return [self._row(number) for number in numbers]

    def taken(self, wanted: Sequence[CandidateRequest]) -> list[bool]:
        """Which of these candidates cannot be planned, since their digest is that of another content: of one that is
        kept here, or of an earlier one of them. Raises ValueError for an impossible name."""
        first: dict[str, Mapping[str, bytes]] = {}
        clashes = []
        for one in wanted:
            candidate = snapshot_hash(one.files)
            with contextlib.suppress(LookupError):
                first.setdefault(candidate, self.files(candidate))
            clashes.append(first.setdefault(candidate, one.files) != one.files)
        return clashes

    def _keep(self, name: str, candidate: str, content: bytes) -> None:
        if self._db.execute("INSERT OR IGNORE INTO bodies VALUES (?, ?)", [candidate, content]).rowcount:
            return
        there, files = self.files(candidate), _unpacked(content)
        if there != files:
            raise TakenError(f"{name} has the digest of another candidate, {candidate}; change a comment in it")

    def again(self, numbers: Sequence[int]) -> None:
        """Let rows that have ended wait once more, as if they had never been tried."""
        now = time.time()
        with self._write():
            for number in numbers:
                self._again(number, now)

    def _again(self, number: int, now: float) -> None:
        self._db.execute(
            "UPDATE candidates SET state = 'planned', attempts = 0, asked_as = '', run_id = '', outcome = NULL,"
            f" reason = '', planned_s = ?, changed_s = ? WHERE number = ? AND state IN {_ENDED}",
            [now, now, number],
        )

    def _bound(self) -> None:
        """Refuse too many that wait, and let the oldest go of those that have ended."""
        (waiting,) = self._db.execute(f"SELECT count(*) FROM candidates WHERE state NOT IN {_ENDED}").fetchone()
        if waiting > MOST_WAITING:
            raise TooManyError(f"{waiting:,} candidates would wait, at most {MOST_WAITING:,} may: let some end first")
        gone = self._db.execute(
            f"DELETE FROM candidates WHERE number IN (SELECT number FROM candidates WHERE state IN {_ENDED}"
            " ORDER BY changed_s DESC, number DESC LIMIT -1 OFFSET ?) RETURNING candidate",
            [MOST_ENDED],
        ).fetchall()
        for (candidate,) in set(gone):
            self._db.execute(
                "DELETE FROM bodies WHERE candidate = ?1"
                " AND NOT EXISTS (SELECT 1 FROM candidates WHERE candidate = ?1)",
                [candidate],
            )

    # -- working ---------------------------------------------------------------------------------------------------

    def lease(
        self,
        owner: str,
        most: int,
        *,
        for_s: float = LEASE_S,
        batch: str | None = None,
        target: str | None = None,
        level: Level | None = None,
        conditions: str | None = None,
    ) -> list[Row]:
        """Take up to `most` rows that wait: those of the highest priority, of these the oldest.

        Args:
            owner: who works on them (`owner_here`).
            for_s: how long the lease lasts, unless it is renewed.
            batch, target, level: only rows of these.
            conditions: only rows whose conditions begin so.
        """
        now = time.time()
        filters = {
            "number IN (SELECT number FROM entries WHERE batch = ?)": batch,
            "target = ?": target,
            "level = ?": level,
            "instr(conditions, ?) = 1": conditions,
        }
        chosen = {condition: label(value) for condition, value in filters.items() if value is not None}
        where = "".join(f" AND {condition}" for condition in chosen)
        with self._write() as db:
            rows = db.execute(
                f"SELECT number FROM candidates WHERE state = 'planned'{where} ORDER BY priority DESC, number LIMIT ?",
                [*chosen.values(), most],
            ).fetchall()
            for (number,) in rows:
                db.execute(
                    "UPDATE candidates SET state = 'leased', attempts = attempts + 1, owner = ?, expires_s = ?,"
                    " changed_s = ? WHERE number = ?",
                    [label(owner), now + for_s, now, number],
                )
            return [self._row(number) for (number,) in rows]

    def renew(self, owner: str, *, for_s: float = LEASE_S) -> int:
        """Let all leases of an owner last longer; how many it has."""
        with self._write() as db:
            return db.execute(
                "UPDATE candidates SET expires_s = ? WHERE state = 'leased' AND owner = ?",
                [time.time() + for_s, label(owner)],
            ).rowcount

    def note_request(self, owner: str, numbers: Sequence[int], asked_as: str) -> None:
        """Note, before the engine is asked, which target it will be asked to run for these rows of the owner."""
        with self._write() as db:
            for number in numbers:
                db.execute(
                    "UPDATE candidates SET asked_as = ?, changed_s = ? WHERE number = ? AND state = 'leased'"
                    " AND owner = ?",
                    [label(asked_as), time.time(), number, label(owner)],
                )

    def begun(self, owner: str, numbers: Sequence[int], run_id: str) -> None:
        """Note by which run these rows of the owner are being judged."""
        with self._write() as db:
            for number in numbers:
                db.execute(
                    "UPDATE candidates SET run_id = ?, changed_s = ? WHERE number = ? AND state = 'leased'"
                    " AND owner = ?",
                    [run_id, time.time(), number, label(owner)],
                )

    def finish(self, number: int, outcome: Mapping[str, Any], *, run_id: str = "") -> bool:
        """Note what became of a row; whether this was its end, and not one before it.

        An outcome counts whoever brings it: what was measured is as true after its lease has run out.

        Raises:
            ValueError: the outcome is not JSON, or has more than `MOST_OUTCOME_BYTES`.
            LookupError: no such row.
        """
        text = canonical_json(outcome, "the outcome of a candidate")
        if len(text) > MOST_OUTCOME_BYTES:
            raise ValueError(f"an outcome of {len(text):,} bytes; at most {MOST_OUTCOME_BYTES:,}")
        with self._write() as db:
            changed = db.execute(
                "UPDATE candidates SET state = 'done', outcome = ?, run_id = CASE ? WHEN '' THEN run_id ELSE ? END,"
                f" reason = '', owner = '', expires_s = 0, changed_s = ? WHERE number = ? AND state NOT IN {_ENDED}",
                [text, run_id, run_id, time.time(), number],
            ).rowcount
            self._row(number)
            return bool(changed)

    def fail(self, number: int, owner: str, reason: str, *, final: bool = False) -> CandidateState:
        """The owner's attempt came to nothing, by no fault of the candidate: it waits again, or is dead after
        `MOST_ATTEMPTS`, or at once where this is `final`. Where the row is no longer the owner's, nothing changes.
        Returns where it is now. Raises LookupError for no such row."""
        with self._write():
            row = self._row(number)
            if row.state is not CandidateState.LEASED or row.owner != label(owner):
                return row.state
            state = self._give_back(row, clean_line(reason, limit=2000), final=final)
            # What the engine was asked came to nothing: nobody is to find it again.
            self._db.execute("UPDATE candidates SET asked_as = '', run_id = '' WHERE number = ?", [number])
            return state

    def release(self, owner: str) -> int:
        """Give all leases of an owner back as if they had not been taken, as where somebody pressed Ctrl-C; how many
        there were."""
        with self._write() as db:
            return db.execute(
                "UPDATE candidates SET state = 'planned', attempts = attempts - 1, owner = '', expires_s = 0,"
                " changed_s = ? WHERE state = 'leased' AND owner = ?",
                [time.time(), label(owner)],
            ).rowcount

    def requeue_expired(self) -> Requeued:
        """Let rows wait again whose lease has run out or whose owner is gone (`is_gone`)."""
        now = time.time()
        counts = {CandidateState.PLANNED: 0, CandidateState.DEAD: 0}
        with self._write() as db:
            rows = [_made(row) for row in db.execute(f"{_SELECT} WHERE c.state = 'leased'").fetchall()]
            gone = {owner: is_gone(owner) for owner in {row.owner for row in rows}}
            for row in rows:
                if row.expires_s <= now or gone[row.owner]:
                    what = "whoever judged it has gone" if gone[row.owner] else "its lease has run out"
                    counts[self._give_back(row, f"attempt {row.attempts} of {MOST_ATTEMPTS}: {what}")] += 1
        return Requeued(counts[CandidateState.PLANNED], counts[CandidateState.DEAD])

    def _give_back(self, row: Row, reason: str, *, final: bool = False) -> CandidateState:
        state = CandidateState.DEAD if final or row.attempts >= MOST_ATTEMPTS else CandidateState.PLANNED
        self._db.execute(
            "UPDATE candidates SET state = ?, owner = '', expires_s = 0, reason = ?, changed_s = ? WHERE number = ?",
            [state.value, reason, time.time(), row.number],
        )
        return state

    # -- looking ---------------------------------------------------------------------------------------------------

    def row(self, number: int) -> Row:
        """A row. Raises LookupError for no such."""
        with self._lock, typed_errors(self.path):
            return self._row(number)

    def rows(self, batch: str, *, level: Level | None = None) -> list[tuple[str, Row]]:
        """The names of a batch with their rows, in the order in which they were planned; several names may have one
        row. Empty for a batch that there is not."""
        with self._lock, typed_errors(self.path):
            records = self._db.execute(
                f"SELECT e.name, {_SELECT.removeprefix('SELECT ')} JOIN entries e ON e.number = c.number"
                " WHERE e.batch = ? AND (? = '' OR c.level = ?) ORDER BY c.number, e.name",
                [label(batch), level or "", level or ""],
            ).fetchall()
        return [(str(name), _made(rest)) for name, *rest in records]

    def open_rows(self, conditions: str) -> int:
        """How many rows have not ended whose conditions begin so."""
        beginning = label(conditions)
        with self._lock, typed_errors(self.path):
            counts = [
                self._db.execute(
                    f"SELECT count(*) FROM candidates WHERE state = '{state}' AND substr(conditions, 1, ?) = ?",
                    [len(beginning), beginning],
                ).fetchone()[0]
                for state in (CandidateState.PLANNED, CandidateState.LEASED)  # one after the other: each has an index
            ]
        return sum(counts)

    def batches(self) -> list[str]:
        """The names of all batches that have rows, those that were planned last first."""
        with self._lock, typed_errors(self.path):
            rows = self._db.execute("SELECT batch FROM entries GROUP BY batch ORDER BY max(number) DESC, batch")
            return [str(name) for (name,) in rows.fetchall()]

    def counts(self, batch: str | None = None) -> dict[CandidateState, int]:
        """How many rows are where, of a batch or of all."""
        inside = "" if batch is None else " WHERE number IN (SELECT number FROM entries WHERE batch = ?)"
        with self._lock, typed_errors(self.path):
            rows = self._db.execute(
                f"SELECT state, count(*) FROM candidates{inside} GROUP BY state",
                [] if batch is None else [label(batch)],
            ).fetchall()
        return dict.fromkeys(CandidateState, 0) | {CandidateState(state): int(count) for state, count in rows}

    def files(self, candidate: str) -> dict[str, bytes]:
        """The sources of that hash. Raises LookupError for none."""
        with self._lock, typed_errors(self.path):
            row = self._db.execute("SELECT content FROM bodies WHERE candidate = ?", [candidate]).fetchone()
        if row is None:
            raise LookupError(f"no candidate {clean_line(candidate)}")
        return _unpacked(row[0])

    def _row(self, number: int) -> Row:
        row = self._db.execute(f"{_SELECT} WHERE c.number = ?", [number]).fetchone()
        if row is None:
            raise LookupError(f"no row {number} among the candidates")
        return _made(row)

    @contextlib.contextmanager
    def _write(self) -> Iterator[sqlite3.Connection]:
        """One transaction, whole or not at all."""
        with self._lock, typed_errors(self.path):
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield self._db
                self._db.execute("COMMIT")
            except BaseException:
                with contextlib.suppress(sqlite3.Error):  # a full disk has rolled it back already
                    self._db.execute("ROLLBACK")
                raise


def _packed(one: CandidateRequest) -> bytes:
    size = sum(map(len, one.files.values()))
    if size > MOST_BYTES:
        raise ValueError(f"{clean_line(one.name)} has {size:,} bytes of sources, and at most {MOST_BYTES:,} are taken")
    return zlib.compress(msgspec.msgpack.encode({name_bytes(name): data for name, data in one.files.items()}))


def _unpacked(content: bytes) -> dict[str, bytes]:
    files = msgspec.msgpack.decode(zlib.decompress(content), type=dict[bytes, bytes])
    return {name_text(name): data for name, data in files.items()}


def _made(values: Sequence[Any]) -> Row:
    row = dict(zip(_COLUMNS, values, strict=True))
    outcome = row["outcome"]
    return Row(
        **{
            **row,
            "level": Level(row["level"]),
            "state": CandidateState(row["state"]),
            "outcome": None if outcome is None else json.loads(outcome),
        }
    )
