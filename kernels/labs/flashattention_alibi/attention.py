"""Causal flash attention in Triton with ALiBi computed from indices. The rungs differ in its switches alone.

Scores are kept in units of log2(e), because the hardware has an exp2 and no exp. A bias that is the same for a whole
row cancels in the softmax, so slope * (j - i) may lose its -slope * i: what is left is one number per column.
"""

import math

import torch
import triton
import triton.language as tl
from torch import Tensor

LOG2E = math.log2(math.e)


@triton.jit
def attend_blocks(
    total, weight, peak, q, k_head, v_head, scale, slope, rows, origin, first, last, S,
    MASKED: tl.constexpr, BY_ELEMENT: tl.constexpr, BLOCK_N: tl.constexpr, D: tl.constexpr,
):  # fmt: skip
    """One pass of the online softmax over the columns first .. last, which blocks of BLOCK_N divide.

    total [BLOCK_M, D]: weighted sum of values so far; weight [BLOCK_M]: sum of weights; peak [BLOCK_M]: largest score.
    """
    d = tl.arange(0, D)
    for start in range(first, last, BLOCK_N):
        columns = start + tl.arange(0, BLOCK_N)
        if MASKED:
            k = tl.load(k_head + columns[None, :] * D + d[:, None], mask=(columns < S)[None, :], other=0.0)
        else:
            k = tl.load(k_head + columns[None, :] * D + d[:, None])
        scores = tl.dot(q, k) * scale
        if BY_ELEMENT:
            scores += slope * (columns[None, :] - rows[:, None]).to(tl.float32)
        else:
            scores += (slope * (columns - origin).to(tl.float32))[None, :]
        if MASKED:
            scores = tl.where(columns[None, :] <= rows[:, None], scores, float("-inf"))
        new_peak = tl.maximum(peak, tl.max(scores, axis=1))
        p = tl.exp2(scores - new_peak[:, None])
        shrink = tl.exp2(peak - new_peak)
        weight = weight * shrink + tl.sum(p, axis=1)
        total = total * shrink[:, None]
        if MASKED:
            v = tl.load(v_head + columns[:, None] * D + d[None, :], mask=(columns < S)[:, None], other=0.0)
        else:
            v = tl.load(v_head + columns[:, None] * D + d[None, :])
        total = tl.dot(p.to(v.dtype), v, total)
        peak = new_peak
    return total, weight, peak


@triton.jit
def alibi_attention(
    y_ptr, q_ptr, k_ptr, v_ptr, slopes_ptr, H, S, scale, slope_unit,
    SPLIT: tl.constexpr, BY_ELEMENT: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, D: tl.constexpr,
):  # fmt: skip
    """One program: BLOCK_M queries of one head. The longest rows come first, so that the short ones fill the end."""
    tile = tl.num_programs(0) - 1 - tl.program_id(0)
    head = tl.program_id(1)  # of B * H; tiles of one head run side by side and share its keys in the L2
    offset = head.to(tl.int64) * S * D  # int32 ends at 2**31 elements
    origin = tile * BLOCK_M
    rows = origin + tl.arange(0, BLOCK_M)
    d = tl.arange(0, D)
    inside = (rows < S)[:, None]
    q = tl.load(q_ptr + offset + rows[:, None] * D + d[None, :], mask=inside, other=0.0)
    slope = tl.load(slopes_ptr + head % H) * slope_unit

    total = tl.zeros((BLOCK_M, D), tl.float32)
    weight = tl.zeros((BLOCK_M,), tl.float32)
    peak = tl.full((BLOCK_M,), float("-inf"), tl.float32)
    end = tl.minimum(origin + BLOCK_M, S)  # nothing beyond the last row's diagonal
    start = 0
    if SPLIT:  # blocks that lie wholly in the past need no mask and no check of an edge
        total, weight, peak = attend_blocks(
            total, weight, peak, q, k_ptr + offset, v_ptr + offset, scale, slope, rows, origin, 0, origin, S,
            False, BY_ELEMENT, BLOCK_N, D,
        )  # fmt: skip
        start = origin
    total, weight, peak = attend_blocks(
        total, weight, peak, q, k_ptr + offset, v_ptr + offset, scale, slope, rows, origin, start, end, S,
        True, BY_ELEMENT, BLOCK_N, D,
    )  # fmt: skip
    y = total / weight[:, None]
    tl.store(y_ptr + offset + rows[:, None] * D + d[None, :], y.to(y_ptr.dtype.element_ty), mask=inside)


def attend(q: Tensor, k: Tensor, v: Tensor, slopes: Tensor, *, split: bool = True, by_element: bool = False) -> Tensor:
    """q, k, v [B, H, S, D] fp16, contiguous, D a power of two from 16; slopes [H] fp32 -> [B, H, S, D] fp16."""
    B, H, S, D = q.shape
    y = torch.empty_like(q)
    BLOCK_M, BLOCK_N = 128, 64  # BLOCK_N divides BLOCK_M: the diagonal starts at a block's edge
    alibi_attention[(triton.cdiv(S, BLOCK_M), B * H)](
        y, q, k, v, slopes, H, S, D**-0.5 * LOG2E, LOG2E, split, by_element, BLOCK_M, BLOCK_N, D, num_warps=8,
        num_stages=3,
    )  # fmt: skip
    return y
