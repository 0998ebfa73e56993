"""The truth: x [M, N] -> x * Phi(x) and its tanh form, [M, N] each.

Both are written so that nothing cancels for negative x: 1 + erf(z) is erfc(-z), and (1 + tanh(z)) / 2 is sigmoid(2 z).
"""

import math

import torch
from torch import Tensor


def run(x: Tensor) -> tuple[Tensor, Tensor]:
    exact = 0.5 * x * torch.special.erfc(x / -math.sqrt(2.0))
    tanh = x * torch.sigmoid(2.0 * math.sqrt(2.0 / math.pi) * (x + 0.044715 * x * x * x))
    return exact, tanh
