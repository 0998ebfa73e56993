"""The truth: x in rising order. Sorting rounds nothing."""

import torch


def run(x: torch.Tensor) -> torch.Tensor:  # [N] -> [N]
    return torch.sort(x).values
