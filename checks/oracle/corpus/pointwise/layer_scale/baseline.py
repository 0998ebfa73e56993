"""Two operators of the library, both in place: x goes through memory twice and is rounded twice."""

from torch import Tensor


def run(x: Tensor, gamma: Tensor, residual: Tensor) -> Tensor:  # x [M, N], gamma [N], residual [M, N] -> x
    return x.mul_(gamma).add_(residual)
