"""The truth: y [M], the mean over each row of tanh(x), x [M, N]."""

import torch
from torch import Tensor


def run(x: Tensor) -> Tensor:
    return torch.tanh(x).mean(1)
