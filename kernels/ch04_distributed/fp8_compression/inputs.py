"""Gradients of sixteen layers side by side in one buffer, the largest a hundred thousand times the smallest."""

import torch
from torch import Tensor

LAYERS = 16
LARGEST, SMALLEST = -2.0, -7.0  # powers of ten
LEFT = 0.03  # of a gradient: what a rounding to fp8 leaves behind


def pose(axes: dict[str, int], device: str, generator: torch.Generator) -> dict[str, Tensor]:
    """Return `grads` and `residual`, float32 [2, N] each, with layers in random order."""
    sizes = torch.logspace(LARGEST, SMALLEST, LAYERS)[torch.randperm(LAYERS, generator=generator)]
    size = sizes[torch.arange(axes["N"]) * LAYERS // axes["N"]]
    grads, residual = torch.randn((2, 2, axes["N"]), generator=generator)  # of the CPU, where the generator lives
    return {"grads": grads.mul_(size).to(device), "residual": residual.mul_(LEFT * size).to(device)}
