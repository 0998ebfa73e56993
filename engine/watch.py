"""Watching a target's folder: each save becomes one run of the last state.

What the kernel says about files is a hint, never a fact: whatever wakes the watch, the sources are read and compared.
It also wakes by itself every `SWEEP_S` seconds, since a watch falls silent when its folder is replaced, and some file
systems tell nothing at all. A save counts once it has settled: two readings in a row agree, no git command holds its
lock, and no Python file is empty or does not compile, or it still is so a moment later. The first state settles too.

Listened to are the folder, its sub-folders and the folders where linked files really are, each by itself: a link to one
file of a large tree costs one folder. Where the kernel has no more to give (inotify's limits), the watch says that it
polls, looks every `POLL_S` seconds, and asks the kernel again every `RETRY_S`.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import logging
import os
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from engine.clean import clean, clean_line
from engine.protocol import events
from kernels import catalog
from kernels.catalog.model import Target
from kernels.catalog.parsing import check
from kernels.catalog.sources import LESSON, MAX_SUBFOLDERS, SUFFIXES

log = logging.getLogger("aisp.watch")

SWEEP_S = 2.0
POLL_S = 1.0  # between looks where the kernel tells nothing
RETRY_S = 60.0
AWAY_S = 0.25  # between looks for a folder that is not there
SETTLE_S = 0.02
SECOND_LOOK_S = 0.15
LOCK_PATIENCE_S = 30.0
MOST_PLACES = 256  # folders that one watch listens to; what lies in others is found by the sweep
IGNORED_ENDINGS = ("~", ".swp", ".swx", ".swo", ".tmp")

RunIt = Callable[[Target, dict[str, bytes], set[str] | None], Awaitable[tuple[str, str, str]]]
"""run_it(target, files, names to run for) -> (snapshot, run id, error). No names: all; None: store, run nothing."""


@dataclass(frozen=True)
class Places:
    """What one watch listens to, by real paths.

    Attributes:
        folders: device and inode of every folder; another one under the same name must be listened to anew.
        within: those where every name counts; of the others only `linked` does.
        linked: where files that are links in the target's folder really are.
    """

    folders: dict[str, tuple[int, int]]
    within: frozenset[str]
    linked: frozenset[str]

    def matter(self, path: str) -> bool:
        """Whether news of this path is worth a look."""
        if path in self.folders or path in self.linked:
            return True
        where, _, name = path.rpartition("/")
        return where in self.within and not name.endswith(IGNORED_ENDINGS) and name != "__pycache__"


class Watch:
    """One target under watch. `run()` goes on until it is cancelled."""

    def __init__(self, target: Target, publish: Callable[[events.Event], None], run_it: RunIt) -> None:
        self.target = target
        self.edits = 0
        self.polling = False
        self._ask_again = 0.0  # CLOCK_MONOTONIC; while polling
        self._held = False  # a banner tells that git holds the runs back
        self._publish = publish
        self._run_it = run_it
        self._files: dict[str, bytes] = {}
        self._ran: dict[str, bytes] | None = None  # the sources that the last run was planned for

    async def run(self) -> None:
        """Tell the state at the beginning as edit 0, then every edit."""
        try:
            await self._take(await self._settled(), first=True)
            while True:
                async for save_ns in self._hints():
                    files = await self._settled()
                    if files is not None and files != self._files:
                        await self._take(files, save_ns=save_ns)
                await asyncio.sleep(0.1)
        finally:
            self._tell_held("")

    async def _hints(self) -> AsyncIterator[int]:
        """CLOCK_MONOTONIC of every moment worth a look. Ends when something else must be listened to."""
        folder = self.target.folder
        places = await asyncio.to_thread(_places, folder)
        if places is None:
            await asyncio.sleep(AWAY_S)
        elif self.polling and time.monotonic() < self._ask_again:
            await asyncio.sleep(POLL_S)
        else:
            try:
                async with contextlib.aclosing(_news(places)) as news:
                    async for _ in news:
                        self._set_polling(None)
                        yield time.monotonic_ns()
                        if await asyncio.to_thread(_places, folder) != places:
                            return
            except FileNotFoundError:
                pass  # gone since we looked
            except ExceptionGroup as error:
                log.debug("news of %s could not be read: %s", folder, error.exceptions)  # a name that is no UTF-8
            except (OSError, RuntimeError, ValueError) as error:
                self._set_polling(error)
        yield time.monotonic_ns()

    def _set_polling(self, error: Exception | None) -> None:
        """Tell whether the kernel's news can be had, where that has changed."""
        if error is not None:
            self._ask_again = time.monotonic() + RETRY_S
        if self.polling != (error is not None):
            self.polling = error is not None
            told = f"looking every {POLL_S:.0f} s: {error}" if error else "told by the kernel again"
            log.warning("watching %s, %s", self.target.id, told)
            self._publish(self.changed(active=True))

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
        """The sources once they stand still; None while there is nothing to read, or git is at work."""
        deadline = time.monotonic() + LOCK_PATIENCE_S
        before = await asyncio.to_thread(self._read)
        lock: Path | None = None
        looked_twice = False
        while time.monotonic() < deadline:
            await asyncio.sleep(SETTLE_S)
            lock = await asyncio.to_thread(_git_lock, self.target.folder)
            if lock is not None:
                before = None
                await asyncio.sleep(0.05)
                continue
            now = await asyncio.to_thread(self._read)
            if now is None or now != before:
                before = now
                if now is None and not self.target.folder.is_dir():
                    break
                continue
            if not looked_twice and now != self._files and _half_written(now):
                looked_twice = True
                await asyncio.sleep(SECOND_LOOK_S)
                continue
            break
        self._tell_held(
            f"{self.target.id} is not run: {clean_line(os.fsencode(lock))} is there; remove it if no git command runs"
            if lock is not None
            else ""
        )
        return None if lock is not None else before

    def _tell_held(self, text: str) -> None:
        """Say once why no save is run, and once that it is over."""
        if self._held != bool(text):
            self._held = bool(text)
            self._publish(events.Banner(key=f"watch {self.target.id}", text=text))

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


