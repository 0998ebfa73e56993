"""Watching a target's folder: each save becomes one run of the last state.

What the kernel says about files is a hint, never a fact: whatever wakes the watch, the sources are read and their
hash is compared. It also wakes by itself every `SWEEP_S` seconds, since a watch falls silent when its folder is
replaced, and some file systems tell nothing at all. A save counts once it has settled: two readings in a row agree, no
git command holds its lock, and every Python file compiles or still does not a moment later.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import logging
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

from engine.clean import clean, clean_line
from engine.protocol import events
from kernels import catalog
from kernels.catalog.model import Target
from kernels.catalog.parsing import check

log = logging.getLogger("aisp.watch")

SWEEP_S = 2.0
AWAY_S = 0.25  # between looks for a folder that is not there
SETTLE_S = 0.02
SECOND_LOOK_S = 0.15
LOCK_PATIENCE_S = 30.0
IGNORED_ENDINGS = ("~", ".swp", ".swx", ".swo", ".tmp")

RunIt = Callable[[Target, dict[str, bytes], set[str] | None], Awaitable[tuple[str, str, str]]]
"""run_it(target, files, names to run for) -> (snapshot, run id, error). No names: all; None: store, run nothing."""


class Watch:
    """One target under watch. `run()` goes on until it is cancelled."""

    def __init__(self, target: Target, publish: Callable[[events.Event], None], run_it: RunIt) -> None:
        self.target = target
        self.edits = 0
        self.polling = False
        self._publish = publish
        self._run_it = run_it
        self._files: dict[str, bytes] = {}
        self._ran: dict[str, bytes] | None = None  # the sources that the last run was planned for

    async def run(self) -> None:
        """Tell the state at the beginning as edit 0, then every edit."""
        folder = self.target.folder
        await self._take(await asyncio.to_thread(self._read), first=True)
        while True:
            try:
                async for save_ns in self._hints(folder):
                    files = await self._settled()
                    if files is not None and files != self._files:
                        await self._take(files, save_ns=save_ns)
            except OSError as error:
                log.warning("watching %s failed (%s); looking again in %.0f s", folder, error, SWEEP_S)
            await asyncio.sleep(0.1)

    async def _hints(self, folder: Path) -> AsyncIterator[int]:
        """CLOCK_MONOTONIC of every moment worth a look. Ends when the folder was replaced or the watcher stopped."""
        import watchfiles  # 70 ms, needed only when something is watched

        if not folder.is_dir():
            await asyncio.sleep(AWAY_S)
            yield time.monotonic_ns()
            return
        identity = _identity(folder)
        stop = asyncio.Event()
        try:
            async for changes in watchfiles.awatch(
                folder,
                watch_filter=lambda change, path: not path.endswith(IGNORED_ENDINGS) and "__pycache__" not in path,
                debounce=200,
                step=10,
                rust_timeout=int(SWEEP_S * 1000),
                yield_on_timeout=True,
                stop_event=stop,
                force_polling=self.polling or None,
                recursive=True,
            ):
                del changes  # hints only
                yield time.monotonic_ns()
                if _identity(folder) != identity:
                    return
        except OSError:
            if not self.polling:
                self.polling = True
                self._publish(self.changed(active=True))
            raise
        finally:
            stop.set()

    def changed(self, *, active: bool) -> events.WatchChanged:
        """The watch's own state, as an event."""
        return events.WatchChanged(
            target=self.target.id,
            folder=clean_line(os.fsencode(self.target.folder)),
            active=active,
            polling=self.polling,
        )

    def _read(self) -> dict[str, bytes] | None:
        """Every file a run depends on, or None while the folder is away or cannot be read."""
        try:
            fresh = catalog.load_target(self.target.folder, root=self.target.root, chapter=self.target.chapter)
            if isinstance(fresh, Target):
                self.target = fresh
            files = catalog.read_sources(self.target)
        except OSError:
            return None
        return files or None

    async def _settled(self) -> dict[str, bytes] | None:
        """The sources once they stand still; None while there is nothing to read."""
        deadline = time.monotonic() + LOCK_PATIENCE_S
        before = await asyncio.to_thread(self._read)
        looked_twice = False
        while time.monotonic() < deadline:
            await asyncio.sleep(SETTLE_S)
            if await asyncio.to_thread(_git_is_busy, self.target.folder):
                before = None
                await asyncio.sleep(0.05)
                continue
            now = await asyncio.to_thread(self._read)
            if now is None or now != before:
                if now is None and not self.target.folder.is_dir():
                    return None
                before = now
                continue
            if not looked_twice and now != self._files and _syntax_error(now):
                looked_twice = True
                await asyncio.sleep(SECOND_LOOK_S)
                continue
            return now
        return before

    async def _take(self, files: dict[str, bytes] | None, *, first: bool = False, save_ns: int = 0) -> None:
        if files is None:
            return
        changed = _differing(files, self._files)
        self._files = files
        number = 0 if first else self.edits + 1
        self.edits = number
        error = _syntax_error(files, only=None if first else changed) or self._broken()
        snapshot, run_id = "", ""
        if error:
            snapshot, _, _ = await self._run_it(self.target, files, None)
        else:
            # What an edit that did not compile had changed is still owed a run.
            owed = set() if self._ran is None else _differing(files, self._ran) or changed
            snapshot, run_id, error = await self._run_it(self.target, files, owed)
            self._ran = files
        self._publish(
            events.WatchEdit(
                target=self.target.id,
                number=number,
                snapshot=snapshot,
                files=[] if first else sorted(clean_line(name) for name in changed),
                run_id=run_id,
                error=clean(error),
                wall=datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds"),
                save_ns=save_ns or time.monotonic_ns(),
            )
        )

    def _broken(self) -> str:
        """What is wrong with the front matter as it stands, "" where nothing is."""
        fresh = catalog.load_target(self.target.folder, root=self.target.root, chapter=self.target.chapter)
        return "" if isinstance(fresh, Target) else "\n".join(str(problem) for problem in fresh)


def _differing(now: dict[str, bytes], before: dict[str, bytes]) -> set[str]:
    return {name for name in now.keys() | before.keys() if now.get(name) != before.get(name)}


def _identity(folder: Path) -> tuple[int, int] | None:
    try:
        found = folder.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _git_is_busy(folder: Path) -> bool:
    """Whether a git command is rewriting the checkout that holds the folder."""
    for place in (folder, *folder.parents):
        with contextlib.suppress(OSError):
            if (place / ".git").is_dir():
                return (place / ".git" / "index.lock").exists()
    return False


def _syntax_error(files: dict[str, bytes], only: set[str] | None = None) -> str:
    """The first Python file that does not compile, as a sentence with file and line; "" where all do."""
    for name, data in sorted(files.items()):
        if not name.endswith(".py") or (only is not None and name not in only):
            continue
        try:
            check(data, name)
        except SyntaxError as error:
            text = f"\n    {error.text.rstrip()}" if error.text else ""
            return f"{name}:{error.lineno}: {error.msg}{text}"
        except ValueError as error:
            return f"{name}: {error}"
    return ""
