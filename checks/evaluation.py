"""Evaluation: ways to fool whoever judges instead of doing the work, and what notices them.

The defences stand elsewhere: expected values, tolerances, seeds, statistics and the clock are in processes that run no
kernel; values are fresh in each run; reports are sealed (engine.protocol.framing); sources are laid out anew where they
were changed (engine.snapshots). What is here notices who tries. Sensors hear the interpreter's own audit events, which
cannot be switched off from Python once they are heard, and charge an event to the lesson only where the code that
caused it lies in the lesson's folder: torch, triton and the standard library walk frames and open files all day.
Native code raises no such events and is out of reach (docs/threat_model.md).
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType, ModuleType
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias
from urllib.parse import unquote

from aisp.checks.registry import (
    Answer,
    ArmFacts,
    Call,
    Check,
    Evidence,
    F_co,
    Facts,
    How,
    Issue,
    RunFacts,
    Sensor,
    Site,
    Unavailable,
    When,
    caught,
    not_applicable,
    passed,
    suspect,
    unavailable,
)
from aisp.kernels.catalog.parsing import parsed

if TYPE_CHECKING:
    import ast

OURS = ("engine", "checks", "store", "tui")  # parts of aisp that a lesson has no business with; kernels is for lessons
JUDGING = ("reference", "rule")  # modules by which outputs are judged, which only the verifier reads
MOST_NOTES = 40
MOST_FILES = 150
MOST_FRAMES = 40  # looked at outwards from an event
LONG_VALUE = 128  # characters: settings in the environment are shorter, results are longer
MEMO_SHARE = 0.25  # of the bytes of a call's outputs: tuning choices and logs are smaller, results are not

# Where they lie, by the name that they are imported by and without links.
_OUR_ROOTS = tuple({str(file.parent.parent) + os.sep for file in (Path(__file__), Path(__file__).resolve())})
_STDLIB = os.path.dirname(os.__file__) + os.sep  # noqa: PTH120  compared with the names in code objects as text
_PACKAGES = _STDLIB + "site-packages" + os.sep
# Libraries through which a lesson's own data goes to a file.
_CARRIERS = tuple(os.sep + os.path.join(*parts) for parts in (("numpy", "lib"), ("torch", "serialization.py")))  # noqa: PTH118

_SQLITE_LIBRARY = re.compile(r"(lib|_)sqlite3\b.*")

ENGINE_SOCKET = re.compile(r"[0-9a-f]{12}\.sock")  # engine.paths.socket_file

Handler: TypeAlias = Callable[[str, tuple[Any, ...], FrameType], None]


def _is_our_module(name: str) -> bool:
    """Whether a module of this name belongs to aisp and is not for lessons."""
    package, _, inner = name.partition(".")
    return package == "aisp" and inner.partition(".")[0] in OURS


def _is_our_file(path: str) -> bool:
    return any(path.startswith(root) and path[len(root) :].partition(os.sep)[0] in OURS for root in _OUR_ROOTS)


# -- hearing -----------------------------------------------------------------------------------------------------------


def _hearing() -> Callable[[Audit[Facts]], None]:
    """A function by which a sensor begins to hear. All share one hook: events that nobody asked for cost 0.1 us."""
    table: dict[str, list[tuple[Audit[Facts], Handler]]] = {}
    busy: set[int] = set()
    ident, frame_at = threading.get_ident, sys._getframe

    def hook(event: str, args: tuple[Any, ...]) -> None:
        listeners = table.get(event)
        if listeners is None:
            return
        me = ident()
        if me in busy:  # what a handler itself does is an event as well
            return
        busy.add(me)
        try:
            frame = frame_at(1)
            if frame.f_code.co_filename != __file__:
                for sensor, handler in listeners:
                    sensor.hear(handler, event, args, frame)
        finally:
            busy.discard(me)

    def listen(sensor: Audit[Facts]) -> None:
        if not table:
            sys.addaudithook(hook)
        for event, handler in sensor.handlers().items():
            table.setdefault(event, []).append((sensor, handler))

    return listen


class Note(Facts, frozen=True, kw_only=True):
    """Something that the lesson did: of what kind, what, at which line, and how often."""

    kind: str
    what: str
    where: str
    times: int


class NotesFacts(Facts, frozen=True, kw_only=True):
    """`notes`: the first 40 different ones."""

    notes: list[Note]


class Audit(Sensor[F_co]):
    """Hears audit events. A subclass says which, in `handlers`."""

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self.prefix = str(site.folder) + os.sep
        self.notes: dict[tuple[str, str, str], int] = {}
        self.failure = ""

    def handlers(self) -> Mapping[str, Handler]:
        """Event names to what is called with the name, the event's arguments and the innermost frame."""
        raise NotImplementedError

    def before_import(self) -> None:
        """Listen from now on."""
        _listen(self)

    def hear(self, handler: Handler, event: str, args: tuple[Any, ...], frame: FrameType) -> None:
        """Let the handler look. What it raises must not come out in the middle of somebody's open()."""
        try:
            handler(event, args, frame)
        except Exception as error:
            # Whatever it is: the check becomes unavailable.
            self.failure = f"{event}: {type(error).__name__}: {error}"

    def note(self, kind: str, what: str, frame: FrameType) -> None:
        """Keep that the lesson did `what`."""
        where = f"{frame.f_code.co_filename.removeprefix(self.prefix)}:{frame.f_lineno}"
        key = (kind, what[:200], where[:120])
        if key in self.notes or len(self.notes) < MOST_NOTES:
            self.notes[key] = self.notes.get(key, 0) + 1

    def author(self, innermost: FrameType, through: Callable[[str], bool]) -> FrameType | None:
        """The lesson's frame that caused an event, past frames of files that `through` lets pass; None: not it."""
        frame: FrameType | None = innermost
        for _ in range(MOST_FRAMES):
            if frame is None:
                return None
            name = frame.f_code.co_filename
            if name.startswith(self.prefix):
                return frame
            if not name.startswith("<") and not through(name):
                return None
            frame = frame.f_back
        return None

    def noted(self) -> list[Note]:
        """What was noted. Raises Unavailable where an event could not be looked at and nothing was."""
        if self.failure and not self.notes:  # what was noted is not undone by what could not be looked at
            raise Unavailable(f"an audit event could not be looked at ({self.failure})")
        return [
            Note(kind=kind, what=what, where=where, times=times) for (kind, what, where), times in self.notes.items()
        ]


_listen = _hearing()


def _directly(name: str) -> bool:
    """Only the lesson itself, or the inspect module for it: everybody else walks frames on his own account."""
    return name == _STDLIB + "inspect.py"


def _by_library(name: str) -> bool:
    """The standard library does it on behalf of its caller; so do numpy and torch with data."""
    if name.startswith(_STDLIB) and not name.startswith(_PACKAGES):
        return True
    return any(carrier in name for carrier in _CARRIERS)


