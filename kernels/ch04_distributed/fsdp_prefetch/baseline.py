"""Gather a layer's weights when it is their turn, and reduce its gradients when they are there: one after the other."""

import torch
import torch.distributed as dist
from stack import forward_and_backward
from torch import Tensor


def run(x: Tensor, shards: Tensor, dy: Tensor) -> Tensor:  # [B, D], this rank's [L, R, D], [B, D] -> [L, R, D]
    ranks = dist.get_world_size()
    layers, rows, columns = shards.shape
    whole = shards.new_empty(ranks * rows, columns)
    gradients = torch.empty_like(shards)

    def weight(layer: int) -> Tensor:
        dist.all_gather_into_tensor(whole, shards[layer])
        return whole

    def reduce(layer: int, gradient: Tensor) -> None:
        dist.reduce_scatter_tensor(gradients[layer], gradient)

    forward_and_backward(x, dy, layers, weight, reduce)
    return gradients.div_(ranks)
