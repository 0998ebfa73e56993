"""A run as a package: one JSON document with the record, its sources, samples, telemetry and environment, and the
hashes that seal them; and the store of foreign runs, which such packages from other machines are taken into.

Foreign runs lie in a file of their own beside the store (`upkeep.foreign_file`), with its schema and its own chain. So
none of them can be a target's last result, or count in a suite, a prediction, a quarantine or a noise floor: whatever
asks the store does not see them. `History` shows them where a person asks for one by its id, or for the foreign ones.

A package is believed as far as its hashes reach: they show a change that was not meant, and a careless one. Whoever
writes a package can compute them anew; it is not signed.

Nothing is inflated before its size is known to be small enough, and no part of a package is ever run.
"""

from __future__ import annotations

import base64
import binascii
import errno
import json
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from aisp.kernels.catalog.model import MAX_RANKS
from aisp.store import content, upkeep
from aisp.store.errors import StoreCorruptError
from aisp.store.given import json_of, refuse_halves, regular_bytes
from aisp.store.record import ContradictionError, Run
from aisp.store.rows import RunRows
from aisp.store.samples import RANK_COLUMNS, Samples, Telemetry
from aisp.store.seal import Row, sha256
from aisp.store.text import clean_line, printable
from aisp.store.ulid import is_ulid

if TYPE_CHECKING:
    from aisp.store.reader import History

KIND = "aisp run"
SCHEMA = 1
PACKAGE_BYTES = 64 * 2**20
"""Most that a package may take."""
ARRAY_BYTES = 256 * 2**20
"""Most that all arrays of one may take, inflated."""
_NOT_BOTH = (
    "one of the two is not what it says. What is here stays as it is; to look at this one by itself, import it with "
    "AISP_STATE set to an empty folder"
)
_YEARS = range(2000, 2100)
_LONGEST_MS = 366 * 86_400e3
_TOO_LARGE = f"it is larger than {PACKAGE_BYTES // 2**20} MiB, which no package is"
_ARRAYS = (*content.SAMPLE_FLOATS, *content.SAMPLE_INTS)
_READINGS = (*content.TELEMETRY_FLOATS, *content.TELEMETRY_INTS)


class PackageError(ValueError):
    """Something is no package, or not the one that was written. The text says what is wrong."""


@dataclass(frozen=True, slots=True)
class Package:
    """What a package holds, its hashes found to fit.

    Attributes:
        seal: sha256 that the run was sealed with where it was made.
        sources: None where the store that it came from had none.
        made_by: the version of aisp that wrote it.
    """

    run: Run
    seal: str
    environment: Mapping[str, object]
    sources: Mapping[str, bytes] | None
    samples: Mapping[str, Samples]
    telemetry: Telemetry | None
    made_by: str


class _Arrays(msgspec.Struct, frozen=True):
    """Arrays of one length, deflated, in base64."""

    count: int
    sha256: str
    arrays: dict[str, str]


class _Source(msgspec.Struct, frozen=True):
    """A file's content: as text where it is UTF-8, else in base64."""

    text: str | None = None
    base64: str | None = None


class _Hashes(msgspec.Struct, frozen=True):
    run: str
    environment: str
    snapshot: str
    package: str


class _Document(msgspec.Struct, frozen=True):
    run: Run
    environment: dict[str, Any]
    sources: dict[str, _Source] | None
    samples: dict[str, _Arrays]
    telemetry: _Arrays | None
    hashes: _Hashes
    made_by: str = ""


# -- writing -----------------------------------------------------------------------------------------------------------


