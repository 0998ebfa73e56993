"""As optimized.py, with K cut among several programs where tiles are fewer than programs that fit side by side."""

import torch
import triton
import triton.language as tl
from mx import GROUP
from optimized import plan, widened_sum
from tiles import sides
from torch import Tensor

PROGRAMS = 528  # wanted: four for each of an H200's 132 multiprocessors


@triton.jit
def widened_part(
    parts_ptr,  # fp32 [splits, M, N], at the strides below
    a_ptr,  # e4m3 [M, K]
    a_scale_ptr,  # uint8 [M, K/GROUP]
    b_ptr,  # e4m3 [N, K]
    b_scale_ptr,  # uint8 [N, K/GROUP]
    M,
    N,
    K,
    y_stride_m,
    y_stride_n,
    k_each,  # K for one program, a multiple of BLOCK_K
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP: tl.constexpr,
    WHOLE: tl.constexpr,
    WIDE: tl.constexpr,
):
    split = tl.program_id(2)
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    total = widened_sum(
        a_ptr, a_scale_ptr, b_ptr, b_scale_ptr, rows, columns, M, N, K, split * k_each,
        tl.minimum((split + 1) * k_each, K), BLOCK_M, BLOCK_N, BLOCK_K, GROUP, WHOLE, WIDE,
    )  # fmt: skip
    parts = parts_ptr + split.to(tl.int64) * M * N
    part = parts + rows.to(tl.int64)[:, None] * y_stride_m + columns.to(tl.int64)[None, :] * y_stride_n
    tl.store(part, total, mask=(rows < M)[:, None] & (columns < N)[None, :])


def cut(tiles: int, steps: int, programs: int) -> tuple[int, int]:
    """Into how many parts the steps along K go, and the steps of each: up to `programs` in all, and each has work."""
    each = triton.cdiv(steps, min(steps, max(programs // tiles, 1)))
    return triton.cdiv(steps, each), each


def run(a: Tensor, a_scale: Tensor, b: Tensor, b_scale: Tensor) -> Tensor:
    # a e4m3 [M, K], a_scale uint8 [M, K/32], b e4m3 [N, K], b_scale uint8 [N, K/32] -> bf16 [M, N]
    tile, options = plan(a)
    operands = sides(a, a_scale, b, b_scale)
    tiles = (triton.cdiv(operands[4], tile[0]), triton.cdiv(operands[5], tile[1]))
    K = a.shape[1]
    splits, each = cut(tiles[0] * tiles[1], triton.cdiv(K, tile[2]), PROGRAMS)
    parts = torch.empty((splits, len(a), len(b)), dtype=torch.float32, device=a.device)
    widened_part[(*tiles, splits)](parts, *operands, each * tile[2], *tile, GROUP, K % tile[2] == 0, **options)
    return parts.sum(dim=0).to(torch.bfloat16)  # in a fixed order: the same bits every time, unlike atomics
