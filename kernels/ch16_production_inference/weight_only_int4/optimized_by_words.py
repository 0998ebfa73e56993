"""Nibbles widened four bytes at a time, eight in twelve instructions of PTX; the parts are added by one kernel."""

import torch
import triton
import triton.language as tl
from split import parts_of
from torch import Tensor

PROGRAMS = 792  # six for each of an H200's 132 SMs: enough weights on their way, and few parts to add
BLOCK = 1024  # numbers of y that a program adds up


@triton.jit
def add_parts(y_ptr, parts_ptr, count, parts, BLOCK: tl.constexpr):
    """y = the sum of fp32 parts [parts, count], in their order: the same bits every time."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for part in range(parts):
        total += tl.load(parts_ptr + part.to(tl.int64) * count + at, mask=at < count, other=0.0)
    tl.store(y_ptr + at, total.to(y_ptr.dtype.element_ty), mask=at < count)


def run(x: Tensor, packed: Tensor, scales: Tensor) -> Tensor:  # x [M, K] fp16 -> [M, N] fp16
    parts = parts_of(x, packed, scales, programs=PROGRAMS, num_warps=2 if len(x) <= 16 else 4, by_words=True)
    y = torch.empty(parts.shape[1:], dtype=x.dtype, device=x.device)
    add_parts[(triton.cdiv(y.numel(), BLOCK),)](y, parts, y.numel(), len(parts), BLOCK=BLOCK)
    return y
