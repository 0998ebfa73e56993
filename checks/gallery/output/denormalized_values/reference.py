"""The truth: y [M, N] = x * 10**-loss * 0.97**12, x [M, N], loss [M]."""

import torch
from torch import Tensor


def run(x: Tensor, loss: Tensor) -> Tensor:
    return x * torch.pow(10.0, -loss)[:, None] * 0.97**12
