"""Wrong: whole blocks of 256 columns and no mask. "Hidden sizes are multiples of 256."

Loads without a mask are a little faster, so a search that is paid for speed finds this by itself. What is behind the
last whole block is neither counted nor written.
"""

import torch
import triton
import triton.language as tl
from definition import EPS
from torch import Tensor


@triton.jit
def add_norm_blocks(y_ptr, x_ptr, r_ptr, w_ptr, b_ptr, N, whole, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * N
    columns = tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.float32)
    for block in range(whole):
        place = row + block * BLOCK + columns
        total += tl.load(x_ptr + place).to(tl.float32) + tl.load(r_ptr + place).to(tl.float32)
    mean = tl.sum(total, axis=0) / tl.maximum(whole * BLOCK, 1)
    squares = tl.zeros([BLOCK], tl.float32)
    for block in range(whole):
        place = row + block * BLOCK + columns
        h = tl.load(x_ptr + place).to(tl.float32) + tl.load(r_ptr + place).to(tl.float32)
        squares += (h - mean) * (h - mean)
    scale = tl.rsqrt(tl.sum(squares, axis=0) / tl.maximum(whole * BLOCK, 1) + eps)
    for block in range(whole):
        place = row + block * BLOCK + columns
        h = tl.load(x_ptr + place).to(tl.float32) + tl.load(r_ptr + place).to(tl.float32)
        w = tl.load(w_ptr + block * BLOCK + columns).to(tl.float32)
        b = tl.load(b_ptr + block * BLOCK + columns).to(tl.float32)
        y = (h - mean) * scale * w + b
        tl.store(y_ptr + place, y.to(y_ptr.dtype.element_ty))


def run(x: Tensor, r: Tensor, w: Tensor, b: Tensor) -> Tensor:  # x, r [M, N], w, b [N], fp16 -> [M, N] fp16
    M, N = x.shape
    y = torch.zeros_like(x)
    BLOCK = 256
    add_norm_blocks[(M,)](y, x, r, w, b, N, N // BLOCK, EPS, BLOCK, num_warps=4)
    return y
