"""What trusted processes import: which files, by stat() and by content, and what has become of them since.

Engine, verifier and workers import from the folders of their interpreter's import path. A `.pth` file there, a
`sitecustomize.py`, or a module that shadows another one is run by every process that is started from then on, so a rung
that leaves one owns the verifier of the next run. Nothing can keep an account from writing to its own folders. What
this module does is to look: before a run, after it, and now and then between runs.

A look takes the top level of every folder of the import path (names; of files and of `__init__` what stat() says), our
own sources, and the files that a standing process had imported or mapped when it was ready. It starts no process and
reads no file where nothing has changed: some milliseconds, in a thread. What has changed by stat() alone is judged by
content, where that is known: files are read once in the life of an engine, while nothing is measured.

    nobody's run was going on   noted; standing processes start anew
    a run was going on          that run is SUSPECT, and no process is started until the entry is gone or accepted
"""

from __future__ import annotations

import contextlib
import enum
import hashlib
import importlib.machinery
import importlib.util
import json
import logging
import os
import subprocess
import sys
import sysconfig
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

import msgspec

from aisp.engine import paths
from aisp.store.text import clean_line

log = logging.getLogger("aisp.installed")

Stat: TypeAlias = tuple[int, int, int, int]
"""Inode, size, time of the last write and of the last change in ns. The last cannot be set back by who rewrites a file
and restores the third."""

THERE: Stat = (0, 0, 0, 0)  # of a folder: its name counts, not what stat() says of it

OWN_SOURCES = ("checks", "engine", "store", "kernels/catalog", "kernels/cuda.py", "kernels/peers.py", "kernels/runtime")
LESSON_FOLDERS = ("gallery", "corpus")  # lessons in our folders: each is a target with a snapshot of its own
COMPILED = "__pycache__"
METADATA = (".dist-info", ".egg-info")
ENTRY_POINTS = "entry_points.txt"  # names modules that torch and Triton import as plug-ins when they are imported
SITE_FOLDERS = ("site-packages", "dist-packages")
CUSTOMIZE = ("sitecustomize.py", "usercustomize.py")
STARTUP = (*CUSTOMIZE, "pyvenv.cfg")

_SUFFIXES = tuple(importlib.machinery.all_suffixes())
_PROBE_S = 20.0
_CHUNK_BYTES = 1 << 20
_WAIT_S = 0.2  # between looks whether something is measured
_MOST_NAMED = 3


class What(enum.StrEnum):
    """What has become of an entry."""

    APPEARED = "appeared"
    CHANGED = "changed"
    GONE = "is gone"
    PASSED = "had something put in and taken away"  # of a folder whose entries are what they were


class Change(msgspec.Struct, frozen=True):
    """One entry that is not what it was."""

    path: str
    what: What

    @property
    def text(self) -> str:
        """For a person."""
        return f"{clean_line(os.fsencode(self.path))} {self.what.value}"


class Entry(msgspec.Struct, frozen=True, array_like=True):
    """A file of the manifest; `sha256` is "" until it has been read, and of a folder."""

    stat: Stat
    sha256: str = ""


class News(msgspec.Struct, frozen=True):
    """What a look found while no run went on.

    Attributes:
        noted: entries that came, went or changed since the last look; they count as known from now on.
        released: whether the reason for starting no process is gone.
    """

    noted: tuple[Change, ...] = ()
    released: bool = False


class Remembered(msgspec.Struct):
    """What outlasts an engine, in the state folder.

    Attributes:
        python: the interpreter that all else is about.
        blocked: what appeared or changed while a run went on, and has been neither removed nor accepted.
        whose: that run.
        accepted: it was accepted while there was no engine; the next one releases the rungs.
    """

    python: str
    path: list[str] = []
    files: list[str] = []
    entries: dict[str, Entry] = {}
    blocked: list[Change] = []
    whose: str = ""
    accepted: bool = False


def listed(changes: Sequence[Change]) -> str:
    """The first of them by name."""
    more = f" and {len(changes) - _MOST_NAMED} more" if len(changes) > _MOST_NAMED else ""
    return "; ".join(change.text for change in changes[:_MOST_NAMED]) + more


# -- what there is -----------------------------------------------------------------------------------------------------


