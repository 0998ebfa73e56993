"""Blocks of eight warps: an SM is full with 8 blocks, and there is an eighth as many to start."""

from pathlib import Path

import numpy as np
import torch
from definition import A
from torch import Tensor

from aisp.kernels.cuda import ceil_div, launch, load

axpy = load(Path(__file__).with_name("axpy.cu"), "axpy")
THREADS = 256


def run(x: Tensor, y: Tensor) -> Tensor:  # [N], [N] -> [N]
    N = x.numel()
    z = torch.empty_like(x)
    launch(axpy, ceil_div(N, THREADS), THREADS, z, x, y, np.float32(A), np.int64(N))
    return z
