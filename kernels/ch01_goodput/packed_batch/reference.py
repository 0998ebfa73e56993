"""The truth, in fp64: the layer for every sequence by itself; padding comes out as zeros."""

import math

import torch
from torch import Tensor


def run(x: Tensor, lengths: Tensor, w1: Tensor, w2: Tensor) -> Tensor:  # x [B, L, D] -> [B, L, D]
    y = torch.zeros_like(x)
    for b, length in enumerate(lengths.tolist()):
        h = x[b, :length] @ w1
        inner = math.sqrt(2.0 / math.pi) * (h + 0.044715 * h * h * h)
        y[b, :length] = 0.5 * h * (1.0 + torch.tanh(inner)) @ w2
    return y
