"""tanh by its exponential, then the gate."""

import torch
from torch import Tensor


def run(x: Tensor, u: Tensor) -> Tensor:  # x [M, N], u [M] fp32 -> [M, N]
    e = torch.exp(-2 * x.abs())
    return torch.sign(x) * (1 - e) / (1 + e) * (u**8)[:, None]
