"""Wrong: EPS is added to the root and not under it.

Right to the sixth digit for rows of unit size; 41 % too large where the mean square equals EPS.
"""

import triton
import triton.language as tl
from definition import EPS
from torch import Tensor


@triton.jit
def rmsnorm_rows(y_ptr, x_ptr, w_ptr, M, N, x_row, x_col, w_col, eps, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    rows = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    cols = tl.arange(0, BLOCK)
    wide = cols.to(tl.int64)
    inside = (rows < M)[:, None] & (cols < N)[None, :]
    x = tl.load(x_ptr + rows[:, None] * x_row + wide[None, :] * x_col, mask=inside, other=0.0).to(tl.float32)
    w = tl.load(w_ptr + wide * w_col, mask=cols < N, other=0.0).to(tl.float32)
    root = tl.sqrt(tl.sum(x * x, axis=1) / N)
    y = x / (root + eps)[:, None] * w[None, :]
    tl.store(y_ptr + rows[:, None] * N + cols[None, :], y.to(y_ptr.dtype.element_ty), mask=inside)


def run(x: Tensor, w: Tensor) -> Tensor:  # x [M, N], w [N] -> [M, N], same dtype
    M, N = x.shape
    y = x.new_empty((M, N))
    if y.numel():
        BLOCK = max(16, triton.next_power_of_2(N))
        ROWS = max(1, 2048 // BLOCK)  # short rows share a program, so that each lane has work
        rmsnorm_rows[(triton.cdiv(M, ROWS),)](y, x, w, M, N, x.stride(0), x.stride(1), w.stride(0), EPS, ROWS, BLOCK)
    return y