def import_path() -> list[str]:
    """Folders from which a process of this interpreter imports, with no options of its own. Asks one: 30 ms."""
    from aisp.engine.spawner import helped  # `aisp doctor` asks nobody

    words = [sys.executable, "-P", "-s", "-E", "-c", "import json, sys; print(json.dumps(sys.path))"]
    try:
        answer = helped(words, _PROBE_S).stdout
        return [entry for entry in json.loads(answer.splitlines()[-1]) if os.path.isabs(entry)]  # noqa: PTH117  text
    except (OSError, subprocess.SubprocessError, ValueError, IndexError):
        return [entry for entry in sys.path if os.path.isabs(entry)]  # noqa: PTH117  this process has one that works


def top_level(path: Iterable[str]) -> dict[str, Stat]:
    """The top level of every folder of an import path: all that a name can be imported from, and what runs at start."""
    by_path: dict[str, Stat] = {}
    for folder in path:
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    _take_in(entry, by_path)
        except NotADirectoryError:
            by_path |= stats([folder])  # a zip file
        except OSError:
            continue  # not there, or closed to us: what appears is seen when it does
        if is_site(folder):
            with contextlib.suppress(OSError):
                at = os.stat(folder)  # noqa: PTH116  hot path
                by_path[folder + os.sep] = (at.st_ino, 0, at.st_mtime_ns, at.st_ctime_ns)
    by_path |= stats([os.path.join(sys.prefix, "pyvenv.cfg")])  # noqa: PTH118  hot path
    return by_path


def is_site(folder: str) -> bool:
    """Whether packages are installed there, or Python itself: nothing comes and goes in it but by an installation."""
    return os.path.basename(folder) in SITE_FOLDERS or folder == sysconfig.get_paths()["stdlib"]  # noqa: PTH119  hot path


def _take_in(entry: os.DirEntry[str], by_path: dict[str, Stat]) -> None:
    name = entry.name
    if name.endswith((".pth", *_SUFFIXES)) or name in STARTUP:
        by_path |= stats([entry.path])
    elif name.endswith(METADATA) or name == COMPILED or name.isidentifier():
        if not entry.is_dir():
            return
        by_path[entry.path] = THERE
        if name.isidentifier() and name != COMPILED:
            for suffix in _SUFFIXES:
                by_path |= stats([f"{entry.path}/__init__{suffix}"])
        elif name != COMPILED:
            by_path |= stats([f"{entry.path}/{ENTRY_POINTS}"])


def stats(files: Iterable[str]) -> dict[str, Stat]:
    """What stat() says of the files that exist."""
    by_path: dict[str, Stat] = {}
    for path in files:
        try:
            at = os.stat(path)  # noqa: PTH116  hot path
        except (OSError, ValueError):
            continue
        by_path[path] = (at.st_ino, at.st_size, at.st_mtime_ns, at.st_ctime_ns)
    return by_path


def own_files() -> Iterator[str]:
    """The files that judge and measure: sources, and the data that they read."""
    root = Path(__file__).parent.parent
    for part in OWN_SOURCES:
        start = root / part
        if start.is_file():
            yield str(start)
        for where, folders, names in os.walk(start):
            folders[:] = [name for name in folders if name not in (COMPILED, *LESSON_FOLDERS)]
            yield from (os.path.join(where, name) for name in names if name.endswith((".py", ".toml")))  # noqa: PTH118  hot path


def shadows(path: Sequence[str]) -> dict[str, str]:
    """Files that are imported in the place of a module further down the import path, by file: that module.

    A lone file in the place of a package is one, and so is anything in the place of a standard module. A package that
    is installed twice is no shadow of itself.
    """
    first: dict[str, str] = {}
    by_file: dict[str, str] = {}
    for folder in path:
        for module, file in _modules(folder).items():
            before = first.setdefault(module, file)
            whole = file.endswith("/__init__.py") and not before.endswith("/__init__.py")
            if before != file and not _is_standard(module, before) and (whole or _is_standard(module, file)):
                by_file.setdefault(before, file)
    return by_file


def _modules(folder: str) -> dict[str, str]:
    """The file that each name in a folder of the import path is imported from; a package goes before a lone file."""
    by_module: dict[str, str] = {}
    for path in top_level([folder]):
        where, name = os.path.split(path)
        module = name.partition(".")[0]
        if where == folder and module.isidentifier():
            if name.endswith(_SUFFIXES):
                by_module.setdefault(module, path)
            elif os.path.exists(f"{path}/__init__.py"):  # noqa: PTH110  hot path
                by_module[module] = f"{path}/__init__.py"
    return by_module


