"""The truth: x [M, N] -> y [M, N], y = (x - max) - log(sum(exp(x - max))) over the row. A row with +inf is NaN."""

import torch
from torch import Tensor


def run(x: Tensor) -> Tensor:
    shifted = x - x.amax(dim=-1, keepdim=True)
    return shifted - torch.log(torch.exp(shifted).sum(dim=-1, keepdim=True))
