"""Wrong: the grid counts whole blocks only (`//` for `cdiv`), so what is left of the last block is never written.

Right for every size that 1024 divides. The output starts as zeros and not as `torch.empty`: what is never written
must not look right because the memory held an earlier answer.
"""

import torch
import triton
import triton.language as tl
from definition import A
from torch import Tensor

BLOCK = 1024


@triton.jit
def axpy(z_ptr, x_ptr, y_ptr, a, N, BLOCK: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i)
    y = tl.load(y_ptr + i)
    tl.store(z_ptr + i, a * x + y)


def run(x: Tensor, y: Tensor) -> Tensor:  # [N], [N] -> [N]
    N = x.numel()
    z = torch.zeros_like(x)
    if N >= BLOCK:
        axpy[(N // BLOCK,)](z, x, y, A, N, BLOCK)
    return z
