"""Keeping the store: copies, damaged files, whether it is what was written, and a reserve for a full disk.

A copy, a restored file and a reserve get their names when they are whole and on the disk, so a process killed anywhere
leaves the old state or the new one. Nothing that a person may still want is deleted: a file that gives way to a backup
is kept beside it, and the ids of runs that the backup lacks are reported.

SQLite's own check sees broken structure, not a flipped bit inside a value; `verify` recomputes every hash there is. On
a full disk SQLite can neither delete nor fold its log in, so `make_ballast` keeps 16 MiB that can be given back.

`copy`, `tend` and the ballast are for the engine beside its writer, `copy_beside` and `verify` for any process beside
it; `restore` and `vacuum` want the store to themselves. Imports neither numpy nor sqlite-utils; `verify` reads through
`History` and costs numpy.
"""

from __future__ import annotations

import contextlib
import glob
import hashlib
import json
import os
import re
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from aisp.store import chain, migrations
from aisp.store.errors import (
    ForeignDatabaseError,
    NewerSchemaError,
    StoreCorruptError,
    StoreError,
    StoreFullError,
    StoreLockedError,
    StoreUnwritableError,
    damage_of,
    typed_errors,
)
from aisp.store.given import flush, json_of, regular_bytes, settle, write_new, write_whole
from aisp.store.readonly import uri_to_read

if TYPE_CHECKING:
    from aisp.store.writer import Store

BUSY_TIMEOUT_S = 5.0
BACKUPS_KEPT = 5
BACKUP_EVERY_S = 86_400.0
QUIET_S = 60.0
RETRY_S = 600.0
BALLAST_BYTES = 16 * 2**20
BALLAST_ROOM = 8
"""The reserve is made where that many times its size is free: on a disk that is about full it would only hurt."""
SALVAGE_S = 20.0
"""Longest walk through a damaged table; its pages may lead in circles."""

KINDS = tuple(kind.value for kind in chain.TABLES)
_PAGE = 100  # records in one read transaction: a longer one would hold back the folding of the log
_BOOKMARK_S = 2.0
_MOST_BOOKMARK_BYTES = 16 << 20
_SIDE_FILES = ("", "-wal", "-shm", "-journal")
_OURS = re.compile(r"\.v(\d+)-\d{8}T\d{6}Z(?:-\d+)?\.bak")
_CONTENT = (  # kind, columns of hash and content, table
    ("source", "sha256", "sources"),
    ("snapshot", "hash", "snapshots"),
    ("environment", "hash", "environments"),
    ("manifest", "hash", "manifests"),
)
# Down, up and through the index of ids: damage in one place leaves ids to be found from another.
_WALKS = (
    "SELECT id FROM runs NOT INDEXED ORDER BY number DESC",
    "SELECT id FROM runs NOT INDEXED ORDER BY number",
    "SELECT id FROM runs ORDER BY id",
)


# -- files beside the store --------------------------------------------------------------------------------------------


def backups(path: Path) -> list[Path]:
    """Backups beside the store, oldest first."""
    files = path.parent.glob(f"{glob.escape(path.name)}.*.bak")
    return sorted(files, key=lambda backup: (backup.stat().st_mtime_ns, backup.name))


def asides(path: Path) -> list[Path]:
    """Files that gave way to a backup or a fresh store, oldest first."""
    files = path.parent.glob(f"{glob.escape(path.name)}*")
    ours = [file for file in files if re.search(r"\.(corrupt|replaced)-\w+(-\d+)?$", file.name)]
    return sorted(ours, key=lambda aside: (aside.stat().st_mtime_ns, aside.name))


def ballast_file(path: Path) -> Path:
    """The reserve of the store at `path`."""
    return path.with_name(f"{path.name}.ballast")


def foreign_file(path: Path) -> Path:
    """Where the runs of other machines lie beside the store at `path`, see store.packages."""
    return path.with_name("foreign.db")


def size_bytes(path: Path) -> int:
    """Size of the database with its write-ahead log, which is part of it until it is folded in."""
    return sum(part.stat().st_size for part in (path, Path(f"{path}-wal")) if part.exists())


