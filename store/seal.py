"""The hash that seals a run: over its rows as they lie in the tables, its arrays and its findings.

NULL and empty text are left out, so that a column which is added later does not change older hashes. Imports no numpy:
a list of targets tells a record that was changed before numpy is imported, and `verify` looks at nothing but bytes.
"""

from __future__ import annotations

import hashlib
import json
import re
import sqlite3
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from store.migrations import LATEST, version

Row = dict[str, Any]
"""Column name to what SQLite holds: None, int, float, str or bytes."""

# Where an item of the findings' JSON follows another. Never within a text: there a quote has a backslash before it, or
# ends the text and has a comma or a bracket behind it. Items of a check with such a name are not seen.
_NEXT_ITEM = re.compile(rb'\],\[\d+,"[^,\]"]')

SAMPLES_SQL = "SELECT run, rung, sha256 FROM samples WHERE run IN ({marks})"
_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"))
CHUNK = 500  # row numbers in one IN (...): SQLite takes 999 parameters at least

FINDINGS_SINCE = 4
"""Schema version from which there are the tables findings and quarantines, and the view hidden."""

FINDINGS_BYTES = 16 * 2**20
"""Most that the findings of one run may take as JSON: ten times what 400 checks with the longest evidence do."""

_OUTSIDE: Mapping[str, frozenset[str]] = {
    "runs": frozenset({"number", "sha256", "folder_label"}),
    "arms": frozenset({"run"}),
    "comparisons": frozenset({"run"}),
    "steps": frozenset({"run"}),
}
"""Columns that the hash does not cover, by table: the order of planning, the hash itself and what is derived."""


def sha256(data: bytes) -> str:
    """Hex digest."""
    return hashlib.sha256(data).hexdigest()


def sealed(content: Mapping[str, object]) -> str:
    """sha256 over data as JSON."""
    return sha256(_CANONICAL.encode(content).encode("ascii"))


def solid(row: Row) -> Row:
    """What a hash covers of a row: all that is neither NULL nor empty."""
    return {
        name: value.hex() if isinstance(value, bytes) else value
        for name, value in row.items()
        if value is not None and value != ""
    }


def digest(
    run: Row,
    arms: Iterable[Row],
    comparisons: Iterable[Row],
    steps: Iterable[Row],
    samples: Mapping[str, str],
    telemetry: str,
    findings: str = "",
) -> str:
    """sha256 over a run's content.

    Args:
        run, arms, comparisons, steps: rows, with the columns of the records alone.
        samples: sha256 of the arrays by rung.
        telemetry: sha256 of the arrays, "" where there are none.
        findings: `findings_hash`, "" where there are none.
    """
    content: dict[str, object] = {
        "run": solid(run),
        "arms": [solid(row) for row in arms],
        "comparisons": [solid(row) for row in comparisons],
        "steps": [solid(row) for row in steps],
        "samples": dict(samples),
        "telemetry": telemetry,
    }
    if findings:
        content["findings"] = findings
    return sealed(content)


def arrays_hash(plain: Mapping[str, bytes]) -> str:
    """sha256 over arrays by name, inflated."""
    whole = hashlib.sha256()
    for name in sorted(plain):
        whole.update(name.encode("ascii") + b"\0" + hashlib.sha256(plain[name]).digest())
    return whole.hexdigest()


def findings_hash(row: Mapping[str, Any]) -> str:
    """sha256 over a row of findings, whatever the compressor. Raises ValueError for what does not unpack."""
    return sha256(row["notable"].encode("utf-8") + b"\0" + inflated(row["others"]))


def inflated(blob: bytes) -> bytes:
    """The JSON of a run's findings. Raises ValueError for what does not unpack."""
    inflater = zlib.decompressobj()
    try:
        # The bound is on what a damaged blob can make us allocate.
        plain = inflater.decompress(blob, FINDINGS_BYTES + 1)
    except zlib.error as error:
        raise ValueError(f"the findings do not unpack: {error}") from None
    if not inflater.eof or inflater.unused_data:
        raise ValueError("the findings do not end where they should")
    return plain


# -- runs as they lie in the tables ------------------------------------------------------------------------------------


def chunks(numbers: Sequence[int]) -> Iterator[tuple[Sequence[int], str]]:
    """Numbers in portions that one statement takes, each with its marks: "?, ?, ?"."""
    for start in range(0, len(numbers), CHUNK):
        chunk = numbers[start : start + CHUNK]
        yield chunk, ", ".join("?" * len(chunk))