def write(history: History, run_id: str, made_by: str) -> str:
    """The package of a stored run, as JSON.

    Raises:
        LookupError: no such run.
        PackageError: it has not ended, was changed since it was written, or has figures that nobody may be shown.
    """
    kept = history.kept(run_id)
    record = kept.rows.record()
    if kept.rows.sealed is None:
        raise PackageError(f"run {record.id} has not ended: export it when it has")
    if kept.hidden:
        raise PackageError(
            f"run {record.id} has figures of a rung in quarantine ({next(iter(kept.hidden.values()))}): "
            "they are shown nowhere, and do not leave this store"
        )
    hashes = {rung: row["sha256"] for rung, row in kept.samples.items()}
    telemetry = kept.telemetry["sha256"] if kept.telemetry else ""
    if RunRows.of(record).digest(hashes, telemetry) != kept.rows.sealed:
        raise PackageError(f"run {record.id} is not what was written: `aisp store --verify` says more")
    try:
        environment = history.environment(record.environment) if record.environment else {}
        sources = history.snapshot(record.snapshot) if record.snapshot else None
    except LookupError:
        environment, sources = {}, None
    document: dict[str, Any] = {
        "kind": KIND,
        "schema": SCHEMA,
        "made_by": made_by,
        "run": _spelled(record),
        "environment": environment,
        "sources": None if sources is None else {name: _as_source(data) for name, data in sources.items()},
        "samples": {rung: _as_arrays(row, _ARRAYS) for rung, row in kept.samples.items()},
        "telemetry": _as_arrays(kept.telemetry, _READINGS) if kept.telemetry else None,
        "hashes": {"run": kept.rows.sealed, "environment": record.environment, "snapshot": record.snapshot},
    }
    document["hashes"]["package"] = _whole_hash(document)
    text = json.dumps(document, indent=1, allow_nan=False)
    if len(text) > PACKAGE_BYTES:
        raise PackageError(f"run {record.id} makes a package of {len(text)} bytes; {PACKAGE_BYTES} are the most")
    return text


def _spelled(record: Run) -> dict[str, Any]:
    """The record as data for JSON, which has no infinity: a text stands for it. Roles follow from names."""
    document: dict[str, Any] = msgspec.to_builtins(record)
    for arm in document["arms"]:
        del arm["role"], arm["twin"]
        for name, value in arm.items():
            if isinstance(value, float) and value in (float("inf"), float("-inf")):
                arm[name] = str(value)
    return document


def _as_source(data: bytes) -> dict[str, str]:
    try:
        return {"text": data.decode("utf-8")}
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode("ascii")}


def _as_arrays(row: Row, names: tuple[str, ...]) -> dict[str, Any]:
    floats = (*content.SAMPLE_FLOATS, *content.TELEMETRY_FLOATS)
    packed = {name: zlib.compress(row[name], 6) if name in floats else row[name] for name in names if row.get(name)}
    arrays = {name: base64.b64encode(data).decode("ascii") for name, data in packed.items()}
    return {"count": row["count"], "sha256": row["sha256"], "arrays": arrays}


def _whole_hash(document: Mapping[str, Any]) -> str:
    rest = {name: value for name, value in document["hashes"].items() if name != "package"}
    return sha256(content.canonical_json({**document, "hashes": rest}, "a package").encode("ascii"))


# -- reading -----------------------------------------------------------------------------------------------------------


def read_file(path: Path) -> Package:
    """The package in a file. Raises PackageError, and OSError where it cannot be read."""
    try:
        return read(regular_bytes(path, PACKAGE_BYTES, follow=True))
    except OSError as error:
        if error.errno != errno.EFBIG:
            raise
        raise PackageError(_TOO_LARGE) from None


def read(data: bytes) -> Package:
    """A package, its hashes compared. Raises PackageError for anything else."""
    document = _document(data)
    try:
        typed = msgspec.convert(document, _Document, strict=False)
        return _checked(typed)
    except msgspec.ValidationError as error:
        raise PackageError(f"it is no whole package: {clean_line(str(error), limit=500)}") from None
    except (ContradictionError, StoreCorruptError) as error:
        raise PackageError(f"it contradicts itself: {clean_line(str(error), limit=500)}") from None


