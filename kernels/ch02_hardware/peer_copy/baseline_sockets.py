"""Through the host and its sockets: `x.cpu()`, a message, `.to(device)`: what is written where nothing is prepared."""

import torch
import torch.distributed as dist
from shared import HOSTS
from torch import Tensor


def run(x: Tensor) -> Tensor:  # this rank's [N] -> the [N] of the rank before
    rank, ranks = dist.get_rank(), dist.get_world_size()
    mine = x.cpu()
    theirs = torch.empty_like(mine)
    handles = [
        dist.isend(mine, (rank + 1) % ranks, group=HOSTS),
        dist.irecv(theirs, (rank - 1) % ranks, group=HOSTS),
    ]
    for handle in handles:
        handle.wait()
    return theirs.to(x.device)
