"""What a result depends on beside the sources.

`describe` gives what a run is remembered with: host, kernel, driver, libraries, git revision. `observe` gives what can
change during a run: clocks, limits, load, counters. It is called before the run's first process and after its last,
takes a few milliseconds and sets nothing. Names and versions only. Of the environment variables a fixed list is kept
with values; of others that matter, only the names.
"""

from __future__ import annotations

import contextlib
import contextvars
import hashlib
import os
import platform
import re
import sqlite3
import stat
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from aisp.engine.protocol import reports
from aisp.store.given import regular_bytes
from aisp.store.outcomes import Held
from aisp.store.text import clean_line

if TYPE_CHECKING:
    from aisp.engine.telemetry import Nvml, User

VARIABLE_NAMES = (
    "CUDA_VISIBLE_DEVICES", "CUDA_LAUNCH_BLOCKING", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "PYTORCH_CUDA_ALLOC_CONF",
    "PYTORCH_ALLOC_CONF", "TORCH_CUDNN_SDPA_DEPRIORITIZED", "NVIDIA_TF32_OVERRIDE", "NCCL_NVLS_ENABLE",
)  # fmt: skip

VARIABLE_PREFIXES = (
    "CUDA", "NVIDIA_", "NCCL_", "NVSHMEM_", "CUBLAS", "CUDNN_", "TORCH", "PYTORCH_", "TRITON_", "OMP_", "KMP_", "GOMP_",
    "MKL_", "OPENBLAS_", "MALLOC_", "GLIBC_TUNABLES", "LD_PRELOAD", "LD_LIBRARY_PATH", "PYTHON", "AISP_",
)  # fmt: skip
MOST_TRACKED_FILES = 5000  # of a checkout that is looked through for changes: 3 us each
PIECE_BYTES = 1 << 20
SMALL_BYTES = 4 << 20  # of a file of the kernel, or of git, that is read whole
MOST_INDEX_BYTES = 16 << 20
ROOT = Path("/")

slot_cores = contextvars.ContextVar("slot_cores", default=frozenset[int]())
"""Processor cores that the present job's processes have for themselves; none: all that are allowed."""


def processors() -> int:
    """How many the present job's processes work on."""
    return len(slot_cores.get()) or os.cpu_count() or 1


def describe(ready: reports.Ready, driver: str, folder: Path, *, ranks: int = 1, beside: str = "") -> dict[str, object]:
    """The environment of a run, as plain data for the store. Several ranks find one another over the network.

    Args:
        beside: the GPU that the machine of a lesson of the host has, which the processes themselves do not see.
    """
    return {
        "host": clean_line(platform.node()),
        "kernel": platform.release(),
        "machine": platform.machine(),
        "cpu": _cpu_name(),
        "cores": os.cpu_count() or 0,
        "worker_cores": list(ready.cores),
        "gpu": ready.gpu_name or clean_line(beside),
        "gpu_uuid": ready.gpu_uuid,
        "sm": ready.sm,
        "gpu_memory_bytes": ready.memory_bytes,
        "l2_bytes": ready.l2_bytes,
        "driver": driver,
        "landlock": ready.confined,
        "confined": [held.value for held in ready.held if ranks == 1 or held is not Held.NETWORK],
        "cuda": ready.cuda,
        "versions": dict(ready.versions),
        "sqlite": sqlite3.sqlite_version,
        "git": git_revision(folder),
        "variables": {name: clean_line(os.environ[name]) for name in VARIABLE_NAMES if name in os.environ},
    }


def _cpu_name() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        return ""
    return platform.processor()


