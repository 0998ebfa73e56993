"""Wrong: counts pairs of bf16 and drops the odd element at the end.

bf16 is mostly moved in pairs, 4 bytes each, and `N // 2` pairs are all of it for every even N. The output starts as
zeros, so that stale memory cannot look right.
"""

import torch
import triton
from factor import FACTOR
from optimized_triton import BLOCK, scale_block
from torch import Tensor


def run(x: Tensor) -> Tensor:  # x [N] bf16 -> [N] bf16
    N = x.numel() // 2 * 2
    y = torch.zeros_like(x)
    if N:
        scale_block[(triton.cdiv(N, BLOCK),)](y, x, FACTOR, N, BLOCK)
    return y
