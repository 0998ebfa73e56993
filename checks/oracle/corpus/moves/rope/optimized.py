"""Triton: a program turns a block of heads of one or more tokens, both halves of every pair, angles read once."""

import triton
import triton.language as tl
from torch import Tensor


@triton.jit
def rope_heads(
    y_ptr, x_ptr, cos_ptr, sin_ptr, T, H, HALF, H_BLOCKS,
    x_token, x_head, x_col, cos_token, cos_col, sin_token, sin_col,
    TOKENS: tl.constexpr, HEADS: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    # One dimension of the grid for tokens and heads: the second would end at 65535.
    program = tl.program_id(0).to(tl.int64)
    tokens = program // H_BLOCKS * TOKENS + tl.arange(0, TOKENS)
    heads = program % H_BLOCKS * HEADS + tl.arange(0, HEADS)
    cols = tl.arange(0, BLOCK).to(tl.int64)
    token, head, col = tokens[:, None, None], heads[None, :, None], cols[None, None, :]
    inside = (token < T) & (head < H) & (col < HALF)
    turning = (token < T) & (col < HALF)
    c = tl.load(cos_ptr + token * cos_token + col * cos_col, mask=turning, other=0.0).to(tl.float32)
    s = tl.load(sin_ptr + token * sin_token + col * sin_col, mask=turning, other=0.0).to(tl.float32)
    source = x_ptr + token * x_token + head * x_head
    first = tl.load(source + col * x_col, mask=inside, other=0.0).to(tl.float32)
    second = tl.load(source + (HALF + col) * x_col, mask=inside, other=0.0).to(tl.float32)
    target = y_ptr + (token * H + head) * (2 * HALF) + col
    tl.store(target, (first * c - second * s).to(y_ptr.dtype.element_ty), mask=inside)
    tl.store(target + HALF, (second * c + first * s).to(y_ptr.dtype.element_ty), mask=inside)


def run(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:  # x [T, H, D], cos and sin [T, D/2] -> [T, H, D], same dtype
    T, H, D = x.shape
    y = x.new_empty((T, H, D))
    if y.numel():
        BLOCK = max(4, triton.next_power_of_2(D // 2))
        HEADS = min(triton.next_power_of_2(H), max(1, 4096 // BLOCK))
        TOKENS = max(1, 4096 // (BLOCK * HEADS))  # tokens with few short heads share a program
        H_BLOCKS = triton.cdiv(H, HEADS)
        rope_heads[(triton.cdiv(T, TOKENS) * H_BLOCKS,)](
            *(y, x, cos, sin, T, H, D // 2, H_BLOCKS, *x.stride(), *cos.stride(), *sin.stride()),
            *(TOKENS, HEADS, BLOCK),
        )
    return y
