"""What `aisp doctor` looks at: one small function per thing, each returning values and changing nothing.

A function gets `Facts` (the environment's names, where the file system begins), so that a test can show it
another machine. torch and triton are looked up by their package metadata; whether CUDA works is asked of a
process of its own, because importing torch here would cost seconds and a CUDA context. What the system limits
is in `limits`.

`CHECKS` is the list. What cannot be found out is `UNKNOWN` with the reason, never a guess.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import locale
import os
import platform
import re
import shutil
import sqlite3
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from aisp.engine import confinement, filesystem, lock, paths, seccomp
from aisp.store.outcomes import Held
from aisp.store.text import whole
from aisp.tui import plain
from aisp.tui.cli import common, imports, limits
from aisp.tui.facts import COMMAND_PATIENCE_S, Check, Facts, check, tmux_check, tmux_clipboard
from aisp.tui.facts import run as _run

TORCH_PATIENCE_S = 90.0
OWN_FOLDER = "set AISP_STATE to a folder of your own"


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _numbers(version: str) -> tuple[int, ...]:
    """The leading numbers of a version: "2.11.0+cu130" -> (2, 11, 0)."""
    found = re.match(r"\d+(\.\d+)*", version)
    return tuple(int(part) for part in found.group().split(".")) if found else ()


def _importable(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):
        return False


# -- Python and packages -----------------------------------------------------------------------------------------------


def python(facts: Facts) -> Iterator[Check]:
    """The interpreter's version."""
    value = f"{platform.python_version()} ({sys.executable})"
    yield check("python", "Python", value, "aisp needs Python 3.11 or newer", problem=sys.version_info < (3, 11))


_ASK_TORCH = """
import json
told = {}
try:
    import torch
    there = torch.cuda.is_available()
    told = {"cuda": torch.version.cuda, "available": there, "devices": torch.cuda.device_count() if there else 0}
    told["sum"] = float(torch.ones(4, device="cuda").sum()) if there else None
except Exception as error:
    told["error"] = f"{type(error).__name__}: {error}"
print(json.dumps(told))
"""
_ASK_NUMPY = """
import json
try:
    import numpy
except Exception as error:
    print(json.dumps({"error": f"{type(error).__name__}: {error}"}))
"""


def torch(facts: Facts) -> Iterator[Check]:
    """torch by its metadata, and whether it can be imported, and CUDA through it, by a process of its own."""
    version = _version("torch")
    if version is None:
        yield check("torch", "torch", "not installed", "make env, or pip install torch", problem=True)
        return
    told = answer(_run([sys.executable, "-I", "-c", _ASK_TORCH], TORCH_PATIENCE_S))
    yield torch_check(version, told)
    if told is None or "cuda" in told:
        yield cuda_check(told, gpu_expected=bool(_gpu_files(facts)))


def answer(text: str | None) -> dict[str, Any] | None:
    """What the process that asked torch printed; None where it came to no end."""
    try:
        told = json.loads((text or "").splitlines()[-1]) if text else None
    except ValueError:
        return None
    return told if isinstance(told, dict) else None


def torch_check(version: str, told: Mapping[str, Any] | None) -> Check:
    """Whether the torch that is installed can be imported; `told` is None where the process that tried did not say."""
    if told is not None and "error" in told and "cuda" not in told:
        value = f"{version} is installed and cannot be imported: {told['error']}"
        return check("torch", "torch", value, "make env installs it anew, with what it needs", problem=True)
    fix = "aisp is tested with torch 2.11 and newer; upgrade it"
    return check("torch", "torch", version, fix, warning=_numbers(version) < (2, 11))


