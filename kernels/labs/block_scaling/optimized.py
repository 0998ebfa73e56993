"""Triton: fp8 goes into the tensor cores, and every 128 steps of K the partial sum is scaled into an fp32 total."""

import torch
import triton
import triton.language as tl
from blocks import BLOCK
from torch import Tensor


@triton.jit
def place(M, N, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, GROUP: tl.constexpr):
    """Row and column, in tiles, of this program's tile: bands of GROUP row tiles, in them column after column."""
    tiles_m = tl.cdiv(M, BLOCK_M)
    tiles_n = tl.cdiv(N, BLOCK_N)
    program = tl.program_id(0)
    band = program // (GROUP * tiles_n)
    height = tl.minimum(tiles_m - band * GROUP, GROUP)
    return band * GROUP + (program % (GROUP * tiles_n)) % height, (program % (GROUP * tiles_n)) // height


@triton.jit
def block_scaled_tile(
    y_ptr,  # bf16 [M, N]
    a_ptr,  # fp8 [M, K]
    a_scale_ptr,  # fp32 [ceil(K/128), M]: the scales of a tile's rows lie side by side
    b_ptr,  # fp8 [N, K]
    b_scale_ptr,  # fp32, one per 128 x 128 weights, at the strides below
    M,
    N,
    K,
    b_scale_stride_n,
    b_scale_stride_k,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,  # 128, or a divisor: one tile must not need two of the weights' scales
    BLOCK_K: tl.constexpr,  # 128: one step along K is one block of scales
    GROUP: tl.constexpr,  # this many row tiles share a column tile before the next: their operands meet in the L2
):
    tile_m, tile_n = place(M, N, BLOCK_M, BLOCK_N, GROUP)
    rows = tile_m * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
    a_rows = a_ptr + rows.to(tl.int64)[:, None] * K  # int32 ends at 2**31 elements
    b_columns = b_ptr + columns.to(tl.int64)[None, :] * K
    b_scales = b_scale_ptr + (tile_n * BLOCK_N // BLOCK_K) * b_scale_stride_n

    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for step in range(0, tl.cdiv(K, BLOCK_K)):
        k = step * BLOCK_K + tl.arange(0, BLOCK_K)
        a = tl.load(a_rows + k[None, :], mask=(rows < M)[:, None] & (k < K)[None, :], other=0.0)
        b = tl.load(b_columns + k[:, None], mask=(columns < N)[None, :] & (k < K)[:, None], other=0.0)
        row_scale = tl.load(a_scale_ptr + step * M + rows, mask=rows < M, other=0.0)
        block_scale = tl.load(b_scales + step * b_scale_stride_k)
        # A fresh accumulator for each step. The scales differ from step to step, so the tensor core cannot carry
        # its own sum on; and that sum has fewer bits than fp32, so it should not be long anyway.
        partial = tl.dot(a, b)
        total += partial * (row_scale * block_scale)[:, None]

    y = y_ptr + rows.to(tl.int64)[:, None] * N + columns[None, :]
    tl.store(y, total.to(tl.bfloat16), mask=(rows < M)[:, None] & (columns < N)[None, :])


def tile(M: int) -> tuple[int, int, int]:
    """BLOCK_M, BLOCK_N and the number of warps for M rows: what fills a tile, down to the tensor core's 16 rows."""
    rows = min(max(triton.next_power_of_2(M), 16), 128)
    return (rows, 128, 8) if rows == 128 else (rows, 64, 4)


def run(a: Tensor, a_scale: Tensor, b: Tensor, b_scale: Tensor) -> Tensor:
    # a fp8 [M, K], a_scale [ceil(K/128), M], b fp8 [N, K], b_scale [ceil(N/128), ceil(K/128)] -> bf16 [M, N]
    M, K = a.shape
    N = b.shape[0]
    y = torch.empty((M, N), dtype=torch.bfloat16, device=a.device)
    rows, columns, num_warps = tile(M)
    block_scaled_tile[(triton.cdiv(M, rows) * triton.cdiv(N, columns),)](
        y, a, a_scale, b, b_scale, M, N, K, b_scale.shape[1], 1, rows, columns, BLOCK, 8, num_warps=num_warps,
        num_stages=4,
    )  # fmt: skip
    return y
