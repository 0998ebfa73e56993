"""`History`: reading the store beside its writer, from any process, without ever blocking or changing it.

Plain sqlite3, because a frontend opens the history before its first frame and sqlite-utils costs 0.2 s of import. Every
call is one read transaction, so a record and its arms are of one moment. The file is opened at the first call, and
again when another one has taken its place; where there is none, the history is empty.

Safe from any thread: calls are serialised by a lock, so a frontend uses one worker thread and its event loop never
waits.

No figure of a quarantined rung leaves this module: its comparisons come without figures, also in runs of the same code
from before it was caught. What is sealed, and verified, is what was written.

A run whose digest does not fit was changed since it was written: it comes as `State.CHANGED`, under its name and
without a figure, a verdict or a sample. A run whose rows contradict each other is never returned: lists leave it out
and name it in `damaged`, and `run()` raises. The same holds for fuzzes and their failures. Runs, sample and telemetry
arrays, the ceilings of a peak, fuzzes and failures are checked against their hash whenever they are read.
"""

from __future__ import annotations

import contextlib
import functools
import json
import logging
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Concatenate, ParamSpec, Self, TypeVar

from aisp.store import chain, commitment, content, migrations, seal, upkeep
from aisp.store.errors import NewerSchemaError, StoreCorruptError, StoreError, damage_of, typed_errors
from aisp.store.outcomes import NOT_ENDED, State, quoted
from aisp.store.readonly import uri_to_read
from aisp.store.record import ContradictionError, Failure, Fuzz, Peak, Quarantine, Run
from aisp.store.rows import (
    FUZZES_SINCE,
    IN_FORCE,
    NEEDED_COLUMNS,
    NO_SEED,
    PEAKS_SINCE,
    RunRows,
    failure_of,
    fetch,
    fuzz_of,
    load_failures,
    load_fuzzes,
    load_hidden,
    load_peaks,
    load_quarantines,
    load_runs,
    masked,
    without_figures,
)
from aisp.store.seal import Row, array_hashes, sha256

if TYPE_CHECKING:
    from aisp.store.samples import Samples, Telemetry  # numpy, which lists of runs are read without

log = logging.getLogger(__name__)

KeptT = TypeVar("KeptT", Fuzz, Failure)
Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

BUSY_TIMEOUT_S = 5.0
_NEAR_IDS = 3
_LAST_CHARACTER = "\U0010ffff"

# The conditions are, word for word, those of the index runs_finished.
_FINISHED = f"state NOT IN {quoted(state for state in State if not state.final or state.cut_short)}"
_NOT_THE_TARGETS = quoted(state for state in State if state.silent and state.stored and not state.cut_short)
# store.results.standing.is_result in SQL; tests/store/test_results.py holds the two together.
_RESULT = f"""{_FINISHED} AND (state NOT IN {_NOT_THE_TARGETS} OR EXISTS (
    SELECT 1 FROM arms WHERE arms.run = runs.number AND (arms.correctness <> 'unknown' OR arms.median_ms IS NOT NULL)
))"""
_ENDED = f"state NOT IN {NOT_ENDED}"


def _newest_of_each(wanted: str) -> str:
    """The newest run of each named target among those that are `wanted`."""
    return f"""
SELECT (SELECT number FROM runs WHERE runs.target = named.value AND {wanted} ORDER BY number DESC LIMIT 1) AS number
FROM json_each(?) AS named WHERE number IS NOT NULL
"""


