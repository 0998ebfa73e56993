"""The workspace is made once; every call computes its result in it."""

from collections.abc import Callable

import torch


def prepare(x: torch.Tensor, w: torch.Tensor) -> Callable[..., torch.Tensor]:
    workspace = torch.empty(x.shape[0], w.shape[1], dtype=x.dtype, device=x.device)

    def step(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return torch.mm(x, w, out=workspace)

    return step


def run(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:  # [N, D], [D, D] -> [N, D]
    return prepare(x, w)(x, w)
