"""Stage by stage."""

import torch
from torch import Tensor


def run(x: Tensor, loss: Tensor) -> Tensor:  # x [M, N], loss [M] fp32 -> [M, N]
    # In two factors: a power of 44 by itself is no number of single precision.
    half = torch.pow(10.0, -loss / 2)[:, None]
    y = x * half * half
    for _ in range(12):
        y = y * 0.97
    return y
