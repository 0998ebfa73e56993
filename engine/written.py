"""Targets that aisp writes itself, below the state directory: what the engine is to run must lie in a folder.

A collection is a folder of targets, as `aisp bench run --root` takes any other. It stays until many newer ones are
there; runs keep the sources that ran, so that nothing is lost with it.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from aisp.engine import paths

JUDGED = 256
"""Collections that are kept in paths.judged_dir()."""


DIGITS = 16
"""Of a digest in a collection's name: of many thousands, no two have the same."""


def digest(files: Mapping[str, bytes]) -> str:
    """A hash over files by their names and their bytes, in hexadecimal digits."""
    whole = hashlib.sha256()
    for name in sorted(files):
        whole.update(f"{name}\0{len(files[name])}\0".encode("utf-8", "surrogateescape"))
        whole.update(files[name])
    return whole.hexdigest()


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
                path.write_bytes(data)
            with contextlib.suppress(FileNotFoundError):
                shutil.rmtree(root / name)
            partial.rename(root / name)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
    _make_room(base, root, most)
    return root


def keep(base: Path, collection: str, name: str, files: Mapping[str, bytes], *, most: int) -> Path:
    """The target folder of that name, whose collection is named after its content: written where it is not there yet,
    else left as it is, since somebody may be reading it."""
    root = base / collection
    if (root / name).is_dir():
        os.utime(root)
    else:
        write(base, collection, {name: files}, most=most)
    return root / name


def _make_room(base: Path, kept: Path, most: int) -> None:
    collections = sorted((path for path in base.iterdir() if path != kept), key=_changed, reverse=True)
    for path in collections[most - 1 :]:
        shutil.rmtree(path, ignore_errors=True)


def _changed(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:  # removed meanwhile
        return 0.0
