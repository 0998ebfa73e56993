"""Flash attention in Triton over the blocks of keys that a tile of queries can see.

Query i sees the keys i - W + 1 .. i. The tile first .. first + BLOCK_M - 1 meets three kinds of blocks:

    masked                     whole                        masked
    first - W + 1 ..           first + BLOCK_M - W ..       first .. first + BLOCK_M - 1
    the window's left edge     every query sees every key   the diagonal
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK_M = 128  # queries of a program
BLOCK_N = 64  # keys of a step; divides BLOCK_M. With 128 the three loops together spill registers
LOG2_E = 1.4426950408889634


@triton.jit
def attend(acc, total, peak, q, k_ptr, v_ptr, queries, first, last, L, W, scale, D, BLOCK, MASKED):
    """Online softmax over the keys first .. last - 1: acc [M, D] is the sum of weighted values, total [M] of weights.

    All weights are relative to 2**peak [M]. MASKED: not every query sees all of these keys, or some are behind the end.
    """
    columns = tl.arange(0, D)
    for start in range(first, last, BLOCK):
        keys = start + tl.arange(0, BLOCK)
        offsets = keys[:, None].to(tl.int64) * D + columns[None, :]
        if MASKED:
            k = tl.load(k_ptr + offsets, mask=(keys < L)[:, None], other=0.0)
            v = tl.load(v_ptr + offsets, mask=(keys < L)[:, None], other=0.0)
        else:
            k = tl.load(k_ptr + offsets)
            v = tl.load(v_ptr + offsets)
        scores = tl.dot(q, tl.trans(k)) * scale
        if MASKED:
            behind = queries[:, None] - keys[None, :]
            scores = tl.where((behind >= 0) & (behind < W), scores, float("-inf"))
        higher = tl.maximum(peak, tl.max(scores, axis=1))
        weights = tl.exp2(scores - higher[:, None])
        shrink = tl.exp2(peak - higher)
        total = total * shrink + tl.sum(weights, axis=1)
        acc = tl.dot(weights.to(v.dtype), v, acc * shrink[:, None])
        peak = higher
    return acc, total, peak


@triton.jit
def window_attention(
    y_ptr, q_ptr, k_ptr, v_ptr, L, W, scale,
    D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, SKIP_PAST: tl.constexpr,
):  # fmt: skip
    first = tl.program_id(0) * BLOCK_M
    base = tl.program_id(1).to(tl.int64) * L * D  # one head of one sequence
    queries = first + tl.arange(0, BLOCK_M)
    own = base + queries[:, None].to(tl.int64) * D + tl.arange(0, D)[None, :]
    q = tl.load(q_ptr + own, mask=(queries < L)[:, None], other=0.0)
    acc = tl.zeros([BLOCK_M, D], tl.float32)
    total = tl.zeros([BLOCK_M], tl.float32)
    # Finite: a query may see nothing of its first block, and minus infinity less itself would be NaN.
    peak = tl.full([BLOCK_M], -1e30, tl.float32)
    k, v = k_ptr + base, v_ptr + base
    # Where the blocks begin that every query sees whole; at the diagonal, if there are none.
    whole = tl.minimum(tl.cdiv(tl.maximum(first + BLOCK_M - W, 0), BLOCK_N) * BLOCK_N, first)
    least = 0
    if SKIP_PAST:
        least = tl.maximum(first - W + 1, 0) // BLOCK_N * BLOCK_N
    acc, total, peak = attend(acc, total, peak, q, k, v, queries, least, whole, L, W, scale, D, BLOCK_N, True)
    acc, total, peak = attend(acc, total, peak, q, k, v, queries, whole, first, L, W, scale, D, BLOCK_N, False)
    end = tl.minimum(first + BLOCK_M, L)
    acc, total, peak = attend(acc, total, peak, q, k, v, queries, first, end, L, W, scale, D, BLOCK_N, True)
    tl.store(y_ptr + own, (acc / total[:, None]).to(q.dtype), mask=(queries < L)[:, None])


def attention(q: Tensor, k: Tensor, v: Tensor, W: int, skip_past: bool) -> Tensor:
    """q, k, v [B, H, L, D] -> [B, H, L, D]. `skip_past`: blocks that left the window are not visited."""
    B, H, L, D = q.shape
    y = torch.empty_like(q)
    window_attention[(triton.cdiv(L, BLOCK_M), B * H)](
        y, q, k, v, L, W, D**-0.5 * LOG2_E, D, BLOCK_M, BLOCK_N, skip_past, num_warps=8, num_stages=3
    )
    return y