BOARD_SQL, ATTEMPTS_SQL = _newest_of_each(_RESULT), _newest_of_each(_ENDED)
COMMITTED_SQL = (
    "SELECT runs.number AS number, seed, content FROM runs JOIN manifests ON manifests.hash = runs.manifest "
    f"WHERE seed <> '{NO_SEED}' AND runs.number IN"
)
NEWEST_SQL = "SELECT number FROM runs WHERE number < ? ORDER BY number DESC LIMIT ?"
NEWEST_OF_TARGET_SQL = "SELECT number FROM runs WHERE target = ? AND number < ? ORDER BY number DESC LIMIT ?"
HISTORY_SQL = f"SELECT number FROM runs WHERE target = ? AND {_ENDED} ORDER BY number DESC LIMIT ?"
BATCH_SQL = """
SELECT json_extract(content, '$.batch.id'), json_extract(content, '$.batch.sha256')
FROM runs JOIN manifests ON manifests.hash = runs.manifest
WHERE json_extract(content, '$.batch.suite') = ? ORDER BY number DESC LIMIT 1
"""
TARGETS_SQL = """
WITH RECURSIVE targets (target) AS (
    SELECT min(target) FROM runs
    UNION ALL
    SELECT (SELECT min(runs.target) FROM runs WHERE runs.target > targets.target)
    FROM targets WHERE targets.target IS NOT NULL
)
SELECT target FROM targets WHERE target IS NOT NULL
"""
"""A loose scan: one step through the index per target, not one per run."""
DURATIONS_SQL = (
    "SELECT target, folder, duration_ms, max(number) FROM runs "
    "WHERE state = 'ok' AND quick = ? AND duration_ms IS NOT NULL GROUP BY target, folder"
)
SNAPSHOTS_SQL = "SELECT snapshot, wall, id FROM runs WHERE target = ? AND snapshot <> '' ORDER BY number DESC"
PEAKS_SQL = "SELECT number FROM peaks ORDER BY number DESC LIMIT ?"
PEAKS_OF_GPU_SQL = "SELECT number FROM peaks WHERE gpu_uuid = ? ORDER BY number DESC LIMIT ?"
FUZZES_SQL = "ORDER BY number DESC LIMIT ?"
FUZZES_OF_TARGET_SQL = "WHERE target = ? ORDER BY number DESC LIMIT ?"
FAILURES_SQL = "WHERE fuzz = ? ORDER BY number"
_NO_LIMIT = 2**62

# Table of each kind of record that is found by its id, and where such ids come from.
_TABLES = {
    "run": ("runs", "`aisp history` lists them"),
    "fuzz": ("fuzzes", "`aisp fuzz` tells the id of each"),
    "failure": ("failures", "`aisp fuzz` tells the id of each"),
}


@dataclass(frozen=True, slots=True)
class Kept:
    """A run as it lies in the store, for a package of it.

    Attributes:
        samples: rows by rung, in the order of the arms.
        hidden: comparisons whose figures may not be shown, by position, with what to say instead.
    """

    rows: RunRows
    samples: dict[str, Row]
    telemetry: Row | None
    hidden: dict[int, str]


def _or_foreign(
    ask: Callable[Concatenate[History, Parameters], Result],
) -> Callable[Concatenate[History, Parameters], Result]:
    """A question about one run, snapshot or environment: what the store does not know, the foreign runs may."""

    @functools.wraps(ask)
    def ask_both(self: History, /, *positional: Parameters.args, **more: Parameters.kwargs) -> Result:
        try:
            return ask(self, *positional, **more)
        except LookupError:
            foreign = self.beside()
            if foreign is None:
                raise
            with contextlib.suppress(LookupError):
                return ask(foreign, *positional, **more)
            raise

    return ask_both


