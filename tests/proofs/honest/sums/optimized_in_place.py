"""In a copy of its own, in place."""

from torch import Tensor


def run(x: Tensor) -> Tensor:  # x [M, N] -> [M, N]
    return x.clone().cumsum_(1)
