"""The library: a message sent and one received as one operation, by NCCL on GPUs and by gloo on a CPU."""

import torch
import torch.distributed as dist
from torch import Tensor


def run(x: Tensor) -> Tensor:  # this rank's [N] -> the [N] of the rank before
    rank, ranks = dist.get_rank(), dist.get_world_size()
    y = torch.empty_like(x)
    send = dist.P2POp(dist.isend, x, (rank + 1) % ranks)
    receive = dist.P2POp(dist.irecv, y, (rank - 1) % ranks)
    for handle in dist.batch_isend_irecv([send, receive]):
        handle.wait()
    return y
