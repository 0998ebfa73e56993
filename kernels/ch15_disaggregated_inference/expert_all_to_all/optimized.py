"""No counts: every rank has a slot for each token that could come, and the host waits for nothing."""

import torch
import torch.distributed as dist
from experts import expert, places
from torch import Tensor


def run(x: Tensor, ids: Tensor, scales: Tensor) -> Tensor:  # this rank's [T, D], [T], [E, D] -> [T, D]
    ranks, each = dist.get_world_size(), len(scales)
    tokens = len(ids)
    slots = places(ids // each, ranks, tokens)
    rows = x.new_zeros(ranks * tokens, x.shape[1])
    local = ids.new_zeros(ranks * tokens)
    rows[slots] = x
    local[slots] = ids % each
    here, which = torch.empty_like(rows), torch.empty_like(local)
    dist.all_to_all_single(here, rows)
    dist.all_to_all_single(which, local)
    dist.all_to_all_single(rows, expert(here, which, scales))  # empty slots are computed too, and read by nobody
    return rows[slots]
