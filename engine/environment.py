"""What a result depends on beside the sources: host, kernel, driver, libraries, git revision. Names and versions
only; of the environment variables, a fixed list of names and nothing else.
"""

from __future__ import annotations

import os
import platform
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
    """Commit id of the checkout that `folder` is in, read from .git without running git; "" outside of one."""
    for place in (folder, *folder.parents):
        git = place / ".git"
        try:
            if git.is_file():  # a work tree: "gitdir: PATH"
                git = (place / git.read_text().partition(":")[2].strip()).resolve()
            head = (git / "HEAD").read_text().strip()
        except (OSError, UnicodeDecodeError):
            continue
        if not head.startswith("ref:"):
            return head[:40]
        ref = head.partition(":")[2].strip()
        common = git
        try:
            common = (git / (git / "commondir").read_text().strip()).resolve()
        except OSError:
            common = git  # the main work tree has no such file
        for base in (git, common):
            try:
                return (base / ref).read_text().strip()[:40]
            except OSError:
                continue
        try:
            for line in (common / "packed-refs").read_text().splitlines():
                if line.endswith(" " + ref):
                    return line.split()[0]
        except OSError:
            return ""
        return ""
    return ""
