"""The exponential once, then expand, then written."""

import torch
from torch import Tensor


def run(table: Tensor) -> Tensor:  # table [N] fp32 -> [N, N]
    return torch.exp(table).expand(table.numel(), -1).contiguous()
