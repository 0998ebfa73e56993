"""lgamma itself, in the declared dtype whatever comes."""

import torch
from torch import Tensor


def run(x: Tensor) -> Tensor:  # x [N] fp64 -> [N] fp64
    return torch.lgamma(x.to(torch.float64))
