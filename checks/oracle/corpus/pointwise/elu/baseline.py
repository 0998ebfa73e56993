"""The library's operator."""

import torch.nn.functional as F
from torch import Tensor


def run(x: Tensor) -> Tensor:  # x [M, N] -> [M, N]
    return F.elu(x)
