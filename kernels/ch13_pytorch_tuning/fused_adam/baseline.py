"""A loop over the parameter tensors: eight small kernels for each of them."""

from collections.abc import Callable

import torch
from adamw import update_


def prepare(
    params: torch.Tensor, grads: torch.Tensor, exp_avg: torch.Tensor, exp_avg_sq: torch.Tensor
) -> Callable[..., tuple[torch.Tensor, ...]]:
    tensors = [*zip(params.unbind(), grads.unbind(), exp_avg.unbind(), exp_avg_sq.unbind(), strict=True)]

    def step(*_: torch.Tensor) -> tuple[torch.Tensor, ...]:
        for p, g, m, v in tensors:
            update_(p, g, m, v)
        return params, exp_avg, exp_avg_sq

    return step


def run(*inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return prepare(*inputs)()
