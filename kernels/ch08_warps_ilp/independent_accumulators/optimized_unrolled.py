"""Eight loads before the first addition, still one accumulator: 32 bytes under way per thread."""

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from aisp.kernels.cuda import launch, load

row_sum = load(Path(__file__).with_name("row_sum.cu"), "row_sum_unrolled", macros={"LOADS": 8, "ACCUMULATORS": 1})
THREADS = 256


def run(x: Tensor) -> Tensor:  # [M, N] -> [M]
    M, N = x.shape
    y = torch.empty(M, dtype=x.dtype, device=x.device)
    launch(row_sum, M, THREADS, y, x, np.int64(N))
    return y
