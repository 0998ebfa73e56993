"""Triton: bytes are widened to fp16 in registers by one multiplication and two masks, scaled, and multiplied there.

A byte's low and high values go into two products with the same sum; nothing puts them side by side. e2m1's bits at the
place of fp16's are the value times 2^-14, zero and 0.5 included, for fp16 has numbers below its least normal one. The
scale carries 2^7 of that back, which is as much as 448 can in fp16, and the finished sum what is left of both operands.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

BYTES = 64  # of each row in one step along K: 128 values
STAGES = 3
PROGRAMS = 792  # wanted at least: six for each of 132 multiprocessors
BLOCK = 1024  # numbers of y that a program of the second pass adds up


@triton.jit
def widened(packed, table_ptr, BY: tl.constexpr):
    """fp16 tiles of the low and of the high values of `packed`, times 2^-14: sign in bit 15, the rest in 11 to 9."""
    if BY == "table":
        both = tl.load(table_ptr + packed.to(tl.int32))
    else:
        spread = packed.to(tl.uint32) * 0x01001000  # a copy 12 places up, one 24: each sign is where it belongs
        both = (spread & 0x80008000) | ((spread >> 3) & 0x0E000E00)
    low = both.to(tl.uint16).to(tl.float16, bitcast=True)
    high = (both >> 16).to(tl.uint16).to(tl.float16, bitcast=True)
    return low, high


@triton.jit
def widened_scales(scales_ptr, rows, R, groups, step, ROWS: tl.constexpr, GROUPS: tl.constexpr, EACH: tl.constexpr):
    """fp16 [ROWS, GROUPS * EACH]: one step's scales of an operand with R rows, times 2^7, each EACH times."""
    group = step * GROUPS + tl.arange(0, GROUPS)
    scales_at = scales_ptr + rows[:, None] * groups + group[None, :]
    scales = tl.load(scales_at, mask=(rows < R)[:, None] & (group < groups)[None, :], other=0)
    # e4m3's bits at the place of fp16's are the scale times 2^-8; 2^15 makes that 2^7. No sign: scales are positive.
    scales = (scales.to(tl.uint16) << 7).to(tl.float16, bitcast=True) * 32768.0
    return tl.broadcast_to(scales[:, :, None], (ROWS, GROUPS, EACH)).reshape(ROWS, GROUPS * EACH)


@triton.jit
def operand(
    packed_ptr, scales_ptr, table_ptr, rows, R, half, groups, step, ROWS: tl.constexpr, BYTES: tl.constexpr,
    BY: tl.constexpr,
):  # fmt: skip
    """fp16 [ROWS, BYTES], low and high: one step of an operand with R rows, times 2^-7. Exact, six bits at most."""
    byte = step * BYTES + tl.arange(0, BYTES)
    packed_at = packed_ptr + rows[:, None] * half + byte[None, :]
    packed = tl.load(packed_at, mask=(rows < R)[:, None] & (byte < half)[None, :], other=0)
    scales = widened_scales(scales_ptr, rows, R, groups, step, ROWS, BYTES // 8, 8)  # a scale for eight bytes
    low, high = widened(packed, table_ptr, BY)
    return low * scales, high * scales


@triton.jit
def nvfp4_part(
    out_ptr,  # fp32 [splits, M, N], or bf16 [M, N] where one program has all of K
    a_ptr,  # uint8 [M, K/2]
    a_scale_ptr,  # uint8, the bits of e4m3, [M, K/16]
    b_ptr,  # uint8 [N, K/2]
    b_scale_ptr,  # uint8, the bits of e4m3, [N, K/16]
    scale_ptr,  # fp32 [1]
    table_ptr,  # uint32 [256], only for BY = "table"
    M,
    N,
    half,  # K/2 and K/16, bytes of a row: where 16 divides them, Triton sees it and copies 16 bytes at a time
    groups,
    steps_each,  # steps along K for one program
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BYTES: tl.constexpr,
    BY: tl.constexpr,
    WHOLE: tl.constexpr,  # one program has all of K
):
    split = tl.program_id(2)
    rows = (tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)).to(tl.int64)  # int32 ends at 2**31 elements
    columns = (tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)).to(tl.int64)
    # Weights are the first operand. Hopper's own instruction takes that one from registers, where it is widened, and
    # wants 64 rows of it; the second may have as few as eight.
    total = tl.zeros((BLOCK_N, BLOCK_M), tl.float32)
    for step in range(split * steps_each, tl.minimum((split + 1) * steps_each, tl.cdiv(half, BYTES))):
        b_low, b_high = operand(b_ptr, b_scale_ptr, table_ptr, columns, N, half, groups, step, BLOCK_N, BYTES, BY)
        a_low, a_high = operand(a_ptr, a_scale_ptr, table_ptr, rows, M, half, groups, step, BLOCK_M, BYTES, BY)
        total = tl.dot(b_low, a_low.T, total)  # the even places along K
        total = tl.dot(b_high, a_high.T, total)  # and the odd ones
    total *= 16384.0  # 2^7 for each operand: sums are now those of the scaled values
    if WHOLE:
        total *= tl.load(scale_ptr)
    at = out_ptr + (split * M + rows)[None, :] * N + columns[:, None]
    tl.store(at, total.to(out_ptr.dtype.element_ty), mask=(rows < M)[None, :] & (columns < N)[:, None])


