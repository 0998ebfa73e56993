"""What a process that runs a kernel may write to. The machine's kernel enforces it: Landlock (Linux 5.13 and newer).

A confined process, and whatever it starts, can read and execute as before. It can write, make, rename and remove files
in the folders that it was given and nowhere else. It needs no rights for that, and nobody can give it more. It can no
longer look into a process outside of the confinement through /proc or ptrace, and from Linux 6.12 on it can send it no
signal. The confinement binds the thread that asked for it and what that thread starts later, so a process asks before
it has a second thread. A further one can only narrow it.

Abstract sockets stay free: ranks of one arm find one another by them (NCCL).
"""

from __future__ import annotations

import ctypes
import json
import os
import stat
from collections.abc import Iterable
from pathlib import Path

import msgspec

# The numbers are the same on x86-64 and aarch64 (include/uapi/asm-generic/unistd.h).
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_ASK_VERSION = 1
_RULE_PATH_BENEATH = 1
_PR_SET_NO_NEW_PRIVS = 38

# include/uapi/linux/landlock.h. Rights of files, then those that only folders have.
_WRITE_FILE, _TRUNCATE = 1 << 1, 1 << 14
_REMOVE, _MAKE, _REFER = 0b11 << 4, 0b1111111 << 6, 1 << 13
_SCOPE_SIGNAL = 1 << 1

ABI_REFER, ABI_TRUNCATE, ABI_SCOPES = 2, 3, 6  # from which on the kernel knows them

SWITCH = "AISP_LANDLOCK"


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


def confine(folders: Iterable[str], files: Iterable[str] = ()) -> int:
    """Let this thread, and all that it starts from now on, write below `folders` and to `files` alone.

    What is not there is passed over.

    Args:
        folders: anything may be made, changed, renamed and removed in them.
        files: files and devices, or folders of such, that may be written and no more.

    Returns:
        The version of Landlock that holds it; 0 where this kernel has none.

    Raises:
        OSError: the kernel has it and refused.
    """
    version = abi()
    if not version:
        return 0
    libc = _libc()
    change = _WRITE_FILE | (_TRUNCATE if version >= ABI_TRUNCATE else 0)
    everything = change | _REMOVE | _MAKE | (_REFER if version >= ABI_REFER else 0)
    attributes = _RulesetAttributes(everything, 0, _SCOPE_SIGNAL if version >= ABI_SCOPES else 0)
    # A kernel of an older version takes a longer structure whose new fields are zero.
    ruleset = _checked(libc.syscall(_CREATE_RULESET, ctypes.byref(attributes), ctypes.sizeof(attributes), 0))
    try:
        for paths, access in ((folders, everything), (files, change)):
            for path in paths:
                _allow(libc, ruleset, path, access, change)
        _checked(libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
        _checked(libc.syscall(_RESTRICT_SELF, ruleset, 0))
    finally:
        os.close(ruleset)
    return version


def _allow(libc: ctypes.CDLL, ruleset: int, path: str, access: int, change: int) -> None:
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return  # nothing there that could be written to
    try:
        if not stat.S_ISDIR(os.fstat(place).st_mode):
            access &= change  # the kernel refuses rights that only a folder can have
        rule = _PathBeneath(access, place)
        _checked(libc.syscall(_ADD_RULE, ruleset, _RULE_PATH_BENEATH, ctypes.byref(rule), 0))
    finally:
        os.close(place)


def _checked(result: int) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"Landlock: {os.strerror(code)}")
    return result


# What a process writes to beside its files: terminals and sinks, what CUDA and fast networks open, names of threads.
DEVICES = (
    "/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/ptmx", "/dev/pts",
    "/dev/nvidia-caps", "/dev/nvidia-caps-imex-channels", "/dev/infiniband", "/dev/gdrdrv", "/dev/dri", "/dev/dxg",
    "/proc/self",
)  # fmt: skip
SHARED_MEMORY = "/dev/shm"


def confine_to(*folders: str | Path) -> int:
    """`confine` to these folders, shared memory and devices."""
    gpus = map(str, Path("/dev").glob("nvidia*"))
    return confine([*map(str, folders), SHARED_MEMORY], [*DEVICES, *gpus])


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """What a child process learns of its place before it imports anything else.

    Attributes:
        cwd, tmp: its working folder and its temporary one.
        writable: the folders that it may write to in every role.
        layouts: where sources are laid out. It may write to all of it until it has a role, and then to its own layout.
        confine: hold it to them where the kernel can (engine.confinement).
        environment: variables that it sets for itself.
        compiler: import torch's compiler before it is ready.
        cores: to run on, where it was started; a fork has its nursery's. Empty: all but the first that are allowed.
    """

    cwd: str
    tmp: str
    writable: list[str]
    layouts: str
    confine: bool
    environment: dict[str, str]
    compiler: bool = False
    cores: list[int] = []

    def encoded(self) -> str:
        """As one word of a command line; paths that are not UTF-8 survive it."""
        return json.dumps(msgspec.to_builtins(self))

    @classmethod
    def decoded(cls, word: str) -> Place:
        """What `encoded` gave."""
        return msgspec.convert(json.loads(word), cls)