def closed_file(path: Path) -> Path:
    """The file that says which store the last writer at `path` closed. There is none while a writer has it open."""
    return path.with_name(f"{path.name}.closed")


def note_closed(path: Path) -> None:
    """Note that the store at `path` was whole when it was closed."""
    with contextlib.suppress(OSError):  # without the note the next to open it examines it
        write_new(closed_file(path), _fingerprint(path).encode())


def as_closed(path: Path) -> bool:
    """Whether the file at `path` is the one that was last closed, and nobody has written to it since."""
    try:
        logged = any(Path(f"{path}{side}").stat().st_size for side in ("-wal", "-journal") if _there(path, side))
        return not logged and regular_bytes(closed_file(path), 4096) == _fingerprint(path).encode()
    except (OSError, ValueError):
        return False


def _there(path: Path, side: str) -> bool:
    return Path(f"{path}{side}").exists()


def _fingerprint(path: Path) -> str:
    status = path.stat()
    return f"{status.st_ino} {status.st_size} {status.st_mtime_ns}\n"


def _want_room(folder: Path, needed: int, what: str) -> None:
    """Raises StoreFullError beforehand: a copy that fills the disk would stop the store's own writes."""
    free = shutil.disk_usage(folder).free
    if free < needed + BALLAST_BYTES:
        raise StoreFullError(f"{folder} has {free >> 20} MiB free and {what} needs {needed >> 20} MiB: free some space")


@contextlib.contextmanager
def _read_only(path: Path) -> Iterator[sqlite3.Connection]:
    with contextlib.closing(
        sqlite3.connect(uri_to_read(path), uri=True, timeout=BUSY_TIMEOUT_S, isolation_level=None)
    ) as connection:
        yield connection


def quick_check(connection: sqlite3.Connection, path: Path) -> None:
    """Read the whole file. Raises StoreCorruptError where SQLite finds its structure broken."""
    # All of it is fetched: a statement that is under way would keep the file open, and its log beside it.
    ((result,),) = connection.execute("PRAGMA quick_check(1)").fetchall()
    if result != "ok":
        raise StoreCorruptError(f"{path} is damaged: {result}")


# -- backups -----------------------------------------------------------------------------------------------------------


def copy(connection: sqlite3.Connection, wanted: Path) -> Path:
    """A copy of the open store while it is in use, examined and on the disk before it gets its name.

    Raises:
        StoreError: `wanted` exists.
        StoreFullError: no room for it; nothing of it is left.
        StoreCorruptError: what would be kept is damaged.
    """
    if wanted.exists():
        raise StoreError(f"{wanted} exists: name another file for the backup")
    partial = wanted.with_name(f"{wanted.name}.partial")
    with typed_errors(wanted):
        pages, page_bytes = (int(connection.execute(f"PRAGMA {name}").fetchone()[0]) for name in _SIZE)
        _want_room(wanted.parent, pages * page_bytes, "a copy of the store")
        partial.unlink(missing_ok=True)
        try:
            os.close(os.open(partial, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600))
            partial.chmod(0o600)
            with contextlib.closing(sqlite3.connect(partial)) as target:
                connection.backup(target)
                # The copy says WAL like its source; a single file is easier to keep.
                target.execute("PRAGMA journal_mode = DELETE").fetchone()
                quick_check(target, partial)
            settle(partial, wanted)
        finally:
            partial.unlink(missing_ok=True)
    return wanted


_SIZE = ("page_count", "page_size")


def copy_beside(path: Path, wanted: Path | None = None) -> Path:
    """`copy` from any process, beside the engine; by default to where opening a damaged store looks for it.

    Raises LookupError where there is no store, and like `copy`.
    """
    if not path.exists():
        raise LookupError(f"there is no store at {path} yet")
    with typed_errors(path), _read_only(path) as connection:
        version = migrations.check_ours(connection, path)
        return copy(connection, wanted or migrations.backup_name(path, version))


def backup_due(path: Path) -> bool:
    """Whether the newest backup is a day old and something was written since."""
    now = time.time()
    times = [backup.stat().st_mtime for backup in backups(path)]
    # One from the future is of before a step of the clock.
    newest = max((at for at in times if at <= now), default=0.0)
    parts = [part.stat() for part in (path, Path(f"{path}-wal")) if part.exists()]
    # An empty log was made by a reader.
    written = max((part.st_mtime for part in parts if part.st_size), default=0.0)
    return now - newest > BACKUP_EVERY_S and written > newest