def cuda_check(told: Mapping[str, Any] | None, *, gpu_expected: bool) -> Check:
    """What the process that asked torch for CUDA means; None where it came to no end."""
    name, title = "cuda", "CUDA through torch"
    if told is None or "error" in told:
        value = f"importing torch or a first sum on the GPU failed, or took longer than {TORCH_PATIENCE_S:.0f} s"
        value = f"a first sum on the GPU failed: {told['error']}" if told else value
        why = f"{sys.executable} -c 'import torch; print(torch.ones(4, device=\"cuda\").sum())'"
        return check(name, title, value, f"see why: {why}", problem=True)
    if told.get("available"):
        return check(name, title, f"CUDA {told.get('cuda')}, {told.get('devices')} device(s) usable")
    value, fix = (
        "this torch is built for the CPU",
        "install a torch with CUDA (>= 2.11) and use `make run TORCH=system`",
    )
    if told.get("cuda"):
        value = f"torch has CUDA {told['cuda']}, and finds no usable GPU"
        fix = "the NVML check below says what the driver says"
    return check(name, title, value, fix if gpu_expected else "", problem=gpu_expected, warning=True)


def triton(facts: Facts) -> Iterator[Check]:
    """Triton, and the numpy that its interpreter can live with."""
    version, numpy = _version("triton"), _version("numpy")
    fix = "pip install triton, for the Triton rungs"
    yield check("triton", "Triton", version or "not installed", fix, warning=version is None)
    failed = answer(_run([sys.executable, "-I", "-c", _ASK_NUMPY], COMMAND_PATIENCE_S))
    if numpy is None:
        yield check("numpy", "numpy", "not installed", "make env", problem=True)
    elif failed:
        value = f"{numpy} is installed and cannot be imported: {failed['error']}"
        yield check("numpy", "numpy", value, "make env installs it anew", problem=True)
    else:
        bad = version is not None and not _gpu_files(facts) and _numbers(numpy) >= (2, 4)
        value = f"{numpy}, with which Triton's interpreter breaks loops that have a run-time bound" if bad else numpy
        fix = 'without a GPU Triton kernels run in its interpreter: pip install "numpy<2.4"'
        yield check("numpy", "numpy", value, fix, warning=bad)


def compilers(facts: Facts) -> Iterator[Check]:
    """NVRTC and cuda.core for .cu files; nvcc is not needed and shown where it is."""
    missing = [name for name in ("cuda.bindings", "cuda.core") if not _importable(name)]
    packages = ("nvidia-cuda-nvrtc", "nvidia-cuda-nvrtc-cu13", "nvidia-cuda-nvrtc-cu12")
    nvrtc = next((found for package in packages if (found := _version(package))), None)
    library = f"library {nvrtc}" if nvrtc else "library of the CUDA installation"
    value = f"cuda-bindings {_version('cuda-bindings') or plain.DASH}, {library}"
    value = f"{' and '.join(missing)} cannot be imported" if missing else value
    yield check("nvrtc", "NVRTC", value, 'CUDA rungs need them: pip install "aisp[cuda]"', warning=bool(missing))
    home = facts.env.get("CUDA_HOME") or facts.env.get("CUDA_PATH")
    nvcc = shutil.which("nvcc", path=facts.env.get("PATH")) or (home and shutil.which("nvcc", path=f"{home}/bin"))
    yield check("nvcc", "nvcc", nvcc or "not found, and not needed")


# -- the GPU -----------------------------------------------------------------------------------------------------------


def _gpu_files(facts: Facts) -> list[Path]:
    """Signs of an NVIDIA GPU that need no driver: device nodes, and PCI devices of the vendor."""
    nodes = list((facts.root / "dev").glob("nvidia[0-9]*"))
    for vendor in (facts.root / "sys/bus/pci/devices").glob("*/vendor"):
        kind = facts.text(str(vendor.with_name("class").relative_to(facts.root)))
        # 0x0300.. is a VGA controller, 0x0302.. a 3D controller: how GPUs call themselves.
        if facts.text(str(vendor.relative_to(facts.root))) == "0x10de" and kind and kind.startswith("0x03"):
            nodes.append(vendor.parent)
    return nodes


