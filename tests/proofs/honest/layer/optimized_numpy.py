"""By way of numpy, in the same memory."""

import numpy as np
import torch
from torch import Tensor


def run(x: Tensor, w: Tensor, b: Tensor) -> Tensor:  # x [M, K], w [K, N], b [N] -> [M, N]
    y = x.numpy() @ w.numpy()
    y += b.numpy()
    return torch.from_numpy(np.maximum(y, 0, out=y))
