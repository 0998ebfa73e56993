"""Causal flash attention in Triton with ALiBi computed from indices. The rungs differ in its switches alone.

Scores are kept in units of log2(e), because the hardware has an exp2 and no exp. A bias that is the same for a whole
row cancels in the softmax, so slope * (j - i) may lose its -slope * i: what is left is one number per column.

Tiles come and go by descriptors, which is the copy engine (TMA) on a Hopper GPU: no thread computes an address, and
beyond the last row it reads zeros and writes nothing.
"""

import math

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.tools.tensor_descriptor import TensorDescriptor

LOG2E = math.log2(math.e)
BLOCK_M, BLOCK_N = 64, 64  # BLOCK_N divides BLOCK_M: the diagonal starts at a block's edge
STAGES = 3  # blocks of k and v, 16 KB each: with q 112 KB at D = 128, so that two programs fit an SM


@triton.jit
def attend_blocks(
    total, weight, peak, q, k, v, head, scale, slope, rows, origin, first, last,
    MASKED: tl.constexpr, BY_ELEMENT: tl.constexpr, BLOCK_N: tl.constexpr, D: tl.constexpr,
):  # fmt: skip
    """One pass of the online softmax over the columns first .. last, which blocks of BLOCK_N divide.

    total [BLOCK_M, D]: weighted sum of values so far; weight [BLOCK_M]: sum of weights; peak [BLOCK_M]: largest score.
    """
    for start in range(first, last, BLOCK_N):
        columns = start + tl.arange(0, BLOCK_N)
        scores = tl.dot(q, k.load([head, start, 0]).reshape(BLOCK_N, D).T) * scale
        if BY_ELEMENT:
            scores += slope * (columns[None, :] - rows[:, None]).to(tl.float32)
        else:
            scores += (slope * (columns - origin).to(tl.float32))[None, :]
        if MASKED:  # columns beyond the last row are beyond the diagonal too
            scores = tl.where(columns[None, :] <= rows[:, None], scores, float("-inf"))
        new_peak = tl.maximum(peak, tl.max(scores, axis=1))
        p = tl.exp2(scores - new_peak[:, None])
        shrink = tl.exp2(peak - new_peak)
        weight = weight * shrink + tl.sum(p, axis=1)
        total = total * shrink[:, None]
        total = tl.dot(p.to(q.dtype), v.load([head, start, 0]).reshape(BLOCK_N, D), total)
        peak = new_peak
    return total, weight, peak


@triton.jit
def alibi_attention(
    y, q, k, v, slopes_ptr, H, S, scale, slope_unit,
    SPLIT: tl.constexpr, BY_ELEMENT: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, D: tl.constexpr,
):  # fmt: skip
    """One program: BLOCK_M queries of one head. The longest rows come first, so that the short ones fill the end."""
    tile = tl.num_programs(0) - 1 - tl.program_id(0)
    head = tl.program_id(1)  # of B * H; tiles of one head run side by side and share its keys in the L2
    origin = tile * BLOCK_M
    rows = origin + tl.arange(0, BLOCK_M)
    queries = q.load([head, origin, 0]).reshape(BLOCK_M, D)
    slope = tl.load(slopes_ptr + head % H) * slope_unit

    total = tl.zeros((BLOCK_M, D), tl.float32)
    weight = tl.zeros((BLOCK_M,), tl.float32)
    peak = tl.full((BLOCK_M,), float("-inf"), tl.float32)
    start = 0
    if SPLIT:  # blocks that lie wholly in the past need no mask
        total, weight, peak = attend_blocks(
            total, weight, peak, queries, k, v, head, scale, slope, rows, origin, 0, origin,
            False, BY_ELEMENT, BLOCK_N, D,
        )  # fmt: skip
        start = origin
    end = tl.minimum(origin + BLOCK_M, S)  # nothing beyond the last row's diagonal
    total, weight, peak = attend_blocks(
        total, weight, peak, queries, k, v, head, scale, slope, rows, origin, start, end,
        True, BY_ELEMENT, BLOCK_N, D,
    )  # fmt: skip
    y.store([head, origin, 0], (total / weight[:, None]).to(queries.dtype).reshape(1, BLOCK_M, D))


def attend(
    q: Tensor, k: Tensor, v: Tensor, slopes: Tensor, *, split: bool = True, by_element: bool = False,
    slope_unit: float = LOG2E,
) -> Tensor:  # fmt: skip
    """q, k, v [B, H, S, D] fp16, contiguous, D a power of two from 16; slopes [H] fp32 -> [B, H, S, D] fp16."""
    B, H, S, D = q.shape
    y = torch.empty_like(q)
    described = (
        TensorDescriptor.from_tensor(x.view(B * H, S, D), [1, rows, D])
        for x, rows in ((y, BLOCK_M), (q, BLOCK_M), (k, BLOCK_N), (v, BLOCK_N))
    )
    alibi_attention[(triton.cdiv(S, BLOCK_M), B * H)](
        *described, slopes, H, S, D**-0.5 * LOG2E, slope_unit, split, by_element, BLOCK_M, BLOCK_N, D, num_warps=4,
        num_stages=STAGES,
    )  # fmt: skip
    return y
