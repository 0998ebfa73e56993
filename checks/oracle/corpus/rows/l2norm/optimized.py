"""Triton: a tile of rows per program, read once and kept in registers; its backward reads x and dy once each."""

from typing import Any

import torch
import triton
import triton.language as tl
from definition import EPS
from torch import Tensor


@triton.jit
def l2norm_rows(y_ptr, x_ptr, M, N, x_row, x_col, eps, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    rows = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    cols = tl.arange(0, BLOCK).to(tl.int64)
    inside = (rows < M)[:, None] & (cols < N)[None, :]
    x = tl.load(x_ptr + rows[:, None] * x_row + cols[None, :] * x_col, mask=inside, other=0.0).to(tl.float32)
    # Rounded root and quotient, once a row: rsqrt is an approximation, two units off, in every element of the row.
    r = tl.div_rn(1.0, tl.sqrt_rn(tl.sum(x * x, axis=1) + eps))[:, None]
    tl.store(y_ptr + rows[:, None] * N + cols[None, :], (x * r).to(y_ptr.dtype.element_ty), mask=inside)


@triton.jit
def l2norm_rows_backward(
    dx_ptr, dy_ptr, x_ptr, M, N, dy_row, dy_col, x_row, x_col, eps, ROWS: tl.constexpr, BLOCK: tl.constexpr
):
    rows = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    cols = tl.arange(0, BLOCK).to(tl.int64)
    inside = (rows < M)[:, None] & (cols < N)[None, :]
    x = tl.load(x_ptr + rows[:, None] * x_row + cols[None, :] * x_col, mask=inside, other=0.0).to(tl.float32)
    dy = tl.load(dy_ptr + rows[:, None] * dy_row + cols[None, :] * dy_col, mask=inside, other=0.0).to(tl.float32)
    r = tl.div_rn(1.0, tl.sqrt_rn(tl.sum(x * x, axis=1) + eps))[:, None]
    y = x * r
    # Through y and not x * r^3: the cube of a large row's r would underflow, that of a small one's lose digits.
    dx = (dy - y * tl.sum(y * dy, axis=1)[:, None]) * r
    tl.store(dx_ptr + rows[:, None] * N + cols[None, :], dx.to(dx_ptr.dtype.element_ty), mask=inside)


def tile(N: int) -> tuple[int, int]:
    """Rows per program and the block that holds a row of N: short rows share a program, so that each lane has work."""
    BLOCK = max(16, triton.next_power_of_2(N))
    return max(1, 2048 // BLOCK), BLOCK


class L2Norm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        M, N = x.shape
        y = x.new_empty((M, N))
        if y.numel():
            ROWS, BLOCK = tile(N)
            l2norm_rows[(triton.cdiv(M, ROWS),)](y, x, M, N, x.stride(0), x.stride(1), EPS, ROWS, BLOCK)
        return y

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        M, N = x.shape
        dx = x.new_empty((M, N))
        if dx.numel():
            ROWS, BLOCK = tile(N)
            l2norm_rows_backward[(triton.cdiv(M, ROWS),)](
                dx, dy, x, M, N, dy.stride(0), dy.stride(1), x.stride(0), x.stride(1), EPS, ROWS, BLOCK
            )
        return dx


def run(x: Tensor) -> Tensor:  # x [M, N] -> [M, N], same dtype
    return L2Norm.apply(x)
