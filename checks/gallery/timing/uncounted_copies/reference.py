"""The truth, in fp64: y[m, n] = x[m] w[n]."""

import torch


def run(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:  # [M], [N] -> [M, N]
    return torch.outer(x, w)
