"""A row per program on a single warp: no two warps have to agree on a maximum."""

from rows import softmax
from torch import Tensor


def run(x: Tensor) -> Tensor:  # [M, N] bf16 -> [M, N] bf16
    return softmax(x, rows=1, num_warps=1)