class History:
    """What was measured. A context manager: leaving closes it.

    Runs that were imported from other machines are found by their id, and listed by `foreign` alone (store.packages).

    Attributes:
        path: the store.
        damaged: runs, peaks, fuzzes and failures that could not be read so far, by id, with the reason.
    """

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self.damaged: dict[str, str] = {}
        self._lock = threading.RLock()
        self._connection: sqlite3.Connection | None = None
        self._file: tuple[int, int, str] | None = None
        self._version: int | None = None
        self._foreign: History | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the file. A later call opens it again."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
            self._connection = self._file = self._version = None
            if self._foreign is not None:
                self._foreign.close()

    # -- runs ------------------------------------------------------------------------------------------------

    def newest(
        self, limit: int = 50, target: str | None = None, before: str | None = None, *, all_findings: bool = True
    ) -> list[Run]:
        """Runs in any state, the one planned last first.

        Args:
            limit: at most that many.
            target: of this target only.
            before: planned before the run of this id (or unique beginning of one): the next page.
            all_findings: with every check's finding (a millisecond per run); else with those that are CAUGHT or
                SUSPECT, which is what a list shows.

        Raises:
            LookupError: no run `before`.
        """
        with self._reading() as connection:
            if connection is None:
                return []
            below = _NO_LIMIT if before is None else self._number(connection, before)
            if target is None:
                return self._records(connection, NEWEST_SQL, [below, limit], all_findings)
            return self._records(connection, NEWEST_OF_TARGET_SQL, [content.label(target), below, limit], all_findings)

    def beside(self) -> History | None:
        """The foreign runs beside this store; None where there are none, and of themselves."""
        path = upkeep.foreign_file(self.path)
        if path == self.path or not path.exists():
            return None
        with self._lock:
            if self._foreign is None:
                self._foreign = History(path)
            return self._foreign

    def foreign(self, target: str | None = None, limit: int = 50) -> list[Run]:
        """The newest runs that were imported from other machines, of one target or of all, without findings that
        passed."""
        beside = self.beside()
        return [] if beside is None else beside.newest(limit, target, all_findings=False)

    def made_here(self, run_id: str) -> bool:
        """Whether the run of exactly this id was planned by this store."""
        with self._reading() as connection:
            sql = "SELECT 1 FROM runs WHERE id = ?"
            return connection is not None and connection.execute(sql, [content.label(run_id)]).fetchone() is not None

    @_or_foreign
    def kept(self, run_id: str) -> Kept:
        """The run of that id, or of the one id that begins so, as it lies in the store. Raises LookupError."""
        with self._reading() as connection:
            number = self._number(connection, run_id)
            assert connection is not None
            telemetry = fetch(connection, "SELECT * FROM telemetry WHERE run = ?", [number])
            return Kept(
                load_runs(connection, [number])[number],
                _sample_rows(connection, number),
                telemetry[0] if telemetry else None,
                load_hidden(connection, [number]).get(number, {}),
            )

    @_or_foreign
    def run(self, run_id: str) -> Run:
        """The run of that id, or of the one id that begins so.

        Raises:
            LookupError: none, or more than one; names those that are near.
            ContradictionError: its rows cannot all be true.
        """
        with self._reading() as connection:
            number = self._number(connection, run_id)
            assert connection is not None  # _number found a row in it
            rows, hashes = load_runs(connection, [number])[number], array_hashes(connection, [number])[number]
            return self._shown(rows, hashes, load_hidden(connection, [number]).get(number, {}), all_findings=True)

    def board(self, targets: Iterable[str] | None = None, *, all_findings: bool = True) -> dict[str, Run]:
        """The last result of every target, or of these: its newest run that says something of it, see
        store.results.standing.

        `all_findings` is explained at `newest`.
        """
        names = self._json(targets)
        with self._reading() as connection:
            if connection is None:
                return {}
            return {run.target: run for run in self._records(connection, BOARD_SQL, [names], all_findings)}

    def attempts(self, targets: Iterable[str] | None = None) -> dict[str, Run]:
        """The newest ended run of every target, or of these, that has none which says something of it since."""
        names = self._json(targets)
        with self._reading() as connection:
            if connection is None:
                return {}
            results = set(_numbers(connection, BOARD_SQL, [names]))
            newest = [number for number in _numbers(connection, ATTEMPTS_SQL, [names]) if number not in results]
            return {run.target: run for run in self._loaded(connection, newest, all_findings=False)}

    def last_result(self, target: str) -> str:
        """Id of the last result of a target, as in `board`, whose record is not read; "" where it has none."""
        with self._reading() as connection:
            numbers = [] if connection is None else _numbers(connection, BOARD_SQL, [self._json([target])])
            if connection is None or not numbers:
                return ""
            return str(connection.execute("SELECT id FROM runs WHERE number = ?", numbers).fetchone()[0])

    def _json(self, targets: Iterable[str] | None) -> str:
        """Names of targets for a query, all that were run where it is None."""
        return json.dumps([content.label(target) for target in (self.targets() if targets is None else targets)])

    def history(self, target: str, limit: int = 200, *, all_findings: bool = True) -> list[Run]:
        """The newest `limit` runs of a target that have ended, oldest first. `all_findings` as in `newest`."""
        with self._reading() as connection:
            if connection is None:
                return []
            return self._records(connection, HISTORY_SQL, [content.label(target), limit], all_findings)[::-1]

    def targets(self) -> list[str]:
        """Every target that was run, by name."""
        with self._reading() as connection:
            if connection is None:
                return []
            return [str(row[0]) for row in connection.execute(TARGETS_SQL).fetchall()]

    def last_batch(self, suite: str) -> tuple[str, str] | None:
        """Id of the newest run of a suite of which a target's run was planned, and the sha256 of what was asked for."""
        with self._reading() as connection:
            row = None if connection is None else connection.execute(BATCH_SQL, [content.label(suite)]).fetchone()
            return None if row is None else (str(row[0]), str(row[1]))

    def durations_s(self, *, quick: bool) -> dict[tuple[str, bytes], float]:
        """By target and folder: how long the newest good run in this mode took, in seconds."""
        with self._reading() as connection:
            if connection is None:
                return {}
            rows = connection.execute(DURATIONS_SQL, [quick]).fetchall()
            return {(row[0], bytes(row[1])): row[2] / 1e3 for row in rows}

    def quarantines(self) -> list[Quarantine]:
        """Every rung that was caught and has not passed since with other code, the newest first."""
        with self._reading() as connection:
            return [] if connection is None else load_quarantines(connection, IN_FORCE, [])

    def caught(self) -> list[Quarantine]:
        """Every rung that was ever caught, the newest first."""
        with self._reading() as connection:
            return [] if connection is None else load_quarantines(connection, "TRUE", [])

    def count(self) -> int:
        """How many runs there are, in any state."""
        with self._reading() as connection:
            return 0 if connection is None else int(connection.execute("SELECT count(*) FROM runs").fetchone()[0])

    def head(self) -> chain.Head | None:
        """The end of the chain, which stands for all that was taken in; None in a store from before there was one."""
        with self._reading() as connection:
            return None if connection is None else chain.head(connection)

    # -- what a run left -------------------------------------------------------------------------------------

    @_or_foreign
    def samples(self, run_id: str) -> dict[str, Samples]:
        """Samples by rung, in the order of the arms; empty for a run that took none, and for one that was changed.

        Raises:
            LookupError: no such run.
            StoreCorruptError: an array is not what was written.
        """
        with self._reading() as connection:
            number = self._number(connection, run_id)
            assert connection is not None
            return {} if seal.changed(connection, [number]) else _samples(connection, number)

    @_or_foreign
    def telemetry(self, run_id: str) -> Telemetry | None:
        """GPU state during the run, None where it was not sampled or the run was changed. Raises like `samples`."""
        with self._reading() as connection:
            number = self._number(connection, run_id)
            assert connection is not None
            return None if seal.changed(connection, [number]) else _telemetry(connection, number)

    def verify(self, run_id: str) -> bool:
        """Whether everything that the run left is, bit for bit, what was written.

        Looks at the record, the arrays, the sources and the environment. A run still on its way has no hash
        yet and is True as long as its rows make a record. Raises LookupError for no such run.
        """
        with self._reading() as connection:
            number = self._number(connection, run_id)
            assert connection is not None
            return not _damage(connection, number)

    def examine(
        self, kind: str, after: int = 0, limit: int = 100, *, whole: set[str] | None = None
    ) -> list[tuple[int, str, str]]:
        """(number, id, what is wrong with it, "" where it is what was written) of records, oldest first.

        Args:
            kind: run, peak, fuzz or failure.
            after: those with greater numbers.
            limit: at most that many.
            whole: hashes of sources, environments and manifests that were found to be what was written, which many
                runs have in common and are looked at once; added to.

        Raises:
            StoreCorruptError: which records there are cannot be read.
        """
        table, since, examined = _EXAMINED[kind]
        with self._reading() as connection:
            if connection is None or migrations.version(connection) < since:
                return []
            listed = connection.execute(
                f"SELECT number, id FROM {table} WHERE number > ? ORDER BY number LIMIT ?",
                [after, limit],
            ).fetchall()
            doubtful = {row[0] for row in listed}
            if kind == "run":
                # A row that cannot be read leaves all of them in doubt, and the one is found by itself.
                with contextlib.suppress(Exception):
                    doubtful = _doubtful_runs(connection, sorted(doubtful), set() if whole is None else whole)
            rows = []
            for number, record_id in listed:
                why = ""
                if number in doubtful:
                    try:
                        why = examined(connection, number)
                    except Exception as error:
                        why = damage_of(error, self.path)
                rows.append((int(number), str(record_id), why))
            return rows

    # -- ceilings --------------------------------------------------------------------------------------------

    def peaks(self, gpu_uuid: str = "", limit: int = 50) -> list[Peak]:
        """The newest `limit` measurements of a GPU's ceilings, newest first; of every GPU where `gpu_uuid` is empty."""
        with self._reading() as connection:
            if connection is None or migrations.version(connection) < PEAKS_SINCE:
                return []
            sql, parameters = (PEAKS_OF_GPU_SQL, [content.label(gpu_uuid), limit]) if gpu_uuid else (PEAKS_SQL, [limit])
            return list(read_peaks(connection, _numbers(connection, sql, parameters), self.damaged))

    def peak(self, peak_id: str) -> Peak | None:
        """The peak of that id, or of the one id that begins so; None where there is none.

        Raises:
            LookupError: more than one id begins so.
            ContradictionError: it is not what was written.
        """
        with self._reading() as connection:
            number = self._peak_number(connection, peak_id)
            if connection is None or number is None:
                return None
            ((rows, sealed),) = load_peaks(connection, [number])
            return rows.record(sealed)

    def verify_peak(self, peak_id: str) -> bool:
        """Whether a peak, its ceilings and its environment are, bit for bit, what was written.

        Raises LookupError for no such peak.
        """
        with self._reading() as connection:
            number = self._peak_number(connection, peak_id)
            if connection is None or number is None:
                raise LookupError(f"no peak {peak_id!r} in {self.path}; `aisp peak` measures one")
            ((rows, sealed),) = load_peaks(connection, [number])
            try:
                peak = rows.record(sealed)
            except ContradictionError:
                return False
            return _environment_whole(connection, peak.environment)

    # -- fuzzes ----------------------------------------------------------------------------------------------

    def fuzzes(self, target: str = "", limit: int = 50) -> list[Fuzz]:
        """The newest `limit` fuzzes, newest first; of every target where `target` is empty."""
        with self._reading() as connection:
            if connection is None:
                return []
            parameters = [content.label(target)] if target else []
            rows = load_fuzzes(connection, FUZZES_OF_TARGET_SQL if target else FUZZES_SQL, [*parameters, limit])
            return _whole(rows, fuzz_of, self.damaged)

    def fuzz(self, fuzz_id: str) -> Fuzz:
        """The fuzz of that id, or of the one id that begins so.

        Raises:
            LookupError: none, or more than one; names those that are near.
            ContradictionError: it is not what was written.
        """
        with self._reading() as connection:
            if connection is None:
                raise LookupError(_no_store("fuzz", fuzz_id, self.path))
            return read_fuzz(connection, fuzz_id)

    def failure(self, failure_id: str) -> Failure:
        """The failing case of that id, or of the one id that begins so. Raises like `fuzz`."""
        with self._reading() as connection:
            if connection is None:
                raise LookupError(_no_store("failure", failure_id, self.path))
            return read_failure(connection, failure_id)

    def failures(self, fuzz_id: str) -> list[Failure]:
        """The failing cases that a fuzz kept, in the order in which they were written. Raises LookupError."""
        with self._reading() as connection:
            if connection is None:
                raise LookupError(_no_store("fuzz", fuzz_id, self.path))
            number = _number_of(connection, "fuzz", fuzz_id)
            return _whole(load_failures(connection, FAILURES_SQL, [number]), failure_of, self.damaged)

    # -- content ---------------------------------------------------------------------------------------------

    @_or_foreign
    def snapshot(self, snapshot_hash: str) -> dict[str, bytes]:
        """The sources of a snapshot by name. Raises LookupError, StoreCorruptError."""
        with self._reading() as connection:
            if connection is None:
                raise LookupError(f"no snapshot {snapshot_hash!r}: there is no store at {self.path} yet")
            return read_snapshot(connection, snapshot_hash)

    @_or_foreign
    def environment(self, environment_hash: str) -> dict[str, object]:
        """What a run ran on. Raises LookupError, StoreCorruptError."""
        with self._reading() as connection:
            row = (
                connection
                and connection.execute("SELECT content FROM environments WHERE hash = ?", [environment_hash]).fetchone()
            )
            if not row:
                raise LookupError(f"no environment {environment_hash!r} in {self.path}")
            if sha256(row[0].encode("utf-8")) != environment_hash:
                raise StoreCorruptError(f"environment {environment_hash} is not what was written")
            environment: dict[str, object] = json.loads(row[0])
            return environment

    def snapshots_of(self, target: str) -> list[tuple[str, str, str]]:
        """(snapshot, wall, run id) of every run of a target, newest first; a snapshot stands once per run."""
        with self._reading() as connection:
            if connection is None:
                return []
            return [
                (row[0], row[1], row[2])
                for row in connection.execute(SNAPSHOTS_SQL, [content.label(target)]).fetchall()
            ]

    # -- inside ----------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection | None]:
        """One read transaction; None where there is no store yet."""
        with self._lock, typed_errors(self.path):
            connection = self._open()
            if connection is None:
                yield None
                return
            connection.execute("BEGIN")
            try:
                if not self._usable(connection):
                    yield None
                    return
                yield connection
            except (TypeError, AttributeError, ValueError, IndexError, KeyError) as error:
                if not isinstance(error, ContradictionError):
                    self._refuse_damage(connection, error)
                raise
            finally:
                connection.execute("ROLLBACK")

    def _refuse_damage(self, connection: sqlite3.Connection, error: Exception) -> None:
        """Raise StoreCorruptError where it is not a mistake of ours that met `error`, but a damaged page: it gives any
        value in the place of any other."""
        ((result,),) = connection.execute("PRAGMA integrity_check(1)").fetchall()
        if result != "ok":
            message = f"{self.path} is damaged: {damage_of(error, self.path)}; `aisp store --verify` names what is"
            raise StoreCorruptError(message) from error

    def _open(self) -> sqlite3.Connection | None:
        try:
            status = self.path.stat()
        except FileNotFoundError:
            self.close()
            return None
        uri = uri_to_read(self.path)
        # A damaged store is moved away and another takes its name; the old file must not be read on.
        if self._connection is None or (status.st_dev, status.st_ino, uri) != self._file:
            self.close()
            self._connection = sqlite3.connect(
                uri,
                uri=True,
                timeout=BUSY_TIMEOUT_S,
                isolation_level=None,
                check_same_thread=False,
            )
            self._file = (status.st_dev, status.st_ino, uri)
        return self._connection

    def _usable(self, connection: sqlite3.Connection) -> bool:
        """Whether there is a schema to read. Raises NewerSchemaError where it is not one that we can."""
        schema = migrations.version(connection)
        if schema == self._version:
            return True
        if migrations.check_ours(connection, self.path) == 0:
            return False  # made, but not yet filled by the engine
        if schema > migrations.LATEST:
            for table, needed in NEEDED_COLUMNS.items():
                there = {row["name"] for row in fetch(connection, f"PRAGMA table_info({table})")}
                if not needed <= there:
                    raise NewerSchemaError(self.path, schema, migrations.LATEST)
        self._version = schema
        return True

    def _records(
        self, connection: sqlite3.Connection, sql: str, parameters: Sequence[object], all_findings: bool
    ) -> list[Run]:
        return self._loaded(connection, _numbers(connection, sql, parameters), all_findings=all_findings)

    def _loaded(self, connection: sqlite3.Connection, numbers: Sequence[int], *, all_findings: bool) -> list[Run]:
        hidden, hashes = load_hidden(connection, numbers), array_hashes(connection, numbers)
        records = []
        for number, rows in load_runs(connection, numbers).items():
            try:
                records.append(self._shown(rows, hashes[number], hidden.get(number, {}), all_findings=all_findings))
            except ContradictionError as error:
                _note_damage(self.damaged, str(rows.run["id"]), error)
        return records

    def _shown(
        self, rows: RunRows, hashes: tuple[dict[str, str], str], hidden: Mapping[int, str], *, all_findings: bool
    ) -> Run:
        """What a reader may see of a run. Raises ContradictionError where its rows cannot all be true."""
        record = rows.record(all_findings=all_findings)
        newer = self._version is not None and self._version > migrations.LATEST  # what that seals is not known here
        return masked(record, hidden) if newer or rows.fits(*hashes) else without_figures(record)

    def _peak_number(self, connection: sqlite3.Connection | None, peak_id: str) -> int | None:
        if connection is None or migrations.version(connection) < PEAKS_SINCE:
            return None
        rows = _beginning(connection, "peaks", peak_id)
        if len(rows) > 1:
            raise LookupError(_too_many("peak", peak_id, [row[1] for row in rows]))
        return rows[0][0] if rows else None

    def _number(self, connection: sqlite3.Connection | None, run_id: str) -> int:
        if connection is None:
            raise LookupError(_no_store("run", run_id, self.path))
        return _number_of(connection, "run", run_id)