def git_revision(folder: Path) -> str:
    """Commit id of the checkout that `folder` is in, read from .git without running git; "" outside of one.

    Whoever made the checkout chose what .git says: only names below refs/ are followed, only hashes are returned.
    """
    for place in (folder, *folder.parents):
        git = place / ".git"
        pointer = _read(git)  # a file in a work tree, "gitdir: PATH"; else a folder
        if pointer.startswith("gitdir:"):
            git = place / pointer.partition(":")[2].strip()
        head = _read(git / "HEAD")
        if not head.startswith("ref:"):
            if _is_hash(head):
                return head
            continue
        ref = head.partition(":")[2].strip()
        if not ref.startswith("refs/") or ".." in ref:
            return ""
        common = git / _read(git / "commondir")  # the main work tree has no such file
        for base in (git, common):
            if _is_hash(commit := _read(base / ref)):
                return commit
        lines = _read(common / "packed-refs").splitlines()
        packed = next((line.partition(" ")[0] for line in lines if line.partition(" ")[2] == ref), "")
        return packed if _is_hash(packed) else ""
    return ""


def _read(path: Path) -> str:
    """A small file's text, names that are no UTF-8 as the file system gives them; "" where it cannot be read."""
    try:
        return os.fsdecode(regular_bytes(path, SMALL_BYTES, follow=True)).strip()
    except (OSError, ValueError):
        return ""


def _is_hash(text: str) -> bool:
    return re.fullmatch(r"[0-9a-f]{40}|[0-9a-f]{64}", text) is not None


# -- what can change while a run lasts ---------------------------------------------------------------------------------


def observe(nvml: Nvml, gpu_index: int, *, folder: Path | None = None, root: Path = ROOT) -> dict[str, object]:
    """The machine as it is now, as plain data. What is not known is None or absent, never 0.

    Counters (`*_s`, `swapped_*`, `throttled_*`) are raw: the difference of two observations is what happened between.

    Args:
        nvml: the driver.
        gpu_index: of the GPU that is measured on, by NVML's count.
        folder: of the target; its checkout is looked at as well.
        root: where /proc and /sys are.
    """
    proc, sys = root / "proc", root / "sys"
    cores = sorted(slot_cores.get() or os.sched_getaffinity(0))
    gpu = nvml.state(gpu_index)
    users = nvml.users(gpu_index)
    ours = descendants(os.getpid(), proc=proc)
    facts: dict[str, object] = {
        "at_ns": time.monotonic_ns(),
        "wall_us": time.time_ns() // 1000,
        "gpu": gpu,
        "gpu_count": nvml.count,
        "gpu_note": nvml.note or None,
        "gpu_processes": None if users is None else [_neighbour(proc, user) for user in users if user.pid not in ours],
        # In a container the driver may count processes as the host does; then none of ours is among them.
        "gpu_pids_are_ours": None if not users else any(user.pid in ours for user in users),
        "mps": _mps(root),
        "gpu_numa_node": _node_of(gpu, sys),
        "driver_module": _driver_module(proc),
        "allowed_cores": _ranges(cores),
        "governors": _by_core(sys, cores, "scaling_governor"),
        "cpu_most_khz": _by_core(sys, cores, "scaling_max_freq"),
        "turbo": _turbo(sys),
        "smt": _truth(_read(sys / "devices/system/cpu/smt/active")),
        "numa": _numa(sys),
        "isolated_cores": _text_if_there(sys / "devices/system/cpu/isolated"),
        "clocksource": _text(sys / "devices/system/clocksource/clocksource0/current_clocksource"),
        "huge_pages": _chosen(_read(sys / "kernel/mm/transparent_hugepage/enabled")),
        "load": _load(proc),
        "pressure": {name: _pressure(proc / "pressure" / name) for name in ("cpu", "memory", "io")},
        "nice": os.getpriority(os.PRIO_PROCESS, 0),
        "policy": POLICIES.get(os.sched_getscheduler(0)),
        "virtual": _virtual(root),
        "container": _container(root),
        "limits": _limits(root),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "variables": {name: clean_line(os.environ[name]) for name in VARIABLE_NAMES if name in os.environ},
        "variable_names": sorted(clean_line(name) for name in os.environ if name.startswith(VARIABLE_PREFIXES)),
    }
    facts |= _memory(proc)
    facts |= _processor_time(proc, ours)
    if folder is not None:
        facts["git"] = git_revision(folder) or None
        facts["git_changed"] = git_changed(folder)
    return facts