def _is_standard(module: str, file: str) -> bool:
    """Whether it is the standard library's own file of that name."""
    stdlib = sysconfig.get_paths()["stdlib"]
    rest = file.removeprefix(stdlib + os.sep)
    return module in sys.stdlib_module_names and rest != file and not rest.startswith(SITE_FOLDERS)


# -- what has become of it ---------------------------------------------------------------------------------------------


class Installation:
    """What trusted processes import, as it was and as it is. Its methods block: they are for threads."""

    def __init__(self, file: Path, *, path: Sequence[str] | None = None, own: bool = True) -> None:
        """`file` keeps what outlasts this object; `path` is the import path, asked of an interpreter if not given."""
        # Held open: what is remembered never goes to a folder that was put in its place.
        self._folder = os.open(file.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._file = file
        self._mark = file.with_suffix(".run")
        self._fixed_path = path
        self._own = own
        self._path: list[str] = []
        self._files: set[str] = set()
        self._entries: dict[str, Entry] = {}
        self._blocked: dict[str, Change] = {}
        self._whose = ""
        self._going: dict[str, dict[str, Change]] = {}  # by run that goes on: what has changed meanwhile, by path
        self._learned: set[str] = set()
        self._top: set[str] = set()  # entries of the last look that are of the import path itself
        self.accepted_before = False  # while there was no engine
        self._lock = threading.RLock()
        self._ended = threading.Event()
        self._reader: threading.Thread | None = None
        self.look_ms = 0.0  # what the last look took
        self.hashed_bytes = 0

    # -- looking -------------------------------------------------------------------------------------------------------

    def begin(self, lost: Sequence[str] = ()) -> News:
        """The first look of an engine, held against the last one of the engine before.

        Args:
            lost: runs in the middle of which that engine ended. What changed since then may be theirs.
        """
        with self._lock:
            remembered = recall(self._file)
            self._path = list(self._fixed_path) if self._fixed_path is not None else import_path()
            lost = [*lost, *self._marked()]
            self.accepted_before = remembered is not None and remembered.accepted
            if remembered is None or remembered.python != sys.executable:
                self._entries = {path: Entry(stat) for path, stat in self._now().items()}
                self._save()
                return News()
            self._path += [entry for entry in remembered.path if entry not in self._path]
            self._files = set(remembered.files)
            self._entries = remembered.entries
            self._blocked = {change.path: change for change in remembered.blocked}
            self._whose = remembered.whose
            if not lost:
                return self._settle()
            self._block(self._differences(self._now()), f"run {lost[0]}, in which the engine was lost,")
            return self._settle()

    def before(self, whose: str = "") -> News:
        """A look before a run; `whose` is the run that begins now, if one does and may.

        What has changed while others go on is held against these, and keeps it from beginning.
        """
        with self._lock:
            news = News()
            if self._going.keys() - {whose}:
                self._hold_against(but=whose)
            else:
                news = self._settle()
            if whose and not self._blocked:
                self._going.setdefault(whose, {})
                self._mark_going()
            return news

    def glance(self) -> News:
        """A look at the import path's top level alone: what somebody installs shows there."""
        with self._lock:
            return self._settle(whole=False)

    def after(self, whose: str) -> list[Change]:
        """Look after a run, when all of its processes have ended. Returns what came, went or changed meanwhile.

        Such a change forbids starting processes (`reason`) until it is gone or accepted. It is held against every other
        run that goes on as well.
        """
        with self._lock:
            self._going.setdefault(whose, {})
            self._hold_against()
            changes = self._going.pop(whose)
            self._mark_going()
            return list(changes.values())

    def _hold_against(self, *, but: str = "") -> None:
        """Hold what differs now against all runs that go on: nobody can tell whose doing it is."""
        changes = self._differences(self._now())
        if not changes:
            return
        for run, by_path in self._going.items():
            if run != but:
                by_path.update((change.path, change) for change in changes)
        self._block(changes, " and ".join(f"run {run}" for run in self._going if run != but))

    def _mark_going(self) -> None:
        """Leave a word of what goes on for the engine after this one."""
        with contextlib.suppress(OSError):
            if self._going:
                with os.fdopen(_opened(self._mark.name, self._folder), "w") as sink:
                    sink.write("\n".join(self._going))
            else:
                os.unlink(self._mark.name, dir_fd=self._folder)

    def accept(self) -> list[Change]:
        """Take for known what keeps processes from being started."""
        with self._lock:
            accepted, self._blocked, self._whose = list(self._blocked.values()), {}, ""
            if accepted:  # else a run may be going on, whose changes nobody has seen yet
                self._settle()
                self._save()
            return accepted

    def released(self) -> None:
        """What was accepted while there was no engine has been carried out."""
        with self._lock:
            self.accepted_before = False
            self._save()

    @property
    def reason(self) -> str:
        """Why no process may be started, and what to do; "" where nothing speaks against it."""
        return blocked_text(list(self._blocked.values()), self._whose)

    def _settle(self, *, whole: bool = True) -> News:
        """Take new entries for known, except those that are held against a run."""
        before = dict(self._blocked)
        fresh: list[Change] = []
        there: set[str] = set()
        now = self._now(whole=whole)
        for change in self._differences(now):
            if change.path in before:
                there.add(change.path)
            else:
                fresh.append(change)
        self._blocked = {path: change for path, change in before.items() if path in there}
        released = bool(before) and not self._blocked
        self._adopt(fresh, now)
        if fresh or len(before) != len(self._blocked):
            self._save()
        # Whoever removes what was held against a run leaves a folder that was written to.
        noted = tuple(change for change in fresh if not (before and change.what is What.PASSED))
        return News(noted=noted, released=released)

    def _block(self, changes: Sequence[Change], whose: str) -> None:
        passed = [change for change in changes if change.what is What.PASSED]
        self._adopt(passed, self._now())
        self._blocked |= {change.path: change for change in changes if change.what is not What.PASSED}
        self._whose = whose if self._blocked else ""
        self._save()

    def _adopt(self, changes: Iterable[Change], now: Mapping[str, Stat]) -> None:
        for change in changes:
            if change.path in now:
                self._entries[change.path] = Entry(now[change.path])
            else:
                self._entries.pop(change.path, None)

    def _now(self, *, whole: bool = True) -> dict[str, Stat]:
        start = time.perf_counter()
        top = by_path = top_level(self._path)
        if not whole:  # of all else nothing is said
            by_path = {path: entry.stat for path, entry in self._entries.items() if path not in self._top} | top
            self._top |= top.keys()
            return by_path
        self._top = set(top)
        if self._own:
            by_path = by_path | stats(own_files())
        by_path = by_path | stats(self._files - by_path.keys())
        self.look_ms = (time.perf_counter() - start) * 1e3
        return by_path

    def _differences(self, now: Mapping[str, Stat]) -> list[Change]:
        """Entries that differ from what was known. One that differs by stat() alone is known as it is from here on."""
        changes: list[Change] = []
        compiled: list[str] = []
        for path, at in now.items():
            entry = self._entries.get(path)
            if entry is not None and entry.stat == at:
                continue
            if entry is not None and entry.sha256 and _sha256(path) == entry.sha256:
                self._entries[path] = Entry(at, entry.sha256)
            elif _is_compiled(path):
                compiled.append(path)
            else:
                changes.append(Change(path, What.APPEARED if entry is None else What.CHANGED))
        changes += [Change(path, What.GONE) for path in self._entries.keys() - now.keys() if not _is_compiled(path)]
        for path in faithful(compiled):
            compiled.remove(path)
            self._entries[path] = Entry(now[path])
        changes += [Change(path, What.CHANGED if path in self._entries else What.APPEARED) for path in compiled]
        return sorted(self._without_folders(changes, now), key=lambda change: change.path)

    def _without_folders(self, changes: list[Change], now: Mapping[str, Stat]) -> Iterator[Change]:
        """Leave out a site folder's time of change where its entries explain it, or Python's folder for compiled files
        does.

        Alone, that time tells of a file that came and went again.
        """
        silent = {path for path in now.keys() | self._entries.keys() if os.path.basename(path) == COMPILED}  # noqa: PTH119
        entries = [change.path for change in changes if not change.path.endswith(os.sep)]
        touched = {os.path.dirname(path) for path in entries}  # noqa: PTH120  hot path
        for change in changes:
            if change.path in silent:
                self._adopt([change], now)
            elif not change.path.endswith(os.sep):
                yield change
            elif change.what is What.CHANGED and change.path.rstrip(os.sep) not in touched:
                yield Change(change.path, What.PASSED)
            else:
                self._adopt([change], now)

    # -- learning ------------------------------------------------------------------------------------------------------

    def knows(self, kind: str) -> bool:
        """Whether a process of this kind has said what it imports from."""
        return kind in self._learned

    def learn(self, kind: str, path: Iterable[str], files: Iterable[str]) -> None:
        """Learn what a ready process of some kind imports from, has imported and has mapped.

        It has not seen a lesson.
        """
        with self._lock:
            self._learned.add(kind)
            new = [entry for entry in dict.fromkeys(path) if os.path.isabs(entry) and entry not in self._path]  # noqa: PTH117
            self._path += new
            more = set(files) - self._files
            self._files |= more
            for name, at in (top_level(new) | stats(more)).items():
                self._entries.setdefault(name, Entry(at))
            self._save()

    def state(self) -> dict[str, object]:
        """Figures for a run's facts: how many entries there are, and how many of them by content."""
        with self._lock:
            # Neither folders, nor site folders with their time of change.
            files = [e for path, e in self._entries.items() if e.stat != THERE and not path.endswith(os.sep)]
            return {
                "entries": len(self._entries),
                "folders": len(self._path),
                "hashed": sum(bool(entry.sha256) for entry in files),
                "files": len(files),
                "look_ms": self.look_ms,
            }

    # -- content -------------------------------------------------------------------------------------------------------

    def read_in_background(self, busy: Callable[[], bool]) -> None:
        """Read every file once, at the lowest priority and never while `busy`."""
        self._reader = threading.Thread(target=self._read, args=(busy,), name="installed", daemon=True)
        self._reader.start()

    def close(self) -> None:
        """The end of an engine that was stopped: no run is lost in it."""
        self._ended.set()
        if self._reader is not None:
            self._reader.join()
        with self._lock:
            self._going = {}
            self._mark_going()
            os.close(self._folder)

    def _read(self, busy: Callable[[], bool]) -> None:
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 19)  # Linux: of this thread alone
        while not self._ended.is_set():
            with self._lock:
                waiting = [path for path, entry in self._entries.items() if not entry.sha256 and entry.stat[0]]
            # What runs at every start and what is small comes first.
            waiting.sort(key=lambda path: (not path.endswith((".pth", *STARTUP)), self._entries[path].stat[1]))
            unread = [path for path in waiting if not path.endswith(os.sep) and path not in self._blocked]
            for path in unread:
                self._read_one(path, busy)
                if self._ended.is_set():
                    return
            self._ended.wait(_WAIT_S * (1 if unread else 10))

    def _read_one(self, path: str, busy: Callable[[], bool]) -> None:
        def waits() -> bool:
            while busy() and not self._ended.is_set():
                self._ended.wait(_WAIT_S)
            return not self._ended.is_set()

        digest = _sha256(path, waits)
        with self._lock:
            entry = self._entries.get(path)
            if entry is None or self._ended.is_set():
                return
            if stats([path]).get(path) != entry.stat:
                return  # another one by now: the next look finds it
            self._entries[path] = Entry(entry.stat, digest or "-")  # "-" of one that cannot be read: asked once
            self.hashed_bytes += entry.stat[1]

    # -- what outlasts an engine ---------------------------------------------------------------------------------------

    def _marked(self) -> list[str]:
        try:
            return [clean_line(line) for line in self._mark.read_bytes().splitlines()]
        except OSError:
            return []
        finally:
            self._mark.unlink(missing_ok=True)

    def _save(self) -> None:
        remembered = Remembered(
            python=sys.executable,
            path=self._path,
            files=sorted(self._files),
            entries=self._entries,
            blocked=list(self._blocked.values()),
            whose=self._whose,
            accepted=self.accepted_before,
        )
        keep(Path(self._file.name), remembered, self._folder)


