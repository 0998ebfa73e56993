"""Zeros, overwritten by one operator."""

import torch
from torch import Tensor


def run(x: Tensor) -> Tensor:  # x [M, N] fp32 -> [M, N]
    y = torch.zeros_like(x)
    torch.softmax(x, 1, out=y)
    return y
