"""Copy in and sum every row on the GPU, in buffers that are made once."""

from collections.abc import Callable

import torch


def prepare(x: torch.Tensor) -> Callable[..., torch.Tensor]:
    on_device = torch.empty(x.shape, dtype=x.dtype, device="cuda")
    y = torch.empty(x.shape[0], dtype=x.dtype, device="cuda")

    def step(x: torch.Tensor) -> torch.Tensor:
        on_device.copy_(x, non_blocking=True)
        return torch.sum(on_device, 1, out=y)

    return step


def run(x: torch.Tensor) -> torch.Tensor:  # [N, D] on the host -> [N] on the GPU
    return prepare(x)(x)