def blocked_text(changes: Sequence[Change], whose: str) -> str:
    """Why no process may be started, and what to do; "" where nothing is held against a run.

    What to do comes first: a narrow terminal shows the beginning.
    """
    if not changes:
        return ""
    return (
        "no process is started until you remove or accept (A, `aisp doctor --accept`) what changed: "
        f"{listed(changes)} while {whose} went on, and every new process would import it"
    )


def state_file() -> Path:
    """Where an engine keeps what it has seen."""
    return paths.state_dir() / "installed.json"


def recall(file: Path) -> Remembered | None:
    """What the last engine of this state folder has seen; None where there is nothing that can be read."""
    try:
        return msgspec.json.decode(file.read_bytes(), type=Remembered)
    except (OSError, msgspec.DecodeError, RecursionError, UnicodeError):
        return None


def keep(file: Path, remembered: Remembered, folder: int | None = None) -> None:
    """Write it whole or not at all. A disk that is full costs the memory over a restart, and no run.

    `folder`: an open folder, in which a relative `file` lies.
    """
    partial = file.with_suffix(".new")
    try:
        with os.fdopen(_opened(partial, folder), "wb") as sink:
            sink.write(msgspec.json.encode(remembered))
        os.replace(partial, file, src_dir_fd=folder, dst_dir_fd=folder)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(partial, dir_fd=folder)


