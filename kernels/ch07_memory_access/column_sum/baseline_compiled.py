"""The operator through torch.compile, which also knows how to split a reduction in two."""

import torch
from baseline_torch import run as column_sum
from torch import Tensor

compiled = torch.compile(column_sum, dynamic=False)


def run(x: Tensor) -> Tensor:  # x [M, N] -> [N]
    return compiled(x)


def prepare(x: Tensor):
    compiled(x)  # compiles for this shape, before the clock starts
    return compiled
