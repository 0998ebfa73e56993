"""Wrong: the fused kernel takes the second operand for one row that is repeated, as a bias would be.

Right for M = 1, where such a kernel is often tried first, and right in the first row for every M.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 1024


@triton.jit
def blend(y_ptr, x_ptr, b_ptr, g_ptr, count, N, BLOCK: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = i < count
    x = tl.load(x_ptr + i, mask=inside)
    b = tl.load(b_ptr + i % N, mask=inside)
    g = tl.load(g_ptr + i, mask=inside)
    tl.store(y_ptr + i, b + g * (x - b), mask=inside)


def run(x: Tensor, b: Tensor, g: Tensor) -> Tensor:  # all [M, N]
    count = x.numel()
    y = torch.zeros_like(x)
    blend[(triton.cdiv(count, BLOCK),)](y, x, b, g, count, x.shape[1], BLOCK)
    return y
