"""Where a tensor lies in a file of safetensors: the header is read, and no tensor.

The file begins with eight bytes, the length of a JSON object by little end first, then that object: by name the dtype,
the shape and the offsets of a tensor in what follows.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aisp.kernels.catalog.tensors import DTYPES

MAX_HEADER_BYTES = 16 * 2**20
MAX_TENSOR_BYTES = 8 * 2**30
MAX_DIMS = 64

_NAMES = {
    "F64": "float64",
    "F32": "float32",
    "F16": "float16",
    "BF16": "bfloat16",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2",
    "I64": "int64",
    "I32": "int32",
    "I16": "int16",
    "I8": "int8",
    "U8": "uint8",
    "BOOL": "bool",
    "F4": "uint8",
}
_PACKED = "F4"  # two in a byte along the last dimension, of which the shape counts each


@dataclass(frozen=True, slots=True)
class Stored:
    """A tensor in a file.

    Attributes:
        start: of its bytes, from the beginning of the file.
        file_bytes: size of the whole file.
    """

    path: Path
    dtype: str
    shape: tuple[int, ...]
    start: int
    nbytes: int
    file_bytes: int

    def plain(self) -> dict[str, Any]:
        """As data for runtime.trace."""
        return {**dataclasses.asdict(self), "path": os.fspath(self.path)}


class StoredError(ValueError):
    """There is no such tensor in the file, or it is no file of tensors; the text says why."""


def find(path: Path, key: str) -> Stored:
    """The tensor of that name. Raises StoredError."""
    header, begins, file_bytes = _header(path)
    entry = header.get(key)
    if not isinstance(entry, dict):
        there = ", ".join(name for name in list(header)[:8] if name != "__metadata__") or "none"
        raise StoredError(f"{path.name} has no tensor {key!r} (there is: {there})")
    dtype = _NAMES.get(str(entry.get("dtype")), "")
    shape, offsets = _numbers(entry.get("shape")), _numbers(entry.get("data_offsets"))
    if not dtype:
        raise StoredError(f"{key} of {path.name} has the dtype {entry.get('dtype')!r}, which is not known here")
    if shape is None or offsets is None or len(offsets) != 2:
        raise StoredError(f"{key} of {path.name} has no shape or no offsets")
    if entry["dtype"] == _PACKED:
        if not shape or shape[-1] % 2:
            raise StoredError(f"{key} of {path.name} has an odd number of 4-bit floats in a row")
        shape = (*shape[:-1], shape[-1] // 2)
    nbytes = offsets[1] - offsets[0]
    if nbytes != math.prod(shape) * DTYPES[dtype] or begins + offsets[1] > file_bytes:
        raise StoredError(f"{key} of {path.name} does not lie in the file as its shape says; it may be cut short")
    if nbytes > MAX_TENSOR_BYTES:
        raise StoredError(f"{key} of {path.name} has {nbytes:,} bytes; {MAX_TENSOR_BYTES:,} are the most")
    return Stored(path, dtype, shape, begins + offsets[0], nbytes, file_bytes)


def _numbers(given: Any) -> tuple[int, ...] | None:
    if not isinstance(given, list) or len(given) > MAX_DIMS:
        return None
    return tuple(given) if all(type(each) is int and 0 <= each < 2**48 for each in given) else None


def _header(path: Path) -> tuple[dict[str, Any], int, int]:
    """The header, where the tensors begin, and the size of the file. Raises StoredError."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError) as error:
        raise StoredError(f"{path.name} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    with open(descriptor, "rb") as file:  # noqa: PTH123 - a pipe must not be waited for
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise StoredError(f"{path.name} is not a regular file")
        head = file.read(8)
        if head.startswith(b"version "):
            raise StoredError(f"{path.name} is the pointer that Git LFS leaves; `git lfs pull` brings the file")
        length = int.from_bytes(head, "little")
        if len(head) < 8 or length > min(MAX_HEADER_BYTES, found.st_size - 8):
            raise StoredError(f"{path.name} is no file of safetensors")
        try:
            header = json.loads(file.read(length))
        except (ValueError, RecursionError):
            header = None
    if not isinstance(header, dict):
        raise StoredError(f"{path.name} has no header of safetensors")
    return header, 8 + length, found.st_size
