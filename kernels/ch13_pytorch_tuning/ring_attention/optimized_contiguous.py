"""The ring with rows left where they are: the last rank works in every round, the first one in its own only."""

import torch.distributed as dist
from blocks import attend, merge
from ring import rounds
from torch import Tensor


def run(q: Tensor, k: Tensor, v: Tensor) -> Tensor:  # this rank's [S, H, D] each -> [S, H, D]
    rank = dist.get_rank()
    for source, keys, values in rounds(k, v):
        if source == rank:
            part, lse = attend(q, keys, values, causal=True)
            out = part.float()
        elif source < rank:
            merge(out, lse, *attend(q, keys, values, causal=False))
    return out.to(q.dtype)
