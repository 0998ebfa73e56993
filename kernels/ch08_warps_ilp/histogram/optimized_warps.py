"""A set of counters for each warp: warps do not meet any more, lanes of a warp still do."""

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from aisp.kernels.cuda import ceil_div, launch, load

histogram = load(Path(__file__).with_name("histogram.cu"), "histogram_warps")
THREADS = 1024
BLOCKS = 264  # at most: two for each of 132 SMs, which fill them


def run(x: Tensor) -> Tensor:  # [N] uint8 -> [256] int64
    N = x.numel()
    counts = torch.zeros(256, dtype=torch.int64, device=x.device)
    launch(histogram, min(ceil_div(N, 16 * THREADS), BLOCKS), THREADS, counts, x, np.int64(N))
    return counts