def prune(path: Path, keep: int = BACKUPS_KEPT) -> list[Path]:
    """Delete all but the newest `keep` backups of this schema, and all but one of each older one. Returns them.

    Only files named as ours are looked at; one whose name a person chose stays, and so does one of a newer aisp.
    """
    by_schema: dict[int, list[Path]] = {}
    for backup in backups(path):
        named = _OURS.fullmatch(backup.name.removeprefix(path.name))
        if named:
            by_schema.setdefault(int(named[1]), []).append(backup)
    gone = []
    for schema, group in by_schema.items():
        if schema <= migrations.LATEST:
            gone += group[: -(keep if schema == migrations.LATEST else 1)]
    with typed_errors(path):
        for backup in gone:
            backup.unlink(missing_ok=True)
    return gone


# -- a file that gives way ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Missing:
    """Runs of a file that gave way which are not in the one that took its place.

    Attributes:
        runs: their ids, oldest first.
        certain: every walk through the old file came to its end and found the same; else there may be more.
    """

    runs: tuple[str, ...] = ()
    certain: bool = True


@dataclass(frozen=True, slots=True)
class Replaced:
    """What became of a store.

    Attributes:
        aside: where the file is now that was there; None where there was none.
        backup: the backup whose copy is in use now; None where a fresh store will be begun.
        missing: runs that the old file has and the new one lacks.
    """

    aside: Path | None
    backup: Path | None
    missing: Missing


def replace_damaged(path: Path) -> Replaced:
    """Set the damaged file at `path` aside; a copy of the newest whole backup, if there is one, takes its place."""
    partial = Path(f"{path}.partial")
    chosen = None
    with typed_errors(path):
        for backup in reversed(backups(path)):
            try:
                _prepare(backup, partial, path)
            except StoreFullError:
                raise
            except StoreError:
                continue
            chosen = backup
            break
        aside = _exchange(path, partial if chosen else None, "corrupt")
    return Replaced(aside, chosen, missing(aside, path) if aside else Missing())


def restore(path: Path, backup: Path | None = None) -> Replaced:
    """Put a copy of `backup`, by default of the newest whole one, into the place of the store. No engine may use it.

    What is there is kept as `<store>.replaced-<date>`, and can be restored itself.

    Raises:
        LookupError: there is no such backup, or no whole one.
        StoreCorruptError, ForeignDatabaseError, NewerSchemaError: `backup` will not do. Nothing was changed.
        StoreFullError: likewise.
    """
    if backup is not None and (not backup.exists() or (path.exists() and backup.samefile(path))):
        raise LookupError(f"no backup {backup}: name a copy of the store")
    partial = Path(f"{path}.partial")
    with typed_errors(path):
        for candidate in [backup] if backup else reversed(backups(path)):
            try:
                _prepare(candidate, partial, path)
            except StoreFullError:
                raise
            except StoreError:
                if backup:
                    raise
                continue
            aside = _exchange(path, partial, "replaced")
            return Replaced(aside, candidate, missing(aside, path) if aside else Missing())
    raise LookupError(f"no whole backup of {path} lies beside it")


def _prepare(backup: Path, partial: Path, path: Path) -> None:
    """Copy a backup, its log folded in, to `partial`; its chain says that it takes the place of the store at `path`.

    Raises StoreError where it cannot be used, and leaves nothing.
    """
    log, partial_log = Path(f"{backup}-wal"), Path(f"{partial}-wal")
    uri_to_read(backup)  # a pipe or a device would be copied without an end
    with typed_errors(backup):
        _want_room(partial.parent, size_bytes(backup), "the copy of a backup")
        try:
            shutil.copyfile(backup, partial)
            partial.chmod(0o600)
            if log.exists():  # a store that was itself set aside
                shutil.copyfile(log, partial_log)
            with contextlib.closing(sqlite3.connect(partial)) as connection:
                version = migrations.check_ours(connection, backup)
                if version > migrations.LATEST:
                    raise NewerSchemaError(backup, version, migrations.LATEST)
                if version == 0:
                    raise StoreCorruptError(f"{backup} is empty")
                quick_check(connection, backup)
                connection.execute("PRAGMA journal_mode = DELETE").fetchone()
                if version >= migrations.CHAIN_SINCE and path.exists():
                    with connection:
                        chain.append_restored(connection, _head(path))
        except BaseException:
            for side in _SIDE_FILES:
                Path(f"{partial}{side}").unlink(missing_ok=True)
            raise


