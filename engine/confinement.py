"""What a process that runs a kernel can reach. The machine's kernel enforces it: Landlock (Linux 5.13 and newer).

A confined process, and whatever it starts, can write, make, rename and remove files in the folders that it was given
and nowhere else. It reads and executes what is installed, its own layout and its own folder; the state folder, where
the engine keeps what no kernel may know, is shut to it before it has a second thread, the rest once it has a role. From
Linux 6.7 on it has no TCP, from 6.12 on it can send a process outside of the confinement no signal. It can no longer
look into such a process through /proc or ptrace. It needs no rights for that, and nobody can give it more. What it has
of the superuser's rights over other processes and the machine it gives up as well. engine.seccomp refuses the rest.

A confinement binds the thread that asked for it and what that thread starts later; from version 8 of Landlock on it
binds all threads. So a process asks before it has a second thread. A further one can only narrow it.

Ranks of one arm keep the network and abstract sockets: they find one another by them (gloo, NCCL).
"""

from __future__ import annotations

import ctypes
import json
import os
import site
import stat
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from aisp.engine import seccomp
from aisp.engine.start import FOLDER
from aisp.store.outcomes import Held

# The numbers are the same on x86-64 and aarch64 (include/uapi/asm-generic/unistd.h).
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_ASK_VERSION = 1
_ALL_THREADS = 1 << 3
_RULE_PATH_BENEATH = 1
_PR_SET_NO_NEW_PRIVS = 38
_PR_CAPBSET_DROP = 24

# include/uapi/linux/landlock.h. Rights of files, then those that only folders have, then of sockets.
_EXECUTE, _WRITE_FILE, _READ_FILE, _TRUNCATE = 1 << 0, 1 << 1, 1 << 2, 1 << 14
_READ_FOLDER, _REMOVE, _MAKE, _REFER = 1 << 3, 0b11 << 4, 0b1111111 << 6, 1 << 13
_TCP = 0b11
_SCOPE_ABSTRACT_SOCKET, _SCOPE_SIGNAL = 1 << 0, 1 << 1
_READ = _EXECUTE | _READ_FILE
_OF_FILES = _READ | _WRITE_FILE | _TRUNCATE

ABI_REFER, ABI_TRUNCATE, ABI_TCP, ABI_SCOPES, ABI_ALL_THREADS = 2, 3, 4, 6, 8  # from which on the kernel knows them

SWITCH = "AISP_LANDLOCK"
READABLE = "AISP_READABLE"


class _RulesetAttributes(ctypes.Structure):
    _fields_ = (
        ("handled_access_fs", ctypes.c_uint64),
        ("handled_access_net", ctypes.c_uint64),
        ("scoped", ctypes.c_uint64),
    )


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _layout_ = "ms"
    _fields_ = (("allowed_access", ctypes.c_uint64), ("parent_fd", ctypes.c_int32))


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def abi() -> int:
    """Which version of Landlock this kernel offers; 0 where it offers none, or a container forbids to ask."""
    version: int = _libc().syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(_ASK_VERSION))
    return max(version, 0)


def wanted() -> bool:
    """Whether processes are to be confined where that is possible: unless AISP_LANDLOCK is 0."""
    return os.environ.get(SWITCH, "") != "0"


def confine(
    folders: Iterable[str],
    files: Iterable[str] = (),
    *,
    readable: Iterable[str] | None = None,
    listed: Iterable[str] = (),
    alone: bool = False,
) -> int:
    """Let this thread, and all that it starts from now on, reach these places alone. What is not there is passed over.

    Args:
        folders: anything may be made, changed, renamed, removed, read and executed in them.
        files: files and devices, or folders of such, that may be read and written and no more.
        readable: what may be read and executed besides; None: everything.
        listed: folders whose names may be read, down to the last.
        alone: it has no TCP, and no abstract socket of others.

    Returns:
        The version of Landlock that holds it; 0 where this kernel has none.

    Raises:
        OSError: the kernel has it and refused.
    """
    version = abi()
    if not version:
        return 0
    libc = _libc()
    read = 0 if readable is None else _READ | _READ_FOLDER
    change = _WRITE_FILE | (_TRUNCATE if version >= ABI_TRUNCATE else 0)
    everything = read | change | _REMOVE | _MAKE | (_REFER if version >= ABI_REFER else 0)
    tcp = _TCP if alone and version >= ABI_TCP else 0
    scoped = _SCOPE_SIGNAL | (_SCOPE_ABSTRACT_SOCKET if alone else 0) if version >= ABI_SCOPES else 0
    attributes = _RulesetAttributes(everything, tcp, scoped)
    # A kernel of an older version takes a longer structure whose new fields are zero.
    ruleset = _checked(libc.syscall(_CREATE_RULESET, ctypes.byref(attributes), ctypes.sizeof(attributes), 0))
    try:
        rules = [(folders, everything), (files, change | (read & ~_EXECUTE))]
        if readable is not None:
            rules += [(readable, read), (listed, _READ_FOLDER)]
        for paths, access in rules:
            for path in paths:
                _allow(libc, ruleset, path, access)
        _checked(libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
        _checked(libc.syscall(_RESTRICT_SELF, ruleset, _ALL_THREADS if version >= ABI_ALL_THREADS else 0))
    finally:
        os.close(ruleset)
    return version


def _allow(libc: ctypes.CDLL, ruleset: int, path: str, access: int) -> None:
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return  # nothing there that could be reached
    try:
        if not stat.S_ISDIR(os.fstat(place).st_mode):
            access &= _OF_FILES  # the kernel refuses rights that only a folder can have
        rule = _PathBeneath(access, place)
        _checked(libc.syscall(_ADD_RULE, ruleset, _RULE_PATH_BENEATH, ctypes.byref(rule), 0))
    finally:
        os.close(place)


def _checked(result: int) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"Landlock: {os.strerror(code)}")
    return result


