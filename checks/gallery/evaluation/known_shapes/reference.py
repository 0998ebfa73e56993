"""The truth: y [M], the mean of the squares of each row."""

from torch import Tensor


def run(x: Tensor) -> Tensor:
    return x.square().mean(1)
