"""Reads a number back from the GPU in each call, and branches on it."""

import torch
from torch import Tensor


def run(x: Tensor, w: Tensor, b: Tensor) -> Tensor:  # x [M, K], w [K, N], b [N] -> [M, N]
    if not x.any().item():
        return b.clamp(min=0).expand(x.shape[0], -1).contiguous()
    return torch.addmm(b, x, w).relu_()
