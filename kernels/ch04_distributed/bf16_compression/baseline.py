"""fp32 on the link: scaled, then summed over the ranks."""

import torch.distributed as dist
from torch import Tensor


def run(grads: Tensor) -> Tensor:  # this rank's [N] -> the mean over all ranks, in place
    grads.mul_(1 / dist.get_world_size())
    dist.all_reduce(grads)
    return grads
