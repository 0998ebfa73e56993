"""The ring: a rank's keys and values visit every rank, each under the work on those before."""

from collections.abc import Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor


def rounds(k: Tensor, v: Tensor) -> Iterator[tuple[int, Tensor, Tensor]]:
    """Yield the rank that keys and values began at, and both; the next ones are on their way meanwhile."""
    ranks, rank = dist.get_world_size(), dist.get_rank()
    here = [k, v]
    for step in range(ranks):
        handles: list[Any] = []
        coming = here
        if step < ranks - 1:
            coming = [torch.empty_like(each) for each in here]
            messages = [dist.P2POp(dist.isend, each, (rank + 1) % ranks) for each in here]
            messages += [dist.P2POp(dist.irecv, each, (rank - 1) % ranks) for each in coming]
            handles = dist.batch_isend_irecv(messages)
        yield (rank - step) % ranks, here[0], here[1]
        for handle in handles:
            handle.wait()
        here = coming
