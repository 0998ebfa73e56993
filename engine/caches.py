"""What compilers keep between runs: private to one process while it lasts, stored by the engine alone.

Every process has a folder of its own for what it compiles (`Child.folder`/cache). The process of a rung reaches it by a
path that is the same for the same code, a link below `links`, because compilers write absolute paths into what they
keep. Before its lesson is loaded the process is given the stored files of its own key. A key is made of everything that
decides what a rung compiles: its sources, the versions, the device, the arm. So files come from the same code only.

Files are taken over at the end of the run, not between its replicas: within a run the same values come again, and
nothing but the measured process may know them. Cost: a rung that compiles does so once for each replica of its first
run. What an arm of a run leaves counts only if all its processes ended well and no check caught it, and without what
was compiled for the drawn shapes, which are other ones in every run.

Stored files are copies in new inodes, never links: a process under our account could change what it shares. Each is
compared with the digest that was noted when it was taken over. Bounds: MOST_FILES and MOST_BYTES in an entry,
MOST_ENTRIES and MOST_STORED_BYTES in all, the oldest out. Nothing here starts a process.
"""

from __future__ import annotations

import ast
import asyncio
import contextlib
import functools
import hashlib
import logging
import os
import platform
import re
import secrets
import shutil
import stat
import threading
import time
from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from aisp.engine import installed, paths, workplaces
from aisp.engine.protocol import reports
from aisp.engine.ranks import Process
from aisp.engine.spawner import Child
from aisp.kernels import catalog
from aisp.kernels.catalog.parsing import REFUSALS, parsed
from aisp.kernels.catalog.sources import LESSON
from aisp.store.given import regular_bytes

log = logging.getLogger("aisp.caches")

FORMAT = 1  # of an entry; a part of every key
MOST_FILES = 1000
MOST_BYTES = 64 << 20
MOST_LOOKED_AT = 20_000  # files and folders of one process; who leaves more has nothing taken over
MOST_ENTRIES = 256
MOST_STORED_BYTES = 1 << 30
MANIFEST = "manifest"
# Who finds another's lock waits for a process that is no more: torch's builder of extensions waits without an end.
LOCK_NAME, LOCK_ENDING = "lock", ".lock"
MOST_MANIFEST_BYTES = 1 << 20
# What can load a source that no import line names: then all sources of the snapshot decide.
LOADERS = re.compile(
    rb"\b(?:importlib|__import__|exec|eval|runpy|open|read_text|read_bytes|__file__|sys\.path|sys\.modules|globals)\b"
)


class _File(msgspec.Struct, frozen=True):
    """One stored file: the digest names what holds its content."""

    digest: str
    nbytes: int
    mtime_ns: int
    mode: int


class _Manifest(msgspec.Struct, frozen=True):
    """An entry's files by relative name."""

    files: dict[str, _File]


def closure(files: Mapping[str, bytes], rung: str) -> dict[str, bytes]:
    """The files of a snapshot that make up the rung's code: its own, and those that its imports name.

    All files but the prose where a source may load others in another way, or does not parse.
    """
    everything = {name: content for name, content in files.items() if name != LESSON}
    by_word: dict[str, set[str]] = {}
    for name in everything:
        if name.endswith(".py"):
            for word in name[:-3].split("/"):
                by_word.setdefault(word, set()).add(name)
    parts: dict[str, bytes] = {}
    pending = {f"{rung}.py"}
    while pending:
        name = pending.pop()
        source = parts[name] = everything.get(name, b"")
        if LOADERS.search(source):
            return everything
        try:
            words = set(_imported(parsed(source)))
        except REFUSALS:
            return everything
        pending |= {near for word in words for near in by_word.get(word, ())} - parts.keys()
    return parts


def builds(files: Mapping[str, bytes], rung: str) -> bool:
    """Whether a rung builds an extension when it is imported."""
    if not any(map(catalog.builds, files.values())):  # as in most runs, whose first sample somebody waits for
        return False
    return any(map(catalog.builds, closure(files, rung).values()))