def array_hashes(connection: sqlite3.Connection, numbers: Sequence[int]) -> dict[int, tuple[dict[str, str], str]]:
    """What the rows of each run say of its samples, by rung, and of its telemetry; the arrays are not looked at."""
    found: dict[int, tuple[dict[str, str], str]] = {number: ({}, "") for number in numbers}
    for chunk, marks in chunks(numbers):
        for run, rung, sha in connection.execute(
            f"SELECT run, rung, sha256 FROM samples WHERE run IN ({marks})", chunk
        ):
            found[run][0][rung] = sha
        for run, sha in connection.execute(f"SELECT run, sha256 FROM telemetry WHERE run IN ({marks})", chunk):
            found[run] = (found[run][0], sha)
    return found


@dataclass(slots=True)
class RawRun:
    """A run's rows as they lie there, with the columns that the hash covers."""

    run: Row
    seal: str | None
    arms: list[Row] = field(default_factory=list)
    comparisons: list[Row] = field(default_factory=list)
    steps: list[Row] = field(default_factory=list)
    findings: Row | None = None

    def fits(self, samples: Mapping[str, str], telemetry: str) -> bool:
        """Whether the run is the one that was sealed; one that has not ended has no seal to fit."""
        if self.seal is None:
            return True
        try:
            findings = self._findings_hash() if self.findings else ""
            made = digest(self.run, self.arms, self.comparisons, self.steps, samples, telemetry, findings)
        except (ValueError, TypeError):  # what JSON cannot say, and findings that do not unpack
            return False
        return made == self.seal

    def _findings_hash(self) -> str:
        """As `findings_hash`, of as many findings as the row says, which is not hashed. Raises ValueError."""
        assert self.findings is not None
        notable, others = self.findings["notable"].encode("utf-8"), inflated(self.findings["others"])
        texts, said = (notable, others), self.findings["count"]
        seen = sum(text.startswith(b"[[") + len(_NEXT_ITEM.findall(text)) for text in texts)
        # Reading all of the JSON costs as much as all else: it settles what a strange name of a check leaves open.
        if seen != said and sum(len(json.loads(text)) for text in texts) != said:
            raise ValueError("the findings are not as many as is said")
        return sha256(notable + b"\0" + others)


def raw_runs(connection: sqlite3.Connection, numbers: Sequence[int]) -> dict[int, RawRun]:
    """The rows of the runs with these numbers; unknown numbers are left out. Call it inside a transaction."""
    found: dict[int, RawRun] = {}
    findings = version(connection) >= FINDINGS_SINCE
    for chunk, marks in chunks(numbers):
        for number, sealed_, row in _selected(connection, "runs", "number, sha256", f"number IN ({marks})", chunk):
            found[number] = RawRun(row, sealed_)
        for table in ("arms", "comparisons", "steps"):
            where = f"run IN ({marks}) ORDER BY run, position"
            for number, _, row in _selected(connection, table, "run, run", where, chunk):
                if number in found:  # a child without its run is damage that quick_check does not look for
                    getattr(found[number], table).append(row)
        if findings:
            sql = f"SELECT run, count, notable, others FROM findings WHERE run IN ({marks})"
            for run, count, notable, others in connection.execute(sql, chunk):
                if run in found:
                    found[run].findings = {"count": count, "notable": notable, "others": others}
    return found


def _selected(
    connection: sqlite3.Connection, table: str, first: str, where: str, given: Sequence[int]
) -> Iterator[tuple[int, Any, Row]]:
    """Two columns of each row, and what the hash covers of it."""
    names = [row[1] for row in connection.execute(f"PRAGMA table_info({table})") if row[1] not in _OUTSIDE[table]]
    columns = ", ".join(f'"{name}"' for name in names)
    for number, other, *values in connection.execute(f"SELECT {first}, {columns} FROM {table} WHERE {where}", given):
        yield number, other, dict(zip(names, values, strict=True))


def changed(connection: sqlite3.Connection, numbers: Sequence[int]) -> set[int]:
    """Those of the runs with these numbers that have ended and are not what was written.

    None in a file of a newer aisp: what that seals is not known here. Call it inside a transaction.
    """
    if version(connection) > LATEST:
        return set()
    hashes = array_hashes(connection, numbers)
    return {number for number, run in raw_runs(connection, numbers).items() if not run.fits(*hashes[number])}
