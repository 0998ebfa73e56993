"""Where the engine keeps its things, and who may reach them. Only the owner, ever.

State (the store, snapshots, journal, log): `$AISP_STATE` > `$XDG_STATE_HOME/aisp` > `~/.local/state/aisp` >
a private folder in the temporary directory that is gone after a reboot (`state_is_temporary()` says so). A folder that
either variable names and that cannot be used is an error; a store that cannot be written any more is still read.

Socket: in `$XDG_RUNTIME_DIR/aisp`, else in a private 0700 folder `aisp-UID` in the temporary directory, else, where
that one is somebody else's, in `run` below the state directory. It is named after a hash of the state directory's
identity, so that its path stays under the 107 bytes a Unix socket may have and two state directories have an engine
each, a copy and its original too. A pointer file in the state directory tells where it was bound.

Every folder on the way is looked at, because whoever may rename one of them may put another in its place: each belongs
to the owner or to root, and is not open to all unless its sticky bit is set. Files of ours that somebody else put there
are refused too, and the socket is one only where it is the owner's (`peer_uid` tells who is at the other end).

Also here, because everything reads the environment through it: the numbers that tests set.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import os
import socket
import stat
import struct
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

EXIT_ALREADY_RUNNING = 75
MAX_SOCKET_PATH_BYTES = 107
SOCKET_NAME_BYTES = 17  # twelve digits and ".sock"

# What a child may see of the environment: names, never a pattern over values.
ENVIRONMENT_NAMES = (
    "PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "LC_CTYPE", "TMPDIR", "TZ", "VIRTUAL_ENV",
    "LD_LIBRARY_PATH", "CUDA_HOME", "CUDA_PATH", "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "NVIDIA_VISIBLE_DEVICES",
    "CC", "CXX", "OMP_NUM_THREADS", "OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "MKL_NUM_THREADS",
    "NCCL_NVLS_ENABLE", "TORCH_SYMM_MEM_DISABLE_MULTICAST", "NVSHMEM_DISABLE_NVLS",
)  # fmt: skip

# What the engine sees beside these: where its state is, its own settings, and what decides how its processes are
# loaded or is recorded with a run. Whoever may read `/proc/PID/environ` of an engine reads no key of the shell's there.
_ENGINE_NAMES = (
    "TEMP", "TMP", "XDG_STATE_HOME", "XDG_RUNTIME_DIR", "LD_PRELOAD", "CUDA_LAUNCH_BLOCKING", "CUDA_MPS_PIPE_DIRECTORY",
    "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF", "TORCH_CUDNN_SDPA_DEPRIORITIZED", "NVIDIA_TF32_OVERRIDE",
    "FLASHINFER_TRACE_DIR",
)  # fmt: skip
_OWN_PREFIX = "AISP_"


def engine_environment() -> dict[str, str]:
    """What an engine is given of this process's environment."""
    names = {*ENVIRONMENT_NAMES, *_ENGINE_NAMES}
    return {name: value for name, value in os.environ.items() if name in names or name.startswith(_OWN_PREFIX)}


class UnsafePathError(Exception):
    """A directory that must be private belongs to somebody else, is a link, is open to others, or cannot be used."""


@cache
def _state(aisp_state: str | None, xdg: str | None, home: str | None) -> tuple[Path, bool]:
    named, path = "", None
    if aisp_state:
        named, path = "AISP_STATE", Path(aisp_state).absolute()
    elif xdg and Path(xdg).is_absolute():  # a relative one is to be ignored, says the XDG specification
        named, path = "XDG_STATE_HOME", Path(xdg) / "aisp"
    elif home and Path(home).is_absolute():
        path = Path(home) / ".local" / "state" / "aisp"
    if path is not None:
        try:
            make_private(path)
        except UnsafePathError:
            raise
        except OSError as error:
            why = error.strerror or str(error)
        else:
            # A store that cannot be written any more is still there to be read: none takes its place unseen.
            if os.access(path, os.W_OK | os.X_OK) or (path / "aisp.db").exists():
                return path, False
            why = "it cannot be written"
        if named:
            raise UnsafePathError(
                f"{named} is {path if aisp_state else xdg}, which cannot be used ({why}); "
                f"make or mount it, set {named} to a folder that can be written, or unset it"
            )
    path = Path(tempfile.gettempdir()) / f"aisp-{os.getuid()}" / "state"
    make_private(path.parent)
    make_private(path)
    return path, True


