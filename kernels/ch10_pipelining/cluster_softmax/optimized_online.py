"""Triton, one program per row: maximum and sum in one pass (online), then a second pass that writes. Two reads."""

import torch
import triton
import triton.language as tl
from torch import Tensor


@triton.jit
def softmax_online(y_ptr, x_ptr, N, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * N  # int32 ends at 2**31 elements
    columns = tl.arange(0, BLOCK)
    # Each of the BLOCK lanes has a maximum and a sum of its own until the end: no reduction inside the loop.
    maximum = tl.full((BLOCK,), float("-inf"), tl.float32)
    total = tl.zeros((BLOCK,), tl.float32)
    start = 0
    while start < N:
        x = tl.load(x_ptr + row + start + columns, mask=start + columns < N, other=float("-inf")).to(tl.float32)
        higher = tl.maximum(maximum, x)
        base = tl.where(higher == float("-inf"), 0.0, higher)  # -inf minus -inf would be NaN
        total = total * tl.exp(maximum - base) + tl.exp(x - base)
        maximum = higher
        start += BLOCK
    peak = tl.max(maximum, axis=0)
    # A lane that has seen nothing but -inf has a sum of 0 and counts nothing, wherever the peak is.
    share = tl.where(total == 0.0, 0.0, total * tl.exp(maximum - peak))
    scale = 1.0 / tl.sum(share, axis=0)
    start = 0
    while start < N:
        inside = start + columns < N
        x = tl.load(x_ptr + row + start + columns, mask=inside, other=float("-inf")).to(tl.float32)
        tl.store(y_ptr + row + start + columns, (tl.exp(x - peak) * scale).to(tl.bfloat16), mask=inside)
        start += BLOCK


def run(x: Tensor) -> Tensor:  # x [M, N] bf16 -> [M, N] bf16
    M, N = x.shape
    y = torch.empty_like(x)
    BLOCK = min(triton.next_power_of_2(N), 8192)
    softmax_online[(M,)](y, x, N, BLOCK, num_warps=max(BLOCK // 512, 1))
    return y