def _opened(file: Path | str, folder: int | None) -> int:
    return os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600, dir_fd=folder)


def accept_without_engine(file: Path) -> list[Change]:
    """Accept what is held against a run, so that the next engine finds it accepted. Returns what that was."""
    remembered = recall(file)
    if remembered is None or not remembered.blocked:
        return []
    accepted = remembered.blocked
    for change in accepted:
        at = stats([change.path]).get(change.path)
        if at is None:
            remembered.entries.pop(change.path, None)
        else:
            folder = os.path.isdir(change.path)  # noqa: PTH112  text
            remembered.entries[change.path] = Entry(THERE if folder else at)
    remembered.blocked, remembered.whose, remembered.accepted = [], "", True
    keep(file, remembered)
    return accepted


# -- content -----------------------------------------------------------------------------------------------------------


def _sha256(path: str, goes_on: Callable[[], bool] = lambda: True) -> str:
    """SHA-256 of a file's content; "" where it cannot be read or the reading was given up."""
    digest = hashlib.sha256()
    try:
        with Path(path).open("rb") as file:
            while goes_on():
                piece = file.read(_CHUNK_BYTES)
                if not piece:
                    return digest.hexdigest()
                digest.update(piece)
    except OSError:
        return ""
    return ""


def _is_compiled(path: str) -> bool:
    return f"{os.sep}{COMPILED}{os.sep}" in path


