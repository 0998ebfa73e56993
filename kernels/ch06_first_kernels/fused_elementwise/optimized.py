"""Triton: load the three operands, do all the arithmetic in registers, store once."""

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 1024


@triton.jit
def blend(y_ptr, x_ptr, b_ptr, g_ptr, count, BLOCK: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)  # int32 ends at 2**31 elements
    inside = i < count
    x = tl.load(x_ptr + i, mask=inside)
    b = tl.load(b_ptr + i, mask=inside)
    g = tl.load(g_ptr + i, mask=inside)
    tl.store(y_ptr + i, b + g * (x - b), mask=inside)


def run(x: Tensor, b: Tensor, g: Tensor) -> Tensor:  # all [M, N]
    count = x.numel()
    y = torch.empty_like(x)
    blend[(triton.cdiv(count, BLOCK),)](y, x, b, g, count, BLOCK)
    return y
