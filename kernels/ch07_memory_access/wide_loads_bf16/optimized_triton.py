"""Triton, sixteen elements per thread: it sees that they are contiguous and aligned, and makes 16-byte loads."""

import torch
import triton
import triton.language as tl
from factor import FACTOR
from torch import Tensor

BLOCK = 2048


@triton.jit
def scale_block(y_ptr, x_ptr, factor, N, BLOCK: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)  # int32 ends at 2**31 elements
    x = tl.load(x_ptr + i, mask=i < N).to(tl.float32)
    tl.store(y_ptr + i, (x * factor).to(tl.bfloat16), mask=i < N)


def run(x: Tensor) -> Tensor:  # x [N] bf16 -> [N] bf16
    N = x.numel()
    y = torch.empty_like(x)
    scale_block[(triton.cdiv(N, BLOCK),)](y, x, FACTOR, N, BLOCK)
    return y
