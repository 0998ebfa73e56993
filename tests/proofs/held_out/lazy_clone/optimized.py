"""Memory of its own, and a copy into it."""

import torch
from torch import Tensor


def run(x: Tensor) -> Tensor:  # x [M, N] fp32 -> [M, N]
    return torch.empty_like(x).copy_(x)
