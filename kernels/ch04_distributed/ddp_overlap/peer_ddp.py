"""torch.nn.parallel.DistributedDataParallel, as its documentation recommends it, with gradients as views of buckets."""

from collections.abc import Callable

import torch
from stack import Stack, forward_and_backward, shared
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel


def prepare(x: Tensor, weights: Tensor, dy: Tensor) -> Callable[..., Tensor]:
    model = Stack(shared(weights))
    ids = [x.device.index] if x.is_cuda else None
    parallel = DistributedDataParallel(model, device_ids=ids, gradient_as_bucket_view=True)

    def step(x: Tensor, _: Tensor, dy: Tensor) -> Tensor:  # this rank's -> the mean over all ranks, [L, D, D]
        parallel.zero_grad(set_to_none=False)
        forward_and_backward(parallel, x, dy)
        return torch.stack([parameter.grad for parameter in model.layers])

    return step


def run(x: Tensor, weights: Tensor, dy: Tensor) -> Tensor:
    return prepare(x, weights, dy)(x, weights, dy)