def state_dir() -> Path:
    """The state directory, made if need be, also where it was removed meanwhile.

    Raises UnsafePathError where others could write to it; OSError where it can no longer be made.
    """
    path = _state(*(os.environ.get(name) for name in ("AISP_STATE", "XDG_STATE_HOME", "HOME")))[0]
    return path if path.exists() else make_private(path)


def state_is_temporary() -> bool:
    """Whether no lasting place could be written to, so that results are lost at the next reboot."""
    return _state(*(os.environ.get(name) for name in ("AISP_STATE", "XDG_STATE_HOME", "HOME")))[1]


def identity(descriptor: int | None = None) -> str:
    """Tells the state directory, or an open folder, from every other one of this host, whatever its name.

    No other folder gets the identity of an open one, not even when that is removed. Raises OSError.
    """
    status = state_dir().stat() if descriptor is None else os.fstat(descriptor)
    return f"{status.st_dev:x}-{status.st_ino:x}"


def make_private(path: Path, variable: str = "AISP_STATE") -> Path:
    """Make `path` a directory that only its owner can enter.

    Raises UnsafePathError where that cannot be; `variable` is the one that names another folder.
    """
    _make_parents(path.parent)
    _check_way(path)
    with contextlib.suppress(FileExistsError):
        path.mkdir(mode=0o700)
    try:
        # Held open: what is looked at is what is changed, whatever is put in its place meanwhile.
        folder = _opened(path)
    except OSError as error:
        _check_folder(path, path.lstat(), variable)  # a link, or somebody else's: our sentence says more
        raise error
    try:
        status = os.fstat(folder)
        _check_folder(path, status, variable)
        if status.st_mode & 0o022:
            _check_entries(path, folder, variable)
        if status.st_mode & 0o077 or not _usable(status):
            os.fchmod(folder, 0o700)
    finally:
        os.close(folder)
    return path


def _opened(path: Path) -> int:
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        return os.open(path, flags)
    except PermissionError:
        status = path.lstat()
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or _usable(status):
            raise
        path.chmod(0o700)  # shut to its owner, by an umask or by hand
        return os.open(path, flags)


def _usable(status: os.stat_result) -> bool:
    """Whether a folder's owner may enter and read it; one that he may not write to can be meant so."""
    return status.st_mode & 0o500 == 0o500


def keep_private() -> None:
    """Put the modes of the state folder and the files in it right where they were changed: what nobody else may read or
    write, and its owner can read. Some 50 us."""
    folder = make_private(state_dir())
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            mode = stat.S_IMODE(entry.stat(follow_symlinks=False).st_mode)
            if entry.is_file(follow_symlinks=False) and (mode & 0o177 or not mode & 0o400):
                os.chmod(entry.path, mode & 0o600 if mode & 0o400 else 0o600)  # noqa: PTH101  a text


def _make_parents(folder: Path) -> None:
    """What is missing above a private folder, writable by the owner alone whatever the umask."""
    missing = []
    while not folder.exists():
        missing.append(folder)
        folder = folder.parent
    for path in reversed(missing):
        with contextlib.suppress(FileExistsError):
            path.mkdir(mode=0o755)
            path.chmod(path.stat().st_mode & 0o777 | 0o700)


def _check_folder(path: Path, status: os.stat_result, variable: str) -> None:
    if stat.S_ISLNK(status.st_mode):
        raise UnsafePathError(f"{path} is a symbolic link; remove it or set {variable} to a folder of your own")
    if status.st_uid != os.getuid():
        raise UnsafePathError(f"{path} belongs to uid {status.st_uid}; set {variable} to a folder of your own")
    if stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_ISVTX:
        raise UnsafePathError(f"{path} is shared by all users; set {variable} to a folder of your own below it")


