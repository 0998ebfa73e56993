"""The truth: y [N], x over the root of its mean square."""

from torch import Tensor


def run(x: Tensor) -> Tensor:
    return x / x.square().mean().sqrt()
