"""One Triton matmul whose tile, split and depth are data. Rungs differ in the Config they give, in nothing else.

x [M, K] and w [N, K], fp16: y = x w^T [M, N], accumulated in fp32.
"""

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor


class Config(NamedTuple):
    """How a product is cut up. Elements, except `split`: how many programs share a tile's K."""

    m: int
    n: int
    k: int
    split: int
    warps: int
    stages: int


@triton.jit
def tile_of_product(
    out_ptr, x_ptr, w_ptr, M, N, K, each, GROUP: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """One tile of x w^T over the columns [part * each, (part + 1) * each) of K, into out [part, M, N]."""
    # Programs that run at the same time share rows of w: GROUP tiles down, then one to the right.
    tile = tl.program_id(0)
    part = tl.program_id(1)
    down = tl.cdiv(M, BLOCK_M)
    right = tl.cdiv(N, BLOCK_N)
    first = tile // (GROUP * right) * GROUP
    height = tl.minimum(down - first, GROUP)
    inner = tile % (GROUP * right)
    rows = (first + inner % height) * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = inner // height * BLOCK_N + tl.arange(0, BLOCK_N)
    steps = tl.arange(0, BLOCK_K)
    begin = part * each
    end = tl.minimum(begin + each, K)
    x_row = x_ptr + rows[:, None].to(tl.int64) * K
    w_row = w_ptr + columns[None, :].to(tl.int64) * K
    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for start in range(begin, end, BLOCK_K):
        k = start + steps
        x = tl.load(x_row + k[None, :], mask=(rows[:, None] < M) & (k[None, :] < end), other=0.0)
        w = tl.load(w_row + k[:, None], mask=(columns[None, :] < N) & (k[:, None] < end), other=0.0)
        acc = tl.dot(x, w, acc)
    place = (part.to(tl.int64) * M + rows[:, None]) * N + columns[None, :]
    inside = (rows[:, None] < M) & (columns[None, :] < N)
    tl.store(out_ptr + place, acc.to(out_ptr.dtype.element_ty), mask=inside)


@triton.jit
def sum_of_parts(y_ptr, parts_ptr, total, SPLIT: tl.constexpr, BLOCK: tl.constexpr):
    """y, `total` elements, is the sum of SPLIT fp32 arrays behind each other, always in the same order."""
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = place < total
    acc = tl.zeros([BLOCK], tl.float32)
    for part in tl.static_range(SPLIT):
        acc += tl.load(parts_ptr + part * total + place, mask=inside, other=0.0)
    tl.store(y_ptr + place, acc.to(y_ptr.dtype.element_ty), mask=inside)


def product(x: Tensor, w: Tensor, config: Config) -> Tensor:
    """x [M, K] times the transpose of w [N, K], cut up as `config` says: [M, N] in x's dtype."""
    (M, K), N = x.shape, w.shape[0]
    split = min(config.split, triton.cdiv(K, config.k))  # a part without a step has nothing to do
    y = torch.empty(M, N, dtype=x.dtype, device=x.device)
    out = y if split == 1 else torch.empty(split, M, N, dtype=torch.float32, device=x.device)
    each = triton.cdiv(triton.cdiv(K, config.k), split) * config.k  # whole steps, rounded up: none is left over
    grid = (triton.cdiv(M, config.m) * triton.cdiv(N, config.n), split)
    tile_of_product[grid](
        out, x, w, M, N, K, each, 8, config.m, config.n, config.k, num_warps=config.warps, num_stages=config.stages
    )
    if split > 1:
        BLOCK = 1024
        sum_of_parts[(triton.cdiv(M * N, BLOCK),)](y, out, M * N, split, BLOCK, num_warps=4)
    return y
