"""The truth: y [M, D] = (x with its odd columns zero) @ w, x [M, T], w [T, D]."""

import torch
from torch import Tensor


def run(x: Tensor, w: Tensor) -> Tensor:
    odd = torch.arange(x.shape[1], device=x.device) % 2 == 1
    return x.masked_fill(odd, 0.0) @ w
