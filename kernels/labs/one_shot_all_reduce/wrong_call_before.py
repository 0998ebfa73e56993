"""Wrong: reads the others' blocks before they have been filled, and finds the messages of the call before."""

from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import Tensor


def prepare(x: Tensor) -> Callable[..., Tensor]:
    block = torch.zeros_like(x)  # what the other ranks see of this one

    def step(x: Tensor) -> Tensor:  # this rank's [C, N] -> the sums over all ranks, in place
        own, seen = x.clone(), [torch.empty_like(block) for _ in range(dist.get_world_size())]
        dist.all_gather(seen, block)
        seen[dist.get_rank()] = own
        x.zero_()
        for message in seen:
            x.add_(message)
        block.copy_(own)
        return x

    return step


def run(x: Tensor) -> Tensor:
    return prepare(x)(x)
