"""What `aisp doctor` looks at in the system: control groups, file watching, clocks, and what logout ends.

Only read: files of /proc and /sys, one question to logind, one to the kernel's clock. Sizes in bytes, spans in
nanoseconds or microseconds as their names say.
"""

from __future__ import annotations

import ctypes
import os
import re
import struct
import time
from collections.abc import Iterator
from pathlib import Path

from aisp.tui import plain
from aisp.tui.facts import COMMAND_PATIENCE_S, Check, Facts, check, run

DRIFT_SPAN_S = 0.25
# A worker holds 0.2 GiB once torch is imported and some GiB of the host's memory once a lesson has its inputs.
LEAST_MEMORY_BYTES = 4 * 2**30
POOR_MEMORY_BYTES = 2**30
# torch starts a thread for every core, in each worker, and the driver some more; threads count as processes here.
LEAST_PROCESSES = 512
POOR_PROCESSES = 64


# -- control groups ----------------------------------------------------------------------------------------------------


def cgroups(facts: Facts) -> Iterator[Check]:
    """What the control groups leave to us: memory, processes and processor time, the tightest of all levels."""
    if facts.text("proc/self/cgroup") is None:
        for name in ("memory", "processes", "cpu"):
            why = f"{plain.DASH} (/proc/self/cgroup cannot be read)"
            yield check(f"cgroup_{name}", f"cgroup {name}", why, unknown=True)
        return
    limit, used = _tightest(facts, "memory", ("memory.max", "memory.current"), _OLD_MEMORY)
    value = "no limit" if limit is None else f"{plain.size(used)} used of {plain.size(limit)}"
    fix = "start the container with --memory=8g, or the engine with: "
    fix += "systemd-run --user --scope -p MemoryMax=8G aisp engine --start"
    poor, little = (limit is not None and limit < least for least in (POOR_MEMORY_BYTES, LEAST_MEMORY_BYTES))
    yield check("cgroup_memory", "cgroup memory", value, fix, problem=poor, warning=little)
    limit, used = _tightest(facts, "pids", ("pids.max", "pids.current"), ("pids.max", "pids.current"))
    value = "no limit" if limit is None else f"{plain.count(used)} used of {plain.count(limit)} processes and threads"
    fix = "start the container with --pids-limit=4096, or: "
    fix += "systemd-run --user --scope -p TasksMax=4096 aisp engine --start"
    poor, few = (limit is not None and limit - (used or 0) < least for least in (POOR_PROCESSES, LEAST_PROCESSES))
    yield check("cgroup_processes", "cgroup processes", value, fix, problem=poor, warning=few)
    cpus, cores = _cpus(facts), len(os.sched_getaffinity(0))
    value = f"{'no quota' if cpus is None else f'a quota of {cpus:g} cores'}, {cores} cores to run on"
    fix = "a quota stops processes in the middle of a measurement: "
    fix += "give whole cores, docker --cpuset-cpus or AllowedCPUs="
    yield check("cgroup_cpu", "cgroup cpu", value, fix, warning=cpus is not None and cpus < cores)


_OLD_MEMORY = ("memory.limit_in_bytes", "memory.usage_in_bytes")


def _groups(facts: Facts, controller: str) -> tuple[bool, list[Path]]:
    """Whether the hierarchy is the unified one, and our group and those above it, relative to the root.

    A container sees its own group as the root, or names that exist only outside: what exists is taken.
    """
    base = Path("sys/fs/cgroup")
    unified = (facts.root / base / "cgroup.controllers").exists()
    inner = ""
    for line in (facts.text("proc/self/cgroup") or "").splitlines():
        _, names, path = (*line.split(":", 2), "", "")[:3]
        if (unified and not names) or (not unified and controller in names.split(",")):
            inner = path.strip("/")
    base = base if unified else base / controller
    if ".." in Path(inner).parts:
        return unified, [base]
    return unified, [base / part for part in (Path(inner), *Path(inner).parents)]


def _tightest(
    facts: Facts, controller: str, names: tuple[str, str], old_names: tuple[str, str]
) -> tuple[int | None, int | None]:
    """The limit of the level that leaves least, and what that level uses; None for no limit and for not told."""
    unified, groups = _groups(facts, controller)
    limit_name, used_name = names if unified else old_names
    found: list[tuple[int, int, int | None]] = []
    for group in groups:
        limit = facts.number(str(group / limit_name))
        # Version 1 writes "no limit" as the largest number of whole pages.
        if limit is not None and limit < 1 << 60:
            used = facts.number(str(group / used_name))
            found.append((limit - (used or 0), limit, used))
    if not found:
        return None, None
    _, limit, used = min(found, key=lambda level: level[0])
    return limit, used


def _cpus(facts: Facts) -> float | None:
    unified, groups = _groups(facts, "cpu")
    found: list[float] = []
    for group in groups:
        if unified:
            quota, _, period = (facts.text(str(group / "cpu.max")) or "").partition(" ")
        else:
            quota = facts.text(str(group / "cpu.cfs_quota_us")) or ""
            period = facts.text(str(group / "cpu.cfs_period_us")) or ""
        if quota.isdigit() and period.isdigit() and int(period):
            found.append(int(quota) / int(period))
    return min(found, default=None)


# -- watching files ----------------------------------------------------------------------------------------------------


