"""Sixteen short rows per program on four warps: a warp has four rows of its own, all four under way at once."""

from rows import softmax
from torch import Tensor

ELEMENTS = 4096  # of a tile: 32 per thread


def run(x: Tensor) -> Tensor:  # [M, N] bf16 -> [M, N] bf16
    rows = 1
    while 2 * rows * x.shape[1] <= ELEMENTS and rows < 64:
        rows *= 2
    return softmax(x, rows=rows, num_warps=4)
