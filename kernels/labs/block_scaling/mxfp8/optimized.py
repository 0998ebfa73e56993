"""Triton: fp8 tiles become scaled bf16 in registers, on their way into bf16 tensor cores; nothing is written back."""

from typing import Any

import triton
import triton.language as tl
from tiles import FEW, few_columns, multiply, place, step_of
from torch import Tensor


@triton.jit
def widened(values, scales, WIDE: tl.constexpr, GROUP: tl.constexpr):
    """values e4m3 [ROWS, DEPTH] times scales e8m0 [ROWS, DEPTH/GROUP] -> WIDE [ROWS, DEPTH], with no rounding."""
    ROWS: tl.constexpr = values.shape[0]
    DEPTH: tl.constexpr = values.shape[1]
    # By way of fp32: from e4m3 straight to bf16 sm_90 needs F2F.BF16.F16, one value at a time in the slow unit of
    # conversions. Two values to fp16, each to fp32 and two of those to bf16 are instructions of the fast ones.
    powers = (scales.to(tl.uint32) << 23).to(tl.float32, bitcast=True)
    groups = tl.reshape(values, (ROWS, DEPTH // GROUP, GROUP)).to(tl.float32) * powers[:, :, None]
    return tl.reshape(groups, (ROWS, DEPTH)).to(WIDE)


@triton.jit
def widened_sum(
    a_ptr,  # e4m3 [M, K]
    a_scale_ptr,  # uint8 [M, K/GROUP]
    b_ptr,  # e4m3 [N, K]
    b_scale_ptr,  # uint8 [N, K/GROUP]
    rows,  # of a: [BLOCK_M]
    columns,  # of y, rows of b: [BLOCK_N]
    M,
    N,
    K,
    begin,  # a multiple of BLOCK_K, as `end` is unless it is K
    end,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP: tl.constexpr,
    WHOLE: tl.constexpr,  # K is a multiple of BLOCK_K
    WIDE: tl.constexpr,  # what is multiplied: bf16; fp32 in Triton's interpreter, which has no bf16
):
    """The sum over k from begin to end, fp32 [BLOCK_M, BLOCK_N]."""
    k = tl.arange(0, BLOCK_K)[None, :]
    group = tl.arange(0, BLOCK_K // GROUP)[None, :]
    # Rows beyond the edge wrap around and are computed for nothing: masks would take registers in the loop.
    row = (rows % M).to(tl.int64)[:, None]  # int32 ends at 2**31 elements
    column = (columns % N).to(tl.int64)[:, None]
    a_at = a_ptr + row * K + k
    b_at = b_ptr + column * K + k
    a_scale_at = a_scale_ptr + row * (K // GROUP) + group
    b_scale_at = b_scale_ptr + column * (K // GROUP) + group

    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(begin, end, BLOCK_K):
        a, a_scale = step_of(a_at, a_scale_at, start, k, group, K, GROUP, WHOLE)
        b, b_scale = step_of(b_at, b_scale_at, start, k, group, K, GROUP, WHOLE)
        # Both are scaled already, so the tensor core may carry its sum through all of K.
        total = tl.dot(widened(a, a_scale, WIDE, GROUP), widened(b, b_scale, WIDE, GROUP).T, total)
    return total


@triton.jit
def widened_tile(
    y_ptr,  # bf16 [M, N], at the strides below
    a_ptr,
    a_scale_ptr,
    b_ptr,
    b_scale_ptr,
    M,
    N,
    K,
    y_stride_m,
    y_stride_n,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP: tl.constexpr,
    WHOLE: tl.constexpr,
    WIDE: tl.constexpr,
):
    tile_m, tile_n = place(M, N, BLOCK_M, BLOCK_N)
    rows = tile_m * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
    total = widened_sum(
        a_ptr, a_scale_ptr, b_ptr, b_scale_ptr, rows, columns, M, N, K, 0, K, BLOCK_M, BLOCK_N, BLOCK_K, GROUP, WHOLE,
        WIDE,
    )  # fmt: skip
    y = y_ptr + rows.to(tl.int64)[:, None] * y_stride_m + columns.to(tl.int64)[None, :] * y_stride_n
    tl.store(y, total.to(tl.bfloat16), mask=(rows < M)[:, None] & (columns < N)[None, :])


def plan(a: Tensor) -> tuple[tuple[int, int, int], dict[str, Any]]:
    """Tile and launch options for activations a [M, K]. `maxnreg` makes room for two programs on a multiprocessor, and
    for four or three with few rows: one widens while another multiplies."""
    wide = tl.bfloat16 if a.is_cuda else tl.float32
    if len(a) > FEW:
        return (128, 128, 64), {"WIDE": wide, "num_warps": 8, "num_stages": 4, "maxnreg": 128}
    columns = few_columns(len(a))
    registers = 128 if columns == 16 else 168
    return (64, columns, 128), {"WIDE": wide, "num_warps": 4, "num_stages": 5, "maxnreg": registers}


def run(a: Tensor, a_scale: Tensor, b: Tensor, b_scale: Tensor) -> Tensor:
    # a e4m3 [M, K], a_scale uint8 [M, K/32], b e4m3 [N, K], b_scale uint8 [N, K/32] -> bf16 [M, N]
    tile, options = plan(a)
    return multiply(widened_tile, a, a_scale, b, b_scale, tile, **options)
