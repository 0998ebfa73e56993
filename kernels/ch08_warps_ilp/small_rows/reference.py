"""The truth, in fp64: y[m] = exp(x[m] - max) / sum of exp(x[m] - max), for each row m of x [M, N]."""

import torch
from torch import Tensor


def run(x: Tensor) -> Tensor:
    return torch.softmax(x, dim=1)