POLICIES = {0: "other", 1: "fifo", 2: "round robin", 3: "batch", 5: "idle", 6: "deadline"}


# -- processes ---------------------------------------------------------------------------------------------------------


def descendants(pid: int, *, proc: Path = Path("/proc")) -> set[int]:
    """This process and all below it."""
    pids, ahead = {pid}, [pid]
    while ahead:
        tasks = proc / str(ahead.pop()) / "task"
        with contextlib.suppress(OSError):
            for task in tasks.iterdir():
                for child in _read(task / "children").split():
                    if int(child) not in pids:
                        pids.add(int(child))
                        ahead.append(int(child))
    return pids


def _neighbour(proc: Path, user: User) -> dict[str, object]:
    """A process on the GPU that is not known to be ours.

    `here` is False where no such pid runs here. It may be ours after all, under the number that a container's host
    gives it.
    """
    return {
        "pid": user.pid,
        "here": (proc / str(user.pid)).exists(),
        "memory_bytes": user.memory_bytes,
        "sm_share_pct": user.sm_share_pct,
        "busy_at_us": user.busy_at_us,
    }


@dataclass(frozen=True, slots=True)
class ProcessorTime:
    """Seconds of all processors together since the start of the machine, to a tick of 10 ms."""

    busy_s: float
    stolen_s: float


def processor_time(proc: Path = Path("/proc")) -> ProcessorTime | None:
    """Up to now, of the cores that the present job's processes have; None where the kernel does not tell."""
    stat = _read(proc / "stat")
    times = [_times(stat, f"cpu{core}") for core in slot_cores.get()] or [_times(stat, "cpu")]
    if not all(times):
        return None
    return ProcessorTime(sum(each["busy_s"] for each in times), sum(each["steal_s"] for each in times))


def pressure_s(proc: Path = Path("/proc")) -> float | None:
    """Seconds since the start in which anything stood in line for a processor; None where the kernel does not tell."""
    pressure = _pressure(proc / "pressure" / "cpu")
    return pressure["total_s"] if pressure else None


def _processor_time(proc: Path, ours: set[int]) -> dict[str, float | None]:
    """Seconds of all cores together since the start of the machine, and of ours, living and reaped."""
    tick_s = 1.0 / os.sysconf("SC_CLK_TCK")
    times = _times(_read(proc / "stat"), "cpu")
    if not times:
        return {"busy_s": None, "idle_s": None, "steal_s": None, "own_s": None}
    own = 0
    for pid in ours:
        fields = _read(proc / str(pid) / "stat").rpartition(")")[2].split()
        # Its own time; for us the time of the children too that were waited for.
        wanted = fields[11:15] if pid == os.getpid() else fields[11:13]
        own += sum(int(field) for field in wanted)
    return {**times, "own_s": own * tick_s if own else None}


def _times(stat: str, name: str) -> dict[str, float]:
    """What /proc/stat says of one processor ("cpu3"), or of all ("cpu"), in seconds; empty where it says nothing."""
    tick_s = 1.0 / os.sysconf("SC_CLK_TCK")
    total = next((line.split()[1:] for line in stat.splitlines() if line.startswith(f"{name} ")), [])
    if len(total) < 8 or not all(field.isdigit() for field in total):
        return {}
    user, nice, system, idle, waiting, hard, soft, steal = (int(field) * tick_s for field in total[:8])
    return {"busy_s": user + nice + system + hard + soft, "idle_s": idle + waiting, "steal_s": steal}


# -- memory and limits -------------------------------------------------------------------------------------------------


