"""PyTorch's own one-shot kernel over symmetric memory, with the copy into it, captured into one graph."""

from collections.abc import Callable

import torch
import torch.distributed as dist
import torch.distributed._symmetric_memory as symm_mem
from graphs import replayed
from torch import Tensor


def prepare(x: Tensor) -> Callable[..., Tensor]:
    group = dist.group.WORLD.group_name
    block = symm_mem.empty(x.shape[1], dtype=x.dtype, device=x.device)
    symm_mem.rendezvous(block, group)

    def step(x: Tensor) -> Tensor:  # this rank's [C, N] -> the sums over all ranks, in place
        for message in x.unbind():
            torch.ops.symm_mem.one_shot_all_reduce_copy_out(block, message, "sum", group, message)
        return x

    return replayed(step, x)


def run(x: Tensor) -> Tensor:
    return prepare(x)(x)
