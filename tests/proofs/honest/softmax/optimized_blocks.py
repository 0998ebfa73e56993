"""Rows in blocks that stay in a cache."""

import torch
from torch import Tensor


def run(x: Tensor) -> Tensor:  # x [M, N] -> [M, N]
    y = torch.empty_like(x)
    for some, into in zip(x.split(32), y.split(32), strict=True):
        torch.softmax(some, 1, out=into)
    return y
