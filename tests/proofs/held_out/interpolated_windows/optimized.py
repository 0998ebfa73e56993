"""Sums of two windows of half the width, from 1 to 256."""

from torch import Tensor

W = 256


def run(x: Tensor) -> Tensor:  # x [M, T] fp32 -> [M, T - W + 1]
    width = 1
    while width < W:
        x = x[:, :-width] + x[:, width:]
        width *= 2
    return x / W