def _check_way(path: Path) -> None:
    """Raise UnsafePathError where another user could put a folder of his in the place of one above `path`."""
    ways = {path.parent, Path(os.path.realpath(path.parent))}
    for folder in {above for way in ways for above in (way, *way.parents)}:
        status = folder.lstat()
        # The owner of a link decides where it leads; its mode says nothing.
        if status.st_uid not in (0, os.getuid()):
            raise UnsafePathError(
                f"{folder} belongs to uid {status.st_uid}, who could exchange what lies in it; "
                f"set AISP_STATE (and XDG_RUNTIME_DIR) to a folder below one of your own"
            )
        if stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_IWOTH and not status.st_mode & stat.S_ISVTX:
            raise UnsafePathError(
                f"everybody may exchange what lies in {folder}; `chmod o-w {folder}`, "
                "or set AISP_STATE (and XDG_RUNTIME_DIR) to a folder of your own elsewhere"
            )


def _check_entries(path: Path, folder: int, variable: str) -> None:
    """Raise UnsafePathError where another user has made an entry of a folder that others could write to."""
    with os.scandir(folder) as entries:
        for entry in entries:
            owner = entry.stat(follow_symlinks=False).st_uid
            if owner != os.getuid():
                raise UnsafePathError(
                    f"{path} was open to others, and {entry.name!r} in it belongs to uid {owner}; "
                    f"look at it and remove it, or set {variable} to a folder of your own"
                )


def _own_file(path: Path) -> Path:
    """`path` itself, unless somebody else put a file or a link there: UnsafePathError."""
    with contextlib.suppress(FileNotFoundError):
        owner = path.lstat().st_uid
        if owner != os.getuid():
            raise UnsafePathError(f"{path} belongs to uid {owner}; look at it and remove it")
    return path


def peer_uid(connection: socket.socket) -> int:
    """The user at the other end of a connected Unix socket, as the kernel knows it."""
    return _peer(connection)[1]


def peer_pid(connection: socket.socket) -> int:
    """The process that connected a Unix socket, or has opened one for it; 0 where it has no number here."""
    return _peer(connection)[0]


def _peer(connection: socket.socket) -> tuple[int, int]:
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    pid, uid, _ = struct.unpack("3i", credentials)
    return int(pid), int(uid)


def runtime_dir() -> Path:
    """Where the socket lives: the first of several folders that is private and has a short name.

    Raises UnsafePathError where none is; OSError where the last one cannot be made.
    """
    variable = "XDG_RUNTIME_DIR"
    setting = os.environ.get(variable)
    if setting and Path(setting).is_absolute() and _fits(path := Path(setting) / "aisp"):
        with contextlib.suppress(OSError):  # one that is not there is as good as none
            return make_private(path, variable)
    name = f"aisp-{os.getuid()}"
    path = Path(tempfile.gettempdir()) / name
    try:
        return make_private(path if _fits(path) else Path("/tmp") / name, variable)
    except UnsafePathError:  # whoever may write to the temporary directory can make it before us
        if not _fits(path := state_dir() / "run"):
            raise
    return make_private(path, variable)


def _fits(folder: Path) -> bool:
    """Whether a socket in this folder has a path that may be bound."""
    return len(os.fsencode(folder)) + 1 + SOCKET_NAME_BYTES <= MAX_SOCKET_PATH_BYTES


def is_at(path: str | Path, descriptor: int) -> bool:
    """Whether the file at `path` is the one that is open, and not another one of its name. Some microseconds."""
    try:
        return os.path.samestat(os.stat(path), os.fstat(descriptor))  # noqa: PTH116  before each commit
    except OSError:
        return False


def socket_file(folder: str | None = None) -> Path:
    """Where the engine of a state directory binds; by default of ours, else of the one with this identity."""
    return runtime_dir() / _socket_name(identity() if folder is None else folder)


def _socket_name(folder: str) -> str:
    return hashlib.sha256(folder.encode()).hexdigest()[:12] + ".sock"


def pointer_file() -> Path:
    """Names the socket that the running engine bound, for clients with another XDG_RUNTIME_DIR."""
    return _own_file(state_dir() / "engine.socket")


def find_socket() -> Path | None:
    """The running engine's socket, or None where there is no sign of one.

    A pointer to a socket of another name was copied with the folder, and leads to the engine of the original.
    """
    return next(filter(named_for_us, sockets()), None)


def named_for_us(socket: Path) -> bool:
    """Whether a socket bears the name that the engine of our state directory gives its own."""
    return socket.name == _socket_name(identity())


