"""Triton with the same tile and depth: its compiler writes wgmma, and cp.async for the pointers."""

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK_M, BLOCK_N, BLOCK_K, GROUP_M = 128, 256, 64, 8


@triton.jit
def gemm_tile(
    c_ptr, a_ptr, b_ptr, M, N, K: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
):  # fmt: skip
    tiles_m, tiles_n = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    band = tl.program_id(0) // (GROUP_M * tiles_n)
    height = min(tiles_m - band * GROUP_M, GROUP_M)
    within = tl.program_id(0) % (GROUP_M * tiles_n)
    m = (band * GROUP_M + within % height) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = (within // height) * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    # Rows beyond the edge wrap around and are computed for nothing: cheaper than a mask on every load.
    a_tile = a_ptr + (m % M).to(tl.int64)[:, None] * K + k[None, :]
    b_tile = b_ptr + (n % N).to(tl.int64)[None, :] * K + k[:, None]
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
        b_tile += BLOCK_K
    c_tile = c_ptr + m.to(tl.int64)[:, None] * N + n[None, :]
    tl.store(c_tile, acc.to(tl.float16), mask=(m < M)[:, None] & (n < N)[None, :])


def run(a: Tensor, b: Tensor) -> Tensor:  # a [M, K], b [N, K], fp16 -> [M, N] fp16
    (M, K), N = a.shape, b.shape[0]
    c = torch.empty((M, N), dtype=a.dtype, device=a.device)
    grid = (triton.cdiv(M, BLOCK_M) * triton.cdiv(N, BLOCK_N),)
    gemm_tile[grid](c, a, b, M, N, K, BLOCK_M, BLOCK_N, BLOCK_K, GROUP_M, num_warps=8, num_stages=4)
    return c
