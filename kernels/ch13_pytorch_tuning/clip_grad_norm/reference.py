"""The truth, in fp64: all gradients as one vector, scaled down where it is longer than 1."""

import torch


def run(grads: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    norm = torch.sqrt((grads * grads).sum())
    return grads * torch.minimum(torch.ones_like(norm), 1.0 / (norm + 1e-6)), norm
