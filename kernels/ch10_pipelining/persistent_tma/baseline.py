"""Pointers: one program per tile, every thread computes the addresses of what it loads (`cp.async`)."""

import torch
import triton
import triton.language as tl
from tiles import BLOCK_K, BLOCK_M, BLOCK_N, GROUP_M, place
from torch import Tensor


@triton.jit
def matmul_pointers(
    c_ptr, a_ptr, b_ptr, M, N, K: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
):  # fmt: skip
    m0, n0 = place(tl.program_id(0), M, N, BLOCK_M, BLOCK_N, GROUP_M)
    m, n, k = m0 + tl.arange(0, BLOCK_M), n0 + tl.arange(0, BLOCK_N), tl.arange(0, BLOCK_K)
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


def run(a: Tensor, b: Tensor) -> Tensor:  # a [M, K], b [K, N], fp16 -> [M, N] fp16
    M, K = a.shape
    N = b.shape[1]
    c = torch.empty((M, N), dtype=a.dtype, device=a.device)
    grid = (triton.cdiv(M, BLOCK_M) * triton.cdiv(N, BLOCK_N),)
    matmul_pointers[grid](c, a, b, M, N, K, BLOCK_M, BLOCK_N, BLOCK_K, GROUP_M, num_warps=8, num_stages=3)
    return c
