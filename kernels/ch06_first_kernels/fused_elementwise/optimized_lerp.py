"""The library's operator for just this formula: linear interpolation from b to x."""

import torch
from torch import Tensor


def run(x: Tensor, b: Tensor, g: Tensor) -> Tensor:  # all [M, N]
    return torch.lerp(b, x, g)
