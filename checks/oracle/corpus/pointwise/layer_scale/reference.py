"""The truth: x [M, N], gamma [N], residual [M, N] -> what x becomes, x * gamma + residual, [M, N]."""

from torch import Tensor


def run(x: Tensor, gamma: Tensor, residual: Tensor) -> Tensor:
    return x * gamma + residual
