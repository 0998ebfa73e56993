"""The kernel of all Triton rungs: softmax of ROWS rows per program, on as many warps as its caller says.

A tile [ROWS, BLOCK] of bf16 is laid out with up to 8 neighbouring elements, 16 bytes, to a thread. With BLOCK = 256 and
8 elements each, a warp holds a whole row and both reductions stay inside it. Four warps on one such row have 2 elements
to a thread, and must meet in shared memory.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor


@triton.jit
def softmax_rows(y_ptr, x_ptr, M, N, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    rows = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)  # int32 ends at 2**31 elements
    columns = tl.arange(0, BLOCK)
    at = rows[:, None] * N + columns[None, :]
    inside = (rows < M)[:, None] & (columns < N)[None, :]
    # -inf is what a maximum ignores and what exp() makes a zero of.
    x = tl.load(x_ptr + at, mask=inside, other=float("-inf")).to(tl.float32)
    numerator = tl.exp(x - tl.max(x, axis=1)[:, None])
    # One division per row; per element only a multiplication.
    y = numerator * (1.0 / tl.sum(numerator, axis=1))[:, None]
    tl.store(y_ptr + at, y.to(tl.bfloat16), mask=inside)


def softmax(x: Tensor, rows: int, num_warps: int) -> Tensor:  # [M, N] bf16 -> [M, N] bf16
    M, N = x.shape
    y = torch.empty_like(x)
    softmax_rows[(triton.cdiv(M, rows),)](y, x, M, N, rows, triton.next_power_of_2(N), num_warps=num_warps)
    return y
