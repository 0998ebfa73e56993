"""Wrong: walks along K in steps of 128 and takes one scale for each, the first of the four that are there.

It is the loop of fp8 with a scale for 128 values, kept when the format became finer. Neighbouring scales of a real
model are mostly equal or a factor of two apart, so that many results are nearly right.
"""

import triton
import triton.language as tl
from mx import GROUP
from tiles import multiply, place
from torch import Tensor


@triton.jit
def coarse_tile(
    y_ptr, a_ptr, a_scale_ptr, b_ptr, b_scale_ptr, M, N, K, y_stride_m, y_stride_n,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP: tl.constexpr, WHOLE: tl.constexpr,
):  # fmt: skip
    tile_m, tile_n = place(M, N, BLOCK_M, BLOCK_N)
    rows = tile_m * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
    row = (rows % M).to(tl.int64)
    column = (columns % N).to(tl.int64)
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, K, BLOCK_K):
        k = start + tl.arange(0, BLOCK_K)[None, :]
        a = tl.load(a_ptr + row[:, None] * K + k, mask=k < K, other=0.0)
        b = tl.load(b_ptr + column[:, None] * K + k, mask=k < K, other=0.0)
        a_byte = tl.load(a_scale_ptr + row * (K // GROUP) + start // GROUP)
        b_byte = tl.load(b_scale_ptr + column * (K // GROUP) + start // GROUP)
        a_power = (a_byte.to(tl.uint32) << 23).to(tl.float32, bitcast=True)
        b_power = (b_byte.to(tl.uint32) << 23).to(tl.float32, bitcast=True)
        total += tl.dot(a, b.T) * a_power[:, None] * b_power[None, :]
    y = y_ptr + rows.to(tl.int64)[:, None] * y_stride_m + columns.to(tl.int64)[None, :] * y_stride_n
    tl.store(y, total.to(tl.bfloat16), mask=(rows < M)[:, None] & (columns < N)[None, :])


def run(a: Tensor, a_scale: Tensor, b: Tensor, b_scale: Tensor) -> Tensor:
    # a e4m3 [M, K], a_scale uint8 [M, K/32], b e4m3 [N, K], b_scale uint8 [N, K/32] -> bf16 [M, N]
    return multiply(coarse_tile, a, a_scale, b, b_scale, (64, 64, 4 * GROUP), num_warps=4, num_stages=3)
