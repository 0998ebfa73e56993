"""The sum of each strip of columns, over some of the rows: the piece that all our rungs are built of.

A program owns BLOCK_N columns of `rows` rows. It keeps a whole tile of partial sums in registers, [BLOCK_M, BLOCK_N],
adds one tile of x after the other to it, and folds the tile's rows at the end. BLOCK_M x BLOCK_N x 4 B = 16 KiB are
asked for at once, as much of them in flight as the compiler has registers for, and no addition waits for the one before
it in its own column.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK_M = 64
BLOCK_N = 64  # 256 bytes in a row of the tile: two whole lines

ROWS = 1024  # of one program, where rows are split over several


@triton.jit
def strip_sums(
    out_ptr, x_ptr, M, N, rows, ATOMIC: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):  # fmt: skip
    n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    split = tl.program_id(1)
    first = split * rows
    end = tl.minimum(first + rows, M)  # a program must not count its neighbour's rows
    sums = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(first, end, BLOCK_M):
        m = start + tl.arange(0, BLOCK_M)
        tile = x_ptr + m.to(tl.int64)[:, None] * N + n[None, :]  # int32 ends at 2**31 elements
        sums += tl.load(tile, mask=(m < end)[:, None] & (n < N)[None, :], other=0.0)
    if ATOMIC:
        tl.atomic_add(out_ptr + n, tl.sum(sums, axis=0), mask=n < N, sem="relaxed")
    else:
        tl.store(out_ptr + split.to(tl.int64) * N + n, tl.sum(sums, axis=0), mask=n < N)


def partial_sums(x: Tensor, *, rows: int) -> Tensor:
    """Column sums of every `rows` rows of x [M, N]: [ceil(M / rows), N]."""
    M, N = x.shape
    splits = triton.cdiv(M, rows)
    out = torch.empty((splits, N), dtype=x.dtype, device=x.device)
    strip_sums[(triton.cdiv(N, BLOCK_N), splits)](out, x, M, N, rows, False, BLOCK_M, BLOCK_N)
    return out
