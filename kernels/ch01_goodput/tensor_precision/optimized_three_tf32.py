"""Triton: every product as three products of TF32 on tensor cores, high x high + high x low + low x high.

A float has 24 significant bits and TF32 keeps 11: two parts hold 22 of them. What is left out, low x low, is 2**-22.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK_M, BLOCK_N, BLOCK_K = 128, 128, 32


@triton.jit
def gemm_tile(
    c_ptr, a_ptr, b_ptr, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):  # fmt: skip
    m = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    a_tile = a_ptr + m.to(tl.int64)[:, None] * K + k[None, :]  # int32 ends at 2**31 elements
    b_tile = b_ptr + k.to(tl.int64)[:, None] * N + n[None, :]
    step = tl.full((), BLOCK_K, tl.int64) * N
    sums = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, K, BLOCK_K):
        a = tl.load(a_tile, mask=(m < M)[:, None] & (k < K - start)[None, :], other=0.0)
        b = tl.load(b_tile, mask=(k < K - start)[:, None] & (n < N)[None, :], other=0.0)
        sums = tl.dot(a, b, sums, input_precision="tf32x3")
        a_tile += BLOCK_K
        b_tile += step
    c_tile = c_ptr + m.to(tl.int64)[:, None] * N + n[None, :]
    tl.store(c_tile, sums, mask=(m < M)[:, None] & (n < N)[None, :])


def run(a: Tensor, b: Tensor) -> Tensor:  # a [M, K], b [K, N] fp32 -> [M, N] fp32
    (M, K), N = a.shape, b.shape[1]
    c = torch.empty((M, N), dtype=a.dtype, device=a.device)
    grid = (triton.cdiv(N, BLOCK_N), triton.cdiv(M, BLOCK_M))
    gemm_tile[grid](c, a, b, M, N, K, BLOCK_M, BLOCK_N, BLOCK_K, num_warps=8, num_stages=3)
    return c
