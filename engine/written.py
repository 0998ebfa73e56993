"""Targets that aisp writes itself, below the state directory: what the engine is to run must lie in a folder.

A collection is a folder of targets, as `aisp run --root` takes any other. It stays until many newer ones are
there; runs keep the sources that ran, so that nothing is lost with it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from aisp.engine import paths
from aisp.kernels.catalog.sources import MAX_BYTES, list_files
from aisp.store.given import regular_bytes, write_new

JUDGED = 256
"""Collections that are kept in paths.judged_dir()."""
STEM_BYTES = 160
"""Of a collection's name before its digest: a folder's name has at most 255."""


class TakenError(Exception):
    """Another content has the name; the message says where it lies, and what would work."""


def write(base: Path, collection: str, folders: Mapping[str, Mapping[str, bytes]], *, most: int) -> Path:
    """Put the folders into a collection, each whole or not at all, in the place of one of its name; where the
    collection lies.

    Args:
        base: a private folder that holds collections.
        folders: by name, the files of each by their relative names.
        most: collections that are kept; the oldest others are removed.
    """
    root = paths.make_private(base / collection)
    for name, files in folders.items():
        partial = Path(tempfile.mkdtemp(prefix=".", dir=root))
        try:
            for relative, data in files.items():
                path = partial / relative
                path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                write_new(path, data)
            with contextlib.suppress(FileNotFoundError):
                shutil.rmtree(root / name)
            partial.rename(root / name)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
    _make_room(base, root, most)
    return root


def keep(base: Path, stem: str, name: str, files: Mapping[str, bytes], *, most: int) -> Path:
    """The folder of a target, in a collection that is named after the stem and the whole digest of the files.

    A folder that is there is left as it is where it holds these files, byte for byte, since somebody may be reading it.
    Where it is no longer what its name says, it is written anew.

    Args:
        base: a private folder that holds collections.
        stem: what people know the collection by; the digest tells it from all others.
        name: of the target in its collection.
        files: by their relative names.
        most: collections that are kept; the oldest others are removed.

    Raises:
        TakenError: other files lie there, and have the same digest.
    """
    from aisp.store.content import snapshot_hash  # numpy: only once something is written

    digest = snapshot_hash(files)
    root = base / f"{_cut(stem)}-{digest}"
    there = _files(root / name, files)
    if there == files:
        os.utime(root)
        return root / name
    if there and snapshot_hash(there) == digest:
        conflict = f"{root / name} holds other files of the same digest"
        raise TakenError(f"{conflict}; change a comment in the candidate, or remove that folder")
    write(base, root.name, {name: files}, most=most)
    return root / name


def _cut(stem: str) -> str:
    return stem.encode("utf-8", "surrogateescape")[:STEM_BYTES].decode("utf-8", "ignore")


def _files(folder: Path, wanted: Mapping[str, bytes]) -> dict[str, bytes]:
    """All that a run of the target in a folder depends on, and what is wanted there; {} where there is none."""
    files: dict[str, bytes] = {}
    with contextlib.suppress(OSError):
        for relative in {*list_files(folder).files, *wanted}:
            with contextlib.suppress(OSError):
                files[relative] = regular_bytes(folder / relative, MAX_BYTES)
    return files


def _make_room(base: Path, kept: Path, most: int) -> None:
    collections = sorted((path for path in base.iterdir() if path != kept), key=_changed, reverse=True)
    for path in collections[most - 1 :]:
        shutil.rmtree(path, ignore_errors=True)


def _changed(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:  # removed meanwhile
        return 0.0