def _numbers(connection: sqlite3.Connection, sql: str, parameters: Sequence[object]) -> list[int]:
    return [int(row[0]) for row in connection.execute(sql, tuple(parameters)).fetchall()]


def _note_damage(damaged: dict[str, str], record_id: str, error: ContradictionError) -> None:
    if record_id not in damaged:
        log.warning("%s", error)
    damaged[record_id] = str(error)


def _beginning(connection: sqlite3.Connection, table: str, prefix: str) -> list[tuple[int, str]]:
    """(number, id) of the row of this id, else of the first few whose ids begin so; of none for an empty text."""
    wanted = content.label(prefix)
    exact = connection.execute(f"SELECT number, id FROM {table} WHERE id = ?", [wanted]).fetchone()
    if exact:
        return [(int(exact[0]), str(exact[1]))]
    start = wanted.upper()
    if not start:
        return []
    rows = connection.execute(
        f"SELECT number, id FROM {table} WHERE id >= ? AND id < ? ORDER BY id LIMIT ?",
        [start, start + _LAST_CHARACTER, _NEAR_IDS + 1],
    ).fetchall()
    return [(int(row[0]), str(row[1])) for row in rows]


def _too_many(kind: str, prefix: str, beginning: Sequence[str]) -> str:
    more = ", ..." if len(beginning) > _NEAR_IDS else ""
    return f"{prefix!r} begins more than one {kind} id: {', '.join(beginning[:_NEAR_IDS])}{more}; give more"