def _memory(proc: Path) -> dict[str, object]:
    sizes: dict[str, int] = {}
    for line in _read(proc / "meminfo").splitlines():
        name, _, rest = line.partition(":")
        amount = rest.split()
        if amount and amount[0].isdigit():
            sizes[name] = int(amount[0]) * 1024
    counts = dict(line.split()[:2] for line in _read(proc / "vmstat").splitlines() if line.count(" ") == 1)
    swap = sizes["SwapTotal"] - sizes["SwapFree"] if {"SwapTotal", "SwapFree"} <= sizes.keys() else None
    return {
        "memory_total_bytes": sizes.get("MemTotal"),
        "memory_available_bytes": sizes.get("MemAvailable"),
        "memory_promised_bytes": sizes.get("Committed_AS"),
        "swap_bytes": sizes.get("SwapTotal"),
        "swap_used_bytes": swap,
        "swapped_in_pages": _whole(counts.get("pswpin", "")),
        "swapped_out_pages": _whole(counts.get("pswpout", "")),
        "oom_kills": _whole(counts.get("oom_kill", "")),
        "overcommit": OVERCOMMIT.get(_read(proc / "sys/vm/overcommit_memory")),
    }


def available_bytes(proc: Path = Path("/proc")) -> int | None:
    """Memory that a new process can have without anything being swapped; None where the kernel does not tell."""
    free_bytes = _memory(proc)["memory_available_bytes"]
    return free_bytes if isinstance(free_bytes, int) else None


OVERCOMMIT = {"0": "heuristic", "1": "always", "2": "never"}


def _limits(root: Path) -> dict[str, object]:
    """What the control groups allow, the tightest of all levels, and how often they stepped in. Versions 1 and 2.

    A container sees its own group as the root, or names from outside that do not exist here: what exists is read.
    """
    unified, by_name = _groups(root)
    base = root / "sys/fs/cgroup"
    limits: dict[str, object] = {
        "cpus": None,
        "memory_bytes": None,
        "cores": None,
        "periods": None,
        "throttled_periods": None,
        "throttled_s": None,
    }
    if (base / "cgroup.controllers").exists():
        for level in _levels(base, unified):
            quota, _, period = _read(level / "cpu.max").partition(" ")
            _tighten(limits, level, quota, period, "throttled_usec", 1e-6)
            _least(limits, "memory_bytes", _whole(_read(level / "memory.max")))
            limits["cores"] = limits["cores"] or _text(level / "cpuset.cpus.effective")
        return limits
    for level in _levels(base / "cpu", by_name.get("cpu", "")):
        quota, period = _read(level / "cpu.cfs_quota_us"), _read(level / "cpu.cfs_period_us")
        _tighten(limits, level, quota, period, "throttled_time", 1e-9)
    for level in _levels(base / "memory", by_name.get("memory", "")):
        bytes_ = _whole(_read(level / "memory.limit_in_bytes"))
        _least(limits, "memory_bytes", bytes_ if bytes_ is not None and bytes_ < 1 << 60 else None)  # "none" is huge
    for level in _levels(base / "cpuset", by_name.get("cpuset", "")):
        limits["cores"] = limits["cores"] or _text(level / "cpuset.effective_cpus") or _text(level / "cpuset.cpus")
    return limits


def memory_bytes(root: Path = Path("/")) -> int | None:
    """Bytes that this process and all that it starts may fill: the machine's memory, or what a control group leaves of
    it.
    """
    bounds = (_memory(root / "proc")["memory_total_bytes"], _limits(root)["memory_bytes"])
    return min((value for value in bounds if isinstance(value, int)), default=None)


