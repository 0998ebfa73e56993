"""Which system calls a process that runs a kernel may not make. Linux enforces it: seccomp, no rights needed.

The account owns the engine, the verifier and the other workers, so without this a kernel could move them to other
cores, change their priority and their limits, bend the machine's clock where it runs as root, or look into their memory
where Landlock is missing. A refused call fails with EPERM, as it would for another account. The filter holds every
thread of the process and all that it starts, for good.

A filter sees numbers and cannot look a pid up. So calls that name a process may name the caller (0) or the process that
asked for the filter, and nothing else: a library that binds a thread of its own by the thread's id is refused, one that
has each thread bind itself is not. Signals are not filtered: a kernel ends the programs that it starts, and Landlock
holds it from all others.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
from collections.abc import Sequence
from enum import IntEnum

# include/uapi/linux/seccomp.h, filter.h, audit.h, prctl.h
_SET_MODE_FILTER, _GET_ACTION_AVAILABLE = 1, 2
_TSYNC, _SPEC_ALLOW = 1 << 0, 1 << 2  # all threads; and no slower memory for it on kernels before 5.16
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_PR_SET_NO_NEW_PRIVS = 38
_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_NUMBER_AT, _ARCHITECTURE_AT, _ARGUMENTS_AT = 0, 4, 16  # struct seccomp_data
_X32 = 0x40000000  # from which on a number is one of x32's, on x86-64
_MOST_BYTES_OF_A_NUMBER = 0xFFFFFFFF


class Call(IntEnum):
    """System calls, by their number on x86-64."""

    socket = 41
    ptrace = 101
    setpriority = 141
    sched_setparam = 142
    sched_setscheduler = 144
    adjtimex = 159
    settimeofday = 164
    swapon = 167
    swapoff = 168
    reboot = 169
    init_module = 175
    delete_module = 176
    sched_setaffinity = 203
    clock_settime = 227
    kexec_load = 246
    add_key = 248
    request_key = 249
    keyctl = 250
    ioprio_set = 251
    migrate_pages = 256
    move_pages = 279
    prlimit64 = 302
    open_by_handle_at = 304
    clock_adjtime = 305
    process_vm_readv = 310
    process_vm_writev = 311
    kcmp = 312
    finit_module = 313
    sched_setattr = 314
    kexec_file_load = 320
    bpf = 321
    userfaultfd = 323
    io_uring_setup = 425
    pidfd_getfd = 438
    process_madvise = 440
    process_mrelease = 448


_ON_AARCH64 = {
    Call.socket: 198, Call.ptrace: 117, Call.setpriority: 140, Call.sched_setparam: 118,
    Call.sched_setscheduler: 119, Call.adjtimex: 171, Call.settimeofday: 170, Call.swapon: 224, Call.swapoff: 225,
    Call.reboot: 142, Call.init_module: 105, Call.delete_module: 106, Call.sched_setaffinity: 122,
    Call.clock_settime: 112, Call.kexec_load: 104, Call.add_key: 217, Call.request_key: 218, Call.keyctl: 219,
    Call.ioprio_set: 30, Call.migrate_pages: 238, Call.move_pages: 239, Call.prlimit64: 261,
    Call.open_by_handle_at: 265, Call.clock_adjtime: 266, Call.process_vm_readv: 270, Call.process_vm_writev: 271,
    Call.kcmp: 272, Call.finit_module: 273, Call.sched_setattr: 274, Call.kexec_file_load: 294, Call.bpf: 280,
    Call.userfaultfd: 282,
}  # fmt: skip

# AUDIT_ARCH of each machine, the number of `seccomp` itself, and of every other call. From 424 on all machines agree.
_MACHINES = {
    "x86_64": (0xC000003E, 317, {call: int(call) for call in Call}),
    "aarch64": (0xC00000B7, 277, {call: _ON_AARCH64.get(call, int(call)) for call in Call}),
}

# First argument: whose. The caller (0) and the process itself are all that may be named.
NAMES_A_PROCESS = (
    Call.sched_setparam, Call.sched_setscheduler, Call.sched_setattr, Call.sched_setaffinity, Call.prlimit64,
    Call.migrate_pages, Call.move_pages,
)  # fmt: skip
# First argument: a process, a group or, by this value, everything of the account. Second: whose.
NAMES_A_KIND = {Call.setpriority: 2, Call.ioprio_set: 3}
# io_uring would make calls that no filter sees; the clock is every process's.
NEVER = (
    Call.ptrace, Call.process_vm_readv, Call.process_vm_writev, Call.process_madvise, Call.process_mrelease,
    Call.pidfd_getfd, Call.kcmp, Call.userfaultfd, Call.io_uring_setup, Call.open_by_handle_at, Call.bpf,
    Call.add_key, Call.request_key, Call.keyctl, Call.adjtimex, Call.settimeofday, Call.clock_settime,
    Call.clock_adjtime, Call.kexec_load, Call.kexec_file_load, Call.init_module, Call.finit_module,
    Call.delete_module, Call.reboot, Call.swapon, Call.swapoff,
)  # fmt: skip
LOCAL_SOCKETS = (1, 16)  # AF_UNIX, AF_NETLINK: programs ask the kernel for its interfaces by the latter


def _word(code: int, value: int, then: int = 0, otherwise: int = 0) -> bytes:
    """One instruction. `then`, `otherwise`: how many to jump over."""
    return struct.pack("=HBBI", code, then, otherwise, value)


_PASS, _REFUSE = _word(_RETURN, _ALLOW), _word(_RETURN, _ERRNO | errno.EPERM)


def _argument(index: int) -> bytes:
    """Load the low half of an argument: these calls take pids and kinds, 32 bits that the kernel cuts them to."""
    return _word(_LOAD, _ARGUMENTS_AT + 8 * index)


def _one_of(values: Sequence[int]) -> list[bytes]:
    """Pass where what is loaded is one of these, else refuse."""
    steps = [_word(_EQUAL, value, len(values) - at) for at, value in enumerate(values)]
    return [*steps, _REFUSE, _PASS]


def _program(machine: str, sections: Sequence[tuple[Call, Sequence[bytes]]]) -> bytes:
    """A filter: what each of these calls is met with; all others pass, and calls of another machine's ABI do not."""
    architecture, _, numbers = _MACHINES[machine]
    steps = [_word(_LOAD, _ARCHITECTURE_AT), _word(_EQUAL, architecture, 1), _REFUSE, _word(_LOAD, _NUMBER_AT)]
    if machine == "x86_64":
        steps += [_word(_AT_LEAST, _X32, 0, 1), _REFUSE]
    for call, body in sections:
        steps += [_word(_EQUAL, numbers[call], 0, len(body)), *body]
    return b"".join([*steps, _PASS])


