"""What the Triton rungs share: which operand comes first, the order of the tiles, and one launch for all kernels."""

from typing import Any

import torch
import triton
import triton.language as tl
from mx import GROUP
from torch import Tensor

FEW = 64  # rows up to which the weights are the first operand
BAND = tl.constexpr(8)  # this many row tiles share a column tile before the next: their operands meet in the L2


@triton.jit
def place(M, N, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    """Row and column, in tiles, of this program's tile: bands of BAND row tiles, in them column after column."""
    tiles_m = tl.cdiv(M, BLOCK_M)
    tiles_n = tl.cdiv(N, BLOCK_N)
    program = tl.program_id(0)
    band = program // (BAND * tiles_n)
    height = tl.minimum(tiles_m - band * BAND, BAND)
    return band * BAND + (program % (BAND * tiles_n)) % height, (program % (BAND * tiles_n)) // height


@triton.jit
def step_of(values_at, scales_at, start, k, group, K, GROUP: tl.constexpr, WHOLE: tl.constexpr):
    """One step along K of an operand: its values from column `start` on, and their groups' scales; zeros beyond K."""
    first = start // GROUP
    if WHOLE:
        values = tl.load(values_at + start)
        scales = tl.load(scales_at + first)
    else:
        values = tl.load(values_at + start, mask=start + k < K, other=0.0)
        scales = tl.load(scales_at + first, mask=first + group < K // GROUP, other=0)
    return values, scales


def sides(a: Tensor, a_scale: Tensor, b: Tensor, b_scale: Tensor) -> tuple[Any, ...]:
    """What a kernel takes behind y: both operands with their scales, rows of either, K, and y's two strides.

    With up to FEW rows the kernel makes b a^T and writes it turned: the first operand of Hopper's tensor cores has 64
    rows at the least, of Blackwell's 128, the second one any multiple of 16.
    """
    (M, K), N = a.shape, b.shape[0]
    return (b, b_scale, a, a_scale, N, M, K, 1, N) if M <= FEW else (a, a_scale, b, b_scale, M, N, K, N, 1)


def few_columns(M: int) -> int:
    """How wide a turned tile is for M rows, at most FEW."""
    return max(triton.next_power_of_2(M), 16)


def multiply(
    kernel: Any, a: Tensor, a_scale: Tensor, b: Tensor, b_scale: Tensor, tile: tuple[int, int, int], **options: Any
) -> Tensor:
    """a e4m3 [M, K], a_scale uint8 [M, K/32], b e4m3 [N, K], b_scale uint8 [N, K/32] -> bf16 [M, N].

    A program of `kernel` makes tile[0] x tile[1] results, in steps of tile[2] along K.
    """
    y = torch.empty((len(a), len(b)), dtype=torch.bfloat16, device=a.device)
    operands = sides(a, a_scale, b, b_scale)
    grid = (triton.cdiv(operands[4], tile[0]) * triton.cdiv(operands[5], tile[1]),)
    kernel[grid](y, *operands, *tile, GROUP, a.shape[1] % tile[2] == 0, **options)
    return y
