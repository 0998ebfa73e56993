"""The formula, operator by operator."""

from torch import Tensor


def run(x: Tensor, t: Tensor) -> Tensor:  # x, t [M, N] fp32 -> []
    return (x - t).square().mean()
