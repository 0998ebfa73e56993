"""What `aisp doctor` looks at: one small function per thing, each returning values and changing nothing.

A function gets `Facts` (the environment's names, where the file system begins), so that a test can show it
another machine. torch and triton are looked up by their package metadata; whether CUDA works is asked of a
process of its own, because importing torch here would cost seconds and a CUDA context.

`CHECKS` is the list. What cannot be found out is `UNKNOWN` with the reason, never a guess.
"""

from __future__ import annotations

import enum
import importlib.metadata
import importlib.util
import json
import locale
import os
import platform
import re
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from engine import paths
from tui import plain

TORCH_PATIENCE_S = 90.0
COMMAND_PATIENCE_S = 3.0
DRIFT_SPAN_S = 0.25


class Verdict(enum.StrEnum):
    """How a check went."""

    OK = "ok"
    WARNING = "warning"  # works, but less well than it could
    PROBLEM = "problem"  # something that aisp promises will not work
    UNKNOWN = "unknown"  # could not be found out


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at: a stable id, a title, what was found, and the fix where one is needed."""

    id: str
    title: str
    verdict: Verdict
    value: str
    fix: str = ""


@dataclass(frozen=True, slots=True)
class Facts:
    """Where to look. `root` stands before /proc, /etc, /run and /var."""

    env: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    root: Path = Path("/")

    def text(self, path: str) -> str | None:
        """A small file's text, None where it cannot be read."""
        try:
            return (self.root / path).read_text("utf-8", "replace").strip()
        except OSError:
            return None

    def number(self, path: str) -> int | None:
        """A small file's number, None where there is none."""
        text = self.text(path)
        return int(text) if text and text.isdigit() else None


def _run(words: list[str], patience_s: float) -> str | None:
    """What a command prints, None where it is missing, fails or takes too long."""
    try:
        done = subprocess.run(
            words, stdin=subprocess.DEVNULL, capture_output=True, timeout=patience_s, check=False, text=True
        )
    except (OSError, subprocess.TimeoutExpired, UnicodeDecodeError):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


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


# -- Python and packages
# -----------------------------------------------------------------------------------------


def python(facts: Facts) -> Iterator[Check]:
    """The interpreter's version."""
    good = sys.version_info >= (3, 11)
    yield Check(
        "python",
        "Python",
        Verdict.OK if good else Verdict.PROBLEM,
        f"{platform.python_version()} ({sys.executable})",
        "" if good else "aisp needs Python 3.11 or newer",
    )


_ASK_TORCH = (
    "import json, torch\n"
    "there = torch.cuda.is_available()\n"
    "print(json.dumps({'cuda': torch.version.cuda, 'available': there,"
    " 'devices': torch.cuda.device_count() if there else 0,"
    " 'sum': float(torch.ones(4, device='cuda').sum()) if there else None}))\n"
)


def torch(facts: Facts) -> Iterator[Check]:
    """torch by its metadata, and CUDA through it by a process of its own."""
    version = _version("torch")
    if version is None:
        yield Check("torch", "torch", Verdict.PROBLEM, "not installed", "make env, or pip install torch")
        return
    old = _numbers(version) < (2, 11)
    yield Check(
        "torch",
        "torch",
        Verdict.WARNING if old else Verdict.OK,
        version,
        "aisp is tested with torch 2.11 and newer; upgrade it" if old else "",
    )
    answer = _run([sys.executable, "-c", _ASK_TORCH], TORCH_PATIENCE_S)
    yield cuda_check(answer, gpu_expected=bool(_gpu_files(facts)))


def cuda_check(answer: str | None, *, gpu_expected: bool) -> Check:
    """What the process that asked torch for CUDA means; `answer` is its output, None where it failed."""
    try:
        told = json.loads((answer or "").splitlines()[-1]) if answer else None
    except ValueError:
        told = None
    if not isinstance(told, dict):
        return Check(
            "cuda",
            "CUDA through torch",
            Verdict.PROBLEM,
            "importing torch or a first sum on the GPU failed",
            f"see why: {sys.executable} -c 'import torch; print(torch.ones(4, device=\"cuda\").sum())'",
        )
    if told.get("available"):
        devices = told.get("devices")
        return Check("cuda", "CUDA through torch", Verdict.OK, f"CUDA {told.get('cuda')}, {devices} device(s) usable")
    if not told.get("cuda"):
        value = "this torch is built for the CPU"
        fix = "install a torch with CUDA (>= 2.11) and use `make run TORCH=system`" if gpu_expected else ""
    else:
        value = f"torch has CUDA {told['cuda']}, and finds no usable GPU"
        fix = "the NVML check below says what the driver says" if gpu_expected else ""
    return Check("cuda", "CUDA through torch", Verdict.PROBLEM if gpu_expected else Verdict.WARNING, value, fix)


