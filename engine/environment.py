"""What a result depends on beside the sources: host, kernel, driver, libraries, git revision. Names and versions
only; of the environment variables, a fixed list of names and nothing else.
"""

from __future__ import annotations

import os
import platform
import re
import sqlite3
from pathlib import Path

from engine.clean import clean_line
from engine.protocol import reports

VARIABLE_NAMES = (
    "CUDA_VISIBLE_DEVICES", "CUDA_LAUNCH_BLOCKING", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "PYTORCH_CUDA_ALLOC_CONF",
    "PYTORCH_ALLOC_CONF", "TORCH_CUDNN_SDPA_DEPRIORITIZED", "NVIDIA_TF32_OVERRIDE", "NCCL_NVLS_ENABLE",
)  # fmt: skip


def describe(ready: reports.Ready, driver: str, folder: Path) -> dict[str, object]:
    """The environment of a run, as plain data for the store."""
    return {
        "host": clean_line(platform.node()),
        "kernel": platform.release(),
        "machine": platform.machine(),
        "cpu": _cpu_name(),
        "cores": os.cpu_count() or 0,
        "worker_cores": list(ready.cores),
        "gpu": ready.gpu_name,
        "gpu_uuid": ready.gpu_uuid,
        "sm": ready.sm,
        "gpu_memory_bytes": ready.memory_bytes,
        "l2_bytes": ready.l2_bytes,
        "driver": driver,
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
            if _is_hash(found := _read(base / ref)):
                return found
        lines = _read(common / "packed-refs").splitlines()
        packed = next((line.partition(" ")[0] for line in lines if line.partition(" ")[2] == ref), "")
        return packed if _is_hash(packed) else ""
    return ""


def _read(path: Path) -> str:
    """A small file's text, names that are no UTF-8 as the file system gives them; "" where it cannot be read."""
    try:
        return os.fsdecode(path.read_bytes()).strip()
    except (OSError, ValueError):
        return ""


def _is_hash(text: str) -> bool:
    return re.fullmatch(r"[0-9a-f]{40}|[0-9a-f]{64}", text) is not None
