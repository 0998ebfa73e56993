"""Wrong: bucket boundaries by //. What does not fill a bucket is never reduced, and stays this rank's own."""

import torch.distributed as dist
from torch import Tensor

BUCKETS = 4


def run(grads: Tensor) -> Tensor:  # this rank's [T, N] -> the mean over all ranks, in place
    flat = grads.view(-1)
    size = max(flat.numel() // BUCKETS // 64, 1) * 64  # whole cache lines
    for start in range(0, flat.numel() - size + 1, size):
        bucket = flat[start : start + size]
        dist.all_reduce(bucket)
        bucket.div_(dist.get_world_size())
    return grads