def triton(facts: Facts) -> Iterator[Check]:
    """Triton, and the numpy that its interpreter can live with."""
    version = _version("triton")
    if version is None:
        yield Check("triton", "Triton", Verdict.WARNING, "not installed", "pip install triton, for the Triton rungs")
    else:
        yield Check("triton", "Triton", Verdict.OK, version)
    numpy = _version("numpy")
    if numpy is None:
        yield Check("numpy", "numpy", Verdict.PROBLEM, "not installed", "make env")
    elif version is not None and not _gpu_files(facts) and _numbers(numpy) >= (2, 4):
        yield Check(
            "numpy",
            "numpy",
            Verdict.WARNING,
            f"{numpy}, with which Triton's interpreter breaks loops that have a run-time bound",
            'without a GPU Triton kernels run in its interpreter: pip install "numpy<2.4"',
        )
    else:
        yield Check("numpy", "numpy", Verdict.OK, numpy)


def compilers(facts: Facts) -> Iterator[Check]:
    """NVRTC and cuda.core for .cu files; nvcc is not needed and shown where it is."""
    missing = [name for name in ("cuda.bindings", "cuda.core") if not _importable(name)]
    packages = ("nvidia-cuda-nvrtc", "nvidia-cuda-nvrtc-cu13", "nvidia-cuda-nvrtc-cu12")
    nvrtc = next((found for package in packages if (found := _version(package))), None)
    if missing:
        yield Check(
            "nvrtc",
            "NVRTC",
            Verdict.WARNING,
            f"{' and '.join(missing)} cannot be imported",
            'CUDA rungs need them: pip install "aisp[cuda]"',
        )
    else:
        bindings = _version("cuda-bindings") or plain.DASH
        library = f"library {nvrtc}" if nvrtc else "library of the CUDA installation"
        yield Check("nvrtc", "NVRTC", Verdict.OK, f"cuda-bindings {bindings}, {library}")
    home = facts.env.get("CUDA_HOME") or facts.env.get("CUDA_PATH")
    nvcc = shutil.which("nvcc", path=facts.env.get("PATH")) or (home and shutil.which("nvcc", path=f"{home}/bin"))
    yield Check("nvcc", "nvcc", Verdict.OK, nvcc or "not found, and not needed")


# -- the GPU
# -----------------------------------------------------------------------------------------------------


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
        yield Check("nvml", "NVML", Verdict.PROBLEM, f"nvidia-ml-py is not installed ({error})", "make env")
        return
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        code = int(getattr(error, "value", -1))
        expected = bool(_gpu_files(facts))
        yield Check(
            "nvml",
            "NVML",
            Verdict.PROBLEM if expected or code != 12 else Verdict.WARNING,
            f"{error} (NVML {code})",
            _NVML_FIXES.get(code, "see `nvidia-smi`")
            if expected or code != 12
            else "no GPU here: PyTorch pairs are timed on the CPU, Triton pairs are only checked",
        )
        yield Check("gpus", "GPUs", Verdict.UNKNOWN, plain.DASH)
        yield Check("mig", "MIG", Verdict.UNKNOWN, plain.DASH)
        yield Check("clocks", "GPU clocks", Verdict.UNKNOWN, plain.DASH)
        return
    try:
        yield from _gpus(pynvml)
    finally:
        pynvml.nvmlShutdown()


def _gpus(library: Any) -> Iterator[Check]:
    def ask(name: str, *arguments: Any) -> Any:
        # None where the driver has no answer or this binding no such function.
        try:
            return getattr(library, name)(*arguments)
        except (library.NVMLError, AttributeError):
            return None

    def text(value: Any) -> str:
        return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value or plain.DASH)

    yield Check("nvml", "NVML", Verdict.OK, f"driver {text(ask('nvmlSystemGetDriverVersion'))}")
    count = ask("nvmlDeviceGetCount")
    if not count:
        fix = "look at CUDA_VISIBLE_DEVICES and the container's --gpus"
        yield Check("gpus", "GPUs", Verdict.WARNING, "the driver sees none", fix)
    for index in range(count or 0):
        handle = ask("nvmlDeviceGetHandleByIndex", index)
        if handle is None:
            yield Check(f"gpu{index}", f"GPU {index}", Verdict.PROBLEM, "does not answer", _NVML_FIXES[15])
            continue
        capability = ask("nvmlDeviceGetCudaComputeCapability", handle)
        memory = ask("nvmlDeviceGetMemoryInfo", handle)
        sm = f"sm_{capability[0]}{capability[1]}" if capability else f"sm {plain.DASH}"
        value = f"{text(ask('nvmlDeviceGetName', handle))}, {sm}, {plain.size(memory.total if memory else None)}"
        yield Check(f"gpu{index}", f"GPU {index}", Verdict.OK, value)
        yield _mig(index, ask("nvmlDeviceGetMigMode", handle))
        yield _clocks(index, ask, handle, library)