def _document(data: bytes) -> dict[str, Any]:
    """The JSON, once it is known to be a package of a schema that is known here, and what was written."""
    if len(data) > PACKAGE_BYTES:
        raise PackageError(_TOO_LARGE)
    if not data.strip():
        raise PackageError("it is empty")
    try:
        document = json_of(data, halves=True)
        if isinstance(document, dict) and isinstance(document.get("sources"), dict):
            refuse_halves({**document, "sources": list(document["sources"].values())})  # their names may be any bytes
        else:
            refuse_halves(document)
    except ValueError as error:
        cut = (
            ""
            if data.rstrip().endswith(b"}") or not data.lstrip().startswith(b"{")
            else ": it ends too early, as half a file does"
        )
        raise PackageError(f"it cannot be read as JSON: {error}{cut}") from None
    if not isinstance(document, dict) or document.get("kind") != KIND:
        raise PackageError(f"it is JSON, and no package of a run: its `kind` is not {KIND!r}")
    schema = document.get("schema")
    if not isinstance(schema, int) or isinstance(schema, bool) or schema < 1:
        raise PackageError(f"its schema is {clean_line(str(schema))}, where a whole number is expected")
    if schema > SCHEMA:
        raise PackageError(f"its schema is {schema}, and this aisp knows {SCHEMA}: update aisp")
    hashes = document.get("hashes")
    if not isinstance(hashes, dict) or not isinstance(hashes.get("package"), str):
        raise PackageError("it has no hash over the whole of it")
    try:
        fits = _whole_hash(document) == hashes["package"]
    except (RecursionError, ValueError):
        fits = False
    if not fits:
        raise PackageError("it is not what was written: its hash does not fit, so something in it was changed")
    if strange := next(_unprintable(document.get("run")), ""):
        raise PackageError(f"its run has a text that no record has: {clean_line(strange, limit=200)}")
    return document


def _unprintable(value: object) -> Iterator[str]:
    """Texts of a record that would not be drawn as they are; a manifest is drawn nowhere."""
    if isinstance(value, str):
        if not printable(value, lines=True):
            yield value
    elif isinstance(value, dict | list):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, each in items:
            if key != "manifest":
                yield from _unprintable(each)


def _checked(document: _Document) -> Package:
    """What the document holds, every hash compared."""
    hashes = document.hashes
    # Through its rows: what the seal does not cover is made of what it does.
    rows = RunRows.of(document.run)
    run = rows.record()
    if not run.state.final:
        raise PackageError(f"its run is {run.state}: only runs that have ended are packed")
    if wrong := next(_impossible(run), ""):
        raise PackageError(f"{wrong}, which no run of aisp has")
    size = sum(_most_bytes(name, some.count) for some in _all_arrays(document) for name in some.arrays)
    if size > ARRAY_BYTES:
        raise PackageError(f"its arrays would take {size} bytes; {ARRAY_BYTES} are the most")
    strange = sorted(set(document.samples) - {arm.rung for arm in run.arms})
    if strange:
        raise PackageError(f"it has samples of {clean_line(', '.join(strange))}, which is none of the run's rungs")
    samples = {rung: _unpacked(some, _ARRAYS) for rung, some in document.samples.items()}
    telemetry = _unpacked(document.telemetry, _READINGS) if document.telemetry is not None else None
    digest = rows.digest(
        {rung: row["sha256"] for rung, row in samples.items()}, telemetry["sha256"] if telemetry is not None else ""
    )
    if digest != hashes.run:
        raise PackageError("its run is not the one that was sealed: a figure in the record was changed")
    environment = content.canonical_json(document.environment, "the environment")
    if document.environment and sha256(environment.encode("ascii")) != run.environment:
        raise PackageError("its environment is not the one that the run names")
    sources = None
    if document.sources is not None:
        if strange := [name for name in document.sources if not printable(name)]:
            raise PackageError(f"its source {clean_line(strange[0])!r} has a name that is not one line of plain signs")
        sources = {name: _source(name, one) for name, one in document.sources.items()}
        if _snapshot(sources) != run.snapshot:
            raise PackageError("its sources are not those that the run names")
    return Package(
        run,
        hashes.run,
        document.environment,
        sources,
        {rung: content.unpack_samples(row) for rung, row in samples.items()},
        content.unpack_telemetry(telemetry) if telemetry is not None else None,
        clean_line(document.made_by),
    )


