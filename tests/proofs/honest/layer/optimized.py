"""Torch.compile, whose guards take longer than the work of a small call."""

from collections.abc import Callable

import torch
from torch import Tensor


def _layer(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return torch.relu(x @ w + b)


def prepare(x: Tensor, w: Tensor, b: Tensor) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """Compile it for these shapes."""
    compiled: Callable[[Tensor, Tensor, Tensor], Tensor] = torch.compile(_layer, dynamic=False)
    compiled(x, w, b)
    return compiled
