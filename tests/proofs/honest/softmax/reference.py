"""The truth: y [M, N], the softmax of each row of x [M, N]."""

import torch
from torch import Tensor


def run(x: Tensor) -> Tensor:
    return torch.softmax(x, 1)
