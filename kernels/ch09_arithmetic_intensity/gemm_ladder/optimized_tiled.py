"""Operands from 32x32 tiles in shared memory: each element is fetched once for 32 threads."""

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from aisp.kernels.cuda import ceil_div, launch, load

gemm = load(Path(__file__).with_name("gemm.cu"), "gemm_tiled")


def run(a: Tensor, b: Tensor) -> Tensor:  # a [M, K], b [K, N] fp16 -> [M, N] fp16
    (M, K), N = a.shape, b.shape[1]
    c = torch.empty((M, N), dtype=a.dtype, device=a.device)
    sizes = (np.int32(M), np.int32(N), np.int32(K))
    launch(gemm, (ceil_div(N, 32), ceil_div(M, 32)), (32, 32), c, a, b, *sizes)
    return c
