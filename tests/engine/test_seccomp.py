"""What a process that runs a kernel is refused of others: their scheduling, their limits, their memory, the machine."""

from __future__ import annotations

import ctypes
import errno
import json
import os
import platform
import struct
import subprocess
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from aisp.engine import seccomp, start
from aisp.engine.seccomp import Call

ROOT = Path(start.FILE).parents[2]
HELD = pytest.mark.skipif(not seccomp.available(), reason="this machine refuses no calls")
OWN, OTHER = 4321, 1234


def met(machine: str, program: bytes, number: int, *arguments: int, architecture: int | None = None) -> int:
    """What a filter returns for a call: the kernel's own rules for classic BPF, as far as a filter uses them."""
    architecture = seccomp._MACHINES[machine][0] if architecture is None else architecture
    values = [*(value & (2**64 - 1) for value in arguments), *[0] * (6 - len(arguments))]
    data = struct.pack("=IIQ6Q", number, architecture, 0, *values)
    steps = list(struct.iter_unpack("=HBBI", program))
    loaded, at = 0, 0
    while True:
        code, then, otherwise, value = steps[at]
        at += 1
        if code == seccomp._LOAD:
            (loaded,) = struct.unpack_from("=I", data, value)
        elif code == seccomp._EQUAL:
            at += then if loaded == value else otherwise
        elif code == seccomp._AT_LEAST:
            at += then if loaded >= value else otherwise
        else:
            assert code == seccomp._RETURN
            return int(value)


REFUSED, PASSED = seccomp._ERRNO | errno.EPERM, seccomp._ALLOW


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_calls_that_name_another_process_are_refused_and_those_about_oneself_pass(machine: str) -> None:
    program, numbers = seccomp.against_others(machine, OWN), seccomp._MACHINES[machine][2]
    for call in seccomp.NAMES_A_PROCESS:
        found = [met(machine, program, numbers[call], whose) for whose in (0, OWN, OTHER, -1)]
        assert found == [PASSED, PASSED, REFUSED, REFUSED], call
    for call, everything in seccomp.NAMES_A_KIND.items():
        one = everything - 2
        found = [met(machine, program, numbers[call], one, whose) for whose in (0, OWN, OTHER)]
        assert found == [PASSED, PASSED, REFUSED], call
        assert met(machine, program, numbers[call], everything, 0) == REFUSED
    for call in seccomp.NEVER:
        assert met(machine, program, numbers[call]) == REFUSED, call
    named = {*seccomp.NAMES_A_PROCESS, *seccomp.NAMES_A_KIND, *seccomp.NEVER}
    assert named == set(Call) - {Call.socket}
    refused = {numbers[call] for call in named}
    assert all(met(machine, program, number) == PASSED for number in range(470) if number not in refused)


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_sockets_pass_where_they_stay_on_this_machine(machine: str) -> None:
    program, number = seccomp.against_network(machine), seccomp._MACHINES[machine][2][Call.socket]
    assert [met(machine, program, number, family) for family in (1, 16, 2, 10, 17, 40)] == [PASSED] * 2 + [REFUSED] * 4


def test_calls_by_another_abi_of_the_machine_are_refused() -> None:
    program = seccomp.against_others("x86_64", OWN)
    assert met("x86_64", program, 0x40000000 + Call.ptrace) == REFUSED
    assert met("x86_64", program, 39) == PASSED
    assert met("x86_64", program, 20, architecture=0x40000003) == REFUSED  # i386


def test_no_number_stands_twice() -> None:
    for _, _, numbers in seccomp._MACHINES.values():
        assert len(set(numbers.values())) == len(Call)


