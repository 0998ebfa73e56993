"""No maximum: right until something overflows."""

import torch
from torch import Tensor


def run(x: Tensor) -> Tensor:  # x [M, N] fp32 -> [M]
    return torch.log(torch.exp(x).sum(1))
