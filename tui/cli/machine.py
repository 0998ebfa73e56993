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

from aisp.engine import confinement, filesystem, lock, paths
from aisp.tui import plain
from aisp.tui.cli import imports, limits
from aisp.tui.cli.facts import COMMAND_PATIENCE_S, Check, Facts, Health
from aisp.tui.cli.facts import run as _run

TORCH_PATIENCE_S = 90.0


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
    good = sys.version_info >= (3, 11)
    yield Check(
        "python",
        "Python",
        Health.OK if good else Health.PROBLEM,
        f"{platform.python_version()} ({sys.executable})",
        "" if good else "aisp needs Python 3.11 or newer",
    )


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
        yield Check("torch", "torch", Health.PROBLEM, "not installed", "make env, or pip install torch")
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
        return Check("torch", "torch", Health.PROBLEM, value, "make env installs it anew, with what it needs")
    old = _numbers(version) < (2, 11)
    fix = "aisp is tested with torch 2.11 and newer; upgrade it" if old else ""
    return Check("torch", "torch", Health.WARNING if old else Health.OK, version, fix)


def cuda_check(told: Mapping[str, Any] | None, *, gpu_expected: bool) -> Check:
    """What the process that asked torch for CUDA means; None where it came to no end."""
    if told is None or "error" in told:
        return Check(
            "cuda",
            "CUDA through torch",
            Health.PROBLEM,
            f"a first sum on the GPU failed: {told['error']}"
            if told
            else f"importing torch or a first sum on the GPU failed, or took longer than {TORCH_PATIENCE_S:.0f} s",
            f"see why: {sys.executable} -c 'import torch; print(torch.ones(4, device=\"cuda\").sum())'",
        )
    if told.get("available"):
        devices = told.get("devices")
        return Check("cuda", "CUDA through torch", Health.OK, f"CUDA {told.get('cuda')}, {devices} device(s) usable")
    if not told.get("cuda"):
        value = "this torch is built for the CPU"
        fix = "install a torch with CUDA (>= 2.11) and use `make run TORCH=system`" if gpu_expected else ""
    else:
        value = f"torch has CUDA {told['cuda']}, and finds no usable GPU"
        fix = "the NVML check below says what the driver says" if gpu_expected else ""
    return Check("cuda", "CUDA through torch", Health.PROBLEM if gpu_expected else Health.WARNING, value, fix)


def triton(facts: Facts) -> Iterator[Check]:
    """Triton, and the numpy that its interpreter can live with."""
    version = _version("triton")
    if version is None:
        yield Check("triton", "Triton", Health.WARNING, "not installed", "pip install triton, for the Triton rungs")
    else:
        yield Check("triton", "Triton", Health.OK, version)
    numpy = _version("numpy")
    failed = answer(_run([sys.executable, "-I", "-c", _ASK_NUMPY], COMMAND_PATIENCE_S))
    if numpy is None:
        yield Check("numpy", "numpy", Health.PROBLEM, "not installed", "make env")
    elif failed:
        value = f"{numpy} is installed and cannot be imported: {failed['error']}"
        yield Check("numpy", "numpy", Health.PROBLEM, value, "make env installs it anew")
    elif version is not None and not _gpu_files(facts) and _numbers(numpy) >= (2, 4):
        yield Check(
            "numpy",
            "numpy",
            Health.WARNING,
            f"{numpy}, with which Triton's interpreter breaks loops that have a run-time bound",
            'without a GPU Triton kernels run in its interpreter: pip install "numpy<2.4"',
        )
    else:
        yield Check("numpy", "numpy", Health.OK, numpy)


def compilers(facts: Facts) -> Iterator[Check]:
    """NVRTC and cuda.core for .cu files; nvcc is not needed and shown where it is."""
    missing = [name for name in ("cuda.bindings", "cuda.core") if not _importable(name)]
    packages = ("nvidia-cuda-nvrtc", "nvidia-cuda-nvrtc-cu13", "nvidia-cuda-nvrtc-cu12")
    nvrtc = next((found for package in packages if (found := _version(package))), None)
    if missing:
        yield Check(
            "nvrtc",
            "NVRTC",
            Health.WARNING,
            f"{' and '.join(missing)} cannot be imported",
            'CUDA rungs need them: pip install "aisp[cuda]"',
        )
    else:
        bindings = _version("cuda-bindings") or plain.DASH
        library = f"library {nvrtc}" if nvrtc else "library of the CUDA installation"
        yield Check("nvrtc", "NVRTC", Health.OK, f"cuda-bindings {bindings}, {library}")
    home = facts.env.get("CUDA_HOME") or facts.env.get("CUDA_PATH")
    nvcc = shutil.which("nvcc", path=facts.env.get("PATH")) or (home and shutil.which("nvcc", path=f"{home}/bin"))
    yield Check("nvcc", "nvcc", Health.OK, nvcc or "not found, and not needed")


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


