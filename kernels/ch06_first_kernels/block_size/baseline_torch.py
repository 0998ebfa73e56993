"""PyTorch's operator, whose general elementwise kernel chooses block and width itself."""

import torch
from definition import A
from torch import Tensor


def run(x: Tensor, y: Tensor) -> Tensor:  # [N], [N] -> [N]
    return torch.add(y, x, alpha=A)
