"""Blocks of two warps: 32 blocks are 64 warps, and an SM is just full."""

from pathlib import Path

import numpy as np
import torch
from definition import A
from torch import Tensor

from aisp.kernels.cuda import ceil_div, launch, load

axpy = load(Path(__file__).with_name("axpy.cu"), "axpy")
THREADS = 64


def run(x: Tensor, y: Tensor) -> Tensor:  # [N], [N] -> [N]
    N = x.numel()
    z = torch.empty_like(x)
    launch(axpy, ceil_div(N, THREADS), THREADS, z, x, y, np.float32(A), np.int64(N))
    return z