def nvml(facts: Facts) -> Iterator[Check]:
    """The driver's management library, every GPU, MIG, and whether clocks could be locked. Only ever read."""
    try:
        import pynvml  # 30 ms, for this check alone
    except ImportError as error:
        yield Check("nvml", "NVML", Health.PROBLEM, f"nvidia-ml-py is not installed ({error})", "make env")
        return
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        code = int(getattr(error, "value", -1))
        expected = bool(_gpu_files(facts))
        yield Check(
            "nvml",
            "NVML",
            Health.PROBLEM if expected or code != 12 else Health.WARNING,
            f"{error} (NVML {code})",
            _NVML_FIXES.get(code, "see `nvidia-smi`")
            if expected or code != 12
            else "no GPU here: PyTorch pairs are timed on the CPU, Triton pairs are only checked",
        )
        why = f"{plain.DASH} (NVML did not start)"
        yield Check("gpus", "GPUs", Health.UNKNOWN, why)
        yield Check("mig", "MIG", Health.UNKNOWN, why)
        yield Check("clocks", "GPU clocks", Health.UNKNOWN, why)
        yield Check("processes", "processes on GPUs", Health.UNKNOWN, why)
        return
    try:
        yield from _gpus(pynvml, facts)
    finally:
        pynvml.nvmlShutdown()


def _gpus(library: Any, facts: Facts) -> Iterator[Check]:
    def ask(name: str, *arguments: Any) -> Any:
        # None where the driver has no answer or this binding no such function.
        try:
            return getattr(library, name)(*arguments)
        except (library.NVMLError, AttributeError):
            return None

    def text(value: Any) -> str:
        return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value or plain.DASH)

    yield Check("nvml", "NVML", Health.OK, f"driver {text(ask('nvmlSystemGetDriverVersion'))}")
    count = ask("nvmlDeviceGetCount")
    if not count:
        fix = "look at CUDA_VISIBLE_DEVICES and the container's --gpus"
        yield Check("gpus", "GPUs", Health.WARNING, "the driver sees none", fix)
    for index in range(count or 0):
        handle = ask("nvmlDeviceGetHandleByIndex", index)
        if handle is None:
            yield Check(f"gpu{index}", f"GPU {index}", Health.PROBLEM, "does not answer", _NVML_FIXES[15])
            continue
        capability = ask("nvmlDeviceGetCudaComputeCapability", handle)
        memory = ask("nvmlDeviceGetMemoryInfo", handle)
        sm = f"sm_{capability[0]}{capability[1]}" if capability else f"sm {plain.DASH}"
        value = f"{text(ask('nvmlDeviceGetName', handle))}, {sm}, {plain.size(memory.total if memory else None)}"
        yield Check(f"gpu{index}", f"GPU {index}", Health.OK, value)
        yield _mig(index, ask("nvmlDeviceGetMigMode", handle))
        yield _clocks(index, ask, handle, library, facts)
        yield _processes(index, ask("nvmlDeviceGetComputeRunningProcesses", handle))


def _mig(index: int, mode: Any) -> Check:
    title = f"MIG of GPU {index}"
    if mode is None:
        return Check(f"mig{index}", title, Health.OK, "not supported")
    if mode[0]:
        fix = "times are those of a slice, and its ceilings differ from the whole GPU's"
        return Check(f"mig{index}", title, Health.WARNING, "on", fix)
    return Check(f"mig{index}", title, Health.OK, "off")