def _no_store(kind: str, name: str, path: Path) -> str:
    return f"no {kind} {name!r}: there is no store at {path} yet"


def _number_of(connection: sqlite3.Connection, kind: str, prefix: str) -> int:
    """Number of the row of that id, or of the one id that begins so. Raises LookupError."""
    table, hint = _TABLES[kind]
    # An older file lacks the tables of fuzzes.
    there = kind == "run" or migrations.version(connection) >= FUZZES_SINCE
    rows = _beginning(connection, table, prefix) if there else []
    if len(rows) == 1:
        return rows[0][0]
    if rows:
        raise LookupError(_too_many(kind, prefix, [row[1] for row in rows]))
    import difflib  # only on the error path

    newest = f"SELECT id FROM {table} ORDER BY number DESC LIMIT 1000"
    ids = [row[0] for row in connection.execute(newest).fetchall()] if there else []
    near = difflib.get_close_matches(prefix.upper(), ids, n=_NEAR_IDS, cutoff=0.6)
    if near:
        raise LookupError(f"no {kind} {prefix!r}; did you mean {' or '.join(near)}?")
    raise LookupError(f"no {kind} {prefix!r}; {f'the newest is {ids[0]}' if ids else 'there are none yet'}, {hint}")


def read_fuzz(connection: sqlite3.Connection, fuzz_id: str) -> Fuzz:
    """See `History.fuzz`."""
    number = _number_of(connection, "fuzz", fuzz_id)
    return fuzz_of(load_fuzzes(connection, "WHERE number = ?", [number])[0])


