"""The Triton kernel that the fused rungs share: a tile of gelu(x w^T + b), GELU applied to the accumulator.

GELU by its tanh formula, with tanh written as a sigmoid: 0.5 (1 + tanh(z)) = sigmoid(2 z), one exp and one
division.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

GROUP_M = 8  # tiles of this many block rows share a stretch of w while it is in the L2


@triton.jit
def gelu_tanh(h):
    z = 0.7978845608028654 * (h + 0.044715 * h * h * h)  # sqrt(2 / pi)
    return h * tl.sigmoid(2.0 * z)


@triton.jit
def linear_gelu_tile(
    y_ptr, x_ptr, w_ptr, b_ptr, M, N, K: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
    UPCAST: tl.constexpr,
):  # fmt: skip
    # Walk the tiles in bands of GROUP_M block rows, column by column inside a band.
    tiles_m, tiles_n = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    band = tl.program_id(0) // (GROUP_M * tiles_n)
    height = min(tiles_m - band * GROUP_M, GROUP_M)
    within = tl.program_id(0) % (GROUP_M * tiles_n)
    m = (band * GROUP_M + within % height) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = (within // height) * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)

    # Rows beyond the edge wrap around and are computed for nothing: cheaper than a mask on every load.
    x_tile = x_ptr + (m % M).to(tl.int64)[:, None] * K + k[None, :]
    w_tile = w_ptr + (n % N).to(tl.int64)[None, :] * K + k[:, None]
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, K, BLOCK_K):
        if K % BLOCK_K == 0:
            x = tl.load(x_tile)
            w = tl.load(w_tile)
        else:
            x = tl.load(x_tile, mask=(start + k < K)[None, :], other=0.0)
            w = tl.load(w_tile, mask=(start + k < K)[:, None], other=0.0)
        if UPCAST:  # Triton's interpreter has no bf16 arithmetic; a GPU would lose its fast path
            x = x.to(tl.float32)
            w = w.to(tl.float32)
        acc = tl.dot(x, w, acc)
        x_tile += BLOCK_K
        w_tile += BLOCK_K

    # The epilogue: all in registers, on values that would otherwise make two more trips through HBM.
    bias = tl.load(b_ptr + n, mask=n < N, other=0.0).to(tl.float32)
    y = gelu_tanh(acc + bias[None, :])
    y_tile = y_ptr + m.to(tl.int64)[:, None] * N + n[None, :]
    tl.store(y_tile, y.to(tl.bfloat16), mask=(m < M)[:, None] & (n < N)[None, :])


def linear_gelu(
    x: Tensor,
    w: Tensor,
    b: Tensor,
    *,
    block_m: int,
    block_n: int,
    block_k: int,
    num_warps: int,
    num_stages: int,
) -> Tensor:
    """gelu(x w^T + b) for x [M, K], w [N, K], b [N], all bf16 and contiguous -> [M, N] bf16."""
    M, K = x.shape
    N = w.shape[0]
    y = torch.empty((M, N), dtype=x.dtype, device=x.device)
    grid = (triton.cdiv(M, block_m) * triton.cdiv(N, block_n),)
    linear_gelu_tile[grid](
        y, x, w, b, M, N, K, block_m, block_n, block_k, GROUP_M, not x.is_cuda,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return y