def _head(path: Path) -> chain.Head | None:
    """The head of a store that gives way; None where it cannot be read any more."""
    if path.stat().st_size == 0:
        return None  # see _ids
    with contextlib.suppress(sqlite3.Error), _read_only(path) as connection:
        return chain.head(connection)
    return None


def _exchange(path: Path, partial: Path | None, why: str) -> Path | None:
    """Keep what is at `path` under another name and give `partial` its place. Returns that name.

    The log goes with its file, where there is anything in it: it must not be replayed into another one. Its shared
    memory is made anew from it by whoever opens the file. Where the file system has hard links, there is
    a store at `path` at every moment, for an engine that found none would begin a fresh one.
    """
    aside = migrations.free_name(path.with_name(f"{path.name}.{why}-{migrations.stamp()}"))
    there = path.exists()
    if there and partial is not None:
        try:
            os.link(path, aside)
        except OSError:
            path.rename(aside)
    elif there:
        path.rename(aside)
    for side in _SIDE_FILES[1:]:
        lies = Path(f"{path}{side}")
        with contextlib.suppress(FileNotFoundError):
            if side == "-shm" or not lies.stat().st_size:
                lies.unlink()
            else:
                lies.rename(f"{aside}{side}")
    if partial is not None:
        settle(partial, path)
    else:
        flush(path.parent)
    return aside if there else None


def missing(aside: Path, path: Path) -> Missing:
    """Runs in the damaged or replaced file `aside` that the store at `path` lacks, as far as they can be read."""
    ids, certain = _ids(aside)
    if path.exists():
        there, readable = _ids(path)
        ids -= there
        certain = certain and readable
    return Missing(tuple(sorted(ids)), certain)


def _ids(path: Path) -> tuple[set[str], bool]:
    """Ids of the runs in a file that may be damaged, and whether these are surely all."""
    by_walk: list[set[str]] = []
    certain = True
    if path.stat().st_size == 0:
        return set(), False  # SQLite takes it for a new one, and would delete the log beside it
    deadline = time.monotonic() + SALVAGE_S
    side_files = {side: Path(f"{path}{side}").exists() for side in _SIDE_FILES}
    for walk in _WALKS:
        ids: set[str] = set()
        by_walk.append(ids)
        try:
            with _read_only(path) as connection:
                connection.text_factory = bytes
                connection.set_progress_handler(lambda: time.monotonic() > deadline, 10_000)
                for (value,) in connection.execute(walk):
                    if isinstance(value, bytes) and re.fullmatch(rb"[0-9A-Z_-]{1,64}", value):
                        ids.add(value.decode("ascii"))
                    else:
                        certain = False
        except sqlite3.Error:
            certain = False
    for side, there in side_files.items():
        if not there:
            Path(f"{path}{side}").unlink(missing_ok=True)  # made by reading
    return set().union(*by_walk), certain and all(ids == by_walk[0] for ids in by_walk)


# -- is it what was written? -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Damage:
    """Something that is not what was written.

    Attributes:
        kind: run, peak, fuzz, failure, quarantine, source, snapshot, environment or manifest; "chain" for what binds
            them together, "file" for the structure of the database.
        id: of the record, or the hash of the content; "" where what is meant is unclear.
        reason: one sentence.
    """

    kind: str
    id: str
    reason: str


