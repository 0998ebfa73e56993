"""One launch of our own: a program per tile of 128x128, and the batch as one more dimension of the grid."""

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK_M, BLOCK_N, BLOCK_K = 128, 128, 64


@triton.jit
def bmm_tile(
    c_ptr, a_ptr, b_ptr, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):  # fmt: skip
    # The batch is the grid's first dimension: the others end at 65535.
    pair = tl.program_id(0).to(tl.int64)  # int32 ends at 2**31 elements
    m = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(2) * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    a_tile = a_ptr + pair * M * K + m.to(tl.int64)[:, None] * K + k[None, :]
    b_tile = b_ptr + pair * K * N + k.to(tl.int64)[:, None] * N + n[None, :]
    sums = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, K, BLOCK_K):
        a = tl.load(a_tile, mask=(m < M)[:, None] & (k < K - start)[None, :], other=0.0)
        b = tl.load(b_tile, mask=(k < K - start)[:, None] & (n < N)[None, :], other=0.0)
        sums = tl.dot(a, b, sums)
        a_tile += BLOCK_K
        b_tile += BLOCK_K * N
    c_tile = c_ptr + pair * M * N + m.to(tl.int64)[:, None] * N + n[None, :]
    tl.store(c_tile, sums.to(tl.float16), mask=(m < M)[:, None] & (n < N)[None, :])


def run(a: Tensor, b: Tensor) -> Tensor:  # a [B, M, K], b [B, K, N] fp16 -> [B, M, N] fp16
    (B, M, K), N = a.shape, b.shape[2]
    c = torch.empty((B, M, N), dtype=a.dtype, device=a.device)
    grid = (B, triton.cdiv(M, BLOCK_M), triton.cdiv(N, BLOCK_N))
    bmm_tile[grid](c, a, b, M, N, K, BLOCK_M, BLOCK_N, BLOCK_K, num_warps=8, num_stages=3)
    return c
