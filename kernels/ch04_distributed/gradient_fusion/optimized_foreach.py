"""One multi-tensor call: each of its few kernels carries a table of some dozens of tensors."""

from collections.abc import Callable

import torch
from torch import Tensor


def prepare(main_grad: Tensor, grads: Tensor) -> Callable[..., Tensor]:
    totals, gradients = list(main_grad.unbind()), list(grads.unbind())

    def step(*_: Tensor) -> Tensor:
        torch._foreach_add_(totals, gradients)
        return main_grad

    return step


def run(main_grad: Tensor, grads: Tensor) -> Tensor:  # [T, N], [T, N] -> main_grad [T, N]
    return prepare(main_grad, grads)()
