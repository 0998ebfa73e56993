"""Triton flash attention on the packed batch: a program finds its request in `starts` and never meets padding."""

from collections.abc import Callable

import torch
import triton
import triton.language as tl
from padding import longest
from torch import Tensor

BLOCK_M = 128  # queries of a program
BLOCK_N = 128  # keys of a step; divides BLOCK_M, so that only the diagonal needs a mask
LOG2_E = 1.4426950408889634


@triton.jit
def attend(acc, total, peak, q, k_ptr, v_ptr, queries, first, last, length, pitch, scale, D, BLOCK, MASKED):
    """Online softmax over the keys first .. last - 1: acc [M, D] is the sum of weighted values, total [M] of weights.

    All weights are relative to 2**peak [M]. MASKED: some of these keys are a query's future, or behind the end.
    """
    columns = tl.arange(0, D)
    for start in range(first, last, BLOCK):
        keys = start + tl.arange(0, BLOCK)
        offsets = keys[:, None].to(tl.int64) * pitch + columns[None, :]
        if MASKED:
            k = tl.load(k_ptr + offsets, mask=(keys < length)[:, None], other=0.0)
            v = tl.load(v_ptr + offsets, mask=(keys < length)[:, None], other=0.0)
        else:
            k = tl.load(k_ptr + offsets)
            v = tl.load(v_ptr + offsets)
        scores = tl.dot(q, tl.trans(k)) * scale
        if MASKED:
            scores = tl.where(queries[:, None] >= keys[None, :], scores, float("-inf"))
        higher = tl.maximum(peak, tl.max(scores, axis=1))
        weights = tl.exp2(scores - higher[:, None])
        shrink = tl.exp2(peak - higher)
        total = total * shrink + tl.sum(weights, axis=1)
        acc = tl.dot(weights.to(v.dtype), v, acc * shrink[:, None])
        peak = higher
    return acc, total, peak


@triton.jit
def varlen_causal(
    y_ptr, q_ptr, k_ptr, v_ptr, starts_ptr, H, scale, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):
    tile = tl.num_programs(0) - 1 - tl.program_id(0)  # the last queries see most keys: begin with them
    head = tl.program_id(1)
    request = tl.program_id(2)
    begin = tl.load(starts_ptr + request)
    length = tl.load(starts_ptr + request + 1) - begin
    first = tile * BLOCK_M
    if first < length:  # the grid is made for the longest request
        pitch = H * D  # elements from one token to the next
        base = (begin.to(tl.int64) * H + head) * D
        queries = first + tl.arange(0, BLOCK_M)
        inside = (queries < length)[:, None]
        own = base + queries[:, None].to(tl.int64) * pitch + tl.arange(0, D)[None, :]
        q = tl.load(q_ptr + own, mask=inside, other=0.0)
        acc = tl.zeros([BLOCK_M, D], tl.float32)
        total = tl.zeros([BLOCK_M], tl.float32)
        peak = tl.full([BLOCK_M], -1e30, tl.float32)  # finite: minus infinity less itself would be NaN
        k, v = k_ptr + base, v_ptr + base
        acc, total, peak = attend(acc, total, peak, q, k, v, queries, 0, first, length, pitch, scale, D, BLOCK_N, False)
        end = tl.minimum(first + BLOCK_M, length)
        acc, total, peak = attend(
            acc, total, peak, q, k, v, queries, first, end, length, pitch, scale, D, BLOCK_N, True
        )
        tl.store(y_ptr + own, (acc / total[:, None]).to(q.dtype), mask=inside)


def prepare(q: Tensor, k: Tensor, v: Tensor, starts: Tensor) -> Callable[..., Tensor]:
    _, H, D = q.shape
    grid = (triton.cdiv(longest(starts), BLOCK_M), H, len(starts) - 1)
    scale = D**-0.5 * LOG2_E  # the softmax in base 2: exp2 is the instruction that the hardware has

    def attention(q: Tensor, k: Tensor, v: Tensor, starts: Tensor) -> Tensor:  # [T, H, D] -> [T, H, D]
        y = torch.empty_like(q)
        varlen_causal[grid](y, q, k, v, starts, H, scale, D, BLOCK_M, BLOCK_N, num_warps=8, num_stages=2)
        return y

    return attention


def run(q: Tensor, k: Tensor, v: Tensor, starts: Tensor) -> Tensor:
    return prepare(q, k, v, starts)(q, k, v, starts)
