"""Value and place by one operator, which returns a tuple of its own type."""

import torch
from torch import Tensor


def run(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:  # x [M, N] -> [M], [M], [M, N]
    found = torch.max(x, 1)
    return found.values, found.indices, torch.gt(x, 0)
