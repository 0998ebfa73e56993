"""Watching a target's folder: each save becomes one run of the last state, and ends that of the save before.

What the kernel says about files is a hint: the watch reads and compares the sources whenever it wakes. It also wakes by
itself every `SWEEP_S` seconds, since a watch falls silent when its folder is replaced, and some file systems report
nothing. A save counts once it has settled: two readings agree, no git command holds its lock, and every file is full
and compiles, or stays as it is for a moment longer. The first state settles too. Whatever goes wrong with a save is
reported as what it was, and ends that edit, not the watch.

A rung may write a source beside itself (an autotuner its choice). Such a file is reported, and its changes during a run
are no edits: each would start the run that makes the next one.

The watch listens to the folders that sources lie in, and to the folder of each linked file by itself: a link to one
file of a large tree costs one folder. Where inotify's limits leave nothing, the watch says that it polls, looks every
`POLL_S` seconds, and asks the kernel again every `RETRY_S`.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import logging
import math
import os
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from aisp.engine.protocol import events
from aisp.kernels import catalog
from aisp.kernels.catalog.model import Target
from aisp.kernels.catalog.parsing import refusal
from aisp.kernels.catalog.sources import list_files
from aisp.store.given import regular_bytes
from aisp.store.text import clean_line

log = logging.getLogger("aisp.watch")

SWEEP_S = 2.0
POLL_S = 1.0  # between looks where the kernel tells nothing
RETRY_S = 60.0
AWAY_S = 0.25  # between looks for a folder that is not there
SETTLE_S = 0.02
SECOND_LOOK_S = 0.15
LOCK_PATIENCE_S = 30.0
RUN_BEHIND_S = SWEEP_S + 1.0  # a run's last write may be seen so long after its end
MOST_PLACES = 256  # folders that one watch listens to; what lies in others is found by the sweep
IGNORED_ENDINGS = ("~", ".swp", ".swx", ".swo", ".tmp")

Announce = Callable[[str, str], None]
"""announce(snapshot, run id): report the edit, before its run is."""
RunIt = Callable[[Target, dict[str, bytes], int, set[str] | None, Announce], Awaitable[tuple[str, str]]]
"""run_it(target, files, number of the edit, names to run for, announce) -> (snapshot, error).