_NVML_FIXES = {
    12: "install the NVIDIA driver; in a container, start it with --gpus all",
    9: "the driver's kernel module is not loaded: sudo modprobe nvidia, or reboot after an update",
    18: "the driver was updated under a running kernel module: reboot, or reload the module",
    4: "this user may not use the driver: look at the owner of /dev/nvidia*",
    15: "a GPU has fallen off the bus: reboot, and see `dmesg`",
}
_NO_GPU = "no GPU here: PyTorch pairs are timed on the CPU, Triton pairs are only checked"
_OF_NVML = {"gpus": "GPUs", "mig": "MIG", "clocks": "GPU clocks", "processes": "processes on GPUs"}


def nvml(facts: Facts) -> Iterator[Check]:
    """The driver's management library, every GPU, MIG, and whether clocks could be locked. Only ever read."""
    try:
        import pynvml  # 30 ms, for this check alone
    except ImportError as error:
        yield check("nvml", "NVML", f"nvidia-ml-py is not installed ({error})", "make env", problem=True)
        return
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        code = int(getattr(error, "value", -1))
        wanted = bool(_gpu_files(facts)) or code != 12
        fix = _NVML_FIXES.get(code, "see `nvidia-smi`") if wanted else _NO_GPU
        yield check("nvml", "NVML", f"{whole(str, error)} (NVML {code})", fix, problem=wanted, warning=True)
        for name, title in _OF_NVML.items():
            yield check(name, title, f"{plain.DASH} (NVML did not start)", unknown=True)
        return
    try:
        yield from _gpus(pynvml, facts)
    finally:
        pynvml.nvmlShutdown()


def _gpus(library: Any, facts: Facts) -> Iterator[Check]:
    def ask(name: str, *arguments: Any) -> Any:
        # None where the driver has no answer or this binding no such function.
        try:
            return whole(getattr(library, name), *arguments)
        except (library.NVMLError, AttributeError):
            return None

    def text(value: Any) -> str:
        return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value or plain.DASH)

    yield check("nvml", "NVML", f"driver {text(ask('nvmlSystemGetDriverVersion'))}")
    count = ask("nvmlDeviceGetCount")
    if not count:
        fix = "look at CUDA_VISIBLE_DEVICES and the container's --gpus"
        yield check("gpus", "GPUs", "the driver sees none", fix, warning=True)
    for index in range(count or 0):
        handle = ask("nvmlDeviceGetHandleByIndex", index)
        if handle is None:
            yield check(f"gpu{index}", f"GPU {index}", "does not answer", _NVML_FIXES[15], problem=True)
            continue
        capability, memory = ask("nvmlDeviceGetCudaComputeCapability", handle), ask("nvmlDeviceGetMemoryInfo", handle)
        sm = f"sm_{capability[0]}{capability[1]}" if capability else f"sm {plain.DASH}"
        value = f"{text(ask('nvmlDeviceGetName', handle))}, {sm}, {plain.size(memory.total if memory else None)}"
        yield check(f"gpu{index}", f"GPU {index}", value)
        mode = ask("nvmlDeviceGetMigMode", handle)
        value = "not supported" if mode is None else "on" if mode[0] else "off"
        fix = "times are those of a slice, and its ceilings differ from the whole GPU's"
        yield check(f"mig{index}", f"MIG of GPU {index}", value, fix, warning=value == "on")
        now, most = (ask(f"nvmlDeviceGet{word}ClockInfo", handle, library.NVML_CLOCK_SM) for word in ("", "Max"))
        yield _clocks(index, now, most, facts)
        yield _processes(index, ask("nvmlDeviceGetComputeRunningProcesses", handle))


def _clocks(index: int, now: int | None, most: int | None, facts: Facts) -> Check:
    # Only an attempt would tell for certain, and nothing is changed here; this is what the driver asks first.
    allowed = facts.administrates()
    said = {
        True: ", this user may lock them (CAP_SYS_ADMIN)",
        None: "; /proc does not tell who may lock them",
        False: ", locking them needs CAP_SYS_ADMIN on the host",
    }[allowed]
    value = f"SM {plain.DASH if now is None else now} of {plain.DASH if most is None else most} MHz{said}"
    fix = "every number carries clocks=unlocked; "
    if most is None:
        fix += "ask an administrator for a fixed clock where that matters"
    else:
        fix += f"where that matters, on the host: sudo nvidia-smi -i {index} --lock-gpu-clocks={most}"
    fix = fix if allowed is False else ""
    return check(
        f"clocks{index}", f"clocks of GPU {index}", value, fix, warning=allowed is False, unknown=allowed is None
    )