@dataclass(slots=True)
class Verified:
    """What `verify` found.

    Attributes:
        path: the file that was looked at.
        schema_version: of the file.
        checked: how many of each kind were looked at.
        damage: all that is not what was written; none in a file that is whole.
        head: of its chain; None in a file from before there was one.
        entry: which entry has the head that was asked for; None where none has, or none was asked for.
        begun: when the part was looked at that an interrupted `verify` had done, "" where there was none.
    """

    path: Path
    schema_version: int
    checked: dict[str, int] = field(default_factory=dict)
    damage: list[Damage] = field(default_factory=list)
    head: chain.Head | None = None
    entry: int | None = None
    begun: str = ""

    @property
    def whole(self) -> bool:
        """Everything was read and is what was written."""
        return not self.damage


def verify(
    path: Path,
    progress: Callable[[str, int, int], None] = lambda kind, checked, count: None,
    *,
    head: str = "",
    anew: bool = False,
) -> Verified:
    """Compare every record, array, source, snapshot and environment of a store, a backup or a file set aside with its
    hash, all of them with the chain, and the schema with what its version makes.

    Beside the engine, without holding it up: no read transaction is longer than 100 records, one walk through the chain
    or one check of SQLite's. What an interrupted call had looked at, the next one leaves out where the file and the
    chain are whole.

    Args:
        path: the file.
        progress: called with a kind, how many of it were looked at, and how many there are.
        head: of a chain, or at least its first `chain.SHORT` digits: whether the store goes on from there.
        anew: from the beginning, whatever an interrupted call had done.

    Raises:
        LookupError: there is no file.
        ForeignDatabaseError, NewerSchemaError: hashes of such a file cannot be recomputed here.
        StoreLockedError, StoreUnwritableError: it cannot be read.
    """
    if not path.exists():
        raise LookupError(f"there is no store at {path} yet")
    report = Verified(path, 0)
    counts: dict[str, int] = {}
    bookmark = _Bookmark(path)
    with _examined(path, report.damage, "file") as connection:
        report.schema_version = migrations.check_ours(connection, path)
        if report.schema_version > migrations.LATEST:
            raise NewerSchemaError(path, report.schema_version, migrations.LATEST)
        counts = _counts(connection)
        if anew:
            bookmark.drop()
        else:
            bookmark.open(connection, report)
    from concurrent.futures import ThreadPoolExecutor  # imports logging

    # SQLite's check reads the whole file in one go, and lets other threads be.
    with ThreadPoolExecutor(1) as beside:
        structure_of = beside.submit(_structure, path, head)
        for kind in KINDS:
            _verify_records(path, kind, report, counts.get(kind, 0), bookmark, progress)
        progress("page", 0, 0)
        structure = structure_of.result()
    if report.begun and (structure.damage or structure.misfits):
        return verify(path, progress, head=head, anew=True)  # what was looked at before may have changed since
    report.damage[:0] = [each for each in structure.damage if each not in report.damage]
    report.head, report.entry = structure.head, structure.entry
    if report.head:
        report.checked = {"chain": report.head.entries, **report.checked}
        progress("chain", report.head.entries, report.head.entries)
    for kind, key, table in _CONTENT:
        report.checked[kind] = 0
        with _examined(path, report.damage, kind, "the rest of them") as connection:
            if report.schema_version:
                _verify_content(connection, kind, key, table, report)
        progress(kind, report.checked[kind], report.checked[kind])
    # What is wrong with a record itself says more than that the chain says otherwise.
    damaged = {(each.kind, each.id) for each in report.damage}
    report.damage += [
        Damage(each.kind, each.id, each.reason)
        for each in structure.misfits
        if not each.id or (each.kind, each.id) not in damaged
    ]
    bookmark.drop()
    return report


@dataclass(slots=True)
class _Structure:
    """What is looked at in one go: the pages and indexes of the file, and its chain against its tables.

    Attributes:
        damage, misfits: what was found.
        head, entry: as in `Verified`.
    """

    damage: list[Damage] = field(default_factory=list)
    misfits: list[chain.Misfit] = field(default_factory=list)
    head: chain.Head | None = None
    entry: int | None = None


