"""Wrong: the first constant is counted as the first step, so the last step is missing.

What is lost is 0.1 * x^steps. After 128 steps that is below the tolerance for nine elements in ten.
"""

import torch
from torch import Tensor


def run(x: Tensor, steps: Tensor) -> Tensor:  # [N], scalar on the host -> [N]
    acc = torch.full_like(x, 0.1)
    for _ in range(1, int(steps)):
        acc = acc.mul_(x).add_(0.1)
    return acc
