"""Wrong: unrolled by four, and what is left after the last whole step is never added.

The loop that takes the remainder looks like dead code in every test whose row length is a multiple of 4096.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 1024


@triton.jit
def row_sum(y_ptr, x_ptr, N, BLOCK: tl.constexpr):
    row = x_ptr + tl.program_id(0).to(tl.int64) * N + tl.arange(0, BLOCK)
    first = tl.zeros([BLOCK], tl.float32)
    second = tl.zeros([BLOCK], tl.float32)
    third = tl.zeros([BLOCK], tl.float32)
    fourth = tl.zeros([BLOCK], tl.float32)
    for start in range(0, N // (4 * BLOCK) * (4 * BLOCK), 4 * BLOCK):
        first += tl.load(row + start)
        second += tl.load(row + start + BLOCK)
        third += tl.load(row + start + 2 * BLOCK)
        fourth += tl.load(row + start + 3 * BLOCK)
    tl.store(y_ptr + tl.program_id(0), tl.sum((first + second) + (third + fourth), axis=0))


def run(x: Tensor) -> Tensor:  # [M, N] -> [M]
    M, N = x.shape
    y = torch.zeros(M, dtype=x.dtype, device=x.device)
    row_sum[(M,)](y, x, N, BLOCK)
    return y
