"""Triton: one tile of x w per program; bias and GELU are applied to the fp32 accumulator before it is rounded."""

import triton
import triton.language as tl
from torch import Tensor


@triton.jit
def widened(x):
    """The same values in fp32. bf16 is the upper half of fp32; Triton's interpreter would take its subnormals for 0."""
    if x.dtype == tl.bfloat16:
        wide = (x.to(tl.uint16, bitcast=True).to(tl.uint32) << 16).to(tl.float32, bitcast=True)
    else:
        wide = x.to(tl.float32)
    return wide


@triton.jit
def erfc_positive(z):
    """erfc(z) for z >= 0, to 1.2e-7 of its value (Chebyshev fit of Numerical Recipes, 6.2); 1 - erf(z) would cancel."""
    t = 1.0 / (1.0 + 0.5 * z)
    p = -0.82215223 + t * 0.17087277
    p = -1.13520398 + t * (1.48851587 + t * p)
    p = -0.18628806 + t * (0.27886807 + t * p)
    p = 0.37409196 + t * (0.09678418 + t * p)
    p = -1.26551223 + t * (1.00002368 + t * p)
    return t * tl.exp(p - z * z)


@triton.jit
def linear_gelu_tile(
    y_ptr, x_ptr, w_ptr, b_ptr, M, N, K, x_row, x_column, w_row, w_column,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, UPCAST: tl.constexpr,
):  # fmt: skip
    m = tl.program_id(0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)  # int32 ends at 2**31 elements
    n = tl.program_id(1).to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, K, BLOCK_K):
        k = start + tl.arange(0, BLOCK_K).to(tl.int64)
        # Beyond the edge of K both factors are zero: 0 times whatever lies there might be NaN.
        x = tl.load(
            x_ptr + m[:, None] * x_row + k[None, :] * x_column, mask=(m < M)[:, None] & (k < K)[None, :], other=0.0
        )
        w = tl.load(
            w_ptr + k[:, None] * w_row + n[None, :] * w_column, mask=(k < K)[:, None] & (n < N)[None, :], other=0.0
        )
        if UPCAST:  # Triton's interpreter has no bf16 arithmetic; a GPU would lose its fast path
            x = widened(x)
            w = widened(w)
        acc = tl.dot(x, w, acc, input_precision="ieee")
    h = acc + widened(tl.load(b_ptr + n, mask=n < N, other=0.0))[None, :]
    tail = 0.5 * erfc_positive(tl.abs(h) * 0.7071067811865476)
    y = h * tl.where(h < 0.0, tail, 1.0 - tail)
    tl.store(
        y_ptr + m[:, None] * N + n[None, :], y.to(y_ptr.dtype.element_ty), mask=(m < M)[:, None] & (n < N)[None, :]
    )


def run(x: Tensor, w: Tensor, b: Tensor) -> Tensor:  # x [M, K], w [K, N], b [N] -> [M, N]
    (M, K), N = x.shape, w.shape[1]
    b = b.contiguous()
    y = x.new_empty((M, N))
    grid = (triton.cdiv(M, 64), triton.cdiv(N, 64))
    linear_gelu_tile[grid](
        y, x, w, b, M, N, K, *x.stride(), *w.stride(), BLOCK_M=64, BLOCK_N=64, BLOCK_K=32, UPCAST=not x.is_cuda
    )
    return y