def _importing(innermost: FrameType) -> bool:
    """Whether an event comes from the import machinery."""
    return innermost.f_code.co_filename.startswith("<frozen importlib")


def _showing_source(innermost: FrameType) -> bool:
    """Whether a file is opened to show a line of it in a warning or a traceback."""
    return innermost.f_code.co_filename in (_STDLIB + "tokenize.py", _STDLIB + "linecache.py")


def _plain(path: Any) -> str:
    """A path as text of Python's own: of a subclass the lesson would say how it begins."""
    path = os.fspath(path)
    return os.fsdecode(bytes.__getitem__(path, slice(None))) if isinstance(path, bytes) else str.__str__(path)


def _path(path: Any) -> str:
    """An absolute path as text; "" for a descriptor."""
    if isinstance(path, int):
        return ""
    return os.path.abspath(_plain(path))  # noqa: PTH100  no file system access in here


_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


def _writes(args: tuple[Any, ...]) -> bool:
    """Whether an "open" may change what it opens."""
    return len(args) > 2 and isinstance(args[2], int) and bool(args[2] & _WRITING)


# What changes the file system, and which of an event's arguments name what is changed and the folder that a relative
# path begins at. A hard link makes its source writable under another name.
_TOUCHED: dict[str, tuple[tuple[int, int | None], ...]] = {
    "os.rename": ((0, 2), (1, 3)), "os.link": ((0, 2), (1, 3)), "os.symlink": ((1, 2),), "os.remove": ((0, 1),),
    "os.rmdir": ((0, 1),), "os.mkdir": ((0, 2),), "os.chmod": ((0, 2),), "os.chown": ((0, 3),), "os.utime": ((0, 3),),
    "os.truncate": ((0, None),),
}  # fmt: skip


def _touched(event: str, args: tuple[Any, ...]) -> Iterator[Any]:
    """What an event that changes the file system names, with the folder that it begins at."""
    for position, folder in _TOUCHED[event]:
        path = args[position]
        if folder is not None and len(args) > folder and args[folder] != -1 and not isinstance(path, int):
            path = os.path.join(os.readlink(f"/proc/self/fd/{args[folder]}"), _plain(path))  # noqa: PTH115, PTH118
        yield path


# -- reaching for the evaluator ----------------------------------------------------------------------------------------


def _state_folder(folder: Path) -> str:
    """The state that a snapshot is laid out in (engine.snapshots), "" where the folder is no layout."""
    layouts = folder.parent.parent
    return str(layouts.parent) + os.sep if layouts.name == "snapshots" else ""


def _database(uri: Any) -> str:
    """The absolute path of a database by the name that it is opened with; "" for one in memory."""
    name = _plain(uri)
    if name.startswith("file:"):
        name = unquote(re.split("[?#]", name.removeprefix("file:"))[0])
        if name.startswith("//"):  # with a host, which is this one
            name = os.sep + name[2:].partition("/")[2]
    return "" if name in ("", ":memory:") else _path(name)


def _own_folders(site: Site) -> tuple[str, ...]:
    """Beginnings of paths that are the lesson's own: its layout, its process's folders, the caches. Some lie in the
    state, and are the lesson's all the same.
    """
    return tuple(folder + os.sep for folder in (str(site.folder), tempfile.gettempdir(), *site.writable))