def _mig(index: int, mode: Any) -> Check:
    title = f"MIG of GPU {index}"
    if mode is None:
        return Check(f"mig{index}", title, Verdict.OK, "not supported")
    if mode[0]:
        fix = "times are those of a slice, and its ceilings differ from the whole GPU's"
        return Check(f"mig{index}", title, Verdict.WARNING, "on", fix)
    return Check(f"mig{index}", title, Verdict.OK, "off")


def _clocks(index: int, ask: Callable[..., Any], handle: Any, library: Any) -> Check:
    now = ask("nvmlDeviceGetClockInfo", handle, library.NVML_CLOCK_SM)
    most = ask("nvmlDeviceGetMaxClockInfo", handle, library.NVML_CLOCK_SM)
    value = f"SM {plain.DASH if now is None else now} of {plain.DASH if most is None else most} MHz"
    title = f"clocks of GPU {index}"
    # Only an attempt would tell for certain, and nothing is changed here; locking is root's by the driver's
    # rule.
    if os.geteuid() == 0:
        return Check(f"clocks{index}", title, Verdict.OK, f"{value}, root may lock them")
    return Check(
        f"clocks{index}",
        title,
        Verdict.WARNING,
        f"{value}, only root may lock them",
        "every number carries clocks=unlocked; ask an administrator for a fixed clock where that matters",
    )


# -- the store and the engine
# ------------------------------------------------------------------------------------


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
            Verdict.PROBLEM,
            version,
            "strict tables need 3.37 or newer; use a newer Python",
        )
    if _numbers(version) < (3, 51, 3):
        value = f"{version}, with the WAL-reset bug (fixed in 3.51.3)"
        fix = "aisp is safe: one process writes. Do not write to the database with other tools"
        return Check("sqlite", "SQLite", Verdict.WARNING, value, fix)
    return Check("sqlite", "SQLite", Verdict.OK, version)


def state_folder(facts: Facts) -> Iterator[Check]:
    """The state directory: writable, private, lasting, with room."""
    try:
        folder = paths.state_dir()
    except (paths.UnsafePathError, OSError) as error:
        yield Check("state", "state folder", Verdict.PROBLEM, str(error), "set AISP_STATE to a folder of your own")
        return
    name = os.fsdecode(folder)
    mode = folder.stat().st_mode & 0o777
    if not os.access(folder, os.W_OK | os.X_OK):
        yield Check("state", "state folder", Verdict.PROBLEM, f"{name} cannot be written", f"chmod u+wx {name}")
    elif mode & 0o077:
        yield Check(
            "state",
            "state folder",
            Verdict.PROBLEM,
            f"{name} is open to others ({mode:o})",
            f"chmod 700 {name}",
        )
    elif paths.state_is_temporary():
        yield Check(
            "state",
            "state folder",
            Verdict.WARNING,
            f"{name} is temporary: results are gone after a reboot",
            "set AISP_STATE or HOME to a folder that lasts",
        )
    else:
        yield Check("state", "state folder", Verdict.OK, name)
    yield disk_check(shutil.disk_usage(folder).free)
    try:
        socket = paths.socket_file()
    except (paths.UnsafePathError, OSError) as error:
        yield Check("socket", "socket", Verdict.PROBLEM, str(error), "set XDG_RUNTIME_DIR to a folder of your own")
        return
    length = len(os.fsencode(socket))
    fits = length <= paths.MAX_SOCKET_PATH_BYTES
    yield Check(
        "socket",
        "socket",
        Verdict.OK if fits else Verdict.PROBLEM,
        f"{socket} ({length} of {paths.MAX_SOCKET_PATH_BYTES} bytes)",
        "" if fits else "set XDG_RUNTIME_DIR to a folder with a shorter name",
    )


