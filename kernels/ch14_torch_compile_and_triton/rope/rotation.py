"""Both halves of some heads of one token: read once, turned in registers, written once. All kernels share it."""

import triton
import triton.language as tl

HEADS = 8  # heads per program: 8 x 128 elements, two loads of 16 bytes for each thread of two warps
WARPS = 2


@triton.jit
def turn_heads(
    y_ptr, x_ptr, cos_ptr, sin_ptr, token, block, H, D, HEADS: tl.constexpr, HALF: tl.constexpr
):  # x, y [T, H, D], cos, sin [T, D/2]; HALF is the power of two that holds D/2
    half = D // 2
    heads = block * HEADS + tl.arange(0, HEADS)
    pairs = tl.arange(0, HALF)
    angle = token * half + pairs
    cos = tl.load(cos_ptr + angle, mask=pairs < half, other=0.0).to(tl.float32)[None, :]
    sin = tl.load(sin_ptr + angle, mask=pairs < half, other=0.0).to(tl.float32)[None, :]
    first = token * H * D + heads[:, None] * D + pairs[None, :]
    inside = (heads[:, None] < H) & (pairs[None, :] < half)
    x1 = tl.load(x_ptr + first, mask=inside, other=0.0).to(tl.float32)
    x2 = tl.load(x_ptr + first + half, mask=inside, other=0.0).to(tl.float32)
    tl.store(y_ptr + first, (x1 * cos - x2 * sin).to(tl.bfloat16), mask=inside)
    tl.store(y_ptr + first + half, (x2 * cos + x1 * sin).to(tl.bfloat16), mask=inside)
