"""One all-reduce per parameter, as a loop over model.parameters() does it."""

import torch.distributed as dist
from torch import Tensor


def run(grads: Tensor) -> Tensor:  # this rank's [T, N] -> the mean over all ranks, in place
    for gradient in grads.unbind():
        dist.all_reduce(gradient)
    return grads.div_(dist.get_world_size())
