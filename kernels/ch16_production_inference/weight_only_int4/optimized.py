"""Triton: nibbles are widened in registers on their way into the product; only packed weights cross memory."""

import torch
import triton
import triton.language as tl
from packing import GROUP, ZERO
from torch import Tensor

STAGES = 4  # groups of weights on their way while one is computed with


@triton.jit
def int4_product(
    y_ptr, x_ptr, packed_ptr, scales_ptr, M, N, K,
    BM: tl.constexpr, BN: tl.constexpr, GROUP: tl.constexpr, ZERO: tl.constexpr,
):  # fmt: skip
    HALF: tl.constexpr = GROUP // 2
    rows = (tl.program_id(1) * BM + tl.arange(0, BM)).to(tl.int64)
    columns = (tl.program_id(0) * BN + tl.arange(0, BN)).to(tl.int64)  # N * K / 2 may pass 2**31
    half = tl.arange(0, HALF)
    x_at = x_ptr + rows[:, None] * K + half[None, :]  # [BM, HALF]
    packed_at = packed_ptr + columns[None, :] * (K // 2) + half[:, None]  # [HALF, BN]
    in_rows = rows[:, None] < M
    in_columns = columns < N
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for group in range(0, K // GROUP):
        pairs = tl.load(packed_at + group * HALF, mask=in_columns[None, :], other=0)
        x_low = tl.load(x_at + group * GROUP, mask=in_rows, other=0.0)
        x_high = tl.load(x_at + group * GROUP + HALF, mask=in_rows, other=0.0)
        low = (pairs & 15).to(tl.float16) - ZERO  # -8 .. 7, exact
        high = (pairs >> 4).to(tl.float16) - ZERO
        part = tl.dot(x_low, low)
        part = tl.dot(x_high, high, part)
        # One scale for the whole group: applied to the sum, it rounds nothing that fp16 weights would round.
        scale = tl.load(scales_ptr + group * N + columns, mask=in_columns, other=0.0).to(tl.float32)
        total += part * scale[None, :]
    tl.store(y_ptr + rows[:, None] * N + columns[None, :], total.to(tl.float16), mask=in_rows & in_columns[None, :])


def run(x: Tensor, packed: Tensor, scales: Tensor) -> Tensor:  # x [M, K] fp16 -> [M, N] fp16
    M, K = x.shape
    N = packed.shape[0]
    y = torch.empty(M, N, dtype=x.dtype, device=x.device)
    # 16 rows are the least that tensor cores take: one row costs as much as sixteen.
    BM, BN = (16, 64) if M <= 16 else (64, 128)
    grid = (triton.cdiv(N, BN), triton.cdiv(M, BM))
    int4_product[grid](
        y, x, packed, scales, M, N, K, BM=BM, BN=BN, GROUP=GROUP, ZERO=ZERO, num_warps=4, num_stages=STAGES
    )
    return y