def _imported(tree: ast.AST) -> Iterator[str]:
    """Every word of every import."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            for alias in node.names:
                yield from alias.name.split(".")
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from node.module.split(".")


@functools.cache
def _processor() -> str:
    """The CPU that code is compiled for: compilers use what it offers."""
    lines: set[str] = set()
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text("utf-8", "replace").splitlines():
            if line.startswith(("model name", "flags", "Features", "CPU part")):
                lines.add(line)
    return "\n".join([platform.machine(), *sorted(lines)])


def _own_sources() -> str:
    """A digest over the content of the source files that judge and measure."""
    return _digest_of(tuple(sorted(installed.stats(installed.own_files()).items())))


@functools.lru_cache(maxsize=1)
def _digest_of(files: tuple[tuple[str, installed.Stat], ...]) -> str:
    """Digest of files by content. A file is read again only where stat() differs."""
    digest = hashlib.sha256()
    for path, _ in files:
        digest.update(f"{path}\0".encode("utf-8", "surrogateescape") + hashlib.sha256(Path(path).read_bytes()).digest())
    return digest.hexdigest()


def key_of(
    files: Mapping[str, bytes],
    rung: str,
    arm: str,
    rank: int,
    ready: reports.Ready,
    *,
    device: str,
    interpret: bool,
    seat: int = 0,
) -> str:
    """The name of an entry: a digest over everything that decides what this process compiles.

    Args:
        seat: how many processes of the same arm live already, each with a path of its own.
    """
    digest = hashlib.sha256()

    def add(*words: object) -> None:
        for word in words:
            text = word if isinstance(word, bytes) else str(word).encode("utf-8", "surrogateescape")
            digest.update(f"{len(text)}\0".encode() + text)

    add(FORMAT, _own_sources(), rung, arm, rank, device, interpret)
    add(ready.torch, ready.cuda, ready.gpu_name, ready.sm, _processor())
    for name, version in sorted(ready.versions.items()):
        add(name, version)
    for name in paths.ENVIRONMENT_NAMES:
        add(name, os.environ.get(name, ""))
    for name, content in sorted(closure(files, rung).items()):
        add(name, content)
    if seat:
        add("seat", seat)
    return digest.hexdigest()


class Caches:
    """The store of compiled files. Its methods read and write files: call them in a thread, before or after timing."""

    def __init__(self, stored: Path, links: Path) -> None:
        self._stored = stored
        self._links = links
        self._noted: dict[str, str] = {}  # by key: the manifest's digest when it was last read or written
        self._holders: dict[str, Child] = {}  # by key: whose folder the link leads to
        # Of what is compiled ahead of its run (engine.ahead), by key: who is at it, and what an ended process left.
        self.coming: dict[str, asyncio.Task[None]] = {}
        self.ahead: dict[str, Path] = {}
        self.lock = threading.Lock()  # jobs of several slots come here side by side, each in a thread

    # -- before a lesson is loaded ---------------------------------------------------------------------------------

    def lend(self, key: str, child: Child) -> Path | None:
        """Lead the key's path to the child's folder; None where another living process has the path."""
        holder = self._holders.get(key)
        if holder is not None and holder is not child and holder.alive:
            return None
        self._holders = {k: held for k, held in self._holders.items() if held.alive}
        self._links.mkdir(mode=0o700, parents=True, exist_ok=True)
        link = self._links / key
        fresh = self._links / f".{secrets.token_hex(8)}"
        fresh.symlink_to(child.caches)
        fresh.replace(link)
        self._holders[key] = child
        return link

    def has(self, key: str) -> bool:
        """Whether there is an entry."""
        return (self._stored / key / MANIFEST).is_file()

    def hand_on(self, key: str, into: Path) -> int:
        """Copy what was compiled ahead into a process's folder, within bounds; it is not stored. Returns how many files
        were copied.
        """
        source = self.ahead.get(key)
        if source is None:
            return 0
        written = 0
        for name, (nbytes, mtime_ns) in _within_bounds(_left_in(source)).items():
            with contextlib.suppress(FileExistsError):
                content = regular_bytes(source / name, nbytes)
                _write(into / name, content, _File("", len(content), mtime_ns, _mode(source / name)))
                written += 1
        log.info("compiled files %s: %d handed on that were compiled ahead", key, written)
        return written

    def give_back(self, key: str) -> None:
        """A job's processes of the key have ended. One of another job may have its path by now."""
        holder = self._holders.get(key)
        if holder is None or not holder.alive:
            self._holders.pop(key, None)
            (self._links / key).unlink(missing_ok=True)

    def seed(self, key: str, into: Path) -> int:
        """Copy the entry's files into a process's folder. Files that are there stay. Returns how many were copied.

        An entry that differs from what was noted is removed, and counts as none.
        """
        start = time.perf_counter()
        manifest = self._read(key)
        if manifest is None:
            return 0
        written = nbytes = 0
        for name, file in manifest.files.items():
            try:
                content = regular_bytes(self._stored / key / file.digest, MOST_BYTES)
            except OSError as error:
                content = b""
                log.warning("compiled files %s: %s cannot be read: %s", key, file.digest, error)
            if _digest(content) != file.digest:
                log.warning("compiled files %s: %s is not what was stored; the entry is removed", key, name)
                self.remove(key)
                break
            with contextlib.suppress(FileExistsError):
                _write(into / name, content, file)
                written, nbytes = written + 1, nbytes + len(content)
        with contextlib.suppress(OSError):
            os.utime(self._stored / key)  # the oldest entry goes first
        log.info(
            "compiled files %s: %d given, %d bytes, %.1f ms",
            key, written, nbytes, (time.perf_counter() - start) * 1e3,
        )  # fmt: skip
        return written

    # -- after the run ---------------------------------------------------------------------------------------------

    def take_over(self, key: str, source: Path, *, but: Collection[str] = ()) -> int:
        """Make the entry what an ended process left in its folder, within bounds. Returns how many files it has now.

        Args:
            but: relative names of files that are of no use to another run.
        """
        start = time.perf_counter()
        left = _within_bounds(file for file in _left_in(source) if file.name not in but)
        if not left:
            return 0
        entry = self._read(key)
        if entry is not None and {n: (f.nbytes, f.mtime_ns) for n, f in entry.files.items()} == left:
            return len(entry.files)
        partial = self._stored / f".{key}.{secrets.token_hex(4)}"
        partial.mkdir(mode=0o700, parents=True)
        files: dict[str, _File] = {}
        try:
            for name, (nbytes, mtime_ns) in left.items():
                with contextlib.suppress(OSError):
                    content = regular_bytes(source / name, nbytes)
                    files[name] = _File(_digest(content), len(content), mtime_ns, _mode(source / name))
                    (partial / files[name].digest).write_bytes(content)
            data = msgspec.msgpack.encode(_Manifest(files))
            (partial / MANIFEST).write_bytes(data)
            self.remove(key)
            partial.rename(self._stored / key)
            self._noted[key] = _digest(data)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
        self._prune()
        log.info(
            "compiled files %s: %d taken over, %d bytes, %.1f ms",
            key, len(files), sum(file.nbytes for file in files.values()), (time.perf_counter() - start) * 1e3,
        )  # fmt: skip
        return len(files)

    def remove(self, key: str) -> None:
        """Forget an entry."""
        self._noted.pop(key, None)
        shutil.rmtree(self._stored / key, ignore_errors=True)

    def _read(self, key: str) -> _Manifest | None:
        """The entry's manifest, None where there is no entry or it was changed since this engine saw it last."""
        path = self._stored / key / MANIFEST
        try:
            data = regular_bytes(path, MOST_MANIFEST_BYTES)
            manifest = msgspec.msgpack.decode(data, type=_Manifest)
        except FileNotFoundError:
            return None
        except (OSError, msgspec.MsgspecError, RecursionError, UnicodeError) as error:
            log.warning("compiled files %s cannot be read (%s); the entry is removed", key, error)
            self.remove(key)
            return None
        total = sum(file.nbytes for file in manifest.files.values())
        changed = self._noted.setdefault(key, _digest(data)) != _digest(data)
        if changed or len(manifest.files) > MOST_FILES or total > MOST_BYTES or not all(map(_inside, manifest.files)):
            log.warning("compiled files %s were changed by somebody; the entry is removed", key)
            self.remove(key)
            return None
        return manifest

    def _prune(self) -> None:
        """Remove the oldest entries beyond the bounds."""
        entries: list[tuple[float, int, Path]] = []
        for entry in self._stored.iterdir():
            with contextlib.suppress(OSError):
                entries.append((entry.stat().st_mtime, size_bytes(entry), entry))
        total = 0
        for number, (_, nbytes, entry) in enumerate(sorted(entries, reverse=True)):
            total += nbytes
            if number >= MOST_ENTRIES or (total > MOST_STORED_BYTES and number):
                self.remove(entry.name)