# -- what there is to reach --------------------------------------------------------------------------------------------

# What a process writes to beside its files: terminals and sinks, what CUDA and fast networks open, names of threads.
DEVICES = (
    "/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/ptmx", "/dev/pts",
    "/dev/nvidia-caps", "/dev/nvidia-caps-imex-channels", "/dev/infiniband", "/dev/gdrdrv", "/dev/dri", "/dev/dxg",
    "/proc/self",
)  # fmt: skip
SHARED_MEMORY = "/dev/shm"


# What is read of a machine: programs, libraries, compilers, settings, and what drivers and kernels say of themselves.
MACHINE = (
    "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/etc", "/opt", "/nix/store", "/gnu/store", "/sys", "/proc",
    "/run/opengl-driver", "/run/current-system", "/dev/fd",
)  # fmt: skip
_RUNNING = ("nvidia*", "cuda*")  # below /run
_PREFIXES = ("VIRTUAL_ENV", "CUDA_HOME", "CUDA_PATH")  # variables that name the folder of what is installed
_PROGRAMS = ("bin", "sbin")


def confine_to(
    *folders: str | Path, readable: Iterable[str] | None = None, listed: Iterable[str] = (), alone: bool = False
) -> int:
    """`confine` to these folders, shared memory and devices."""
    gpus = map(str, Path("/dev").glob("nvidia*"))
    return confine(
        [*map(str, folders), SHARED_MEMORY], [*DEVICES, *gpus], readable=readable, listed=listed, alone=alone
    )


def all_but(hidden: str) -> Iterator[str]:
    """What leads to every file of now but those below the folder `hidden`, links aside: they lead to one of these."""
    way = Path(os.path.realpath(hidden))
    for folder in way.parents:
        try:
            entries = list(os.scandir(folder))
        except OSError:
            continue
        yield from (entry.path for entry in entries if not entry.is_symlink() and not way.is_relative_to(entry.path))


def way_to(hidden: str) -> tuple[int, ...]:
    """When something was last put into a folder on the way to `hidden`, or taken from it: `all_but` is the same as long
    as this is.
    """
    return tuple(folder.stat().st_mtime_ns for folder in Path(os.path.realpath(hidden)).parents)


def installed(hidden: str, allowed: Iterable[str] = ()) -> Iterator[str]:
    """What an honest kernel reads beside its own: the machine's programs and libraries, this interpreter and what it
    imports, compilers and CUDA, and what the user allows.

    Nothing that would open the home folder at large or the state folder `hidden`.
    """
    running = [str(path) for pattern in _RUNNING for path in Path("/run").glob(pattern)]
    yield from _without(hidden, [*MACHINE, *running, *allowed])
    own = (Path(sys.executable).parent, FOLDER, *FOLDER.iterdir())
    named = [os.environ.get(name, "") for name in _PREFIXES]
    named += os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep)
    named += os.environ.get("PATH", "").split(os.pathsep)
    named += [os.environ.get(name, "").partition(" ")[0] for name in ("CC", "CXX")]
    prefixes = {sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix, *site.PREFIXES}
    home = os.path.realpath(os.path.expanduser("~"))  # noqa: PTH111  text
    shut = (os.path.realpath(hidden), home)
    for entry in {*sys.path, *map(str, own), *_edited(), *prefixes, *named}:
        if not entry or not Path(entry).is_absolute():
            continue
        real = Path(os.path.realpath(entry))
        # A compiler in PREFIX/bin has its own parts in PREFIX/lib and PREFIX/libexec. At home there are keys as well.
        around = [real.parent] if real.name in _PROGRAMS and not real.is_relative_to(home) else []
        for path in (real, *around):
            if not any(Path(folder).is_relative_to(path) for folder in shut):
                yield str(path)


def _without(hidden: str, paths: Iterable[str]) -> Iterator[str]:
    """These paths, and of one that holds the folder `hidden` all else that lies in it."""
    way = Path(os.path.realpath(hidden))
    others: list[str] | None = None
    for path in paths:
        real = Path(os.path.realpath(path))
        if not way.is_relative_to(real):
            yield path
        elif way != real:
            others = list(all_but(hidden)) if others is None else others
            yield from (other for other in others if Path(other).is_relative_to(real))


