"""The truth, in fp64: y[m] is the sum of row m of x [M, N]."""

from torch import Tensor


def run(x: Tensor) -> Tensor:
    return x.sum(dim=1)