@triton.jit
def add_parts(y_ptr, parts_ptr, scale_ptr, count, parts, BLOCK: tl.constexpr):
    """y = scale times the sum of fp32 parts [parts, count], in their order: the same bits every time."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    part_at = parts_ptr + at
    for _ in range(parts):
        total += tl.load(part_at, mask=at < count, other=0.0)
        part_at += count
    tl.store(y_ptr + at, (total * tl.load(scale_ptr)).to(y_ptr.dtype.element_ty), mask=at < count)


def finished(parts: Tensor, scale: Tensor) -> Tensor:  # fp32 [splits, M, N], fp32 [1] -> bf16 [M, N]
    y = torch.empty(parts.shape[1:], dtype=torch.bfloat16, device=parts.device)
    add_parts[(triton.cdiv(y.numel(), BLOCK),)](y, parts, scale, y.numel(), len(parts), BLOCK=BLOCK)
    return y


def tiled(M: int) -> tuple[int, int, int]:
    """BLOCK_M, BLOCK_N and the number of warps for M rows."""
    rows = min(max(triton.next_power_of_2(M), 16), 128)
    return (rows, 128, 8) if rows == 128 else (rows, 64, 4)


def cut(tiles: tuple[int, int], steps: int) -> tuple[int, int]:
    """Into how many parts K goes, and the steps of each: so many that there are PROGRAMS, and each has work."""
    each = triton.cdiv(steps, min(steps, triton.cdiv(PROGRAMS, tiles[0] * tiles[1])))
    return triton.cdiv(steps, each), each


def product(
    a: Tensor, a_scale: Tensor, b: Tensor, b_scale: Tensor, scale: Tensor, *, by: str = "bits",
    table: Tensor | None = None,
) -> Tensor:  # fmt: skip
    # a uint8 [M, K/2], a_scale e4m3 [M, K/16], b uint8 [N, K/2], b_scale e4m3 [N, K/16], scale fp32 [1] -> bf16 [M, N]
    (M, half), N = a.shape, b.shape[0]
    rows, columns, num_warps = tiled(M)
    tiles = (triton.cdiv(M, rows), triton.cdiv(N, columns))
    splits, each = cut(tiles, triton.cdiv(half, BYTES))
    whole = splits == 1
    out = torch.empty((splits, M, N), dtype=torch.bfloat16 if whole else torch.float32, device=a.device)
    nvfp4_part[(*tiles, splits)](
        out, a, a_scale.view(torch.uint8), b, b_scale.view(torch.uint8), scale, table, M, N, half, half // 8, each,
        rows, columns, BYTES, by, whole, num_warps=num_warps, num_stages=STAGES,
    )  # fmt: skip
    return out[0] if whole else finished(out, scale)


def run(a: Tensor, a_scale: Tensor, b: Tensor, b_scale: Tensor, scale: Tensor) -> Tensor:
    return product(a, a_scale, b, b_scale, scale)
