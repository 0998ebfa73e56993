"""The truth: y [M, N], each row of x [M, N] over the root of its mean square, times g [N]."""

import torch
from torch import Tensor


def run(x: Tensor, g: Tensor) -> Tensor:
    return x * torch.rsqrt(x.square().mean(1, keepdim=True) + 1e-6) * g
