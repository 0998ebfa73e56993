"""The truth, in one process: every rank ends with what the rank before it has."""

from torch import Tensor


def run(x: Tensor) -> Tensor:  # [2, N] -> [2, N]
    return x.roll(1, 0)
