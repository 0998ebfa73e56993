"""The truth: y [N, N], the exponential of table [N] in every row."""

import torch
from torch import Tensor


def run(table: Tensor) -> Tensor:
    return torch.exp(table).repeat(table.numel(), 1)
