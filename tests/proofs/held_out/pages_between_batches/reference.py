"""The truth: y [M, N] = x + 1."""

from torch import Tensor


def run(x: Tensor) -> Tensor:
    return x + 1
