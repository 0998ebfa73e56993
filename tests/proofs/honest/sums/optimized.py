"""By numpy, into memory that torch made."""

import numpy as np
import torch
from torch import Tensor


def run(x: Tensor) -> Tensor:  # x [M, N] -> [M, N]
    y = torch.empty_like(x)
    np.cumsum(x.numpy(), 1, out=y.numpy())
    return y