def oom_kills(root: Path = Path("/")) -> int:
    """Processes of our control group that the kernel killed for memory; of the machine where no group counts them."""
    unified, by_name = _groups(root)
    base = root / "sys/fs/cgroup"
    files = [level / "memory.events" for level in _levels(base, unified)]
    files += [level / "memory.oom_control" for level in _levels(base / "memory", by_name.get("memory", ""))]
    for file in (*files, root / "proc/vmstat"):
        for line in _read(file).splitlines():
            name, _, count = line.partition(" ")
            if name == "oom_kill" and count.isdigit():
                return int(count)
    return 0


def _groups(root: Path) -> tuple[str, dict[str, str]]:
    """This process' control group of version 2, and those of version 1 by controller."""
    unified = ""
    by_name: dict[str, str] = {}
    for line in _read(root / "proc/self/cgroup").splitlines():
        _, names, path = (*line.split(":", 2), "", "")[:3]
        if names:
            by_name |= dict.fromkeys(names.split(","), path)
        else:
            unified = path
    return unified, by_name


def _levels(base: Path, path: str) -> list[Path]:
    """The group and all above it, as far as they exist here; the mount itself last."""
    below = Path(path.strip("/"))
    if ".." in below.parts:
        return [base]
    inner = [base / part for part in (below, *below.parents) if part != Path()]
    return [level for level in inner if level.is_dir()] + [base]


def _tighten(limits: dict[str, object], level: Path, quota: str, period: str, counter: str, unit_s: float) -> None:
    """Keep this level's limit and its counters where it is the tightest so far."""
    if not (quota.isdigit() and period.isdigit() and int(period)):
        return
    cpus = int(quota) / int(period)
    best = limits["cpus"]
    if isinstance(best, float) and best <= cpus:
        return
    counts = dict(line.split()[:2] for line in _read(level / "cpu.stat").splitlines() if line.count(" ") == 1)
    spent = _whole(counts.get(counter, ""))
    limits["cpus"] = cpus
    limits["periods"] = _whole(counts.get("nr_periods", ""))
    limits["throttled_periods"] = _whole(counts.get("nr_throttled", ""))
    limits["throttled_s"] = None if spent is None else spent * unit_s


def _least(limits: dict[str, object], name: str, value: int | None) -> None:
    before = limits[name]
    if value is not None and (not isinstance(before, int) or value < before):
        limits[name] = value


# -- processor ---------------------------------------------------------------------------------------------------------


def _by_core(sys: Path, cores: list[int], name: str) -> dict[str, str] | None:
    """A setting of the frequency driver as {value: cores}; None where there is no such driver, as in most guests."""
    values: dict[str, list[int]] = {}
    for core in cores:
        value = _read(sys / f"devices/system/cpu/cpu{core}/cpufreq/{name}")
        if value:
            values.setdefault(clean_line(value), []).append(core)
    return {value: _ranges(which) for value, which in sorted(values.items())} or None


def _turbo(sys: Path) -> bool | None:
    off = _truth(_read(sys / "devices/system/cpu/intel_pstate/no_turbo"))
    return not off if off is not None else _truth(_read(sys / "devices/system/cpu/cpufreq/boost"))


def _numa(sys: Path) -> dict[str, str] | None:
    """{node: its cores}."""
    nodes: dict[str, str] = {}
    with contextlib.suppress(OSError):
        for folder in sorted((sys / "devices/system/node").iterdir()):
            if re.fullmatch(r"node\d+", folder.name):
                nodes[folder.name.removeprefix("node")] = _read(folder / "cpulist")
    return nodes or None


def node_of_cores(root: Path = ROOT) -> dict[int, int]:
    """By number of a processor core: its memory node, where the kernel tells."""
    return {core: int(node) for node, cores in (_numa(root / "sys") or {}).items() for core in _listed(cores)}


def hardware_threads(core: int, root: Path = ROOT) -> frozenset[int]:
    """The numbers of the hardware threads of one physical core, this one among them."""
    file = root / f"sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list"
    return frozenset(_listed(_read(file))) | {core}


