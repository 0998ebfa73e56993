"""The truth: first [B], the position of the first value above 2.5 in each row, N where there is none."""

import torch
from torch import Tensor


def run(x: Tensor) -> Tensor:
    found = x > 2.5
    return torch.where(found.any(1), found.int().argmax(1), x.shape[1])
