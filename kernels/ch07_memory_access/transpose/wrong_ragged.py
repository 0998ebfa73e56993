"""Wrong: the grid counts whole tiles only (`//` for `cdiv`), so the last rows and columns are never written.

Right wherever 64 divides both sizes, which is every size that one tries first. The output starts as zeros
and not as `torch.empty`: what is never written must not look right because the memory held an earlier answer.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 64


@triton.jit
def transpose_tile(y_ptr, x_ptr, M, N, BLOCK: tl.constexpr):
    r = (tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)).to(tl.int64)
    c = (tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)).to(tl.int64)
    tile = tl.load(x_ptr + r[:, None] * N + c[None, :])
    tl.store(y_ptr + c[:, None] * M + r[None, :], tl.trans(tile))


def run(x: Tensor) -> Tensor:  # [M, N] -> [N, M]
    M, N = x.shape
    y = torch.zeros((N, M), dtype=x.dtype, device=x.device)
    transpose_tile[(N // BLOCK, M // BLOCK)](y, x, M, N, BLOCK)
    return y
