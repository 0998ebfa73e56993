"""The squares are written to memory, then averaged."""

from torch import Tensor


def run(x: Tensor) -> Tensor:  # x [M, N] fp32 -> [M]
    return x.square().mean(1)
