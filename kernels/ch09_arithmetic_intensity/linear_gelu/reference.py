"""The truth: x [M, K], w [N, K], b [N], y [M, N] in fp64, y = gelu(x w^T + b), GELU by its tanh formula."""

import math

import torch
from torch import Tensor


def run(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    h = x @ w.T + b
    return 0.5 * h * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (h + 0.044715 * h**3)))
