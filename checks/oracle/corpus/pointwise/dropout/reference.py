"""The truth of an element that stays: x [M, N], seed [1], keep_percent [1] -> x / keep, [M, N]; any other is 0."""

from torch import Tensor


def run(x: Tensor, seed: Tensor, keep_percent: Tensor) -> Tensor:
    return x / (int(keep_percent) / 100)
