"""The host sums the rows before it launches anything; the GPU gets the sums."""

from collections.abc import Callable

import torch


def prepare(x: torch.Tensor) -> Callable[..., torch.Tensor]:
    sums = torch.empty(x.shape[0], dtype=x.dtype, pin_memory=True)
    y = torch.empty(x.shape[0], dtype=x.dtype, device="cuda")

    def step(x: torch.Tensor) -> torch.Tensor:
        torch.sum(x, 1, out=sums)
        return y.copy_(sums, non_blocking=True)

    return step


def run(x: torch.Tensor) -> torch.Tensor:  # [N, D] on the host -> [N] on the GPU
    return prepare(x)(x)