def node_of_gpu(nvml: Nvml, index: int, root: Path = ROOT) -> int | None:
    """The memory node next to a GPU, by NVML's index; None where it is not known."""
    return _node_of(nvml.state(index), root / "sys")


def _node_of(gpu: Mapping[str, object], sys: Path) -> int | None:
    return _whole(_read(sys / "bus/pci/devices" / _pci(gpu.get("pci")) / "numa_node"), least=0)


def _listed(ranges: str) -> Iterator[int]:
    """The numbers of "0-2,5"."""
    for part in ranges.split(","):
        first, _, last = part.strip().partition("-")
        if first.isdigit() and (not last or last.isdigit()):
            yield from range(int(first), int(last or first) + 1)


def _load(proc: Path) -> list[float] | None:
    fields = _read(proc / "loadavg").split()[:3]
    try:
        return [float(field) for field in fields] or None
    except ValueError:
        return None


def _pressure(path: Path) -> dict[str, float] | None:
    """Share of the last ten seconds in which some task waited, in per cent, and the time waited in all, in s."""
    match = re.search(r"^some avg10=([\d.]+) .*total=(\d+)", _read(path), re.MULTILINE)
    return {"some_avg10_pct": float(match[1]), "total_s": int(match[2]) / 1e6} if match else None


# -- kind of machine ---------------------------------------------------------------------------------------------------


def _virtual(root: Path) -> dict[str, object]:
    """Whether a hypervisor says that it is there, and who made the machine by its own words."""
    flags: bool | None = None
    with contextlib.suppress(OSError), (root / "proc/cpuinfo").open("rb") as file:
        head = file.read(8192).decode(errors="replace")  # the first core: all of them take long to write
        line = next((text for text in head.splitlines() if text.startswith(("flags", "Features"))), "")
        if line.startswith("flags"):  # x86; other processors do not tell
            flags = "hypervisor" in line.split()
    dmi = root / "sys/class/dmi/id"
    return {
        "hypervisor": flags,
        "vendor": _text(dmi / "sys_vendor"),
        "product": _text(dmi / "product_name"),
        "type": _text(root / "sys/hypervisor/type"),
    }


def _container(root: Path) -> str | None:
    """By what sign this is a container; None where there is no sign."""
    for name in (".dockerenv", "run/.containerenv"):
        if (root / name).exists():
            return "/" + name
    first = _read(root / "proc/1/cgroup")
    word = re.search(r"docker|kubepods|containerd|lxc|podman", first)
    return f"{word[0]} in /proc/1/cgroup" if word else None


def _mps(root: Path) -> str | None:
    """The pipe folder of NVIDIA's multi-process service, where there is one."""
    named = os.environ.get("CUDA_MPS_PIPE_DIRECTORY")
    folder = root / (named or "/tmp/nvidia-mps").lstrip("/")
    return clean_line(str(folder)) if (folder / "control").exists() else None


def _driver_module(proc: Path) -> str | None:
    """Version of the NVIDIA kernel module that is loaded."""
    match = re.search(r"\b(\d{3,}\.\d+(?:\.\d+)?)\b", _read(proc / "driver/nvidia/version").partition("\n")[0])
    return match[1] if match else None


def _pci(address: object) -> str:
    """NVML writes the domain with eight digits, the kernel with four."""
    text = address if isinstance(address, str) else ""
    return text[4:] if re.fullmatch(r"0000[0-9a-f]{4}:.*", text) else (text or "none")


# -- the checkout ------------------------------------------------------------------------------------------------------


