"""Wrong: the accumulator has the inputs' dtype, so the running sum is rounded to 16 bits after every block of K."""

import triton
import triton.language as tl
from torch import Tensor


@triton.jit
def matmul_tile(
    y_ptr, x_ptr, w_ptr, M, N, K, x_row, x_column, w_row, w_column,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, UPCAST: tl.constexpr,
):  # fmt: skip
    m = tl.program_id(0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(1).to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=y_ptr.dtype.element_ty)
    for start in range(0, K, BLOCK_K):
        k = start + tl.arange(0, BLOCK_K).to(tl.int64)
        x = tl.load(
            x_ptr + m[:, None] * x_row + k[None, :] * x_column, mask=(m < M)[:, None] & (k < K)[None, :], other=0.0
        )
        w = tl.load(
            w_ptr + k[:, None] * w_row + n[None, :] * w_column, mask=(k < K)[:, None] & (n < N)[None, :], other=0.0
        )
        if UPCAST:  # Triton's interpreter has no bf16 arithmetic; a GPU would lose its fast path
            x = x.to(tl.float32)
            w = w.to(tl.float32)
        acc = (acc.to(tl.float32) + tl.dot(x, w)).to(acc.dtype)
    tl.store(y_ptr + m[:, None] * N + n[None, :], acc, mask=(m < M)[:, None] & (n < N)[None, :])


def run(x: Tensor, w: Tensor) -> Tensor:  # x [M, K], w [K, N], 16-bit -> [M, N]
    (M, K), N = x.shape, w.shape[1]
    y = x.new_empty((M, N))
    grid = (triton.cdiv(M, 64), triton.cdiv(N, 64))
    matmul_tile[grid](
        y, x, w, M, N, K, *x.stride(), *w.stride(), BLOCK_M=64, BLOCK_N=64, BLOCK_K=16, UPCAST=not x.is_cuda
    )
    return y
