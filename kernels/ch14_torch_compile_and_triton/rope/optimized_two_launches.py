"""The same kernel, launched for q and then for k: what one launch fewer is worth."""

import torch
import triton
import triton.language as tl
from rotation import HEADS, WARPS, turn_heads
from torch import Tensor


@triton.jit
def rope_one(y_ptr, x_ptr, cos_ptr, sin_ptr, H, D, HEADS: tl.constexpr, HALF: tl.constexpr):
    token = tl.program_id(0).to(tl.int64)
    turn_heads(y_ptr, x_ptr, cos_ptr, sin_ptr, token, tl.program_id(1), H, D, HEADS, HALF)


def turned(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    T, H, D = x.shape
    y = torch.empty_like(x)
    HALF = triton.next_power_of_2(D // 2)
    rope_one[(T, triton.cdiv(H, HEADS))](y, x, cos, sin, H, D, HEADS=HEADS, HALF=HALF, num_warps=WARPS)
    return y


def run(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
    return turned(q, cos, sin), turned(k, cos, sin)