def _impossible(run: Run) -> Iterator[str]:
    """What its seals may hold together and no engine has written: names that lead elsewhere, times that never were."""
    if not is_ulid(run.id) or not is_ulid(run.epoch):
        yield f"its id is {run.id!r}, of the engine {run.epoch!r}, and not two ULIDs"
    try:
        if datetime.fromisoformat(run.wall).year not in _YEARS:
            raise ValueError
    except ValueError:
        yield f"its time is {run.wall!r}"
    if run.seed is not None and not 0 <= run.seed < 2**64:
        yield f"its seed is {run.seed}"
    for name in {arm.rung for arm in run.arms} | {each.rung for each in run.comparisons}:
        if not name or "/" in name or name.startswith("."):
            yield f"a rung of it is called {name!r}"
    steps = {f"step {step.name}": step.duration_ms for step in run.steps}
    for what, ms in {"run": run.duration_ms, **steps}.items():
        if ms is not None and not 0 <= ms < _LONGEST_MS:
            yield f"its {what} took {ms} ms"
    counts = (run.seq, run.start_ns, run.attempt, *(step.start_ns for step in run.steps))
    counts += tuple(n for arm in run.arms for n in (arm.sample_count, arm.peak_bytes))
    if min((count for count in counts if count is not None), default=0) < 0:
        yield "a count or a time in it is below zero"


def _all_arrays(document: _Document) -> list[_Arrays]:
    return [*document.samples.values(), *([document.telemetry] if document.telemetry is not None else [])]


def _most_bytes(name: str, count: int) -> int:
    """The most that an array of so many samples or readings takes, inflated."""
    return 8 * max(0, count) * (MAX_RANKS if name in RANK_COLUMNS else 1)


def _unpacked(some: _Arrays, names: tuple[str, ...]) -> Row:
    """The row that the arrays were made of. Its own hash is compared when it is unpacked."""
    if some.count < 0 or not set(some.arrays) <= set(names):
        raise PackageError("it has arrays that no run has")
    floats = (*content.SAMPLE_FLOATS, *content.TELEMETRY_FLOATS)
    row: Row = {"count": some.count, "sha256": some.sha256, **dict.fromkeys(names)}
    try:
        for name, text in some.arrays.items():
            packed = base64.b64decode(text, validate=True)
            row[name] = content.inflated_array(packed, _most_bytes(name, some.count)) if name in floats else packed
    except (binascii.Error, ValueError, zlib.error) as error:
        raise PackageError(f"an array of it does not unpack: {error}") from None
    missing = [name for name in names if row[name] is None and name not in content.LATER_FLOATS]
    if missing and some.count:
        raise PackageError(f"it lacks the arrays {', '.join(missing)}")
    return {name: b"" if value is None and name in missing else value for name, value in row.items()}


def _source(name: str, one: _Source) -> bytes:
    if one.text is not None:
        return one.text.encode("utf-8", "surrogatepass")
    try:
        return base64.b64decode(one.base64 or "", validate=True)
    except (binascii.Error, ValueError):
        raise PackageError(f"its source {clean_line(name)} does not unpack") from None


def _snapshot(sources: Mapping[str, bytes]) -> str:
    try:
        return content.snapshot_hash(sources)
    except ValueError as error:
        raise PackageError(f"its sources have an impossible name: {clean_line(str(error))}") from None


# -- taking in ---------------------------------------------------------------------------------------------------------


def take_in(store: Path, package: Package) -> bool:
    """Put a package's run among the foreign ones beside the store at this path. Returns whether it was not there yet.

    Raises:
        PackageError: the run was made here, or another one of its id is there.
        StoreError: as Store.open and Store.finish do.
    """
    from aisp.store.reader import History
    from aisp.store.writer import Store  # sqlite-utils: only where something is written

    with History(store) as own:
        if own.made_here(package.run.id):
            if own.kept(package.run.id).rows.sealed == package.seal:
                raise PackageError(f"run {package.run.id} was made by this store: it is in its history already")
            raise PackageError(f"run {package.run.id} was made by this store, and is another there: {_NOT_BOTH}")
    with Store.open(upkeep.foreign_file(store)) as foreign:
        present = foreign.knows(package.run.id)
        if package.sources is not None and not present:
            foreign.put_snapshot(package.sources)
        if package.environment and not present:
            foreign.put_environment(package.environment)
        try:
            foreign.finish(package.run, package.samples, package.telemetry)
        except ContradictionError as error:
            if not present:
                raise PackageError(f"it contradicts itself: {clean_line(str(error), limit=500)}") from None
            raise PackageError(f"another run {package.run.id} was imported before: {_NOT_BOTH}") from None
    return not present
