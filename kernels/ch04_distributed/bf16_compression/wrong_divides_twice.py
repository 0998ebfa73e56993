"""Wrong: scales before the sum, so that it cannot overflow, and divides after it out of habit."""

import torch
import torch.distributed as dist
from torch import Tensor


def run(grads: Tensor) -> Tensor:  # this rank's [N] -> the mean over all ranks, in place
    narrow = torch.empty_like(grads, dtype=torch.bfloat16)
    torch.mul(grads, 1 / dist.get_world_size(), out=narrow)
    dist.all_reduce(narrow)
    return grads.copy_(narrow).div_(dist.get_world_size())
