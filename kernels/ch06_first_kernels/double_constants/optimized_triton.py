"""Triton: a Python float takes the dtype of the tensor that it meets, so 0.1 is an fp32 here without a letter."""

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 1024


@triton.jit
def leaky(y_ptr, x_ptr, N, STEPS: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)  # int32 ends at 2**31 elements
    inside = i < N
    x = tl.load(x_ptr + i, mask=inside)
    acc = tl.full([BLOCK], 0.1, tl.float32)
    for _ in range(STEPS):
        acc = acc * x + 0.1
    tl.store(y_ptr + i, acc, mask=inside)


def run(x: Tensor, steps: Tensor) -> Tensor:  # [N], scalar on the host -> [N]
    N = x.numel()
    y = torch.empty_like(x)
    leaky[(triton.cdiv(N, BLOCK),)](y, x, N, int(steps), BLOCK)
    return y
