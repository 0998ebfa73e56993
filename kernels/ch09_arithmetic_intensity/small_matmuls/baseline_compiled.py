"""The loop through torch.compile, which unrolls it: Python is gone, one library call per pair stays."""

import torch
from baseline import run as loop
from torch import Tensor

compiled = torch.compile(loop, dynamic=False)


def run(a: Tensor, b: Tensor) -> Tensor:  # a [B, M, K], b [B, K, N] fp16 -> [B, M, N] fp16
    return compiled(a, b)


def prepare(a: Tensor, b: Tensor):
    compiled(a, b)  # compiles for these shapes, before the clock starts
    return compiled
