"""The truth: x [M, N] -> y = (exp(2x) - 1) / (exp(2x) + 1), [M, N]."""

import torch
from torch import Tensor


def run(x: Tensor) -> Tensor:
    return torch.tanh(x)