def inotify(facts: Facts) -> Iterator[Check]:
    """Limits of the kernel's file watching; without it saves are found by looking now and then."""
    for name, least in (("max_user_watches", 8192), ("max_user_instances", 128)):
        path, noun = f"proc/sys/fs/inotify/{name}", name.removeprefix("max_user_")
        found = facts.number(path)
        few = found is not None and found < least
        fix = f"sudo sysctl fs.inotify.{name}={least * 4}; else saves may be found late, by looking"
        value = f"{plain.DASH} (/{path} cannot be read)" if found is None else f"{plain.count(found)} {noun}"
        fix = fix if few else ""
        yield check(f"inotify_{name}", f"inotify {noun}", value, fix, warning=few, unknown=found is None)


# -- clocks ------------------------------------------------------------------------------------------------------------


def clock(facts: Facts) -> Iterator[Check]:
    """Whether the wall clock and the monotonic clock run alike right now, and whether somebody keeps the wall clock."""
    wall, steady = time.time_ns(), time.monotonic_ns()
    time.sleep(DRIFT_SPAN_S)
    yield drift_check(time.time_ns() - wall, time.monotonic_ns() - steady)
    yield sync_check(_kernel_clock())


def drift_check(wall_ns: int, steady_ns: int) -> Check:
    """What two clocks say of one span. Durations come from the monotonic clock, so a jump costs labels
    only."""
    value = f"wall clock {(wall_ns - steady_ns) / 1e6:+.3f} ms in {plain.duration(steady_ns / 1e9)}"
    fix = "the wall clock is being stepped: see `timedatectl`; times are right, their dates may not be"
    return check("clock", "clocks", value, fix, warning=abs(wall_ns - steady_ns) / steady_ns > 0.01)


def sync_check(told: tuple[int, int, int] | None) -> Check:
    """What the kernel says of its wall clock: (state, speed correction in 1/65536 ppm, largest error in microseconds).

    None where it does not say. State 5 is "not synchronised".
    """
    name, title = "clock_sync", "clock kept"
    if told is None:
        return check(name, title, f"{plain.DASH} (the kernel does not say)", "see `timedatectl`", unknown=True)
    state, speed, error_us = told
    # chrony without `rtcsync` keeps the clock and does not say so: no proof that nobody does.
    nobody = state == _NOT_SYNCHRONISED
    value = f"within {plain.duration(error_us / 1e6)}, speed corrected by {speed / 65536:+.1f} ppm"
    value = "nobody told the kernel that the wall clock is kept" if nobody else value
    fix = "sudo timedatectl set-ntp true; in a container, on its host. Only dates depend on it, no measured time"
    return check(name, title, value, fix, unknown=nobody)


_NOT_SYNCHRONISED = 5


def _kernel_clock() -> tuple[int, int, int] | None:
    """adjtimex(2) with no mode set, which only reads; None where it fails, as in some sandboxes."""
    # modes, then the longs offset, freq, maxerror, ...; 256 bytes hold the whole structure on every 64-bit Linux.
    buffer = ctypes.create_string_buffer(256)
    try:
        state = ctypes.CDLL(None).adjtimex(buffer)
    except (OSError, AttributeError):
        return None
    if state < 0 or struct.calcsize("l") != 8:
        return None
    _, _, speed, error_us = struct.unpack_from("=i4xqqq", buffer)
    return state, speed, error_us


# -- logging out -------------------------------------------------------------------------------------------------------


def logind(facts: Facts) -> Iterator[Check]:
    """Whether an engine survives the end of an SSH login: logind may kill what a user leaves behind."""
    name, title = "logind", "after logout"
    user = facts.env.get("USER") or str(os.getuid())
    if not (facts.env.get("SSH_CONNECTION") or facts.env.get("SSH_TTY")):
        yield check(name, title, "not an SSH session")
    elif not (facts.root / "run/systemd/system").exists():
        yield check(name, title, "no logind on this machine: the engine stays")
    elif (facts.root / "var/lib/systemd/linger" / user).exists():
        yield check(name, title, f"{user} lingers: the engine stays")
    elif (kills := kill_user_processes(facts)) is None:
        value = "whether logind kills the engine cannot be read"
        yield check(name, title, value, "loginctl enable-linger makes sure that it stays", unknown=True)
    else:
        value = "KillUserProcesses=no: the engine stays"
        value = "logind kills the engine (KillUserProcesses=yes)" if kills else value
        fix = "loginctl enable-linger, then start it with: systemd-run --user --scope aisp engine --start"
        yield check(name, title, value, fix, warning=kills)


def kill_user_processes(facts: Facts) -> bool | None:
    """logind's setting, from itself or from its files; None where neither says."""
    service, name = "org.freedesktop.login1", "KillUserProcesses"
    if facts.root == Path("/"):
        asked = run(
            ["busctl", "get-property", service, "/org/freedesktop/login1", f"{service}.Manager", name],
            COMMAND_PATIENCE_S,
        )
        if asked in ("b true", "b false"):
            return asked == "b true"
    found: bool | None = None
    places = [facts.root / "etc/systemd/logind.conf"]
    for folder in ("usr/lib/systemd/logind.conf.d", "run/systemd/logind.conf.d", "etc/systemd/logind.conf.d"):
        places += sorted((facts.root / folder).glob("*.conf"))
    for place in places:
        text = facts.text(str(place.relative_to(facts.root))) or ""
        for value in re.findall(rf"^\s*{name}\s*=\s*(\w+)", text, re.MULTILINE):
            found = value.lower() in ("yes", "true", "on", "1")
    return found
