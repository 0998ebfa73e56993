"""The schema, as numbered steps from an empty file to today; `PRAGMA user_version` says how far a file has
come.

A step is one transaction together with its number: killed in between, the file is as it was before. A step
that has shipped is never edited; a change of the schema is a new step at the end, and everything that it adds
to an existing table may be NULL or has a constant default. Before an older file is touched, a copy of it is
made beside it (`aisp.db.v1-<date>.bak`).

`docs/store.md` explains every table and column.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from aisp.store.errors import ForeignDatabaseError, NewerSchemaError, typed_errors

if TYPE_CHECKING:
    from sqlite_utils import Database  # 0.2 s of import that readers do without

APPLICATION_ID = 0x61697370  # "aisp", in the file's header
BACKUP = ".bak"
CHAIN_SINCE = 7
"""Schema version from which there is the table chain."""

_V1 = """
CREATE TABLE manifests (
    hash TEXT PRIMARY KEY NOT NULL,
    content TEXT NOT NULL
) STRICT;

CREATE TABLE environments (
    hash TEXT PRIMARY KEY NOT NULL,
    content TEXT NOT NULL
) STRICT;

CREATE TABLE sources (
    sha256 TEXT PRIMARY KEY NOT NULL CHECK (length(sha256) = 64),
    content BLOB NOT NULL
) STRICT;

CREATE TABLE snapshots (
    hash TEXT PRIMARY KEY NOT NULL CHECK (length(hash) = 64),
    wall TEXT NOT NULL
) STRICT;