def _structure(path: Path, head: str) -> _Structure:
    structure = _Structure()
    with _examined(path, structure.damage, "file") as connection:
        for (line,) in connection.execute("PRAGMA integrity_check(20)").fetchall():
            if line != "ok":
                structure.damage.append(Damage("file", "", str(line)))
        for table, row, parent, _ in connection.execute("PRAGMA foreign_key_check").fetchmany(20):
            structure.damage.append(Damage("file", "", f"row {row} of {table} has nothing in {parent}"))
    with _examined(path, structure.damage, "file", "its schema") as connection:
        structure.damage += [Damage("file", "", f"its schema: {text}") for text in migrations.differing(connection)]
    with _examined(path, structure.damage, "file", "what its records name") as connection:
        if path.name != foreign_file(path).name:  # a package may come without them
            structure.damage += _references(connection)
    with _examined(path, structure.damage, "chain", "what follows in it") as connection:
        connection.execute("BEGIN")  # the chain and the tables are of one moment
        structure.misfits += chain.examine(connection)
        structure.head = chain.head(connection)
        structure.entry = chain.find(connection, head) if head else None
    return structure


@contextlib.contextmanager
def _examined(path: Path, damage: list[Damage], kind: str, what: str = "") -> Iterator[sqlite3.Connection]:
    """The open file, whatever lies in it: what cannot be read of it, `what`, is damage of that kind.

    Raises StoreLockedError, StoreUnwritableError, ForeignDatabaseError and NewerSchemaError.
    """
    try:
        with typed_errors(path), _read_only(path) as connection:
            yield connection
    except (StoreLockedError, StoreUnwritableError, ForeignDatabaseError, NewerSchemaError):
        raise
    except Exception as error:
        reason = damage_of(error, path)
        damage.append(Damage(kind, "", f"{what} cannot be read: {reason}" if what else reason))


_REFERENCES = (  # kind, table, column, what it names, where that must be
    ("run", "runs", "snapshot", "sources are", "snapshots"),
    ("run", "runs", "environment", "environment is", "environments"),
    ("peak", "peaks", "environment", "environment is", "environments"),
)


def _references(connection: sqlite3.Connection) -> list[Damage]:
    """Records that name what is not in the file any more, where no foreign key says so."""
    there = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    damage = []
    for kind, table, column, what, target in _REFERENCES:
        if {table, target} <= there:
            lacking = f"{column} <> '' AND {column} NOT IN (SELECT hash FROM {target})"
            rows = connection.execute(f"SELECT id FROM {table} WHERE {lacking} ORDER BY number").fetchall()
            damage += [Damage(kind, record, f"its {what} not in the file any more") for (record,) in rows]
    return damage


def _counts(connection: sqlite3.Connection) -> dict[str, int]:
    """How many records there are of each kind that this file has a table for."""
    there = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    return {
        kind: connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
        for kind, table in chain.TABLES.items()
        if table in there
    }


def _verify_records(
    path: Path,
    kind: str,
    report: Verified,
    count: int,
    bookmark: _Bookmark,
    progress: Callable[[str, int, int], None],
) -> None:
    """All records of a kind; those after the bookmark's."""
    after = bookmark.done.get(kind, 0)
    report.checked[kind] = bookmark.checked.get(kind, 0)
    try:
        for last, checked, damaged in _pages(path, kind, after):
            after = last
            report.checked[kind] += checked
            report.damage += [Damage(kind, record, why) for record, why in damaged]
            bookmark.keep(kind, after, report)
            progress(kind, report.checked[kind], count)
    except StoreCorruptError as error:
        report.damage.append(Damage(kind, "", f"those after number {after} cannot be read: {error}"))
    except BaseException:
        bookmark.write()
        raise


def _pages(path: Path, kind: str, after: int) -> Iterator[tuple[int, int, list[tuple[str, str]]]]:
    """The records of a kind after that number, in their order: number of the last of a page, how many it has, and id
    and reason of those that are damaged.
    """
    from aisp.store.reader import History  # numpy, which restoring and copying do without

    whole: set[str] = set()
    with History(path) as history:
        while page := history.examine(kind, after, _PAGE, whole=whole):
            if page[-1][0] <= after:
                raise StoreCorruptError("their numbers do not ascend")
            after = page[-1][0]
            yield after, len(page), [(record, why) for _, record, why in page if why]


