"""The truth: y [M, N], the running sum of each row of x [M, N]."""

from torch import Tensor


def run(x: Tensor) -> Tensor:
    return x.cumsum(1)
