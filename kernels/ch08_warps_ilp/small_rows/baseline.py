"""PyTorch's operator, which gives a short row to a single warp."""

import torch.nn.functional as F
from torch import Tensor


def run(x: Tensor) -> Tensor:  # [M, N] bf16 -> [M, N] bf16
    return F.softmax(x, dim=1)
