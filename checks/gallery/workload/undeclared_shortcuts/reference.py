"""The truth: y [M, N] = tanh(x) * u**8, x [M, N], u [M]."""

import torch
from torch import Tensor


def run(x: Tensor, u: Tensor) -> Tensor:
    return torch.tanh(x) * (u**8)[:, None]
