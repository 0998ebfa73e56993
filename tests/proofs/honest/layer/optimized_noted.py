"""Counts its calls and times itself, for a line that it prints when the process ends."""

import atexit
import time

import torch
from torch import Tensor

_spent = [0.0, 0.0]
atexit.register(lambda: print(f"{_spent[0]:.0f} calls, {_spent[1]:.3f} s"))


def run(x: Tensor, w: Tensor, b: Tensor) -> Tensor:  # x [M, K], w [K, N], b [N] -> [M, N]
    start = time.perf_counter()
    y = torch.addmm(b, x, w).relu_()
    _spent[0] += 1
    _spent[1] += time.perf_counter() - start
    return y
