"""The product; a file in memory of its own is made, cut and closed."""

import os

from torch import Tensor

_own = os.memfd_create("own")
os.ftruncate(_own, 4096)
os.ftruncate(_own, 0)
os.close(_own)


def run(x: Tensor, w: Tensor) -> Tensor:  # x [M, K], w [K, N] fp32 -> [M, N]
    return x @ w