def disk_check(free_bytes: int) -> Check:
    """Room for results."""
    value = f"{plain.size(free_bytes)} free"
    fix = "free some space on the disk of the state folder, or set AISP_STATE to another"
    if free_bytes < 64 * 2**20:
        return Check("disk", "disk", Verdict.PROBLEM, value, fix)
    if free_bytes < 2**30:
        return Check("disk", "disk", Verdict.WARNING, value, fix)
    return Check("disk", "disk", Verdict.OK, value)


def engine(facts: Facts) -> Iterator[Check]:
    """Whether an engine runs, answers, and is of this program's build."""
    import asyncio  # with the client 0.1 s, for this check alone

    from engine.client import EngineMismatchError, EngineUnavailableError, build_id, connect

    async def ask() -> tuple[int, str, bool]:
        async with await connect(start=False, accept_mismatch=True) as connection:
            welcome = connection.welcome
            return welcome.pid, welcome.build, welcome.compatible

    try:
        pid, build, compatible = asyncio.run(ask())
    except EngineMismatchError as error:
        yield Check("engine", "engine", Verdict.PROBLEM, str(error), "aisp engine stop --force")
        return
    except (paths.UnsafePathError, OSError) as error:
        yield Check("engine", "engine", Verdict.PROBLEM, str(error), "set AISP_STATE to a folder of your own")
        return
    except EngineUnavailableError:
        yield Check("engine", "engine", Verdict.OK, "not running; it starts by itself when it is needed")
        return
    restart = "aisp engine stop --when-idle; the next command starts the new one"
    if not compatible:
        yield Check("engine", "engine", Verdict.PROBLEM, f"pid {pid} speaks another protocol version", restart)
    elif build != build_id():
        value = f"pid {pid} is build {build}, this program {build_id()}"
        yield Check("engine", "engine", Verdict.WARNING, value, restart)
    else:
        yield Check("engine", "engine", Verdict.OK, f"pid {pid}, build {build}")


# -- the system
# --------------------------------------------------------------------------------------------------


def inotify(facts: Facts) -> Iterator[Check]:
    """Limits of the kernel's file watching; without it saves are found by looking now and then."""
    for name, least in (("max_user_watches", 8192), ("max_user_instances", 128)):
        found = facts.number(f"proc/sys/fs/inotify/{name}")
        title = f"inotify {name.removeprefix('max_user_')}"
        if found is None:
            yield Check(f"inotify_{name}", title, Verdict.UNKNOWN, plain.DASH)
        elif found < least:
            fix = f"sudo sysctl fs.inotify.{name}={least * 4}; else saves may be found late, by looking"
            yield Check(f"inotify_{name}", title, Verdict.WARNING, str(found), fix)
        else:
            yield Check(f"inotify_{name}", title, Verdict.OK, str(found))


def clock(facts: Facts) -> Iterator[Check]:
    """Whether the wall clock and the monotonic clock run at the same speed right now."""
    wall, steady = time.time_ns(), time.monotonic_ns()
    time.sleep(DRIFT_SPAN_S)
    yield drift_check(time.time_ns() - wall, time.monotonic_ns() - steady)


def drift_check(wall_ns: int, steady_ns: int) -> Check:
    """What two clocks say of one span. Durations come from the monotonic clock, so a jump costs labels
    only."""
    apart_ms = (wall_ns - steady_ns) / 1e6
    share = abs(wall_ns - steady_ns) / steady_ns
    value = f"wall clock {apart_ms:+.3f} ms in {plain.duration(steady_ns / 1e9)}"
    if share > 0.01:
        fix = "the wall clock is being stepped: see `timedatectl`; times are right, their dates may not be"
        return Check("clock", "clocks", Verdict.WARNING, value, fix)
    return Check("clock", "clocks", Verdict.OK, value)


def logind(facts: Facts) -> Iterator[Check]:
    """Whether an engine survives the end of an SSH login: logind may kill what a user leaves behind."""
    title = "after logout"
    if not (facts.env.get("SSH_CONNECTION") or facts.env.get("SSH_TTY")):
        yield Check("logind", title, Verdict.OK, "not an SSH session")
        return
    if not (facts.root / "run/systemd/system").exists():
        yield Check("logind", title, Verdict.OK, "no logind on this machine: the engine stays")
        return
    user = facts.env.get("USER") or str(os.getuid())
    if (facts.root / "var/lib/systemd/linger" / user).exists():
        yield Check("logind", title, Verdict.OK, f"{user} lingers: the engine stays")
        return
    kills = kill_user_processes(facts)
    if kills is None:
        value = "whether logind kills the engine cannot be read"
        yield Check("logind", title, Verdict.UNKNOWN, value, "loginctl enable-linger makes sure that it stays")
    elif kills:
        fix = "loginctl enable-linger, then start it with: systemd-run --user --scope aisp engine start"
        yield Check("logind", title, Verdict.WARNING, "logind kills the engine (KillUserProcesses=yes)", fix)
    else:
        yield Check("logind", title, Verdict.OK, "KillUserProcesses=no: the engine stays")


