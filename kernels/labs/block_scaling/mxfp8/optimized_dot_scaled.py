"""`tl.dot_scaled`: the format is an argument. Blackwell has an instruction for it, for Hopper Triton widens to bf16."""

import triton
import triton.language as tl
from tiles import FEW, few_columns, multiply, place, step_of
from torch import Tensor


@triton.jit
def dot_scaled_tile(
    y_ptr,  # bf16 [M, N], at the strides below
    a_ptr,  # e4m3 [M, K]
    a_scale_ptr,  # uint8 [M, K/GROUP]
    b_ptr,  # e4m3 [N, K]
    b_scale_ptr,  # uint8 [N, K/GROUP]
    M,
    N,
    K,
    y_stride_m,
    y_stride_n,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP: tl.constexpr,
    WHOLE: tl.constexpr,  # K is a multiple of BLOCK_K
):
    tile_m, tile_n = place(M, N, BLOCK_M, BLOCK_N)
    rows = tile_m * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)[None, :]
    group = tl.arange(0, BLOCK_K // GROUP)[None, :]
    row = (rows % M).to(tl.int64)[:, None]
    column = (columns % N).to(tl.int64)[:, None]
    a_at = a_ptr + row * K + k
    b_at = b_ptr + column * K + k
    a_scale_at = a_scale_ptr + row * (K // GROUP) + group
    b_scale_at = b_scale_ptr + column * (K // GROUP) + group

    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, K, BLOCK_K):
        a, a_scale = step_of(a_at, a_scale_at, start, k, group, K, GROUP, WHOLE)
        b, b_scale = step_of(b_at, b_scale_at, start, k, group, K, GROUP, WHOLE)
        total = tl.dot_scaled(a, a_scale, "e4m3", b.T, b_scale, "e4m3", total)  # b_scale stays [BLOCK_N, groups]

    y = y_ptr + rows.to(tl.int64)[:, None] * y_stride_m + columns.to(tl.int64)[None, :] * y_stride_n
    tl.store(y, total.to(tl.bfloat16), mask=(rows < M)[:, None] & (columns < N)[None, :])


def run(a: Tensor, a_scale: Tensor, b: Tensor, b_scale: Tensor) -> Tensor:
    # a e4m3 [M, K], a_scale uint8 [M, K/32], b e4m3 [N, K], b_scale uint8 [N, K/32] -> bf16 [M, N]
    tile = (128, few_columns(len(a)) if len(a) <= FEW else 128, 128)
    return multiply(dot_scaled_tile, a, a_scale, b, b_scale, tile, num_warps=8, num_stages=3)
