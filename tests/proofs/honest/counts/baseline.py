"""Ones, added where the numbers say."""

import torch
from torch import Tensor


def run(x: Tensor) -> Tensor:  # x [M] -> [256]
    y = torch.zeros(256, dtype=torch.int64, device=x.device)
    return y.index_add_(0, x, torch.ones_like(x, dtype=torch.int64))
