"""The exponential once, and a stride of zero."""

import torch
from torch import Tensor


def run(table: Tensor) -> Tensor:  # table [N] fp32 -> [N, N], all rows one memory
    return torch.exp(table).expand(table.numel(), -1)
