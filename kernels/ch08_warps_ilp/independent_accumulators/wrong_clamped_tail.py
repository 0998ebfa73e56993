"""Wrong: the last block's addresses are clamped to the row's end instead of masked.

No access is out of bounds, and for a maximum it would be right: reading an element twice changes no maximum. It does
change a sum. Right wherever BLOCK divides N.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 1024


@triton.jit
def row_sum(y_ptr, x_ptr, N, BLOCK: tl.constexpr):
    m = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK)
    sums = tl.zeros([BLOCK], tl.float32)
    for start in range(0, N, BLOCK):
        sums += tl.load(x_ptr + m * N + tl.minimum(start + columns, N - 1))
    tl.store(y_ptr + m, tl.sum(sums, axis=0))


def run(x: Tensor) -> Tensor:  # [M, N] -> [M]
    M, N = x.shape
    y = torch.zeros(M, dtype=x.dtype, device=x.device)
    row_sum[(M,)](y, x, N, BLOCK)
    return y
