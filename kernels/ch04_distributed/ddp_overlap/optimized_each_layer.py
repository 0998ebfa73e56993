"""The same with a bucket for every layer: the least to wait for, and the most collectives."""

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from stack import Stack, forward_and_backward, shared
from torch import Tensor


def prepare(x: Tensor, weights: Tensor, dy: Tensor) -> Callable[..., Tensor]:
    model = Stack(shared(weights))
    gradients = torch.empty_like(weights)
    handles: list[Any] = []
    for parameter, place in zip(model.layers, gradients.unbind(), strict=True):
        parameter.grad = place
        parameter.register_post_accumulate_grad_hook(
            lambda parameter: handles.append(dist.all_reduce(parameter.grad, async_op=True))
        )

    def step(x: Tensor, _: Tensor, dy: Tensor) -> Tensor:  # this rank's -> the mean over all ranks, [L, D, D]
        gradients.zero_()
        handles.clear()
        forward_and_backward(model, x, dy)
        for handle in handles:
            handle.wait()
        return gradients.div_(dist.get_world_size())

    return step


def run(x: Tensor, weights: Tensor, dy: Tensor) -> Tensor:
    return prepare(x, weights, dy)(x, weights, dy)