def kill_user_processes(facts: Facts) -> bool | None:
    """logind's setting, from itself or from its files; None where neither says."""
    service, name = "org.freedesktop.login1", "KillUserProcesses"
    if facts.root == Path("/"):
        asked = _run(
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


# -- the terminal
# ------------------------------------------------------------------------------------------------


def terminal(facts: Facts) -> Iterator[Check]:
    """TERM, colours, UTF-8, braille, and copying through tmux."""
    env = facts.env
    term = env.get("TERM", "")
    if term in ("", "dumb"):
        fix = "aisp-tui needs a terminal that can move the cursor; the commands of `aisp` work anywhere"
        yield Check("term", "TERM", Verdict.WARNING, term or "not set", fix)
    else:
        yield Check("term", "TERM", Verdict.OK, term)
    yield colour_check(env)
    encoding = (getattr(sys.stdout, "encoding", "") or locale.getpreferredencoding(False)).lower().replace("-", "")
    unicode = encoding in ("utf8", "utf8sig")
    yield Check(
        "encoding",
        "encoding",
        Verdict.OK if unicode else Verdict.WARNING,
        encoding or plain.DASH,
        "" if unicode else "export LANG=C.UTF-8, or graphs are drawn in ASCII",
    )
    if not unicode:
        yield Check("braille", "braille", Verdict.WARNING, "no", "aisp-tui --graph ascii draws without")
    elif term == "linux":
        fix = "the kernel's console has no braille glyphs: aisp-tui --graph block"
        yield Check("braille", "braille", Verdict.WARNING, "no", fix)
    else:
        # Which glyphs a terminal's font has cannot be asked; the signs themselves can be looked at.
        value = "look: \u2801\u2803\u2807\u280f\u281f\u283f\u287f\u28ff should be rising dots"
        yield Check("braille", "braille", Verdict.UNKNOWN, value, "where they are boxes: aisp-tui --graph block")
    yield tmux_check(
        env,
        _run(["tmux", "show", "-s", "-v", "set-clipboard"], COMMAND_PATIENCE_S) if env.get("TMUX") else None,
    )


def colour_check(env: Mapping[str, str]) -> Check:
    """How many colours the terminal is thought to have."""
    term, more = env.get("TERM", ""), env.get("COLORTERM", "")
    if env.get("NO_COLOR"):
        return Check("colours", "colours", Verdict.OK, "none, as NO_COLOR asks")
    if more in ("truecolor", "24bit"):
        return Check("colours", "colours", Verdict.OK, "16 million")
    if "256color" in term:
        return Check("colours", "colours", Verdict.OK, "256")
    fix = "if it has more: export COLORTERM=truecolor, or TERM=xterm-256color"
    return Check("colours", "colours", Verdict.WARNING, "16 or fewer, by its name", fix)


def tmux_check(env: Mapping[str, str], setting: str | None) -> Check:
    """Whether tmux passes copies on to the terminal; `setting` is its set-clipboard, None where it did not
    say."""
    title = "copying"
    if not env.get("TMUX"):
        return Check("clipboard", title, Verdict.OK, "through the terminal (OSC 52)")
    fix = "tmux set -s set-clipboard on, and the same line in ~/.tmux.conf; copies are kept in a file as well"
    if setting is None:
        return Check("clipboard", title, Verdict.UNKNOWN, "tmux does not say", fix)
    if setting == "on":
        return Check("clipboard", title, Verdict.OK, "tmux passes it on (set-clipboard on)")
    return Check("clipboard", title, Verdict.WARNING, f"tmux drops it (set-clipboard {setting})", fix)


CHECKS: tuple[Callable[[Facts], Iterator[Check]], ...] = (
    python,
    torch,
    triton,
    compilers,
    nvml,
    sqlite,
    state_folder,
    engine,
    inotify,
    clock,
    logind,
    terminal,
)
"""Every check, in the order in which they are shown."""