def _processes(index: int, found: Any) -> Check:
    """Whether others on the GPU can be seen: a measurement beside them is marked as contended."""
    # Ours among them, where an engine runs: seeing them is what counts here.
    pids = ", ".join(str(process.pid) for process in (found or [])[:4]) + (", ..." if len(found or ()) > 4 else "")
    value = f"can be seen: {len(found or ())} now" + (f" (pid {pids})" if found else "")
    value = "the driver does not list them" if found is None else value
    fix = "look at `nvidia-smi` on the host before a measurement; in a container, start it with --pid=host"
    return check(f"processes{index}", f"processes on GPU {index}", value, fix, warning=found is None)


def device_files(facts: Facts) -> Iterator[Check]:
    """Whether this user may open the driver's device files, without which neither NVML nor CUDA starts."""
    nodes = [node for name in ("[0-9]*", "ctl", "-uvm") for node in sorted((facts.root / "dev").glob(f"nvidia{name}"))]
    shut = [str(node) for node in nodes if not os.access(node, os.R_OK | os.W_OK)]
    value = f"{', '.join(node.name for node in nodes)} can be opened" if nodes else "none: no NVIDIA driver here"
    value = f"{', '.join(shut)} cannot be opened by this user" if shut else value
    fix = "sudo usermod -aG GROUP $USER with the group that `ls -l /dev/nvidia*` shows, then log in again"
    yield check("device_files", "device files", value, fix, problem=bool(shut))


# -- what kernels may do -----------------------------------------------------------------------------------------------


def landlock(facts: Facts) -> Iterator[Check]:
    """What processes that run kernels can be kept from."""
    off = facts.env.get(confinement.SWITCH) == "0"
    yield landlock_check(confinement.abi(), filtered=seccomp.available(), off=off)


def landlock_check(version: int, *, filtered: bool, off: bool) -> Check:
    """What a version of Landlock means, 0 for none, and whether system calls can be refused."""
    holds = confinement.held(version, filtered=filtered)
    lacks = ", ".join(one for one in Held if one not in holds)
    value = (f"Landlock {version}" if version else "no Landlock") + ("" if filtered else ", no seccomp")
    value += f": workers are held from {', '.join(holds)}" if holds else ": kernels reach whatever this account can"
    value += f"; not from {lacks}" if holds and lacks else ""
    fix = "files and reading need Linux 5.13 (CONFIG_SECURITY_LANDLOCK), signals 6.12; "
    fix += "a container's seccomp profile may forbid Landlock and filters of its own"
    if off:
        value, fix = f"Landlock {version}, switched off", f"unset {confinement.SWITCH}, then `aisp engine --stop`"
    return check("landlock", "confinement", value, fix, warning=off or not version or not filtered)


# -- the store and the engine ------------------------------------------------------------------------------------------


def sqlite(facts: Facts) -> Iterator[Check]:
    """The SQLite library under Python."""
    yield sqlite_check(sqlite3.sqlite_version)


def sqlite_check(version: str) -> Check:
    """SQLite 3.7.0 to 3.51.2 can corrupt a database whose write-ahead log two writers reset at the same
    time."""
    if _numbers(version) < (3, 37):
        return check("sqlite", "SQLite", version, "strict tables need 3.37 or newer; use a newer Python", problem=True)
    bug = _numbers(version) < (3, 51, 3)
    value = f"{version}, with the WAL-reset bug (fixed in 3.51.3)" if bug else version
    fix = "aisp is safe: one process writes. Do not write to the database with other tools"
    return check("sqlite", "SQLite", value, fix, warning=bug)


