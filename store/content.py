"""How content becomes bytes and hashes: labels, source names, snapshots, sample and telemetry arrays.

Float arrays are kept as they are, little-endian float64, so that one line of any language reads a run's
times, and a million samples are written without 0.2 s of zlib (which would save an eighth of random times,
two thirds of event times with a float32's resolution). Integer arrays are zlib over little-endian int64: end
times shrink to a half, rounds to a tenth, the others to nothing.
Hashes are over the plain bytes, so that they do not depend on a compressor's version.

Only what makes arrays imports numpy, when it is called: lists of runs are read without.
"""

from __future__ import annotations

import functools
import hashlib
import json
import operator
import zlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from aisp.store import identity
from aisp.store.errors import StoreCorruptError
from aisp.store.record import ContradictionError
from aisp.store.record.run import RANK_COLUMNS
from aisp.store.seal import FINDINGS_BYTES, arrays_hash, inflated, joined_hash, sha256

if TYPE_CHECKING:
    import numpy.typing as npt

    from aisp.store.samples import Floats, Ints, Samples, Telemetry

Blobs = dict[str, bytes]

SAMPLE_FLOATS = ("device_ms", "host_ms", "sm_clock_mhz", "probe_ms", "cycles", *RANK_COLUMNS)
# NULL in rows of before they were kept, and of what ranks did where one process is the arm; not in the hash there.
LATER_FLOATS = frozenset({"sm_clock_mhz", "probe_ms", "cycles", *RANK_COLUMNS})
SAMPLE_INTS = ("end_ns", "round", "replica", "inputs", "discarded")
TELEMETRY_FLOATS = ("sm_clock_mhz", "memory_clock_mhz", "temperature_c", "power_w")
TELEMETRY_INTS = ("at_ns", "throttle")


def label(text: str) -> str:
    """`text`, with an escape for what SQLite cannot hold as UTF-8 (half of a surrogate pair, from a path)."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def path_label(path: bytes) -> str:
    """A path's bytes, readable: escapes where they are not UTF-8."""
    return path.decode("utf-8", "backslashreplace")


def name_bytes(name: str) -> bytes:
    """A source file's name as the bytes it has on disk. Raises ValueError for one that leaves the folder."""
    try:
        encoded = name.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise ValueError(f"file name {name!a} has no bytes: give it as os.fsdecode returns it") from None
    if b"\0" in encoded or any(part in ("", ".", "..") for part in name.split("/")):
        raise ValueError(f"file name {name!a} must be relative to the target's folder, with / and without ..")
    return encoded


def name_text(name: bytes) -> str:
    """The inverse of `name_bytes`."""
    return name.decode("utf-8", "surrogateescape")


def manifest_hash(files: Iterable[tuple[bytes, str]]) -> str:
    """sha256 over `<sha256 of the file>  <name>NUL` of every file, sorted by the name's bytes."""
    return identity.digest(b"".join(digest.encode("ascii") + b"  " + name + b"\0" for name, digest in sorted(files)))


def snapshot_hash(files: Mapping[str, bytes]) -> str:
    """The hash that `Store.put_snapshot` gives these sources. Raises ValueError for an impossible name."""
    return manifest_hash((name_bytes(name), sha256(content)) for name, content in files.items())


def canonical_json(value: Mapping[str, object], what: str) -> str:
    """JSON with sorted keys, ASCII only. Raises ValueError for what JSON cannot say."""
    try:
        return json.dumps(value, sort_keys=True, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError) as error:
        raise ValueError(f"{what} cannot be kept as JSON ({error}): give texts, finite numbers, lists") from None


def _plain(array: npt.ArrayLike, dtype: str) -> bytes:
    import numpy as np  # see the module; so below

    values = np.asarray(array)
    if values.ndim != 1:
        raise ContradictionError(f"an array of shape {values.shape} where one row was expected")
    return np.ascontiguousarray(values, dtype=dtype).tobytes()


