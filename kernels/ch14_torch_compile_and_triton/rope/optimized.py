"""One Triton kernel turns q and k: each element crosses memory once in each direction."""

import torch
import triton
import triton.language as tl
from rotation import HEADS, WARPS, turn_heads
from torch import Tensor


@triton.jit
def rope_q_and_k(
    yq_ptr, q_ptr, yk_ptr, k_ptr, cos_ptr, sin_ptr, q_blocks, HQ, HK, D, HEADS: tl.constexpr, HALF: tl.constexpr
):
    token = tl.program_id(0).to(tl.int64)  # int32 ends at 2**31 elements
    block = tl.program_id(1)
    if block < q_blocks:
        turn_heads(yq_ptr, q_ptr, cos_ptr, sin_ptr, token, block, HQ, D, HEADS, HALF)
    else:
        turn_heads(yk_ptr, k_ptr, cos_ptr, sin_ptr, token, block - q_blocks, HK, D, HEADS, HALF)


def run(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:  # bf16, shapes as in reference.py
    T, HQ, D = q.shape
    HK = k.shape[1]
    yq, yk = torch.empty_like(q), torch.empty_like(k)
    q_blocks, k_blocks = triton.cdiv(HQ, HEADS), triton.cdiv(HK, HEADS)
    HALF = triton.next_power_of_2(D // 2)
    rope_q_and_k[(T, q_blocks + k_blocks)](
        yq, q, yk, k, cos, sin, q_blocks, HQ, HK, D, HEADS=HEADS, HALF=HALF, num_warps=WARPS
    )
    return yq, yk
