"""Wrong: two shots with parts of N // ranks elements. What does not fill a part stays this rank's own."""

import torch
import torch.distributed as dist
from torch import Tensor


def run(x: Tensor) -> Tensor:  # this rank's [C, N] -> the sums over all ranks, in place
    ranks, rank = dist.get_world_size(), dist.get_rank()
    part = x.shape[1] // ranks
    shown = [torch.empty_like(x) for _ in range(ranks)]
    dist.all_gather(shown, x)
    own = slice(rank * part, (rank + 1) * part)
    total = sum(message[:, own] for message in shown).contiguous()
    parts = [torch.empty_like(total) for _ in range(ranks)]
    dist.all_gather(parts, total)
    x[:, : ranks * part] = torch.cat(parts, 1)
    return x
