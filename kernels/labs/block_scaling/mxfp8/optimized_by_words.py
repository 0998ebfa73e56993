"""Widened by PTX, two values of a register at a time, with scales that are fetched steps ahead.

Values: taken 16 bits at a time, a row has two in each number, and they go into two products with the same sum. Two
neighbouring numbers share a register. Shifts and masks on it put e4m3's bits at the place of bf16's, for two values of
the same product at once, side by side, and no byte is moved. bf16's exponent starts 120 higher than e4m3's, so what is
there is the value times 2^-120, subnormals too. Triton's interpreter knows no PTX: this is for a GPU alone.

Scales: four neighbours are a word of 32 bits, the least that Triton copies to shared memory ahead of its use, so K has
to be a multiple of 128. By how much a word is shifted for each of them stands in memory: for shifts that it can compute
the compiler takes the values through shared memory once more.
"""

import functools
from typing import Any

import torch
import triton
import triton.language as tl
from optimized_split_k import cut
from tiles import FEW, few_columns, place, sides
from torch import Tensor

PROGRAMS = 264  # wanted: two for each of an H200's 132 multiprocessors
FOUR = tl.constexpr(64)  # uint16 of a row under the four scales of a word

# Of each half of a register the low byte, then the high one: the sign goes to place 15, the rest to 10 to 4. Then times
# 2^120 and the group's power of two, both exact. They are two steps, as 2^120 times a power may be more than bf16 has.
# fma less zero is the product, of which there is no instruction for bf16 before sm_90.
WIDEN = tl.constexpr(
    """
    {
    .reg .b32 sign, rest, up, none;
    mov.b32 up, 0x7b807b80;
    mov.b32 none, 0x80008000;
    shl.b32 sign, $2, 8;
    shl.b32 rest, $2, 4;
    and.b32 sign, sign, 0x80008000;
    and.b32 rest, rest, 0x07f007f0;
    or.b32 rest, sign, rest;
    fma.rn.bf16x2 rest, rest, up, none;
    fma.rn.bf16x2 $0, rest, $3, none;
    shr.u32 rest, $2, 4;
    and.b32 sign, $2, 0x80008000;
    and.b32 rest, rest, 0x07f007f0;
    or.b32 rest, sign, rest;
    fma.rn.bf16x2 rest, rest, up, none;
    fma.rn.bf16x2 $1, rest, $3, none;
    }
    """
)


