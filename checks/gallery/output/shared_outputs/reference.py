"""The truth: y [M, N] = kept = max(x, 0)."""

import torch
from torch import Tensor


def run(x: Tensor) -> tuple[Tensor, Tensor]:
    y = torch.relu(x)
    return y, y.clone()