_FAITHFUL = """
import importlib.util, json, marshal, sys
for path in json.load(sys.stdin):
    try:
        source = importlib.util.source_from_cache(path)
        data = open(path, "rb").read()
        true = compile(open(source, "rb").read(), source, "exec", dont_inherit=True)
        why = "" if data[:4] == importlib.util.MAGIC_NUMBER else "made by another Python"
        why = why or ("" if marshal.loads(data[16:]) == true else "not what its source compiles to")
    except Exception as error:
        why = repr(error)
    print(json.dumps([path, why]), flush=True)
"""


def faithful(compiled: Sequence[str]) -> list[str]:
    """The compiled files that hold what their source compiles to.

    Python writes such a file when a process first imports a source, and takes it for the source from then on: whoever
    writes one needs to change no source. A process that is thrown away reads them, because a forged one can crash its
    reader; what it did not come to is then asked once more, each file alone.
    """
    reasons = _looked_through(compiled)
    for path in compiled:
        if path not in reasons:
            reasons |= _looked_through([path])
    for path in compiled:
        if why := reasons.get(path, "no process could look at it to the end"):
            log.info("%s: %s", clean_line(os.fsencode(path)), clean_line(why.encode("utf-8", "replace")))
    return [path for path in compiled if reasons.get(path) == ""]


def _looked_through(compiled: Sequence[str]) -> dict[str, str]:
    """By compiled file why it is not faithful, "" where it is; without those that the process did not come to."""
    if not compiled:
        return {}
    from aisp.engine.spawner import helped  # as above

    words = [sys.executable, "-I", "-S", "-B", "-c", _FAITHFUL]
    reasons: dict[str, str] = {}
    try:
        done = helped(words, _PROBE_S, json.dumps(compiled).encode())
        for line in done.stdout.splitlines():
            path, why = json.loads(line)  # a name that is no UTF-8 has half a pair in it, which msgspec refuses
            reasons[path] = str(why)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        log.warning("compiled files were not looked at: %r", error)
    else:
        if done.returncode:
            log.warning("what looked at compiled files ended with status %d", done.returncode)
    return reasons