@triton.jit
def widened_words(words, scales):
    """uint16 [ROWS, WORDS], e8m0 in integers [ROWS, GROUPS] -> two tiles bf16 [ROWS, WORDS]: low bytes, high bytes."""
    ROWS: tl.constexpr = words.shape[0]
    WORDS: tl.constexpr = words.shape[1]
    GROUPS: tl.constexpr = scales.shape[1]
    powers = (scales.to(tl.uint16) << 7).to(tl.bfloat16, bitcast=True)  # the byte is bf16's exponent field
    powers = tl.broadcast_to(powers[:, :, None], (ROWS, GROUPS, WORDS // GROUPS)).reshape(ROWS, WORDS)
    return tl.inline_asm_elementwise(
        WIDEN, "=&r,=&r,r,r", [words, powers], dtype=(tl.bfloat16, tl.bfloat16), is_pure=True, pack=2
    )


@triton.jit
def operand_by_words(at, scales_at, shifts_ptr, start, word, four, WORDS, BLOCK: tl.constexpr, WHOLE: tl.constexpr):
    """One step along K of an operand, from word `start` of its rows on: two tiles bf16 [ROWS, BLOCK], scaled; zeros
    beyond the end of the rows."""
    first = start // FOUR
    if WHOLE:
        words = tl.load(at + start)
        scales = tl.load(scales_at + first)
    else:
        words = tl.load(at + start, mask=start + word < WORDS, other=0)
        scales = tl.load(scales_at + first, mask=first + four < WORDS // FOUR, other=0)
    if BLOCK < FOUR:  # the first two of the four, or the last two
        shifts = tl.load(shifts_ptr + (start // BLOCK - first * 2) * 2 + tl.arange(0, 2))
        scales = scales >> shifts[None, :]
    else:
        shifts = tl.load(shifts_ptr + tl.arange(0, 4))
        scales = (scales[:, :, None] >> shifts[None, None, :]).reshape(scales.shape[0], BLOCK // 16)
    return widened_words(words, scales & 255)


@triton.jit
def part_by_words(
    out_ptr,  # bf16 [1, M, N] or fp32 [splits, M, N], at the strides below
    a_ptr,  # uint16 [M, WORDS]
    a_scale_ptr,  # int32, four scales, [M, WORDS/FOUR]
    b_ptr,  # uint16 [N, WORDS]
    b_scale_ptr,  # int32, four scales, [N, WORDS/FOUR]
    M,
    N,
    WORDS,  # of a row, K/2
    y_stride_m,
    y_stride_n,
    shifts_ptr,  # int32 [4]
    words_each,  # of a row for one program, a multiple of BLOCK
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK: tl.constexpr,  # words of a row in one step
    WHOLE: tl.constexpr,  # WORDS is a multiple of BLOCK
):
    tile_m, tile_n = place(M, N, BLOCK_M, BLOCK_N)
    split = tl.program_id(1)
    rows = tile_m * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
    word = tl.arange(0, BLOCK)[None, :]
    FOURS: tl.constexpr = BLOCK // FOUR if BLOCK >= FOUR else 1
    four = tl.arange(0, FOURS)[None, :]
    # Rows beyond the edge wrap around and are computed for nothing: masks would take registers in the loop.
    row = (rows % M).to(tl.int64)[:, None]  # int32 ends at 2**31 elements
    column = (columns % N).to(tl.int64)[:, None]
    a_at = a_ptr + row * WORDS + word
    b_at = b_ptr + column * WORDS + word
    a_scale_at = a_scale_ptr + row * (WORDS // FOUR) + four
    b_scale_at = b_scale_ptr + column * (WORDS // FOUR) + four

    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(split * words_each, tl.minimum((split + 1) * words_each, WORDS), BLOCK):
        a_low, a_high = operand_by_words(a_at, a_scale_at, shifts_ptr, start, word, four, WORDS, BLOCK, WHOLE)
        b_low, b_high = operand_by_words(b_at, b_scale_at, shifts_ptr, start, word, four, WORDS, BLOCK, WHOLE)
        total = tl.dot(a_low, b_low.T, total)  # the even places along K
        total = tl.dot(a_high, b_high.T, total)  # and the odd ones

    out = out_ptr + split.to(tl.int64) * M * N
    y = out + rows.to(tl.int64)[:, None] * y_stride_m + columns.to(tl.int64)[None, :] * y_stride_n
    tl.store(y, total.to(out_ptr.dtype.element_ty), mask=(rows < M)[:, None] & (columns < N)[None, :])


@functools.cache
def shifts(device: torch.device) -> Tensor:
    """By how many bits a word is shifted for each of its four scales."""
    return torch.arange(0, 32, 8, dtype=torch.int32, device=device)


def plan(M: int, capability: int) -> tuple[tuple[int, int, int], dict[str, Any]]:
    """Tile, the last of its three numbers in words of a row, and launch options for M rows of activations."""
    if M > FEW:
        rows = 256 if capability == 9 else 128  # 256 are more than Blackwell's tensor memory holds
        return (rows, 128, 32), {"num_warps": 8, "num_stages": 3}
    return (64, few_columns(M), 128), {"num_warps": 4, "num_stages": 4 if M <= 16 else 3}


def run(a: Tensor, a_scale: Tensor, b: Tensor, b_scale: Tensor) -> Tensor:
    # a e4m3 [M, K], a_scale uint8 [M, K/32], b e4m3 [N, K], b_scale uint8 [N, K/32] -> bf16 [M, N]
    tile, options = plan(len(a), torch.cuda.get_device_capability(a.device)[0])
    operands = sides(a.view(torch.uint16), a_scale.view(torch.int32), b.view(torch.uint16), b_scale.view(torch.int32))
    tiles, words = triton.cdiv(operands[4], tile[0]) * triton.cdiv(operands[5], tile[1]), operands[6]
    splits, each = cut(tiles, triton.cdiv(words, tile[2]), PROGRAMS)
    dtype = torch.bfloat16 if splits == 1 else torch.float32
    out = torch.empty((splits, len(a), len(b)), dtype=dtype, device=a.device)
    part_by_words[(tiles, splits)](
        out, *operands, shifts(a.device), each * tile[2], *tile, words % tile[2] == 0, **options
    )
    return out[0] if splits == 1 else out.sum(dim=0).to(torch.bfloat16)
