"""The chain: what the store took in, in its order, each entry bound to the one before.

A finished run, a peak, a fuzz, a failing case and every change of a quarantine has an entry, written by the transaction
that writes the thing itself. Its link is a sha256 over the link before, the kind, the number and id of the row, and the
row's own digest. So the last link, the head, stands for all that was taken in: nothing of it can be removed, added,
changed or moved without another head, unless links are computed anew. Whoever can write the file can do that. A head
that was noted elsewhere shows it, and nothing in the file can. A head noted earlier is found as the link of an entry,
with later entries behind it.

Imports neither numpy nor sqlite-utils.
"""

from __future__ import annotations

import enum
import json
import secrets
import sqlite3
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from aisp.store.migrations import CHAIN_SINCE, version, wall
from aisp.store.seal import sealed, sha256, without_nulls

SHORT = 12
"""Hex digits of a head where people read it; JSON has all 64."""
_BEFORE_ALL = ""
_COMPACT = json.JSONEncoder(separators=(",", ":"))


class Kind(enum.StrEnum):
    """What an entry speaks of."""

    ORIGIN = "origin"  # the chain begins; `number` records were there before, and their entries follow
    RUN = "run"
    PEAK = "peak"
    FUZZ = "fuzz"
    FAILURE = "failure"
    QUARANTINE = "quarantine"  # put, ended or in force again: the digest is over the row as it is since
    WITHDRAWN = "withdrawn"  # a person forgave it, or a newer one of the same code took its place
    RESTORED = "restored"  # a backup took the place of a store of `number` entries, whose head is the digest


TABLES = {Kind.RUN: "runs", Kind.PEAK: "peaks", Kind.FUZZ: "fuzzes", Kind.FAILURE: "failures"}
"""Where the records lie that have an entry each, once, under their id."""


@dataclass(frozen=True, slots=True)
class Head:
    """The end of a chain.

    Attributes:
        entries: how many there are.
        link: the last one's; 64 hex digits.
        since: when the chain began, UTC.
        earlier: how many records were there before that.
    """

    entries: int
    link: str
    since: str
    earlier: int

    @property
    def short(self) -> str:
        """What people compare."""
        return self.link[:SHORT]

    def plain(self) -> dict[str, str | int]:
        """Plain data for JSON."""
        return {"head": self.link, "entries": self.entries, "since": self.since, "earlier": self.earlier}


@dataclass(frozen=True, slots=True)
class Misfit:
    """Something in which the chain and the tables differ.

    Attributes:
        kind: of the record; "quarantine", or "chain" for the chain itself.
        id: of the record; of a quarantine, its target and rung; "" for the chain.
        reason: one sentence, with numbers.
    """

    kind: str
    id: str
    reason: str


def link_after(link: str, kind: str, number: int, subject: str, digest: str) -> str:
    """The link of an entry behind the one with this link."""
    return sha256(_COMPACT.encode([link, kind, number, subject, digest]).encode("ascii"))


def head(connection: sqlite3.Connection) -> Head | None:
    """The end of the chain; None in a file from before there was one."""
    if version(connection) < CHAIN_SINCE:
        return None
    last = connection.execute("SELECT seq, link FROM chain ORDER BY seq DESC LIMIT 1").fetchone()
    first = connection.execute("SELECT subject, number FROM chain ORDER BY seq LIMIT 1").fetchone()
    return Head(*last, *first) if last else None


def find(connection: sqlite3.Connection, link: str) -> int | None:
    """The entry whose link begins so; None where there is none, and in a file from before there was a chain."""
    if version(connection) < CHAIN_SINCE:
        return None
    sql = "SELECT seq FROM chain WHERE substr(link, 1, ?) = ? ORDER BY seq DESC LIMIT 1"
    row = connection.execute(sql, [len(link), link.lower()]).fetchone()
    return int(row[0]) if row else None


# -- writing: inside the transaction that writes what the entry is about ----------------------------------------------


def extend(connection: sqlite3.Connection, entries: Iterable[tuple[str, int, str, str]]) -> None:
    """Add entries: kind, number of the row, its id, its digest."""
    last = connection.execute("SELECT seq, link FROM chain ORDER BY seq DESC LIMIT 1").fetchone()
    seq, link = last or (0, _BEFORE_ALL)
    connection.executemany("INSERT INTO chain VALUES (?, ?, ?, ?, ?, ?)", _linked(seq, link, entries))


def _linked(
    seq: int, link: str, entries: Iterable[tuple[str, int, str, str]]
) -> Iterator[tuple[int, str, int, str, str, str]]:
    for seq_, (kind, number, subject, digest) in enumerate(entries, start=seq + 1):
        link = link_after(link, kind, number, subject, digest)
        yield seq_, str(kind), number, subject, digest, link


def append(connection: sqlite3.Connection, kind: Kind, number: int, subject: str, digest: str) -> None:
    """Add one entry."""
    extend(connection, [(kind, number, subject, digest)])


def append_quarantines(connection: sqlite3.Connection, numbers: Iterable[int]) -> None:
    """Add an entry for each of these quarantines as it is now."""
    for number in numbers:
        ((subject, digest),) = _quarantines(connection, number).values()
        append(connection, Kind.QUARANTINE, number, subject, digest)


def begin(connection: sqlite3.Connection) -> None:
    """Begin the chain with what is there. The first link is over a random number: no two stores have one in common."""
    there = [
        (kind.value, *row)
        for kind, table in TABLES.items()
        for row in connection.execute(
            f"SELECT number, id, sha256 FROM {table} WHERE sha256 IS NOT NULL ORDER BY number"
        ).fetchall()
    ]
    there += [(Kind.QUARANTINE.value, number, *row) for number, row in _quarantines(connection).items()]
    append(connection, Kind.ORIGIN, len(there), wall(), secrets.token_hex(32))
    extend(connection, there)