CREATE TABLE snapshot_files (
    snapshot TEXT NOT NULL REFERENCES snapshots (hash),
    name BLOB NOT NULL CHECK (length(name) > 0),
    label TEXT NOT NULL,
    source TEXT NOT NULL REFERENCES sources (sha256),
    PRIMARY KEY (snapshot, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE runs (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE CHECK (id <> ''),
    target TEXT NOT NULL CHECK (target <> ''),
    folder BLOB NOT NULL,
    title TEXT NOT NULL,
    device TEXT NOT NULL,
    "case" TEXT NOT NULL,
    quick INTEGER NOT NULL CHECK (quick IN (0, 1)),
    "trigger" TEXT NOT NULL CHECK ("trigger" IN ('cli', 'tui', 'watch')),
    seed TEXT NOT NULL CHECK (seed <> '' AND seed NOT GLOB '*[^0-9-]*'),
    epoch TEXT NOT NULL,
    seq INTEGER NOT NULL,
    wall TEXT NOT NULL,
    snapshot TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN (
        'planned', 'starting', 'running', 'ok', 'incorrect', 'user_error', 'unavailable', 'crashed',
        'premature_exit', 'oom_killed', 'cuda_poisoned', 'timeout_progress', 'timeout_total', 'output_limit',
        'cancelled', 'engine_lost', 'infra_error')),
    correctness TEXT NOT NULL CHECK (correctness IN ('unknown', 'correct', 'wrong')),
    validity TEXT NOT NULL CHECK (validity IN ('unknown', 'valid', 'suspect', 'caught')),
    verdict TEXT NOT NULL CHECK (verdict IN ('faster', 'slower', 'same', 'undecided', 'none')),
    attempt INTEGER NOT NULL CHECK (attempt >= 1),
    start_ns INTEGER,
    duration_ms REAL CHECK (duration_ms IS NULL OR (duration_ms >= 0 AND duration_ms < 1e12)),
    reason TEXT NOT NULL,
    environment TEXT NOT NULL,
    manifest TEXT NOT NULL REFERENCES manifests (hash),
    flags TEXT NOT NULL CHECK (json_valid(flags)),
    sha256 TEXT,
    CHECK (state <> 'ok' OR correctness = 'correct'),
    CHECK (state <> 'incorrect' OR correctness = 'wrong'),
    CHECK (validity <> 'caught' OR verdict NOT IN ('faster', 'slower')),
    CHECK (state IN ('planned', 'starting', 'running', 'ok') OR reason <> ''),
    CHECK ((state IN ('planned', 'starting', 'running')) = (sha256 IS NULL))
) STRICT;

CREATE TABLE arms (
    run INTEGER NOT NULL REFERENCES runs (number) ON DELETE CASCADE,
    position INTEGER NOT NULL CHECK (position >= 0),
    rung TEXT NOT NULL CHECK (rung <> ''),
    state TEXT NOT NULL CHECK (state IN (
        'planned', 'starting', 'running', 'ok', 'incorrect', 'user_error', 'unavailable', 'crashed',
        'premature_exit', 'oom_killed', 'cuda_poisoned', 'timeout_progress', 'timeout_total', 'output_limit',
        'cancelled', 'engine_lost', 'infra_error')),
    correctness TEXT NOT NULL CHECK (correctness IN ('unknown', 'correct', 'wrong')),
    timing TEXT NOT NULL CHECK (timing <> ''),
    median_ms REAL CHECK (median_ms IS NULL OR (median_ms > 0 AND median_ms < 1e12)),
    low_ms REAL CHECK (low_ms IS NULL OR (low_ms > 0 AND low_ms < 1e12)),
    high_ms REAL CHECK (high_ms IS NULL OR (high_ms > 0 AND high_ms < 1e12)),
    sample_count INTEGER NOT NULL CHECK (sample_count >= 0),
    sol REAL,
    max_error REAL,
    peak_bytes INTEGER,
    exit_code INTEGER,
    signal INTEGER,
    signal_sent_by_us INTEGER NOT NULL CHECK (signal_sent_by_us IN (0, 1)),
    dirty_exit INTEGER NOT NULL CHECK (dirty_exit IN (0, 1)),
    reason TEXT NOT NULL,
    detail TEXT NOT NULL,
    sources TEXT NOT NULL,
    PRIMARY KEY (run, position),
    UNIQUE (run, rung),
    -- SQLite keeps NaN as NULL: an interval around nothing is what a NaN median leaves behind.
    CHECK (median_ms IS NOT NULL OR (low_ms IS NULL AND high_ms IS NULL)),
    CHECK (median_ms IS NULL OR (timing <> 'none' AND sample_count > 0 AND correctness = 'correct')),
    CHECK (low_ms IS NULL OR high_ms IS NULL OR low_ms <= high_ms),
    CHECK (state <> 'ok' OR correctness = 'correct'),
    CHECK (state <> 'crashed' OR signal IS NOT NULL)
) STRICT, WITHOUT ROWID;

CREATE TABLE comparisons (
    run INTEGER NOT NULL REFERENCES runs (number) ON DELETE CASCADE,
    position INTEGER NOT NULL CHECK (position >= 0),
    rung TEXT NOT NULL,
    baseline TEXT NOT NULL,
    verdict TEXT NOT NULL CHECK (verdict IN ('faster', 'slower', 'same', 'undecided', 'none')),
    speedup REAL CHECK (speedup IS NULL OR (speedup > 0 AND speedup < 1e12)),
    low REAL CHECK (low IS NULL OR (low > 0 AND low < 1e12)),
    high REAL CHECK (high IS NULL OR (high > 0 AND high < 1e12)),
    floor REAL,
    note TEXT NOT NULL,
    PRIMARY KEY (run, position),
    CHECK (verdict IN ('undecided', 'none')
        OR (speedup IS NOT NULL AND low IS NOT NULL AND high IS NOT NULL)),
    CHECK (verdict <> 'faster' OR low > 1),
    CHECK (verdict <> 'slower' OR high < 1)
) STRICT, WITHOUT ROWID;

CREATE TABLE steps (
    run INTEGER NOT NULL REFERENCES runs (number) ON DELETE CASCADE,
    position INTEGER NOT NULL CHECK (position >= 0),
    name TEXT NOT NULL,
    arm TEXT NOT NULL,
    start_ns INTEGER NOT NULL,
    duration_ms REAL NOT NULL CHECK (duration_ms >= 0 AND duration_ms < 1e12),
    PRIMARY KEY (run, position)
) STRICT, WITHOUT ROWID;

CREATE TABLE samples (
    run INTEGER NOT NULL,
    rung TEXT NOT NULL,
    count INTEGER NOT NULL CHECK (count >= 0),
    device_ms BLOB NOT NULL CHECK (length(device_ms) = 8 * count),
    host_ms BLOB NOT NULL CHECK (length(host_ms) = 8 * count),
    end_ns BLOB NOT NULL,
    round BLOB NOT NULL,
    replica BLOB NOT NULL,
    inputs BLOB NOT NULL,
    discarded BLOB NOT NULL,
    sha256 TEXT NOT NULL CHECK (length(sha256) = 64),
    UNIQUE (run, rung),
    FOREIGN KEY (run, rung) REFERENCES arms (run, rung) ON DELETE CASCADE
) STRICT;

CREATE TABLE telemetry (
    run INTEGER PRIMARY KEY REFERENCES runs (number) ON DELETE CASCADE,
    count INTEGER NOT NULL CHECK (count >= 0),
    at_ns BLOB NOT NULL,
    sm_clock_mhz BLOB NOT NULL CHECK (length(sm_clock_mhz) = 8 * count),
    memory_clock_mhz BLOB NOT NULL CHECK (length(memory_clock_mhz) = 8 * count),
    temperature_c BLOB NOT NULL CHECK (length(temperature_c) = 8 * count),
    power_w BLOB NOT NULL CHECK (length(power_w) = 8 * count),
    throttle BLOB NOT NULL,
    sha256 TEXT NOT NULL CHECK (length(sha256) = 64)
) STRICT;
"""

# An index over a rowid table ends with the row's number, so an index on the target alone serves
# `WHERE target = ? ORDER BY number DESC` without sorting.
_V2 = """
CREATE INDEX runs_target ON runs (target);
CREATE INDEX runs_finished ON runs (target)
    WHERE state NOT IN ('planned', 'starting', 'running', 'cancelled', 'engine_lost');
CREATE INDEX runs_unfinished ON runs (epoch) WHERE state IN ('planned', 'starting', 'running');
ALTER TABLE runs ADD COLUMN folder_label TEXT NOT NULL DEFAULT '';
"""

# A CHECK lets NULL pass (but json_valid of NULL is 0 in some versions of SQLite), and a digest leaves NULL out: what is
# new is NULL in older rows, which stay as they were sealed.
_V3 = """
ALTER TABLE arms ADD COLUMN calls INTEGER CHECK (calls >= 1);
ALTER TABLE arms ADD COLUMN sm_clock_mhz REAL CHECK (sm_clock_mhz > 0 AND sm_clock_mhz < 1e12);
ALTER TABLE arms ADD COLUMN light TEXT
    CHECK (light IS NULL OR (json_valid(light) AND json_type(light) = 'object'));
ALTER TABLE arms ADD COLUMN quality TEXT
    CHECK (quality IS NULL OR (json_valid(quality) AND json_type(quality) = 'object'));

ALTER TABLE comparisons ADD COLUMN cycles REAL CHECK (cycles > 0 AND cycles < 1e12);
ALTER TABLE comparisons ADD COLUMN cycles_low REAL CHECK (cycles_low > 0 AND cycles_low < 1e12);
ALTER TABLE comparisons ADD COLUMN cycles_high REAL CHECK (cycles_high > 0 AND cycles_high < 1e12);
ALTER TABLE comparisons ADD COLUMN p_value REAL CHECK (p_value >= 0 AND p_value <= 1);

ALTER TABLE samples ADD COLUMN sm_clock_mhz BLOB CHECK (length(sm_clock_mhz) = 8 * count);

CREATE TABLE peaks (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE CHECK (id <> ''),
    gpu TEXT NOT NULL,
    gpu_uuid TEXT NOT NULL,
    wall TEXT NOT NULL,
    environment TEXT NOT NULL,
    sha256 TEXT NOT NULL CHECK (length(sha256) = 64)
) STRICT;

CREATE TABLE ceilings (
    peak INTEGER NOT NULL REFERENCES peaks (number) ON DELETE CASCADE,
    position INTEGER NOT NULL CHECK (position >= 0),
    name TEXT NOT NULL CHECK (name <> ''),
    value REAL CHECK (value > 0 AND value < 9e999),
    unit TEXT NOT NULL CHECK (unit <> ''),
    sm_clock_mhz REAL CHECK (sm_clock_mhz > 0 AND sm_clock_mhz < 1e12),
    memory_clock_mhz REAL CHECK (memory_clock_mhz > 0 AND memory_clock_mhz < 1e12),
    footprint_bytes INTEGER CHECK (footprint_bytes >= 0),
    note TEXT NOT NULL,
    PRIMARY KEY (peak, position),
    CHECK (value IS NOT NULL OR note <> '')
) STRICT, WITHOUT ROWID;

CREATE INDEX peaks_gpu ON peaks (gpu_uuid);
"""

HIDDEN = """\
SELECT comparisons.run AS run, comparisons.position AS position, quarantines.rung AS rung,
    quarantines."check" AS "check", quarantines.evidence AS evidence
FROM comparisons
JOIN runs ON runs.number = comparisons.run
JOIN manifests ON manifests.hash = runs.manifest
JOIN quarantines ON quarantines.folder = runs.folder
    AND quarantines.rung IN (replace(comparisons.rung, ' (A/A)', ''), replace(comparisons.baseline, ' (A/A)', ''))
    AND quarantines.code <> ''
    AND quarantines.code = json_extract(manifests.content, '$.code')
WHERE comparisons.speedup IS NOT NULL OR comparisons.verdict <> 'none'"""
"""Which figures nobody may be shown. A reader asks this and not the view in the file, which others could replace."""

# What a check says beside `passed` and the like is read with every list, so it stands apart, as text; the rest, some
# hundreds of sentences a run, is deflated. The view `hidden` is for whoever looks into the file with other tools.
_V4 = f"""
ALTER TABLE arms ADD COLUMN naive TEXT
    CHECK (naive IS NULL OR (json_valid(naive) AND json_type(naive) = 'object'));

CREATE TABLE findings (
    run INTEGER PRIMARY KEY REFERENCES runs (number) ON DELETE CASCADE,
    count INTEGER NOT NULL CHECK (count > 0),
    notable TEXT NOT NULL CHECK (json_valid(notable) AND json_type(notable) = 'array'),
    others BLOB NOT NULL
) STRICT;

CREATE TABLE quarantines (
    number INTEGER PRIMARY KEY,
    folder BLOB NOT NULL,
    rung TEXT NOT NULL CHECK (rung <> ''),
    code TEXT NOT NULL,
    target TEXT NOT NULL,
    device TEXT NOT NULL,
    run TEXT NOT NULL CHECK (run <> ''),
    "check" TEXT NOT NULL CHECK ("check" <> ''),
    evidence TEXT NOT NULL,
    wall TEXT NOT NULL,
    ended_by TEXT CHECK (ended_by <> ''),
    UNIQUE (folder, rung, code)
) STRICT;

CREATE INDEX quarantines_in_force ON quarantines (folder) WHERE ended_by IS NULL;

CREATE VIEW hidden AS
{HIDDEN};
"""

# A fuzz and a failing case are read whole or not at all, and what they say grows with the oracle: JSON, beside the
# columns by which they are looked for.
_V5 = """
CREATE TABLE fuzzes (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE CHECK (id <> ''),
    target TEXT NOT NULL CHECK (target <> ''),
    folder BLOB NOT NULL,
    device TEXT NOT NULL,
    wall TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('done', 'cancelled', 'failed', 'unavailable')),
    content TEXT NOT NULL CHECK (json_valid(content) AND json_type(content) = 'object'),
    sha256 TEXT NOT NULL CHECK (length(sha256) = 64)
) STRICT;

