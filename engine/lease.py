"""One engine of the machine uses a GPU at a time, whatever their state folders and users.

For each GPU there is a lock file in /tmp, named after the GPU's uuid. The user of the GPU holds it with flock, which
the kernel releases when the process ends, however it ends. The file stays and holds the last holder's pid. A second
file is the turn: an engine that waits for a GPU holds its turn meanwhile, so that an engine with a long queue cannot
pass by one that waits for a single run.

Anybody may write to /tmp, so a file is used only if it is a plain one with a single name, and never through a link.
Where there is no such file the GPU is used without a lease, and the reason is reported: another user can take the
warning away from us, but not the GPU. Engines that do not share a /tmp (containers) do not see each other's leases.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import re
import stat
from collections.abc import AsyncIterator, Callable, Iterable
from pathlib import Path

PLACE = Path("/tmp")  # the one folder that all users share, whatever their TMPDIR
PERIOD_S = 0.1


@contextlib.asynccontextmanager
async def leased(uuids: Iterable[str], tell: Callable[[str], None]) -> AsyncIterator[None]:
    """Wait until no other engine uses these GPUs, and keep others away while the block lasts.

    Args:
        uuids: of the GPUs, as the driver tells them.
        tell: called with a sentence when there is something to wait for or to warn of, and with "" when it has passed.
    """
    with contextlib.ExitStack() as held:
        for uuid in sorted(set(uuids)):  # in one order everywhere, so that no two engines wait for each other
            await _take(uuid, held, tell)
        yield


async def _take(uuid: str, held: contextlib.ExitStack, tell: Callable[[str], None]) -> None:
    name = re.sub(r"[^A-Za-z0-9-]", "_", uuid)
    try:
        lock = _open(PLACE / f"aisp-{name}.lock")
        held.callback(os.close, lock)
        turn = _open(PLACE / f"aisp-{name}.turn")
    except OSError as error:
        tell(f"{error}; remove it, for another engine may use {uuid} at the same time and disturb what is measured")
        held.callback(tell, "")
        return
    waits = False
    try:
        for wanted in (turn, lock):
            while not _locked(wanted):
                if not waits:
                    waits = True
                    tell(f"{uuid} is in use by {_holder(lock)}; runs on it wait until it is free")
                await asyncio.sleep(PERIOD_S)
        with contextlib.suppress(OSError):  # a full disk: it is only a name
            os.ftruncate(lock, 0)
            os.pwrite(lock, str(os.getpid()).encode(), 0)
    finally:
        os.close(turn)
        if waits:
            tell("")


def _open(path: Path) -> int:
    """The file at `path`, made if need be. Raises OSError where what lies there is no file for all to lock."""
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        # Many kernels refuse O_CREAT on another user's file in a shared folder, so it is left out where there is one.
        fd = os.open(path, flags)
    except FileNotFoundError:
        with contextlib.suppress(FileExistsError):
            made = os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o600)
            try:
                os.fchmod(made, 0o666)  # whatever the umask: engines of other users lock it too
            finally:
                os.close(made)
        fd = os.open(path, flags)
    status = os.fstat(fd)
    if not stat.S_ISREG(status.st_mode) or status.st_nlink != 1:
        os.close(fd)
        raise OSError(f"{path} is no plain file of one name")
    return fd


def _locked(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _holder(lock: int) -> str:
    """Who holds it, by its own word."""
    word = os.pread(lock, 20, 0)
    return f"the engine with pid {word.decode()}" if word.isdigit() else "another engine"
