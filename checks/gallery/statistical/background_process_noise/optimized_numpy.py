"""NumPy's product, whose BLAS has a pool of threads of its own."""

import torch


def run(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(a.numpy() @ b.numpy())
