"""All products in one launch: equal shapes in one tensor are a batch, and the library has a kernel for that."""

import torch


def run(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:  # [G, M, K], [G, K, N] -> [G, M, N]
    return torch.bmm(x, w)