def size_bytes(folder: Path) -> int:
    """Bytes of the files below a folder, 0 where there is none."""
    total = 0
    for where, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                total += (Path(where) / name).lstat().st_size
    return total


class _LeftFile(NamedTuple):
    """A file that a process left, by its relative name. Sorts by time."""

    mtime_ns: int
    nbytes: int
    name: str


def _left_in(source: Path) -> list[_LeftFile]:
    """Regular files worth keeping below a folder."""
    # A rung may have put links in the place of its folders: none is followed.
    pending = [str(folder) for folder in (source / name for name in paths.KEPT_CACHES) if _is_folder(folder)]
    if not _is_folder(source):
        return []
    files: list[_LeftFile] = []
    looked_at = 0
    while pending:
        try:
            entries = os.scandir(pending.pop())
        except OSError:
            continue
        with entries:
            for entry in entries:
                looked_at += 1
                if looked_at > MOST_LOOKED_AT:
                    log.warning("over %d files were left in %s: none is kept", MOST_LOOKED_AT, source)
                    return []
                if entry.is_dir(follow_symlinks=False):
                    pending.append(entry.path)
                elif entry.is_file(follow_symlinks=False) and not _is_lock(entry.name):
                    with contextlib.suppress(OSError):  # a compiler may be at work
                        seen = entry.stat(follow_symlinks=False)
                        files.append(_LeftFile(seen.st_mtime_ns, seen.st_size, os.path.relpath(entry.path, source)))
    return files


