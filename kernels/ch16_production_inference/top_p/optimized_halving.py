"""Triton, one program per row: the 20 halvings in one kernel, the row read again from the L2 each time."""

import torch
import triton
import triton.language as tl
from definition import BITS, P
from torch import Tensor

BLOCK = 8192
WARPS = 32


@triton.jit
def nucleus_halving(kept_ptr, weights_ptr, V, P: tl.constexpr, BITS: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * V
    sums = tl.zeros((BLOCK,), dtype=tl.int64)
    for start in range(0, V, BLOCK):
        at = start + tl.arange(0, BLOCK)
        sums += tl.load(weights_ptr + row + at, mask=at < V, other=0)
    target = P * tl.sum(sums, axis=0)
    low = 0  # the answer lies in low .. low + width - 1
    width = 1 << BITS
    for _ in range(BITS):
        width = width // 2
        middle = low + width
        sums = tl.zeros((BLOCK,), dtype=tl.int64)
        for start in range(0, V, BLOCK):
            at = start + tl.arange(0, BLOCK)
            weight = tl.load(weights_ptr + row + at, mask=at < V, other=0)
            sums += tl.where(weight >= middle, weight, 0)
        low = tl.where(100 * tl.sum(sums, axis=0) < target, low, middle)
    for start in range(0, V, BLOCK):
        at = start + tl.arange(0, BLOCK)
        weight = tl.load(weights_ptr + row + at, mask=at < V, other=0)
        tl.store(kept_ptr + row + at, weight >= low, mask=at < V)


def run(weights: Tensor) -> Tensor:  # [B, V] int32 -> [B, V] bool
    B, V = weights.shape
    kept = torch.empty(B, V, dtype=torch.bool, device=weights.device)
    block = min(BLOCK, triton.next_power_of_2(V))
    nucleus_halving[(B,)](kept, weights, V, P=P, BITS=BITS, BLOCK=block, num_warps=WARPS)
    return kept
