"""The formula, operator by operator."""

import torch
from torch import Tensor


def run(x: Tensor) -> Tensor:  # x [M, N] -> [M, N]
    e = torch.exp(x - x.amax(1, keepdim=True))
    return e / e.sum(1, keepdim=True)
