"""PyTorch's reduction, which splits a long row over several blocks when there are few rows."""

from torch import Tensor


def run(x: Tensor) -> Tensor:  # [M, N] -> [M]
    return x.sum(dim=1)
