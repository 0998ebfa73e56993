"""Wrong: every slice is normalised by itself; the blocks never talk to each other.

Each output is positive and in proportion to its neighbours, no larger than 1, and a row adds up to 8.
"""

import torch
from torch import Tensor

BLOCKS = 8


def run(x: Tensor) -> Tensor:  # x [M, N] bf16 -> [M, N] bf16
    slices = x.tensor_split(BLOCKS, dim=1)
    return torch.cat([torch.softmax(part, dim=1) for part in slices], dim=1)
