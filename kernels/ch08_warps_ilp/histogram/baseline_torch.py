"""PyTorch's operator. It looks for the largest value first, which is a second pass and a wait for the GPU."""

import torch
from torch import Tensor


def run(x: Tensor) -> Tensor:  # [N] uint8 -> [256] int64
    return torch.bincount(x, minlength=256)
