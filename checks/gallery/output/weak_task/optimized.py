"""The library's loss."""

import torch
from torch import Tensor


def run(x: Tensor, t: Tensor) -> Tensor:  # x, t [M, N] fp32 -> []
    return torch.nn.functional.mse_loss(x, t)
