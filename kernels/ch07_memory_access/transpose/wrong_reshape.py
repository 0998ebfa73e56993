"""Wrong: the shape is swapped, the elements stay where they were. Passes every check of shape, sum, norm."""

from torch import Tensor


def run(x: Tensor) -> Tensor:  # [M, N] -> [N, M]
    M, N = x.shape
    return x.reshape(N, M).clone()
