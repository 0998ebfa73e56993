"""Blocks of one warp as in the baseline, half the warps of an SM, but each thread asks for four times the bytes."""

from pathlib import Path

import numpy as np
import torch
from definition import A
from torch import Tensor

from aisp.kernels.cuda import ceil_div, launch, load

axpy = load(Path(__file__).with_name("axpy.cu"), "axpy_wide")
THREADS = 32
PER_THREAD = 4


def run(x: Tensor, y: Tensor) -> Tensor:  # [N], [N] -> [N]
    N = x.numel()
    z = torch.empty_like(x)
    launch(axpy, ceil_div(N, THREADS * PER_THREAD), THREADS, z, x, y, np.float32(A), np.int64(N))
    return z