def append_restored(connection: sqlite3.Connection, replaced: Head | None) -> None:
    """Note that this store, a backup, takes the place of one with that head; None where the head is not known."""
    entries, link = (replaced.entries, replaced.link) if replaced else (0, "")
    append(connection, Kind.RESTORED, entries, wall(), link)


def _quarantines(connection: sqlite3.Connection, number: int | None = None) -> dict[int, tuple[str, str]]:
    """Subject and digest of one quarantine, or of all, by number."""
    where, parameters = ("", []) if number is None else (" WHERE number = ?", [number])
    cursor = connection.execute(f"SELECT * FROM quarantines{where} ORDER BY number", parameters)
    names = [column[0] for column in cursor.description]
    rows = [dict(zip(names, values, strict=True)) for values in cursor.fetchall()]
    return {row["number"]: (quarantine_subject(row["target"], row["rung"]), sealed(without_nulls(row))) for row in rows}


def quarantine_subject(target: str, rung: str) -> str:
    """What the entry of a quarantine calls it."""
    return f"{target} {rung}"


# -- is it what the tables say? ----------------------------------------------------------------------------------------


def examine(connection: sqlite3.Connection) -> list[Misfit]:
    """Everything in which the chain contradicts itself or the tables. Call it inside a transaction.

    Takes some microseconds per entry. A file from before there was a chain has nothing to contradict.
    """
    if version(connection) < CHAIN_SINCE:
        return []
    return [*_broken_links(connection), *_unlike_records(connection), *_unlike_quarantines(connection)]


def _broken_links(connection: sqlite3.Connection) -> Iterator[Misfit]:
    seq, link = 0, _BEFORE_ALL
    for seq_, kind, number, subject, digest, link_ in connection.execute("SELECT * FROM chain ORDER BY seq"):
        if seq_ > seq + 1:
            gone = f"entry {seq + 1} is" if seq_ == seq + 2 else f"entries {seq + 1} to {seq_ - 1} are"
            yield Misfit("chain", "", f"{gone} gone")
        elif _of_other_kinds(kind, number, subject, digest) or link_ != link_after(link, kind, number, subject, digest):
            yield Misfit(
                "chain",
                "",
                f"entry {seq_} ({kind} {subject}) does not follow the one before it: added, changed or moved",
            )
        if (kind == Kind.ORIGIN) != (seq_ == 1):
            yield Misfit("chain", "", f"entry {seq_} is {kind}: a chain has one origin, and begins with it")
        seq, link = seq_, link_
    if seq == 0:
        yield Misfit("chain", "", "all of its entries are gone")


def _of_other_kinds(kind: object, number: object, subject: object, digest: object) -> bool:
    """Whether an entry holds what no entry is written with, as one of a damaged page may."""
    return not isinstance(number, int) or not all(isinstance(text, str) for text in (kind, subject, digest))


def _unlike_records(connection: sqlite3.Connection) -> Iterator[Misfit]:
    for kind, table in TABLES.items():
        numbers: set[int] = set()
        for seq, number, subject, digest, row_number, row_digest in connection.execute(
            f"SELECT chain.seq, chain.number, subject, digest, {table}.number, sha256 FROM chain "
            f"LEFT JOIN {table} ON {table}.id = subject WHERE chain.kind = ? ORDER BY chain.seq",
            [kind.value],
        ):
            entry = f"entry {seq} of the chain"
            if row_number is None:
                yield Misfit(kind, subject, f"removed: it was number {number}, {entry}")
                continue
            if row_number in numbers:
                yield Misfit(kind, subject, f"written again: {entry} is not the first that speaks of it")
            elif row_digest is None:
                yield Misfit(kind, subject, f"it had ended, by {entry}, and is on its way again")
            elif row_digest != digest:
                yield Misfit(kind, subject, f"sealed anew: its digest is not that of {entry}")
            if row_number != number:
                yield Misfit(kind, subject, f"moved: it is number {row_number} and was number {number}, by {entry}")
            numbers.add(row_number)
        for number, record in connection.execute(
            f"SELECT number, id FROM {table} WHERE sha256 IS NOT NULL ORDER BY number"
        ):
            if number not in numbers:
                yield Misfit(kind, record, f"added: no entry of the chain speaks of number {number}")


def _unlike_quarantines(connection: sqlite3.Connection) -> Iterator[Misfit]:
    """What entries say of each quarantine, the last one counting, against the table."""
    entries: dict[int, tuple[str, str]] = {}
    for kind, number, subject, digest in connection.execute(
        "SELECT kind, number, subject, digest FROM chain WHERE kind IN (?, ?) ORDER BY seq",
        [Kind.QUARANTINE.value, Kind.WITHDRAWN.value],
    ):
        if kind == Kind.WITHDRAWN:
            entries.pop(number, None)
        else:
            entries[number] = (subject, digest)
    there = _quarantines(connection)
    for number, (subject, digest) in entries.items():
        if number not in there:
            yield Misfit(Kind.QUARANTINE, subject, f"removed: it was quarantine number {number}")
        elif there[number][1] != digest:
            yield Misfit(Kind.QUARANTINE, subject, f"changed: quarantine number {number} is not what the chain says")
    for number in there.keys() - entries.keys():
        yield Misfit(
            Kind.QUARANTINE, there[number][0], f"added: no entry of the chain speaks of quarantine number {number}"
        )
