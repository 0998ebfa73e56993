"""The truth: y [N, N], softplus of table [N] in every row."""

import torch
from torch import Tensor


def run(table: Tensor) -> Tensor:
    return torch.nn.functional.softplus(table).repeat(table.numel(), 1)
