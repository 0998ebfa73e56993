"""Wrong: the cure overdone. The constant is kept in fp16, where the nearest number to 0.1 is 0.09998.

The arithmetic is fp32 and every digit of it is right; each output is too small by one part in 4096.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 1024


@triton.jit
def leaky(y_ptr, x_ptr, N, STEPS: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = i < N
    x = tl.load(x_ptr + i, mask=inside)
    constant = tl.full([BLOCK], 0.1, tl.float16).to(tl.float32)
    acc = constant
    for _ in range(STEPS):
        acc = acc * x + constant
    tl.store(y_ptr + i, acc, mask=inside)


def run(x: Tensor, steps: Tensor) -> Tensor:  # [N], scalar on the host -> [N]
    N = x.numel()
    y = torch.zeros_like(x)
    leaky[(triton.cdiv(N, BLOCK),)](y, x, N, int(steps), BLOCK)
    return y