def read_failure(connection: sqlite3.Connection, failure_id: str) -> Failure:
    """See `History.failure`."""
    number = _number_of(connection, "failure", failure_id)
    return failure_of(load_failures(connection, "WHERE number = ?", [number])[0])


def _whole(rows: Sequence[Row], read: Callable[[Row], KeptT], damaged: dict[str, str]) -> list[KeptT]:
    """The records of the rows that are what was written; the others are named in `damaged`."""
    records = []
    for row in rows:
        try:
            records.append(read(row))
        except ContradictionError as error:
            _note_damage(damaged, str(row["id"]), error)
    return records


def _sample_rows(connection: sqlite3.Connection, number: int) -> dict[str, Row]:
    rows = fetch(
        connection,
        "SELECT samples.* FROM samples JOIN arms ON arms.run = samples.run AND arms.rung = samples.rung "
        "WHERE samples.run = ? ORDER BY arms.position",
        [number],
    )
    return {row["rung"]: row for row in rows}


def _samples(connection: sqlite3.Connection, number: int) -> dict[str, Samples]:
    return {rung: content.unpack_samples(row) for rung, row in _sample_rows(connection, number).items()}


def _telemetry(connection: sqlite3.Connection, number: int) -> Telemetry | None:
    rows = fetch(connection, "SELECT * FROM telemetry WHERE run = ?", [number])
    return content.unpack_telemetry(rows[0]) if rows else None