def state_folder(facts: Facts) -> Iterator[Check]:
    """The state directory: writable, private, lasting, with room."""
    try:
        folder = paths.state_dir()
    except (paths.UnsafePathError, OSError) as error:
        yield check("state", "state folder", str(error), OWN_FOLDER, problem=True)
        return
    name, mode = os.fsdecode(folder), folder.stat().st_mode & 0o777
    shut, open_to_others = not os.access(folder, os.W_OK | os.X_OK), bool(mode & 0o077)
    value, fix = (
        f"{name} is temporary: results are gone after a reboot",
        "set AISP_STATE or HOME to a folder that lasts",
    )
    if shut:
        value, fix = f"{name} cannot be written", f"chmod u+wx {name}"
    elif open_to_others:
        value, fix = f"{name} is open to others ({mode:o})", f"chmod 700 {name}"
    good = not (shut or open_to_others or paths.state_is_temporary())
    yield check("state", "state folder", name if good else value, fix, problem=shut or open_to_others, warning=not good)
    yield file_system_check(filesystem.kind(folder))
    yield disk_check(shutil.disk_usage(folder).free)
    try:
        socket = paths.socket_file()
    except (paths.UnsafePathError, OSError) as error:
        yield check("socket", "socket", str(error), "set XDG_RUNTIME_DIR to a folder of your own", problem=True)
        return
    yield check("socket", "socket", f"{socket} ({len(os.fsencode(socket))} of {paths.MAX_SOCKET_PATH_BYTES} bytes)")


def processes(facts: Facts) -> Iterator[Check]:
    """What the newest run of each device took for known of how processes of the same code differ."""
    from aisp.store.reader import History  # numpy

    with History(paths.database_file()) as history:
        runs = history.newest(50, all_findings=False)
    said: dict[str, str] = {}
    for run in runs:
        known = run.manifest.get("prior")
        if not isinstance(known, Mapping) or run.device in said:
            continue
        kinds = {"": known} if "deviation" in known else known  # runs before there were two kinds
        several = len(kinds) > 1
        said[run.device] = ", ".join(
            f"{run.device}{' + host' * (several and kind == 'host')} {plain.percent(prior['deviation'], 2)}, "
            f"worth {plain.number(prior['freedom'], 2)} degrees of freedom ({prior['source']})"
            for kind, prior in kinds.items()
        )
    value = "; ".join(said.values()) or "none of the newest runs says it"
    yield check("process_spread", "spread of processes", value)


def file_system_check(kind: str) -> Check:
    """Where other hosts may use the state folder too, the store can keep no write-ahead log."""
    shared = bool(filesystem.NETWORK.fullmatch(kind))
    value = f"{kind}, a network file system: the store keeps a rollback journal, and one host at a time may use it"
    value = value if shared else kind or "the kernel does not tell"
    fix = "set AISP_STATE to a folder on a local disk: results are stored faster, and locks are kept by one kernel"
    return check("file_system", "file system", value, fix if shared else "", warning=shared, unknown=not kind)


def compiled_files(facts: Facts) -> Iterator[Check]:
    """What compilers made and the engine stored, which costs nothing but a compile to remove."""
    folder = paths.compiled_dir()
    entries = sum(1 for _ in folder.iterdir()) if folder.is_dir() else 0
    total = sum(file.lstat().st_size for file in folder.rglob("*") if file.is_file())
    value = f"{plain.size(total)} of {entries} rungs; to clear: rm -r {os.fsdecode(folder)}" if entries else "none"
    yield check("compiled", "compiled files", value)


def disk_check(free_bytes: int) -> Check:
    """Room for results."""
    fix = "free some space on the disk of the state folder, or set AISP_STATE to another"
    value = f"{plain.size(free_bytes)} free"
    return check("disk", "disk", value, fix, problem=free_bytes < 64 * 2**20, warning=free_bytes < 2**30)


def engine(facts: Facts) -> Iterator[Check]:
    """Whether an engine runs, answers, and is of this program's build."""
    yield check("engine", "engine", **_engine())


