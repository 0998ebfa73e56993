"""Triton: tanh from t = exp(-2|x|) - 1 as -t / (2 + t), with t from a series where the difference would cancel."""

import triton
import triton.language as tl
from torch import Tensor


@triton.jit
def expm1_negative(z):
    """exp(z) - 1 for z <= 0: from -1/2 on as z + z^2/2! + ... + z^10/10!; the rest is below fp32."""
    s = 1.0 + z * (1.0 / 10.0)
    s = 1.0 + z * (1.0 / 9.0) * s
    s = 1.0 + z * (1.0 / 8.0) * s
    s = 1.0 + z * (1.0 / 7.0) * s
    s = 1.0 + z * (1.0 / 6.0) * s
    s = 1.0 + z * (1.0 / 5.0) * s
    s = 1.0 + z * (1.0 / 4.0) * s
    s = 1.0 + z * (1.0 / 3.0) * s
    s = 1.0 + z * (1.0 / 2.0) * s
    return tl.where(z > -0.5, z * s, tl.exp(z) - 1.0)


@triton.jit
def tanh_flat(y_ptr, x_ptr, count, BLOCK: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)  # int32 ends at 2**31 elements
    inside = i < count
    x = tl.load(x_ptr + i, mask=inside, other=0.0).to(tl.float32)
    t = expm1_negative(-2.0 * tl.abs(x))
    size = -t / (2.0 + t)
    y = tl.where(x < 0.0, -size, size)
    tl.store(y_ptr + i, y.to(y_ptr.dtype.element_ty), mask=inside)


def run(x: Tensor) -> Tensor:  # x [M, N] -> [M, N]
    x = x.contiguous()
    y = x.new_empty(x.shape)
    count = x.numel()
    if count:
        tanh_flat[(triton.cdiv(count, 1024),)](y, x, count, BLOCK=1024)
    return y
