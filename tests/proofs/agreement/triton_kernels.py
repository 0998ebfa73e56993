"""Two Triton kernels, one row per program."""

from __future__ import annotations

import torch
import triton
import triton.language as tl


@triton.jit  # type: ignore[untyped-decorator]
def softmax_row(x_pointer, y_pointer, N, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    """x, y float32 [rows, N]."""
    row = tl.program_id(0).to(tl.int64) * N
    at = tl.arange(0, BLOCK)
    x = tl.load(x_pointer + row + at, mask=at < N, other=float("-inf"))
    e = tl.exp(x - tl.max(x, axis=0))
    tl.store(y_pointer + row + at, e / tl.sum(e, axis=0), mask=at < N)


@triton.jit  # type: ignore[untyped-decorator]
def rmsnorm_row(x_pointer, w_pointer, y_pointer, N, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    """x, y bfloat16 [rows, N], w bfloat16 [N]."""
    row = tl.program_id(0).to(tl.int64) * N
    at = tl.arange(0, BLOCK)
    x = tl.load(x_pointer + row + at, mask=at < N, other=0.0).to(tl.float32)
    w = tl.load(w_pointer + at, mask=at < N, other=0.0).to(tl.float32)
    y = x * tl.rsqrt(tl.sum(x * x, axis=0) / N + 1e-6) * w
    tl.store(y_pointer + row + at, y.to(tl.bfloat16), mask=at < N)


def softmax(x: torch.Tensor) -> torch.Tensor:
    """Softmax of every row of x, float32 [rows, N]."""
    y = torch.empty_like(x)
    softmax_row[(x.shape[0],)](x, y, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]), num_warps=8)
    return y


def rmsnorm(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """RMSNorm of every row of x, bfloat16 [rows, N], times w [N]."""
    y = torch.empty_like(x)
    rmsnorm_row[(x.shape[0],)](x, w, y, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]), num_warps=8)
    return y
