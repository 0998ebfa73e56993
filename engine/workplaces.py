"""A folder of its own for every child process: `state/work/NAME/`, private, gone when the process is.

`cwd/` is the process's working folder and begins empty, `tmp/` its temporary folder, `cache/` is for what it compiles
(engine.caches).
Folders are removed in a thread and not while something is measured, unless there are MOST_LEFT of them: with several
slots something may always be. What a killed engine left is removed when the next one starts.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from aisp.engine import confinement, paths
from aisp.engine.confinement import Place

PARTS = ("cwd", "tmp", paths.CACHE_FOLDER)
UNIFIED_MEMORY = Path("/dev/nvidia-uvm")
MODPROBE_PATIENCE_S = 10.0
MOST_LEFT = 200  # folders; of a rung that compiles each may hold tens of MB

log = logging.getLogger("aisp.workplaces")


def _devices_made() -> bool:
    """Whether the driver's device files are all there.

    The last one may be made only when the first program uses CUDA, by a helper that needs rights which a confined
    process has not. So it is run here, where nothing is confined.
    """
    if not Path("/dev/nvidiactl").exists() or UNIFIED_MEMORY.exists():
        return True
    from aisp.engine.spawner import helped  # which imports this module

    with contextlib.suppress(OSError, subprocess.SubprocessError):
        helped(["nvidia-modprobe", "-u", "-c=0"], MODPROBE_PATIENCE_S)
    if UNIFIED_MEMORY.exists():
        return True
    log.warning("%s is not there: processes are not confined until a program has used CUDA", UNIFIED_MEMORY)
    return False


def place(folder: Path, *, compiler: bool, cores: Sequence[int] = (), layouts: bool = True) -> Place:
    """What a process has to know of its place: where its temporary files and what it compiles go, and its cores.

    `layouts`: whether it may write where sources are laid out.
    """
    return Place(
        cwd=str(folder / "cwd"),
        tmp=str(folder / "tmp"),
        writable=[str(folder)],
        layouts=str(paths.snapshots_dir() if layouts else folder / "cwd"),
        sources=str(paths.snapshots_dir()),
        state=str(paths.state_dir()),
        readable=[path for path in os.environ.get(confinement.READABLE, "").split(os.pathsep) if path],
        confine=confinement.wanted() and _devices_made(),
        environment=paths.cache_variables(str(folder / paths.CACHE_FOLDER)) | {"TMPDIR": str(folder / "tmp")},
        compiler=compiler,
        cores=list(cores),
    )


_leaving: list[Path] = []  # to be removed
_removing: asyncio.Task[None] | None = None
_held = 0


def make() -> Path:
    """A new folder with its parts."""
    folder = Path(tempfile.mkdtemp(dir=paths.work_dir()))  # 0700
    for part in PARTS:
        (folder / part).mkdir(mode=0o700)
    return folder


def leave(folder: Path) -> None:
    """Remove it, as soon as nothing is measured. Its process has ended."""
    _leaving.append(folder)
    _begin()


@contextlib.contextmanager
def held() -> Iterator[None]:
    """No folder is removed while this lasts: something is being measured."""
    global _held
    _held += 1
    try:
        yield
    finally:
        _held -= 1
        _begin()


async def cleared() -> None:
    """Wait until every folder that was left is gone."""
    while _removing is not None:
        await asyncio.shield(_removing)


def sweep() -> None:
    """Remove what is left of processes that are no more, of an earlier engine or of this one, and the paths that lead
    there. Nobody else may have the state folder.
    """
    for entry in list(paths.work_dir().iterdir()):
        log.info("%s was left of a process", entry)
        _remove(entry)
    shutil.rmtree(paths.cache_links_dir(), ignore_errors=True)
    # The one folder of caches that all runs shared before each process had its own; gigabytes of it may be left.
    shutil.rmtree(paths.state_dir() / paths.CACHE_FOLDER, ignore_errors=True)


def _begin() -> None:
    global _removing
    if _due() and _removing is None:
        _removing = asyncio.get_running_loop().create_task(_remove_all())


def _due() -> bool:
    return bool(_leaving) and (not _held or len(_leaving) > MOST_LEFT)


async def _remove_all() -> None:
    global _removing
    try:
        while _due():
            await asyncio.to_thread(_remove, _leaving.pop())
    finally:
        _removing = None


def _remove(folder: Path) -> None:
    """Remove the folder, whatever a kernel made of it, folders without permissions included."""

    def again(function: Callable[[str], Any], path: str, _: Any) -> None:
        with contextlib.suppress(OSError):
            os.chmod(os.path.dirname(path), 0o700)  # noqa: PTH101, PTH120  shutil gives text
            if os.path.isdir(path) and not os.path.islink(path):  # noqa: PTH112, PTH114
                os.chmod(path, 0o700)  # noqa: PTH101
                shutil.rmtree(path, ignore_errors=True)
            else:
                function(path)

    if folder.is_dir() and not folder.is_symlink():
        shutil.rmtree(folder, onerror=again)
    else:
        folder.unlink(missing_ok=True)
