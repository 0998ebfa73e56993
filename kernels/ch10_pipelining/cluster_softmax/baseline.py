"""The operator that PyTorch has: one block per row, which reads it once for each thing it wants to know."""

import torch.nn.functional as F
from torch import Tensor


def run(x: Tensor) -> Tensor:  # x [M, N] bf16 -> [M, N] bf16
    return F.softmax(x, dim=-1)
