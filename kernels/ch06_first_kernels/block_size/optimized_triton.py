"""In Triton: programs of 1024 elements on 4 warps, 8 elements a thread, in loads as wide as the compiler can prove."""

import torch
import triton
import triton.language as tl
from definition import A
from torch import Tensor

BLOCK = 1024


@triton.jit
def axpy(z_ptr, x_ptr, y_ptr, a, N, BLOCK: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)  # int32 ends at 2**31 elements
    inside = i < N
    x = tl.load(x_ptr + i, mask=inside)
    y = tl.load(y_ptr + i, mask=inside)
    tl.store(z_ptr + i, a * x + y, mask=inside)


def run(x: Tensor, y: Tensor) -> Tensor:  # [N], [N] -> [N]
    N = x.numel()
    z = torch.empty_like(x)
    axpy[(triton.cdiv(N, BLOCK),)](z, x, y, A, N, BLOCK)
    return z
