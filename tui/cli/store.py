"""`aisp store`: where results are kept, whether they are what was written, copies of them, and their space.

`info` reads with Python's own sqlite3 and `verify` with the store's reader, both beside a running engine; so does
`backup`. `recover` and `vacuum` want the file to themselves: they hold the lock of the one engine meanwhile, so that
none can start.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from aisp.engine import lock, paths
from aisp.store import chain, migrations, upkeep
from aisp.store.errors import StoreError
from aisp.store.outcomes import NOT_ENDED
from aisp.store.readonly import open_read_only
from aisp.store.results.tables import Column, documents, fields
from aisp.store.text import clean_line
from aisp.tui import plain
from aisp.tui.cli import common
from aisp.tui.cli.common import path_text
from aisp.tui.cli.tree import EXIT_GOOD, EXIT_NO, NotHereError

NAMED = 10
"""So many ids are printed; --json has all."""
SHOWN = 100
"""Likewise lines of damage."""
BAR_CELLS = 24
ACTIONS = {
    "verify": ("file", "head", "anew"),
    "backup": ("file", "out"),
    "recover": ("file", "yes"),
    "vacuum": (),
    "": (),
}


def _digits(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    digits = value.strip().lower() if value is not None else None
    if digits is not None and not re.fullmatch(rf"[0-9a-f]{{{chain.SHORT},64}}", digits):
        raise click.BadParameter(f"{value!r} is no head: give {chain.SHORT} to 64 hex digits, as `aisp store` has them")
    return digits


@click.command()
@click.argument("file", required=False, type=click.Path(dir_okay=False, path_type=Path))
@click.option("--verify", is_flag=True, help="Compare all that is stored, or in the copy FILE, with its hashes.")
@click.option("--head", metavar="HEX", callback=_digits, help="With --verify: whether it goes on from this head.")
@click.option("--anew", is_flag=True, help="With --verify: do not go on where an interrupted one stopped.")
@click.option("--backup", is_flag=True, help="Copy the store while it is in use, and examine the copy.")
@common.out_option(
    "out",
    "",
    "With --backup: a new file, which is kept for good. Else beside the store.",
    type=click.Path(dir_okay=False, path_type=Path),
)
@click.option("--recover", is_flag=True, help="Put the backup FILE, else the newest, into the place of the store.")
@click.option("--yes", is_flag=True, help="With --recover: do not ask.")
@click.option("--vacuum", is_flag=True, help="Rewrite the store without unused room. Every result stays.")
@common.json_option
def command(
    file: Path | None,
    head: str | None,
    anew: bool,
    out: Path | None,
    yes: bool,
    as_json: bool,
    **_: bool,
) -> int:
    """Show where results are kept: path, size, runs, schema version, SQLite, backups, files set aside. Or examine,
    copy, recover or shrink what is there.

    --verify compares every stored run, sample, source and ceiling with the hash that was written with it, and all of
    them with the chain, also while runs are measured. FILE is a backup, or a file that was set aside.

    --backup writes into a new FILE, best on another disk. Without one the copy lies beside the store, where a damaged
    store is restored from, and the oldest of more than five such copies is deleted.

    --recover names the runs that the backup lacks, and keeps the store that is there beside it. No engine may run; nor
    for --vacuum.

    Exit status: 0, also where nothing is stored yet; 1 something is not what was written, is missing or was added, or
    the head is not in the chain, or it was not confirmed; 2 no such file, or one that is there already; 3 the store
    cannot be read or is damaged, nothing is stored yet, there is no room, or an engine runs.
    """
    chosen = common.action(ACTIONS)
    if file is not None and chosen != "backup":
        click.Path(exists=True).convert(file, None, None)
    match chosen:
        case "verify":
            return verify(file, head, anew=anew, as_json=as_json)
        case "backup":
            backup(out or file, as_json=as_json)
        case "recover":
            return recover(file, yes=yes, as_json=as_json)
        case "vacuum":
            vacuum(as_json=as_json)
        case _:
            info(as_json=as_json)
    return EXIT_GOOD


def info(*, as_json: bool) -> None:
    """Show where results are kept."""
    found = facts(paths.database_file())
    chained = found["chain"].plain() if found["chain"] else None
    common.answer(as_json, lambda: {**found, "chain": chained}, info_lines, found)


def info_lines(found: Mapping[str, Any], *, width: int | None) -> list[str]:
    schema = plain.count(found["schema_version"])
    if found["read_only"]:
        schema += f", this aisp writes {found['known_schema_version']}: it can only be read until aisp is updated"
    rows = [
        ["path", path_text(found["path"]) + ("" if found["exists"] else " (nothing stored yet)")],
        ["size", f"{plain.size(found['size_bytes'])}, of it unused {plain.size(found['unused_bytes'])}"],
        ["free", f"{plain.size(found['free_bytes'])} on its disk"],
        ["reserve", plain.size(found["ballast_bytes"])],
        *(
            [name.partition("_")[0], plain.count(found[name])]
            for name in ("runs", "finished_runs", "targets", "sources")
        ),
        ["newest", plain.local_time(found["newest"] or "")],
        ["schema", schema],
        ["chain", head_text(found["chain"])],
        ["SQLite", found["sqlite_version"]],
        ["lasting", "no: a temporary folder, gone after a reboot" if found["temporary"] else "yes"],
    ]
    rows += [
        [
            "backup",
            f"{path_text(kept['path'])}, {plain.size(kept['size_bytes'])}, {plain.local_time(kept['wall'])}",
        ]
        for kept in found["backups"]
    ]
    rows += [
        ["set aside", f"{path_text(kept['path'])}, {plain.size(kept['size_bytes'])}"] for kept in found["set_aside"]
    ]
    room = max(len(row[0]) for row in rows)
    return [f"{name:<{room}}  {value}" for name, value in rows]


def verify(file: Path | None, head: str | None, *, anew: bool, as_json: bool) -> int:
    """Compare what is stored with its hashes; the exit status."""
    progress = common.Progress(quiet=as_json)
    own = paths.database_file()
    foreign = upkeep.foreign_file(own)
    if file is None and not own.exists() and foreign.exists():
        file = foreign  # all that there is was imported
    with messages():
        found = upkeep.verify(
            file or own,
            lambda kind, checked, count: progress.show(_progress_line(kind, checked, count)),
            head=head or "",
            anew=anew,
        )
        beside = upkeep.verify(foreign) if file is None and foreign.exists() else None
    progress.clear()
    lacking = head is not None and found.entry is None
    if as_json:
        common.say_document(
            {
                "path": str(found.path),
                "schema_version": found.schema_version,
                "whole": found.whole,
                "checked": found.checked,
                "damage": documents(DAMAGE, found.damage),
                "chain": found.head.plain() if found.head else None,
                "head": head,
                "head_entry": found.entry,
                "resumed_from": found.begun or None,
                "foreign": beside
                and {"path": str(beside.path), "whole": beside.whole, "damage": documents(DAMAGE, beside.damage)},
            }
        )
    else:
        for kind, checked in found.checked.items():
            common.say(f"{kind:<11}  {plain.count(checked):>9}")
        if found.begun:
            when = plain.local_time(found.begun)
            common.say(f"an interrupted verify had looked at part of it, from {when} on; --anew begins again")
        for line in _damage(found)[:SHOWN]:
            common.say_outcome(line, "damaged")
        if len(found.damage) > SHOWN:
            common.say(f"and {plain.count(len(found.damage) - SHOWN)} more; --json has all")
        common.say("\n".join(_known_lines(found, head)))
        if beside is not None:
            runs = f"=> {plain.counted(beside.checked.get('run', 0), 'imported run')}: "
            runs += f"{plain.count(len(beside.damage))} not as imported" if beside.damage else "as imported"
            common.say("\n".join([*(f"imported {line}" for line in _damage(beside)[:SHOWN]), runs]))
    return EXIT_GOOD if found.whole and not lacking and (beside is None or beside.whole) else EXIT_NO


DAMAGE: tuple[Column[upkeep.Damage], ...] = fields(
    "", {"kind": "of what is stored", "id": "which", "reason": "what is wrong with it"}
)


def _damage(found: upkeep.Verified) -> list[str]:
    return [clean_line(f"{each.kind} {each.id or '-'}: {each.reason}", limit=500) for each in found.damage]


def _progress_line(kind: str, checked: int, count: int) -> str:
    """What is looked at now: "[#####     ] 1,000 of 2,000 of kind run"."""
    if not count:
        return "looking at the structure of the file"
    done = BAR_CELLS * min(checked, count) // count
    return f"[{'#' * done:<{BAR_CELLS}}] {plain.count(checked)} of {plain.count(count)} of kind {kind}"


def _known_lines(found: upkeep.Verified, wanted: str | None) -> list[str]:
    """What is known now of the whole store, and what is not."""
    if not found.whole:
        lines = [f"=> {plain.count(len(found.damage))} not what was written"]
    elif found.head is None:
        return [
            "=> every record is what was written; whether one is missing or was added is not known: this file is from "
            "before there was a chain"
        ]
    else:
        lines = ["=> all of it is what was written, and nothing is missing, added or moved since the chain began"]
    if found.head is None:
        return lines
    lines.append(f"   chain   {head_text(found.head)}")
    if wanted is not None and found.entry is None:
        lines.append(f"   head    {wanted} is not in this chain: it is another store, or one that was written anew")
    elif wanted is not None and found.entry is not None:
        since = found.head.entries - found.entry
        lines.append(f"   head    {wanted} is entry {plain.count(found.entry)}: {plain.count(since)} came since")
    else:
        lines.append(
            "   Who can write the file can write the whole chain anew, or cut off its end: compare the head with one "
            "that was kept elsewhere (--head)"
        )
    return lines


def head_text(head: chain.Head | None) -> str:
    """The end of the chain in a line."""
    if head is None:
        return f"{plain.DASH} (begins when an engine opens this store)"
    before = f", {plain.count(head.earlier)} entries for what was there before" if head.earlier else ""
    return f"head {head.short}, {plain.count(head.entries)} entries since {plain.local_time(head.since)}{before}"


def backup(file: Path | None, *, as_json: bool) -> None:
    """Copy the store while it is in use, and examine the copy before it gets its name."""
    if file is not None and file.exists():
        raise click.UsageError(f"{clean_line(bytes(file))} exists: name another file for the backup")
    database = paths.database_file()
    with messages():
        made = upkeep.copy_beside(database, file.absolute() if file else None)
        gone = [] if file else upkeep.prune(database)
    size_bytes = made.stat().st_size
    told = [f"copied to {path_text(made)} ({plain.size(size_bytes)})", *(f"deleted {path_text(each)}" for each in gone)]
    common.answer(
        as_json,
        lambda: {"backup": str(made), "size_bytes": size_bytes, "deleted": [str(each) for each in gone]},
        lambda width: told,
    )


def recover(file: Path | None, *, yes: bool, as_json: bool) -> int:
    """Put a backup into the place of the store, and name the runs that it lacks; the exit status."""
    database = paths.database_file()
    what = f"{path_text(file or 'the newest whole backup')}\ninto {path_text(database)}; what is there is kept"
    if not common.confirmed("replaces the store", what, "Restore it?", yes=yes, as_json=as_json):
        return EXIT_NO
    with messages(), alone():
        done = upkeep.restore(database, file.absolute() if file else None)
    missing = done.missing
    lines = [f"restored {path_text(done.backup)}"]
    lines += [f"what was there is kept as {path_text(done.aside)}"] if done.aside else []
    if missing.runs:
        shown = ", ".join(clean_line(run_id) for run_id in missing.runs[-NAMED:][::-1])
        more = f" and {len(missing.runs) - NAMED} more (--json names all)" if len(missing.runs) > NAMED else ""
        lines.append(f"{plain.count(len(missing.runs))} run(s) are missing now, the newest first: {shown}{more}")
    lines += [] if missing.certain else ["what was there could not be read to its end: more runs may be missing"]
    kept = {"restored": str(done.backup), "kept": str(done.aside) if done.aside else None}
    lost = {"missing": list(missing.runs), "missing_is_certain": missing.certain}
    common.answer(as_json, lambda: {**kept, **lost}, lambda width: lines)
    return EXIT_GOOD


def vacuum(*, as_json: bool) -> None:
    """Rewrite the store without unused room."""
    database = paths.database_file()
    with messages(), alone():
        before, after = upkeep.vacuum(database)
    told = f"{path_text(database)}: {plain.size(before)} before, {plain.size(after)} now"
    common.answer(
        as_json, lambda: {"path": str(database), "before_bytes": before, "after_bytes": after}, lambda width: [told]
    )


@contextlib.contextmanager
def messages() -> Iterator[None]:
    """What the store cannot do becomes a message with exit status 3."""
    try:
        yield
    except LookupError as error:
        if type(error) is not LookupError:  # KeyError and IndexError are ours to repair, not the person's
            raise
        raise NotHereError(str(error)) from None
    except StoreError as error:
        raise NotHereError(str(error)) from None


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """Be what the one engine of this state directory would be. Raises NotHereError while there is one."""
    try:
        held = lock.take("`aisp store`")
    except lock.LockRefusedError as error:
        raise NotHereError(str(error)) from None
    if held is None:
        other = lock.holder()
        if other is not None and not other.here:
            raise NotHereError(other.sentence)
        raise NotHereError("an engine uses the store; `aisp engine --stop` ends it, then try again")
    try:
        yield
    finally:
        os.ftruncate(held, 0)
        os.close(held)


_COUNTS = {
    "runs": "count(*) FROM runs",
    "finished_runs": f"count(*) FROM runs WHERE state NOT IN {NOT_ENDED}",
    "targets": "count(DISTINCT target) FROM runs",
    "sources": "count(*) FROM sources",
    "newest": "max(wall) FROM runs",
}


def facts(database: Path) -> dict[str, Any]:
    """What is known of the database; None where it does not exist. Raises NotHereError where it cannot be read."""
    unknown = ("size_bytes", *_COUNTS, "schema_version", "unused_bytes", "chain")
    ballast = upkeep.ballast_file(database)
    found: dict[str, Any] = {
        "path": str(database),
        "exists": database.exists(),
        **dict.fromkeys(unknown),
        "sqlite_version": sqlite3.sqlite_version,
        "temporary": paths.state_is_temporary(),
        "read_only": False,
        "known_schema_version": migrations.LATEST,
        "free_bytes": shutil.disk_usage(database.parent).free,
        "ballast_bytes": ballast.stat().st_size if ballast.exists() else None,
        "backups": [_file(kept) for kept in reversed(upkeep.backups(database))],
        "set_aside": [_file(kept) for kept in reversed(upkeep.asides(database))],
    }
    if not found["exists"]:
        return found
    found["size_bytes"] = upkeep.size_bytes(database)
    try:
        with closing(open_read_only(database)) as connection:

            def one(query: str) -> Any:
                return connection.execute(query).fetchone()[0]

            found["schema_version"] = one("PRAGMA user_version")
            found["read_only"] = found["schema_version"] > migrations.LATEST
            found["unused_bytes"] = one("PRAGMA freelist_count") * one("PRAGMA page_size")
            found |= {name: one(f"SELECT {query}") for name, query in _COUNTS.items()}
            found["chain"] = chain.head(connection)
    except sqlite3.Error as error:
        raise NotHereError(f"{database} cannot be read: {error}") from None
    return found


def _file(path: Path) -> dict[str, Any]:
    status = path.stat()
    wall = datetime.fromtimestamp(status.st_mtime, UTC).isoformat(timespec="milliseconds")
    return {"path": str(path), "size_bytes": status.st_size, "wall": wall}