class Reach(Audit[NotesFacts]):
    """Notes where the lesson walks objects, frames, other processes, or the files and modules that judge it.

    The store is nobody's in a worker but who means to change it, through whatever library or thread it is opened.
    """

    name: ClassVar[str] = "reach"

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self._judging = {self.prefix + name: name for name in map("{}.py".format, JUDGING)}
        self._state = _state_folder(site.folder)
        self._folders = _own_folders(site)
        self._own = f"/proc/{os.getpid()}/"
        self._connected = False  # whether a database was opened, of its own or not
        self._real_state = os.path.realpath(self._state) + os.sep if self._state else ""
        self._real_folders = tuple(os.path.realpath(folder) + os.sep for folder in self._folders)

    def handlers(self) -> Mapping[str, Handler]:
        """Everything by which Python code can see beyond what it was given."""
        walks = dict.fromkeys(
            (
                "gc.get_objects", "gc.get_referrers", "gc.get_referents", "sys._getframe", "sys._current_frames",
                "sys._current_exceptions", "sys.settrace", "sys.setprofile", "sys.monitoring.register_callback",
                "sys.addaudithook",
            ),
            self._on_walk,
        )  # fmt: skip
        changes = dict.fromkeys(_TOUCHED, self._on_change)
        return (
            walks
            | changes
            | {
                "object.__getattr__": self._on_attribute,
                "object.__setattr__": self._on_code_set,
                "code.__new__": self._on_code,
                "open": self._on_open,
                "os.listdir": self._on_listing,
                "os.scandir": self._on_listing,
                "import": self._on_import,
                "os.kill": self._on_kill,
                "os.killpg": self._on_kill,
                "socket.connect": self._on_connect,
                "sqlite3.connect": self._on_database,
                "sqlite3.connect/handle": self._on_connection,
                "sqlite3.enable_load_extension": self._on_extension,
                "ctypes.dlopen": self._on_library,
                "ctypes.dlsym": self._on_symbol,
            }
        )

    def before_import(self) -> None:
        """Listen, and watch who takes something out of our modules."""
        super().before_import()
        watched = _watched(self)
        for name, module in list(sys.modules.items()):
            if type(module) is ModuleType and (name == "__main__" or _is_our_module(name)):
                module.__class__ = watched

    def _on_walk(self, event: str, args: tuple[Any, ...], innermost: FrameType) -> None:
        frame = self.author(innermost, _directly)
        if frame is not None:
            self.note("walks", f"{event}()", frame)

    def _on_attribute(self, event: str, args: tuple[Any, ...], innermost: FrameType) -> None:
        owner, name = args[0], args[1]
        if name in ("tb_frame", "gi_frame", "cr_frame", "ag_frame"):
            frame = self.author(innermost, _directly)
            if frame is not None:
                self.note("walks", f"the frame of a {type(owner).__name__}", frame)

    def _on_code_set(self, event: str, args: tuple[Any, ...], innermost: FrameType) -> None:
        owner, name = args[0], args[1]
        module = str(getattr(owner, "__module__", ""))
        if name == "__code__" and (_is_our_module(module) or module == "__main__"):
            frame = self.author(innermost, _by_library)
            if frame is not None:
                self.note("modules", f"the code of {module}.{getattr(owner, '__qualname__', '?')} set", frame)

    def _on_code(self, event: str, args: tuple[Any, ...], innermost: FrameType) -> None:
        name = str(args[1]) if len(args) > 1 else ""
        if os.path.isabs(name) and not name.startswith(self.prefix):  # noqa: PTH117  hot path
            frame = self.author(innermost, _by_library)
            if frame is not None:
                self.note("walks", f"code made to look as if it stood in {name}", frame)

    def _on_open(self, event: str, args: tuple[Any, ...], innermost: FrameType) -> None:
        path = _path(args[0])
        if path in self._judging:
            if _writes(args):
                return  # Edits
            frame = self.author(innermost, _by_library)
            if frame is not None:
                self.note("reference", f"{self._judging[path]} opened", frame)
            return
        if path.startswith("/proc/"):
            self._on_process(path, "opened", innermost)
        elif _writes(args) and self._leads_to_state(path):
            self._note_store(f"{path} opened for writing", innermost)
        elif self._is_ours(path) and not _importing(innermost) and not _showing_source(innermost):
            frame = self.author(innermost, _by_library)
            if frame is not None:
                self.note("files", f"{path} opened", frame)

    def _is_ours(self, path: str) -> bool:
        """Whether it lies in our packages or in our state, and not in the lesson's own folder."""
        if self._state and path.startswith(self._state):
            return not (path + os.sep).startswith(self._folders)
        return _is_our_file(path) and not path.startswith(self.prefix)

    def _in_state(self, real: str) -> bool:
        """Whether a path without links lies in our state and in no folder of the lesson's own."""
        place = real + os.sep
        return bool(self._state) and place.startswith(self._real_state) and not place.startswith(self._real_folders)

    def _leads_to_state(self, path: str) -> bool:
        """Whether it lies there, itself or what it leads to."""
        itself = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))  # noqa: PTH118, PTH119, PTH120
        return bool(path) and (self._in_state(itself) or self._in_state(os.path.realpath(path)))

    def _on_change(self, event: str, args: tuple[Any, ...], innermost: FrameType) -> None:
        for path in filter(self._leads_to_state, map(_path, _touched(event, args))):
            self._note_store(f"{path}: {event}", innermost)

    def _note_store(self, what: str, innermost: FrameType) -> None:
        self.note("files", what, self.author(innermost, lambda name: True) or innermost)

    def _on_database(self, event: str, args: tuple[Any, ...], innermost: FrameType) -> None:
        path = _database(args[0])
        if self._leads_to_state(path):
            self._note_store(f"{path} opened as a database", innermost)

    def _on_connection(self, event: str, args: tuple[Any, ...], innermost: FrameType) -> None:
        """It is open now, by whatever name."""
        self._connected = True
        for path in filter(self._in_state, _open_files()):
            self._note_store(f"{path} open in SQLite", innermost)

    def _look_for_attached(self) -> None:
        """What is attached to a database raises no event, but it is open."""
        if self._connected:
            for path in filter(self._in_state, _open_files()):
                self.notes.setdefault(("files", f"{path} open"[:200], "SQLite"), 1)

    def after_call(self, call: Call) -> None:
        """Whether the store was attached."""
        self._look_for_attached()

    def facts(self) -> NotesFacts:
        """What was noted; outside of calls too."""
        self._look_for_attached()
        return NotesFacts(notes=self.noted())

    def _on_extension(self, event: str, args: tuple[Any, ...], innermost: FrameType) -> None:
        if args[1]:
            self._note_store("SQLite told to load extensions", innermost)

    def _on_library(self, event: str, args: tuple[Any, ...], innermost: FrameType) -> None:
        name = _plain(args[0]) if args[0] else ""
        if _SQLITE_LIBRARY.match(os.path.basename(name)):  # noqa: PTH119
            self._note_store(f"SQLite loaded through ctypes ({name})", innermost)

    def _on_symbol(self, event: str, args: tuple[Any, ...], innermost: FrameType) -> None:
        if isinstance(args[1], str) and args[1].startswith("sqlite3_"):
            self._note_store(f"{args[1]} called through ctypes", innermost)

    def _on_process(self, path: str, done: str, innermost: FrameType) -> None:
        """Other processes by number, and our own memory and descriptors. /proc/self/status or cpuinfo are harmless."""
        parts = path.split("/")
        other = len(parts) > 2 and parts[2].isdigit() and not path.startswith(self._own)
        private = len(parts) > 3 and parts[3] in ("mem", "fd", "fdinfo", "map_files", "task")
        if other or private:
            frame = self.author(innermost, _by_library)
            if frame is not None:
                self.note("processes", f"{path} {done}", frame)

    def _on_listing(self, event: str, args: tuple[Any, ...], innermost: FrameType) -> None:
        path = args[0] if args else None
        if isinstance(path, (str, bytes)) and _plain(path).startswith("/proc/"):
            self._on_process(_plain(path), "listed", innermost)

    def _on_import(self, event: str, args: tuple[Any, ...], innermost: FrameType) -> None:
        name = str(args[0])
        if name in JUDGING or _is_our_module(name):
            frame = self.author(innermost, _by_library)
            if frame is not None:
                self.note("modules", f"{name} imported", frame)

    def _on_kill(self, event: str, args: tuple[Any, ...], innermost: FrameType) -> None:
        whom = args[0]
        if whom == os.getppid():
            receiver = "the engine"
        elif whom == -1:
            receiver = "all processes"
        elif abs(whom) in (0, os.getpid(), os.getpgid(0)) or _is_below_us(abs(whom)):
            return
        else:
            receiver = f"process {whom}, which is not the rung's"
        frame = self.author(innermost, _by_library)
        if frame is not None:
            self.note("processes", f"signal {args[1]} sent to {receiver}", frame)

    def _on_connect(self, event: str, args: tuple[Any, ...], innermost: FrameType) -> None:
        address = args[1] if len(args) > 1 else None
        if isinstance(address, (str, bytes)) and ENGINE_SOCKET.fullmatch(os.path.basename(_plain(address))):  # noqa: PTH119
            frame = self.author(innermost, _by_library)
            if frame is not None:
                self.note("processes", "connected to the engine", frame)


def _open_files() -> Iterator[str]:
    """What this process has open, by path."""
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208  names
        with contextlib.suppress(OSError):  # the listing's own is closed again
            yield os.readlink(f"/proc/self/fd/{name}")  # noqa: PTH115  text


def _is_below_us(pid: int) -> bool:
    """Whether a process was started by this one or by what it started; also where there is none of that number."""
    while pid > 1:
        if pid == os.getpid():
            return True
        try:
            with open(f"/proc/{pid}/stat", "rb") as stat:  # noqa: PTH123
                pid = int(stat.read().rpartition(b")")[2].split()[1])
        except OSError:
            return True
    return False


