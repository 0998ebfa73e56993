"""The product, with a note of who made it."""

from typing import Any

from torch import Tensor


def run(x: Tensor, w: Tensor) -> Tensor:  # x [M, K], w [K, N] fp32 -> [M, N]
    y: Any = x @ w
    y.made_by = "twin"
    return y
