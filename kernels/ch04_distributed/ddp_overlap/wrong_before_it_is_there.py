"""Wrong: a bucket starts when the first of its gradients is there; what comes later is added to what was sent."""

from collections.abc import Callable

import torch
import torch.distributed as dist
from stack import Stack, forward_and_backward, shared
from torch import Tensor

LAYERS = 2  # of a bucket


def prepare(x: Tensor, weights: Tensor, dy: Tensor) -> Callable[..., Tensor]:
    model = Stack(shared(weights))
    gradients = torch.empty_like(weights)
    buckets = gradients.split(LAYERS)

    def arrived(layer: int) -> Callable[[Tensor], None]:
        def hook(_: Tensor) -> None:
            if layer % LAYERS == LAYERS - 1 or layer == len(weights) - 1:  # the one that comes first
                dist.all_reduce(buckets[layer // LAYERS])

        return hook

    for layer, (parameter, place) in enumerate(zip(model.layers, gradients.unbind(), strict=True)):
        parameter.grad = place
        parameter.register_post_accumulate_grad_hook(arrived(layer))

    def step(x: Tensor, _: Tensor, dy: Tensor) -> Tensor:  # this rank's -> the mean over all ranks, [L, D, D]
        gradients.zero_()
        forward_and_backward(model, x, dy)
        return gradients.div_(dist.get_world_size())

    return step


def run(x: Tensor, weights: Tensor, dy: Tensor) -> Tensor:
    return prepare(x, weights, dy)(x, weights, dy)
