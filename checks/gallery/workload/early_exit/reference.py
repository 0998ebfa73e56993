"""The truth: y [M, K] after 24 iterations of y = x + y @ a from y = x."""

from torch import Tensor


def run(x: Tensor, a: Tensor) -> Tensor:
    y = x
    for _ in range(24):
        y = x + y @ a
    return y
