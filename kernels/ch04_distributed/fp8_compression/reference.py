"""The truth, in one process: the mean of all that the ranks had to give, and nothing left behind."""

import torch
from torch import Tensor


def run(grads: Tensor, residual: Tensor) -> tuple[Tensor, Tensor]:  # [2, N] each -> [2, N] each
    mean = (grads + residual).mean(0, keepdim=True)
    return mean.expand_as(grads).contiguous(), torch.zeros_like(residual)
