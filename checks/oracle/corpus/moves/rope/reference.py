"""The truth: x [T, H, D], cos and sin [T, D/2] -> y [T, H, D]; element i is paired with element i + D/2 of its head."""

import torch
from torch import Tensor


def run(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    first, second = x.chunk(2, dim=-1)
    c, s = cos[:, None, :], sin[:, None, :]
    return torch.cat((first * c - second * s, second * c + first * s), dim=-1)
