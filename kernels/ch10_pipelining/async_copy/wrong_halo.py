"""Wrong: each tile is filtered by itself, and what lies beyond its end counts as zero.

The 32 floats that a tile shares with the next one, its halo, are not loaded. Of every 1024 outputs the last 32 are
wrong, which an average over all of them hardly shows.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor


@triton.jit
def fir_row(y_ptr, x_ptr, w_ptr, N, TAPS: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    i = tl.arange(0, BLOCK)
    n = tl.program_id(1) * BLOCK + i
    inside = n < N
    window = x_ptr + row * (N + TAPS - 1) + n
    y = tl.zeros((BLOCK,), dtype=tl.float32)
    for t in range(TAPS):
        y += tl.load(w_ptr + t) * tl.load(window + t, mask=inside & (i + t < BLOCK), other=0.0)
    tl.store(y_ptr + row * N + n, y, mask=inside)


def run(x: Tensor, w: Tensor) -> Tensor:  # x [M, N + 32], w [33] -> [M, N]
    TAPS = len(w)
    M, N = x.shape[0], x.shape[1] - (TAPS - 1)
    y = torch.zeros((M, N), dtype=x.dtype, device=x.device)
    fir_row[(M, triton.cdiv(N, 1024))](y, x, w, N, TAPS, 1024)
    return y
