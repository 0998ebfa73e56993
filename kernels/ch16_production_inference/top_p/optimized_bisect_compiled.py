"""The same bisection through torch.compile: each of the 20 steps becomes one read of the matrix."""

import torch
from optimized_bisect import run as bisect
from torch import Tensor

compiled = torch.compile(bisect, dynamic=False)


def run(weights: Tensor) -> Tensor:
    return compiled(weights)


def prepare(weights: Tensor):
    compiled(weights)  # compiles for this shape, before the clock starts
    return compiled