def sockets() -> Iterator[Path]:
    """Where this state directory's engine may listen, the likeliest first: where the pointer says, then the usual
    place.

    A socket that is not `named_for_us` is of another folder, or of an engine of an older build.
    """
    pointed = None
    with contextlib.suppress(OSError, ValueError):
        named = Path(os.fsdecode(pointer_file().read_bytes().strip()))
        if named.is_absolute() and named.lstat().st_uid == os.getuid():
            pointed = named
            yield pointed
    usual = socket_file()
    # Somebody else's is none: the engine that is then started removes it.
    with contextlib.suppress(OSError):
        if usual != pointed and usual.lstat().st_uid == os.getuid():
            yield usual


def lock_file() -> Path:
    """Held with flock by the one engine of this state directory."""
    return _own_file(state_dir() / "engine.lock")


def log_file() -> Path:
    """The engine's own log."""
    return _own_file(state_dir() / "engine.log")


def log_tail(lines: int) -> str:
    """Last lines of the engine's log, "" where there is none."""
    try:
        with log_file().open("rb") as source:
            source.seek(0, os.SEEK_END)
            source.seek(max(0, source.tell() - 64 * 1024))
            text = source.read().decode("utf-8", "backslashreplace")
    except OSError:
        return ""
    return "\n".join(text.splitlines()[-lines:])


def database_file() -> Path:
    """The store."""
    return _own_file(state_dir() / "aisp.db")


def candidates_file() -> Path:
    """Candidates that wait to be judged (store.candidates): written by whoever plans them."""
    return _own_file(state_dir() / "candidates.db")


def token_file() -> Path:
    """What a client of `aisp serve` must know."""
    return _own_file(state_dir() / "serve.token")


def snapshots_dir() -> Path:
    """Sources as they ran, laid out for workers to import; content-addressed."""
    return make_private(state_dir() / "snapshots")


def work_dir() -> Path:
    """Where each child process has a folder of its own (engine.workplaces)."""
    return make_private(state_dir() / "work")


def journal_dir() -> Path:
    """The event journal of the running engine."""
    return make_private(state_dir() / "journal")


def suites_dir() -> Path:
    """Runs of suites: a folder for each suite, with a package for each of its runs and the plan of one that goes on."""
    return make_private(state_dir() / "suites")


def turns_dir() -> Path:
    """Two versions of a rung beside each other, as targets of which the engine measures one against the other."""
    return make_private(state_dir() / "turns")


def judged_dir() -> Path:
    """Targets made of what others wrote: problems with an answer, functions of a program (engine.doors)."""
    return make_private(state_dir() / "judged")


def compiled_dir() -> Path:
    """What compilers made, by key (engine.caches). May be removed at any time: it is compiled once more."""
    return state_dir() / "compiled"


def cache_links_dir() -> Path:
    """By which path a rung's process reaches its caches (engine.caches)."""
    return state_dir() / "caches"


CACHE_FOLDER = "cache"  # in a process's folder
# Where what is compiled or fetched goes, below that folder, by the variable that says so.
CACHES = {
    "XDG_CACHE_HOME": "xdg",  # torch's hub, and whoever keeps to the convention
    "TRITON_HOME": "triton_home",
    "TRITON_CACHE_DIR": "triton",
    "TORCHINDUCTOR_CACHE_DIR": "inductor",
    "TORCH_EXTENSIONS_DIR": "extensions",
    "CUDA_CACHE_PATH": "cuda",  # what the driver compiled
    "FLASHINFER_WORKSPACE_BASE": "flashinfer",
    "CUTE_DSL_CACHE_DIR": "cute",
    "CUPY_CACHE_DIR": "cupy",
    "NUMBA_CACHE_DIR": "numba",
    "MPLCONFIGDIR": "matplotlib",
}
# The driver's own cache is not stored: it is one database that a process has open before its lesson is loaded, and
# nothing of ours is compiled by it. Nor are matplotlib's fonts: no compiler made them.
KEPT_CACHES = tuple(folder for folder in CACHES.values() if folder not in ("cuda", "matplotlib"))


def cache_variables(folder: str) -> dict[str, str]:
    """Variables that have compilers keep what they make below `folder` and nowhere else."""
    return {name: f"{folder}/{part}" for name, part in CACHES.items()}


def positive_setting(name: str, default: float) -> float:
    """A number above zero from the environment; anything else that stands there counts as not given."""
    try:
        value = float(os.environ.get(name, ""))
    except ValueError:
        return default
    return value if 0 < value < math.inf else default
