"""The product cut along K as well, so that enough programs are under way; parts are added in a fixed order.

`TURNED` computes W x^T instead of x W^T. Hopper's own instruction, wgmma, multiplies 64 rows at the least and may take
them from registers, where the widened weights are; with the 16 rows of x as the first operand it is the older mma.

`BY_BITS` widens without a conversion. 0x6400 are the bits of 1024 in fp16, whose last place there counts 1: a nibble
put into the lowest four bits makes 1024 + nibble, exactly, and a subtraction takes 1024 and ZERO off again.

`BY_WORDS` does the same to four bytes at a time, in PTX: Triton's interpreter knows none, so that is for a GPU alone.
"""

import torch
import triton
import triton.language as tl
from packing import GROUP, ZERO
from torch import Tensor

STAGES = 3  # groups of weights on their way while one is computed with
PROGRAMS = 2112  # 16 for each of an H200's 132 SMs

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
    BM: tl.constexpr, BN: tl.constexpr, GROUP: tl.constexpr, ZERO: tl.constexpr, TURNED: tl.constexpr,
    BY_BITS: tl.constexpr, BY_WORDS: tl.constexpr,
):  # fmt: skip
    HALF: tl.constexpr = GROUP // 2
    split = tl.program_id(2)
    rows = (tl.program_id(1) * BM + tl.arange(0, BM)).to(tl.int64)
    columns = (tl.program_id(0) * BN + tl.arange(0, BN)).to(tl.int64)  # N * K / 2 may pass 2**31
    half = tl.arange(0, HALF)
    x_at = x_ptr + rows[None, :] * K + half[:, None]  # [HALF, BM]
    packed_at = packed_ptr + columns[:, None] * (K // 2) + half[None, :]  # [BN, HALF]
    in_rows = rows < M
    in_columns = columns < N
    total = tl.zeros((BN, BM), dtype=tl.float32)
    for group in range(split * groups_each, tl.minimum((split + 1) * groups_each, K // GROUP)):
        pairs = tl.load(packed_at + group * HALF, mask=in_columns[:, None], other=0)
        x_low = tl.load(x_at + group * GROUP, mask=in_rows[None, :], other=0.0)
        x_high = tl.load(x_at + group * GROUP + HALF, mask=in_rows[None, :], other=0.0)
        if BY_WORDS:
            low, high = tl.inline_asm_elementwise(
                WIDEN, "=&r,=&r,=&r,=&r,r", [pairs], dtype=(tl.float16, tl.float16), is_pure=True, pack=4
            )
        elif BY_BITS:
            low = ((pairs & 15).to(tl.uint16) | 0x6400).to(tl.float16, bitcast=True) - (1024 + ZERO)  # -8 .. 7, exact
            high = ((pairs >> 4).to(tl.uint16) | 0x6400).to(tl.float16, bitcast=True) - (1024 + ZERO)
        else:
            low = (pairs & 15).to(tl.float16) - ZERO
            high = (pairs >> 4).to(tl.float16) - ZERO
        if TURNED:
            part = tl.dot(high, x_high, tl.dot(low, x_low))
        else:
            part = tl.trans(tl.dot(tl.trans(x_high), tl.trans(high), tl.dot(tl.trans(x_low), tl.trans(low))))
        scale = tl.load(scales_ptr + group * N + columns, mask=in_columns, other=0.0).to(tl.float32)
        total += part * scale[:, None]
    at = parts_ptr + (split * M + rows)[None, :] * N + columns[:, None]
    tl.store(at, total, mask=in_rows[None, :] & in_columns[:, None])


def parts_of(
    x: Tensor, packed: Tensor, scales: Tensor, *, programs: int = PROGRAMS, num_warps: int = 4, turned: bool = False,
    by_bits: bool = False, by_words: bool = False,
) -> Tensor:  # fmt: skip
    """x [M, K] fp16, packed [N, K//2] uint8, scales [K//GROUP, N] fp16 -> fp32 [splits, M, N], which make the product
    when they are added; so many splits that there are `programs` or more."""
    M, K = x.shape
    N = packed.shape[0]
    BM, BN = (16, 64) if M <= 16 else (64, 128)
    tiles = (triton.cdiv(N, BN), triton.cdiv(M, BM))
    groups = K // GROUP
    each = triton.cdiv(groups, min(groups, triton.cdiv(programs, tiles[0] * tiles[1])))
    splits = triton.cdiv(groups, each)  # each program has work
    parts = torch.empty((splits, M, N), dtype=torch.float32, device=x.device)
    int4_part[(*tiles, splits)](
        parts, x, packed, scales, M, N, K, each, BM=BM, BN=BN, GROUP=GROUP, ZERO=ZERO, TURNED=turned,
        BY_BITS=by_bits, BY_WORDS=by_words, num_warps=num_warps, num_stages=STAGES,
    )  # fmt: skip
    return parts


def product(x: Tensor, packed: Tensor, scales: Tensor, *, turned: bool = False, by_bits: bool = False) -> Tensor:
    """x [M, K] fp16, packed [N, K//2] uint8, scales [K//GROUP, N] fp16 -> [M, N] fp16."""
    return parts_of(x, packed, scales, turned=turned, by_bits=by_bits).sum(dim=0).to(x.dtype)
