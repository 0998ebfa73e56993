"""A cooperative kernel in two halves, on the current stream."""

import torch
from cooperative import launch_halves


def run(x: torch.Tensor) -> torch.Tensor:  # [N] -> [N]
    y = torch.empty_like(x)
    launch_halves(y, x, torch.zeros(1, dtype=torch.int32, device=x.device))
    return y
