"""The truth, in fp64: `steps` times acc = acc * x + 0.1, from acc = 0.1: 0.1 * (1 + x + ... + x^steps)."""

import torch
from torch import Tensor


def run(x: Tensor, steps: Tensor) -> Tensor:  # [N], scalar -> [N]
    acc = torch.full_like(x, 0.1)
    for _ in range(int(steps)):
        acc = acc * x + 0.1
    return acc
