"""The mask is kept by its shape; values are computed each time."""

import torch
from torch import Tensor

_masks: dict[tuple[int, torch.device], Tensor] = {}


def run(x: Tensor, w: Tensor) -> Tensor:  # x [M, T], w [T, D] fp32 -> [M, D]
    key = (x.shape[1], x.device)
    if key not in _masks:
        _masks[key] = torch.arange(x.shape[1], device=x.device) % 2 == 1
    return x.masked_fill(_masks[key], 0.0) @ w
