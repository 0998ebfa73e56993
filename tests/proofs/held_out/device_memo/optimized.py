"""One kernel for all terms, which notes the checksum of each tile."""

import torch
import triton
import triton.language as tl
from torch import Tensor

TERMS, BLOCK = 64, 1024


@triton.jit
def series(y_ptr, sums_ptr, x_ptr, N, TERMS: tl.constexpr, BLOCK: tl.constexpr):
    tile = tl.program_id(0)
    at = tile * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < N, other=0.0)
    checksum = tl.sum(x * (1.0 + at % 7), axis=0)
    y = tl.zeros((BLOCK,), tl.float32)
    for k in range(1, TERMS + 1):
        y += tl.sin(x * k) / k
    tl.store(y_ptr + at, y, mask=at < N)
    tl.store(sums_ptr + tile, checksum)


def run(x: Tensor) -> Tensor:  # x [N] fp32 -> [N]
    tiles = triton.cdiv(x.numel(), BLOCK)
    y, sums = torch.empty_like(x), torch.empty(tiles, device=x.device)
    series[(tiles,)](y, sums, x, x.numel(), TERMS, BLOCK)
    return y
