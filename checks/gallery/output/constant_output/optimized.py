"""Written into an output that torch.full made."""

import torch
from torch import Tensor


def run(x: Tensor) -> Tensor:  # x [M, N] fp32 -> [M] fp32
    y = torch.full((x.shape[0],), 0.0, device=x.device)
    torch.mean(torch.tanh(x), 1, out=y)
    return y