def against_others(machine: str, own: int) -> bytes:
    """The filter that refuses to schedule, limit or look into other processes than `own`, and what changes the
    machine.
    """
    sections: list[tuple[Call, Sequence[bytes]]] = [(call, [_REFUSE]) for call in NEVER]
    whose = [0, own & _MOST_BYTES_OF_A_NUMBER]
    sections += [(call, [_argument(0), *_one_of(whose)]) for call in NAMES_A_PROCESS]
    sections += [
        (call, [_argument(0), _word(_EQUAL, everything, 0, 1), _REFUSE, _argument(1), *_one_of(whose)])
        for call, everything in NAMES_A_KIND.items()
    ]
    return _program(machine, sections)


def against_network(machine: str) -> bytes:
    """The filter that refuses every socket but those of this machine's own programs."""
    return _program(machine, [(Call.socket, [_argument(0), *_one_of(LOCAL_SOCKETS)])])


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("steps", ctypes.c_char_p))


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _machine() -> str:
    """This process's kind of machine; "" for one whose numbers are not in here, and for a 32-bit program."""
    name = platform.machine()
    return name if name in _MACHINES and struct.calcsize("P") == 8 else ""


def available() -> bool:
    """Whether this machine and its kernel can refuse calls so; some containers forbid to ask for it."""
    if not (machine := _machine()):
        return False
    action = ctypes.c_uint32(_ERRNO)
    status: int = _libc().syscall(_MACHINES[machine][1], _GET_ACTION_AVAILABLE, 0, ctypes.byref(action))
    return status == 0


def _install(machine: str, program: bytes) -> bool:
    """Have all threads of this process, and whatever they start, held by a filter. Whether they are."""
    libc = _libc()
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        return False
    words = _Program(len(program) // len(_PASS), program)
    number = _MACHINES[machine][1]
    flags = _TSYNC | _SPEC_ALLOW
    return bool(libc.syscall(number, _SET_MODE_FILTER, flags, ctypes.byref(words)) == 0)


def leave_others_alone() -> bool:
    """Refuse this process what `against_others` says, from now on. Whether it is refused."""
    return available() and _install(_machine(), against_others(_machine(), os.getpid()))


def leave_the_network() -> bool:
    """Refuse this process every socket that leads out of it to a network, this machine's own included."""
    return available() and _install(_machine(), against_network(_machine()))
