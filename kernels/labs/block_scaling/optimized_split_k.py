"""As optimized.py, with K cut among several programs where the tiles alone leave multiprocessors idle."""

import torch
import triton
import triton.language as tl
from blocks import BLOCK
from optimized import tile
from torch import Tensor

PROGRAMS = 528  # wanted at least: four for each of 132 multiprocessors


@triton.jit
def block_scaled_part(
    parts_ptr,  # fp32 [splits, M, N]
    a_ptr,
    a_scale_ptr,
    b_ptr,
    b_scale_ptr,
    M,
    N,
    K,
    steps_each,  # blocks of K for one program
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    tile_m = tl.program_id(0)
    tile_n = tl.program_id(1)
    split = tl.program_id(2)
    rows = tile_m * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
    steps = tl.cdiv(K, BLOCK_K)
    a_rows = a_ptr + rows.to(tl.int64)[:, None] * K
    b_columns = b_ptr + columns.to(tl.int64)[None, :] * K
    b_scales = b_scale_ptr + (tile_n * BLOCK_N // BLOCK_K) * steps

    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for step in range(split * steps_each, tl.minimum((split + 1) * steps_each, steps)):
        k = step * BLOCK_K + tl.arange(0, BLOCK_K)
        a = tl.load(a_rows + k[None, :], mask=(rows < M)[:, None] & (k < K)[None, :], other=0.0)
        b = tl.load(b_columns + k[:, None], mask=(columns < N)[None, :] & (k < K)[:, None], other=0.0)
        row_scale = tl.load(a_scale_ptr + step * M + rows, mask=rows < M, other=0.0)
        block_scale = tl.load(b_scales + step)
        total += tl.dot(a, b) * (row_scale * block_scale)[:, None]

    part = parts_ptr + (split * M + rows).to(tl.int64)[:, None] * N + columns[None, :]
    tl.store(part, total, mask=(rows < M)[:, None] & (columns < N)[None, :])


def run(a: Tensor, a_scale: Tensor, b: Tensor, b_scale: Tensor) -> Tensor:
    # a fp8 [M, K], a_scale [ceil(K/128), M], b fp8 [N, K], b_scale [ceil(N/128), ceil(K/128)] -> bf16 [M, N]
    M, K = a.shape
    N = b.shape[0]
    rows, columns, num_warps = tile(M)
    tiles = (triton.cdiv(M, rows), triton.cdiv(N, columns))
    steps = triton.cdiv(K, BLOCK)
    each = triton.cdiv(steps, min(steps, triton.cdiv(PROGRAMS, tiles[0] * tiles[1])))
    splits = triton.cdiv(steps, each)  # each program has work
    parts = torch.empty((splits, M, N), dtype=torch.float32, device=a.device)
    block_scaled_part[(*tiles, splits)](
        parts, a, a_scale, b, b_scale, M, N, K, each, rows, columns, BLOCK, num_warps=num_warps, num_stages=4
    )
    return parts.sum(dim=0).to(torch.bfloat16)  # in a fixed order: the same bits every time, unlike atomics
