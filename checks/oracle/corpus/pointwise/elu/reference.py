"""The truth: x [M, N] -> y = x where x > 0, exp(x) - 1 elsewhere, [M, N]."""

import torch
from torch import Tensor


def run(x: Tensor) -> Tensor:
    return torch.where(x > 0, x, torch.expm1(x))