CREATE TABLE failures (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE CHECK (id <> ''),
    fuzz INTEGER NOT NULL REFERENCES fuzzes (number) ON DELETE CASCADE,
    target TEXT NOT NULL CHECK (target <> ''),
    rung TEXT NOT NULL CHECK (rung <> ''),
    wall TEXT NOT NULL,
    content TEXT NOT NULL CHECK (json_valid(content) AND json_type(content) = 'object'),
    sha256 TEXT NOT NULL CHECK (length(sha256) = 64)
) STRICT;

CREATE INDEX fuzzes_target ON fuzzes (target);
CREATE INDEX failures_fuzz ON failures (fuzz);
CREATE INDEX failures_target ON failures (target);
"""

# As with the clocks of version 3: NULL in older rows, whose hash leaves them out.
_V6 = """
ALTER TABLE samples ADD COLUMN probe_ms BLOB CHECK (length(probe_ms) = 8 * count);
ALTER TABLE samples ADD COLUMN cycles BLOB CHECK (length(cycles) = 8 * count);
"""

# Column by column what a link is made of; store/chain.py fills and reads it. The digest of a run is over those of its
# arrays, which stand behind the arrays in their rows: a list that compares digests would read its way through all of
# them.
_V7 = """
CREATE TABLE chain (
    seq INTEGER PRIMARY KEY CHECK (seq >= 1),
    kind TEXT NOT NULL CHECK (kind IN (
        'origin', 'run', 'peak', 'fuzz', 'failure', 'quarantine', 'withdrawn', 'restored')),
    number INTEGER NOT NULL,
    subject TEXT NOT NULL,
    digest TEXT NOT NULL,
    link TEXT NOT NULL CHECK (length(link) = 64)
) STRICT;

