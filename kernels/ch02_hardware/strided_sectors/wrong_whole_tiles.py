"""Wrong: `//` for `cdiv` in the grid, so the records behind the last whole tile are never taken apart."""

import torch
from optimized_triton import BLOCK, take_apart
from torch import Tensor


def run(x: Tensor) -> Tensor:  # [M, 8] -> [8, M]
    M, F = x.shape
    y = torch.zeros((F, M), dtype=x.dtype, device=x.device)
    if M >= BLOCK:
        take_apart[(M // BLOCK,)](y, x, M, F, BLOCK)
    return y