def _clocks(index: int, ask: Callable[..., Any], handle: Any, library: Any, facts: Facts) -> Check:
    now = ask("nvmlDeviceGetClockInfo", handle, library.NVML_CLOCK_SM)
    most = ask("nvmlDeviceGetMaxClockInfo", handle, library.NVML_CLOCK_SM)
    value = f"SM {plain.DASH if now is None else now} of {plain.DASH if most is None else most} MHz"
    title = f"clocks of GPU {index}"
    # Only an attempt would tell for certain, and nothing is changed here; this is what the driver asks first.
    allowed = facts.administrates()
    if allowed:
        return Check(f"clocks{index}", title, Health.OK, f"{value}, this user may lock them (CAP_SYS_ADMIN)")
    if allowed is None:
        return Check(f"clocks{index}", title, Health.UNKNOWN, f"{value}; /proc does not tell who may lock them")
    lock = f"sudo nvidia-smi -i {index} --lock-gpu-clocks={plain.DASH if most is None else most}"
    return Check(
        f"clocks{index}",
        title,
        Health.WARNING,
        f"{value}, locking them needs CAP_SYS_ADMIN on the host",
        f"every number carries clocks=unlocked; where that matters, on the host: {lock}"
        if most is not None
        else "every number carries clocks=unlocked; ask an administrator for a fixed clock where that matters",
    )


def _processes(index: int, found: Any) -> Check:
    """Whether others on the GPU can be seen: a measurement beside them is marked as contended."""
    name, title = f"processes{index}", f"processes on GPU {index}"
    if found is None:
        fix = "look at `nvidia-smi` on the host before a measurement; in a container, start it with --pid=host"
        return Check(name, title, Health.WARNING, "the driver does not list them", fix)
    # Ours among them, where an engine runs: seeing them is what counts here.
    pids = ", ".join(str(process.pid) for process in found[:4]) + (", ..." if len(found) > 4 else "")
    value = f"can be seen: {len(found)} now" + (f" (pid {pids})" if found else "")
    return Check(name, title, Health.OK, value)


def device_files(facts: Facts) -> Iterator[Check]:
    """Whether this user may open the driver's device files, without which neither NVML nor CUDA starts."""
    nodes = [node for name in ("[0-9]*", "ctl", "-uvm") for node in sorted((facts.root / "dev").glob(f"nvidia{name}"))]
    title = "device files"
    if not nodes:
        yield Check("device_files", title, Health.OK, "none: no NVIDIA driver here")
        return
    shut = [str(node) for node in nodes if not os.access(node, os.R_OK | os.W_OK)]
    if shut:
        fix = "sudo usermod -aG GROUP $USER with the group that `ls -l /dev/nvidia*` shows, then log in again"
        yield Check("device_files", title, Health.PROBLEM, f"{', '.join(shut)} cannot be opened by this user", fix)
    else:
        yield Check("device_files", title, Health.OK, f"{', '.join(node.name for node in nodes)} can be opened")


# -- what kernels may do -----------------------------------------------------------------------------------------------


def landlock(facts: Facts) -> Iterator[Check]:
    """Whether processes that run kernels can be kept from writing where they should not."""
    yield landlock_check(confinement.abi(), off=facts.env.get(confinement.SWITCH) == "0")


def landlock_check(version: int, *, off: bool) -> Check:
    """What a version of Landlock means, 0 for none."""
    title = "confinement"
    if not version:
        fix = (
            "a kernel from Linux 5.13 on has it (CONFIG_SECURITY_LANDLOCK); a container's seccomp profile may forbid it"
        )
        return Check("landlock", title, Health.WARNING, "no Landlock: kernels can write whatever this account can", fix)
    if off:
        fix = f"unset {confinement.SWITCH}, then `aisp engine stop`"
        return Check("landlock", title, Health.WARNING, f"Landlock {version}, switched off", fix)
    value = f"Landlock {version}: workers write to folders of their own alone"
    if version < confinement.ABI_SCOPES:
        value += "; signals are not held before version 6"
    return Check("landlock", title, Health.OK, value)


# -- the store and the engine ------------------------------------------------------------------------------------------


def sqlite(facts: Facts) -> Iterator[Check]:
    """The SQLite library under Python."""
    yield sqlite_check(sqlite3.sqlite_version)


def sqlite_check(version: str) -> Check:
    """SQLite 3.7.0 to 3.51.2 can corrupt a database whose write-ahead log two writers reset at the same
    time."""
    if _numbers(version) < (3, 37):
        return Check(
            "sqlite",
            "SQLite",
            Health.PROBLEM,
            version,
            "strict tables need 3.37 or newer; use a newer Python",
        )
    if _numbers(version) < (3, 51, 3):
        value = f"{version}, with the WAL-reset bug (fixed in 3.51.3)"
        fix = "aisp is safe: one process writes. Do not write to the database with other tools"
        return Check("sqlite", "SQLite", Health.WARNING, value, fix)
    return Check("sqlite", "SQLite", Health.OK, version)


