"""Wrong: `alpha` scales the second operand of torch.add, and here that is y.

Same shape, dtype, mean and standard deviation as the right answer: with x and y drawn alike, no statistic tells.
"""

import torch
from definition import A
from torch import Tensor


def run(x: Tensor, y: Tensor) -> Tensor:  # [N], [N] -> [N]
    return torch.add(x, y, alpha=A)
