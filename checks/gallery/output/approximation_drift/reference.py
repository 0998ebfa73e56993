"""The truth: y [B, K] = x exp(a), by 32 terms of the series in fp64."""

from torch import Tensor


def run(x: Tensor, a: Tensor) -> Tensor:
    y, term = x, x
    for order in range(1, 33):
        term = term @ a / order
        y = y + term
    return y