def git_changed(folder: Path) -> bool | None:
    """Whether tracked files of the checkout differ from what git has noted of them; None where that is unknown.

    Read from .git/index without running git: size and time of each file, and its hash where these differ. Files that
    git does not know do not count. Changes that are staged but not committed make the answer None.
    """
    for place in (folder, *folder.parents):
        git = place / ".git"
        pointer = _read(git)
        if pointer.startswith("gitdir:"):
            git = place / pointer.partition(":")[2].strip()
        if not (git / "HEAD").exists():
            continue
        try:
            index = regular_bytes(git / "index", MOST_INDEX_BYTES, follow=True)
            entries, rest = _index_entries(index)
        except (OSError, ValueError, IndexError):
            return None
        if any(_differs(place / os.fsdecode(name), size, mtime_ns, blob) for name, size, mtime_ns, blob in entries):
            return True
        return False if _tree_is_whole(rest) else None
    return None


def _index_entries(index: bytes) -> tuple[list[tuple[bytes, int, int, bytes]], bytes]:
    """(name, size, time, SHA-1) of every file that version 2 or 3 of git's index lists, and the extensions behind.

    The layout is that of git's Documentation/gitformat-index. Raises ValueError for what it does not know.
    """
    version, count = int.from_bytes(index[4:8], "big"), int.from_bytes(index[8:12], "big")
    if index[:4] != b"DIRC" or version not in (2, 3) or count > MOST_TRACKED_FILES:
        raise ValueError("not an index that is read here")
    entries: list[tuple[bytes, int, int, bytes]] = []
    at = 12
    for _ in range(count):
        head = index[at : at + 62]
        if len(head) < 62:
            raise ValueError("cut short")
        flags = int.from_bytes(head[60:62], "big")
        start = at + (64 if flags & 0x4000 else 62)
        end = index.index(b"\0", start)
        mode = int.from_bytes(head[24:28], "big")
        mtime_ns = int.from_bytes(head[8:12], "big") * 10**9 + int.from_bytes(head[12:16], "big")
        if flags & 0x3000:
            raise ValueError("a merge is not over")
        if mode >> 12 == 0o10:  # plain files; links and submodules are left out
            entries.append((index[start:end], int.from_bytes(head[36:40], "big"), mtime_ns, head[40:60]))
        at += (end - at + 8) & ~7  # 1 to 8 NULs end an entry at a multiple of eight bytes from its start
    return entries, index[at:]


def _differs(path: Path, size: int, mtime_ns: int, blob: bytes) -> bool:
    try:
        status = path.lstat()
        if status.st_size != size:
            return True
        if status.st_mtime_ns == mtime_ns:
            return False
        digest = hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False)
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as content:  # noqa: PTH123
            if not stat.S_ISREG(os.fstat(content.fileno()).st_mode):
                return True
            while part := content.read(PIECE_BYTES):  # a checkout may hold weights
                digest.update(part)
    except OSError:
        return True
    return digest.digest() != blob


def _tree_is_whole(extensions: bytes) -> bool:
    """Whether the index says that it was written out as a tree since it last changed: nothing is staged."""
    if extensions[:4] != b"TREE":
        return False
    return not extensions[8:].partition(b"\0")[2].startswith(b"-")


# -- small readings ----------------------------------------------------------------------------------------------------


def _text(path: Path) -> str | None:
    return clean_line(_read(path)) or None


def _text_if_there(path: Path) -> str | None:
    return clean_line(_read(path)) if path.exists() else None


def _whole(text: str, *, least: int | None = None) -> int | None:
    if re.fullmatch(r"-?\d+", text) is None:
        return None
    value = int(text)
    return None if least is not None and value < least else value


def _truth(text: str) -> bool | None:
    return {"0": False, "1": True}.get(text)


def _chosen(text: str) -> str | None:
    """The word in brackets of "always [madvise] never"."""
    match = re.search(r"\[(\w+)\]", text)
    return match[1] if match else None


def _ranges(cores: list[int]) -> str:
    """0, 1, 2, 5 as "0-2,5"."""
    parts: list[str] = []
    start = last = None
    for core in [*cores, None]:
        if last is not None and core == last + 1:
            last = core
            continue
        if start is not None:
            parts.append(f"{start}-{last}" if last != start else f"{start}")
        start = last = core
    return ",".join(parts)