def _pack(
    value: Any, floats: Sequence[str], ints: Sequence[str], others: Mapping[str, npt.ArrayLike] | None = None
) -> tuple[int, Blobs, str]:
    """The arrays of `value` with these names, which are of one length, and others that may have another."""
    plain = {name: _plain(getattr(value, name), "<f8") for name in floats}
    plain |= {name: _plain(getattr(value, name), "<i8") for name in ints}
    lengths = {len(data) // 8 for data in plain.values()}
    if len(lengths) != 1:
        raise ContradictionError(f"arrays of one {type(value).__name__} differ in length: {sorted(lengths)}")
    plain |= {name: _plain(array, "<f8") for name, array in (others or {}).items()}
    packed = {name: zlib.compress(data, 1) if name in ints else data for name, data in plain.items()}
    return lengths.pop(), packed, arrays_hash(plain)


def _plain_of(row: Mapping[str, Any], floats: tuple[str, ...], ints: tuple[str, ...]) -> Blobs:
    """The bytes of a row's arrays. Raises StoreCorruptError where they are not what was written."""
    size = 8 * row["count"]
    plain: Blobs = {name: row[name] for name in floats}
    sizes = _sizes(row, (*floats, *ints))
    for name in ints:
        try:
            plain[name] = inflated_array(row[name], size)
        except zlib.error as error:
            raise StoreCorruptError(f"the {name} array does not unpack: {error}") from None
    wrong = [name for name, data in plain.items() if len(data) != sizes[name]]
    if wrong or arrays_hash(plain) != row["sha256"]:
        raise StoreCorruptError(f"the arrays {', '.join(wrong or plain)} are not what was written")
    return plain


def _sizes(row: Mapping[str, Any], names: Iterable[str]) -> dict[str, int]:
    """How many bytes each array of a row must have: eight a sample, for each rank where it is of all ranks."""
    size = 8 * int(row["count"])
    ranks = len(row.get("rank_ms") or b"") // max(size, 1)
    return {name: size * ranks if name in RANK_COLUMNS else size for name in names}


def inflated_array(packed: bytes, size: int) -> bytes:
    """An array of so many bytes, or what shows that it has not so many. Raises zlib.error."""
    # The count bounds what a damaged blob can make us allocate.
    return zlib.decompressobj().decompress(packed, size + 1)


def _fit(row: Mapping[str, Any], floats: tuple[str, ...], ints: tuple[str, ...]) -> bool:
    """Whether `_plain_of` would find the arrays to be what was written."""
    size, sizes = 8 * row["count"], _sizes(row, floats)
    if any(len(row[name]) != sizes[name] for name in floats):
        return False
    digests = {name: hashlib.sha256(row[name]).digest() for name in floats}
    for name in ints:
        packed = row[name]
        digest_of = _known_digest if len(packed) <= _SHORT_BYTES else _digest
        try:
            digests[name] = digest_of(packed, size)
        except (zlib.error, ValueError):
            return False
    return bool(joined_hash(digests) == row["sha256"])


def _digest(packed: bytes, size: int) -> bytes:
    """sha256 over an array. Raises ValueError where it has another size, and zlib.error."""
    plain = inflated_array(packed, size)
    if len(plain) != size:
        raise ValueError
    return hashlib.sha256(plain).digest()


_SHORT_BYTES = 256
_known_digest = functools.lru_cache(maxsize=4096)(_digest)
"""Of arrays that shrink so much. Rounds, replicas and the like are often the same in arm after arm."""


def _unpack(
    row: Mapping[str, Any], floats: tuple[str, ...], ints: tuple[str, ...]
) -> tuple[dict[str, Floats], dict[str, Ints]]:
    import numpy as np

    plain = _plain_of(row, floats, ints)
    return (
        {name: np.frombuffer(plain[name], "<f8").astype(np.float64) for name in floats},
        {name: np.frombuffer(plain[name], "<i8").astype(np.int64) for name in ints},
    )


def pack_samples(samples: Samples) -> tuple[int, Blobs, str]:
    """(count, a blob per array, sha256). Raises ContradictionError for arrays that are not one row each.

    What ranks did lies sample by sample; where one process is the arm there is no such array.
    """
    ranked = {name: getattr(samples, name).reshape(-1) for name in RANK_COLUMNS if samples.ranks}
    floats = [name for name in SAMPLE_FLOATS if name not in RANK_COLUMNS]
    return _pack(samples, floats, SAMPLE_INTS, ranked)


def unpack_samples(row: Mapping[str, Any]) -> Samples:
    """The inverse; a row of an older schema lacks arrays that came later: they are unknown, and not in its hash.

    Raises StoreCorruptError where the bytes are not what was written.
    """
    import numpy as np

    from aisp.store.samples import Samples

    floats, ints = _unpack(row, _sample_floats(row), SAMPLE_INTS)
    ranked = {name: floats[name].reshape(row["count"], -1) for name in RANK_COLUMNS if name in floats}
    arrays: dict[str, Any] = {"sm_clock_mhz": np.full(row["count"], np.nan), **floats, **ints, **ranked}
    return Samples(**arrays)


def _sample_floats(row: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(name for name in SAMPLE_FLOATS if name not in LATER_FLOATS or row.get(name) is not None)


def samples_fit(row: Mapping[str, Any]) -> bool:
    """Whether a row's arrays fit its hash; makes no arrays of them."""
    return _fit(row, _sample_floats(row), SAMPLE_INTS)


def telemetry_fits(row: Mapping[str, Any]) -> bool:
    """Likewise for a row of telemetry."""
    return _fit(row, TELEMETRY_FLOATS, TELEMETRY_INTS)


def pack_telemetry(telemetry: Telemetry) -> tuple[int, Blobs, str]:
    """(count, a blob per array, sha256). Raises ContradictionError for arrays of different lengths."""
    return _pack(telemetry, TELEMETRY_FLOATS, TELEMETRY_INTS)


def unpack_telemetry(row: Mapping[str, Any]) -> Telemetry:
    """The inverse. Raises StoreCorruptError where the bytes are not what was written."""
    from aisp.store.samples import Telemetry

    floats, ints = _unpack(row, TELEMETRY_FLOATS, TELEMETRY_INTS)
    arrays: dict[str, Any] = {**floats, **ints}
    return Telemetry(**arrays)


def pack_findings(items: Sequence[Sequence[str]], notable: Collection[str]) -> dict[str, Any]:
    """The row of a run's findings: `count`, `notable` (JSON text) and `others` (deflated JSON).

    Args:
        items: check, arm, status, evidence; in the order of the record.
        notable: statuses that stand in the text.

    Raises:
        ContradictionError: more than `FINDINGS_BYTES`.
    """
    parts: tuple[list[list[object]], list[list[object]]] = ([], [])
    for position, item in enumerate(items):
        parts[item[2] not in notable].append([position, *item])
    text, others = (json.dumps(part, ensure_ascii=False, separators=(",", ":")) for part in parts)
    plain = others.encode("utf-8")
    if len(plain) + len(text.encode("utf-8")) > FINDINGS_BYTES:
        raise ContradictionError(f"{len(items)} findings take more than {FINDINGS_BYTES} bytes")
    return {"count": len(items), "notable": text, "others": zlib.compress(plain, 6)}


def unpack_findings(row: Mapping[str, Any]) -> list[list[str]]:
    """The inverse; only the notable ones where `others` is None.

    Raises ValueError where it is not what `pack_findings` made.
    """
    findings = json.loads(row["notable"])
    if row["others"] is not None:
        findings = sorted(findings + json.loads(inflated(row["others"])), key=operator.itemgetter(0))
        if [item[0] for item in findings] != list(range(row["count"])):
            raise ValueError(f"there are not {row['count']} findings in their order")
    return [item[1:] for item in findings]
