"""12 terms: the thirteenth is below rounding."""

from torch import Tensor


def run(x: Tensor, a: Tensor) -> Tensor:  # x [B, K], a [K, K] fp32 -> [B, K]
    y, term = x, x
    for order in range(1, 13):
        term = term @ a / order
        y = y + term
    return y
