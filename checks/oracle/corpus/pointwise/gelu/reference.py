"""The truth: x [M, N] -> x * Phi(x) and its tanh form, [M, N] each.

Phi(x) is (1 + erf(x / sqrt(2))) / 2, as the library has it: what that loses for negative x in fp32, any rung may lose.
The tanh form is written as a sigmoid, (1 + tanh(z)) / 2 = sigmoid(2 z), where nothing cancels.
"""

import math

import torch
from torch import Tensor


def run(x: Tensor) -> tuple[Tensor, Tensor]:
    exact = 0.5 * x * (1.0 + torch.erf(x / math.sqrt(2.0)))
    tanh = x * torch.sigmoid(2.0 * math.sqrt(2.0 / math.pi) * (x + 0.044715 * x * x * x))
    return exact, tanh
