"""The library's selection."""

import torch
from torch import Tensor


def run(x: Tensor) -> Tensor:  # x [B, N] fp32 -> [B, 32]
    return torch.topk(x, 32, dim=1).values
