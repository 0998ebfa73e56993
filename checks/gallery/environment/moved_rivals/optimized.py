"""One product; a child binds and limits itself alone, as a helper may."""

import subprocess
import sys

import torch

_CHILD = """import os, resource

os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
os.setpriority(os.PRIO_PROCESS, 0, 19)
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
"""

subprocess.run([sys.executable, "-c", _CHILD], check=True)


def run(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.mm(a, b)
