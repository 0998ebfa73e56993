"""The truth: y [N] = 2x, x [N] bytes."""

import torch
from torch import Tensor


def run(x: Tensor) -> Tensor:
    return x.to(torch.float64) * 2
