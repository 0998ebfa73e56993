"""One matrix product on the current stream."""

import torch


def run(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:  # [N, D], [D, D] -> [N, D]
    return torch.mm(x, w)
