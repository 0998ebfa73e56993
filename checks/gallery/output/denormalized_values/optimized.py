"""The stages in one factor; what is quiet stays a number."""

import torch
from torch import Tensor


def run(x: Tensor, loss: Tensor) -> Tensor:  # x [M, N], loss [M] fp32 -> [M, N]
    half = torch.pow(10.0, -loss / 2)[:, None]
    return x * (half * 0.97**12) * half
