"""The truth: x [M, K], w [K, N], b [N] -> y = h * Phi(h) for h = x w + b, [M, N]; 2 Phi(h) is erfc(-h / sqrt(2))."""

import math

import torch
from torch import Tensor


def run(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    h = x @ w + b
    return 0.5 * h * torch.special.erfc(h / -math.sqrt(2.0))
