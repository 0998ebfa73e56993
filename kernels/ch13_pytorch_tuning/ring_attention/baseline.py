"""Gather all keys and values, then attend to this rank's own rows and to all that stand before them."""

import torch.distributed as dist
from blocks import attend, merge
from torch import Tensor


def run(q: Tensor, k: Tensor, v: Tensor) -> Tensor:  # this rank's [S, H, D] each -> [S, H, D]
    before = dist.get_rank() * len(q)  # rows; what the ranks behind this one hold lies in the future
    keys, values = (each.new_empty(dist.get_world_size() * len(each), *each.shape[1:]) for each in (k, v))
    dist.all_gather_into_tensor(keys, k)
    dist.all_gather_into_tensor(values, v)
    part, lse = attend(q, k, v, causal=True)
    out = part.float()
    if before:
        merge(out, lse, *attend(q, keys[:before], values[:before], causal=False))
    return out.to(q.dtype)
