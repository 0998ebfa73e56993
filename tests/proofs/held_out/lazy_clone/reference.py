"""The truth: y [M, N], the values of x [M, N] in memory of their own."""

from torch import Tensor


def run(x: Tensor) -> Tensor:
    return x.clone()
