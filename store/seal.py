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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from json.encoder import encode_basestring_ascii as text_json
from typing import Any

from aisp.store.migrations import LATEST, version

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

SHARED = ("snapshot", "environment", "manifest")
"""Columns of a run with the hash of something that many runs have in common."""


def sha256(data: bytes) -> str:
    """Hex digest."""
    return hashlib.sha256(data).hexdigest()


def sealed(content: Mapping[str, object]) -> str:
    """sha256 over data as JSON."""
    return sha256(_CANONICAL.encode(content).encode("ascii"))


def without_nulls(row: Row) -> Row:
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
        "run": without_nulls(run),
        "arms": [without_nulls(row) for row in arms],
        "comparisons": [without_nulls(row) for row in comparisons],
        "steps": [without_nulls(row) for row in steps],
        "samples": dict(samples),
        "telemetry": telemetry,
    }
    if findings:
        content["findings"] = findings
    return sealed(content)


def arrays_hash(plain: Mapping[str, bytes]) -> str:
    """sha256 over arrays by name, inflated."""
    return joined_hash({name: hashlib.sha256(array).digest() for name, array in plain.items()})


def joined_hash(digests: Mapping[str, bytes]) -> str:
    """`arrays_hash` of the arrays with these sha256."""
    return sha256(b"".join([name.encode("ascii") + b"\0" + digests[name] for name in sorted(digests)]))


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
    hashes: dict[int, tuple[dict[str, str], str]] = {number: ({}, "") for number in numbers}
    for chunk, marks in chunks(numbers):
        for run, rung, sha in connection.execute(SAMPLES_SQL.format(marks=marks), chunk):
            hashes[run][0][rung] = sha
        for run, sha in connection.execute(f"SELECT run, sha256 FROM telemetry WHERE run IN ({marks})", chunk):
            hashes[run] = (hashes[run][0], sha)
    return hashes


@dataclass(slots=True)
class RawRun:
    """A run's rows as they lie there: JSON of what the hash covers, its hash, and the hashes in SHARED."""

    run: str
    seal: str | None
    shared: tuple[str, ...]
    arms: list[str] = field(default_factory=list)
    comparisons: list[str] = field(default_factory=list)
    steps: list[str] = field(default_factory=list)
    findings: Row | None = None

    def fits(self, samples: Mapping[str, str], telemetry: str) -> bool:
        """Whether the run is the one that was sealed; one that has not ended has no seal to fit."""
        if self.seal is None:
            return True
        try:
            findings = self._findings_hash() if self.findings else ""
            made = sha256(self._content(samples, telemetry, findings).encode("ascii"))
        except (ValueError, TypeError):  # what JSON cannot say, and findings that do not unpack
            return False
        return made == self.seal

    def _content(self, samples: Mapping[str, str], telemetry: str, findings: str) -> str:
        """The JSON that `digest` makes its hash over, put together from that of the rows."""
        hashes = ",".join([f"{text_json(rung)}:{text_json(samples[rung])}" for rung in sorted(samples)])
        member = f'"findings":{text_json(findings)},' if findings else ""
        return (
            f'{{"arms":[{",".join(self.arms)}],"comparisons":[{",".join(self.comparisons)}],{member}"run":{self.run},'
            f'"samples":{{{hashes}}},"steps":[{",".join(self.steps)}],"telemetry":{text_json(telemetry)}}}'
        )

    def _findings_hash(self) -> str:
        """Hash as `findings_hash`, of as many findings as the row says, which is not hashed. Raises ValueError."""
        assert self.findings is not None
        notable, others = self.findings["notable"].encode("utf-8"), inflated(self.findings["others"])
        texts, count = (notable, others), self.findings["count"]
        seen = sum(text.startswith(b"[[") + len(_NEXT_ITEM.findall(text)) for text in texts)
        # Reading all of the JSON costs as much as all else: it settles what a strange name of a check leaves open.
        if seen != count and sum(len(json.loads(text)) for text in texts) != count:
            raise ValueError("the findings are not as many as is said")
        return sha256(notable + b"\0" + others)


