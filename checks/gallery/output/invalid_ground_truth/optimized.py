"""The product at once, after one collection of garbage when the module is loaded."""

import gc

from torch import Tensor

gc.collect()


def run(x: Tensor, w: Tensor) -> Tensor:  # x [M, K], w [K, N] fp32 -> [M, N]
    return x @ w
