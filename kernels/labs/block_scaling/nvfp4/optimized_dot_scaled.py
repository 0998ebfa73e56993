"""Blackwell: packed values and their scales go to the tensor core, which applies them; nothing is widened."""

import torch
import triton
import triton.language as tl
from optimized import cut, finished, tiled
from torch import Tensor

VALUES = 256  # of each row in one step along K: 128 bytes and 16 scales
COLUMNS = 128  # weights of a tile: the tensor core's rows, of which the instruction wants 128


@triton.jit
def dot_scaled_part(
    parts_ptr,  # fp32 [splits, M, N]
    a_ptr,  # uint8 [M, K/2]
    a_scale_ptr,  # e4m3 [M, K/16]
    b_ptr,  # uint8 [N, K/2]
    b_scale_ptr,  # e4m3 [N, K/16]
    M,
    N,
    half,  # K/2 and K/16, bytes of a row
    groups,
    steps_each,  # steps along K for one program
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    split = tl.program_id(2)
    rows = (tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)).to(tl.int64)  # int32 ends at 2**31 elements
    columns = (tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)).to(tl.int64)
    in_rows = (rows < M)[:, None]
    in_columns = (columns < N)[:, None]
    total = tl.zeros((BLOCK_N, BLOCK_M), tl.float32)
    for step in range(split * steps_each, tl.minimum((split + 1) * steps_each, tl.cdiv(2 * half, BLOCK_K))):
        byte = (step * (BLOCK_K // 2) + tl.arange(0, BLOCK_K // 2))[None, :]
        group = (step * (BLOCK_K // 16) + tl.arange(0, BLOCK_K // 16))[None, :]
        a = tl.load(a_ptr + rows[:, None] * half + byte, mask=in_rows & (byte < half), other=0)
        b = tl.load(b_ptr + columns[:, None] * half + byte, mask=in_columns & (byte < half), other=0)
        a_scale = tl.load(a_scale_ptr + rows[:, None] * groups + group, mask=in_rows & (group < groups), other=0.0)
        b_scale = tl.load(
            b_scale_ptr + columns[:, None] * groups + group, mask=in_columns & (group < groups), other=0.0
        )
        total = tl.dot_scaled(b, b_scale, "e2m1", a.T, a_scale, "e2m1", total)
    at = parts_ptr + (split * M + rows)[None, :] * N + columns[:, None]
    tl.store(at, total, mask=(rows < M)[None, :] & in_columns)


def run(a: Tensor, a_scale: Tensor, b: Tensor, b_scale: Tensor, scale: Tensor) -> Tensor:
    # a uint8 [M, K/2], a_scale e4m3 [M, K/16], b uint8 [N, K/2], b_scale e4m3 [N, K/16], scale fp32 [1] -> bf16 [M, N]
    (M, half), N = a.shape, b.shape[0]
    rows = tiled(M)[0]
    tiles = (triton.cdiv(M, rows), triton.cdiv(N, COLUMNS))
    splits, each = cut(tiles, triton.cdiv(2 * half, VALUES))
    parts = torch.empty((splits, M, N), dtype=torch.float32, device=a.device)
    dot_scaled_part[(*tiles, splits)](
        parts, a, a_scale, b, b_scale, M, N, half, half // 8, each, rows, COLUMNS, VALUES, num_warps=4, num_stages=3
    )
    return finished(parts, scale)
