"""Wrong: hands the kernel the number of vectors where it counts elements, and scales the first quarter.

Four times fewer bytes: the "speed-up" is 4 where the honest one is 1, and a glance at y[:1000] finds nothing.
"""

import torch
import triton
from factor import FACTOR
from optimized_triton import BLOCK, scale_block
from torch import Tensor

WIDTH = 4


def run(x: Tensor) -> Tensor:  # x [N] -> [N]
    N = x.numel() // WIDTH
    y = torch.zeros_like(x)
    if N:
        scale_block[(triton.cdiv(N, BLOCK),)](y, x, FACTOR, N, BLOCK)
    return y