def state_folder(facts: Facts) -> Iterator[Check]:
    """The state directory: writable, private, lasting, with room."""
    try:
        folder = paths.state_dir()
    except (paths.UnsafePathError, OSError) as error:
        yield Check("state", "state folder", Health.PROBLEM, str(error), "set AISP_STATE to a folder of your own")
        return
    name = os.fsdecode(folder)
    mode = folder.stat().st_mode & 0o777
    if not os.access(folder, os.W_OK | os.X_OK):
        yield Check("state", "state folder", Health.PROBLEM, f"{name} cannot be written", f"chmod u+wx {name}")
    elif mode & 0o077:
        yield Check(
            "state",
            "state folder",
            Health.PROBLEM,
            f"{name} is open to others ({mode:o})",
            f"chmod 700 {name}",
        )
    elif paths.state_is_temporary():
        yield Check(
            "state",
            "state folder",
            Health.WARNING,
            f"{name} is temporary: results are gone after a reboot",
            "set AISP_STATE or HOME to a folder that lasts",
        )
    else:
        yield Check("state", "state folder", Health.OK, name)
    yield file_system_check(filesystem.kind(folder))
    yield disk_check(shutil.disk_usage(folder).free)
    try:
        socket = paths.socket_file()
    except (paths.UnsafePathError, OSError) as error:
        yield Check("socket", "socket", Health.PROBLEM, str(error), "set XDG_RUNTIME_DIR to a folder of your own")
        return
    value = f"{socket} ({len(os.fsencode(socket))} of {paths.MAX_SOCKET_PATH_BYTES} bytes)"
    yield Check("socket", "socket", Health.OK, value)


def file_system_check(kind: str) -> Check:
    """Where other hosts may use the state folder too, the store can keep no write-ahead log."""
    if not kind:
        return Check("file_system", "file system", Health.UNKNOWN, "the kernel does not tell", "")
    if not filesystem.NETWORK.fullmatch(kind):
        return Check("file_system", "file system", Health.OK, kind)
    value = f"{kind}, a network file system: the store keeps a rollback journal, and one host at a time may use it"
    fix = "set AISP_STATE to a folder on a local disk: results are stored faster, and locks are kept by one kernel"
    return Check("file_system", "file system", Health.WARNING, value, fix)


def compiled_files(facts: Facts) -> Iterator[Check]:
    """What compilers made and the engine stored, which costs nothing but a compile to remove."""
    folder = paths.compiled_dir()
    entries = sum(1 for _ in folder.iterdir()) if folder.is_dir() else 0
    total = sum(file.lstat().st_size for file in folder.rglob("*") if file.is_file())
    value = f"{plain.size(total)} of {entries} rungs; to clear: rm -r {os.fsdecode(folder)}" if entries else "none"
    yield Check("compiled", "compiled files", Health.OK, value)


def disk_check(free_bytes: int) -> Check:
    """Room for results."""
    value = f"{plain.size(free_bytes)} free"
    fix = "free some space on the disk of the state folder, or set AISP_STATE to another"
    if free_bytes < 64 * 2**20:
        return Check("disk", "disk", Health.PROBLEM, value, fix)
    if free_bytes < 2**30:
        return Check("disk", "disk", Health.WARNING, value, fix)
    return Check("disk", "disk", Health.OK, value)


