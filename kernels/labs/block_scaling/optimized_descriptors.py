"""Operands by the copy engine, in tiles so small that three programs share an SM: one scales, another multiplies."""

import torch
import triton
import triton.language as tl
from blocks import BLOCK
from optimized import place
from torch import Tensor
from triton.tools.tensor_descriptor import TensorDescriptor

COLUMNS = 128  # of a tile: weights under one scale for each step
REGISTERS = 168  # for a thread: with more, no three programs of four warps would fit into 65536


@triton.jit
def described_tile(
    y_ptr,  # bf16 [M, N]
    a_tiles,  # descriptor of fp8 [M, K]; zeros where a tile leaves it
    a_scale_ptr,  # fp32 [ceil(K/128), M]
    b_tiles,  # descriptor of fp8 [N, K]
    b_scale_ptr,  # fp32 [ceil(N/128), ceil(K/128)]
    M,
    N,
    K,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP: tl.constexpr,  # this many row tiles share a column tile before the next: their operands meet in the L2
):
    tile_m, tile_n = place(M, N, BLOCK_M, BLOCK_N, GROUP)
    rows = tile_m * BLOCK_M + tl.arange(0, BLOCK_M)
    steps = tl.cdiv(K, BLOCK_K)
    b_scales = b_scale_ptr + (tile_n * BLOCK_N // BLOCK_K) * steps
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for step in range(0, steps):
        a = a_tiles.load([tile_m * BLOCK_M, step * BLOCK_K])
        b = b_tiles.load([tile_n * BLOCK_N, step * BLOCK_K])
        row_scale = tl.load(a_scale_ptr + step * M + rows, mask=rows < M, other=0.0)
        block_scale = tl.load(b_scales + step)
        total += tl.dot(a, b.T) * (row_scale * block_scale)[:, None]

    columns = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
    y = y_ptr + rows.to(tl.int64)[:, None] * N + columns[None, :]
    tl.store(y, total.to(tl.bfloat16), mask=(rows < M)[:, None] & (columns < N)[None, :])


def run(a: Tensor, a_scale: Tensor, b: Tensor, b_scale: Tensor) -> Tensor:
    # a fp8 [M, K], a_scale [ceil(K/128), M], b fp8 [N, K], b_scale [ceil(N/128), ceil(K/128)] -> bf16 [M, N]
    M, K = a.shape
    N = b.shape[0]
    y = torch.empty((M, N), dtype=torch.bfloat16, device=a.device)
    rows = min(max(triton.next_power_of_2(M), 16), 64)
    a_tiles, b_tiles = (TensorDescriptor.from_tensor(x, [n, BLOCK]) for x, n in ((a, rows), (b, COLUMNS)))
    described_tile[(triton.cdiv(M, rows) * triton.cdiv(N, COLUMNS),)](
        y, a_tiles, a_scale, b_tiles, b_scale, M, N, K, rows, COLUMNS, BLOCK, 8, num_warps=4, num_stages=3,
        maxnreg=REGISTERS,
    )  # fmt: skip
    return y