def read_snapshot(connection: sqlite3.Connection, snapshot_hash: str) -> dict[str, bytes]:
    """The sources of a snapshot by name. Raises LookupError; StoreCorruptError where they changed on disk."""
    row = connection.execute("SELECT 1 FROM snapshots WHERE hash = ?", [snapshot_hash]).fetchone()
    if row is None:
        raise LookupError(f"no snapshot {snapshot_hash!r}: its sources were never put into this store")
    rows = connection.execute(
        "SELECT name, content FROM snapshot_files LEFT JOIN sources ON sha256 = source "
        "WHERE snapshot = ? ORDER BY name",
        [snapshot_hash],
    ).fetchall()
    files = {name: data for name, data in rows if data is not None}
    if content.manifest_hash((name, sha256(data)) for name, data in files.items()) != snapshot_hash:
        raise StoreCorruptError(f"the sources of snapshot {snapshot_hash} are not what was written")
    return {content.name_text(name): data for name, data in files.items()}


def _damage(connection: sqlite3.Connection, number: int) -> str:
    """What of a run is not what was written, "" where all of it is."""
    rows: RunRows = load_runs(connection, [number])[number]
    try:
        run = rows.record()
        # Reading the arrays compares each with the hash in its row; the run's own hash is over those.
        _samples(connection, number)
        _telemetry(connection, number)
        if run.snapshot and connection.execute("SELECT 1 FROM snapshots WHERE hash = ?", [run.snapshot]).fetchone():
            read_snapshot(connection, run.snapshot)
    except (ContradictionError, StoreError) as error:
        return str(error)
    if rows.sealed is None:
        return "it has ended and has no hash" if run.state.final else ""
    if not rows.fits(*array_hashes(connection, [number])[number]):
        return "its record has another hash"
    if not _environment_whole(connection, run.environment):
        return "its environment has another hash"
    return "what it says that it drew is not what its plan committed to" if commitment.kept(run) is False else ""


