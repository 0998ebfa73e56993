"""Asks a program for the size of a cache at import."""

import subprocess

import torch
from torch import Tensor

_said = subprocess.run(["getconf", "LEVEL2_CACHE_SIZE"], capture_output=True, text=True, check=False).stdout.strip()
ROWS = max(8, (int(_said) if _said.isdigit() else 1 << 20) // 32768)


def run(x: Tensor, w: Tensor, b: Tensor) -> Tensor:  # x [M, K], w [K, N], b [N] -> [M, N]
    return torch.cat([torch.addmm(b, part, w) for part in x.split(ROWS)]).relu_()
