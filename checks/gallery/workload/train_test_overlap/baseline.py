"""Product, then tanh."""

import torch
from torch import Tensor


def run(x: Tensor, w: Tensor) -> Tensor:  # x [B, K], w [K, N] fp32 -> [B, N]
    return torch.tanh(x @ w)
