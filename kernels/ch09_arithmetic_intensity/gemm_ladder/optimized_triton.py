"""The same tile of c in Triton: the compiler picks the instructions, on Hopper wgmma, and pipelines the loads."""

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK_M, BLOCK_N, BLOCK_K = 128, 128, 64


@triton.jit
def gemm_tile(
    c_ptr, a_ptr, b_ptr, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):  # fmt: skip
    m = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    a_tile = a_ptr + m.to(tl.int64)[:, None] * K + k[None, :]  # int32 ends at 2**31 elements
    b_tile = b_ptr + k.to(tl.int64)[:, None] * N + n[None, :]
    sums = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, K, BLOCK_K):
        a = tl.load(a_tile, mask=(m < M)[:, None] & (k < K - start)[None, :], other=0.0)
        b = tl.load(b_tile, mask=(k < K - start)[:, None] & (n < N)[None, :], other=0.0)
        sums = tl.dot(a, b, sums)
        a_tile += BLOCK_K
        b_tile += BLOCK_K * N
    c_tile = c_ptr + m.to(tl.int64)[:, None] * N + n[None, :]
    tl.store(c_tile, sums.to(tl.float16), mask=(m < M)[:, None] & (n < N)[None, :])


def run(a: Tensor, b: Tensor) -> Tensor:  # a [M, K], b [K, N] fp16 -> [M, N] fp16
    (M, K), N = a.shape, b.shape[1]
    c = torch.empty((M, N), dtype=a.dtype, device=a.device)
    grid = (triton.cdiv(N, BLOCK_N), triton.cdiv(M, BLOCK_M))
    gemm_tile[grid](c, a, b, M, N, K, BLOCK_M, BLOCK_N, BLOCK_K, num_warps=8, num_stages=3)
    return c