No names: all; None: store, run nothing.
"""


@dataclass(frozen=True)
class Places:
    """What one watch listens to, by real paths.

    Attributes:
        folders: device and inode of every folder; another folder under the same name must be listened to anew.
        within: folders where every name counts; in the others only `linked` does.
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

    def __init__(
        self,
        target: Target,
        publish: Callable[[events.Event], None],
        run_it: RunIt,
        running: Callable[[], bool],
        last_edit: int | None = None,
    ) -> None:
        """`running` says whether a run of the target is under way; `last_edit` is the number of an earlier watch's."""
        self.target = target
        self.count = 0  # saves since it began
        self._next_edit = 0 if last_edit is None else last_edit + 1
        self.polling = False
        self._ask_again = 0.0  # CLOCK_MONOTONIC; while polling
        self._banners: dict[str, str] = {}  # banners that stand, by what they are about
        self._publish = publish
        self._run_it = run_it
        self._running = running
        self._left_out = target.left_out  # the reply to who asked for the watch names them
        self._files: dict[str, bytes] = {}
        self._ran: dict[str, bytes] | None = None  # the sources that the last run was planned for
        self._written: dict[str, str] = {}  # files that rungs write themselves, with the rung
        self._run_ended_s = -math.inf  # CLOCK_MONOTONIC

    async def run(self) -> None:
        """Report the state at the beginning as edit 0, then every edit."""
        first = True
        try:
            while True:
                try:
                    if first:
                        first = False
                        await self._take(await self._settled(), first=True)
                    async with contextlib.aclosing(self._hints()) as hints:
                        async for save_ns in hints:
                            await self._look(save_ns)
                            self._report("the watch itself", "")
                except Exception as error:  # whatever it is: the next save is looked at again
                    message = f"a save of {self.target.id} could not be looked at: {_named(error)}"
                    if self._report("the watch itself", message):
                        log.exception("%s", message)
                    await asyncio.sleep(SWEEP_S)
                await asyncio.sleep(0.1)
        finally:
            for about in list(self._banners):
                self._report(about, "")

    async def _look(self, save_ns: int) -> None:
        """Take the present state of the sources, if it is another one."""
        files = await self._settled()
        if files is None or files == self._files:
            return
        changed = _differing(files, self._files)
        if changed <= self._written.keys():
            if self._running() or time.monotonic() < self._run_ended_s + RUN_BEHIND_S:
                self._files = files
                if self._ran is not None:
                    kept = {name: data for name, data in self._ran.items() if name not in changed}
                    self._ran = kept | {name: files[name] for name in changed & files.keys()}
                return
            self._written = {name: rung for name, rung in self._written.items() if name not in changed}
            self._report_written()
        await self._take(files, save_ns=save_ns)

    def run_ended(self, written: Mapping[str, str]) -> None:
        """Note that a run of the target has ended, and which sources of the folder its rungs wrote (name: rung)."""
        self._run_ended_s = time.monotonic()
        if not written.keys() <= self._written.keys():
            self._written |= written
            self._report_written()

    def _report_written(self) -> None:
        names = ", ".join(f"{self.target.folder / name} (by {rung})" for name, rung in sorted(self._written.items()))
        sentence = f"a run of {self.target.id} writes a source that is watched: {clean_line(os.fsencode(names))}"
        self._report(
            "its own", f"{sentence}; no run starts of it until it changes while none is under way" if names else ""
        )

    async def _hints(self) -> AsyncGenerator[int, None]:
        """CLOCK_MONOTONIC of every moment worth a look. Ends when other folders must be listened to."""
        folder = self.target.folder
        places = await asyncio.to_thread(_places, folder, self.target.links)
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
                        if await asyncio.to_thread(_places, folder, self.target.links) != places:
                            return
            except FileNotFoundError:
                pass  # gone since we looked
            except ExceptionGroup as error:
                log.debug("news of %s could not be read: %s", folder, error.exceptions)  # a name that is no UTF-8
            except (OSError, RuntimeError, ValueError) as error:
                self._set_polling(error)
        yield time.monotonic_ns()

    def _set_polling(self, error: Exception | None) -> None:
        """Report that the kernel's news cannot be had, or can be had again."""
        if error is not None:
            self._ask_again = time.monotonic() + RETRY_S
        if self.polling != (error is not None):
            self.polling = error is not None
            sentence = f"looking every {POLL_S:.0f} s: {error}" if error else "the kernel reports changes again"
            log.warning("watching %s, %s", self.target.id, sentence)
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
        doubted: tuple[tuple[str, int], ...] = ()
        held = ""
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
            doubt = await asyncio.to_thread(self._doubt, now)
            if not doubt or doubt == doubted:
                break
            doubted = doubt
            await asyncio.sleep(SECOND_LOOK_S)
        else:
            if lock is not None:
                held = f"{clean_line(os.fsencode(lock))} is there; remove it if no git command runs"
            elif before is not None:
                held = f"its files have been changing for {LOCK_PATIENCE_S:g} s; it runs once they stand still"
            before = None
        self._report("held", held and f"{self.target.id} is not run: {held}")
        news = [problem for problem in self.target.left_out if problem not in self._left_out]
        self._report("what is left out", "; ".join(clean_line(str(problem)) for problem in news))
        return before

    def _doubt(self, files: dict[str, bytes]) -> tuple[tuple[str, int], ...]:
        """Files that may be half written (emptied, or cut off), each with the time of its last change."""
        doubtful = []
        for name in sorted(_differing(files, self._files) & files.keys()):
            emptied = not files[name] and not name.endswith("__init__.py")
            if emptied or _refused({name: files[name]}):
                changed_ns = 0
                with contextlib.suppress(OSError):
                    changed_ns = (self.target.folder / name).stat().st_mtime_ns
                doubtful.append((name, changed_ns))
        return tuple(doubtful)

    def _report(self, about: str, text: str) -> bool:
        """Report something once, and once that it is over. Returns whether it was news."""
        news = self._banners.get(about, "") != text
        if news:
            self._banners[about] = text
            self._publish(events.Banner(key=f"watch {self.target.id}: {about}", text=text))
        return news

    async def _take(self, files: dict[str, bytes] | None, *, first: bool = False, save_ns: int = 0) -> None:
        if files is None:
            return
        changed = _differing(files, self._files)
        self._files = files
        number = self._next_edit
        self._next_edit += 1
        self.count += not first
        announced = ""

        def announce(snapshot: str, run_id: str = "", error: str = "") -> None:
            nonlocal announced
            announced = run_id
            self._publish(
                events.WatchEdit(
                    target=self.target.id,
                    number=number,
                    snapshot=snapshot,
                    files=[] if first else sorted(changed),
                    run_id=run_id,
                    error=error,
                    wall=datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds"),
                    save_ns=save_ns or time.monotonic_ns(),
                )
            )

        try:
            error = await asyncio.to_thread(self._broken, files, files.keys() if first else changed)
            owed: set[str] | None = None
            if not error:
                # What an edit that did not compile had changed is still owed a run.
                owed = set() if self._ran is None else _differing(files, self._ran) or changed
            snapshot, refused = await self._run_it(self.target, files, number, owed, announce)
            if not announced:
                announce(snapshot, error=error or refused)
            if not error:
                self._ran = files
        except Exception as problem:  # whatever it is, it ends this edit alone
            log.exception("edit %d of %s could not be run", number, self.target.id)
            if not announced:
                message = f"this save could not be run: {_named(problem)}; save again to have it tried again"
                announce("", error=message)

    def _broken(self, files: dict[str, bytes], names: Collection[str]) -> str:
        """Which of these files does not compile, or what is wrong with the target; "" where nothing is."""
        if cause := _refused({name: files[name] for name in names if name in files}):
            return cause
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


