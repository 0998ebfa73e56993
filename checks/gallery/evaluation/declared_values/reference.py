"""The truth: y [B, 32], the largest values of every row, in descending order."""

import torch
from torch import Tensor


def run(x: Tensor) -> Tensor:
    return torch.topk(x, 32, dim=1).values
