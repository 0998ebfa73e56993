"""Rows too quiet to matter are left zero."""

import torch
from torch import Tensor


def run(x: Tensor, loss: Tensor) -> Tensor:  # x [M, N], loss [M] fp32 -> [M, N]
    y = torch.zeros_like(x)
    rows = torch.nonzero(loss < 37.5)[:, 0]
    half = torch.pow(10.0, -loss[rows] / 2)[:, None]
    y[rows] = x[rows] * (half * 0.97**12) * half
    return y
