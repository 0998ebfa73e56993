"""The same with three thresholds per read: two bits of the answer each time, 10 reads of the row instead of 20."""

import torch
import triton
import triton.language as tl
from definition import BITS, P
from torch import Tensor

BLOCK = 8192
WARPS = 32


@triton.jit
def nucleus_quartering(kept_ptr, weights_ptr, V, P: tl.constexpr, BITS: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * V
    sums = tl.zeros((BLOCK,), dtype=tl.int64)
    for start in range(0, V, BLOCK):
        at = start + tl.arange(0, BLOCK)
        sums += tl.load(weights_ptr + row + at, mask=at < V, other=0)
    target = P * tl.sum(sums, axis=0)
    low = 0  # the answer lies in low .. low + width - 1
    width = 1 << BITS
    for _ in range(BITS // 2):
        width = width // 4
        first = low + width
        second = first + width
        third = second + width
        above_first = tl.zeros((BLOCK,), dtype=tl.int64)
        above_second = tl.zeros((BLOCK,), dtype=tl.int64)
        above_third = tl.zeros((BLOCK,), dtype=tl.int64)
        for start in range(0, V, BLOCK):
            at = start + tl.arange(0, BLOCK)
            weight = tl.load(weights_ptr + row + at, mask=at < V, other=0)
            above_first += tl.where(weight >= first, weight, 0)
            above_second += tl.where(weight >= second, weight, 0)
            above_third += tl.where(weight >= third, weight, 0)
        # What lies above a threshold falls as it rises: the highest one that still holds the target is the next low.
        low = tl.where(100 * tl.sum(above_first, axis=0) < target, low, first)
        low = tl.where(100 * tl.sum(above_second, axis=0) < target, low, second)
        low = tl.where(100 * tl.sum(above_third, axis=0) < target, low, third)
    for start in range(0, V, BLOCK):
        at = start + tl.arange(0, BLOCK)
        weight = tl.load(weights_ptr + row + at, mask=at < V, other=0)
        tl.store(kept_ptr + row + at, weight >= low, mask=at < V)


def run(weights: Tensor) -> Tensor:  # [B, V] int32 -> [B, V] bool
    B, V = weights.shape
    kept = torch.empty(B, V, dtype=torch.bool, device=weights.device)
    block = min(BLOCK, triton.next_power_of_2(V))
    nucleus_quartering[(B,)](kept, weights, V, P=P, BITS=BITS, BLOCK=block, num_warps=WARPS)
    return kept
