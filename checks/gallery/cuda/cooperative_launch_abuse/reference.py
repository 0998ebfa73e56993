"""The truth, in fp64: 64 steps of v = v * x + 0.5, from v = x."""

import torch


def run(x: torch.Tensor) -> torch.Tensor:  # [N] -> [N]
    v = x
    for _ in range(64):
        v = v * x + 0.5
    return v
