"""Wrong: the sum of x and r, and its squares, in fp16. "Conversions only cost instructions."

A square of 256 is past the end of fp16. On values around 1 the error is below a rounding of the output; a row with
values in the hundreds has an infinite variance, and comes out as b.
"""

import torch
import triton
import triton.language as tl
from definition import EPS
from torch import Tensor


@triton.jit
def add_norm_half(y_ptr, x_ptr, r_ptr, w_ptr, b_ptr, N, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * N
    columns = tl.arange(0, BLOCK)
    inside = columns < N
    h = tl.load(x_ptr + row + columns, mask=inside, other=0.0) + tl.load(r_ptr + row + columns, mask=inside, other=0.0)
    mean = tl.sum(h.to(tl.float32), axis=0) / N
    centred = tl.where(inside, h - mean.to(tl.float16), 0.0).to(tl.float16)
    square = centred * centred  # fp16: infinite from 65520 on
    variance = tl.sum(square.to(tl.float32), axis=0) / N
    w = tl.load(w_ptr + columns, mask=inside, other=0.0).to(tl.float32)
    b = tl.load(b_ptr + columns, mask=inside, other=0.0).to(tl.float32)
    y = centred.to(tl.float32) * tl.rsqrt(variance + eps) * w + b
    tl.store(y_ptr + row + columns, y.to(tl.float16), mask=inside)


def run(x: Tensor, r: Tensor, w: Tensor, b: Tensor) -> Tensor:  # x, r [M, N], w, b [N], fp16 -> [M, N] fp16
    M, N = x.shape
    y = torch.zeros_like(x)
    BLOCK = triton.next_power_of_2(N)
    add_norm_half[(M,)](y, x, r, w, b, N, EPS, BLOCK, num_warps=min(max(BLOCK // 512, 1), 16))
    return y