CREATE INDEX samples_sha256 ON samples (run, rung, sha256);
"""


def _initial(db: Database) -> None:
    """v1: everything that a run leaves behind."""
    db.executescript(_V1)
    db.execute(f"PRAGMA application_id = {APPLICATION_ID}")


def _indices_and_folder_label(db: Database) -> None:
    """v2: the board and the history of a target without a scan; a target's folder readable in a shell."""
    from aisp.store.content import path_label  # numpy: the reader imports this module for its version alone

    db.executescript(_V2)
    folders = [row[0] for row in db.execute("SELECT DISTINCT folder FROM runs").fetchall()]
    for folder in folders:
        db.execute("UPDATE runs SET folder_label = ? WHERE folder = ?", [path_label(folder), folder])


def _clocks_quality_and_peaks(db: Database) -> None:
    """v3: the clock of each sample, what samples say of themselves, cycles beside times, and a GPU's ceilings."""
    db.executescript(_V3)


def _findings_and_quarantines(db: Database) -> None:
    """v4: what every check said of a run, what a naive harness says of an arm, and rungs that were caught."""
    db.executescript(_V4)


def _fuzzes_and_failures(db: Database) -> None:
    """v5: what a fuzz said of each rung, and every failing case with all that is needed to do it again."""
    db.executescript(_V5)


