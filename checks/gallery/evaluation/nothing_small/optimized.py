"""Whole blocks of 4096 in vectors of 64, and the tail."""

import torch
from torch import Tensor


def run(x: Tensor) -> Tensor:  # x [N] fp32 -> [N]
    whole = x.numel() // 4096 * 4096
    blocks, tail = x[:whole].view(-1, 64), x[whole:]
    squares = torch.linalg.vector_norm(blocks, dim=1).square().sum() + tail.square().sum()
    return x / (squares / x.numel()).sqrt()
