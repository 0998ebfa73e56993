"""The Triton matmul that all rungs share: c = a b, one 128x256 tile per program, the depth of its pipeline given.

fp16 in, fp32 accumulator, fp16 out. A stage is one block of a (128 x 64) and one of b (64 x 256) in shared memory:
16 + 32 KB. `num_stages` is how many of them the compiler keeps, and so how many loads run ahead of the multiply.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK_M, BLOCK_N, BLOCK_K = 128, 256, 64
GROUP_M = 8  # tiles of this many block rows share a stretch of b while it is in the L2


@triton.jit
def matmul_tile(
    c_ptr, a_ptr, b_ptr, M, N, K: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
):  # fmt: skip
    # Walk the tiles in bands of GROUP_M block rows, column by column inside a band.
    tiles_m, tiles_n = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    band = tl.program_id(0) // (GROUP_M * tiles_n)
    height = min(tiles_m - band * GROUP_M, GROUP_M)
    within = tl.program_id(0) % (GROUP_M * tiles_n)
    m = (band * GROUP_M + within % height) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = (within // height) * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)

    # Rows and columns beyond the edge wrap around and are computed for nothing: cheaper than a mask on every load.
    a_tile = a_ptr + (m % M).to(tl.int64)[:, None] * K + k[None, :]
    b_tile = b_ptr + k.to(tl.int64)[:, None] * N + (n % N)[None, :]
    b_step = tl.cast(N, tl.int64) * BLOCK_K
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, K, BLOCK_K):
        if K % BLOCK_K == 0:
            a = tl.load(a_tile)
            b = tl.load(b_tile)
        else:
            a = tl.load(a_tile, mask=(start + k < K)[None, :], other=0.0)
            b = tl.load(b_tile, mask=(start + k < K)[:, None], other=0.0)
        acc = tl.dot(a, b, acc)
        a_tile += BLOCK_K
        b_tile += b_step

    c_tile = c_ptr + m.to(tl.int64)[:, None] * N + n[None, :]
    tl.store(c_tile, acc.to(tl.float16), mask=(m < M)[:, None] & (n < N)[None, :])


def matmul(a: Tensor, b: Tensor, *, num_stages: int) -> Tensor:
    """a b for a [M, K], b [K, N], both fp16 and contiguous -> [M, N] fp16."""
    M, K = a.shape
    N = b.shape[1]
    c = torch.empty((M, N), dtype=a.dtype, device=a.device)
    grid = (triton.cdiv(M, BLOCK_M) * triton.cdiv(N, BLOCK_N),)
    matmul_tile[grid](
        c, a, b, M, N, K, BLOCK_M, BLOCK_N, BLOCK_K, GROUP_M, num_warps=8, num_stages=num_stages
    )  # fmt: skip
    return c
