"""The truth: x [M, N] -> y [M, N], y = exp(x - max) / sum(exp(x - max)) over the row. A row that holds +inf is NaN."""

import torch
from torch import Tensor


def run(x: Tensor) -> Tensor:
    e = torch.exp(x - x.amax(dim=-1, keepdim=True))
    return e / e.sum(dim=-1, keepdim=True)
