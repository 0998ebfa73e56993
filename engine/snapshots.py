"""Sources as they were at one moment, laid out on disk for workers to import. Read once, hashed, never reread.

A folder under the state directory is named after the snapshot's hash; it holds one folder of the target's own name,
so that a worker finds the same target id. Oldest layouts are removed when there are too many.

Kernels run under the same account as the engine, so a layout that lies there already may have been rewritten by one.
None is used before its content was compared with the files of the snapshot; one that differs is laid out anew. Files
are read-only, which keeps accidents out; that they were left alone is looked up after the run (`intact`). What becomes
of our own code is engine.installed's affair. Folders stay writable: `rm -r` of the state must work.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import tempfile
from collections.abc import Mapping
from pathlib import Path

from aisp.store.given import regular_bytes

KEPT_LAYOUTS = 32
READ_ONLY = 0o400
IMPORTABLE = (".py", ".pyc", ".pth", ".so")  # a new file of this kind could be taken for a module that others import
COMPILED = "__pycache__"  # Python's own, in processes that a lesson starts; a layout that has one is not reused


def lay_out(base: Path, snapshot: str, name: str, files: Mapping[str, bytes]) -> Path:
    """Write the files below `base`/`snapshot`/`name` unless exactly these are there already. Returns the folder."""
    home = base / snapshot[:24]
    folder = home / name
    if _holds(folder, files):
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
            path.chmod(READ_ONLY)
        # Two targets may have the same sources: their layouts share the home, each under its own name.
        home.mkdir(mode=0o700, exist_ok=True)
        _put(whole, folder, partial / "was", files)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    _prune(base, keep=home)
    return folder


def _put(whole: Path, folder: Path, was: Path, files: Mapping[str, bytes]) -> None:
    """Move the layout to its place. A layout with the same files may be there already; another one makes room."""
    for _ in range(3):
        try:
            whole.rename(folder)
        except OSError:
            if _holds(folder, files):
                return
            if not os.path.lexists(folder):
                raise
        else:
            return
        with contextlib.suppress(FileNotFoundError):
            folder.rename(was)
            _remove(was)
    raise OSError(f"{folder} is changed by somebody while it is laid out")


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


def _holds(folder: Path, files: Mapping[str, bytes]) -> bool:
    """Whether the folder has these files as they were given, and nothing else whatever."""
    present = _listing(folder)
    return present is not None and set(present) == set(files) and intact(folder, files)


def intact(folder: Path, files: Mapping[str, bytes]) -> bool:
    """Whether a layout still has every file as it was given, and no new one that could be imported instead."""
    present = _listing(folder)
    if present is None or not present.keys() >= files.keys():
        return False
    for name in present.keys() - files.keys():
        if name.endswith(IMPORTABLE) and COMPILED not in Path(name).parts[:-1]:
            return False
    return all(_same(folder / name, data) for name, data in files.items())


def _listing(folder: Path) -> dict[str, os.stat_result] | None:
    """Everything below a folder but folders, by relative name; None where it is not a folder."""
    present: dict[str, os.stat_result] = {}
    pending = [(folder, "")]
    try:
        if not stat.S_ISDIR(folder.lstat().st_mode):
            return None
        while pending:
            where, prefix = pending.pop()
            with os.scandir(where) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        pending.append((Path(entry.path), f"{prefix}{entry.name}/"))
                    else:
                        present[prefix + entry.name] = entry.stat(follow_symlinks=False)
    except OSError:
        return None
    return present


def _same(path: Path, data: bytes) -> bool:
    """Whether a regular file, no link, holds exactly these bytes."""
    try:
        return regular_bytes(path, len(data)) == data
    except OSError:
        return False


def _prune(base: Path, keep: Path) -> None:
    layouts: list[tuple[float, Path]] = []
    for entry in base.iterdir():
        with contextlib.suppress(OSError):
            layouts.append((entry.stat().st_mtime, entry))
    layouts.sort(reverse=True)
    for _, entry in layouts[KEPT_LAYOUTS:]:
        if entry != keep:
            shutil.rmtree(entry, ignore_errors=True)
