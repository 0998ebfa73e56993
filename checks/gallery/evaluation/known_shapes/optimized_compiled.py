"""The baseline, unchanged, given to torch.compile, which fuses the squares into the mean."""

import torch
from baseline import run as mean_of_squares
from torch import Tensor

compiled = torch.compile(mean_of_squares, dynamic=False)


def run(x: Tensor) -> Tensor:  # x [M, N] fp32 -> [M]
    return compiled(x)
