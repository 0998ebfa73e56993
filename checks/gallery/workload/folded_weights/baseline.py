"""As it is written: the large product first."""

from torch import Tensor


def run(x: Tensor, a: Tensor, b: Tensor) -> Tensor:  # x [M, K], a, b [K, K] fp32 -> [M, K]
    return x @ (a @ b)