class _Bookmark:
    """How far an interrupted `verify` had come: a file beside the store, which is gone when all was looked at.

    It counts for that file alone, as long as the chain has the head of then: what was looked at is still in it.
    """

    def __init__(self, path: Path) -> None:
        self.done: dict[str, int] = {}
        self.checked: dict[str, int] = {}
        self._path, self._file = path, Path(f"{path}.verifying")
        self._header: dict[str, object] | None = None
        self._next_write = time.monotonic() + _BOOKMARK_S

    def open(self, connection: sqlite3.Connection, report: Verified) -> None:
        """Take up what an interrupted call left, where it is about this store, and begin to keep a bookmark."""
        head = chain.head(connection)
        if head is None:
            return
        status = self._path.stat()
        self._header = {"file": [status.st_dev, status.st_ino], "schema": report.schema_version}
        self._header |= {"entries": head.entries, "link": head.link, "begun": migrations.wall()}
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            kept = json_of(regular_bytes(self._file, _MOST_BOOKMARK_BYTES))
            same = all(kept[name] == self._header[name] for name in ("file", "schema"))
            if same and chain.find(connection, kept["link"]) == kept["entries"]:
                damage = [Damage(*each) for each in kept["damage"]]
                self.done, self.checked = dict(kept["done"]), dict(kept["checked"])
                self._header, report.begun = {name: kept[name] for name in self._header}, kept["begun"]
                report.damage += damage

    def keep(self, kind: str, after: int, report: Verified) -> None:
        """Note that all of a kind up to that number was looked at."""
        if self._header is None:
            return
        self.done[kind], self.checked[kind] = after, report.checked[kind]
        self._header["damage"] = [[each.kind, each.id, each.reason] for each in report.damage if each.kind in KINDS]
        if time.monotonic() >= self._next_write:
            self.write()

    def write(self) -> None:
        """Put it on the disk. Where that cannot be done, the next call begins anew."""
        if self._header is None or not self.done:
            return
        self._next_write = time.monotonic() + _BOOKMARK_S
        with contextlib.suppress(OSError):
            status = self._path.stat()
            if [status.st_dev, status.st_ino] == self._header["file"]:  # else its folder is another one by now
                document = {**self._header, "done": self.done, "checked": self.checked}
                write_whole(self._file, json.dumps(document).encode("ascii"), 0o600)

    def drop(self) -> None:
        """Remove it."""
        with contextlib.suppress(OSError):
            self._file.unlink(missing_ok=True)


def _verify_content(connection: sqlite3.Connection, kind: str, key: str, table: str, report: Verified) -> None:
    connection.text_factory = bytes  # a flipped bit need not be UTF-8
    if kind == "snapshot":
        _verify_snapshots(connection, report)
        return
    for name, content in connection.execute(f"SELECT {key}, content FROM {table}"):
        report.checked[kind] += 1
        if not isinstance(content, bytes) or hashlib.sha256(content).hexdigest().encode() != name:
            report.damage.append(Damage(kind, _named(name), "its content has another hash"))


def _named(digest: object) -> str:
    """A hash as it lies in its column, where a damaged page may have put anything."""
    return digest.decode("ascii", "backslashreplace") if isinstance(digest, bytes) else str(digest)


def _verify_snapshots(connection: sqlite3.Connection, report: Verified) -> None:
    """Compare each snapshot with the names and hashes of its files, and the labels of these with their names."""
    from aisp.store import content  # numpy, which restoring and copying do without

    files = "SELECT name, CAST(source AS TEXT), label FROM snapshot_files WHERE snapshot = ? ORDER BY name"
    for (digest,) in connection.execute("SELECT hash FROM snapshots").fetchall():
        report.checked["snapshot"] += 1
        named = _named(digest)
        rows = connection.execute(files, [named]).fetchall()
        whole = all(isinstance(value, bytes) for row in rows for value in row)
        listed = ((name, source.decode("ascii", "replace")) for name, source, _ in rows)
        if not whole or content.manifest_hash(listed) != named:
            report.damage.append(Damage("snapshot", named, "its files are others than its hash says"))
        elif any(content.path_label(name).encode() != label for name, _, label in rows):
            report.damage.append(Damage("snapshot", named, "a file's label is not its name"))


# -- space -------------------------------------------------------------------------------------------------------------


