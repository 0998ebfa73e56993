"""The truth: x [M, N], slope_percent [1] -> y = x where x > 0, slope_percent / 100 * x elsewhere, [M, N]."""

import torch
from torch import Tensor


def run(x: Tensor, slope_percent: Tensor) -> Tensor:
    return torch.where(x > 0, x, x * (int(slope_percent) / 100))
