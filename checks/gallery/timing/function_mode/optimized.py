"""Counts its torch functions by a mode that is left with the call."""

import torch
from torch.overrides import TorchFunctionMode


class Counting(TorchFunctionMode):
    """How many torch functions were called inside."""

    count = 0

    def __torch_function__(self, func, types, args=(), kwargs=None):
        Counting.count += 1
        return func(*args, **(kwargs or {}))


def run(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:  # [N, D], [D, D] -> [N, D]
    with Counting():
        return torch.mm(x, w)
