"""fp8 tensor cores: every 32 steps of K are a product of their own, scaled by both scales into an fp32 total."""

import triton
import triton.language as tl
from mx import GROUP
from tiles import FEW, few_columns, multiply, place
from torch import Tensor


@triton.jit
def promoted_tile(
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
    BLOCK_K: tl.constexpr,  # GROUP: one step along K is one group of scales
    GROUP: tl.constexpr,
    WHOLE: tl.constexpr,  # always, as K is a multiple of GROUP
):
    tile_m, tile_n = place(M, N, BLOCK_M, BLOCK_N)
    rows = tile_m * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)[None, :]
    row = (rows % M).to(tl.int64)
    column = (columns % N).to(tl.int64)
    a_at = a_ptr + row[:, None] * K + k
    b_at = b_ptr + column[:, None] * K + k
    a_scale_at = a_scale_ptr + row * (K // GROUP)
    b_scale_at = b_scale_ptr + column * (K // GROUP)

    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for group in range(0, K // GROUP):
        a = tl.load(a_at + group * GROUP)
        b = tl.load(b_at + group * GROUP)
        a_power = (tl.load(a_scale_at + group).to(tl.uint32) << 23).to(tl.float32, bitcast=True)
        b_power = (tl.load(b_scale_at + group).to(tl.uint32) << 23).to(tl.float32, bitcast=True)
        # A multiplication and a multiply-add for each element of the tile, where the tensor core did 32.
        total += tl.dot(a, b.T) * a_power[:, None] * b_power[None, :]

    y = y_ptr + rows.to(tl.int64)[:, None] * y_stride_m + columns.to(tl.int64)[None, :] * y_stride_n
    tl.store(y, total.to(tl.bfloat16), mask=(rows < M)[:, None] & (columns < N)[None, :])


def run(a: Tensor, a_scale: Tensor, b: Tensor, b_scale: Tensor) -> Tensor:
    # a e4m3 [M, K], a_scale uint8 [M, K/32], b e4m3 [N, K], b_scale uint8 [N, K/32] -> bf16 [M, N]
    tile = (64, few_columns(len(a)) if len(a) <= FEW else 128, GROUP)
    # 168 registers for each of 128 threads: three programs on a multiprocessor, and one scales while one multiplies.
    return multiply(promoted_tile, a, a_scale, b, b_scale, tile, num_warps=4, num_stages=5, maxnreg=168)