def _watched(sensor: Reach) -> type[ModuleType]:
    """A class for our modules that notes what the lesson takes out of them. Imports of what is loaded already raise no
    audit event, hence this. Code inside of a module finds its globals without it; others pay 1 us per look.
    """
    plain = ModuleType.__getattribute__
    prefix, note, frame_at = sensor.prefix, sensor.note, sys._getframe

    class Module(ModuleType):
        def __getattribute__(self, name: str) -> Any:
            value = plain(self, name)
            # What the import system and isinstance() look at in every module there is tells nothing.
            if not name.startswith("__") or name == "__dict__":
                frame = frame_at(1)
                if frame.f_code.co_filename.startswith(prefix):
                    note("modules", f"{plain(self, '__name__')}.{name} taken", frame)
            return value

        def __setattr__(self, name: str, value: Any) -> None:
            frame = frame_at(1)
            if frame.f_code.co_filename.startswith(prefix):
                note("modules", f"{plain(self, '__name__')}.{name} set", frame)
            super().__setattr__(name, value)

    return Module


# -- editing files -----------------------------------------------------------------------------------------------------

_CHANGES = (
    "os.rename", "os.remove", "os.chmod", "os.chown", "os.link", "os.symlink", "os.truncate", "os.utime", "os.rmdir",
    "shutil.rmtree", "shutil.move", "shutil.copyfile",
)  # fmt: skip


class Edits(Audit[NotesFacts]):
    """Notes where the lesson changes files of its own snapshot or of ours."""

    name: ClassVar[str] = "edits"

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self._target_files = {self.prefix + name for name in site.target.files}
        self._state = _state_folder(site.folder)
        self._folders = _own_folders(site)

    def handlers(self) -> Mapping[str, Handler]:
        """Opening for writing, and whatever else changes what a path leads to."""
        return dict.fromkeys(_CHANGES, self._on_change) | {"open": self._on_open}

    def facts(self) -> NotesFacts:
        """What was noted."""
        return NotesFacts(notes=self.noted())

    def _on_open(self, event: str, args: tuple[Any, ...], innermost: FrameType) -> None:
        if _writes(args):
            self._look(_path(args[0]), "opened for writing", innermost)

    def _on_change(self, event: str, args: tuple[Any, ...], innermost: FrameType) -> None:
        for path in args[:2]:
            if isinstance(path, (str, bytes, os.PathLike)):
                self._look(_path(path), event, innermost)

    def _look(self, path: str, done: str, innermost: FrameType) -> None:
        if not self._counts(path):
            return
        frame = self.author(innermost, _by_library)
        if frame is not None:
            shown = path.removeprefix(self.prefix)
            self.note("edits", f"{shown}: {done}", frame)

    def _counts(self, path: str) -> bool:
        if path + os.sep == self.prefix or path in self._target_files:
            return True
        if path.startswith(self.prefix):
            # A new module that would be imported instead of another; compiled files and data are the lesson's affair.
            return path.endswith((".py", ".pth", ".md"))
        if self._state and path.startswith(self._state):
            return not (path + os.sep).startswith(self._folders)
        return _is_our_file(path)


# -- writing elsewhere -------------------------------------------------------------------------------------------------

_IMPORTABLE = (".py", ".pyc", ".pth", ".so")  # what another process would take for a module of its own
_SINKS = ("/dev/", "/proc/self/")  # shared memory and devices
PLANTED, LEFT = "planted", "left"


class ElsewhereFacts(NotesFacts, frozen=True, kw_only=True):
    """`paths`: of all notes; engine.runs looks for sources among them."""

    paths: list[str]


class Elsewhere(Audit[ElsewhereFacts]):
    """Notes where the lesson writes outside of its layout, its process's folder and the caches, whether or not the
    kernel let it: an event comes before the attempt.
    """

    name: ClassVar[str] = "writes_elsewhere"

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self._own = tuple(os.path.realpath(folder) + os.sep for folder in _own_folders(site))
        home = os.path.expanduser("~")  # noqa: PTH111  text
        self._bare = {os.sep, home}  # working folders of programs: what lies right in them is imported by name
        searched = (*filter(os.path.isabs, sys.path), os.path.join(home, ".local", "lib"))  # noqa: PTH118
        self._searched = tuple(os.path.realpath(folder) + os.sep for folder in searched)
        self._paths: set[str] = set()

    def _imported(self, path: str) -> bool:
        """Whether some process may take what lies there for a module."""
        return path.endswith(_IMPORTABLE) and (
            os.path.dirname(path) in self._bare or path.startswith(self._searched)  # noqa: PTH120
        )

    def handlers(self) -> Mapping[str, Handler]:
        """Opening for writing, and whatever else changes a folder or a file by its path."""
        return dict.fromkeys(_TOUCHED, self._on_change) | {"open": self._on_open}

    def _on_open(self, event: str, args: tuple[Any, ...], innermost: FrameType) -> None:
        if _writes(args):
            self._look(args[0], "opened for writing", innermost)

    def _on_change(self, event: str, args: tuple[Any, ...], innermost: FrameType) -> None:
        for path in _touched(event, args):
            self._look(path, event, innermost)

    def _look(self, argument: Any, done: str, innermost: FrameType) -> None:
        path = _path(argument)
        if not path or path.startswith(_SINKS):
            return
        # What lies behind links counts, but for the last part: that is what is removed, renamed or made.
        path = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))  # noqa: PTH118, PTH119, PTH120
        if os.path.islink(path) and done == "opened for writing":  # noqa: PTH114
            path = os.path.realpath(path)
        if (path + os.sep).startswith(self._own) or path.startswith(_SINKS):
            return
        frame = self.author(innermost, _by_library)
        if frame is not None:
            self.note(PLANTED if self._imported(path) else LEFT, f"{path}: {done}", frame)
            if len(self._paths) < MOST_NOTES:
                self._paths.add(path)

    def facts(self) -> ElsewhereFacts:
        """See ElsewhereFacts."""
        return ElsewhereFacts(notes=self.noted(), paths=sorted(self._paths))


# -- remembering between calls -----------------------------------------------------------------------------------------


class FileRead(Facts, frozen=True, kw_only=True):
    """A file that a call read, as it was then. `earlier`: an earlier call of this process wrote it."""

    name: str
    nbytes: int
    earlier: bool


class MemoFacts(Facts, frozen=True, kw_only=True):
    """What calls left for others.

    Attributes:
        output_bytes: that a call returns.
        calls: that were heard.
        wrote: files that calls wrote, number to name.
        read: files that calls read, by number.
        variables: of the environment that calls set, with their characters.
    """

    output_bytes: int
    calls: int
    wrote: dict[str, str]
    read: dict[str, FileRead]
    variables: dict[str, int]


