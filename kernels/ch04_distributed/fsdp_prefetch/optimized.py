"""Prefetch: the next layer's weights are gathered under this layer's products, and gradients are reduced under them."""

from typing import Any

import torch
import torch.distributed as dist
from stack import forward_and_backward
from torch import Tensor


def run(x: Tensor, shards: Tensor, dy: Tensor) -> Tensor:  # [B, D], this rank's [L, R, D], [B, D] -> [L, R, D]
    ranks = dist.get_world_size()
    layers, rows, columns = shards.shape
    order = [*range(layers), *reversed(range(layers))]  # in which layers are asked for
    wholes = shards.new_empty(2, ranks * rows, columns)  # one in use, one on its way
    gradients = torch.empty_like(shards)
    gathers: list[Any] = []
    reductions: list[Any] = []
    kept: list[Tensor] = []

    def gather() -> None:
        turn = len(gathers)  # its buffer was used last by products that are in the stream already
        gathers.append(dist.all_gather_into_tensor(wholes[turn % 2], shards[order[turn]], async_op=True))

    def weight(_: int) -> Tensor:
        turn = len(gathers) - 1
        gathers[turn].wait()
        if len(gathers) < len(order):
            gather()
        return wholes[turn % 2]

    def reduce(layer: int, gradient: Tensor) -> None:
        kept.append(gradient)  # nobody may have its memory before it is sent
        reductions.append(dist.reduce_scatter_tensor(gradients[layer], gradient, async_op=True))

    gather()
    forward_and_backward(x, dy, layers, weight, reduce)
    for handle in reductions:
        handle.wait()
    return gradients.div_(ranks)