async def _news(places: Places) -> AsyncGenerator[None, None]:
    """Something that matters has changed there, or `SWEEP_S` went by.

    Raises:
        ExceptionGroup: there is news that cannot be read.
        OSError, RuntimeError, ValueError: there will be none.
    """
    import watchfiles  # 70 ms, needed only when something is watched

    if not places.folders:
        raise ValueError("the folder's name is no UTF-8")
    changes = watchfiles.awatch(
        *places.folders,
        watch_filter=lambda _, path: places.matter(path),
        debounce=200,
        step=10,
        rust_timeout=int(SWEEP_S * 1000),
        yield_on_timeout=True,
        force_polling=False,
        recursive=False,
        ignore_permission_denied=True,
    )
    async with contextlib.aclosing(changes):
        async for _ in changes:
            yield


def _places(folder: Path) -> Places | None:
    """What to listen to for the sources of the target there; None while it is away."""
    folders: dict[str, tuple[int, int]] = {}
    linked: set[str] = set()
    pending = [(os.path.realpath(folder), 0)]
    while pending and len(folders) < MOST_PLACES:
        where, level = pending.pop(0)
        try:
            found = os.stat(where)  # noqa: PTH116  hot path
            if (found.st_dev, found.st_ino) in folders.values() or not _is_text(where):
                continue
            with os.scandir(where) as entries:
                for entry in entries:
                    if entry.name.startswith(".") or entry.name == "__pycache__":
                        continue
                    if entry.is_symlink() and (entry.name == LESSON or entry.name.endswith(SUFFIXES)):
                        linked.add(os.path.realpath(entry.path))
                    elif level < MAX_SUBFOLDERS and _is_folder(entry):
                        pending.append((os.path.realpath(entry.path), level + 1))
        except OSError:
            continue
        folders[where] = (found.st_dev, found.st_ino)
    if not folders and not folder.is_dir():
        return None
    within = frozenset(folders)
    for path in sorted(linked):
        where = os.path.dirname(path)  # noqa: PTH120  hot path
        if where not in folders and len(folders) < MOST_PLACES and _is_text(where):
            with contextlib.suppress(OSError):
                found = os.stat(where)  # noqa: PTH116  hot path
                folders[where] = (found.st_dev, found.st_ino)
    return Places(folders, within, frozenset(linked))


def _is_folder(entry: os.DirEntry[str]) -> bool:
    with contextlib.suppress(OSError):  # a link in a circle
        return entry.is_dir()
    return False


def _is_text(path: str) -> bool:
    """Whether the watcher can be asked for it: it takes no name that is no UTF-8."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


def _git_lock(folder: Path) -> Path | None:
    """The lock of a git command that is rewriting the checkout that holds the folder, wherever the folder really is."""
    real = Path(os.path.realpath(folder))
    for place in (real, *real.parents):
        with contextlib.suppress(OSError, ValueError):
            git = place / ".git"
            if git.is_file():  # a worktree or a submodule: "gitdir: PATH"
                git = place / git.read_text("utf-8", "surrogateescape").partition("gitdir:")[2].strip()
            if git.is_dir():
                lock = git / "index.lock"
                return lock if lock.exists() else None
    return None


def _half_written(files: dict[str, bytes]) -> bool:
    """Whether somebody may be in the middle of writing these: emptied and not filled yet, or cut off."""
    emptied = any(not data for name, data in files.items() if not name.endswith("__init__.py"))
    return emptied or bool(_syntax_error(files))


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