class Memo(Audit[MemoFacts]):
    """Notes which files and variables the lesson writes and reads during calls.

    A path is named by its last part and a number, so that the facts of several processes can be compared.
    """

    name: ClassVar[str] = "memo"

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self._call = 0
        self._inside = False
        self._output_bytes = 0
        self._written: dict[str, int] = {}  # path to the number of the call that wrote it last, 0 outside of calls
        self._wrote: dict[str, str] = {}  # in calls
        self._read: dict[str, FileRead] = {}  # in calls
        self._variables: dict[str, int] = {}

    def handlers(self) -> Mapping[str, Handler]:
        """Files and the environment."""
        return {"open": self._on_open, "os.rename": self._on_rename, "os.putenv": self._on_putenv}

    def before_call(self, call: Call) -> None:
        """From here on the lesson acts on the values of this call."""
        self._call += 1
        self._inside = True

    def after_call(self, call: Call) -> None:
        """How much a call returns."""
        self._inside = False
        if call.outputs:
            self._output_bytes = sum(out.numel() * out.element_size() for out in call.outputs[0])

    def _on_open(self, event: str, args: tuple[Any, ...], innermost: FrameType) -> None:
        path = _path(args[0])
        if not path or path.startswith((self.prefix, "/proc/", "/sys/", "/dev/", _STDLIB)) or _importing(innermost):
            return
        if self.author(innermost, _by_library) is None:
            return
        if _writes(args):
            self._wrote_file(path)
        elif self._inside:
            self._read_file(path)

    def _on_rename(self, event: str, args: tuple[Any, ...], innermost: FrameType) -> None:
        source, target = _path(args[0]), _path(args[1])
        if source in self._written and self.author(innermost, _by_library) is not None:
            self._wrote_file(target)

    def _wrote_file(self, path: str) -> None:
        self._written[path] = self._call if self._inside else 0
        if self._inside and len(self._wrote) < MOST_FILES:
            self._wrote[_number(path)] = os.path.basename(path)[:60]  # noqa: PTH119  hot path

    def _read_file(self, path: str) -> None:
        writer = self._written.get(path)
        if writer == 0 or writer == self._call:  # made before any call, or scratch of this very call
            return
        try:
            size = os.stat(path).st_size  # noqa: PTH116  hot path
        except OSError:
            return  # it is not there: nothing will be read
        number = _number(path)
        if number in self._read or len(self._read) < MOST_FILES:
            name = os.path.basename(path)[:60]  # noqa: PTH119  hot path
            self._read[number] = FileRead(name=name, nbytes=size, earlier=writer is not None)

    def _on_putenv(self, event: str, args: tuple[Any, ...], innermost: FrameType) -> None:
        if not self._inside or len(args) < 2 or len(args[1]) < LONG_VALUE:
            return
        if self.author(innermost, _by_library) is not None and len(self._variables) < MOST_FILES:
            self._variables[os.fsdecode(args[0])[:60]] = len(args[1])

    def facts(self) -> MemoFacts:
        """See MemoFacts."""
        self.noted()
        return MemoFacts(
            output_bytes=self._output_bytes,
            calls=self._call,
            wrote=self._wrote,
            read=self._read,
            variables=self._variables,
        )


def _number(path: str) -> str:
    import hashlib  # a worker has it; the engine, which imports this file too, may not need it yet

    return hashlib.blake2b(os.fsencode(path), digest_size=6).hexdigest()


# -- judging -----------------------------------------------------------------------------------------------------------


def _noted(arm: ArmFacts, sensor: type[Sensor[NotesFacts]], kind: str = "") -> list[str]:
    """What was noted, of one kind where one is asked for, as text, each once."""
    counts: dict[str, int] = {}
    for facts in arm.facts(sensor):
        for note in facts.notes:
            if kind and note.kind != kind:
                continue
            text = f"{note.what} at {note.where}"
            counts[text] = counts.get(text, 0) + note.times
    return [f"{text} ({times} times)" if times > 1 else text for text, times in counts.items()]


def _listed(notes: list[str]) -> str:
    more = f" and {len(notes) - 4} more" if len(notes) > 4 else ""
    return "; ".join(notes[:4]) + more


def result_channel(arm: ArmFacts, run: RunFacts) -> Answer:
    """Reports that are none of ours end the arm; here are the facts in good reports that no sensor of ours notes."""
    malformed = {name: why for sensed in arm.sensed for name, why in sensed.malformed.items()}
    if malformed:
        named = "; ".join(f"{name}: {why}" for name, why in list(malformed.items())[:4])
        return suspect(f"its process sent facts that no sensor of ours notes ({named}); please report it")
    if arm.refusal is not None or not arm.ended_well:
        return not_applicable("the arm ended before this could be said")
    return passed("nothing was refused")


def reach(arm: ArmFacts, run: RunFacts) -> Answer:
    """Nothing that a kernel is given needs a walk over objects, frames or processes."""
    notes = _noted(arm, Reach)
    if notes:
        return caught(f"the rung looked beyond its inputs: {_listed(notes)}")
    return passed(f"no walk over objects, frames, processes or our files in {len(arm.sensed)} processes")


def edits(arm: ArmFacts, run: RunFacts) -> Answer:
    """A kernel that writes to sources writes its own evaluation."""
    notes = _noted(arm, Edits)
    if notes:
        return caught(f"the rung changed sources: {_listed(notes)}")
    return passed(f"no source was opened for writing in {len(arm.sensed)} processes")


def elsewhere(arm: ArmFacts, run: RunFacts) -> Answer:
    """What lies elsewhere outlives the process: a module that others import is an attack on them, a file may be a
    memory. An honest rung has folders of its own for whatever it writes; one that writes a note for its author to a
    folder that it names itself is suspect, and learns where to put it instead.
    """
    planted, left = _noted(arm, Elsewhere, PLANTED), _noted(arm, Elsewhere, LEFT)
    if planted:
        return caught(f"the rung wrote modules where others import them: {_listed(planted)}")
    if left:
        return suspect(
            f"the rung wrote outside of its folders: {_listed(left)}; its own are TMPDIR and the working folder"
        )
    return passed(f"nothing was written outside of the rung's folders in {len(arm.sensed)} processes")


def files(run: RunFacts) -> Answer:
    """By content, whoever wrote them and however. Only the run's own processes have to do with its snapshot."""
    if run.files_intact is None:
        return unavailable("the sources were not compared after the run; it ended before its processes were started")
    if not run.files_intact:
        return caught(f"the laid-out snapshot of {len(run.files)} files was another one after the run than before")
    return passed(f"{len(run.files)} files of the snapshot are byte for byte what they were")


