"""Seven iterations."""

import torch
from torch import Tensor


def run(x: Tensor, a: Tensor) -> Tensor:  # x [M, K], a [K, K] fp32 -> [M, K]
    y = x
    for _ in range(7):
        y = torch.addmm(x, y, a)
    return y
