"""The truth, in fp64: y = 1.25 x. The factor is a power of two plus a quarter of it, exact in every dtype."""

from factor import FACTOR
from torch import Tensor


def run(x: Tensor) -> Tensor:  # x [N] -> [N]
    return x * FACTOR