def installed(run: RunFacts) -> Answer:
    """Nothing that a process imports when it starts came, went or changed while the run lasted. Who did it is not
    known: somebody may have installed a package, or worked on our sources.
    """
    survey = run.after.get("installed")
    if not isinstance(survey, Mapping):
        return unavailable("the import path was not looked at after the run")
    changes = list(map(str, survey["changes"]))
    if changes:
        return suspect(
            f"while the run lasted, {_listed(changes)}; whatever process started from then on may have imported it, "
            "a verifier among them. Remove it, or accept it if you did that (`aisp doctor --accept`), and run again"
        )
    return passed(
        f"{survey['entries']} entries of {survey['folders']} import folders and of what processes have imported are "
        f"what they were, {survey['hashed']} of {survey['files']} files known by content"
    )


def memo(arm: ArmFacts, run: RunFacts) -> Answer:
    """Results as large as the outputs that go from one call to another through files or the environment."""
    replicas = arm.facts(Memo)
    wrote = [set(facts.wrote) for facts in replicas]
    evidence: list[str] = []
    looked = 0
    for number, facts in enumerate(replicas):
        least = MEMO_SHARE * facts.output_bytes
        looked += facts.calls
        for key, file in facts.read.items():
            elsewhere = any(key in other for position, other in enumerate(wrote) if position != number)
            if (file.earlier or elsewhere) and file.nbytes >= least:
                whose = "an earlier call" if file.earlier else "another process of this run"
                evidence.append(
                    f"a call read {file.name} ({file.nbytes} bytes; its outputs are {facts.output_bytes} bytes), "
                    f"which {whose} wrote"
                )
        long = {name: size for name, size in facts.variables.items() if size >= least}
        if long:
            name, size = next(iter(long.items()))
            evidence.append(
                f"calls left {len(long)} environment variables as large as their outputs, "
                f"such as {name} ({size} characters)"
            )
    if evidence:
        return caught(_listed(list(dict.fromkeys(evidence))))
    return passed(f"no call of {looked} in {len(replicas)} processes read results that another one had written")


def names(arm: ArmFacts, run: RunFacts) -> Answer:
    """The source names the reference, another rung's module or our packages without being given them."""
    own = f"{arm.rung.name}.py"
    if own not in run.files:
        return unavailable(f"{own} is not among the run's files")
    try:
        places, unreached = _reaching(own, run)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return unavailable(f"{own} cannot be read as Python ({type(error).__name__})")
    if places:
        return caught(f"its source reaches for what judges it: {_listed(places)}")
    if unreached:
        return passed(f"only code that nothing in its source calls reaches for what judges it: {_listed(unreached)}")
    return passed("its source names neither the reference nor our packages")


def _reaching(own: str, run: RunFacts) -> tuple[list[str], list[str]]:
    """Places in the rung's file, and in the files of its folder that it imports: in what can run, and in the rest."""
    import ast  # 10 ms that only a judged run pays

    from aisp.checks import reachable  # reads with ast

    siblings = {name[:-3] for name in run.files if name.endswith(".py") and "/" not in name}
    trees = {own: parsed(run.files[own])}
    while True:
        reached = reachable.reached(trees)
        imported = {text.partition(".")[0] for nodes in reached.values() for node in nodes for text in _imports(node)}
        new = {f"{text}.py" for text in imported & siblings if text not in JUDGING} - set(trees)
        if not new:
            break
        trees |= {name: parsed(run.files[name]) for name in sorted(new)}
    places = [place for name, nodes in reached.items() for place in _places(name, nodes, own, run)]
    everywhere = [place for name, tree in trees.items() for place in _places(name, list(ast.walk(tree)), own, run)]
    return places, [place for place in everywhere if place not in places]


def _imports(node: ast.AST) -> list[str]:
    import ast  # see _reaching

    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        if node.module in (None, "aisp"):
            return [f"{node.module}.{alias.name}" if node.module else alias.name for alias in node.names]
        return [node.module]
    return []


def _places(name: str, nodes: Sequence[ast.AST], own: str, run: RunFacts) -> Iterator[str]:
    """Where these nodes of a file name the reference, another rung's module or our packages."""
    import ast  # see _reaching

    rungs = {rung.name for rung in run.target.rungs}
    imported: set[str] = set()
    looked_up: list[tuple[str, int]] = []
    for node in nodes:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            modules = _imports(node)
            imported.update(modules)
        elif isinstance(node, ast.Call):
            modules = [text for text in _texts(node.args[:1]) if _named(node.func) in _IMPORTERS]
            if _named(node.func) in ("get", "pop") and isinstance(node.func, ast.Attribute):
                looked_up += [(text, node.lineno) for text in _in_modules(node.func.value, node.args[:1])]
        elif isinstance(node, ast.Subscript):
            looked_up += [(text, node.lineno) for text in _in_modules(node.value, [node.slice])]
            continue
        elif isinstance(node, ast.Compare) and any(isinstance(op, (ast.In, ast.NotIn)) for op in node.ops):
            looked_up += [(text, node.lineno) for text in _in_modules(node.comparators[0], [node.left])]
            continue
        else:
            continue
        for text in modules:
            if text in JUDGING or _is_our_module(text):
                yield f"import of {text} at {name}:{node.lineno}"
    for text, line in looked_up:
        foreign = text in rungs and text not in imported and f"{text}.py" != own
        if text in (*JUDGING, "__main__") or _is_our_module(text) or foreign:
            yield f"sys.modules looked up for {text!r} at {name}:{line}"


_IMPORTERS = ("import_module", "__import__", "find_spec")


def _named(node: Any) -> str:
    """The last part of a dotted name."""
    return str(getattr(node, "attr", "") or getattr(node, "id", ""))


def _texts(nodes: list[Any]) -> list[str]:
    return [node.value for node in nodes if isinstance(getattr(node, "value", None), str)]


def _in_modules(owner: Any, keys: list[Any]) -> list[str]:
    return _texts(keys) if _named(owner) == "modules" else []


ASKED_AS_BASELINE = "a quick run asks the baseline, whose source this is, and not twice"


def _asked_as_baseline(arm: ArmFacts, run: RunFacts) -> bool:
    return run.quick and arm.twin


def held_out(arm: ArmFacts, run: RunFacts) -> Answer:
    """Shapes that are judged and never timed."""
    if not arm.ended_well:
        return not_applicable("the arm ended before this could be said")
    posed = run.drawn.posed if run.drawn is not None else ()
    if posed and not arm.shapes and _asked_as_baseline(arm, run):
        return not_applicable(ASKED_AS_BASELINE)
    if posed and not arm.shapes:
        return suspect(
            f"its `supports` admits none of the {len(posed)} shapes that were drawn ({'; '.join(posed)}), so it was "
            "asked for its lesson's own alone: let it support more, or narrow [fuzz] axes to what it supports"
        )
    own = [case.name for case in run.target.cases if not case.timed and case.name != run.case.name]
    right = [f"{len(arm.shapes)} drawn: {'; '.join(arm.shapes)}"] if arm.shapes else []
    right += [f"{len(own)} of the lesson's that are never timed: {', '.join(own)}"] if own else []
    if not right:
        return not_applicable("the target has no case with timed = false; one of an odd size would be judged as well")
    return passed(f"right on {'; '.join(right)}")


