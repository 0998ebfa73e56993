"""Leaves the clock on a GPU that has nothing to do."""

import torch

torch.cuda.set_device(1)


def run(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a @ b