def vacuum(path: Path) -> tuple[int, int]:
    """Rewrite the store without its unused room. No engine may use it. Returns bytes before and after.

    Raises:
        LookupError: there is no store.
        StoreCorruptError, NewerSchemaError, ForeignDatabaseError, StoreFullError, StoreLockedError: it is as it was.
    """
    if not path.exists():
        raise LookupError(f"there is no store at {path} yet")
    with typed_errors(path):
        with _read_only(path) as connection:
            version = migrations.check_ours(connection, path)
            if version > migrations.LATEST:
                raise NewerSchemaError(path, version, migrations.LATEST)
            quick_check(connection, path)
        before = size_bytes(path)
        _want_room(path.parent, 2 * before, "rewriting the store")  # the copy, and the log that it goes through
        with contextlib.closing(sqlite3.connect(path, timeout=BUSY_TIMEOUT_S, isolation_level=None)) as connection:
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("VACUUM")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        return before, size_bytes(path)


def make_ballast(path: Path) -> bool:
    """Keep a reserve on the disk of the store at `path`. Returns whether there is one now.

    It is not made where there is too little room, and holds random bytes: a file system that compresses, or that grants
    blocks when they are written, would keep nothing for zeros.
    """
    wanted = ballast_file(path)
    partial = Path(f"{wanted}.partial")
    try:
        if wanted.exists() and wanted.stat().st_size == BALLAST_BYTES:
            return True
        if shutil.disk_usage(path.parent).free < BALLAST_ROOM * BALLAST_BYTES:
            return False
        partial.unlink(missing_ok=True)
        descriptor = os.open(partial, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
        try:
            # Never opened by its name again: by then the folder can have been moved, and its path be somebody else's.
            with os.fdopen(descriptor, "wb") as file:
                for _ in range(BALLAST_BYTES >> 20):
                    file.write(os.urandom(1 << 20))
            settle(partial, wanted)
        finally:
            partial.unlink(missing_ok=True)
    except OSError:  # a quota, a read-only folder: the store itself says so where it matters
        return False
    return True


def release_ballast(path: Path) -> bool:
    """Give the reserve back to the disk. Returns whether there was one."""
    try:
        ballast_file(path).unlink()
    except OSError:
        return False
    return True


# -- what the engine does now and then ---------------------------------------------------------------------------------


@dataclass(slots=True)
class Notice:
    """News for the person: under which key, in which words ("" takes earlier ones back), how bad."""

    key: str
    text: str
    severity: str = "warning"


class Upkeep:
    """The engine's chores, at most one attempt in ten minutes: the reserve, and a backup a day."""

    def __init__(self) -> None:
        self._next_ballast = self._next_backup = 0.0
        self._had_ballast = self._backup_failed = False

    def wanted(self, idle_s: float) -> bool:
        """Whether `tend` has something to look at. Costs nothing.

        Args:
            idle_s: for how long nothing has run.
        """
        now = time.monotonic()
        return now >= self._next_ballast or (idle_s >= QUIET_S and now >= self._next_backup)

    def tend(self, store: Store, idle_s: float) -> list[Notice]:
        """Do what is due. Blocks for as long as copying the store takes.

        Raises StoreGoneError, before anything is written, where the file at the path is not the one that is open.
        """
        store.look()
        now = time.monotonic()
        notices = []
        if now >= self._next_ballast:
            self._next_ballast = now + RETRY_S
            with contextlib.suppress(OSError):
                there = ballast_file(store.path).exists()
                if make_ballast(store.path):
                    if self._had_ballast and not there:
                        notices.append(Notice("disk", ""))
                    self._had_ballast = True
        if idle_s >= QUIET_S and now >= self._next_backup:
            self._next_backup = now + RETRY_S
            notices += self._back_up(store)
        return notices

    def _back_up(self, store: Store) -> list[Notice]:
        try:
            with typed_errors(store.path):
                if not backup_due(store.path):
                    return []
                store.backup()
                prune(store.path)
        except StoreError as error:
            self._backup_failed = True
            return [Notice("backup", f"the store could not be backed up: {error}", "error")]
        if self._backup_failed:
            self._backup_failed = False
            return [Notice("backup", "")]
        return []