def _doubtful_runs(connection: sqlite3.Connection, numbers: Sequence[int], whole: set[str]) -> set[int]:
    """Runs of which a hash does not fit, or what was drawn; or there is none yet. `_damage` says what.

    Looks at bytes and makes no records of them, in some statements for all. `whole` is explained at `History.examine`.
    """
    runs = seal.raw_runs(connection, numbers)
    doubtful = set(numbers) - runs.keys()
    samples: dict[int, dict[str, str]] = {number: {} for number in numbers}
    telemetry = dict.fromkeys(numbers, "")
    for chunk, marks in seal.chunks(numbers):
        for row in _each(connection, f"SELECT * FROM samples WHERE run IN ({marks})", chunk):
            samples[row["run"]][row["rung"]] = row["sha256"]
            if not content.samples_fit(row):
                doubtful.add(row["run"])
        for row in _each(connection, f"SELECT * FROM telemetry WHERE run IN ({marks})", chunk):
            telemetry[row["run"]] = row["sha256"]
            if not content.telemetry_fits(row):
                doubtful.add(row["run"])
    for number, run in runs.items():
        if run.seal is None or not run.fits(samples[number], telemetry[number]):
            doubtful.add(number)
    for number, run in runs.items():
        for is_whole, digest in zip((_snapshot_whole, _environment_whole, _manifest_whole), run.shared, strict=True):
            if digest in whole:
                continue
            if is_whole(connection, digest):
                whole.add(digest)
            else:
                doubtful.add(number)
    for chunk, marks in seal.chunks(numbers):
        for row in _each(connection, f"{COMMITTED_SQL} ({marks})", chunk):
            if row["number"] in doubtful:  # what would be compared is not what was written
                continue
            if commitment.keeps(json.loads(row["content"]), int(row["seed"])) is False:
                doubtful.add(row["number"])
    return doubtful


def _each(connection: sqlite3.Connection, sql: str, numbers: Sequence[int]) -> Iterator[Row]:
    """Rows by column name, one at a time: all arrays of a hundred runs may be much."""
    cursor = connection.execute(sql, numbers)
    names = [column[0] for column in cursor.description]
    return (dict(zip(names, values, strict=True)) for values in cursor)


def _snapshot_whole(connection: sqlite3.Connection, digest: str) -> bool:
    """Whether the sources are what was written; those that were never put here cannot have changed."""
    if not digest or not connection.execute("SELECT 1 FROM snapshots WHERE hash = ?", [digest]).fetchone():
        return True
    try:
        read_snapshot(connection, digest)
    except StoreError:
        return False
    return True


def _manifest_whole(connection: sqlite3.Connection, digest: str) -> bool:
    row = connection.execute("SELECT content FROM manifests WHERE hash = ?", [digest]).fetchone()
    return row is not None and sha256(row[0].encode("utf-8")) == digest


def _damage_of_peak(connection: sqlite3.Connection, number: int) -> str:
    ((rows, sealed),) = load_peaks(connection, [number])
    peak = rows.record(sealed)
    return "" if _environment_whole(connection, peak.environment) else "its environment has another hash"


def _damage_of_fuzz(connection: sqlite3.Connection, number: int) -> str:
    fuzz_of(load_fuzzes(connection, "WHERE number = ?", [number])[0])
    return ""


def _damage_of_failure(connection: sqlite3.Connection, number: int) -> str:
    failure_of(load_failures(connection, "WHERE number = ?", [number])[0])
    return ""


def _environment_whole(connection: sqlite3.Connection, digest: str) -> bool:
    """Whether the environment is what was written; one that was never put here cannot have changed."""
    row = connection.execute("SELECT content FROM environments WHERE hash = ?", [digest]).fetchone()
    return row is None or sha256(row[0].encode("utf-8")) == digest


def read_peaks(connection: sqlite3.Connection, numbers: Sequence[int], damaged: dict[str, str]) -> Iterator[Peak]:
    """The peaks with these numbers, in that order; those that are not what was written are named in `damaged`."""
    for rows, sealed in load_peaks(connection, numbers):
        try:
            yield rows.record(sealed)
        except ContradictionError as error:
            _note_damage(damaged, str(rows.peak["id"]), error)


# Table of each kind of record, schema version since which there is one, and what looks at one; it may raise as well.
_EXAMINED: dict[str, tuple[str, int, Callable[[sqlite3.Connection, int], str]]] = {
    "run": ("runs", 1, _damage),
    "peak": ("peaks", PEAKS_SINCE, _damage_of_peak),
    "fuzz": ("fuzzes", FUZZES_SINCE, _damage_of_fuzz),
    "failure": ("failures", FUZZES_SINCE, _damage_of_failure),
}