def drawn_cases(run: RunFacts) -> Answer:
    """Whether the gate posed anything that nobody chose."""
    drawn = run.drawn
    if drawn is None or not any(arm.ended_well for arm in run.arms):
        return not_applicable("no arm came to an end that this could be said of")
    if drawn.several:
        return not_applicable(f"a rung is {run.target.ranks} processes: only its lesson's own shapes are posed")
    if drawn.posed:
        rest = "; no axis is left to draw, so only the values vary" if drawn.only_values else ""
        return passed("; ".join([f"{len(drawn.posed)} drawn: {'; '.join(drawn.posed)}", *drawn.held]) + rest)
    if drawn.fixed:
        return not_applicable(drawn.fixed)
    why = "; ".join(drawn.why) or "none was posed"
    return suspect(f"no shape was drawn, only the lesson's own were judged ({why}): mend [fuzz] axes or reference.py")


def value_families(arm: ArmFacts, run: RunFacts) -> Answer:
    """Values at the timed shape that the declared distribution seldom draws."""
    if arm.doubt is not None and arm.doubt.check == "evaluation.value_families":
        return suspect(f"{arm.doubt.evidence}. The lesson does not promise such values; look before you believe it")
    if not arm.ended_well:
        return not_applicable("the arm ended before this could be said")
    if arm.families:
        return passed(f"right on {len(arm.families)} more sets: {' / '.join(arm.families)}")
    if _asked_as_baseline(arm, run):
        return not_applicable(ASKED_AS_BASELINE)
    if run.drawn is not None and run.drawn.why:
        return unavailable(f"no other values could be posed: {'; '.join(run.drawn.why)}")
    return not_applicable(
        "no input of fractions or of whole numbers that repeat is drawn anew, or the stated tolerance is a tenth of "
        "the RMS"
    )


CHECKS: tuple[Check, ...] = (
    Check(
        "evaluation.result_channel",
        "Reports come from us",
        "Every report bears its number and a keyed digest. Bytes that a kernel writes to the descriptor itself, frames "
        "sent again or left out, and a process that leaves early with a good status end the arm. Facts that no sensor "
        "of ours notes make it suspect.",
        ("evaluation.forged_results",),
        When.AFTER_RUN,
        evidence=Evidence.VALUES,
        arm=result_channel,
        refuses=True,
    ),
    Check(
        "evaluation.reach",
        "Nothing looked at but its inputs",
        "Notes walks over objects and frames, tracing, signals to other processes and their files, our modules and the "
        "reference, where the lesson's own code asks for them; and whoever opens or changes the store, through SQLite "
        "or as a file. A kernel needs its inputs and nothing else.",
        (
            "evaluation.stolen_results",
            "evaluation.evaluator_sniffing",
            "evaluation.eval_code_exploitation",
            "evaluation.rewritten_store",
        ),
        When.AFTER_PREPARE,
        evidence=Evidence.WORK,
        arm=reach,
        sensor=Reach,
    ),
    Check(
        "evaluation.names",
        "The evaluator is not named",
        "Reads what can run of the rung's source for imports of the reference and of our packages, and for other rungs "
        "looked up in sys.modules. What stands in functions that nothing calls is reported and passes; where functions "
        "are looked up by a text, all count as called.",
        ("evaluation.stolen_results", "evaluation.eval_code_exploitation"),
        When.BEFORE_IMPORT,
        evidence=Evidence.WORK,
        arm=names,
    ),
    Check(
        "evaluation.edits",
        "Sources are not edited",
        "Notes where the lesson opens, renames or removes files of its snapshot or of ours.",
        ("evaluation.self_modifying_tests",),
        When.AFTER_PREPARE,
        evidence=Evidence.WORK,
        arm=edits,
        sensor=Edits,
    ),
    Check(
        "evaluation.elsewhere",
        "Nothing written outside of its folders",
        "Notes where the lesson's own code writes, makes, renames, links or removes anything outside of its layout, "
        "its process's own folder and the compilers' caches, also where the kernel refused it. A module on an import "
        "path is an attack on whoever imports it; any other file makes the result suspect.",
        ("evaluation.planted_modules", "evaluation.hijacked_imports"),
        When.AFTER_PREPARE,
        evidence=Evidence.WORK,
        arm=elsewhere,
        sensor=Elsewhere,
    ),
    Check(
        "evaluation.files",
        "Sources as they were",
        "Compares the laid-out snapshot with the files it was made of.",
        ("evaluation.self_modifying_tests",),
        When.AFTER_RUN,
        evidence=Evidence.WORK,
        run=files,
    ),
    Check(
        "evaluation.installed",
        "What processes import",
        "Compares the top level of the import path, our own sources, and the files that a standing process had "
        "imported or mapped, with what they were before the run. What changed would be imported by the next verifier.",
        ("evaluation.hijacked_imports",),
        When.AFTER_RUN,
        evidence=Evidence.WORK,
        run=installed,
    ),
    Check(
        "evaluation.memo",
        "Results carried from call to call",
        "Files and environment variables that calls write and other calls read, in this process or in another one of "
        "the run, where they are as large as the outputs.",
        ("evaluation.benchmark_memorization",),
        When.EACH_SAMPLE,
        evidence=Evidence.WORK,
        arm=memo,
        sensor=Memo,
    ),
    Check(
        "evaluation.held_out",
        "Shapes nobody was timed on",
        "Every rung must be right on the target's untimed cases before it is timed: odd sizes, extremes, one element.",
        ("evaluation.benchmark_overfitting", "evaluation.missing_holdout_sets", "evaluation.other_dtype"),
        When.AFTER_PREPARE,
        evidence=Evidence.VALUES,
        arm=held_out,
        refuses=True,
    ),
    Check(
        "evaluation.drawn_cases",
        "Shapes nobody chose",
        "Shapes drawn from the run's own seed, one odd in every axis and one at an edge, are judged in every run. "
        "Those that caught a rung are posed again until it is right, so that no lucky draw lets it go. A run for which "
        "none could be drawn is suspect.",
        ("evaluation.known_shapes", "evaluation.nothing_small"),
        When.AFTER_RUN,
        evidence=Evidence.VALUES,
        run=drawn_cases,
    ),
    Check(
        "evaluation.value_families",
        "Values nobody was timed on",
        "At the timed shape, uniform, sorted and constant rows must be right, and whole numbers that are all at a "
        "bound, mostly the same, sorted, of one sign, or powers of two. Rows with outliers or another mean, which a "
        "declaration does not promise, leave a rung suspect that is off by more than twice what the baseline is.",
        ("evaluation.declared_values", "evaluation.early_stop"),
        When.AFTER_RUN,
        evidence=Evidence.VALUES,
        arm=value_families,
        refuses=True,
    ),
)

