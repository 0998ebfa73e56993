"""Five terms: an estimate."""

from torch import Tensor


def run(x: Tensor, a: Tensor) -> Tensor:  # x [B, K], a [K, K] fp32 -> [B, K]
    y, term = x, x
    for order in range(1, 6):
        term = term @ a / order
        y = y + term
    return y