def _within_bounds(files: Iterable[_LeftFile]) -> dict[str, tuple[int, int]]:
    """Size and time by name, the newest first up to the bounds."""
    kept: dict[str, tuple[int, int]] = {}
    total = 0
    for mtime_ns, nbytes, name in sorted(files, reverse=True):
        if len(kept) < MOST_FILES and total + nbytes <= MOST_BYTES and _inside(name):
            kept[name] = nbytes, mtime_ns
            total += nbytes
    return kept


def _is_lock(name: str) -> bool:
    return name == LOCK_NAME or name.endswith(LOCK_ENDING)


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def _inside(name: str) -> bool:
    """Whether a relative name stays below its folder and can be a message's text."""
    return not name.startswith("/") and ".." not in name.split("/") and name.isprintable()


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode) & 0o700


def _write(path: Path, content: bytes, file: _File) -> None:
    """A new file. Raises FileExistsError where there is one."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, file.mode | 0o600)
    with os.fdopen(descriptor, "wb") as sink:
        sink.write(content)
    os.utime(path, ns=(file.mtime_ns, file.mtime_ns))  # build tools go by times


def _digest(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=20).hexdigest()


# -- one run -----------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Left:
    """What the processes of one key left in this run."""

    arm: str
    seeded: bool = False
    folder: Path | None = None  # of the first process that ended well
    passing: frozenset[str] = frozenset()  # what it compiled for this run alone


@dataclass(slots=True)
class RunCaches:
    """The caches of one run or fuzz: which process has which key, and what is taken over at the end."""

    caches: Caches
    files: Mapping[str, bytes]
    device: str
    interpret: bool
    keeps: bool = True  # whether anything is taken over
    _keys: dict[int, str] = field(default_factory=dict)  # by process
    _passing: dict[int, frozenset[str]] = field(default_factory=dict)  # by process
    _left: dict[str, _Left] = field(default_factory=dict)  # by key

    async def prepare(self, process: Process, rung: str, arm: str, seat: int = 0) -> list[bytes]:
        """Give the processes of an arm their keys' files, before the lesson is loaded. Returns the folder of every
        rank. `seat`: see key_of.

        What compiles the same ahead of the run is waited for: it has the path.
        """
        keys = await asyncio.to_thread(self._named, process.children, rung, arm, seat)
        if coming := {self.caches.coming[key] for key in keys if key in self.caches.coming}:
            await asyncio.wait(coming)
        return await asyncio.to_thread(self._prepare, process.children, keys, arm)

    def _named(self, children: Sequence[Child], rung: str, arm: str, seat: int) -> list[str]:
        """The key of every rank; "" of one that is not ready."""
        where: dict[str, Any] = {"device": self.device, "interpret": self.interpret, "seat": seat}
        return [
            "" if child.ready is None else key_of(self.files, rung, arm, rank, child.ready, **where)
            for rank, child in enumerate(children)
        ]

    def _prepare(self, children: Sequence[Child], keys: Sequence[str], arm: str) -> list[bytes]:
        with self.caches.lock:
            return self._folders_for(children, keys, arm)

    def _folders_for(self, children: Sequence[Child], keys: Sequence[str], arm: str) -> list[bytes]:
        folders: list[bytes] = []
        for key, child in zip(keys, children, strict=True):
            folder = child.caches
            if key:
                try:
                    link = self.caches.lend(key, child)
                    if link is not None:
                        folder = link
                        self._keys[child.pid] = key
                        left = self._left.setdefault(key, _Left(arm))
                        if self.caches.seed(key, child.caches):
                            left.seeded = True
                        else:
                            self.caches.hand_on(key, child.caches)
                except OSError as error:  # a full disk: it compiles what it needs
                    log.warning("compiled files %s could not be given: %s", key, error)
            folders.append(os.fsencode(folder))
        return folders

    @contextlib.asynccontextmanager
    async def passing(self, process: Process) -> AsyncIterator[None]:
        """What is compiled inside is not taken over: it is for shapes that no other run has.

        Otherwise each run would add its files to the entry and push out those that every run needs.
        """
        before = await asyncio.to_thread(self._names, process)
        try:
            yield
        finally:
            after = await asyncio.to_thread(self._names, process)
            for pid, names in after.items():
                self._passing[pid] = self._passing.get(pid, frozenset()) | (names - before[pid])

    def _names(self, process: Process) -> dict[int, frozenset[str]]:
        """The files in the caches of each process whose caches may be kept."""
        children = process.children if self.keeps else ()
        return {child.pid: frozenset(file.name for file in _left_in(child.caches)) for child in children}

    def keep(self, process: Process) -> None:
        """The arm's part is done and counts: files of these processes may be taken over at the end of the run."""
        for child in process.children:
            left = self._left.get(self._keys.get(child.pid, ""))
            if self.keeps and left is not None and left.folder is None:
                left.folder = child.folder
                left.passing = self._passing.get(child.pid, frozenset())
                child.keeps_folder = True

    async def settle(self, good: Collection[str]) -> None:
        """Take over what `good` arms left, forget the entries of arms that had one and failed, give the folders back.

        It is called behind the run's last sample, when all processes have ended.
        """
        await asyncio.to_thread(self._settle, frozenset(good))
        for left in self._left.values():
            if left.folder is not None:
                workplaces.leave(left.folder)
        self._left.clear()
        self._keys.clear()
        self._passing.clear()

    def _settle(self, good: frozenset[str]) -> None:
        for key, left in self._left.items():
            with self.caches.lock:
                self.caches.give_back(key)
                if left.folder is not None and left.arm in good:
                    try:
                        self.caches.take_over(key, left.folder / paths.CACHE_FOLDER, but=left.passing)
                    except OSError as error:  # a full disk: the next run compiles once more
                        log.warning("compiled files %s could not be stored: %s", key, error)
                if self.keeps and left.seeded and left.arm not in good:
                    self.caches.remove(key)
