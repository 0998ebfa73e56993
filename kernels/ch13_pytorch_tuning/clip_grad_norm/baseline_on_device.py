"""The same two loops, but the norm is a tensor from beginning to end: 600 launches and no wait."""

from collections.abc import Callable

import torch
from clipping import coefficient


def prepare(grads: torch.Tensor) -> Callable[..., tuple[torch.Tensor, torch.Tensor]]:
    tensors = list(grads.unbind())

    def step(*_: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        norm = torch.linalg.vector_norm(torch.stack([g.norm() for g in tensors]))
        factor = coefficient(norm)
        for g in tensors:
            g.mul_(factor)
        return grads, norm

    return step


def run(grads: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return prepare(grads)()