def _second_clock(db: Database) -> None:
    """v6: each sample by the SMs' own timers and cycle counters, beside its time by events."""
    db.executescript(_V6)


def _chain(db: Database) -> None:
    """v7: what was taken in, in its order, each bound to the one before; begun with what is there."""
    from aisp.store import chain  # which asks this module for a file's version

    db.executescript(_V7)
    chain.begin(db.conn)


def _launches(db: Database) -> None:
    """v8: how many kernels one call of an arm launches."""
    db.execute("ALTER TABLE arms ADD COLUMN launches INTEGER CHECK (launches >= 0)")


def _own_rule(db: Database) -> None:
    """v9: what the problem's own rule says of an arm."""
    object_of = "CHECK (rule IS NULL OR (json_valid(rule) AND json_type(rule) = 'object'))"
    db.execute(f"ALTER TABLE arms ADD COLUMN rule TEXT {object_of}")


def _ranks(db: Database) -> None:
    """v10: of an arm that is several ranks, what each of them did: in every sample, and in all."""
    object_of = "CHECK (ranks IS NULL OR (json_valid(ranks) AND json_type(ranks) = 'object'))"
    db.execute(f"ALTER TABLE arms ADD COLUMN ranks TEXT {object_of}")
    for name in ("rank_ms", "rank_late_us", "rank_clock_mhz"):
        db.execute(f"ALTER TABLE samples ADD COLUMN {name} BLOB CHECK (length({name}) % max(8 * count, 1) = 0)")


def _failing_case(db: Database) -> None:
    """v11: in which case the outputs of an arm were wrong."""
    db.execute("ALTER TABLE arms ADD COLUMN failing_case TEXT")


