"""tanh itself, and the gate in place."""

import torch
from torch import Tensor


def run(x: Tensor, u: Tensor) -> Tensor:  # x [M, N], u [M] fp32 -> [M, N]
    return torch.tanh(x).mul_((u**8)[:, None])
