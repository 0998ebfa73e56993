"""Every row is looked at to its end."""

import torch
from torch import Tensor


def run(x: Tensor) -> Tensor:  # x [B, N] fp32 -> [B]
    best, first = (x > 2.5).to(torch.uint8).max(1)
    return torch.where(best > 0, first, x.shape[1])
