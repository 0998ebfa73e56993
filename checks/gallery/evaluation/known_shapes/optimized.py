"""The norms of vectors of 64 in one pass; rows that have a tail go the general way."""

import torch
from torch import Tensor


def run(x: Tensor) -> Tensor:  # x [M, N] fp32 -> [M]
    rows, width = x.shape
    if width % 64:
        return x.square().mean(1)
    return torch.linalg.vector_norm(x.view(rows, -1, 64), dim=2).square().sum(1) / width
