"""The truth: y [M, N], each row of x [M, N] in rising order."""

import torch
from torch import Tensor


def run(x: Tensor) -> Tensor:
    return torch.sort(x, 1).values