def _edited() -> Iterator[str]:
    """Where packages lie that setuptools has installed to be edited: they are on no path."""
    for name, module in list(sys.modules.items()):
        if name.startswith("__editable__") and isinstance(places := getattr(module, "MAPPING", None), dict):
            yield from (place for place in places.values() if isinstance(place, str))


# -- the superuser's rights --------------------------------------------------------------------------------------------

# include/uapi/linux/capability.h. They reach other processes, past Landlock too, or the machine; a kernel needs none.
_GIVEN_UP = {
    "dac_read_search": 2, "linux_immutable": 9, "net_admin": 12, "net_raw": 13, "ipc_owner": 15, "sys_module": 16,
    "sys_rawio": 17, "sys_chroot": 18, "sys_ptrace": 19, "sys_pacct": 20, "sys_admin": 21, "sys_boot": 22,
    "sys_nice": 23, "sys_resource": 24, "sys_time": 25, "sys_tty_config": 26, "mknod": 27, "audit_control": 30,
    "mac_override": 32, "mac_admin": 33, "syslog": 34, "wake_alarm": 35, "perfmon": 38, "bpf": 39,
    "checkpoint_restore": 40,
}  # fmt: skip
_CAPABILITIES_3 = 0x20080522


def give_up_rights() -> None:
    """Give up what this thread, and all that it starts, could do to other processes and the machine as the superuser.

    One of them reads the environment of any process, Landlock or not. Of another account there is nothing to give up.
    """
    libc = _libc()
    header = (ctypes.c_uint32 * 2)(_CAPABILITIES_3, 0)
    sets = (ctypes.c_uint32 * 6)()  # effective, permitted, inheritable; the low 32 of each, then the high
    if libc.capget(header, sets):
        return
    for number in _GIVEN_UP.values():
        libc.prctl(_PR_CAPBSET_DROP, number, 0, 0, 0)
        for kind in range(3):
            sets[number // 32 * 3 + kind] &= ~(1 << number % 32) & 0xFFFFFFFF
    libc.capset(header, sets)


# -- what holds --------------------------------------------------------------------------------------------------------


def held(version: int, *, filtered: bool) -> list[Held]:
    """What a process of one rank is held from, by the version of Landlock (0: none) and whether calls are refused."""
    restrictions = [Held.FILES, Held.READING] if version else []
    if version >= ABI_TCP or filtered:
        restrictions.append(Held.NETWORK)
    if version >= ABI_SCOPES:
        restrictions.append(Held.SIGNALS)
    return [*restrictions, Held.SCHEDULING] if filtered else restrictions


def settle(place: Place) -> tuple[int, list[Held]]:
    """Hold this process, which has no role and one thread, to what every role may reach. The version of Landlock that
    does, 0 where none does, and what it will be held from in a role of one rank.
    """
    if not place.confine:
        return 0, []
    give_up_rights()
    reached = [*all_but(place.state), place.sources, *place.readable]
    version = confine_to(*place.writable, place.layouts, readable=reached, listed=["/"])
    return version, held(version, filtered=seccomp.leave_others_alone())


def narrow(place: Place, *own: str, reads: str | None, alone: bool) -> None:
    """Hold this process to its role.

    Args:
        own: of all layouts, what it may write to.
        reads: the layout that it reads beside what is installed; None for a verifier, which reads the data sets that a
            problem names.
        alone: it is the only rank.
    """
    if not place.confine:
        return
    readable = None if reads is None else [*installed(place.state, place.readable), reads]
    confine_to(*place.writable, *own, readable=readable, alone=alone)
    if alone:
        seccomp.leave_the_network()


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """What a child process learns of its place before it imports anything else.

    Attributes:
        cwd, tmp: its working folder and its temporary one.
        writable: the folders that it may write to in every role.
        layouts: where sources are laid out. It may write to all of it until it has a role, and then to its own layout.
        sources: where they are laid out too, to be read; with a role, its own layout alone.
        state: the state folder: nothing else in it can be read.
        readable: what else may be read, by the user's word.
        confine: hold it to them where the kernel can (engine.confinement).
        environment: variables that it sets for itself.
        compiler: import torch's compiler before it is ready.
        cores: to run on, where it was started; a fork has its nursery's. Empty: all but the first that are allowed.
    """

    cwd: str
    tmp: str
    writable: list[str]
    layouts: str
    sources: str
    state: str
    readable: list[str] = []
    confine: bool
    environment: dict[str, str]
    compiler: bool = False
    cores: list[int] = []

    def encoded(self) -> str:
        """Encode the place as one word of a command line; paths that are not UTF-8 survive it."""
        return json.dumps(msgspec.to_builtins(self))

    @classmethod
    def decoded(cls, word: str) -> Place:
        """What `encoded` gave."""
        return msgspec.convert(json.loads(word), cls)