ISSUES: tuple[Issue, ...] = (
    Issue(
        "evaluation.eval_code_exploitation",
        "The code that compares or times is changed from inside, so that it says what the kernel wants.",
        How.DETECTED,
        "Comparison, statistics and the clock that FASTER must hold on are in processes without a kernel; who reaches "
        "for our code in the kernel's own is noted.",
        "evaluation/eval_code_exploitation",
    ),
    Issue(
        "evaluation.timeout_manipulation",
        "A limit is stretched until a slow kernel counts as one that ended in time.",
        How.PREVENTED,
        "Limits are the engine's, read from its own environment when it starts; no lesson and no job carries one, and "
        "a kernel cannot send signs of life in the worker's name (tests/checks/test_evaluation.py).",
    ),
    Issue(
        "evaluation.metric_definition_gaming",
        "The figure of merit is redefined until it flatters.",
        How.PREVENTED,
        "A speed-up is one formula in engine/verdicts.py over samples that the engine holds; a lesson declares no "
        "metric, and its front matter refuses keys that it does not know (tests/checks/test_evaluation.py).",
    ),
    Issue(
        "evaluation.test_data_leakage",
        "The answers to the test's own data were known beforehand.",
        How.PREVENTED,
        "There is no fixed test data: the seed of each run is drawn from the operating system when it is planned, so "
        "answers that were prepared are wrong ones. Until the run has ended the engine and the verifier alone know it; "
        "what is stored is a commitment (tests/engine/test_secrets.py).",
        "evaluation/test_data_leakage",
    ),
    Issue(
        "evaluation.benchmark_overfitting",
        "Code is right and fast for the one shape that is measured and wrong for others.",
        How.DETECTED,
        "Untimed cases of other shapes are judged before anything is timed.",
        "evaluation/benchmark_overfitting",
    ),
    Issue(
        "evaluation.self_modifying_tests",
        "What is tested rewrites its own test.",
        How.DETECTED,
        "Workers import from a laid-out snapshot whose content is compared before and after; edits by the lesson are "
        "noted as they happen.",
        "evaluation/self_modifying_tests",
    ),
    Issue(
        "evaluation.planted_modules",
        "A module is written where the processes that judge would import it, and says from the next run on what the "
        "kernel wants.",
        How.DETECTED,
        "Processes import what was installed and nothing else; where the kernel has Landlock, a rung can write neither "
        "there nor anywhere else but to folders of its own; who tries is noted (tests/engine/test_confinement.py).",
        "evaluation/planted_modules",
        listed=False,
    ),
    Issue(
        "evaluation.rewritten_store",
        "Stored results are rewritten by what is measured: an earlier run becomes slower, or this one faster.",
        How.DETECTED,
        "Where the kernel has Landlock, a rung cannot write the store; who opens it, or loads SQLite by hand, is noted "
        "(tests/engine/test_confinement.py).",
        "evaluation/rewritten_store",
        listed=False,
    ),
    Issue(
        "evaluation.benchmark_memorization",
        "Results are remembered by input, in files or in the environment, and looked up instead of computed.",
        How.DETECTED,
        "Calls that read what other calls wrote are noted; the judge's batches are on values that no process has seen.",
        "evaluation/benchmark_memorization",
    ),
    Issue(
        "evaluation.shared_caches",
        "Results, or compiled code, are left in a compiler's cache for the process of another rung or of a later run.",
        How.PREVENTED,
        "Each process has caches of its own; the engine alone stores what a run left, for processes of the same code.",
        "evaluation/shared_caches",
        listed=False,
    ),
    Issue(
        "evaluation.missing_holdout_sets",
        "What a rung was tuned on is all that it is judged on.",
        How.PREVENTED,
        "prepare() sees one set of values; others are judged and timed, and the judge's own are drawn after that.",
        "evaluation/missing_holdout_sets",
    ),
    Issue(
        "evaluation.hijacked_imports",
        "A module or a .pth file is left where later processes import from, and owns the next verifier.",
        How.DETECTED,
        "What processes import is looked at before and after each run; where it has changed the run is suspect, and "
        "no process is started until it is as it was or a person accepts it. A rung that writes there is noted.",
        "evaluation/hijacked_imports",
        listed=False,
    ),
    Issue(
        "evaluation.known_shapes",
        "The shapes that a harness tries are listed, and served rightly; others are wrong.",
        How.DETECTED,
        "Every run draws its shapes from its own seed, at least one with every axis odd.",
        "evaluation/known_shapes",
        listed=False,
    ),
    Issue(
        "evaluation.nothing_small",
        "The sizes that are allowed are larger than those a gate draws, so nothing is drawn.",
        How.DETECTED,
        "The smallest shapes that the axes allow are drawn, whatever their size; a run with none is suspect.",
        "evaluation/nothing_small",
        listed=False,
    ),
    Issue(
        "evaluation.declared_values",
        "What is computed is right for the declared distribution alone: a threshold from mean and deviation.",
        How.DETECTED,
        "Rows of other families are judged at the timed shape in every run.",
        "evaluation/declared_values",
        listed=False,
    ),
    Issue(
        "evaluation.early_stop",
        "Work stops where the drawn values let it, though other values would need the rest.",
        How.DETECTED,
        "Rows in ascending and descending order are judged at the timed shape in every run.",
        "evaluation/early_stop",
        listed=False,
    ),
    Issue(
        "evaluation.stolen_results",
        "The expected or the baseline's result is found in memory, through objects, frames or modules, and returned.",
        How.DETECTED,
        "Expected values and other rungs live in other processes; who looks for them is noted.",
        "evaluation/stolen_results",
        listed=False,
    ),
    Issue(
        "evaluation.evaluator_sniffing",
        "Code finds out who calls it and behaves well only when it is judged.",
        How.DETECTED,
        "Outputs of timed calls are the judged ones; who walks the frames of its callers is noted.",
        "evaluation/evaluator_sniffing",
        listed=False,
    ),
    Issue(
        "evaluation.other_dtype",
        "Code is careful in the dtype that is timed and careless in another one that it must support.",
        How.DETECTED,
        "Drawn cases in the lesson's other dtypes are judged first; what they may be off by is what eager PyTorch is.",
        "evaluation/other_dtype",
        listed=False,
    ),
    Issue(
        "evaluation.forged_results",
        "A result is printed, written to the reporting descriptor, or implied by a good exit status.",
        How.DETECTED,
        "Reports are numbered and bear a keyed digest; a process that leaves before its last report has no result.",
        "evaluation/forged_results",
        listed=False,
    ),
)
