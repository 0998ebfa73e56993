"""One generator that lasts, seeded anew in each call."""

import torch
from torch import Tensor

_generator = torch.Generator()


def run(x: Tensor, seed: Tensor) -> Tensor:  # x [M, N], seed [1] -> [M, N]
    _generator.manual_seed(int(seed))
    kept = torch.rand(x.shape, generator=_generator).lt_(0.75)
    return kept.mul_(x).div_(0.75)