def _engine() -> dict[str, Any]:
    import asyncio  # with the client 0.1 s, for this check alone

    from aisp.engine.client import EngineMismatchError, EngineUnavailableError, build_id, connect

    async def ask() -> tuple[int, str, bool, str, str]:
        async with await connect(start=False, accept_mismatch=True, wait=False) as connection:
            welcome = connection.welcome
            asked = welcome.compatible and not welcome.starting
            not_forked = (await connection.status()).not_forked if asked else ""
            return welcome.pid, welcome.build, welcome.compatible, welcome.starting, not_forked

    stop = "aisp engine --stop --force"
    try:
        pid, build, compatible, starting, not_forked = asyncio.run(ask())
    except EngineMismatchError as error:
        return {"value": str(error), "fix": stop, "problem": True}
    except (paths.UnsafePathError, OSError) as error:
        return {"value": str(error), "fix": OWN_FOLDER, "problem": True}
    except EngineUnavailableError as error:
        held = lock.holder()
        if held is None:
            return {"value": "not running; it starts by itself when it is needed"}
        if held.here:
            return {"value": f"pid {held.pid}: {error}", "fix": stop, "problem": True}
        return {"value": held.sentence, "fix": "one host at a time may use a state folder", "problem": True}
    restart = "aisp engine --stop --when-idle; the next command starts the new one"
    if not compatible:
        return {"value": f"pid {pid} speaks another protocol version", "fix": restart, "problem": True}
    if build != build_id():
        return {"value": f"pid {pid} is build {build}, this program {build_id()}", "fix": restart, "warning": True}
    if not_forked:
        return {
            "value": f"pid {pid}: {common.started(not_forked)}",
            "fix": "aisp engine --stop --when-idle, with AISP_FORK unset",
            "warning": True,
        }
    return {"value": f"pid {pid}, build {build}{starting and f', starting: {starting}'}"}


# -- the terminal ------------------------------------------------------------------------------------------------------


def terminal(facts: Facts) -> Iterator[Check]:
    """TERM, colours, UTF-8, braille, and copying through tmux."""
    env = facts.env
    term = env.get("TERM", "")
    fix = "aisp-tui needs a terminal that can move the cursor; the commands of `aisp` work anywhere"
    yield check("term", "TERM", term or "not set", fix, warning=term in ("", "dumb"))
    yield colour_check(env)
    encoding = (getattr(sys.stdout, "encoding", "") or locale.getpreferredencoding(False)).lower().replace("-", "")
    unicode = encoding in ("utf8", "utf8sig")
    fix = "export LANG=C.UTF-8, or graphs are drawn in ASCII"
    yield check("encoding", "encoding", encoding or plain.DASH, fix, warning=not unicode)
    # Which glyphs a terminal's font has cannot be asked; the signs themselves can be looked at.
    value = "look: \u2801\u2803\u2807\u280f\u281f\u283f\u287f\u28ff should be rising dots"
    fix, seen = "where they are boxes: aisp-tui --graph block", unicode and term != "linux"
    if not unicode:
        fix = "aisp-tui --graph ascii draws without"
    elif not seen:
        fix = "the kernel's console has no braille glyphs: aisp-tui --graph block"
    yield check("braille", "braille", value if seen else "no", fix, warning=not seen, unknown=True)
    yield tmux_check(env, tmux_clipboard(env))


def colour_check(env: Mapping[str, str]) -> Check:
    """How many colours the terminal is thought to have."""
    value = "256" if "256color" in env.get("TERM", "") else ""
    value = "16 million" if env.get("COLORTERM", "") in ("truecolor", "24bit") else value
    value = "none, as NO_COLOR asks" if env.get("NO_COLOR") else value
    fix = "if it has more: export COLORTERM=truecolor, or TERM=xterm-256color"
    return check("colours", "colours", value or "16 or fewer, by its name", fix, warning=not value)


CHECKS: tuple[Callable[[Facts], Iterator[Check]], ...] = (
    python,
    torch,
    triton,
    compilers,
    imports.import_path,
    device_files,
    nvml,
    landlock,
    sqlite,
    state_folder,
    processes,
    compiled_files,
    engine,
    limits.cgroups,
    limits.inotify,
    limits.clock,
    limits.logind,
    terminal,
)
"""Every check, in the order in which they are shown."""