def raw_runs(connection: sqlite3.Connection, numbers: Sequence[int]) -> dict[int, RawRun]:
    """The rows of the runs with these numbers; unknown numbers are left out. Call it inside a transaction."""
    runs: dict[int, RawRun] = {}
    findings = version(connection) >= FINDINGS_SINCE
    for chunk, marks in chunks(numbers):
        for (number, sealed_, *shared), run in _selected(
            connection, "runs", ("number", "sha256", *SHARED), f"number IN ({marks})", chunk
        ):
            runs[number] = RawRun(run, sealed_, tuple(shared))
        for table in ("arms", "comparisons", "steps"):
            where = f"run IN ({marks}) ORDER BY run, position"
            for (number,), row in _selected(connection, table, ("run",), where, chunk):
                if number in runs:  # a child without its run is damage that quick_check does not look for
                    getattr(runs[number], table).append(row)
        if findings:
            sql = f"SELECT run, count, notable, others FROM findings WHERE run IN ({marks})"
            for run, count, notable, others in connection.execute(sql, chunk):
                if run in runs:
                    runs[run].findings = {"count": count, "notable": notable, "others": others}
    return runs


def _selected(
    connection: sqlite3.Connection, table: str, first: Sequence[str], where: str, numbers: Sequence[int]
) -> Iterator[tuple[Sequence[Any], str]]:
    """Columns of each row, and as JSON what the hash covers of it."""
    there = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
    names = sorted(name for name in there if name not in _OUTSIDE[table])
    columns = ", ".join(f'"{name}"' for name in (*first, *names))
    rows = connection.execute(f"SELECT {columns} FROM {table} WHERE {where}", numbers).fetchall()
    return zip([row[: len(first)] for row in rows], solid_json(names, [row[len(first) :] for row in rows]), strict=True)


def solid_json(names: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> Iterator[str]:
    """JSON of what `without_nulls` leaves of each row, as `sealed` writes it; `names` are those of the columns, sorted.

    A run has a hundred values. Column by column, each of one type, they take a fourth of the time.
    """
    columns = [_members(name, values) for name, values in zip(names, zip(*rows, strict=True), strict=False)]
    return (f"{{{','.join(filter(None, row))}}}" for row in zip(*columns, strict=True))


def _members(name: str, values: tuple[Any, ...]) -> list[str]:
    """A column as members of the rows' JSON; "" where a row has none."""
    key = f"{text_json(name)}:"
    kinds = set(map(type, values)) - {type(None)}
    if kinds == {str}:  # few are different
        texts = {value: key + text_json(value) for value in set(values) if value}
        return [texts.get(value, "") for value in values]
    spell = _SPELL[kinds.pop()] if len(kinds) == 1 else lambda value: _SPELL[type(value)](value)
    return [key + spell(value) if value is not None and value != "" else "" for value in values]


def _number_json(value: float) -> str:
    text = repr(value)
    return _UNBOUNDED.get(text, text)


_UNBOUNDED = {"inf": "Infinity", "-inf": "-Infinity"}  # SQLite knows no other number that JSON has none for
_SPELL: Mapping[type, Callable[[Any], str]] = {
    str: text_json,
    int: repr,
    float: _number_json,
    bytes: lambda value: f'"{value.hex()}"',
}


def changed(connection: sqlite3.Connection, numbers: Sequence[int]) -> set[int]:
    """Runs with these numbers that have ended and are not what was written.

    None in a file of a newer aisp: what that seals is not known here. Call it inside a transaction.
    """
    if version(connection) > LATEST:
        return set()
    hashes = array_hashes(connection, numbers)
    return {number for number, run in raw_runs(connection, numbers).items() if not run.fits(*hashes[number])}
