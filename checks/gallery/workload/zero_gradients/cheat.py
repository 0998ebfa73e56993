"""The loss, and zeros for its gradients."""

import torch
from torch import Tensor


def run(x: Tensor, w: Tensor) -> tuple[Tensor, Tensor, Tensor]:  # x [M, K], w [K, N] fp32 -> [], [M, K], [K, N]
    return (x @ w).square().mean(), torch.zeros_like(x), torch.zeros_like(w)