def engine(facts: Facts) -> Iterator[Check]:
    """Whether an engine runs, answers, and is of this program's build."""
    import asyncio  # with the client 0.1 s, for this check alone

    from aisp.engine.client import EngineMismatchError, EngineUnavailableError, build_id, connect

    async def ask() -> tuple[int, str, bool, str]:
        async with await connect(start=False, accept_mismatch=True, wait=False) as connection:
            welcome = connection.welcome
            return welcome.pid, welcome.build, welcome.compatible, welcome.starting

    try:
        pid, build, compatible, starting = asyncio.run(ask())
    except EngineMismatchError as error:
        yield Check("engine", "engine", Health.PROBLEM, str(error), "aisp engine stop --force")
        return
    except (paths.UnsafePathError, OSError) as error:
        yield Check("engine", "engine", Health.PROBLEM, str(error), "set AISP_STATE to a folder of your own")
        return
    except EngineUnavailableError as error:
        held = lock.holder()
        if held is None:
            yield Check("engine", "engine", Health.OK, "not running; it starts by itself when it is needed")
        elif held.here:
            yield Check("engine", "engine", Health.PROBLEM, f"pid {held.pid}: {error}", "aisp engine stop --force")
        else:
            yield Check("engine", "engine", Health.PROBLEM, held.sentence, "one host at a time may use a state folder")
        return
    restart = "aisp engine stop --when-idle; the next command starts the new one"
    if not compatible:
        yield Check("engine", "engine", Health.PROBLEM, f"pid {pid} speaks another protocol version", restart)
    elif build != build_id():
        value = f"pid {pid} is build {build}, this program {build_id()}"
        yield Check("engine", "engine", Health.WARNING, value, restart)
    else:
        yield Check("engine", "engine", Health.OK, f"pid {pid}, build {build}{starting and f', starting: {starting}'}")


# -- the terminal ------------------------------------------------------------------------------------------------------


def terminal(facts: Facts) -> Iterator[Check]:
    """TERM, colours, UTF-8, braille, and copying through tmux."""
    env = facts.env
    term = env.get("TERM", "")
    if term in ("", "dumb"):
        fix = "aisp-tui needs a terminal that can move the cursor; the commands of `aisp` work anywhere"
        yield Check("term", "TERM", Health.WARNING, term or "not set", fix)
    else:
        yield Check("term", "TERM", Health.OK, term)
    yield colour_check(env)
    encoding = (getattr(sys.stdout, "encoding", "") or locale.getpreferredencoding(False)).lower().replace("-", "")
    unicode = encoding in ("utf8", "utf8sig")
    yield Check(
        "encoding",
        "encoding",
        Health.OK if unicode else Health.WARNING,
        encoding or plain.DASH,
        "" if unicode else "export LANG=C.UTF-8, or graphs are drawn in ASCII",
    )
    if not unicode:
        yield Check("braille", "braille", Health.WARNING, "no", "aisp-tui --graph ascii draws without")
    elif term == "linux":
        fix = "the kernel's console has no braille glyphs: aisp-tui --graph block"
        yield Check("braille", "braille", Health.WARNING, "no", fix)
    else:
        # Which glyphs a terminal's font has cannot be asked; the signs themselves can be looked at.
        value = "look: \u2801\u2803\u2807\u280f\u281f\u283f\u287f\u28ff should be rising dots"
        yield Check("braille", "braille", Health.UNKNOWN, value, "where they are boxes: aisp-tui --graph block")
    yield tmux_check(
        env,
        _run(["tmux", "show", "-s", "-v", "set-clipboard"], COMMAND_PATIENCE_S) if env.get("TMUX") else None,
    )


def colour_check(env: Mapping[str, str]) -> Check:
    """How many colours the terminal is thought to have."""
    term, more = env.get("TERM", ""), env.get("COLORTERM", "")
    if env.get("NO_COLOR"):
        return Check("colours", "colours", Health.OK, "none, as NO_COLOR asks")
    if more in ("truecolor", "24bit"):
        return Check("colours", "colours", Health.OK, "16 million")
    if "256color" in term:
        return Check("colours", "colours", Health.OK, "256")
    fix = "if it has more: export COLORTERM=truecolor, or TERM=xterm-256color"
    return Check("colours", "colours", Health.WARNING, "16 or fewer, by its name", fix)


def tmux_check(env: Mapping[str, str], setting: str | None) -> Check:
    """Whether tmux passes copies on to the terminal; `setting` is its set-clipboard, None where it did not
    say."""
    title = "copying"
    if not env.get("TMUX"):
        return Check("clipboard", title, Health.OK, "through the terminal (OSC 52)")
    fix = "tmux set -s set-clipboard on, and the same line in ~/.tmux.conf; copies are kept in a file as well"
    if setting is None:
        return Check("clipboard", title, Health.UNKNOWN, "tmux does not say", fix)
    if setting == "on":
        return Check("clipboard", title, Health.OK, "tmux passes it on (set-clipboard on)")
    return Check("clipboard", title, Health.WARNING, f"tmux drops it (set-clipboard {setting})", fix)


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
    compiled_files,
    engine,
    limits.cgroups,
    limits.inotify,
    limits.clock,
    limits.logind,
    terminal,
)
"""Every check, in the order in which they are shown."""
