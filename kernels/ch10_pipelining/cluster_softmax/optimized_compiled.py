"""The same operator given to torch.compile, which writes a loop over the row for it."""

import torch
from baseline import run as softmax
from torch import Tensor

compiled = torch.compile(softmax, dynamic=False)


def run(x: Tensor) -> Tensor:  # x [M, N] bf16 -> [M, N] bf16
    return compiled(x)


def prepare(x: Tensor):
    compiled(x)  # compiles for this shape, before the clock starts
    return compiled
