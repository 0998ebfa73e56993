"""The truth, in fp64: y = b + g * (x - b), elementwise; the gate g = 1 takes x, g = 0 takes b."""

from torch import Tensor


def run(x: Tensor, b: Tensor, g: Tensor) -> Tensor:  # all [M, N]
    return b + g * (x - b)
