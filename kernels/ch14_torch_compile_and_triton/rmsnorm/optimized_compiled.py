"""The eager chain, unchanged, given to torch.compile: the compiler does the fusing."""

import torch
from baseline_chain import run as chain
from torch import Tensor

# dynamic=False: code for exactly this shape. With dynamic shapes the compiler cannot know that a row fits in
# registers, and may read it twice.
compiled = torch.compile(chain, dynamic=False)


def run(x: Tensor, w: Tensor) -> Tensor:  # x [M, N], w [N], bf16 -> [M, N] bf16
    return compiled(x, w)


def prepare(x: Tensor, w: Tensor):
    compiled(x, w)  # compiles for this shape, before the clock starts
    return compiled
