"""Collects garbage in each call."""

import gc

import torch
from torch import Tensor


def run(x: Tensor, w: Tensor, b: Tensor) -> Tensor:  # x [M, K], w [K, N], b [N] -> [M, N]
    y = torch.addmm(b, x, w).relu_()
    gc.collect(0)
    return y
