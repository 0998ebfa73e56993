"""Triton: a tile of rows in registers, asked K times for its largest key: bits that order as the numbers do."""

import torch
import triton
import triton.language as tl
from torch import Tensor


@triton.jit
def topk_rows(value_ptr, index_ptr, x_ptr, M, N, K, x_row, x_col, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    LEAST: tl.constexpr = -2147483648  # no number has this key: -inf's is higher, and NaN is moved to the top
    rows = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    cols = tl.arange(0, BLOCK)
    there = rows < M
    inside = there[:, None] & (cols < N)[None, :]
    source = x_ptr + rows[:, None] * x_row + cols.to(tl.int64)[None, :] * x_col
    x = tl.load(source, mask=inside, other=0.0)
    # The bits of fp16 and bf16 order as those of fp32 do; widening them carries the sign along.
    if x.dtype.primitive_bitwidth == 16:
        bits = x.to(tl.int16, bitcast=True).to(tl.int32)
    else:
        bits = x.to(tl.int32, bitcast=True)
    # Negative numbers: flipping all bits but the sign turns their descending order around.
    key = tl.where(bits < 0, bits ^ 0x7FFFFFFF, bits)
    wide = x.to(tl.float32)
    key = tl.where(wide != wide, 0x7FFFFFFF, key)
    key = tl.where(inside, key, LEAST)
    for rank in range(0, K):
        largest = tl.max(key, axis=1)
        # The first of several equal ones, so that the result does not depend on how lanes are reduced.
        index = tl.min(tl.where(key == largest[:, None], cols[None, :], BLOCK), axis=1)
        value = tl.load(x_ptr + rows * x_row + index.to(tl.int64) * x_col, mask=there, other=0.0)
        tl.store(value_ptr + rows * K + rank, value, mask=there)
        tl.store(index_ptr + rows * K + rank, index.to(tl.int64), mask=there)
        key = tl.where(cols[None, :] == index[:, None], LEAST, key)


def run(x: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:  # x [M, N], k int64 [] -> [M, min(k, N)], same in int64
    M, N = x.shape
    K = min(int(k), N)
    values = x.new_empty((M, K))
    indices = x.new_empty((M, K), dtype=torch.int64)
    if values.numel():
        BLOCK = max(16, triton.next_power_of_2(N))
        ROWS = max(1, 4096 // BLOCK)  # short rows share a program, so that each lane has work
        topk_rows[(triton.cdiv(M, ROWS),)](values, indices, x, M, N, K, x.stride(0), x.stride(1), ROWS, BLOCK)
    return values, indices
