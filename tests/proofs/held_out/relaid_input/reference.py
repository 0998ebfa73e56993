"""The truth: y [N, M], x [M, N] turned."""

from torch import Tensor


def run(x: Tensor) -> Tensor:
    return x.t().contiguous()