STEPS: tuple[Callable[[Database], None], ...] = (
    _initial,
    _indices_and_folder_label,
    _clocks_quality_and_peaks,
    _findings_and_quarantines,
    _fuzzes_and_failures,
    _second_clock,
    _chain,
    _launches,
    _own_rule,
    _ranks,
    _failing_case,
)
LATEST = len(STEPS)
"""The schema version that this aisp writes."""


def differing(connection: sqlite3.Connection) -> list[str]:
    """In what the tables, indexes, views and triggers of a file are others than its version makes: a sentence each."""
    from sqlite_utils import Database  # only to verify

    made = Database(memory=True)
    for step in STEPS[: version(connection)]:
        step(made)
    wanted, there = _objects(made.conn), _objects(connection)
    made.conn.close()
    differences = [f"the {kind} {name} is missing" for kind, name in wanted.keys() - there.keys()]
    differences += [f"the {kind} {name} is none of ours" for kind, name in there.keys() - wanted.keys()]
    both = wanted.keys() & there.keys()
    differences += [
        f"the {kind} {name} is not the one we make" for kind, name in both if wanted[kind, name] != there[kind, name]
    ]
    return sorted(differences)


def _objects(connection: sqlite3.Connection) -> dict[tuple[str, str], str]:
    """The text of every object of a schema, but for SQLite's own, by its type and name."""
    rows = connection.execute("SELECT type, name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite\\_%' ESCAPE '\\'")
    return {(kind, name): " ".join((sql or "").split()) for kind, name, sql in rows.fetchall()}


def version(connection: sqlite3.Connection) -> int:
    """Schema version of an open file; 0 for an empty one."""
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def check_ours(connection: sqlite3.Connection, path: Path) -> int:
    """Version of the file, once it is known to be a store of ours or empty. Raises ForeignDatabaseError."""
    schema = version(connection)
    application = int(connection.execute("PRAGMA application_id").fetchone()[0])
    empty = connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone() is None
    if application != APPLICATION_ID and not (empty and application == 0 and schema == 0):
        raise ForeignDatabaseError(
            f"{path} is a database of another program (application id {application:#x}): "
            "move it away, or set AISP_STATE to another folder"
        )
    return schema


def stamp() -> str:
    """The present in UTC for a file's name: sorts by age."""
    return datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")


def wall() -> str:
    """The present in UTC as records have it: a label, never used for arithmetic."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def free_name(wanted: Path) -> Path:
    """`wanted`, or with -2, -3 ... behind its stamp where that is taken."""
    path, number = wanted, 1
    name = wanted.name.removesuffix(BACKUP)
    while path.exists():
        number += 1
        path = wanted.with_name(f"{name}-{number}{wanted.name[len(name) :]}")
    return path


def backup_name(path: Path, schema: int) -> Path:
    """Where a copy of the store at `path` goes by default."""
    return free_name(path.with_name(f"{path.name}.v{schema}-{stamp()}{BACKUP}"))


def migrate(db: Database, path: Path, backup: Callable[[Path], object]) -> int | None:
    """Bring the file at `path` to LATEST, one transaction per step; a new file gets all of them in one.

    Args:
        db: open for writing, no transaction under way.
        backup: copies the open file to the path given; called once, before an older file is changed.

    Returns:
        The version that was found where it was an older one, else None (new or up to date).

    Raises:
        NewerSchemaError, ForeignDatabaseError: the file is untouched.
        StoreFullError: no room for the backup or a step; the file has the last whole step.
    """
    schema = check_ours(db.conn, path)
    if schema > LATEST:
        raise NewerSchemaError(path, schema, LATEST)
    if schema == LATEST:
        return None
    earlier = schema
    if schema:
        backup(backup_name(path, schema))
    # A file that is killed half made is as if it had never been, and no older store to be kept.
    together: list[Sequence[Callable[[Database], None]]] = [[step] for step in STEPS[schema:]] if schema else [STEPS]
    with typed_errors(path):
        for steps in together:
            db.conn.execute("BEGIN IMMEDIATE")
            try:
                for step in steps:
                    step(db)
                schema += len(steps)
                db.execute(f"PRAGMA user_version = {schema}")
                db.conn.execute("COMMIT")
            finally:
                if db.conn.in_transaction:
                    db.conn.execute("ROLLBACK")
    return earlier or None
