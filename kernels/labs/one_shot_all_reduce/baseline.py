"""One all-reduce of the library's for each message, one after the other, as the layers of a model call it."""

import torch.distributed as dist
from torch import Tensor


def run(x: Tensor) -> Tensor:  # this rank's [C, N] -> the sums over all ranks, in place
    for message in x.unbind():
        dist.all_reduce(message)
    return x
