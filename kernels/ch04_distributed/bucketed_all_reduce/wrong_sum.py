"""Wrong: the sum and not the mean. Every rank agrees with every other, and the learning rate has doubled."""

import torch.distributed as dist
from torch import Tensor


def run(grads: Tensor) -> Tensor:  # this rank's [T, N] -> the sum over all ranks, in place
    dist.all_reduce(grads)
    return grads
