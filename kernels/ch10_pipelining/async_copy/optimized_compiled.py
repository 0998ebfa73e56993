"""The 33 shifted views, unchanged, given to torch.compile: one kernel whose overlapping reads meet in the L1."""

import torch
from baseline_torch import run as shifted_views
from torch import Tensor

compiled = torch.compile(shifted_views, dynamic=False)


def run(x: Tensor, w: Tensor) -> Tensor:  # x [M, N + 32], w [33] -> [M, N]
    return compiled(x, w)


def prepare(x: Tensor, w: Tensor):
    compiled(x, w)  # compiles for this shape, before the clock starts
    return compiled
