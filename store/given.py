"""What is read because somebody gave its name: a regular file of a bounded size, and JSON that is plain data. And how a
file is written under a name.

A pipe, a device or a folder under that name must not be waited for, nor read until memory ends. Imports nothing of ours
and no more of Python than every program has loaded.
"""

from __future__ import annotations

import errno
import json
import os
import re
import stat
from pathlib import Path
from typing import Any

_PIECE_BYTES = 1 << 20
_HALF = re.compile(rb"\\u[dD][89a-fA-F]")
"""The escape of half a surrogate pair; two that belong together are a character."""


def regular_bytes(path: Path, most_bytes: int, *, follow: bool = False) -> bytes:
    """A file's bytes. Raises OSError where it is something else than a file, longer, or a link unless `follow`."""
    links = 0 if follow else os.O_NOFOLLOW
    descriptor = os.open(path, os.O_RDONLY | links | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "it is no regular file", os.fspath(path))
        parts, size = [], status.st_size
        if size <= most_bytes:
            size = 0  # of /proc no size is right
            while size <= most_bytes and (part := os.read(descriptor, min(_PIECE_BYTES, most_bytes + 1 - size))):
                parts.append(part)
                size += len(part)
        if size > most_bytes:
            raise OSError(errno.EFBIG, f"it has more than {most_bytes} bytes", os.fspath(path))
        return b"".join(parts)
    finally:
        os.close(descriptor)


def write_new(path: Path, data: bytes, mode: int | None = 0o600) -> None:
    """Write a file in the place of whatever has the name: no link is followed, no pipe waited for, and its mode is the
    one given, whatever the umask; None for what the umask leaves. Raises OSError."""
    path.unlink(missing_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(path, flags, 0o666 if mode is None else 0o600)
    with os.fdopen(descriptor, "wb") as file:
        if mode is not None:
            os.fchmod(descriptor, mode)
        file.write(data)


def write_whole(path: Path, data: bytes, mode: int | None = None) -> None:
    """The same, whole or not at all: until the new file is on the disk, what was there stays. Raises OSError."""
    partial = path.with_name(f".{path.name}.{os.getpid()}~")  # which no watch looks at
    try:
        write_new(partial, data, mode)
        settle(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def settle(partial: Path, wanted: Path) -> None:
    """Flush `partial` and give it its name, so that a crash leaves either nothing or the whole file."""
    flush(partial)
    partial.replace(wanted)
    flush(wanted.parent)


def flush(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def json_of(data: bytes, *, halves: bool = False) -> Any:
    """What JSON says. Raises ValueError for all else: no UTF-8, nested too deeply, NaN, infinities, and texts that no
    terminal takes, since they have half a surrogate pair (unless `halves`: the names of files may)."""
    try:
        document = json.loads(data.decode("utf-8"), parse_constant=_no_number)
    except UnicodeDecodeError:
        raise ValueError("it is no text in UTF-8, and so no JSON") from None
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not halves and _HALF.search(data):
        refuse_halves(document)
    return document


def refuse_halves(value: object) -> None:
    """Raise ValueError where a text of what JSON says has half a surrogate pair."""
    try:
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        raise ValueError("a text in it has half of a surrogate pair, which is no character") from None


def _no_number(name: str) -> float:
    raise ValueError(f"{name} is no number in JSON")
