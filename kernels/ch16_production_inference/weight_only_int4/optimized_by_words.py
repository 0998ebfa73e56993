"""Nibbles widened four bytes at a time, eight in twelve instructions of PTX; their parts are added by one kernel."""

import torch
import triton
import triton.language as tl
from packing import GROUP, ZERO
from torch import Tensor

PROGRAMS = 792  # six for each of an H200's 132 SMs: enough weights on their way, and few parts to add
BLOCK = 1024  # numbers of y that a program adds up

# Of four bytes: the low nibbles, one to a byte, and the high ones. 0x64 put above a nibble makes 1024 + nibble in fp16,
# two of them in a word, from which 1024 + ZERO is taken off.
WIDEN = tl.constexpr(
    f"""
    {{
    .reg .b32 low, high, offset;
    and.b32 low, $4, 0x0f0f0f0f;
    shr.u32 high, $4, 4;
    and.b32 high, high, 0x0f0f0f0f;
    mov.b32 offset, {(0x6400 + ZERO) * 0x10001:#010x};
    prmt.b32 $0, low, 0x64646464, 0x4140;
    prmt.b32 $1, low, 0x64646464, 0x4342;
    prmt.b32 $2, high, 0x64646464, 0x4140;
    prmt.b32 $3, high, 0x64646464, 0x4342;
    sub.f16x2 $0, $0, offset;
    sub.f16x2 $1, $1, offset;
    sub.f16x2 $2, $2, offset;
    sub.f16x2 $3, $3, offset;
    }}
    """
)


@triton.jit
def int4_part(
    parts_ptr, x_ptr, packed_ptr, scales_ptr, M, N, K, groups_each,
    BM: tl.constexpr, BN: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    HALF: tl.constexpr = GROUP // 2
    split = tl.program_id(2)
    rows = (tl.program_id(1) * BM + tl.arange(0, BM)).to(tl.int64)
    columns = (tl.program_id(0) * BN + tl.arange(0, BN)).to(tl.int64)  # N * K / 2 may pass 2**31
    half = tl.arange(0, HALF)
    x_at = x_ptr + rows[:, None] * K + half[None, :]  # [BM, HALF]
    packed_at = packed_ptr + columns[:, None] * (K // 2) + half[None, :]  # [BN, HALF]
    in_rows = rows < M
    in_columns = columns < N
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for group in range(split * groups_each, tl.minimum((split + 1) * groups_each, K // GROUP)):
        pairs = tl.load(packed_at + group * HALF, mask=in_columns[:, None], other=0)
        x_low = tl.load(x_at + group * GROUP, mask=in_rows[:, None], other=0.0)
        x_high = tl.load(x_at + group * GROUP + HALF, mask=in_rows[:, None], other=0.0)
        low, high = tl.inline_asm_elementwise(
            WIDEN, "=&r,=&r,=&r,=&r,r", [pairs], dtype=(tl.float16, tl.float16), is_pure=True, pack=4
        )
        part = tl.dot(x_high, tl.trans(high), tl.dot(x_low, tl.trans(low)))
        scale = tl.load(scales_ptr + group * N + columns, mask=in_columns, other=0.0).to(tl.float32)
        total += part * scale[None, :]
    at = parts_ptr + (split * M + rows)[:, None] * N + columns[None, :]
    tl.store(at, total, mask=in_rows[:, None] & in_columns[None, :])


@triton.jit
def add_parts(y_ptr, parts_ptr, count, parts, BLOCK: tl.constexpr):
    """y = the sum of fp32 parts [parts, count], in their order: the same bits every time."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for part in range(parts):
        total += tl.load(parts_ptr + part.to(tl.int64) * count + at, mask=at < count, other=0.0)
    tl.store(y_ptr + at, total.to(y_ptr.dtype.element_ty), mask=at < count)


def run(x: Tensor, packed: Tensor, scales: Tensor) -> Tensor:  # x [M, K] fp16 -> [M, N] fp16
    M, K = x.shape
    N = packed.shape[0]
    BM, BN, num_warps = (16, 64, 2) if M <= 16 else (64, 128, 4)
    tiles = (triton.cdiv(N, BN), triton.cdiv(M, BM))
    groups = K // GROUP
    each = triton.cdiv(groups, min(groups, triton.cdiv(PROGRAMS, tiles[0] * tiles[1])))
    splits = triton.cdiv(groups, each)  # each program has work
    parts = torch.empty((splits, M, N), dtype=torch.float32, device=x.device)
    int4_part[(*tiles, splits)](
        parts, x, packed, scales, M, N, K, each, BM=BM, BN=BN, GROUP=GROUP, num_warps=num_warps, num_stages=3
    )
    y = torch.empty((M, N), dtype=x.dtype, device=x.device)
    add_parts[(triton.cdiv(M * N, BLOCK),)](y, parts, M * N, splits, BLOCK=BLOCK)
    return y
