"""Wrong: the padding of a short row is zero, and exp(0 - max) is not.

Right wherever N is a power of two. Elsewhere each padded column adds exp(-max) to the sum.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

ROWS = 8


@triton.jit
def softmax_rows(y_ptr, x_ptr, M, N, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    rows = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    columns = tl.arange(0, BLOCK)
    at = rows[:, None] * N + columns[None, :]
    inside = (rows < M)[:, None] & (columns < N)[None, :]
    x = tl.load(x_ptr + at, mask=inside, other=0.0).to(tl.float32)
    numerator = tl.exp(x - tl.max(x, axis=1)[:, None])
    y = numerator / tl.sum(numerator, axis=1)[:, None]
    tl.store(y_ptr + at, y.to(tl.bfloat16), mask=inside)


def run(x: Tensor) -> Tensor:  # [M, N] bf16 -> [M, N] bf16
    M, N = x.shape
    y = torch.zeros_like(x)
    softmax_rows[(triton.cdiv(M, ROWS),)](y, x, M, N, ROWS, triton.next_power_of_2(N))
    return y
