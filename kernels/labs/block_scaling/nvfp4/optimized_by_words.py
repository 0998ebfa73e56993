"""Widened by PTX, eight values of a register in nineteen instructions: two of them lie in it as the tensor core wants.

Taken 16 bits at a time, a row has four values in each number, and they go into four products with the same sum. Two
neighbouring numbers share a register. Two shifts and two masks on it make two values of the same product at once, side
by side, and no byte is moved. Triton's interpreter knows no PTX: this is for a GPU alone.
"""

import torch
import triton
import triton.language as tl
from optimized import BYTES, STAGES, cut, finished, tiled, widened_scales
from torch import Tensor

# Of each half of a register the four bits from place 0, 4, 8 and 12: the sign goes to place 15, the rest to 11 to 9.
WIDEN = tl.constexpr(
    """
    {
    .reg .b32 sign, rest;
    shl.b32 sign, $4, 12;
    shl.b32 rest, $4, 9;
    and.b32 sign, sign, 0x80008000;
    and.b32 rest, rest, 0x0e000e00;
    or.b32 $0, sign, rest;
    shl.b32 sign, $4, 8;
    shl.b32 rest, $4, 5;
    and.b32 sign, sign, 0x80008000;
    and.b32 rest, rest, 0x0e000e00;
    or.b32 $1, sign, rest;
    shl.b32 sign, $4, 4;
    shl.b32 rest, $4, 1;
    and.b32 sign, sign, 0x80008000;
    and.b32 rest, rest, 0x0e000e00;
    or.b32 $2, sign, rest;
    shr.u32 rest, $4, 3;
    and.b32 sign, $4, 0x80008000;
    and.b32 rest, rest, 0x0e000e00;
    or.b32 $3, sign, rest;
    }
    """
)


@triton.jit
def operand_by_words(
    packed_ptr, scales_ptr, rows, R, quarter, groups, step, ROWS: tl.constexpr, WORDS: tl.constexpr
):  # fmt: skip
    """Four tiles fp16 [ROWS, WORDS], times 2^-7: one step of an operand with R rows."""
    word = step * WORDS + tl.arange(0, WORDS)
    packed_at = packed_ptr + rows[:, None] * quarter + word[None, :]
    packed = tl.load(packed_at, mask=(rows < R)[:, None] & (word < quarter)[None, :], other=0)
    scales = widened_scales(scales_ptr, rows, R, groups, step, ROWS, WORDS // 4, 4)  # a scale for four words
    v0, v1, v2, v3 = tl.inline_asm_elementwise(
        WIDEN, "=&r,=&r,=&r,=&r,r", [packed], dtype=(tl.float16, tl.float16, tl.float16, tl.float16), is_pure=True,
        pack=2,
    )  # fmt: skip
    return v0 * scales, v1 * scales, v2 * scales, v3 * scales


@triton.jit
def nvfp4_part_by_words(
    out_ptr,  # fp32 [splits, M, N], or bf16 [M, N] where one program has all of K
    a_ptr,  # uint16 [M, K/4]
    a_scale_ptr,  # uint8, the bits of e4m3, [M, K/16]
    b_ptr,  # uint16 [N, K/4]
    b_scale_ptr,  # uint8, the bits of e4m3, [N, K/16]
    scale_ptr,  # fp32 [1]
    M,
    N,
    quarter,  # K/4 and K/16
    groups,
    steps_each,  # steps along K for one program
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    WORDS: tl.constexpr,
    WHOLE: tl.constexpr,  # one program has all of K
):
    split = tl.program_id(2)
    rows = (tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)).to(tl.int64)  # int32 ends at 2**31 elements
    columns = (tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)).to(tl.int64)
    total = tl.zeros((BLOCK_N, BLOCK_M), tl.float32)
    for step in range(split * steps_each, tl.minimum((split + 1) * steps_each, tl.cdiv(quarter, WORDS))):
        b0, b1, b2, b3 = operand_by_words(b_ptr, b_scale_ptr, columns, N, quarter, groups, step, BLOCK_N, WORDS)
        a0, a1, a2, a3 = operand_by_words(a_ptr, a_scale_ptr, rows, M, quarter, groups, step, BLOCK_M, WORDS)
        total = tl.dot(b0, a0.T, total)
        total = tl.dot(b1, a1.T, total)
        total = tl.dot(b2, a2.T, total)
        total = tl.dot(b3, a3.T, total)
    total *= 16384.0  # 2^7 for each operand: sums are now those of the scaled values
    if WHOLE:
        total *= tl.load(scale_ptr)
    at = out_ptr + (split * M + rows)[None, :] * N + columns[:, None]
    tl.store(at, total.to(out_ptr.dtype.element_ty), mask=(rows < M)[None, :] & (columns < N)[:, None])


def run(a: Tensor, a_scale: Tensor, b: Tensor, b_scale: Tensor, scale: Tensor) -> Tensor:
    # a uint8 [M, K/2], a_scale e4m3 [M, K/16], b uint8 [N, K/2], b_scale e4m3 [N, K/16], scale fp32 [1] -> bf16 [M, N]
    (M, half), N = a.shape, b.shape[0]
    rows, columns, num_warps = tiled(M)
    if torch.cuda.get_device_capability(a.device)[0] >= 10:
        rows = min(rows, 64)  # four pairs of operands with 128 rows are more than Blackwell's tensor memory holds
    tiles = (triton.cdiv(M, rows), triton.cdiv(N, columns))
    splits, each = cut(tiles, triton.cdiv(half, BYTES))
    whole = splits == 1
    out = torch.empty((splits, M, N), dtype=torch.bfloat16 if whole else torch.float32, device=a.device)
    nvfp4_part_by_words[(*tiles, splits)](
        out, a.view(torch.uint16), a_scale.view(torch.uint8), b.view(torch.uint16), b_scale.view(torch.uint8), scale,
        M, N, half // 2, half // 8, each, rows, columns, BYTES // 2, whole, num_warps=num_warps, num_stages=STAGES,
    )  # fmt: skip
    return out[0] if whole else finished(out, scale)
