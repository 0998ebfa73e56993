"""The truth: y [M], log(sum(exp(x))) of each row of x [M, N]."""

import torch
from torch import Tensor


def run(x: Tensor) -> Tensor:
    return torch.logsumexp(x, 1)
