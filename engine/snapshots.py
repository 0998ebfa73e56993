"""Sources as they were at one moment, laid out on disk for workers to import. Read once, hashed, never reread.

A folder under the state directory is named after the snapshot's hash; it holds one folder of the target's own name,
so that a worker finds the same target id. Oldest layouts are removed when there are too many.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

KEPT_LAYOUTS = 32


def lay_out(base: Path, snapshot: str, name: str, files: Mapping[str, bytes]) -> Path:
    """Write the files below `base`/`snapshot`/`name` unless they are there already; the folder."""
    home = base / snapshot[:24]
    folder = home / name
    if folder.is_dir():
        with contextlib.suppress(OSError):
            os.utime(home)
        return folder
    base.mkdir(mode=0o700, parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(prefix=f".{snapshot[:24]}.", dir=base))  # our own: others may be at it too
    try:
        whole = partial / name
        whole.mkdir(mode=0o700)
        for relative, data in files.items():
            path = whole / relative
            if not path.resolve().is_relative_to(whole.resolve()):
                raise ValueError(f"a file named {relative!r} would lie outside of its snapshot")
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            path.write_bytes(data)
        # Two targets may have the same sources: their layouts share the home, each under its own name.
        home.mkdir(mode=0o700, exist_ok=True)
        try:
            whole.rename(folder)
        except OSError:
            if not folder.is_dir():
                raise
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    _prune(base, keep=home)
    return folder


def _prune(base: Path, keep: Path) -> None:
    found: list[tuple[float, Path]] = []
    for entry in base.iterdir():
        with contextlib.suppress(OSError):
            found.append((entry.stat().st_mtime, entry))
    found.sort(reverse=True)
    for _, entry in found[KEPT_LAYOUTS:]:
        if entry != keep:
            shutil.rmtree(entry, ignore_errors=True)