@pytest.mark.parametrize("machine", ["riscv64", "i686"])
def test_a_machine_whose_numbers_are_not_known_says_that_nothing_is_refused(
    machine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(platform, "machine", lambda: machine)
    assert not seccomp.available()
    assert not seccomp.leave_others_alone() and not seccomp.leave_the_network()


@pytest.mark.parametrize("answers", [{"asked": -1}, {"nothing": -1}, {"installed": -1}, {"installed": 77}])
def test_a_kernel_or_a_container_that_refuses_filters_says_that_nothing_is_refused(
    answers: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No such call, no right to give rights up, and a thread that could not be held."""

    class Kernel:
        @staticmethod
        def syscall(_: int, operation: int, *__: Any) -> int:
            return answers.get("asked" if operation == seccomp._GET_ACTION_AVAILABLE else "installed", 0)

        @staticmethod
        def prctl(*_: int) -> int:
            return answers.get("nothing", 0)

    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(seccomp, "_libc", lambda: Kernel)
    assert seccomp.available() is ("asked" not in answers)
    assert not seccomp.leave_others_alone() and not seccomp.leave_the_network()


def held(code: str, *words: str) -> Any:
    """What `code` prints, as JSON, in a process that is held by both filters."""
    program = """
        import ctypes, json, os, resource, socket, subprocess, sys, threading
        sys.path.insert(0, sys.argv[1])
        from aisp.engine import seccomp
        libc = ctypes.CDLL(None, use_errno=True)
        go, told = threading.Event(), []
        early = threading.Thread(target=lambda: (go.wait(), told.append(attempt(lambda: os.setpriority(0, other, 1)))))
        other = os.getppid()
        def attempt(what):
            try:
                what()
                return "ok"
            except OSError as error:
                return error.errno
        def call(name, *words):
            ctypes.set_errno(0)
            done = getattr(libc, name)(*words)
            return ctypes.get_errno() if done < 0 else "ok"
        early.start()
        assert seccomp.leave_others_alone() and seccomp.leave_the_network()
    """
    done = subprocess.run(
        [sys.executable, "-I", "-c", textwrap.dedent(program) + textwrap.dedent(code), str(ROOT), *words],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        start_new_session=True,  # as a worker has: its group is its own
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def both(found: Sequence[object]) -> bool:
    return list(found) == ["ok", "ok", errno.EPERM]


@HELD
def test_a_held_process_schedules_and_limits_itself_and_nobody_else_in_all_of_its_threads() -> None:
    cores, priority = os.sched_getaffinity(0), os.getpriority(os.PRIO_PROCESS, 0)
    told = held(
        """
        whose, cores = (0, os.getpid(), other), os.sched_getaffinity(0)
        found = {
            "cores": [attempt(lambda: os.sched_setaffinity(pid, cores)) for pid in whose],
            "policy": [
                attempt(lambda: os.sched_setscheduler(pid, os.SCHED_BATCH, os.sched_param(0))) for pid in whose
            ],
            "priority": [attempt(lambda: os.setpriority(os.PRIO_PROCESS, pid, 1)) for pid in whose],
            "limits": [attempt(lambda: resource.prlimit(pid, resource.RLIMIT_CORE, (0, 0))) for pid in whose],
            "everybody": attempt(lambda: os.setpriority(os.PRIO_USER, 0, 1)),
            "group": attempt(lambda: os.setpriority(os.PRIO_PGRP, 0, 1)),
            "nice": attempt(lambda: os.nice(1)),
        }
        inner = f"import os\\ntry:\\n os.setpriority(0, {other}, 1)\\nexcept OSError as e: print(e.errno)"
        child = [sys.executable, "-I", "-c", inner]
        found["child"] = int(subprocess.run(child, capture_output=True, text=True).stdout)
        go.set(); early.join()
        print(json.dumps(found | {"early": told[0]}))
        """
    )
    assert all(both(told[name]) for name in ("cores", "policy", "priority", "limits")), told
    assert [told[name] for name in ("everybody", "child", "early")] == [errno.EPERM] * 3
    assert told["group"] == told["nice"] == "ok"
    assert os.sched_getaffinity(0) == cores and os.getpriority(os.PRIO_PROCESS, 0) == priority


@HELD
def test_a_held_process_looks_into_no_other_and_leaves_the_machine_as_it_is() -> None:
    memory = ctypes.create_string_buffer(b"secret")
    told = held(
        """
        class Piece(ctypes.Structure):
            _fields_ = (("at", ctypes.c_void_p), ("size", ctypes.c_size_t))
        into = ctypes.create_string_buffer(6)
        ours, theirs = Piece(ctypes.addressof(into), 6), Piece(int(sys.argv[2]), 6)
        one = ctypes.c_ulong(1)
        words = (other, ctypes.byref(ours), one, ctypes.byref(theirs), one, ctypes.c_ulong(0))
        go.set()
        print(json.dumps([
            call("process_vm_readv", *words), call("process_vm_writev", *words), call("ptrace", 16, other, 0, 0),
            call("syscall", seccomp._MACHINES[seccomp._machine()][2][seccomp.Call.userfaultfd], 0),
            call("syscall", 425, 8, into), call("adjtimex", ctypes.create_string_buffer(256)), into.value.decode(),
        ]))
        """,
        str(ctypes.addressof(memory)),
    )
    assert told == [errno.EPERM] * 6 + [""]


@HELD
def test_a_held_process_has_no_socket_that_leads_to_a_network_and_ends_what_it_starts() -> None:
    told = held(
        """
        go.set()
        sleeper = subprocess.Popen([sys.executable, "-I", "-c", "import time; time.sleep(60)"])
        sleeper.kill()
        print(json.dumps([attempt(lambda: socket.socket(family)) for family in
                          (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6, socket.AF_PACKET)] + [sleeper.wait()]))
        """
    )
    assert told == ["ok"] + [errno.EPERM] * 3 + [-9]