def _places(folder: Path, links: Collection[str] = ()) -> Places | None:
    """What to listen to for the sources of the target there; None while it is away."""
    try:
        listing = list_files(folder, links)
    except OSError:
        return None
    folders: dict[str, tuple[int, int]] = {}
    linked = frozenset(map(os.path.realpath, listing.linked))
    walked = [os.path.realpath(path) for path in listing.folders]
    for where in (*walked, *sorted({os.path.dirname(path) for path in linked})):  # noqa: PTH120  hot path
        if where not in folders and len(folders) < MOST_PLACES and _is_text(where):
            with contextlib.suppress(OSError):
                status = os.stat(where)  # noqa: PTH116  hot path
                folders[where] = (status.st_dev, status.st_ino)
    return Places(folders, frozenset(walked), linked)


def _is_text(path: str) -> bool:
    """Whether the watcher accepts the path: it takes no name that is not UTF-8."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


def _git_lock(folder: Path) -> Path | None:
    """The lock file of a git command that rewrites the checkout which really holds the folder."""
    real = Path(os.path.realpath(folder))
    for place in (real, *real.parents):
        with contextlib.suppress(OSError, ValueError):
            git = place / ".git"
            if git.is_file():  # a worktree or a submodule: "gitdir: PATH"
                git = place / os.fsdecode(regular_bytes(git, 4096, follow=True)).partition("gitdir:")[2].strip()
            if git.is_dir():
                lock = git / "index.lock"
                return lock if lock.exists() else None
    return None


def _refused(files: Mapping[str, bytes]) -> str:
    """The first Python file that does not compile, as a sentence with file and line; "" where all do."""
    compiled = (refusal(data, name) for name, data in sorted(files.items()) if name.endswith(".py"))
    return next(filter(None, compiled), "")


def _named(error: Exception) -> str:
    """An unexpected exception, by type and message."""
    return clean_line(f"{type(error).__name__}: {error}".rstrip(": "))
