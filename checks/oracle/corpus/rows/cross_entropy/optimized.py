"""Triton: rows of any length in blocks, twice: the maximum, then the sum of exp(x - max).

Two fp32 numbers a row are kept for the backward, which computes the probabilities from them and writes only gradients.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor


@triton.jit
def loss_rows(
    loss_ptr, max_ptr, log_ptr, x_ptr, label_ptr, M, V, x_row, x_col, label_step,
    ROWS: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    rows = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    there = rows < M
    start = x_ptr + rows[:, None] * x_row
    cols = tl.arange(0, BLOCK).to(tl.int64)[None, :]
    # Maxima per lane, reduced once at the end: no reduction inside the loop.
    highest = tl.full([ROWS, BLOCK], float("-inf"), tl.float32)
    for at in range(0, V, BLOCK):
        inside = there[:, None] & (at + cols < V)
        x = tl.load(start + (at + cols) * x_col, mask=inside, other=float("-inf")).to(tl.float32)
        highest = tl.maximum(highest, x)
    maximum = tl.max(highest, axis=1)
    # A NaN that the maximum passed over comes back in exp; +inf - +inf is NaN, as it should be.
    total = tl.zeros([ROWS, BLOCK], tl.float32)
    for at in range(0, V, BLOCK):
        inside = there[:, None] & (at + cols < V)
        x = tl.load(start + (at + cols) * x_col, mask=inside, other=float("-inf")).to(tl.float32)
        # Lanes past the end are masked here too: in a row of -inf alone they would be NaN, and so they are elsewhere.
        total += tl.where(inside, tl.exp(x - maximum[:, None]), 0.0)
    logarithm = tl.log(tl.sum(total, axis=1))
    label = tl.load(label_ptr + rows * label_step, mask=there, other=0)
    picked = tl.load(x_ptr + rows * x_row + label * x_col, mask=there, other=0.0).to(tl.float32)
    loss = logarithm - (picked - maximum)
    tl.store(loss_ptr + rows, loss.to(loss_ptr.dtype.element_ty), mask=there)
    tl.store(max_ptr + rows, maximum, mask=there)
    tl.store(log_ptr + rows, logarithm, mask=there)


@triton.jit
def loss_rows_backward(
    dx_ptr, dloss_ptr, max_ptr, log_ptr, x_ptr, label_ptr, M, V, dloss_step, x_row, x_col, label_step, BLOCKS,
    ROWS: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    # Blocks of a row are independent now: they are spread over programs, in one dimension of the grid, because the
    # second ends at 65535.
    program = tl.program_id(0).to(tl.int64)
    rows = program // BLOCKS * ROWS + tl.arange(0, ROWS)
    cols = program % BLOCKS * BLOCK + tl.arange(0, BLOCK)
    there = rows < M
    inside = there[:, None] & (cols < V)[None, :]
    x = tl.load(x_ptr + rows[:, None] * x_row + cols[None, :] * x_col, mask=inside, other=0.0).to(tl.float32)
    maximum = tl.load(max_ptr + rows, mask=there, other=0.0)
    logarithm = tl.load(log_ptr + rows, mask=there, other=0.0)
    dloss = tl.load(dloss_ptr + rows * dloss_step, mask=there, other=0.0).to(tl.float32)
    label = tl.load(label_ptr + rows * label_step, mask=there, other=0)
    share = tl.exp(x - maximum[:, None] - logarithm[:, None])
    dx = (share - tl.where(cols[None, :] == label[:, None], 1.0, 0.0)) * dloss[:, None]
    tl.store(dx_ptr + rows[:, None] * V + cols[None, :], dx.to(dx_ptr.dtype.element_ty), mask=inside)


def tile(V: int) -> tuple[int, int]:
    """Rows per program and the block of columns: short rows share a program, long ones take several blocks."""
    BLOCK = min(1024, max(16, triton.next_power_of_2(V)))
    return max(1, 2048 // BLOCK), BLOCK


class CrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, logits: Tensor, labels: Tensor) -> Tensor:
        M, V = logits.shape
        loss = logits.new_empty((M,))
        maximum = logits.new_empty((M,), dtype=torch.float32)
        logarithm = logits.new_empty((M,), dtype=torch.float32)
        if M:
            ROWS, BLOCK = tile(V)
            loss_rows[(triton.cdiv(M, ROWS),)](
                *(loss, maximum, logarithm, logits, labels, M, V),
                *(logits.stride(0), logits.stride(1), labels.stride(0), ROWS, BLOCK),
            )
        ctx.save_for_backward(logits, labels, maximum, logarithm)
        return loss

    @staticmethod
    def backward(ctx: Any, dloss: Tensor) -> tuple[Tensor, None]:
        logits, labels, maximum, logarithm = ctx.saved_tensors
        M, V = logits.shape
        dx = logits.new_empty((M, V))
        if dx.numel():
            ROWS, BLOCK = tile(V)
            BLOCKS = triton.cdiv(V, BLOCK)
            loss_rows_backward[(triton.cdiv(M, ROWS) * BLOCKS,)](
                *(dx, dloss, maximum, logarithm, logits, labels, M, V, dloss.stride(0)),
                *(logits.stride(0), logits.stride(1), labels.stride(0), BLOCKS, ROWS, BLOCK),
            )
        return dx, None


def run(logits: Tensor, labels: Tensor) -> Tensor:  # logits [M, V], labels int64 [M] -> [M], dtype of logits
    return CrossEntropy.apply(logits, labels)
